#!/bin/bash
# SPDX-License-Identifier: MIT
# How many tokens a language model guesses right: as it generates them, in the planned bytes, as what best means.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of ale" }' >"$work/text"
printf '12 bottles of ale' >"$work/line"
lm=(--data "$work/text" --validation-split 0.1 --max-seq-length 16 --learning-rate 3e-3 --eval-steps 20 --threads 2 --json --quiet)
accuracy() { run eval "$@" --token-accuracy --threads 1 --json && json token_accuracy; }

# verifies face-60.7ec1
# Of each beginning of the line the model goes on with the next byte, or with another.
for model in tiny tiny-llama tiny-neox; do
    run train --model $model "${lm[@]}" --max-steps 40 --token-accuracy --output-dir "$work/$model"
    check $code "$model trains" "$err"
    trained=$(json eval_token_accuracy)
    planned=$(json arena_bytes)
    right=0
    for ((t = 1; t < 17; t++)); do
        expect 0 '' generate --model "$work/$model" --prompt "$(head -c $t "$work/line")" --max-new-tokens 1 --temperature 0
        [[ $out == "$(tail -c +$((t + 1)) "$work/line" | head -c 1)"* && -n $out ]] && right=$((right + 1))
    done
    found=$(accuracy --model "$work/$model" --data "$work/line" --max-seq-length 16)
    awk -v a="$found" -v b="$right" 'BEGIN { exit !(b > 0 && b < 16 && a == b / 16) }'
    check $? "$model: $right of 16 bytes are what it goes on with, token_accuracy is $found"
    run plan --model $model "${lm[@]}" --max-steps 40 --token-accuracy
    [[ $(json arena_bytes) == "$planned" ]]
    check $? "$model: $planned bytes are used, $(json arena_bytes) were planned"
    run train --model $model "${lm[@]}" --max-steps 40 --output-dir "$work/without"
    [[ $(json eval_token_accuracy) == '' && -n $trained ]]
    check $? "without the option nothing is counted"
done

# However many sequences run at once, on several ranks, at other lengths.
split=(--data "$work/text" --max-seq-length 16)
whole=$(accuracy --model "$work/tiny" "${split[@]}")
for batch in 1 3; do
    [[ -n $whole && $(accuracy --model "$work/tiny" "${split[@]}" --per-device-eval-batch-size $batch) == "$whole" ]]
    check $? "batches of $batch have the same accuracy, $whole"
done
run train --model tiny "${lm[@]}" --max-steps 4 --gradient-accumulation-steps 2 --virtual-ranks 2 --token-accuracy --output-dir "$work/one"
one=$(json eval_token_accuracy)
run train --model tiny "${lm[@]}" --max-steps 4 --gradient-accumulation-steps 2 --virtual-ranks 2 --token-accuracy --fabric threads:2 --output-dir "$work/two"
[[ $code -eq 0 && -n $one && $(json eval_token_accuracy) == "$one" ]]
check $? "two ranks count as one does, $one" "$err"

# What best means.
run train --model tiny "${lm[@]}" --max-steps 60 --load-best-model-at-end --metric-for-best-model token_accuracy --output-dir "$work/best"
best=$(json best_eval_token_accuracy)
most=$(grep -o '"eval_token_accuracy": [0-9.]*' <<<"$(head -n -1 <<<"$out")" | sed 's/.*: //' | sort -gr | head -1)
[[ $code -eq 0 && -n $best && $best == "$most" ]]
check $? "the best evaluation is the one that guessed most, $best of $most" "$out$err"

# Of masked tokens those that are asked for count; in words.
run train --model tiny-bert --task masked-lm "${lm[@]}" --max-steps 20 --token-accuracy --output-dir "$work/bert"
awk -v a="$(json eval_token_accuracy)" 'BEGIN { exit !(a != "" && a >= 0 && a <= 1) }'
check $? "masked tokens" "$out$err"
expect 0 'token accuracy 0\.[0-9]+' eval --model "$work/tiny" --data "$work/line" --max-seq-length 16 --token-accuracy
expect 2 'goes with causal-lm and masked-lm' plan --model tiny-bert --task classification --num-labels 2 --token-accuracy
expect 2 'goes with causal-lm and masked-lm' plan --model tiny --task orpo --token-accuracy
expect 2 'recurrent net.s logits' plan --model tiny-gru --token-accuracy
awk 'BEGIN { for (i = 0; i < 20; i++) printf "%d\tale %d\n", i % 2, i }' >"$work/rows.tsv"
expect 2 'unknown metric of this task: found "token_accuracy", expected loss, accuracy' train --model tiny-bert --task classification --num-labels 2 --data "$work/rows.tsv" \
    --validation-split 0.3 --metric-for-best-model token_accuracy --load-best-model-at-end --output-dir "$work/x"
finish
