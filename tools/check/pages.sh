#!/bin/bash
# SPDX-License-Identifier: MIT
# Pages: the root README has at most 150 lines, every link leads to a file that is there, and to a heading of it
# where it names one (page.md#heading, as GitHub makes anchors), and so does every path and name of a source file that stands in backticks (as it is, from the page's folder, or
# as the name of some file; * matches, words in capitals stand for a name).
# verifies house-8.110b
bad=$(
    lines=$([[ -f README.md ]] && wc -l <README.md)
    [[ ${lines:-0} -le 150 ]] || echo "README.md: $lines lines; at most 150"
    mapfile -t files < <(find . -path ./build -prune -o -path ./.git -prune -o -type f -printf '%P\n' | LC_ALL=C sort)
    names=$(printf '%s\n' "${files[@]##*/}" | LC_ALL=C sort -u)
    declare -A named
    while read -r name; do named[${name:-.}]=1; done <<<"$names"
    there() { # FOLDER PATH
        compgen -G "$1/$2" >/dev/null || compgen -G "$2" >/dev/null && return
        [[ $2 == *[*]* ]] || { [[ -n ${named[$2]:-} ]]; return; }
        [[ $2 != */* ]] && grep -qxE -- "$(sed 's/\./\\./g; s/\*/.*/g' <<<"$2")" <<<"$names"
    }
    # PAGE#ANCHOR of every heading.
    mapfile -t pages < <(printf '%s\n' "${files[@]}" | grep '\.md$')
    declare -A anchors
    [[ ${#pages[@]} -eq 0 ]] || while read -r anchor; do anchors[$anchor]=1; done < <(LC_ALL=C awk '
        FNR == 1 { fence = 0 }
        /^ *```/ { fence = !fence }
        fence || !/^#+ / { next }
        {
            sub(/^#+ +/, ""); sub(/ +#*$/, "")
            while (match($0, /\[[^][]*\]\([^)]*\)/)) {
                part = substr($0, RSTART + 1, RLENGTH - 1); sub(/\].*/, "", part)
                $0 = substr($0, 1, RSTART - 1) part substr($0, RSTART + RLENGTH)
            }
            slug = tolower($0); gsub(/[^a-z0-9_ -]/, "", slug); gsub(/ /, "-", slug)
            slug = FILENAME "#" slug
            print slug (n[slug]++ ? "-" n[slug] - 1 : "")
        }' "${pages[@]}")
    [[ ${#pages[@]} -eq 0 ]] || LC_ALL=C awk '
        FNR == 1 { fence = cells = 0 }
        /^```/ { fence = !fence }
        fence || !/^\|/ { cells = 0; next }
        {
            row = $0
            gsub(/\\\|/, "", row)
            now = gsub(/\|/, "", row)
            if (cells > 0 && now != cells) printf "%s:%d: the row of the table has %d cells, not %d\n", FILENAME, FNR, now - 1, cells - 1
            cells = cells > 0 ? cells : now
        }' "${pages[@]}"
    while read -r page; do
        folder=$(dirname "$page")
        while IFS=: read -r line link; do
            link=${link#](}
            link=${link%)}
            [[ $link =~ ^(https?:|#) ]] || [[ -e $folder/${link%%#*} ]] ||
                echo "$page:$line: no such file: $link"
            [[ $link == *'#'* && ! $link =~ ^https?: ]] || continue
            target=$page
            [[ $link == '#'* ]] || target=$(realpath -m --relative-to=. "$folder/${link%%#*}")
            [[ $target != *.md || ! -e $target || -n ${anchors[$target#${link#*#}]:-} ]] ||
                echo "$page:$line: no such heading: $link"
        done < <(grep -noE '\]\([^) ]+\)' "$page")
        while IFS=: read -r line path; do
            path=${path//\`/}
            [[ $path =~ [A-Z]{2} && ! $path =~ README ]] || there "$folder" "$path" ||
                echo "$page:$line: no such file: $path"
        done < <(grep -noE '`[A-Za-z0-9_.*/-]+`' "$page" | grep -E ':`((arena|core|layers|optim|device|tests|tools|docs)/|[^`]+\.(c|h|def|sh|py|cu|cuh|ptx|mk|md)`)')
    done < <(printf '%s\n' "${pages[@]}")
)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
