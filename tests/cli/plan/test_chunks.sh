#!/bin/bash
# SPDX-License-Identifier: MIT
# --sequence-chunk through the program: equal bits for every chunk, whatever else is chosen, in fewer bytes; what
# is refused.
# verifies layers-51.f5f9
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
data="$work/text"
train() { # options..: sets digest
    run train --data "$data" --output-dir "$work/run" --max-seq-length 32 --per-device-train-batch-size 2 --max-steps 3 \
        --device host --json --quiet --overwrite-output-dir "$@"
    digest=$(json state_digest)
    [[ $code -eq 0 && -n $digest ]]
    check $? "train $*" "$err"
}
same() { # CHUNKS options..: digests with these chunks are that without
    local chunk whole
    train "${@:2}"
    whole=$digest
    for chunk in $1; do
        train "${@:2}" --sequence-chunk "$chunk"
        [[ $digest == "$whole" ]]
        check $? "chunks of $chunk: ${*:2} ($digest, not $whole)"
    done
}

# Every family, chunks that divide the rows of a micro-batch and chunks that do not, a chunk of more than all rows.
for model in tiny tiny-llama tiny-qwen3 tiny-olmo2 tiny-gemma2 tiny-phi3 tiny-granite tiny-neox tiny-glm4 tiny-hunyuan \
    tiny-cohere tiny-starcoder2; do
    chunks='13 63'
    ! long_form && [[ $model != tiny ]] || chunks='1 13 16 63 64 1000'
    same "$chunks" --model "$model" --dropout 0.2
    same 13 --model "$model" --bf16 --gradient-checkpointing full --threads 2
done
# Policies, types, what is trained, when it is updated, where it lives, who shares it.
llama=(--model tiny-llama)
all=(--lora-r 4 --target-modules all-linear)
for policy in memory-poor sqrt selective:norm,attention auto; do
    same 13 "${llama[@]}" --gradient-checkpointing "$policy" --threads 2 --arena 4MB
done
same 13 "${llama[@]}" --bf16 --gradient-accumulation-steps 3
same 13 --model tiny --bf16 --gradient-dtype bf16 --gradient-accumulation-steps 2 --master fp32 --kernels $other_kernels
same 13 "${llama[@]}" --fp16
same 13 "${llama[@]}" --gradient-dtype int8 --gradient-accumulation-steps 2
same 13 "${llama[@]}" --bf16 --tape-dtype fp8 --gradient-checkpointing full
same 13 --model tiny --bf16 --weight-dtype fp8
same 13 "${llama[@]}" "${all[@]}" --lora-dropout 0.1 --lora-bias all
same 13 "${llama[@]}" "${all[@]}" --use-dora --lora-dropout 0.3 --bf16
same 13 "${llama[@]}" "${all[@]}" --load-in-4bit --bf16
same 13 "${llama[@]}" "${all[@]}" --load-in-8bit
same 13 "${llama[@]}" --freeze '*mlp*'
same 13 "${llama[@]}" --freeze '*layers.0*'
same 13 "${llama[@]}" --gradient-release --max-grad-norm 0.5
same 13 "${llama[@]}" --freeze '*embed*' # the first norm is trained, and what it reads is not
same 13 "${llama[@]}" --bf16 --gradient-release adama --max-grad-norm 0 --gradient-accumulation-steps 2
same 13 "${llama[@]}" --optim schedule_free_adamw --validation-split 0.1 --eval-steps 2
same 13 "${llama[@]}" --bf16 --virtual-ranks 2 --gradient-accumulation-steps 2
same 13 "${llama[@]}" --virtual-ranks 2 --fabric threads:2 --gradient-accumulation-steps 2 --shard parameters
same 13 "${llama[@]}" --bf16 --gradient-accumulation-steps 2 --offload "file:$work/tier:64MB" \
    --offload-what weights,states,gradients,checkpoints --gradient-checkpointing full
for policy in full sqrt; do
    same '7 13' "${llama[@]}" --bf16 --gradient-accumulation-steps 2 --offload "file:$work/tier:64MB" --offload-what checkpoints \
        --gradient-checkpointing $policy --dropout 0.2 --threads 2
done
# Attention's gradients in the place of what they are of: heads with norms, windows, caps, documents, dropout, portable forms.
# Heads together wider than the block, and nothing trained before its first layer's attention.
for model in tiny-qwen3 tiny-gemma3-text; do
    same '5 40' --model $model --lora-r 4 --target-modules q_proj
done
for model in tiny-qwen3 tiny-gemma2; do
    same '7 40' --model $model --bf16 --gradient-checkpointing full --dropout 0.2 --kernels $other_kernels
    same 40 --model $model --gradient-checkpointing full "${all[@]}" --load-in-4bit --packing --packing-strategy wrapped --threads 2
done
same '13 33' "${llama[@]}" --bf16 --gradient-checkpointing full --dropout 0.2 --packing --packing-strategy wrapped
same 13 "${llama[@]}" --fp16 --gradient-checkpointing full --packing --packing-strategy wrapped
same 13 "${llama[@]}" --bf16 --gradient-checkpointing full --gradient-release --max-grad-norm 0.5
same 13 "${llama[@]}" --length-buckets 8,16
same 13 "${llama[@]}" --packing --packing-strategy wrapped

