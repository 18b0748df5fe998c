#!/bin/bash
# SPDX-License-Identifier: MIT
# The text towers of CLIP and SigLIP, out of directories of both towers: their vectors are transformers' own, training is the same
# bits with every checkpoint policy and after a stop, and what it writes is a tower's directory that gives the same vectors.
# verifies layers-54.1822
. "$(dirname "$0")/../lib.sh"

# vectors NAME FILE: the vectors of $work/v.jsonl are those of a file, to 1e-5.
vectors() {
    paste -d' ' <(sed 's/.*"embedding": \[//; s/\].*//; s/,//g' "$work/v.jsonl") "$2" |
        awk '{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d * d > 1e-10 * (1 + $i * $i)) bad++ } }
             END { exit !(NR == 12 && bad == 0) }'
    check $? "$1" "$out$err$(cat "$work/v.jsonl")"
}

for i in 1 2 3 4 5 6 7; do
    echo "{\"anchor\": \"the world $i\", \"positive\": \"and of $i $i\"}"
done >"$work/pairs.jsonl"
words=(--tokenizer tests/golden/tokenizers/bert_uncased)
for family in clip siglip; do
    golden=tests/golden/sentences/$family
    run embed --model $golden "${words[@]}" --data $golden/texts.txt --output "$work/v.jsonl"
    vectors "$family: the vectors of transformers" $golden/vectors.txt
    common=(train --model $golden --task embedding "${words[@]}" --data "$work/pairs.jsonl" --per-device-train-batch-size 4
        --learning-rate 1e-2 --max-steps 4 --quiet --json)
    digest=
    for policy in none full memory-poor sqrt selective:norm; do
        run "${common[@]}" --output-dir "$work/$family-$policy" --gradient-checkpointing $policy
        digest=${digest:-$(json state_digest)}
        [[ $code -eq 0 && -n $digest && $(json state_digest) == "$digest" ]]
        check $? "$family: $policy: the same bits" "$out$err"
    done
    run "${common[@]}" --output-dir "$work/$family-stopped" --stop-at-step 2
    run "${common[@]}" --output-dir "$work/$family-stopped" --resume
    [[ $(json state_digest) == "$digest" ]]
    check $? "$family: stopped and resumed: the same bits" "$out$err"
    run train --model $golden --task embedding "${words[@]}" --data "$work/pairs.jsonl" --per-device-train-batch-size 4 \
        --max-steps 0 --quiet --output-dir "$work/$family-same"
    [[ $code -eq 0 && ! -e $work/$family-same/modules.json ]] &&
        grep -q "\"model_type\": \"${family}_text_model\"" "$work/$family-same/config.json"
    check $? "$family: the tower's own directory" "$err$(cat "$work/$family-same/config.json")"
    run embed --model "$work/$family-same" "${words[@]}" --data $golden/texts.txt --output "$work/v.jsonl"
    vectors "$family: it gives the same vectors" $golden/vectors.txt
    run "${common[@]}" --output-dir "$work/$family-lora" --lora-r 2 --target-modules all-linear
    grep -aq 'encoder.layers.1.mlp.fc2.lora_B.weight' "$work/$family-lora/adapter_model.safetensors"
    check $? "$family: adapters" "$out$err"
    expect 2 'pooling' embed --model $golden "${words[@]}" --data $golden/texts.txt --output "$work/v.jsonl" --pooling mean
    expect 2 'max-seq-length' embed --model $golden "${words[@]}" --data $golden/texts.txt --output "$work/v.jsonl" \
        --max-seq-length 13
done
expect 2 'max-seq-length' embed --model tests/golden/sentences/siglip "${words[@]}" --data "$golden/texts.txt" \
    --output "$work/v.jsonl" --max-seq-length 8
finish
