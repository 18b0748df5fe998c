#!/bin/bash
# SPDX-License-Identifier: MIT
# Every file says its licence in one of its first three lines, and C files their purpose after it.
bad=$(tools/check/sources.sh all | while read -r file; do
    head -3 "$file" | grep -q 'SPDX-License-Identifier: MIT' ||
        echo "$file: no line 'SPDX-License-Identifier: MIT' at the top"
    case $file in
    *.c | *.h | *.def) head -2 "$file" | tail -1 | grep -q '^/\* [^ *]' ||
        echo "$file: line 2 is not a comment that says what the file is for" ;;
    esac
done)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
