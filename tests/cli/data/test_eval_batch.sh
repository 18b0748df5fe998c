#!/bin/bash
# SPDX-License-Identifier: MIT
# --per-device-eval-batch-size in training: planned to the byte, and without a trace in losses and state.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of ale" }' >"$work/text"
awk 'BEGIN { for (i = 0; i < 40; i++) print i * 7, "ships came by, and", i, "went" }' >"$work/held"
awk 'BEGIN { for (i = 0; i < 50; i++) printf "%d\t%s\n", i % 3, substr("a ship of many trees and bottles of stout", 1, 5 + i * 7 % 37) }' >"$work/rows.tsv"
head -21 "$work/rows.tsv" >"$work/held.tsv"
lm=(--model tiny --data "$work/text" --eval-data "$work/held" --max-seq-length 16 --per-device-train-batch-size 4 --threads 1)
classes=(--model tiny-bert --task classification --num-labels 3 --data "$work/rows.tsv" --eval-data "$work/held.tsv"
    --max-seq-length 40 --per-device-train-batch-size 4 --gradient-accumulation-steps 2 --threads 1)

# verifies face-23.839c
# same NAME OPTIONS..: every batch of evaluations gives the same losses and state, in the planned bytes.
same() {
    local name=$1 loss='' digest='' usual='' found planned
    shift
    for batch in 0 1 4 3 9; do
        run plan "$@" --per-device-eval-batch-size $batch --json
        planned=$(json arena_bytes)
        [[ $batch -lt 5 && $err != *enlarge* ]] || [[ $batch -eq 9 ]]
        check $? "$name: $batch enlarges nothing" "$err"
        run train "$@" --per-device-eval-batch-size $batch --output-dir "$work/$name-$batch" --max-steps 4 --eval-steps 2 --json --quiet
        found=$(json eval_loss)
        loss=${loss:-$found} digest=${digest:-$(json state_digest)} usual=${usual:-$planned}
        [[ $code -eq 0 && $(json state_digest) == "$digest" && $(json arena_bytes) == "$planned" ]]
        check $? "$name: $batch: the state is the same, $planned bytes are planned and used" "$out$err"
        awk -v a="$found" -v b="$loss" 'BEGIN { d = a - b; exit !(b != "" && (d < 0 ? -d : d) <= 1e-12 * b) }'
        check $? "$name: $batch: the loss $found is $loss"
        [[ $batch -gt 4 ]] || [[ $planned == "$usual" ]]
        check $? "$name: $batch: not a byte more than $usual"
    done
}
same lm "${lm[@]}"
same classes "${classes[@]}"
same released "${lm[@]}" --gradient-release --bf16 --max-grad-norm 0
same gru "${lm[@]}" --model tiny-gru

# More than the steps need is said, by plan and by train, and what it costs.
run plan "${lm[@]}" --json
usual=$(json arena_bytes)
run plan "${lm[@]}" --per-device-eval-batch-size 64 --json
[[ $code -eq 0 && $(json arena_bytes) -gt $usual && $(json eval_batch_enlarges_bytes) -eq $(($(json arena_bytes) - usual)) ]]
check $? "64 sequences take more than the steps, and plan says how much" "$out$err"
grep -q "evaluations of 64 sequences enlarge the arena by $(($(json arena_bytes) - usual)) bytes" <<<"$err"
check $? "in words, too" "$err"
expect 0 'evaluations of 64 sequences enlarge the arena by' train "${lm[@]}" --per-device-eval-batch-size 64 --max-steps 1 \
    --output-dir "$work/said"
expect 3 'the plan does not fit' train "${lm[@]}" --per-device-eval-batch-size 64 --max-steps 1 --gradient-checkpointing none \
    --gradient-accumulation-steps 1 --loss-chunk-rows 64 --arena "$usual" --output-dir "$work/x"
expect 0 '' eval --model "$work/lm-4" --data "$work/held" --max-seq-length 16
finish
