#!/bin/bash
# SPDX-License-Identifier: MIT
# static.sh VERSION FINDINGS [COUNTS DEVIATIONS]: findings per rule (RULE tab PLACE in each line) beside what
# static.counts allows. A rule that has more fails, and so does one that has no line in static.deviations;
# with another version of the tool rises are told only, since rules change with it.
here=$(dirname "$0")
counts=${3:-$here/static.counts}
deviations=${4:-$here/static.deviations}
awk -F'\t' -v version="$1" -v counts="$counts" -v deviations="$deviations" '
    BEGIN {
        while ((getline line < counts) > 0) {
            if (line ~ /^# version /) recorded = substr(line, 11)
            else if (line !~ /^#/ && split(line, part, " ") == 2) { allowed[part[2]] = part[1]; seen[part[2]] }
        }
        while ((getline line < deviations) > 0)
            if (line !~ /^#/ && split(line, part, "\t") >= 4) reason[part[1]] = 1
    }
    NF >= 2 { found[$1]++; seen[$1] }
    END {
        print "rule\tfound\tallowed"
        for (rule in seen) {
            print rule "\t" found[rule] + 0 "\t" allowed[rule] + 0 | "LC_ALL=C sort"
            total += found[rule]
            if (found[rule] + 0 > allowed[rule] + 0) more = more "FAILED: " rule ": " found[rule] " findings, allowed are " allowed[rule] + 0 "\n"
            if (found[rule] + 0 < allowed[rule] + 0) fewer = fewer "fewer: " rule ": " found[rule] + 0 " findings; static.counts may say so\n"
            if (found[rule] > 0 && !(rule in reason)) silent = silent "FAILED: " rule ": no line of static.deviations says why\n"
        }
        close("LC_ALL=C sort")
        other = recorded != version
        if (other) gsub("FAILED", "more", more)
        printf "%s%s%s", more, silent, fewer
        print total + 0 " findings" (other ? "; static.counts was made by " recorded ", not by " version : "")
        exit (more != "" && !other) || silent != ""
    }' "$2"
