#!/bin/bash
# SPDX-License-Identifier: MIT
# Adapters through the program: trained beside a base, used, resumed, merged into every format, and
# refused where they belong to another base.
. "$(dirname "$0")/lib.sh"

data=$work/data.txt
for ((i = 0; i < 300; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
common=(--data "$data" --max-seq-length 32 --device host --threads 2 --json)

base() {
    run train --model "$1" --output-dir "$work/$2" --max-steps 8 "${common[@]}"
    check $code "a base of $1" "$err"
}
adapt() {
    local from=$1 to=$2
    shift 2
    run train --model "$work/$from" --output-dir "$work/$to" --max-steps 12 --learning-rate 1e-2 \
        --lora-r 3 --target-modules all-linear "$@" "${common[@]}"
    check $code "adapters of $from with $*" "$err"
}
loss() { run eval "$@" "${common[@]}" && json loss; }
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) <= 1e-6 * a) }'
    check $? "$3 ($1, $2)"
}

base tiny gpt
base tiny-llama llama
for model in gpt llama; do
    adapt $model $model-a --lora-alpha 12 --lora-dropout 0.1
    [[ -s $work/$model-a/adapter_model.safetensors && ! -e $work/$model-a/model.safetensors ]] &&
        grep -q '"peft_type": "LORA"' "$work/$model-a/adapter_config.json"
    check $? "an adapter directory holds an adapter and no model"
    plain=$(loss --model "$work/$model")
    with=$(loss --model "$work/$model" --adapter "$work/$model-a")
    awk -v a="$plain" -v b="$with" 'BEGIN { exit !(b < a) }'
    check $? "the adapter has learnt ($plain, then $with)"
    expect 0 '' export --model "$work/$model" --adapter "$work/$model-a" --merge --to "$work/$model-m"
    near "$with" "$(loss --model "$work/$model-m")" "merged weights give the same loss"
    expect 0 '' export --model "$work/$model" --adapter "$work/$model-a" --merge --format gguf \
        --to "$work/$model.gguf"
    expect 0 '' import --from "$work/$model.gguf" --to "$work/$model-g"
    near "$with" "$(loss --model "$work/$model-g")" "and so do those of the GGUF file"
done

# An interrupted run resumes bit for bit; snapshots do not hold the base.
adapt gpt whole --gradient-release
digest=$(json state_digest)
adapt gpt cut --gradient-release --stop-at-step 5
adapt gpt cut --gradient-release --resume
[[ $(json state_digest) == "$digest" ]]
check $? "a resumed adapter ends in the same state"
! grep -aq '"transformer.h.0.attn.c_attn.weight"' "$work/cut/checkpoint-12/state.safetensors"
check $? "a snapshot holds the adapters and not the base's state"

# Nor would adapters go on beside a base that is not theirs, of the same shapes.
run train --model tiny --seed 7 --output-dir "$work/other" --max-steps 1 "${common[@]}"
expect 2 'base-digest differs from the snapshot' train --model "$work/other" --output-dir "$work/cut" \
    --max-steps 12 --learning-rate 1e-2 --lora-r 3 --target-modules all-linear --gradient-release \
    --resume "${common[@]}"

# The fit holds a budget when the lowest stages are frozen, the chain's own schedules among its choices.
run plan --model tiny-llama --lora-r 3 --max-seq-length 64 --json
most=$(json arena_bytes)
run plan --model tiny-llama --lora-r 3 --max-seq-length 64 --gradient-checkpointing memory-poor \
    --per-device-train-batch-size 1 --gradient-accumulation-steps 8 --json
least=$(json arena_bytes)
for tenth in 0 1 3 5 7 9; do
    budget=$((least + (most - least) * tenth / 10))
    run plan --model tiny-llama --lora-r 3 --max-seq-length 64 --arena $budget --json
    [[ $code -eq 0 && $(json arena_bytes) -le $budget ]]
    check $? "a plan of adapters inside $budget bytes" "$err"
done

# Bad input.
expect 4 'is of another base' export --model "$work/llama" --adapter "$work/gpt-a" --merge --to "$work/x"
expect 4 'q_proj.lora_A.weight: a tensor of the model is missing' eval --model "$work/llama" \
    --adapter "$work/gpt-a" "${common[@]}"
expect 2 'exported merged, by --adapter DIR and --merge together' export --model "$work/gpt" \
    --adapter "$work/gpt-a" --to "$work/x"
expect 2 'names no dense layer' plan --model tiny --lora-r 2 --target-modules q_proj
expect 2 '^bedplate: --lora-alpha: there is no adapter' plan --model tiny --lora-alpha 4
sed 's/LORA/IA3/' "$work/gpt-a/adapter_config.json" >"$work/gpt-a/new"
mv "$work/gpt-a/new" "$work/gpt-a/adapter_config.json"
expect 4 'only LORA is implemented' eval --model "$work/gpt" --adapter "$work/gpt-a" "${common[@]}"
expect 4 'adapter_config.json' eval --model "$work/gpt" --adapter "$work/nowhere" "${common[@]}"
finish
