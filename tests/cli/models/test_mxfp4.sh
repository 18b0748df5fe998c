#!/bin/bash
# SPDX-License-Identifier: MIT
# Experts in codes: blocks of MXFP4 stay as a file of gpt-oss has them, under adapters and in evaluation, and --load-in-4bit and
# --load-in-8bit quantise experts as they do dense layers. Losses are transformers' and PEFT's (tools/golden/formats/mxfp4.py);
# gradients tests/golden/families/{gpt_oss_mxfp4,qwen3_moe_nf4,qwen3_moe_int8}.
. "$(dirname "$0")/../lib.sh"

golden=tests/golden/mxfp4
common=(--model "$golden" --data "$golden/tokens.bin" --max-seq-length 8 --device host)
wanted() { grep -o "\"$1\": [0-9.]*" "$golden/losses.json" | sed 's/.*: //'; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && d < 1e-6 && d > -1e-6) }'; }
evaluate() { # NAME OPTIONS..: its loss is transformers'
    local name=$1
    shift
    run eval "${common[@]}" --json "$@"
    near "$(json loss)" "$(wanted "$name")"
    check $? "eval $*: the loss of transformers" "$(json loss) for $(wanted "$name") $err"
}
evaluate base
packed=$(json arena_bytes)
evaluate base --kernels "$other_kernels"
evaluate base --dequantize
[[ $packed -gt 0 && $packed -lt $(json arena_bytes) ]]
check $? 'blocks take fewer bytes than floats' "$packed $(json arena_bytes)"
evaluate adapter --adapter "$golden/adapter"
evaluate adapter --adapter "$golden/adapter" --dequantize --threads 2

