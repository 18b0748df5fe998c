#!/bin/bash
# SPDX-License-Identifier: MIT
# Qwen3 from end to end: a Hugging Face directory in and out, GGUF, adapters, four bits, and what is refused.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(--data "$work/text" --max-seq-length 16 --per-device-train-batch-size 4 --learning-rate 1e-2 --threads 1 --quiet --json)

expect 0 'Qwen3|596,049,920' plan --model qwen3-0.6b --max-seq-length 64 --per-device-train-batch-size 1
run train --model tiny-qwen3 "${common[@]}" --max-steps 30 --output-dir "$work/a"
check $code "training" "$err"
digest=$(json state_digest)
for policy in full selective:norm every:2; do
    run train --model tiny-qwen3 "${common[@]}" --max-steps 30 --gradient-checkpointing $policy --output-dir "$work/$policy"
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "the same under $policy" "$out$err"
done

# Names and keys of transformers' Qwen3, GGUF's of llama.cpp.
grep -aq '"model.layers.1.self_attn.q_norm.weight":{"dtype":"F32","shape":\[24\]' "$work/a/model.safetensors"
check $? "norms of heads are in the file"
grep -q '"head_dim": 24' "$work/a/config.json" && grep -q '"Qwen3ForCausalLM"' "$work/a/config.json"
check $? "head_dim and the class" "$(cat "$work/a/config.json")"
run export --model "$work/a" --to "$work/m.gguf" --format gguf
check $code "export" "$err"
for name in qwen3.attention.key_length blk.1.attn_q_norm.weight blk.0.attn_k_norm.weight; do
    grep -aq "$name" "$work/m.gguf"
    check $? "GGUF has $name"
done
run import --from "$work/m.gguf" --to "$work/b"
[[ $code -eq 0 ]] && cmp "$work/a/model.safetensors" "$work/b/model.safetensors" && cmp "$work/a/config.json" "$work/b/config.json"
check $? "GGUF comes back the same" "$err"

# Adapters of a base in floats and in four bits: the loss falls.
run eval --model "$work/a" --data "$work/text" --max-seq-length 16 --json
before=$(json loss)
for bits in '' --load-in-4bit --load-in-8bit; do
    run train --model "$work/a" "${common[@]}" $bits --lora-r 4 --target-modules all-linear --max-steps 40 --output-dir "$work/l$bits"
    check $code "adapters $bits" "$err"
    run eval --model "$work/a" $bits --adapter "$work/l$bits" --data "$work/text" --max-seq-length 16 --json
    awk -v a="$(json loss)" -v b="$before" 'BEGIN { exit !(a > 0 && a < b) }'
    check $? "adapters $bits learn: $(json loss) after $before" "$err"
done

refused() { # PATTERN SED
    mkdir -p "$work/c"
    sed "$2" "$work/a/config.json" >"$work/c/config.json"
    expect 4 "c/config.json: $1" plan --model "$work/c"
}
refused 'use_sliding_window: this value is not supported: found 1, expected true or false' 's/^{/{ "use_sliding_window": 1,/'
refused 'head_dim: this value is not supported: found null, expected a whole number from 1' 's/"head_dim": 24/"head_dim": null/'
refused 'head_dim: rotary positions need heads of an even width' 's/"head_dim": 24/"head_dim": 25/'
refused 'layer_types: layers look through a window, and the file gives none' 's/^{/{ "layer_types": ["full_attention", "sliding_attention"],/'
refused 'layer_types: this value is not supported: found "chunked_attention"' 's/^{/{ "layer_types": ["chunked_attention"],/'

# A window of the later layer (tests/golden/test_families_golden.c has the losses): what it learns differs, the keys
# are written, adapters learn, and readers of GGUF files would see all positions.
mkdir -p "$work/w"
sed 's/^{/{ "use_sliding_window": true, "sliding_window": 4, "max_window_layers": 1,/' "$work/a/config.json" >"$work/w/config.json"
for f in "$work"/a/*.*; do [[ -e $work/w/${f##*/} ]] || cp "$f" "$work/w/"; done
run eval --model "$work/w" --data "$work/text" --max-seq-length 16 --json
awk -v a="$(json loss)" -v b="$before" 'BEGIN { exit !(a > 0 && a != b) }'
check $? "a window changes the loss: $(json loss), $before without" "$err"
for name in adapters weights; do
    lora=(--lora-r 4 --target-modules all-linear)
    [[ $name == weights ]] && lora=()
    run train --model "$work/w" "${common[@]}" "${lora[@]}" --max-steps 5 --output-dir "$work/w$name"
    check $code "$name with a window" "$err"
done
grep -q '"layer_types": \["full_attention", "sliding_attention"\]' "$work/wweights/config.json" &&
    grep -q '"sliding_window": 4,' "$work/wweights/config.json" && grep -q '"max_window_layers": 1,' "$work/wweights/config.json"
check $? "the window is written" "$(cat "$work/wweights/config.json")"
expect 2 'sliding_window' export --model "$work/wweights" --to "$work/w.gguf" --format gguf
finish
