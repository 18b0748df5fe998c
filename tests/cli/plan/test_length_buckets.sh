#!/bin/bash
# SPDX-License-Identifier: MIT
# Texts of many lengths: programs for shorter ones give the bits of the padded run, in its arena.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { srand(3); for (i = 0; i < 120; i++) { n = int(3 + rand() * rand() * rand() * 60); t = i % 2 ? "good" : "bad"
    for (k = length(t); k < n; k++) t = t substr("abcde ", 1 + (i * 7 + k * k) % 6, 1)
    printf "{\"text\": \"%s\", \"label\": %d}\n", t, i % 2 } }' >"$work/texts.jsonl"
awk '{ sub(/"label": /, "\"completion\": \" it is "); sub(/"text"/, "\"prompt\""); sub(/}$/, "\"}"); print }' \
    "$work/texts.jsonl" >"$work/pairs.jsonl"
common=(--max-seq-length 64 --per-device-train-batch-size 4 --threads 2 --device host --max-steps 6 --quiet)
judged=(--model tiny-bert --task classification --data "$work/texts.jsonl" --validation-split 0.2)

number=0
# OPTIONS: trains; the digest, losses and bytes of the run are in $digest, $losses, $arena.
trained() {
    number=$((number + 1))
    run train "${common[@]}" "$@" --output-dir "$work/run$number" --logging-steps 1 --json
    digest=$(json state_digest)
    losses=$(grep -oE '"(loss|eval_loss|grad_norm)": [^,}]*' <<<"$out")
    arena=$(json arena_bytes)
}

# verifies compile-13.5a54
# NAME OPTIONS: four lengths against one.
same() {
    local name=$1
    shift
    trained "$@" --length-buckets none
    local digest_none=$digest losses_none=$losses arena_none=$arena
    [[ $code -eq 0 ]] && grep -q '"length_buckets": \[{"length": 64, "micro_batches": [0-9]*, "eval_batches": [0-9]*}\]' <<<"$out"
    check $? "$name: one length" "$out$err"
    trained "$@"
    [[ $code -eq 0 && -n $digest && $digest == "$digest_none" && $losses == "$losses_none" && $arena == "$arena_none" ]]
    check $? "$name: the same bits in as many bytes" "$digest $digest_none $arena $arena_none"
    local ran
    ran=$(grep -oE '"micro_batches": [1-9]' <<<"$out" | wc -l)
    [[ $ran -ge 2 ]]
    check $? "$name: at least two lengths ran" "$out"
}

same classification "${judged[@]}"
same "several micro-batches, bf16" "${judged[@]}" --gradient-accumulation-steps 3 --bf16 --gradient-checkpointing full
same "released gradients" "${judged[@]}" --gradient-accumulation-steps 2 --gradient-release
same "adapters, 8-bit state" "${judged[@]}" --lora-r 4 --optim adamw_8bit --max-grad-norm 0.1
same masked-lm --model tiny-bert --task masked-lm --data "$work/pairs.jsonl" --validation-split 0.2
awk 'BEGIN { for (i = 0; i < 80; i++) { n = 2 + i * i % 7; w = t = ""; for (k = 0; k < n; k++) {
    w = w (k ? ", " : "") (k * i % 3 ? "\"the\"" : "\"Rome\""); t = t (k ? ", " : "") (k * i % 3 ? "\"O\"" : "\"B-LOC\"") }
    printf "{\"tokens\": [%s], \"ner_tags\": [%s]}\n", w, t } }' >"$work/tagged.jsonl"
same token-classification --model tiny-bert --task token-classification --data "$work/tagged.jsonl" --validation-split 0.2
same causal-lm --model tiny --data "$work/pairs.jsonl" --dropout 0.2
same "a Llama" --model tiny-llama --data "$work/pairs.jsonl"

# Chosen by hand, resumed under others: the same bits.
trained "${judged[@]}"
whole=$digest
run train "${common[@]}" "${judged[@]}" --output-dir "$work/again" --stop-at-step 3 --length-buckets none --json
run train "${common[@]}" "${judged[@]}" --output-dir "$work/again" --resume --length-buckets 16,24,40 --json
[[ $code -eq 0 && $(json state_digest) == "$whole" ]] && grep -q '{"length": 24, "micro_batches"' <<<"$out"
check $? "resumed under other lengths" "$out$err"

