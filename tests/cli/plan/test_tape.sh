#!/bin/bash
# SPDX-License-Identifier: MIT
# --tape-dtype fp8 through the program: equal bits whatever is kept, on any threads and kernels, resumed and
# replayed; what plans promise; what is refused.
# verifies run-1.e4fa
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 300; i++)); do echo "line $i of ale and bread, $((i * 37 % 101)) mugs"; done >"$work/lines"
train() { # name options..: sets digest and first
    local directory=$work/$1
    shift
    run train --data "$work/lines" --output-dir "$directory" --max-seq-length 40 --per-device-train-batch-size 2 \
        --learning-rate 1e-2 --logging-steps 1 --device host --json --quiet "$@"
    digest=$(json state_digest)
    first=$(grep -oE '"step": 1, .*"loss": [0-9.]+' <<<"$out" | grep -oE '[0-9.]+$')
    [[ $code -eq 0 && -n $digest && ( -n $first || " $* " == *" --resume "* ) ]]
    check $? "train $*" "$err"
}
same() { [[ $1 == "$2" ]]; check $? "$3 ($1, $2)"; }

# Families (the long form has all): the first loss is that of the other tape, since forward keeps its bits; the state is not; and it
# is the same for every policy, thread count and form of the kernels.
models='tiny tiny-llama tiny-qwen3-moe tiny-olmo2 tiny-neox tiny-cohere tiny-modernbert'
! long_form || models+=' tiny-qwen3 tiny-gemma2 tiny-phi3 tiny-granite tiny-glm4 tiny-hunyuan tiny-starcoder2 tiny-arcee tiny-bert'
for model in $models; do
    options=(--model "$model" --bf16 --max-steps 3)
    train "$model-as-is" "${options[@]}"
    other=$digest loss=$first
    train "$model" "${options[@]}" --tape-dtype fp8
    one=$digest
    same "$first" "$loss" "$model: forward is as it was"
    [[ $one != "$other" ]]
    check $? "$model: gradients are not"
    train "$model-full" "${options[@]}" --tape-dtype fp8 --gradient-checkpointing full --threads 2
    same "$digest" "$one" "$model: nothing kept"
    train "$model-some" "${options[@]}" --tape-dtype fp8 --gradient-checkpointing selective:norm,gelu,swiglu --kernels $other_kernels
    same "$digest" "$one" "$model: what is cheap not kept, portable kernels"
    train "$model-rest" "${options[@]}" --tape-dtype fp8 --gradient-checkpointing selective:attention
    same "$digest" "$one" "$model: attention not kept"
done

# Other types, micro-batches, released gradients, adapters, dropout.
for options in '--fp32' '--fp16 --gradient-accumulation-steps 2' '--bf16 --gradient-release --max-grad-norm 0.5' \
    '--bf16 --lora-r 4 --target-modules all-linear --lora-dropout 0.1' '--bf16 --dropout 0.1' \
    '--bf16 --lora-r 4 --target-modules all-linear --load-in-4bit'; do
    read -ra list <<<"$options"
    train a --model tiny --max-steps 3 --tape-dtype fp8 "${list[@]}"
    one=$digest
    train b --model tiny --max-steps 3 --tape-dtype fp8 "${list[@]}" --gradient-checkpointing memory-poor
    same "$digest" "$one" "$options: nothing kept"
    rm -rf "$work/a" "$work/b"
done

# A set of values that the fit finds for a budget, and what the same budget needs without.
bytes() { json arena_bytes; }
run plan --model tiny --bf16 --max-seq-length 40 --per-device-train-batch-size 2 --device host --json --tape-dtype fp8
most=$(bytes)
[[ $out == *'"tape_dtype": "fp8"'* && $out == *'tape fp8'* ]]
check $? 'a plan says what its tape is'
run plan --model tiny --bf16 --max-seq-length 40 --per-device-train-batch-size 2 --device host --json --tape-dtype fp8 \
    --gradient-checkpointing full
least=$(bytes)
train fit --model tiny --bf16 --max-steps 3 --tape-dtype fp8 --gradient-checkpointing auto --arena $(((most + 3 * least) / 4))
one=$digest
train whole --model tiny --bf16 --max-steps 3 --tape-dtype fp8
same "$digest" "$one" 'a fitted run'

# Resumed and replayed; a result key.
train cut --model tiny --bf16 --max-steps 3 --tape-dtype fp8 --stop-at-step 1
train cut --model tiny --bf16 --max-steps 3 --tape-dtype fp8 --threads 2 --gradient-checkpointing full --resume
same "$digest" "$one" 'a resumed run'
run replay "$work/cut" --threads 1
check $code 'a run is computed again' "$err"
run train --data "$work/lines" --output-dir "$work/cut" --max-seq-length 40 --per-device-train-batch-size 2 \
    --learning-rate 1e-2 --logging-steps 1 --device host --json --quiet --model tiny --bf16 --max-steps 4 --resume
[[ $code -eq 2 ]] && grep -q 'tape-dtype differs from the checkpoint' <<<"$err"
check $? 'resuming with another tape is refused' "$err"

# What plans promise (docs/figures/memory.md): arenas of GPT-2 124M, the tape of Llama-3 8B.
tape() { grep -oE '"name": "tape"[^}]*|"tape": [0-9]+' <<<"$out" | grep -oE '[0-9]+' | head -1; }
saves() { # what, least and most percent, function, options..
    local what=$1 least=$2 most=$3 of=$4 before after
    shift 4
    run plan --json --bf16 --optim adamw_8bit --device host "$@"
    before=$($of)
    run plan --json --bf16 --optim adamw_8bit --device host "$@" --tape-dtype fp8
    after=$($of)
    awk -v a="$before" -v b="$after" -v l="$least" -v m="$most" 'BEGIN { s = 100 * (1 - b / a); exit !(s >= l && s <= m) }'
    check $? "$what ($before, $after)" "$err"
}
saves 'GPT-2, everything kept' 28 30 bytes --model gpt2 --max-seq-length 1024 --per-device-train-batch-size 4
saves 'GPT-2, norms and GELU made again' 20 22 bytes --model gpt2 --max-seq-length 1024 \
    --per-device-train-batch-size 8 --gradient-release --gradient-checkpointing selective:norm,gelu
saves "Llama-3 8B's tape" 40 43 tape --model llama-3-8b --max-seq-length 8192 --per-device-train-batch-size 1 \
    --gradient-release --gradient-checkpointing selective:norm,swiglu

# Where there is nothing to keep.
expect 2 'tape-dtype: the tape of this model has states and gates' plan --model tiny-gru --tape-dtype fp8
expect 2 'tape-dtype: backward of this model reads no output' plan --model tiny --tape-dtype fp8 --freeze 'transformer.h.*' \
    --freeze 'transformer.w?e*'
expect 2 'tape-dtype.*expected auto|fp8|--tape-dtype' plan --model tiny --tape-dtype fp4
finish
