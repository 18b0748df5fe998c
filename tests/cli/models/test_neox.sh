#!/bin/bash
# SPDX-License-Identifier: MIT
# GPT-NeoX from end to end: a directory in and out, the same bits by any policy, adapters, four bits, and what is refused
# (losses, gradients and logits: tests/golden/test_families_golden.c).
# verifies run-1.e4fa
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(--data "$work/text" --max-seq-length 16 --per-device-train-batch-size 4 --learning-rate 1e-2 --threads 1 --quiet --json)

expect 0 '70,426,624' plan --model pythia-70m --max-seq-length 64 --per-device-train-batch-size 1
run train --model tiny-neox "${common[@]}" --max-steps 30 --output-dir "$work/a"
check $code "training" "$err"
digest=$(json state_digest)
for policy in full selective:norm every:2; do
    run train --model tiny-neox "${common[@]}" --max-steps 30 --gradient-checkpointing $policy --output-dir "$work/$policy"
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "the same under $policy" "$out$err"
done

# Names and keys of transformers' GPT-NeoX: one weight for queries, keys and values, whose rows stay where they are.
grep -aq '"gpt_neox.layers.1.attention.query_key_value.weight":{"dtype":"F32","shape":\[192,64\]' "$work/a/model.safetensors"
check $? "one weight for queries, keys and values"
grep -q '"rotary_pct": 0.25' "$work/a/config.json" && grep -q '"GPTNeoXForCausalLM"' "$work/a/config.json"
check $? "rotary_pct and the class" "$(cat "$work/a/config.json")"
sed -i 's/"rotary_pct": 0.25,/"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.25},/
    /"rotary_emb_base"/d' "$work/a/config.json"
run train --model "$work/a" "${common[@]}" --max-steps 0 --save-dtype source --output-dir "$work/b"
[[ $code -eq 0 ]] && cmp "$work/a/model.safetensors" "$work/b/model.safetensors"
check $? "the newer words, and the same bytes again" "$err"

# Adapters of a base in floats and in codes: the loss falls.
run eval --model "$work/a" --data "$work/text" --max-seq-length 16 --json
before=$(json loss)
for bits in '' --load-in-4bit --load-in-8bit; do
    run train --model "$work/a" "${common[@]}" $bits --lora-r 4 --target-modules all-linear --max-steps 40 --output-dir "$work/l$bits"
    check $code "adapters $bits" "$err"
    run eval --model "$work/a" $bits --adapter "$work/l$bits" --data "$work/text" --max-seq-length 16 --json
    awk -v a="$(json loss)" -v b="$before" 'BEGIN { exit !(a > 0 && a < b) }'
    check $? "adapters $bits learn: $(json loss) after $before" "$err"
done

mkdir -p "$work/c"
sed 's/"partial_rotary_factor": 0.25/"partial_rotary_factor": 0.2/' "$work/a/config.json" >"$work/c/config.json"
expect 2 'partial_rotary_factor: rotary positions need a part of an even width' plan --model "$work/c"
expect 2 'masked-lm needs bert' plan --model tiny-neox --task masked-lm
finish
