#!/bin/bash
# SPDX-License-Identifier: MIT
# Ranks share evaluations out: the numbers, the record and the best checkpoint are those of one rank, for tasks whose metrics
# are made of every row's logits, and for losses over pairs.
# verifies ranks-1.6186
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 48; i++) printf "{\"prompt\": \"say %d\", \"chosen\": \" yes %d\", \"rejected\": \" no %d\"}\n",
    i, i * i % 7, i % 3 }' >"$work/preferred.jsonl"
awk 'BEGIN { for (i = 0; i < 70; i++) printf "{\"text\": \"%s\", \"label\": %d}\n", substr("abcdefghijklmnopqrst", 1, 1 + i * 7 % 19), i % 2 }' \
    >"$work/classes.jsonl"

# evaluated NAME OPTIONS..: what evaluations said; the files are in $work/NAME.
evaluated() {
    local name=$1
    shift
    rm -rf "$work/run" "${work:?}/$name"
    run train --gradient-accumulation-steps 8 --per-device-train-batch-size 2 --virtual-ranks 8 --max-steps 2 --eval-steps 1 \
        --validation-split 0.5 --threads 1 --json --save-strategy best --output-dir "$work/run" "$@"
    numbers=$(grep -o '"eval_[^"]*": *[^,}]*' <<<"$out" | grep -v eval_batches)
    [[ ! -e $work/run ]] || mv "$work/run" "$work/$name"
}

# alike METRIC OPTIONS..
alike() {
    local metric=$1
    shift
    evaluated one "$@"
    local right=$numbers
    [[ $code -eq 0 && $right == *"\"eval_$metric\""* ]]
    check $? "one rank: $*" "$out$err"
    for ranks in "2 --fabric-seed 3" "8 --shard parameters"; do
        evaluated several --fabric threads:$ranks "$@"
        [[ $code -eq 0 && $numbers == "$right" ]]
        check $? "$ranks ranks: $*" "$numbers, right would be $right; $err"
        diff -r -x events.jsonl "$work/one" "$work/several" >/dev/null
        check $? "$ranks ranks write the same files: $*" "$(diff -rq "$work/one" "$work/several")"
    done
}

alike accuracy --model tiny-bert --task classification --data "$work/classes.jsonl" --max-seq-length 24 --length-buckets 8,16
alike rewards/accuracies --model tiny --task dpo --data "$work/preferred.jsonl" --max-seq-length 32

# The file of the reference's log-probabilities that is gone is made again by all.
evaluated one --model tiny --task dpo --data "$work/preferred.jsonl" --max-seq-length 32
right=$numbers
rm -rf "$work/run"
two=(train --gradient-accumulation-steps 8 --per-device-train-batch-size 2 --virtual-ranks 8 --max-steps 2 --eval-steps 1
    --validation-split 0.5 --threads 1 --json --save-strategy best --output-dir "$work/run" --model tiny --task dpo
    --data "$work/preferred.jsonl" --max-seq-length 32 --fabric threads:2)
run "${two[@]}" --stop-at-step 1
rm "$work/run/reference.logps"
run "${two[@]}" --resume
[[ $code -eq 0 && $err == *'computed again'* && $right == *"$(grep -o '"eval_loss": *[^,}]*' <<<"$out" | tail -1)"* ]] &&
    cmp "$work/one/reference.logps" "$work/run/reference.logps"
check $? "a reference that is gone" "$out$err"
finish
