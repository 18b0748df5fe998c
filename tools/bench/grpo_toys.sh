#!/bin/bash
# SPDX-License-Identifier: MIT
# Toy tasks learned by rewards from random weights (docs/how-to/grpo.md): the first step of every fifth with a reward above 0.97 and
# 0.99, and seconds of processor time of as many steps; the reference runs in PyTorch stop at the first above 0.99. One thread.
# Usage: tools/bench/grpo_toys.sh [SEED]
set -eu
program=${BEDPLATE:-build/release/bedplate}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$(dirname "$0")/grpo_toys.py" "$work"
printf '%-10s %6s %6s %9s %9s\n' task '>.97' '>.99' 's, user' 'PyTorch'
how=(train --task grpo --model "$work/toy" --reward places --num-generations 8 --per-device-train-batch-size 128 --max-completion-length 4
    --learning-rate 1e-3 --lr-scheduler-type constant --weight-decay 0 --seed "${1:-42}" --threads 1 --json --quiet --output-dir "$work/out"
    --overwrite-output-dir)
first() { python3 -c '
import re, sys
print(next((a for a, b in re.findall(r"\"step\": *(\d+).*?\"reward\": *([0-9.]+)", open(sys.argv[1]).read()) if float(b) > float(sys.argv[2])), "-"))
' "$work/log" "$1"; }
# toy TASK MOST REFERENCE: at most so many steps.
toy() {
    local TIMEFORMAT='%U' took
    "$program" "${how[@]}" --data "$work/$1.jsonl" --max-steps "$2" --logging-steps 5 >"$work/log" 2>&1
    local good best
    good=$(first 0.97) best=$(first 0.99)
    took=$({ time "$program" "${how[@]}" --data "$work/$1.jsonl" --max-steps "${best/-/$2}" --logging-steps 1000 >"$work/out.log" 2>&1; } 2>&1)
    printf '%-10s %6s %6s %9s %9s\n' "$1" "$good" "$best" "$took" "$3"
}
toy constant 80 0.8
toy copy 400 3.5
toy sort 1000 11
