#!/bin/bash
# SPDX-License-Identifier: MIT
# Layouts of large public traces, as a Markdown table: buffers, lower bound, waste, processor seconds. Each layout is checked
# apart from the planner. A file is minimalloc's CSV (id, lower, upper, size), as cappadokes/idealloc has them in
# benchmarks/iopddl (G_1, S_1, Y_1) and benchmarks/somas_tensors.
#
#     tools/bench/layouts.sh FILE.csv..
set -eu
bedplate=${BEDPLATE:-build/release/bedplate}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TIMEFORMAT='%U %S'
printf '| trace | buffers | lower bound, bytes | waste, bytes | processor, s |\n|---|---|---|---|---|\n'
for file in "$@"; do
    seconds=$({ time "$bedplate" arena "$file" >"$work/layout.csv" 2>"$work/err"; } 2>&1) || { cat "$work/err" >&2; exit 1; }
    python3 - "$work/layout.csv" "$(basename "$file" .csv)" "$seconds" <<'P'
import bisect
import csv
import sys

with open(sys.argv[1], encoding="ascii") as file:
    rows = [{k: int(row[k]) for k in ("lower", "upper", "size", "offset")} for row in csv.DictReader(file)]
events, placed, top, live, most = [], [], 0, 0, 0
for row in rows:
    if row["size"] and row["lower"] < row["upper"]:
        spot = (row["offset"], row["offset"] + row["size"])
        events += [(row["lower"], 1, spot), (row["upper"], 0, spot)]
        top = max(top, spot[1])
for _, begins, spot in sorted(events):
    if not begins:
        placed.remove(spot)
        live -= spot[1] - spot[0]
        continue
    at = bisect.bisect(placed, spot)
    if (at and placed[at - 1][1] > spot[0]) or (at < len(placed) and placed[at][0] < spot[1]):
        sys.exit("the layout is wrong: two buffers that live at one time share bytes")
    placed.insert(at, spot)
    live += spot[1] - spot[0]
    most = max(most, live)
print(f"| {sys.argv[2]} | {len(rows):,} | {most:,} | {top - most:,} | {sum(map(float, sys.argv[3].split())):.1f} |")
P
done
