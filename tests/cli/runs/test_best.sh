#!/bin/bash
# SPDX-License-Identifier: MIT
# The best model of a run, and ending when evaluations no longer get better.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 120; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
# Held-out text of another kind: learning the first by heart makes it worse before long.
awk 'BEGIN { for (i = 0; i < 60; i++) print "then", i * 37, "ships of trees came by" }' >"$work/held"
common=(train --model tiny --data "$work/text" --eval-data "$work/held" --max-seq-length 16
    --per-device-train-batch-size 4 --learning-rate 1e-2 --lr-scheduler-type constant --eval-steps 3
    --max-steps 60 --save-steps 0 --save-total-limit 1 --threads 2 --json --quiet)

run "${common[@]}" --output-dir "$work/a" --load-best-model-at-end
check $((code != 0)) "train with --load-best-model-at-end" "$err"
losses=$(grep '"eval_tokens"' <<<"$out" | grep -oE '"eval_loss": [0-9.]+' | grep -oE '[0-9.]+')
[[ $(wc -l <<<"$losses") -eq 20 ]]
check $? "an evaluation every 3 of 60 steps" "$out"
least=$(sort -g <<<"$losses" | head -1)
best=$(json best_step)
[[ $(json best_eval_loss) == "$least" && $(sed -n "$((best / 3))p" <<<"$losses") == "$least" && $best -lt 60 ]]
check $? "the best step is the one with the least loss, before the end" "$out"
[[ -d $work/a/checkpoint-$best && -d $work/a/checkpoint-60 && $(ls -d "$work"/a/checkpoint-* | wc -l) -eq 2 ]]
check $? "the best checkpoint and the last one are kept" "$(ls "$work/a")"
run eval --model "$work/a" --data "$work/held" --max-seq-length 16 --per-device-eval-batch-size 4 --json
[[ -n $least && $(json loss) == "$least" ]]
check $? "the model written is the best one: $(json loss), $least"
run eval --model "$work/a/checkpoint-60" --data "$work/held" --max-seq-length 16 --json
[[ $(json loss) != "$least" ]]
check $? "and not the last one"

# verifies face-25.a06d
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

# Patience that cannot run out is told: with the default of 500 steps nothing is evaluated in time.
run "${common[@]}" --output-dir "$work/p" --early-stopping-patience 2 --eval-steps 500
[[ $code -eq 0 && $err == *'the run cannot end early: it has 0 evaluations before its last step, every 500 of 60 steps, and would need 3'* ]]
check $? "a run that cannot end early says so" "$err"
run "${common[@]}" --output-dir "$work/p" --early-stopping-patience 2 --resume
[[ $code -eq 0 && $err != *'cannot end early'* ]]
check $? "one that can does not" "$err"

# A threshold: ever smaller gains are no gains. Without it this run goes to its end.
run "${common[@]}" --output-dir "$work/t0" --eval-data "$work/text" --learning-rate 1e-4 --early-stopping-patience 2
[[ $code -eq 0 && $(json stopped_early) == false && $(json steps) -eq 60 ]]
check $? "it gets better all the time" "$out$err"
run "${common[@]}" --output-dir "$work/t1" --eval-data "$work/text" --learning-rate 1e-4 --early-stopping-patience 2 \
    --early-stopping-threshold 100
[[ $code -eq 0 && $(json stopped_early) == true && $(json steps) -eq 9 && $(json best_step) -eq 9 ]]
check $? "but not by 100" "$out$err"

# The other metrics of a language model follow the loss, and greater may be better.
run "${common[@]}" --output-dir "$work/m" --load-best-model-at-end --metric-for-best-model eval_perplexity
[[ $code -eq 0 && $(json best_step) == "$best" ]] &&
    awk -v a="$(json best_eval_perplexity)" -v b="$least" 'BEGIN { exit !(a / exp(b) - 1 < 1e-9 && a / exp(b) - 1 > -1e-9) }'
check $? "perplexity" "$out$err"
run "${common[@]}" --output-dir "$work/g" --load-best-model-at-end --greater-is-better true
[[ $code -eq 0 && $(json best_eval_loss) == "$(sort -gr <<<"$losses" | head -1)" ]]
check $? "the greatest loss, if that is wanted" "$out$err"

# Rows whose labels are noise: training learns them by heart, and what is held out gets no better.
awk 'BEGIN { srand(5); for (i = 0; i < 64; i++) printf "%d\t%d ships of %d trees\n", rand() < 0.5, rand() * 1000, rand() * 1000 }' >"$work/noise.tsv"
awk 'BEGIN { srand(6); for (i = 0; i < 64; i++) printf "%d\t%d ships of %d trees\n", rand() < 0.5, rand() * 1000, rand() * 1000 }' >"$work/held.tsv"
noise=(train --model tiny --task classification --data "$work/noise.tsv" --eval-data "$work/held.tsv" --max-seq-length 24
    --per-device-train-batch-size 8 --learning-rate 3e-3 --lr-scheduler-type constant --eval-strategy epoch
    --save-strategy no --num-train-epochs 40 --threads 2 --json --quiet)
