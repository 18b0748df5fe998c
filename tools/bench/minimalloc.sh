#!/bin/bash
# SPDX-License-Identifier: MIT
# The planner beside another one with minimalloc's command line, as a Markdown table: whole commands (reading the CSV, solving,
# writing the offsets), best of TRIALS (3), the two by turns. Each file is NAME.CAPACITY.csv, as google/minimalloc calls its
# benchmarks. Every layout of bedplate is checked apart from it; the last line says how many of them were faster.
#
#     tools/bench/minimalloc.sh MINIMALLOC DIRECTORY
set -eu
other=${1:?the other planner} directory=${2:?a directory of NAME.CAPACITY.csv}
bedplate=${BEDPLATE:-build/release/bedplate} trials=${TRIALS:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TIMEFORMAT=%R

# seconds COMMAND..: wall-clock time; ends the script when the command fails.
seconds() {
    { time "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" || { cat "$work/err" >&2; exit 1; }
    tail -1 "$work/time"
}

least() { awk -v a="$1" -v b="$2" 'BEGIN {print a + 0 < b + 0 ? a : b}'; }

# No two rows that live at one time share bytes, and none ends above the capacity.
sound() {
    awk -F, -v capacity="$1" '
        NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; next}
        {lower[NR] = $at["lower"]; upper[NR] = $at["upper"]; low[NR] = $at["offset"]; high[NR] = low[NR] + $at["size"]
         if (high[NR] > capacity) bad = 1
         for (i = 2; i < NR; i++)
             if (lower[i] < upper[NR] && lower[NR] < upper[i] && low[i] < high[NR] && low[NR] < high[i]) bad = 1}
        END {exit bad}' "$2"
}

echo "| instance | buffers | bedplate, s | other, s | times faster |"
echo "|---|---|---|---|---|"
faster=0 all=0
for file in "$directory"/*.csv; do
    capacity=$(basename "$file" .csv)
    name=${capacity%%.*} capacity=${capacity##*.}
    ours=1e9 theirs=1e9
    for ((i = 0; i < trials; i++)); do
        ours=$(least "$ours" "$(seconds "$bedplate" arena "$file" --capacity "$capacity")")
        cp "$work/out" "$work/layout.csv"
        theirs=$(least "$theirs" "$(seconds "$other" --capacity="$capacity" --input="$file" --output="$work/other.csv")")
    done
    sound "$capacity" "$work/layout.csv" || { echo "$name: the layout is wrong" >&2; exit 1; }
    awk -v n="$name" -v r="$(($(wc -l <"$file") - 1))" -v a="$ours" -v b="$theirs" \
        'BEGIN {printf "| %s | %d | %.3f | %.2f | %.*f |\n", n, r, a, b, b / a < 10, b / a}'
    all=$((all + 1))
    faster=$((faster + $(awk -v a="$ours" -v b="$theirs" 'BEGIN {print a + 0 < b + 0}')))
done
echo
echo "$faster of $all instances are solved faster than by the other."
