#!/bin/bash
# SPDX-License-Identifier: MIT
# Where a step's division into micro-batches changes what is learned, --arena does not choose it, and a plan that does not
# fit proposes it with these words: a reference point, a batch norm, a balancing loss of micro-batches. Elsewhere it is
# chosen and proposed without.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 40; i++) printf "{\"prompt\": \"q %d\", \"completion\": \"a\", \"label\": %s}\n", i, i % 2 ? "true" : "false" }' >"$work/kto.jsonl"
mkdir "$work/balanced" "$work/plain" "$work/frozen"
experts='"model_type": "qwen3_moe", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "max_position_embeddings": 128'
echo "{$experts, \"output_router_logits\": true}" >"$work/balanced/config.json"
echo "{$experts}" >"$work/plain/config.json"
net='"model_type": "cnn", "image_height": 32, "image_width": 32, "num_channels": 3, "num_labels": 2, "layers": ["conv 8 3", "basic 8", "mean-pool all"]'
echo "{$net, \"freeze_batch_norm\": true}" >"$work/frozen/config.json"

# needs OPTION..: the fewest bytes of a plan of micro-batches of 2 and of 16.
needs() {
    local size
    for size in 2 16; do
        run plan "$@" --gradient-checkpointing memory-poor --per-device-train-batch-size $size --gradient-accumulation-steps $((16 / size)) --json
        json arena_bytes
    done
}
# divided WORDS OPTION..: of an arena between both; no WORDS: they change nothing.
divided() {
    local words=$1 small large limit fixed
    shift
    { read -r small && read -r large; } < <(needs "$@")
    limit=$(((small + large) / 2))
    fixed=("$@" --gradient-checkpointing memory-poor --per-device-train-batch-size 16 --arena $limit)
    run plan "${fixed[@]}"
    [[ $code -eq 3 && $err == *--gradient-accumulation-steps* ]]
    check $? "$*: smaller micro-batches are proposed" "$small $large $err"
    if [[ -n $words ]]; then
        [[ $(grep -c "^bedplate: its smaller micro-batches change the result: $words" <<<"$err") -eq 1 ]]
    else
        [[ $err != *'change the result'* ]]
    fi
    check $? "$*: whether they change the result: $words" "$err"
    run plan "${fixed[@]}" --json
    [[ -z $words && $out != *changes_result* || -n $words && $out == *"\"changes_result\": \"$words"* ]]
    check $? "$*: in JSON as well" "$out"
}
tokens=(--max-seq-length 64)
chunk=(--sequence-chunk 1024) # is not proposed then
divided "kto's reference point" --model tiny-llama --task kto "${tokens[@]}" "${chunk[@]}"
divided 'the loss of chosen answers' --model tiny-llama --task orpo "${tokens[@]}" "${chunk[@]}"
divided '' --model tiny-llama --task dpo "${tokens[@]}"
divided '' --model tiny-bert --task embedding "${tokens[@]}"
divided 'batch norms' --model resnet-8
divided '' --model "$work/frozen"
divided 'the balancing loss' --model "$work/balanced" "${tokens[@]}" "${chunk[@]}"
divided '' --model "$work/plain" "${tokens[@]}"
divided 'adama' --model tiny "${tokens[@]}" "${chunk[@]}" --gradient-release adama --max-grad-norm 0
divided '' --model tiny "${tokens[@]}"

# chosen MODEL OPTION..: the micro-batch of 8 that an arena with room for 2 gets.
chosen() {
    run plan --model "$@" --gradient-checkpointing full --per-device-train-batch-size 2 --gradient-accumulation-steps 4 --json
    run plan --model "$@" --arena "$(json arena_bytes)" --json
    size=$(grep -o '"per_device_train_batch_size": [0-9]*' <<<"$out" | head -1 | tr -dc 0-9)
}
chosen resnet-8
[[ $code -eq 3 && $size -eq 8 ]]
check $? "batch norms: --arena keeps a micro-batch of 8: $size" "$out$err"
chosen "$work/frozen"
[[ $code -eq 0 && $size -lt 8 ]]
check $? "frozen ones: --arena chooses a smaller one: $size" "$out$err"

# Two evaluations of one step: KTO's loss is another one, DPO's is not (TRL's formula, docs/how-to/preferences.md).
loss() { # TASK DATA BATCH: of the first step of 8 examples
    run train --model tiny-llama --task "$1" --data "$2" --max-seq-length 32 --per-device-train-batch-size "$3" --gradient-accumulation-steps $((8 / $3)) \
        --max-steps 2 --learning-rate 1e-2 --logging-steps 2 --quiet --json --output-dir "$work/run" --overwrite-output-dir
    grep -o '"loss": [0-9.]*' <<<"$out" | tail -1
}
sed 's/"completion": "a", "label": [a-z]*/"chosen": "yes", "rejected": "no"/' "$work/kto.jsonl" >"$work/dpo.jsonl"
whole=$(loss kto "$work/kto.jsonl" 8)
half=$(loss kto "$work/kto.jsonl" 2)
[[ -n $whole && -n $half && $whole != "$half" ]]
check $? "kto's loss changes: $whole, in parts $half" "$err"
whole=$(loss dpo "$work/dpo.jsonl" 8)
half=$(loss dpo "$work/dpo.jsonl" 2)
[[ -n $whole ]] && awk -v a="${whole#*: }" -v b="${half#*: }" 'BEGIN { exit !(a - b < 1e-5 && b - a < 1e-5) }'
check $? "dpo's does not: $whole, in parts $half" "$err"
finish