# What is evaluated, and what is learned from pairs whose reference is evaluated, in chunks.
awk 'BEGIN { for (i = 0; i < 12; i++) printf "{\"prompt\": \"q%d: \", \"chosen\": \"good%d\", \"rejected\": \"bad %d\"}\n", i, i % 5, i % 3 }' >"$work/pairs.jsonl"
data="$work/pairs.jsonl"
for task in dpo orpo; do
    same '7 13' --model tiny-qwen3 --task $task --validation-split 0.25 --length-buckets none
done
data="$work/text"
train "${llama[@]}"
judged=()
for chunk in 0 13; do
    run eval --model "$work/run" --data "$work/text" --max-seq-length 32 --json --sequence-chunk $chunk
    judged+=("$code $(json loss)")
done
[[ ${judged[0]} == "0 "?* && ${judged[1]} == "${judged[0]}" ]]
check $? "an evaluation in chunks" "${judged[*]} $err"

# The search chooses chunks where --arena needs them, and nothing else would do; the bits are those without.
long=(--max-seq-length 512 --per-device-train-batch-size 1 --gradient-checkpointing full --loss-chunk-rows 64)
train "${llama[@]}" "${long[@]}"
whole=$digest most=$(json arena_bytes)
for arena in "$most" $((most - 1)); do
    train "${llama[@]}" "${long[@]}" --arena "$arena" --sequence-chunk auto
    [[ $digest == "$whole" && $(json arena_bytes) -le $arena ]]
    check $? "auto within $arena bytes" "$out$err"
    run plan "${llama[@]}" "${long[@]}" --device host --arena "$arena" --sequence-chunk auto --json
    chosen+=("$(json sequence_chunk)")
done
[[ ${chosen[*]} == "0 128" ]]
check $? "auto chooses none where all fits, and the longest that fits where it does not: ${chosen[*]}"
least=(plan "${llama[@]}" --max-seq-length 512 --per-device-train-batch-size 1 --device host)
run "${least[@]}" --arena 1000 --json
run "${least[@]}" --arena $(($(json arena_bytes) / 10 * 9))
[[ $code -eq 3 && $err == *'would fit with --sequence-chunk 128: '* ]]
check $? "chunks are proposed where nothing else changes no bit" "$err"
run plan --model tiny-bert --max-seq-length 32 --arena 100MB --sequence-chunk auto --json
[[ $code -eq 0 && $(json sequence_chunk) == 0 ]]
check $? "auto chooses none for a model that has none" "$err"
run plan "${llama[@]}" --sequence-chunk auto --print-options
grep -qx 'sequence-chunk = auto' <<<"$out"
check $? "auto is printed as it was typed" "$out"

# A run is resumed with another chunk: it is no part of the result.
train "${llama[@]}" --save-steps 2
whole=$digest
train "${llama[@]}" --stop-at-step 2 --sequence-chunk 16
run train "${llama[@]}" --data "$work/text" --output-dir "$work/run" --max-seq-length 32 --per-device-train-batch-size 2 --max-steps 3 \
    --device host --json --quiet --resume --sequence-chunk 7
[[ $code -eq 0 && $(json state_digest) == "$whole" ]]
check $? "resumed with another chunk" "$err"

# Bytes: the activations of an MLP that is four times as wide as the stream are those of a chunk.
bytes() { # CHUNK
    run plan --model gpt2 --max-seq-length 1024 --per-device-train-batch-size 4 --gradient-checkpointing full --loss-chunk-rows 256 \
        --bf16 --optim adamw_8bit --gradient-release --json --sequence-chunk "$1"
    json arena_bytes | head -1
}
whole=$(bytes 0) chunked=$(bytes 256)
inner=$((4 * 1024 * 4 * 768 * 2)) # of one activation, in bf16
[[ $chunked -lt $((whole - inner)) ]]
check $? "gpt2: $chunked bytes in chunks, $whole without; an inner activation has $inner"

# With checkpoints in a file and all rows of a layer in chunks, a further token takes the bytes of what attention reads and makes,
# of the stream, of three numbers of each head, and of what two workers convert: here in bf16 with a width of 64 and two
# key-value heads of 16.
mkdir "$work/far"
cat >"$work/far/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 65536, "rms_norm_eps": 1e-5,
 "tie_word_embeddings": true}
END
far() { # TOKENS
    run plan --model "$work/far" --max-seq-length "$1" --per-device-train-batch-size 1 --bf16 "${all[@]}" --gradient-checkpointing full \
        --loss-chunk-rows 64 --device host --threads 2 --sequence-chunk 256 --offload "file:$work/tier:64MB" --offload-what checkpoints --json
    json arena_bytes | head -1
}
short=$(far 4096) longer=$(far 8192)
each=$(((longer - short) / 4096))
[[ -n $short && -n $longer && $each -le 1500 ]]
check $? "a further token takes $each bytes"

# What is refused, by name.
expect 2 '--sequence-chunk: chunks of a sequence are for language models that read from left to right' \
    plan --model tiny-bert --max-seq-length 32 --sequence-chunk 16
expect 2 '--sequence-chunk' plan --model tiny-llama --max-seq-length 32 --sequence-chunk -1
expect 2 '--sequence-chunk: .*found "many", expected a number such as 8, or auto' plan --model tiny-llama --max-seq-length 32 --sequence-chunk many
expect 2 '--sequence-chunk: products in fp8 have scales over all rows' \
    plan --model tiny-llama --max-seq-length 32 --sequence-chunk 16 --bf16 --product-dtype fp8 --device cuda:sm_90a
finish
