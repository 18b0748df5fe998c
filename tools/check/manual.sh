#!/bin/bash
# SPDX-License-Identifier: MIT
# The option tables of docs/manual.md and docs/bedplate.1, and the families of docs/families.md, are those of the program, and the program's
# help has every option of the man page for every command; exit codes of statuses are explained.
# verifies face-17.21b5
maker=$BUILD/tools/docs/manual
[[ -x $maker ]] || { echo "there is no $maker: run make check"; exit 1; }
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
bad=$(
    tools/docs/manual.sh "$maker" "$made" || exit
    for page in manual.md families.md bedplate.1; do
        diff "docs/$page" "$made/$page" >"$made/difference" ||
            { echo "docs/$page: run make manual"; head -10 "$made/difference"; }
    done
    # VERB OPTION of the page's tables, and of what the verbs' help says.
    "$BUILD/bedplate" --help | sed -n 's/^  bedplate \([a-z]*\) .*/\1/p' >"$made/verbs"
    while read -r verb; do
        "$BUILD/bedplate" "$verb" --help all | sed -n "s/^  \(--[a-z0-9-]*\).*/$verb \1/p"
    done <"$made/verbs" | LC_ALL=C sort >"$made/help"
    awk -v verbs="$(tr '\n' ' ' <"$made/verbs")" '
        /^\.TP$/ { option = "" }
        /^\\fB\\-\\-/ { option = $1; gsub(/\\-/, "-", option); gsub(/\\f[A-Z]/, "", option) }
        option != "" && /^\(.*\)$/ {
            n = split($0 == "(every command)" ? verbs : substr($0, 2, length($0) - 2), of, /[ ,]+/)
            for (i = 1; i <= n; i++) if (of[i] != "") print of[i], option
        }' docs/bedplate.1 | LC_ALL=C sort | diff "$made/help" - |
        sed -n 's/^</only in the help: /p; s/^>/only in the man page: /p'
    # Every exit code that a status stands for is explained.
    sed -nE 's/^ *\[BP_[A-Z]+(_[A-Z]+)?\] = \{".*", ([0-9]+)\},$/\2/p' core/base/error.c | sort -u |
        while read -r code; do
            grep -qxF ".B $code" docs/bedplate.1 || echo "no word of exit code $code in docs/bedplate.1"
        done
)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
