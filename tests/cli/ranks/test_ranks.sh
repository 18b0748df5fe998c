#!/bin/bash
# SPDX-License-Identifier: MIT
# Any number of ranks that divides the virtual ranks gives the same state, losses and checkpoints: over
# families, precision, policies, gradient release, adapters; what cannot be shared is refused.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 5 ".5,0." i % 7 ",1." i % 3 ",0.2," i % 3 }' >"$work/rows.csv"

# trained NAME OPTIONS..: the state digest after three steps, and each step's loss and norm.
trained() {
    local name=$1
    shift
    rm -rf "$work/$name"
    run train --max-seq-length 16 --per-device-train-batch-size 1 --gradient-accumulation-steps 8 \
        --max-steps 3 --threads 1 --json --save-steps 2 --output-dir "$work/$name" "$@"
    digest=$(sed -nE 's/.*"state_digest": *"([0-9a-f]+)".*/\1/p' <<<"$out" | tail -1)
    losses=$(sed -nE 's/.*"loss": *([^,}]+).*"grad_norm": *([^,}]+).*/\1 \2/p' <<<"$out")
}

# verifies ranks-1.6186
# alike OPTIONS..: 8 virtual ranks on one rank and on several.
alike() {
    trained run --virtual-ranks 8 "$@"
    rm -rf "$work/one"
    mv "$work/run" "$work/one"
    local right=$digest numbers=$losses
    [[ $code -eq 0 && -n $right && -n $numbers ]]
    check $? "8 virtual ranks: $*" "$err"
    turn=$((1 - ${turn:-0}))
    counts='2 8' # in the short form these and '1 4' by turns
    [[ $turn -eq 0 ]] || counts='1 4'
    ! long_form || counts='1 2 4 8'
    for ranks in $counts; do
        trained run --virtual-ranks 8 --fabric threads:$ranks --fabric-seed $ranks "$@"
        [[ $code -eq 0 && $digest == "$right" && $losses == "$numbers" ]]
        check $? "$ranks ranks: $*" "$digest, right would be $right; $err"
        diff -r -x events.jsonl "$work/one" "$work/run" >/dev/null
        check $? "$ranks ranks write the same files: $*" "$(diff -rq "$work/one" "$work/run")"
    done
}

alike --model tiny --data "$work/text" --dropout 0.1
alike --model tiny --data "$work/text" --bf16 --gradient-release --optim adamw_8bit
alike --model tiny --data "$work/text" --fp16 --gradient-checkpointing full
alike --model tiny-llama --data "$work/text" --gradient-release --max-grad-norm 0 --poison
alike --model tiny-qwen3 --data "$work/text" --optim lamb --gradient-checkpointing sqrt
alike --model tiny-llama --data "$work/text" --bf16 --lora-r 4 --load-in-4bit
alike --model tiny-bert --data "$work/text" --task masked-lm --max-grad-norm 0.1
alike --model tiny-gru --data "$work/text" --gradient-release --validation-split 0.2 --eval-steps 2
alike --model tiny-mlp --data "$work/rows.csv" --max-seq-length 4
alike --model tiny --data "$work/text" --gradient-release previous-norm

# A group that is short has virtual ranks and ranks without samples.
head -c 150 "$work/text" >"$work/short"
alike --model tiny --data "$work/short" --max-seq-length 40
alike --model tiny --data "$work/short" --max-seq-length 40 --gradient-release

# A run goes on with another number of ranks, and lanes need not be said again.
trained whole --model tiny --data "$work/text" --virtual-ranks 8
right=$digest
trained parts --model tiny --data "$work/text" --virtual-ranks 8 --fabric threads:8 --stop-at-step 1
run train --max-seq-length 16 --per-device-train-batch-size 1 --gradient-accumulation-steps 8 --max-steps 3 --threads 1 \
    --json --save-steps 2 --output-dir "$work/parts" --model tiny --data "$work/text" --resume --fabric threads:2
digest=$(sed -nE 's/.*"state_digest": *"([0-9a-f]+)".*/\1/p' <<<"$out" | tail -1)
[[ $code -eq 0 && $digest == "$right" ]]
check $? "8 ranks, then 2" "$digest, right would be $right; $err"

# Messages with digests are the same messages.
trained run --model tiny --data "$work/text" --virtual-ranks 8 --fabric threads:4 --fabric-check --fabric-seed 3
[[ $code -eq 0 && $digest == "$right" ]]
check $? "4 ranks that check messages" "$digest, right would be $right; $err"

# refused WORDS OPTIONS..: exit 2 and one line that says why.
refused() {
    local words=$1
    shift
    trained refused --model tiny --data "$work/text" "$@"
    [[ $code -eq 2 && $err == *"$words"* && $(messages <<<"$err" | wc -l) -eq 1 ]]
    check $? "$*: refused (exit $code)" "$err"
}
refused "the number of ranks has to divide" --fabric threads:3
refused "the number of ranks has to divide" --fabric threads:3 --virtual-ranks 8
refused "more ranks than virtual ranks" --fabric threads:4 --virtual-ranks 2
refused "a power of two" --virtual-ranks 6
refused "which is by default the number of ranks: found 8, expected 16" --virtual-ranks 16
refused "which is by default the number of ranks: found 8, expected 16" --fabric threads:2 --virtual-ranks 16
refused "has to be a multiple" --fabric threads:16
refused "no such fabric" --fabric pigeon
refused "out of range" --fabric threads:0
refused "out of range" --fabric threads:17
refused "no tree of fp32 additions" --virtual-ranks 2 --bf16 --gradient-dtype int8
# Threads have the memory of one process: there is too little for all of them.
trained refused --model tiny --data "$work/text" --fabric threads:4 --arena 1M
[[ $code -eq 3 && $(grep -c "the plan does not fit" <<<"$err") -eq 1 && $(grep -c "largest buffer" <<<"$err") -eq 1 ]]
check $? "too little memory for threads (exit $code)" "$err"
refused "no sum over virtual ranks" --virtual-ranks 2 --gradient-release adama --max-grad-norm 0
refused "no connection to protect" --fabric threads:2 --fabric-secret "$work/text"

finish
