#!/bin/bash
# SPDX-License-Identifier: MIT
# Files of at most 600 lines, functions of at most 60 (between their braces), lines of at most 100
# columns. tools/check/exceptions names those that are longer, each with its reason.
bad=$(tools/check/sources.sh c | xargs awk '
    function excused(thing) { return thing in excuse }
    BEGIN {
        while ((getline line < "tools/check/exceptions") > 0)
            if (line !~ /^#/ && split(line, part) > 1) excuse[part[1]] = 1
    }
    FNR == 1 { if (NR > 1) settle(); file = FILENAME; opened = 0; name = "" }
    { lines = FNR }
    length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns; at most 100" }
    # clang-format puts the braces of functions, and of nothing else that opens with one, in column 1.
    /^[A-Za-z_].*\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
    /^\{/ { opened = FNR }
    /^\}/ && opened {
        if (FNR - opened - 1 > 60 && !excused(FILENAME ":" name))
            print FILENAME ":" opened ": " name " has " FNR - opened - 1 " lines; at most 60"
        opened = 0
    }
    function settle() {
        if (lines > 600 && !excused(file)) print file ": " lines " lines; at most 600"
    }
    END { settle() }')
[[ -z $bad ]] && exit 0
echo "$bad"
echo "split it, or give the reason in tools/check/exceptions as: FILE:FUNCTION REASON, or FILE REASON"
exit 1
