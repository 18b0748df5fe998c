#!/bin/bash
# SPDX-License-Identifier: MIT
# Files of at most 1,500 lines, functions of at most 60 (between their braces) and of at most 8
# parameters, lines of at most 100 columns. A CUDA kernel may have 16 parameters: its launch is a
# list. tools/check/exceptions names what has more, each with its reason.
bad=$(tools/check/sources.sh code | xargs awk '
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
    /^\{/ { opened = FNR; check_parameters() }
    { head = /^[{}#]/ || /^$/ || /;$/ || /\*\/$/ ? "" : head " " $0 }
    /^\}/ && opened {
        if (FNR - opened - 1 > 60 && !excused(FILENAME ":" name))
            print FILENAME ":" opened ": " name " has " FNR - opened - 1 " lines; at most 60"
        opened = 0
    }
    # The parameters are the last list in parentheses before the brace.
    function check_parameters(    i, c, depth, count, most) {
        gsub(/\/\*[^*]*\*\//, "", head)
        count = head ~ /\( *(void)? *\) *$/ ? 0 : 1
        for (i = length(head); i > 0; i--) {
            c = substr(head, i, 1)
            depth += (c == ")") - (c == "(")
            if (c == "," && depth == 1) count++
            if (c == "(" && depth == 0) break
        }
        most = head ~ /BP_KERNEL|__global__/ ? 16 : 8
        if (count > most && !excused(FILENAME ":" name))
            print FILENAME ":" opened ": " name " has " count " parameters; at most " most
    }
    function settle() {
        if (lines > 1500 && !excused(file)) print file ": " lines " lines; at most 1500"
    }
    END { settle() }')
[[ -z $bad ]] && exit 0
echo "$bad"
echo "split it, give it a structure, or give the reason in tools/check/exceptions as: FILE:FUNCTION REASON, or FILE REASON"
exit 1