# Eval, and its predictions in the order of the data.
for lengths in none auto 2; do
    run eval --model "$work/run1" --data "$work/texts.jsonl" --max-seq-length 64 --length-buckets $lengths \
        --predictions "$work/predictions.$lengths" --json
    [[ $code -eq 0 ]]
    check $? "eval $lengths" "$err"
    sed -E 's/"[a-z_]*(per_second|seconds)": [^,}]*//g; s/"length_buckets": [^]]*]//' <<<"$out" >"$work/eval.$lengths"
    ran=$(grep -oE '"eval_batches": [0-9]+' <<<"$out" | head -1)
    [[ $lengths == none || ${ran##* } -ge 6 ]]
    check $? "eval $lengths: short texts come together ($ran)" "$out"
done
for lengths in auto 2; do
    cmp -s "$work/predictions.none" "$work/predictions.$lengths" && cmp -s "$work/eval.none" "$work/eval.$lengths"
    check $? "eval $lengths: the same rows and the same numbers" "$(diff "$work/eval.none" "$work/eval.$lengths")"
done

# What plan says: the lengths, or why there is one.
expect 0 '^lengths     programs for 16, 32, 48, 64 tokens' plan --model tiny-bert --task classification --max-seq-length 64 \
    --device host
run plan --model tiny-bert --task classification --max-seq-length 64 --device host --json
[[ $out == *'"length_buckets": [16, 32, 48, 64]'* ]]
check $? "plan --json" "$out"
with=$(json arena_bytes)
run plan --model tiny-bert --task classification --max-seq-length 64 --device host --json --length-buckets none
[[ $out == *'"length_buckets": [64]'* && $(json arena_bytes) -eq $with ]]
check $? "the arena is the padded run's" "$out"
expect 0 'length_buckets_left_out": "this device' plan --model tiny-bert --task classification --max-seq-length 64 \
    --device cuda:sm_80 --json
expect 0 'length_buckets": \[64\]' plan --model tiny --max-seq-length 64 --device host --json
expect 2 'a length is beyond the longest sequence: found 65, expected at most 64' plan --model tiny-bert \
    --task classification --max-seq-length 64 --length-buckets 16,65
expect 2 'length-buckets: the value is not understood' plan --model tiny-bert --task classification --length-buckets 16,8

# Groups by length: less padding, the same bits however they are run, resumed or shared, and replayed.
grouped=("${judged[@]}" --group-by-length --gradient-accumulation-steps 2)
padding() {
    run train "${common[@]}" "$@" --json
    awk -v a="$(json tokens_per_second)" -v b="$(json padded_tokens_per_second)" 'BEGIN { print a / b }'
}
without=$(padding "${judged[@]}" --gradient-accumulation-steps 2 --output-dir "$work/ungrouped")
with=$(padding "${grouped[@]}" --output-dir "$work/grouped")
awk -v a="$without" -v b="$with" 'BEGIN { exit !(b > a) }'
check $? "groups by length: less padding ($without, then $with)"
run train "${common[@]}" "${grouped[@]}" --output-dir "$work/grouped2" --threads 1 --length-buckets none --json
whole=$(json state_digest)
run train "${common[@]}" "${grouped[@]}" --output-dir "$work/grouped3" --stop-at-step 3
run train "${common[@]}" "${grouped[@]}" --output-dir "$work/grouped3" --resume --json
[[ -n $whole && $(json state_digest) == "$whole" ]]
check $? "groups by length: resumed to the same state" "$out$err"
cmp -s "$work/grouped/record.jsonl" "$work/grouped3/record.jsonl"
check $? "and the same record"
run train "${common[@]}" "${grouped[@]}" --output-dir "$work/grouped4" --virtual-ranks 2 --fabric none --json
lanes=$(json state_digest)
run train "${common[@]}" "${grouped[@]}" --output-dir "$work/grouped5" --virtual-ranks 2 --fabric threads:2 --json
[[ -n $lanes && $(json state_digest) == "$lanes" ]]
check $? "groups by length: the same on two ranks" "$out$err"
run replay "$work/grouped3" --all
[[ $code -eq 0 && $out == *' proven '* ]]
check $? "groups by length: replayed" "$out$err"
run replay "$work/grouped3" --documents 1
[[ $code -eq 0 ]]
check $? "and a step's documents listed" "$out$err"
run train "${common[@]}" "${judged[@]}" --gradient-accumulation-steps 2 --output-dir "$work/grouped3" --resume
[[ $code -ne 0 && $err == *group-by-length* ]]
check $? "a run does not go on in another order" "$err"
expect 2 'one stream of tokens' train --model tiny --data "$0" --max-seq-length 16 --group-by-length \
    --output-dir "$work/stream"

finish
