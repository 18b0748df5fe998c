#!/bin/bash
# SPDX-License-Identifier: MIT
# Packing: several documents in a row, by every strategy; plans, resuming, what is refused.
# verifies formats-21.af25
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 40; i++)); do
    text=$(printf 'word%.0s ' $(seq $((1 + i * 7 % 11))))
    echo "{\"text\": \"$i $text\"}" >>"$work/text.jsonl"
    echo "{\"prompt\": \"say $i\", \"completion\": \" $text\"}" >>"$work/prompts.jsonl"
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$i\"}, {\"role\": \"assistant\", \"content\": \"$text\"}]}" >>"$work/chat.jsonl"
done
cat >"$work/config.json" <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
 "rope_theta": 10000.0, "tie_word_embeddings": true, "eos_token_id": 0}
END
mkdir "$work/model" && mv "$work/config.json" "$work/model"
common=(--model "$work/model" --max-seq-length 96 --per-device-train-batch-size 2 --learning-rate 3e-3 --max-steps 20 --threads 2)

for data in text prompts chat; do
    more=()
    [[ $data != chat ]] || more=(--chat-template chatml)
    run train "${common[@]}" --data "$work/$data.jsonl" "${more[@]}" --packing --output-dir "$work/$data" --json
    [[ $code -eq 0 ]] && grep -qE 'packing: 40 documents in [0-9]+ rows, of whose [0-9]+ places (8|9)[0-9]\.[0-9] % are used' <<<"$err"
    check $? "$data: rows are full" "$out$err"
done
run train "${common[@]}" --data "$work/prompts.jsonl" --packing --output-dir "$work/a" --json
digest=$(json state_digest)
arena=$(json arena_bytes)
run plan "${common[@]}" --data "$work/prompts.jsonl" --packing --length-buckets none --json
[[ $code -eq 0 && $(json arena_bytes) == "$arena" ]]
check $? "the plan is that of the run" "$arena $out$err"
run train "${common[@]}" --data "$work/prompts.jsonl" --packing --output-dir "$work/b" --gradient-checkpointing full --threads 1 --kernels $other_kernels --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "another policy, fewer threads, portable kernels: the same bits" "$out$err"
run train "${common[@]}" --data "$work/prompts.jsonl" --packing --output-dir "$work/c" --stop-at-step 7
run train "${common[@]}" --data "$work/prompts.jsonl" --packing --output-dir "$work/c" --resume --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"
run train "${common[@]}" --data "$work/prompts.jsonl" --output-dir "$work/c" --resume
[[ $code -eq 2 ]] && grep -q 'packing differs from the checkpoint' <<<"$err"
check $? "without packing it is another run" "$err"
run replay "$work/a" --model "$work/model" --data "$work/prompts.jsonl"
check $((code != 0)) "a replay packs the same rows" "$out$err"
run train "${common[@]}" --data "$work/prompts.jsonl" --packing --bf16 --validation-split 0.2 --output-dir "$work/d" --json
[[ $code -eq 0 && -n $(json eval_loss) ]]
check $? "in 16 bits, with an evaluation" "$out$err"
run train "${common[@]}" --data "$work/text.jsonl" --packing --max-seq-length 24 --output-dir "$work/e"
grep -q 'tokens are beyond the ends of rows' <<<"$err"
check $? "what is cut is told" "$err"
# verifies face-34.a5d9
at=$(awk '{ n = length($0) - 12 } n > 24 { print NR; exit }' "$work/text.jsonl")
expect 4 "text.jsonl: row $at: it has more tokens than --max-seq-length.*expected at most 25" \
    train "${common[@]}" --data "$work/text.jsonl" --packing --max-seq-length 24 --output-dir "$work/long" --long-rows refuse
run train "${common[@]}" --data "$work/text.jsonl" --packing --packing-strategy bfd_split --max-seq-length 24 --output-dir "$work/f"
[[ $code -eq 0 ]] && ! grep -q 'beyond the ends' <<<"$err"
check $? "or becomes documents of its own" "$err"
run train "${common[@]}" --data "$work/prompts.jsonl" --packing --packing-strategy wrapped --output-dir "$work/g"
[[ $code -eq 0 ]] && grep -q '40 documents in a stream of' <<<"$err"
check $? "wrapped" "$err"
run train --model tiny --data "$work/prompts.jsonl" --packing --packing-strategy wrapped --max-seq-length 32 --max-steps 1 --output-dir "$work/h"
check $((code != 0)) "wrapped goes with gpt2" "$err"
# A model that learns places: --bf16, dropout and LoRA; the plan is that of the run, and other policies have its bits.
places=(--model tiny --data "$work/prompts.jsonl" --packing --max-seq-length 32 --max-steps 6 --per-device-train-batch-size 2)
run train "${places[@]}" --output-dir "$work/i" --json
check $code "gpt2 is packed" "$err"
digest=$(json state_digest)
arena=$(json arena_bytes)
run plan "${places[@]}" --length-buckets none --json
[[ $code -eq 0 && $(json arena_bytes) == "$arena" ]]
check $? "by the plan" "$arena $out$err"
run train "${places[@]}" --output-dir "$work/j" --gradient-checkpointing full --threads 2 --kernels $other_kernels --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "with the same bits by another policy" "$out$err"
run train "${places[@]}" --output-dir "$work/k" --lora-r 4 --bf16 --gradient-accumulation-steps 2
check $code "with adapters in 16 bits" "$out$err"
# On a GPU, which here is the instrument of tools/ptxvm: the losses of the host, and always the same bits.
gpu() {
    rm -rf "$work/gpu"
    LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run train "$@" --device cuda --json
}
near() {
    awk -v a="$1" -v b="$2" -v bound="$3" 'BEGIN { d = a - b; exit !(a > 0 && d * d <= bound * bound * a * a) }'
}
last_loss() {
    grep -o '"mean_loss": [0-9.]*' <<<"$out" | grep -o '[0-9.]*$'
}
short=(--data "$work/prompts.jsonl" --packing --max-steps 3 --per-device-train-batch-size 2)
forms=('model 96 1e-5' 'tiny 32 2e-3 --bf16 --gradient-checkpointing full')
! long_form || forms+=('model 96 2e-3 --bf16' 'tiny 32 1e-5')
for form in "${forms[@]}"; do
    read -r model length bound more <<<"$form"
    [[ $model == tiny ]] || model=$work/$model
    # shellcheck disable=SC2206
    all=("${short[@]}" --model "$model" --max-seq-length "$length" $more)
    rm -rf "$work/host"
    run train "${all[@]}" --output-dir "$work/host" --json
    loss=$(last_loss)
    gpu "${all[@]}" --output-dir "$work/gpu"
    [[ $code -eq 0 ]] && near "$loss" "$(last_loss)" "$bound"
    check $? "$form: packed on a GPU" "$loss $out$err"
    first=$(json state_digest)
    gpu "${all[@]}" --output-dir "$work/gpu"
    [[ $code -eq 0 && $(json state_digest) == "$first" ]]
    check $? "$form: the same bits again" "$out$err"
done
echo '{"prompt": "a", "chosen": "b", "rejected": "c"}' >"$work/pairs.jsonl"
expect 2 'packed for language models' train "${common[@]}" --task dpo --data "$work/pairs.jsonl" --packing --output-dir "$work/x"
finish
