#!/bin/bash
# SPDX-License-Identifier: MIT
# Toy tasks that a policy of two layers learns from random weights by rewards alone, the share of right digits: a constant
# answer, and the digits of the prompt. The long form sorts them, too; BP_TEST_LONG=1: until they are sorted.
. "$(dirname "$0")/../lib.sh"

# Eleven tokens, as the reference runs in PyTorch have (19,000 to 44,000 completions there).
python3 tools/bench/grpo_toys.py "$work"

# verifies policy-4.80d1
# learns TASK STEPS REWARD [EVERY]: at the end, or at one of every so many steps, as the reference runs stop at the first such one.
learns() {
    run train --task grpo --model "$work/toy" --data "$work/$1.jsonl" --reward places --num-generations 8 --per-device-train-batch-size 128 \
        --max-completion-length 4 --learning-rate 1e-3 --lr-scheduler-type constant --weight-decay 0 --max-steps "$2" \
        --logging-steps "${4:-$2}" \
        --json --quiet --output-dir "$work/$1"
    reward=$(grep -o '"reward": *[0-9.e+-]*' <<<"$out" | grep -o '[0-9.e+-]*$' | sort -g | tail -1)
    [[ $code -eq 0 ]] && awk -v r="${reward:-0}" -v least="$3" 'BEGIN { exit !(r > least) }'
    check $? "$1: reward $reward after $2 steps, wanted $3" "$out$err"
}
learns constant 40 0.95
learns copy 200 0.95
if [[ -n ${BP_TEST_LONG:-} ]]; then
    learns sort 800 0.99 10
elif long_form; then
    learns sort 250 0.6
fi
finish
