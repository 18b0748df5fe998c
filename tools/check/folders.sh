#!/bin/bash
# SPDX-License-Identifier: MIT
# A folder has at most 45 source files and says what is in it: README.md of at most 60 lines. All of the product
# (arena, core, layers, optim, device, tools; without PTX and pages) stays within the lines of tools/check/budget.
most=45
page=60
bad=$(
    tools/check/sources.sh all | grep '/' | sed 's|/[^/]*$||' | LC_ALL=C sort | uniq -c |
        awk -v most=$most '$1 > most { print $2 ": " $1 " source files; at most " most ". Split it by subject" }'
    # Tests of one source folder lie in a folder of the same name, and need no page of their own.
    tools/check/sources.sh all | grep '/' | grep -vE '^tests/(unit|golden|fuzz|ptxvm|assurance)/|^\.ci/' |
        sed 's|/[^/]*$||' | LC_ALL=C sort -u | while read -r folder; do
        if [[ ! -f $folder/README.md ]]; then
            echo "$folder: no README.md: what is here, where to start, how to add one"
        elif [[ $folder == */*/* && $(wc -l <"$folder/README.md") -gt $page ]]; then
            echo "$folder/README.md: more than $page lines"
        fi
    done
    if [[ -f tools/check/budget ]]; then
        budget=$(awk '!/^#/ { print $1; exit }' tools/check/budget)
        lines=$(find arena core layers optim device tools -type f ! -name '*.ptx' ! -name '*.md' ! -name '*.pyc' \
            -exec cat {} + | wc -l)
        [[ $lines -le $budget ]] ||
            echo "the product has $lines lines; tools/check/budget has $budget: delete what this replaces, or say there what was gained"
    fi
)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
