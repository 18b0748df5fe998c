#!/bin/bash
# SPDX-License-Identifier: MIT
# The best model of a run, and ending when evaluations no longer get better.
. "$(dirname "$0")/lib.sh"

awk 'BEGIN { for (i = 0; i < 120; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
# Held-out text of another kind: learning the first by heart makes it worse before long.
awk 'BEGIN { for (i = 0; i < 60; i++) print "then", i * 37, "ships of trees came by" }' >"$work/held"
common=(train --model tiny --data "$work/text" --eval-data "$work/held" --max-seq-length 16
    --per-device-train-batch-size 4 --learning-rate 1e-2 --lr-scheduler-type constant --eval-steps 3
    --max-steps 60 --save-steps 0 --save-total-limit 1 --threads 2 --json --quiet)

run "${common[@]}" --output-dir "$work/a" --load-best-model-at-end
check $((code != 0)) "train with --load-best-model-at-end" "$err"
losses=$(grep -oE '"eval_loss": [0-9.]+, "eval_tokens"' <<<"$out" | grep -oE '[0-9.]+')
[[ $(wc -l <<<"$losses") -eq 20 ]]
check $? "an evaluation every 3 of 60 steps" "$out"
least=$(sort -g <<<"$losses" | head -1)
best=$(json best_step)
[[ $(json best_eval_loss) == "$least" && $(sed -n "$((best / 3))p" <<<"$losses") == "$least" && $best -lt 60 ]]
check $? "the best step is the one with the least loss, before the end" "$out"
[[ -d $work/a/checkpoint-$best && -d $work/a/checkpoint-60 && $(ls -d "$work"/a/checkpoint-* | wc -l) -eq 2 ]]
check $? "the best snapshot and the last one are kept" "$(ls "$work/a")"
run eval --model "$work/a" --data "$work/held" --max-seq-length 16 --per-device-eval-batch-size 4 --json
[[ -n $least && $(json loss) == "$least" ]]
check $? "the model written is the best one: $(json loss), $least"
run eval --model "$work/a/checkpoint-60" --data "$work/held" --max-seq-length 16 --json
[[ $(json loss) != "$least" ]]
check $? "and not the last one"

# Patience.
run "${common[@]}" --output-dir "$work/b" --early-stopping-patience 2 --load-best-model-at-end
steps=$(json steps)
[[ $code -eq 0 && $(json stopped_early) == true && $steps -lt 60 && $((steps - $(json best_step))) -eq 6 ]]
check $? "ends two evaluations after the best one" "$out"
whole=$(json state_digest)
sum=$(md5sum <"$work/b/model.safetensors")
run "${common[@]}" --output-dir "$work/c" --early-stopping-patience 2 --load-best-model-at-end --stop-at-step $((steps - 2))
[[ $code -eq 0 && $(json stopped_early) == false && ! -e $work/c/model.safetensors ]]
check $? "stopped before" "$out$err"
run "${common[@]}" --output-dir "$work/c" --early-stopping-patience 2 --load-best-model-at-end --resume
[[ $(json steps) == "$steps" && $(json state_digest) == "$whole" && $(md5sum <"$work/c/model.safetensors") == "$sum" ]]
check $? "resumed: ends at the same step with the same model" "$out$err"
run "${common[@]}" --output-dir "$work/c" --early-stopping-patience 2 --load-best-model-at-end --resume
[[ $(json steps) == "$steps" && $(json stopped_early) == true && $(md5sum <"$work/c/model.safetensors") == "$sum" ]]
check $? "a run that has ended stays ended" "$out$err"
run "${common[@]}" --output-dir "$work/c" --early-stopping-patience 3 --load-best-model-at-end --resume
[[ $(json steps) -eq $((steps + 3)) ]]
check $? "more patience: one evaluation more" "$out$err"
grep -q '"eval_loss"' <<<"$out"
check $? "which is printed" "$out"

# What does not go together.
expect 2 'load-best-model-at-end: the option needs --eval-data or --validation-split' train --model tiny \
    --data "$work/text" --max-seq-length 16 --output-dir "$work/x" --load-best-model-at-end
expect 2 'early-stopping-patience: the option needs --eval-data' train --model tiny --data "$work/text" \
    --max-seq-length 16 --output-dir "$work/x" --early-stopping-patience 2
expect 2 'early-stopping-patience: the option needs --eval-steps' "${common[@]}" --output-dir "$work/x" \
    --early-stopping-patience 2 --eval-steps 0
expect 2 'metric-for-best-model' "${common[@]}" --output-dir "$work/x" --metric-for-best-model accuracy
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
finish
