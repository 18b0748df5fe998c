#!/bin/bash
# SPDX-License-Identifier: MIT
# Training with shared state: every form on every number of ranks gives the digest, the losses and
# the files of one rank, byte for byte, and a run goes on with another form and number of ranks.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
forms="optimizer gradients parameters"

# trained NAME OPTIONS..: three steps; the files are in $work/NAME, whatever they were called.
trained() {
    local name=$1
    shift
    rm -rf "$work/run" "${work:?}/$name"
    continued "$name" "$@"
}

continued() {
    local name=$1
    shift
    [[ ! -e $work/$name ]] || mv "$work/$name" "$work/run"
    run train --max-seq-length 16 --per-device-train-batch-size 1 --gradient-accumulation-steps 8 \
        --max-steps 3 --threads 1 --json --save-steps 2 --output-dir "$work/run" "$@"
    digest=$(sed -nE 's/.*"state_digest": *"([0-9a-f]+)".*/\1/p' <<<"$out" | tail -1)
    losses=$(sed -nE 's/.*"loss": *([^,}]+).*"grad_norm": *([^,}]+).*/\1 \2/p' <<<"$out")
    [[ ! -e $work/run ]] || mv "$work/run" "$work/$name"
}

alike() {
    trained one --virtual-ranks 8 "$@"
    local right=$digest numbers=$losses
    [[ $code -eq 0 && -n $right && -n $numbers ]]
    check $? "one rank: $*" "$err"
    for form in $forms; do
        turn=$((10 - ${turn:-8}))
        for ranks in 2 8; do
            long_form || [[ $ranks -eq $turn ]] || continue # one number of ranks for each form
            trained several --virtual-ranks 8 --fabric threads:$ranks --fabric-seed $((ranks == 2 ? 5 : 0)) --shard $form "$@"
            [[ $code -eq 0 && $digest == "$right" && $losses == "$numbers" ]]
            check $? "$form on $ranks: $*" "$digest, right would be $right; $err"
            diff -r -x events.jsonl "$work/one" "$work/several" >/dev/null
            check $? "$form on $ranks writes the same files: $*" "$(diff -rq "$work/one" "$work/several")"
        done
    done
}

alike --model tiny --data "$work/text" --dropout 0.1 --optim lion
alike --model tiny --data "$work/text" --bf16 --optim adamw_8bit --max-grad-norm 0.3 --poison
alike --model tiny-llama --data "$work/text" --gradient-release --max-grad-norm 0
alike --model tiny-llama --data "$work/text" --bf16 --optim adopt --gradient-release
alike --model tiny-llama --data "$work/text" --bf16 --lora-r 4 --load-in-4bit
alike --model tiny-llama --data "$work/text" --lora-r 4 --trainable-token-indices 3,32,97-122
alike --model tiny-bert --data "$work/text" --task masked-lm --validation-split 0.2 --eval-steps 2 --fp16
alike --model tiny-gru --data "$work/text" --gradient-release previous-norm --gradient-checkpointing full

# Lanes of several micro-batches: stages go through them one after the other, and what two stages
# share is added up in the order of micro-batches all the same, or refused.
several=(--virtual-ranks 2 --gradient-accumulation-steps 4 --data "$work/text")
for model in tiny tiny-llama tiny-gru; do
    trained one --model $model "${several[@]}"
    right=$digest
    for form in gradients parameters; do
        trained parts --model $model "${several[@]}" --fabric threads:2 --shard $form
        [[ $code -eq 0 && -n $right && $digest == "$right" ]]
        check $? "$model, $form, two micro-batches a lane" "$digest, right would be $right; $err"
    done
done
rows=(--model tiny-llama --lora-r 2 --trainable-token-indices 32,97-122)
trained one "${rows[@]}" "${several[@]}"
right=$digest
trained parts "${rows[@]}" "${several[@]}" --fabric threads:2 --shard gradients
[[ $code -eq 0 && -n $right && $digest == "$right" ]]
check $? "and rows of a table that a head is tied to" "$digest, right would be $right; $err"
expect 2 'word_embeddings.*two stages share.*--virtual-ranks' train --model tiny-bert --task masked-lm \
    "${several[@]}" --max-seq-length 16 --per-device-train-batch-size 1 --fabric threads:2 --shard gradients \
    --output-dir "$work/none"

# verifies ranks-3.d7df
# Weights of more than one unit are shared out themselves, codes too, and gathered so far ahead.
mkdir "$work/wide"
echo '{"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2,
    "n_inner": 4200}' >"$work/wide/config.json"
for more in "" "--lora-r 4 --load-in-4bit" "--lora-r 4 --load-in-8bit"; do
    trained one --virtual-ranks 8 --model "$work/wide" --data "$work/text" $more
    right=$digest
    for ahead in 0 2; do
        trained several --virtual-ranks 8 --model "$work/wide" --data "$work/text" $more --fabric threads:$((2 + ahead)) \
            --shard parameters --shard-ahead $ahead
        [[ $code -eq 0 && -n $right && $digest == "$right" ]]
        check $? "$ahead weights ahead $more" "$digest, right would be $right; $err"
        diff -r -x events.jsonl "$work/one" "$work/several" >/dev/null
        check $? "$ahead weights ahead $more: the files of one rank" "$(diff -rq "$work/one" "$work/several")"
    done
done

# verifies ranks-3.d7df
# From 8 ranks to 2 of another form, to one.
trained one --virtual-ranks 8 --model tiny --data "$work/text"
right=$digest
trained parts --virtual-ranks 8 --model tiny --data "$work/text" --fabric threads:8 --shard gradients --stop-at-step 1
continued parts --model tiny --data "$work/text" --resume --fabric threads:2 --shard optimizer --stop-at-step 2
continued parts --model tiny --data "$work/text" --resume
[[ $code -eq 0 && $digest == "$right" ]]
check $? "8 ranks, 2, 1" "$digest, right would be $right; $err"

# Every rank chooses the same form, with the same bits.
arena=$("$program" plan --model tiny --ranks 2 --virtual-ranks 8 --shard gradients --max-seq-length 16 --json \
    --per-device-train-batch-size 1 --gradient-accumulation-steps 8 |
    grep -oE '"largest_arena_bytes": *[0-9]+' | grep -oE '[0-9]+$')
trained parts --virtual-ranks 8 --model tiny --data "$work/text" --fabric threads:2 --shard auto --arena "$arena"
[[ $code -eq 0 && $digest == "$right" && $out == *'"shard_candidates"'* ]]
check $? "--shard auto in $arena bytes" "$digest, right would be $right; $err $out"

# Links are measured where there are some.
expect 0 'fabric: threads, 2 ranks: --latency [0-9.e-]+ --bandwidth [0-9.e+]+' bench fabric \
    --fabric threads:2 --repeat 3
expect 2 '--fabric: there is one rank' bench fabric
finish
