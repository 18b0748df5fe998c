#!/bin/bash
# SPDX-License-Identifier: MIT
# Each block of commands in docs/getting-started and docs/how-to does what a reader expects of it: it is run as pasted,
# in the order of the page, in a scratch folder that has small models and data under the names of the pages
# (tests/house/pages_fixture.sh). A comment on the line above a block says what is special about it:
#   <!-- file: NAME -->       the block is that file's contents; its rows are repeated until there are enough to train
#   <!-- exit: N -->          its last command ends with N
#   <!-- not run: REASON -->  what this machine cannot do: network, a GPU, root, ..
# BEDPLATE names another program, such as an installed one; arguments name pages.
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
program=$(realpath "$(command -v "${BEDPLATE:-${BUILD:-build/release}/bedplate}")") || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
skipped=0
mkdir "$work/bin" "$work/fixture" "$work/home"
ln -s "$program" "$work/bin/bedplate"
export PATH=$work/bin:$PATH HOME=$work/home ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
unset MAKEFLAGS MAKELEVEL
. tests/house/pages_fixture.sh
(pages_fixture "$program" "$root" "$work/fixture") 2>"$work/made" || { echo "FAILED: no fixture: $(tail -5 "$work/made")"; failed=1; }
# Programs take the links for the directories.
blocks() { # PAGE FOLDER: N.LINE.KIND files, the kind sh, file or skip, with their marks beside them
    awk -v folder="$2" '
        function open_block(kind) { out = sprintf("%s/%03d.%d.%s", folder, ++n, FNR, kind); printf "%s", mark >out ".mark"; close(out ".mark"); printf "" >out }
        /^<!-- (file|exit|not run): .* -->$/ { mark = $0; sub(/^<!-- /, "", mark); sub(/ -->$/, "", mark); next }
        /^```/ && inside { inside = 0; mark = ""; close(out); out = ""; next }
        /^```/ { inside = 1; out = ""; if (mark ~ /^file/) open_block("file"); else if (/^```sh/) open_block(mark ~ /^not/ ? "skip" : "sh"); next }
        inside { if (out != "") print >out; next }
        /^    / && (blank || out != "") {
            if (blank && out == "" && (/^    (bedplate|make|hf|mpirun) / || mark != "")) open_block(mark ~ /^file/ ? "file" : mark ~ /^not/ ? "skip" : "sh")
            if (out != "") print substr($0, 5) >out
            blank = 0
            next
        }
        { blank = /^$/; if (!blank) { if (out != "") close(out); out = ""; mark = "" } else if (out != "") { close(out); out = ""; mark = "" } }
    ' "$1"
}
# put FILE NAME: the rows of a block, repeated; the first line of a table once.
put() {
    mkdir -p "$(dirname "$2")"
    rm -f "$2"
    case $2 in
    *.csv | *.tsv) { cat "$1"; for _ in {1..11}; do tail -n +2 "$1"; done; } >"$2" ;;
    *.jsonl | *.txt) for _ in {1..12}; do cat "$1"; done >"$2" ;;
    *) cp "$1" "$2" ;;
    esac
}
page_blocks() { # PAGE
    local page=$1 folder block name mark wanted code bare
    folder=$work/$(tr / _ <<<"$page")
    mkdir -p "$folder/blocks" "$folder/scratch"
    cp -r "$work/fixture/." "$folder/scratch"
    blocks "$page" "$folder/blocks"
    bare=$(awk '/^```/ { if (!inside && $0 == "```") print FNR; inside = !inside }' "$page" | tr '\n' ' ')
    if [[ -n $bare ]]; then # neither run nor marked as what is not run
        failed=$((failed + 1))
        echo "FAILED: $page: blocks without a language at the lines $bare"
    fi
    cd "$folder/scratch" || return
    for block in "$folder"/blocks/*.{sh,file,skip}; do
        [[ -f $block ]] && echo "$block"
    done | LC_ALL=C sort >"$folder/list"
    # A page may begin with a command and show its data below.
    while read -r block; do
        mark=$(cat "$block.mark")
        [[ $block != *.file ]] || put "$block" "${mark#file: }"
    done <"$folder/list"
    while read -r block; do
        name=$page:$(cut -d. -f2 <<<"${block##*/}")
        mark=$(cat "$block.mark")
        case $block in
        *.skip) skipped=$((skipped + 1)) reasons+="${mark#not run: }"$'\n' ;;
        *.file) ;;
        *)
            wanted=0
            [[ $mark != exit:* ]] || wanted=${mark#exit: }
            printf 'Hello\nTell me more.\n' | timeout 1200 bash -e "$block" >"$folder/out" 2>&1
            code=$?
            if [[ $code -eq $wanted ]]; then passed=$((passed + 1)); else
                failed=$((failed + 1))
                echo "FAILED: $name: exit $code, wanted $wanted: $(head -c 300 "$block")"
                tail -5 "$folder/out" | cut -c 1-400
            fi
            ;;
        esac
    done <"$folder/list"
    cd "$root" || return
    rm -rf "$folder"
}
pages=("$@")
[[ $# -gt 0 ]] || mapfile -t pages < <(printf '%s\n' docs/getting-started/*.md docs/how-to/*.md | grep -v 'README\.md$')
reasons=''
for page in "${pages[@]}"; do
    before=$((passed + failed + skipped))
    page_blocks "$page"
    [[ $((passed + failed + skipped)) -gt $before ]]
    if [[ $? -ne 0 ]]; then
        failed=$((failed + 1))
        echo "FAILED: $page has no command"
    fi
done
[[ $skipped -eq 0 ]] || printf '%s' "$reasons" | LC_ALL=C sort | uniq -c | sed 's/^ */skipped: blocks that are not run: /'
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
