#!/bin/bash
# SPDX-License-Identifier: MIT
# Quantised bases through the program: planned, trained on by adapters, resumed, merged, written in
# bitsandbytes' form and read again, and refused where they cannot be.
. "$(dirname "$0")/../lib.sh"

data=$work/data.txt
for ((i = 0; i < 300; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
common=(--data "$data" --max-seq-length 32 --device host --threads 2 --json)
loss() { run eval "$@" "${common[@]}" && json loss; }
near() {
    awk -v a="$1" -v b="$2" -v t="$4" 'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) <= t * a) }'
    check $? "$3 ($1, $2)"
}

# The published run of 13 billion parameters, in fewer bytes.
published=(plan --model llama-13b --lora-r 8 --target-modules all-linear --load-in-4bit --bf16 --master split
    --gradient-dtype bf16 --optim adamw_8bit --max-seq-length 512 --per-device-train-batch-size 1 --json)
run "${published[@]}" --gradient-checkpointing full --threads 2
[[ $(json arena_bytes) -le 7838315315 && $(json waste_bytes) -eq 0 ]]
check $? "llama-13b with full checkpoints takes at most 7.3 GiB ($(json arena_bytes))"
run "${published[@]}" --threads 2
[[ $(json arena_bytes) -le 11166914969 ]]
check $? "and at most 10.4 GiB without ($(json arena_bytes))"

# On a Hopper the largest matrix is dequantized beside its product, in 2 x 4,096 x 14,336 bytes, where a budget has them.
hopper=(plan --model llama-3-8b --lora-r 16 --load-in-4bit --bf16 --device cuda:sm_90a --max-seq-length 1024
    --per-device-train-batch-size 1 --gradient-checkpointing full --json)
run "${hopper[@]}"
wide=$(json arena_bytes)
run "${hopper[@]}" --arena $((wide - 1))
tight=$(json arena_bytes)
[[ $code -eq 0 && $((wide - tight)) -eq $((2 * 4096 * 14336)) ]]
check $? "a budget below $wide bytes takes the dequantized matrix back ($tight)" "$err"
run "${hopper[@]}" --arena "$wide"
[[ $code -eq 0 && $(json arena_bytes) -eq $wide ]]
check $? "one of $wide bytes keeps it"
expect 3 "expected at least" "${hopper[@]}" --arena $((tight - 1))

# The largest batch of a budget is the one that a plan for it has, here without room for the dequantized matrix.
mkdir "$work/wide"
cat >"$work/wide/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 2,
 "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
 "tie_word_embeddings": true}
END
hopper=(plan --model "$work/wide" --lora-r 8 --target-modules all-linear --load-in-4bit --bf16 --device cuda:sm_90a --max-seq-length 512
    --gradient-checkpointing full --json)
run "${hopper[@]}" --per-device-train-batch-size 2
wide=$(json arena_bytes)
run "${hopper[@]}" --per-device-train-batch-size 2 --arena $((wide - 1))
[[ $code -eq 0 ]]
check $? "two samples fit in less than $wide bytes" "$err"
run "${hopper[@]}" --per-device-train-batch-size 1 --arena $((wide - 1)) --max-batch
[[ $code -eq 0 && $(json max_batch) -eq 2 && $(json arena_bytes) -lt $wide ]]
check $? "and are the largest batch that does ($(json max_batch))" "$err"

forms=("--load-in-4bit" "--load-in-4bit --bnb-4bit-use-double-quant false" "--load-in-8bit"
    "--load-in-4bit --bnb-4bit-quant-type fp4 --bnb-4bit-blocksize 128")
for model in tiny tiny-llama; do
    run train --model $model --output-dir "$work/$model" --max-steps 10 "${common[@]}"
    check $code "a base of $model" "$err"
    plain=$(loss --model "$work/$model")
    for n in 0 1 2 3; do
        read -ra form <<<"${forms[n]}"
        here=$(loss --model "$work/$model" "${form[@]}")
        near "$plain" "$here" "$model ${form[*]} is near to what it was" 5e-3
        expect 0 '' export --model "$work/$model" "${form[@]}" --to "$work/$model-$n"
        [[ $(loss --model "$work/$model-$n") == "$here" ]]
        check $? "a directory in bitsandbytes' form gives the same loss"
        expect 0 '' export --model "$work/$model-$n" --to "$work/$model-$n-again"
        cmp -s "$work/$model-$n/model.safetensors" "$work/$model-$n-again/model.safetensors" &&
            cmp -s "$work/$model-$n/config.json" "$work/$model-$n-again/config.json"
        # verifies formats-13.dd0a
        check $? "and is written again bit for bit"
        expect 0 '' export --model "$work/$model-$n" --dtype fp32 --to "$work/$model-$n-floats"
        near "$here" "$(loss --model "$work/$model-$n-floats")" "its values as floats too" 1e-6
    done
    adapter=("$work/$model-0" --max-steps 12 --learning-rate 1e-2 --lora-r 3 --target-modules all-linear)
    run train --model "${adapter[@]}" --output-dir "$work/$model-q" "${common[@]}"
    check $code "adapters of a quantised $model" "$err"
    digest=$(json state_digest)
    with=$(loss --model "$work/$model-0" --adapter "$work/$model-q")
    awk -v a="$plain" -v b="$with" 'BEGIN { exit !(b < a) }'
    check $? "they have learnt ($plain, then $with)"
    run train --model "$work/$model" --load-in-4bit "${adapter[@]:1}" --output-dir "$work/$model-s" "${common[@]}"
    [[ $(json state_digest) == "$digest" ]]
    check $? "quantised on load or before: the same state" "$err"
    expect 0 '' export --model "$work/$model-0" --adapter "$work/$model-q" --merge --to "$work/$model-m"
    near "$with" "$(loss --model "$work/$model-m")" "merged weights give the same loss" 1e-6
    ! grep -q quantization_config "$work/$model-m/config.json"
    check $? "and are floats"
done
expect 0 '' generate --model "$work/tiny-2" --prompt "line 3" --max-new-tokens 5

# verifies layers-8.c1a9
# An interrupted run resumes bit for bit, under every policy, and only in the same form.
cut=(train --model "$work/tiny" "${adapter[@]:1}" --output-dir "$work/cut" "${common[@]}")
run "${cut[@]}" --load-in-4bit --stop-at-step 5
expect 2 'differs from the checkpoint' "${cut[@]}" --load-in-8bit --resume
expect 2 'load-in-4bit differs from the checkpoint' "${cut[@]}" --resume
expect 2 'bnb-4bit-use-double-quant differs from the checkpoint' "${cut[@]}" --load-in-4bit \
    --bnb-4bit-use-double-quant false --resume
expect 2 'bnb-4bit-blocksize differs from the checkpoint' "${cut[@]}" --load-in-4bit --bnb-4bit-blocksize 32 --resume
run "${cut[@]}" --load-in-4bit --resume --gradient-checkpointing full --poison
digest=$(json state_digest)
run train --model "$work/tiny" --load-in-4bit "${adapter[@]:1}" --output-dir "$work/whole" "${common[@]}"
[[ -n $digest && $(json state_digest) == "$digest" ]]
check $? "a resumed run ends in the same state"

# --arena is kept to, whatever it costs, and changes nothing of the result.
shape=(--model "$work/tiny" --load-in-4bit "${adapter[@]:1:2}" --learning-rate 1e-2 --lora-r 3 --target-modules all-linear)
run plan --model "$work/tiny" --load-in-4bit --lora-r 3 --target-modules all-linear --max-seq-length 32 \
    --gradient-checkpointing full --threads 2 --json
least=$(json arena_bytes)
run train "${shape[@]}" --arena "$least" --per-device-train-batch-size 8 --output-dir "$work/small" "${common[@]}"
[[ $(json arena_bytes) -le $least && $(json state_digest) == "$digest" ]]
check $? "training inside $least bytes ends in the same state" "$err"
expect 0 '' export --model "$work/tiny-llama-0" --format gguf --to "$work/q.gguf"
expect 0 '' import --from "$work/q.gguf" --to "$work/q-gguf"
near "$(loss --model "$work/tiny-llama-0")" "$(loss --model "$work/q-gguf")" "a GGUF file has its values as floats" 1e-6

# What does not go together.
expect 2 'quantised weights are frozen: training needs adapters' plan --model tiny --load-in-4bit
expect 2 'a quantised weight cannot be trained' plan --model tiny --load-in-4bit --lora-r 2 --trainable '*c_attn.weight'
expect 2 'in 4 bits or in 8' plan --model tiny --load-in-4bit --load-in-8bit --lora-r 2
expect 2 'nothing is kept in 4 bits' plan --model tiny --bnb-4bit-use-double-quant false
expect 2 'quantised already, in another form' eval --model "$work/tiny-2" --load-in-4bit "${common[@]}"
expect 2 'not merged' export --model "$work/tiny" --adapter "$work/tiny-q" --merge --load-in-4bit --to "$work/x"
expect 2 'with --dtype source' export --model "$work/tiny" --load-in-4bit --dtype bf16 --to "$work/x"
expect 2 'nothing is kept in 4 bits' plan --model tiny --bnb-4bit-quant-type fp4
expect 2 'there are no such blocks.*expected 32, 64' plan --model tiny --load-in-4bit --lora-r 2 --bnb-4bit-blocksize 96
sed -i 's/"nf4"/"af4"/' "$work/tiny-0/config.json"
expect 4 'quantization_config: this value is not supported: found another form, expected null, or bitsandbytes' eval --model "$work/tiny-0" "${common[@]}"
finish
