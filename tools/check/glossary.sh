#!/bin/bash
# SPDX-License-Identifier: MIT
# The words: each of docs/glossary.md stands there once, and in an installed header, a page, an option or a message
# beside; a word of tools/check/former_words stands nowhere. What happened (CHANGELOG.md), what other programs made
# and what a device runs keep theirs.
page=docs/glossary.md former=tools/check/former_words
[[ -f $page && -f $former ]] || exit 0
# Trees that keep their words, and the tests that write former ones down.
kept='^(tests/golden|tests/fuzz/corpus|tests/ptxvm|device/cuda/kernels|tools/bench/results|tools/dev|tools/ptxvm)/'
kept+='|^CHANGELOG\.md$|^tests/assurance/kit/known_problems\.md$|^tests/house/test_(rename|move|check)\.sh$|^'$former'$'
mapfile -t files < <(find . \( -path './build*' -o -path './.*' \) -prune -o -type f -printf '%P\n' | grep -vE "$kept" |
    LC_ALL=C sort)
bad=$(
    terms=$(sed -n '/^| word /d; /^|--/d; s/^| \([^|]*\) |.*/\1/p' "$page" | tr ',' '\n' | sed 's/^ *//; s/ *$//')
    LC_ALL=C sort <<<"${terms,,}" | uniq -d | sed "s|.*|$page: \"&\" stands there more than once|"
    mapfile -t speaking < <(printf '%s\n' "${files[@]}" |
        grep -E '\.(h|md|def)$|^tools/bedplate/app/.*\.c$|^docs/' | grep -vxF "$page")
    while read -r term; do
        # As a word, or as a part of a name; several words may have a line's end between them.
        grep -qiE -- "(^|[^a-z])${term// /[ _]}(s|es|[^a-z]|$)" "${speaking[@]}" 2>/dev/null ||
            echo "$page: \"$term\" is used nowhere: take it out"
    done <<<"$terms"
    while IFS=$'\t' read -r expression instead; do
        [[ -z $expression || $expression == \#* ]] ||
            grep -nE -- "$expression" "${files[@]}" 2>/dev/null | cut -c1-160 | sed "s|\$| (a former word; today: $instead)|"
    done <"$former"
)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