# Training beside blocks: the bits of training beside their values, in fewer bytes, however it is computed.
# verifies layers-2.7756 layers-52.d5ea
disk=$(mktemp -d "$BUILD/mxfp4.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
train() { # OPTIONS..
    rm -rf "$work/out"
    run train "${common[@]}" --lora-r 2 --target-modules q_proj,experts.gate_up_proj,experts.down_proj --max-steps 3 \
        --per-device-train-batch-size 2 --learning-rate 3e-2 --quiet --json --output-dir "$work/out" "$@"
    state=$(json state_digest) bytes=$(json arena_bytes)
    [[ $code -eq 0 && -n $state && $bytes == "$(json device_bytes_in_use)" ]]
    check $? "train $*: in the bytes that were planned" "$out$err"
}
train --dequantize
floats=$state floats_bytes=$bytes
for how in '--gradient-checkpointing none --threads 1' "--gradient-checkpointing full --threads 2 --kernels $other_kernels" \
    '--gradient-checkpointing memory-poor --poison' "--offload file:$disk/file:64MiB --offload-buffered --gradient-checkpointing full" \
    '--per-device-train-batch-size 1 --gradient-accumulation-steps 2'; do
    read -ra options <<<"$how"
    train "${options[@]}"
    [[ $state == "$floats" ]]
    check $? "the bits of floats with $how" "$state for $floats"
done
train
[[ $bytes -lt $floats_bytes ]]
check $? 'in fewer bytes' "$bytes for $floats_bytes"
run plan "${common[@]}" --lora-r 2 --per-device-train-batch-size 1
[[ $code -eq 0 && $out == *', frozen experts in MXFP4, '* ]]
check $? 'plan says so' "$out$err"

# Without adapters of experts, and with dense layers in 4 bits beside the blocks.
for how in '--target-modules q_proj' '--load-in-4bit --target-modules q_proj,v_proj' '--load-in-8bit --target-modules o_proj' \
    '--bf16 --load-in-4bit'; do
    read -ra options <<<"$how"
    train "${options[@]}" --gradient-checkpointing none --threads 1
    first=$state
    train "${options[@]}" --gradient-checkpointing full --threads 2 --kernels "$other_kernels"
    [[ $state == "$first" ]]
    check $? "the same bits with $how" "$state for $first"
done

# Merged and exported, blocks are floats, and config.json no longer names them.
run export --model "$golden" --adapter "$golden/adapter" --merge --to "$work/merged"
[[ $code -eq 0 ]] && ! grep -q mxfp4 "$work/merged/config.json"
check $? 'merged, a directory of floats' "$out$err$(cat "$work/merged/config.json")"
run eval --model "$work/merged" --data "$golden/tokens.bin" --max-seq-length 8 --json --device host
awk -v a="$(json loss)" -v b="$(wanted adapter)" 'BEGIN { d = a - b; exit !(a != "" && d < 0.02 && d > -0.02) }'
check $? 'which has the loss of base and adapter, but for the rounding of its type' "$(json loss) for $(wanted adapter) $err"
run export --model "$golden" --to "$work/copy"
[[ $code -eq 0 ]] && ! grep -q mxfp4 "$work/copy/config.json"
check $? 'exported, a directory of floats' "$out$err"

# Dense layers go out in 4 bits beside floats, which have the numbers of the blocks without an option. No record has which they were.
train --load-in-4bit
run eval "${common[@]}" --adapter "$work/out" --load-in-4bit --json
loss=$(json loss)
[[ -n $loss ]] && ! grep -q 'was trained on' <<<"$err"
check $? 'blocks stay beside dense layers in 4 bits' "$err"
run export --model "$golden" --load-in-4bit --to "$work/dense"
[[ $code -eq 0 ]] && grep -q 'dense: experts are written as floats$' <<<"$err"
check $? 'exported with dense layers in 4 bits' "$out$err"
run eval --model "$work/dense" "${common[@]:2}" --adapter "$work/out" --json
[[ $(json loss) == "$loss" ]] && grep -q 'reads such a base, unless its experts were in blocks of MXFP4)$' <<<"$err"
check $? 'which is the same base' "$loss $(json loss) $err"

# Experts of float files in 4 and in 8 bits.
awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
for model in tiny-qwen3-moe tiny-gpt-oss tiny-mixtral tiny-qwen2-moe tiny-olmoe tiny-glm4-moe; do
    run train --model $model --data "$work/text" --max-seq-length 24 --max-steps 1 --quiet --output-dir "$work/$model" --device host
    check "$code" "$model as floats" "$err"
    for how in '--load-in-4bit' '--load-in-8bit' '--load-in-4bit --bnb-4bit-use-double-quant false --bnb-4bit-quant-type fp4'; do
        read -ra options <<<"$how"
        own=(--model "$work/$model" --data "$work/text" --max-seq-length 24 --lora-r 2 --max-steps 2 --device host --quiet --json)
        rm -rf "$work/a" "$work/b"
        run train "${own[@]}" "${options[@]}" --output-dir "$work/a" --gradient-checkpointing none --threads 1
        first=$(json state_digest) bytes=$(json arena_bytes) loss=$(json mean_loss)
        run train "${own[@]}" "${options[@]}" --output-dir "$work/b" --gradient-checkpointing full --threads 2 --kernels "$other_kernels"
        [[ -n $first && $(json state_digest) == "$first" ]]
        check $? "$model $how: the same bits" "$first $(json state_digest) $err"
        rm -rf "$work/b"
        run train "${own[@]}" --output-dir "$work/b" --gradient-checkpointing none
        [[ $bytes -lt $(json arena_bytes) ]] && awk -v a="$loss" -v b="$(json mean_loss)" 'BEGIN { d = a - b; exit !(d < 0.1 && d > -0.1) }'
        check $? "$model $how: fewer bytes, about the loss of floats" "$bytes $(json arena_bytes) $loss $(json mean_loss)"
    done
done

# What is refused.
expect 2 'quantised weights are frozen: training needs adapters' train "${common[@]}" --load-in-4bit --output-dir "$work/no"
run train "${common[@]}" --per-device-train-batch-size 2 --max-steps 1 --quiet --output-dir "$work/full"
[[ $code -eq 0 ]] && ! grep -q mxfp4 "$work/full/config.json"
check $? 'trained whole, experts are floats' "$out$err"
expect 7 'the device has no products with weights of this type' plan "${common[@]:0:6}" --lora-r 2 --per-device-train-batch-size 1 --device cuda:sm_80
mkdir -p "$work/says"
cp "$work/copy/model.safetensors" "$work/says"
cp "$golden/config.json" "$work/says"
expect 4 'config.json says that experts are in blocks of MXFP4, and these are not' eval --model "$work/says" --data "$golden/tokens.bin" \
    --max-seq-length 8
expect 2 "an expert's matrix is no whole number of blocks" plan --model tiny-qwen3-moe --lora-r 2 --load-in-4bit --bnb-4bit-blocksize 4096
finish
