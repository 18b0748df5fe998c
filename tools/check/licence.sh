#!/bin/bash
# SPDX-License-Identifier: MIT
# Every file says its licence in one of its first three lines, and C files their purpose after it.
bad=$(tools/check/sources.sh all | xargs awk '
    /SPDX-License-Identifier: MIT/ { licensed[FILENAME] = 1 }
    FNR == 2 && /^\/\* [^ *]/ { purpose[FILENAME] = 1 }
    FNR == 3 { nextfile }
    END {
        for (i = 1; i < ARGC; i++) {
            if (!(ARGV[i] in licensed)) print ARGV[i] ": no line '\''SPDX-License-Identifier: MIT'\'' at the top"
            if (ARGV[i] ~ /\.(c|h|def)$/ && !(ARGV[i] in purpose))
                print ARGV[i] ": line 2 is not a comment that says what the file is for"
        }
    }')
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
