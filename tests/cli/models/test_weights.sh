#!/bin/bash
# SPDX-License-Identifier: MIT
# --weight-dtype fp8 through the program: equal bits whatever is kept, on any threads and kernels, resumed,
# replayed and read again from what it saved; what plans promise; what is refused.
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
    [[ $code -eq 0 && -n $digest ]]
    check $? "train $*" "$err"
}
same() { [[ $1 == "$2" ]]; check $? "$3 ($1, $2)"; }
other() { [[ $1 != "$2" ]]; check $? "$3 ($1)"; }

# Every family of blocks, every rule of the usual kind: the same state for every policy, thread count and form of
# the kernels; another than that of bf16 weights from the first loss on.
for model in tiny tiny-llama tiny-qwen3 tiny-bert; do
    options=(--model "$model" --bf16 --max-steps 3)
    train "$model-as-is" "${options[@]}" --master split8
    whole=$digest loss=$first
    train "$model" "${options[@]}" --weight-dtype fp8
    one=$digest
    other "$first" "$loss" "$model: products read codes"
    other "$one" "$whole" "$model: so that the state is another"
    train "$model-full" "${options[@]}" --weight-dtype fp8 --gradient-checkpointing full --threads 2
    same "$digest" "$one" "$model: nothing kept"
    train "$model-some" "${options[@]}" --weight-dtype fp8 --gradient-checkpointing selective:norm,attention --kernels $other_kernels
    same "$digest" "$one" "$model: some kept, portable kernels"
done
for options in '--optim adamw_8bit --gradient-release' '--optim lion --gradient-accumulation-steps 2' '--optim lamb' \
    '--optim muon' '--optim adafactor --learning-rate 1e-3' '--master split --tape-dtype fp8' \
    '--gradient-dtype int8 --gradient-accumulation-steps 2' '--freeze *.h.0.*'; do
    read -ra list <<<"$options"
    train a --model tiny --bf16 --max-steps 3 --weight-dtype fp8 "${list[@]}"
    one=$digest
    train b --model tiny --bf16 --max-steps 3 --weight-dtype fp8 "${list[@]}" --gradient-checkpointing memory-poor --threads 2
    same "$digest" "$one" "$options: nothing kept"
    rm -rf "$work/a" "$work/b"
done

# Offloaded masters and states the arena; two ranks.
train whole --model tiny --bf16 --max-steps 3 --weight-dtype fp8
one=$digest
disk=$(mktemp -d "$BUILD/weights.XXXXXX")
buffered=()
[[ $(stat -f -c %T "$disk") != tmpfs ]] || buffered+=(--offload-buffered)
train under --model tiny --bf16 --max-steps 3 --weight-dtype fp8 --offload "file:$disk/below:64MiB" "${buffered[@]}"
same "$digest" "$one" 'offloaded masters'
rm -rf "$disk"
ranks=(--per-device-train-batch-size 1 --gradient-accumulation-steps 2 --virtual-ranks 2)
train alone --model tiny --bf16 --max-steps 3 --weight-dtype fp8 "${ranks[@]}"
two=$digest
train ranks --model tiny --bf16 --max-steps 3 --weight-dtype fp8 "${ranks[@]}" --fabric threads:2
same "$digest" "$two" 'two ranks'

# Resumed and replayed; a result key.
train cut --model tiny --bf16 --max-steps 3 --weight-dtype fp8 --stop-at-step 1
train cut --model tiny --bf16 --max-steps 3 --weight-dtype fp8 --threads 2 --gradient-checkpointing full --resume
same "$digest" "$one" 'a resumed run'
run verify "$work/cut"
check $code 'a checkpoint is what was trained' "$err"
run replay "$work/cut" --threads 1
check $code 'a run is computed again' "$err"
run train --data "$work/lines" --output-dir "$work/cut" --max-seq-length 40 --per-device-train-batch-size 2 \
    --learning-rate 1e-2 --logging-steps 1 --device host --json --quiet --model tiny --bf16 --max-steps 4 --resume
[[ $code -eq 2 ]] && grep -q 'weight-dtype differs from the checkpoint' <<<"$err"
check $? 'resuming with other weights is refused' "$err"

# What was saved opens like any model: its weights are the masters in bf16, in their shapes. The masters themselves
# come through fp32 and back exactly.
train again --model "$work/whole" --bf16 --max-steps 1 --learning-rate 0 --weight-decay 0 --weight-dtype fp8
run export --model "$work/whole" --dtype fp32 --to "$work/once"
run export --model "$work/again" --dtype fp32 --to "$work/twice"
check $code 'an export' "$err"
cmp -s "$work/once/model.safetensors" "$work/twice/model.safetensors"
check $? 'values that were in fp8 are there again as they were'
run eval --model "$work/whole/checkpoint-3" --bf16 --data "$work/lines" --max-seq-length 40 --device host --json --quiet
loss=$(json loss)
run eval --model "$work/whole" --bf16 --data "$work/lines" --max-seq-length 40 --device host --json --quiet
[[ -n $loss ]]
check $? 'a checkpoint is a model'
same "$loss" "$(json loss)" 'the one that the run saved'

# What plans promise: 3.02 bytes a weight of the dense layers.
run plan --model gpt2 --bf16 --weight-dtype fp8 --device host --json
[[ $out == *'"weight_dtype": "fp8"'* && $out == *'dense weights fp8'* && $out == *'master split8'* ]]
check $? 'a plan says how weights are kept'
weights=$(grep -oE '"weights": [0-9]+' <<<"$out" | head -1 | grep -oE '[0-9]+')
# 12 layers of 12 * 768^2 at 260 bytes for 256; all else in bf16
same "$weights" "$((84934656 * 260 / 256 + (124439808 - 84934656) * 2))" 'bytes of weights'

# What is refused.
expect 2 'weight-dtype: weights in fp8 are read as bf16' plan --model tiny --weight-dtype fp8
expect 2 'weight-dtype: weights in fp8 go with --bf16, and with --master split8 or split' plan --model tiny --bf16 \
    --master fp32 --weight-dtype fp8
expect 2 'weight-dtype: adapters leave' plan --model tiny --bf16 --lora-r 4 --weight-dtype fp8
expect 2 'weight-dtype: weights in fp8 are those of dense layers' plan --model tiny-gru --bf16 --weight-dtype fp8
expect 2 'weight-dtype: this run trains no dense layers in blocks' plan --model tiny --bf16 --weight-dtype fp8 \
    --freeze 'transformer.h.*'
expect 2 'weight-dtype.*expected auto|fp8|--weight-dtype' plan --model tiny --bf16 --weight-dtype fp4
expect 2 'has no weights in fp8' plan --model tiny --bf16 --weight-dtype fp8 --max-steps 5 --emit-c "$work/emitted"
finish
