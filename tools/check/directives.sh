#!/bin/bash
# SPDX-License-Identifier: MIT
# Variants are files, not #if: conditions stand only in device/ and arena/config.h. A header's guard
# and the default of a word in kernels.def (#ifndef WORD, #define WORD) are not variants.
# verifies house-10.af84
bad=$(tools/check/sources.sh library | grep -vE '^device/|^arena/config\.h$' | xargs awk '
    function settle() { if (held != "") print held }
    FNR == 1 { settle(); held = ""; guards = 0 }
    held != "" {
        split($0, part)
        if ($0 ~ /^#define / && (part[2] == word || index(part[2], word "(") == 1)) held = ""
        settle()
        held = ""
    }
    /^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)/ {
        message = FILENAME ":" FNR ": " $0 ": write variants as files of device/, chosen by a table"
        if ($0 ~ /^#ifndef / && (FILENAME ~ /\.def$/ || guards++ == 0)) {
            held = message
            word = $2
        } else print message
    }
    END { settle() }')
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
