#!/bin/bash
# SPDX-License-Identifier: MIT
# --product-dtype fp8 through the program: on a simulated Hopper equal bits whatever is kept and where it is
# resumed, near the losses of bf16; what plans say of it; named wherever it is not there, before the first step.
# verifies device-34.3394
. "$(dirname "$0")/../lib.sh"
export LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm PTXVM_DEVICE=sm_90
[[ -e $LD_LIBRARY_PATH/libcuda.so.1 ]] || { echo "no $LD_LIBRARY_PATH/libcuda.so.1"; exit 1; }

for ((i = 0; i < 60; i++)); do echo "line $i of ale and bread, $((i * 37 % 101)) mugs"; done >"$work/lines"
common=(--model tiny --bf16 --max-seq-length 16 --per-device-train-batch-size 1)
narrow=(--product-dtype fp8 --product-fp8-from 64)
train() { # name options..: sets digest and loss, of the last step that was made
    local directory=$work/$1
    shift
    run train "${common[@]}" --data "$work/lines" --device cuda:sm_90a --output-dir "$directory" --learning-rate 1e-2 \
        --logging-steps 1 --json --quiet "$@"
    digest=$(json state_digest)
    loss=$(grep -oE '"step": [0-9]+, .*"loss": [0-9.]+' <<<"$out" | grep -oE '[0-9.]+$' | tail -1)
    [[ $code -eq 0 && -n $digest && -n $loss ]]
    check $? "train $*" "$err"
}

train plain --max-steps 2
other=$loss
train whole "${narrow[@]}" --max-steps 2
one=$digest
awk -v a="$loss" -v b="$other" 'BEGIN { d = (a - b) / b; exit !(a != b && d * d < 0.005 ^ 2) }'
check $? 'losses near those of bf16, and other ones' "$loss $other"
# A workspace at the arena's end, whose second half a tensor map describes.
train last "${narrow[@]}" --max-steps 1 --max-seq-length 32 --per-device-train-batch-size 2
train dropped "${narrow[@]}" --max-steps 2 --gradient-checkpointing full
[[ $digest == "$one" ]]
check $? 'the same state whatever is kept' "$digest $one"
train cut "${narrow[@]}" --max-steps 2 --stop-at-step 1
train cut "${narrow[@]}" --max-steps 2 --resume
[[ $digest == "$one" ]]
check $? 'a resumed run' "$digest $one"
for options in '--max-steps 2' "--max-steps 2 --product-dtype fp8 --product-fp8-from 63"; do
    rm -rf "$work/other"
    train other "${narrow[@]}" --max-steps 2 --stop-at-step 1
    read -ra list <<<"$options"
    run train "${common[@]}" --data "$work/lines" --device cuda:sm_90a --output-dir "$work/other" --learning-rate 1e-2 \
        --logging-steps 1 --json --quiet "${list[@]}" --resume
    [[ $code -eq 2 && $err == *product-*' differs from the checkpoint'* ]]
    check $? "resumed with $options: refused" "$err"
done

# Plans: the operands' codes are workspaces to the byte; what a layer of 1,600 and a product of 8 x 1024 tokens needs.
run plan --model gpt2-xl --bf16 --device cuda:sm_90a --product-dtype fp8 --json
[[ $code -eq 0 && $out == *'"product_dtype": "fp8"'* && $out == *'products fp8 from 1600'* && $out == *matmul_fp8* ]]
check $? 'a plan says what its products are' "$out"
codes=$((8192 * 6400 + 1600 * 6400 + (8192 + 1600) * 4))
[[ $(grep -oE '"workspace": [0-9]+' <<<"$out" | head -1 | grep -oE '[0-9]+') -ge $codes ]]
check $? 'and has room for their codes' "$out"
run plan --model gpt2-xl --bf16 --device cuda:sm_90a --json
[[ $out == *'"product_dtype": "auto"'* && $out != *matmul_fp8* ]]
check $? 'off unless asked for' "$out"

# Where they are not: other devices, narrow models, weights that are codes already.
expect 2 'product-dtype fp8 on host: products in fp8 are made by a Hopper' plan --model gpt2-xl --bf16 --product-dtype fp8 --device host
expect 2 'product-dtype fp8 on cuda:sm_80' plan --model gpt2-xl --bf16 --product-dtype fp8 --device cuda:sm_80
PTXVM_DEVICE=sm_80 run train "${common[@]}" --data "$work/lines" --device cuda --output-dir "$work/never" --product-dtype fp8 \
    --product-fp8-from 64 --max-steps 1
[[ $code -eq 2 && $err == *'product-dtype fp8 on cuda:sm_80'* && ! -e $work/never/events.jsonl ]]
check $? 'refused before the first step' "$err"
expect 2 'product-dtype: no dense layer in blocks' plan --model gpt2 --bf16 --product-dtype fp8 --device cuda:sm_90a
expect 2 'product-dtype: no dense layer in blocks' plan --model gpt2-xl --bf16 --product-dtype fp8 --device cuda:sm_90a \
    --lora-r 8 --load-in-4bit
expect 2 'product-dtype: products in fp8 are those of dense layers in blocks, which' plan --model tiny-gru --bf16 --product-dtype fp8 \
    --device cuda:sm_90a
expect 2 'product-dtype: products with weights in fp8' plan --model gpt2-xl --bf16 --product-dtype fp8 --weight-dtype fp8 \
    --device cuda:sm_90a
expect 2 'product-dtype.*expected auto|fp8|--product-dtype' plan --model gpt2-xl --product-dtype fp4
finish