for metric in loss accuracy eval_f1_macro; do
    run "${noise[@]}" --output-dir "$work/n-$metric" --early-stopping-patience 3 --load-best-model-at-end --metric-for-best-model $metric
    key=best_eval_${metric#eval_}
    [[ $code -eq 0 && $(json stopped_early) == true && $(json steps) -lt 320 && $(($(json steps) - $(json best_step))) -eq 24 ]]
    check $? "noise ends three epochs after the best $metric" "$out$err"
    best_of=$(grep -oE "\"eval_${metric#eval_}\": [^,}]*" <<<"$(head -n -1 <<<"$out")" | sed 's/.*: //' |
        sort -g$([[ $metric == loss ]] || echo r) | head -1)
    [[ -n $best_of && $(json "$key") == "$best_of" ]]
    check $? "which is $best_of" "$(json "$key")"
done
run "${noise[@]}" --output-dir "$work/n-all" --num-train-epochs 2.5 --logging-steps 7 --logging-first-step --save-strategy epoch
[[ $code -eq 0 && $(grep -oE '"step": [0-9]+, "epoch": [0-9.]+, "eval_loss"' <<<"$out" | tr -d '\n') == \
    '"step": 8, "epoch": 1, "eval_loss""step": 16, "epoch": 2, "eval_loss""step": 20, "epoch": 2.5, "eval_loss"' ]]
check $? "evaluated after each epoch and at the end" "$out$err"
[[ $(ls -d "$work"/n-all/checkpoint-* | sed 's/.*-//' | sort -n | tr '\n' ' ') == '8 16 20 ' ]]
check $? "saved after each epoch and at the end" "$(ls "$work/n-all")"
[[ $(grep -oE '"step": [0-9]+, "epoch": [0-9.]+, "loss"' <<<"$out" | grep -oE '"step": [0-9]+' | tr -d '\n') == \
    '"step": 1"step": 7"step": 14"step": 20' ]]
check $? "a line of the first step" "$out"
run "${common[@]}" --output-dir "$work/s" --save-strategy best --eval-strategy steps --save-total-limit 0
[[ $code -eq 0 && -d $work/s/checkpoint-$best && -d $work/s/checkpoint-60 && $(json best_step) == '' ]]
check $? "saved when an evaluation is the best one" "$(ls "$work/s")"
run "${common[@]}" --output-dir "$work/no" --eval-strategy no --save-strategy no --eval-steps 1 --save-steps 1
[[ $code -eq 0 && $(grep -c '"eval_tokens"' <<<"$out") -eq 1 && $(ls -d "$work"/no/checkpoint-* | wc -l) -eq 1 ]]
check $? "only at the end" "$out"

# The order of the data has a seed of its own.
run "${common[@]}" --output-dir "$work/d0" --max-steps 5
usual=$(json state_digest)
run "${common[@]}" --output-dir "$work/d1" --max-steps 5 --data-seed 42
[[ $(json state_digest) == "$usual" ]]
check $? "--data-seed is --seed by itself" "$out$err"
run "${common[@]}" --output-dir "$work/d2" --max-steps 5 --data-seed 43 --stop-at-step 2
expect 2 'data-seed differs' "${common[@]}" --output-dir "$work/d2" --max-steps 5 --data-seed 44 --resume
run "${common[@]}" --output-dir "$work/d2" --max-steps 5 --data-seed 43 --resume
[[ $code -eq 0 && $(json state_digest) != "$usual" ]]
check $? "another order" "$out$err"
run "${common[@]}" --output-dir "$work/d3" --max-steps 0 --data-seed 43
other=$(json state_digest)
run "${common[@]}" --output-dir "$work/d4" --max-steps 0
[[ $code -eq 0 && $(json state_digest) == "$other" ]]
check $? "of the same weights" "$out$err"

# What does not go together.
expect 2 'load-best-model-at-end: the option needs --eval-data or --validation-split' train --model tiny \
    --data "$work/text" --max-seq-length 16 --output-dir "$work/x" --load-best-model-at-end
expect 2 'early-stopping-patience: the option needs --eval-data' train --model tiny --data "$work/text" \
    --max-seq-length 16 --output-dir "$work/x" --early-stopping-patience 2
expect 2 'early-stopping-patience: the option needs --eval-steps' "${common[@]}" --output-dir "$work/x" \
    --early-stopping-patience 2 --eval-steps 0
expect 2 '--metric-for-best-model: unknown metric of this task: found "accuracy", expected loss, perplexity, bits_per_token' \
    "${common[@]}" --output-dir "$work/x" --metric-for-best-model accuracy
expect 2 'early-stopping-patience: the option needs .*--eval-strategy epoch' "${common[@]}" --output-dir "$work/x" \
    --early-stopping-patience 2 --eval-strategy no
expect 2 'eval-strategy: the option needs --eval-data' train --model tiny --data "$work/text" \
    --max-seq-length 16 --output-dir "$work/x" --eval-strategy epoch
for never in --keep-best "--save-strategy best"; do
    # shellcheck disable=SC2086
    expect 2 "${never#--}: the option needs --eval-data or --validation-split" train --model tiny --data "$work/text" \
        --max-seq-length 16 --output-dir "$work/x" $never
done
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
finish
