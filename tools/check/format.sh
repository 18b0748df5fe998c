#!/bin/bash
# SPDX-License-Identifier: MIT
# C files look as clang-format 14 with the root's .clang-format makes them.
command -v clang-format-14 >/dev/null || { echo "clang-format-14 is not installed"; exit 77; }
bad=$(tools/check/sources.sh code | xargs -r clang-format-14 --dry-run -Werror 2>&1 |
    grep -oE '^[^ :]+:[0-9]+' | awk -F: '!seen[$1]++')
[[ -z $bad ]] && exit 0
sed 's/$/: not as clang-format-14 -i writes it/' <<<"$bad"
exit 1
