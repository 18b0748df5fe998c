#!/bin/bash
# SPDX-License-Identifier: MIT
# Pages: the root README has at most 150 lines, every link leads to a file that is there, and so does
# every path and name of a source file that stands in backticks (as it is, from the page's folder, or
# as the name of some file; * matches, words in capitals stand for a name).
# verifies house-8.110b
bad=$(
    lines=$([[ -f README.md ]] && wc -l <README.md)
    [[ ${lines:-0} -le 150 ]] || echo "README.md: $lines lines; at most 150"
    mapfile -t files < <(find . -path ./build -prune -o -path ./.git -prune -o -type f -printf '%P\n' | LC_ALL=C sort)
    names=$(printf '%s\n' "${files[@]##*/}" | LC_ALL=C sort -u)
    there() { # FOLDER PATH
        compgen -G "$1/$2" >/dev/null || compgen -G "$2" >/dev/null && return
        [[ $2 != */* ]] && grep -qxE -- "$(sed 's/\./\\./g; s/\*/.*/g' <<<"$2")" <<<"$names"
    }
    while read -r page; do
        folder=$(dirname "$page")
        while IFS=: read -r line link; do
            link=${link#](}
            link=${link%)}
            [[ $link =~ ^(https?:|#) ]] || [[ -e $folder/${link%%#*} ]] ||
                echo "$page:$line: no such file: $link"
        done < <(grep -noE '\]\([^) ]+\)' "$page")
        while IFS=: read -r line path; do
            path=${path//\`/}
            [[ $path =~ [A-Z]{2} && ! $path =~ README ]] || there "$folder" "$path" ||
                echo "$page:$line: no such file: $path"
        done < <(grep -noE '`[A-Za-z0-9_.*/-]+`' "$page" | grep -E ':`((arena|core|layers|optim|device|tests|tools|docs)/|[^`]+\.(c|h|def|sh|py|cu|cuh|ptx|mk|md)`)')
    done < <(printf '%s\n' "${files[@]}" | grep '\.md$')
)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
