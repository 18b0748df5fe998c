#!/bin/bash
# SPDX-License-Identifier: MIT
# --offload-what streams: equal bits with all rows but one head's in a file, in fewer bytes, within what the plan says; what
# is refused.
# verifies layers-56.a122
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
all=(--lora-r 4 --target-modules all-linear)
file=(--gradient-checkpointing full --offload "file:$work/tier:64MB" --offload-what streams)
train() { # options..: sets digest
    run train --data "$work/text" --output-dir "$work/run" --max-seq-length 32 --per-device-train-batch-size 2 --max-steps 3 \
        --device host --json --quiet --overwrite-output-dir "$@"
    digest=$(json state_digest)
    [[ $code -eq 0 && -n $digest ]]
    check $? "train $*" "$err"
}
whole() { # options..: sets right, and the arena's bytes
    train "$@"
    right=$digest bytes=$(json arena_bytes)
}
same() { # options..: digests with streams are those of the last run of whole, in fewer bytes
    train "$@"
    [[ $digest == "$right" && $(json arena_bytes) -lt $bytes ]]
    check $? "streams: $* ($digest, not $right; $(json arena_bytes) bytes, not fewer than $bytes)"
}

# Every family that has them: heads in groups and alone, with norms, windows, caps, biases; chunks that divide the rows of a
# micro-batch and samples, and chunks that do not.
for model in tiny-llama tiny-qwen3 tiny-gemma2 tiny-gemma3-text tiny-phi3 tiny-granite tiny-glm4 tiny-hunyuan tiny-olmo2 \
    tiny-starcoder2; do
    whole --model "$model" "${all[@]}" --bf16
    same --model "$model" "${all[@]}" --bf16 "${file[@]}" --sequence-chunk 13 --threads 2
    ! long_form && [[ $model != tiny-gemma2 ]] || for chunk in 1 16 32 63; do
        same --model "$model" "${all[@]}" --bf16 "${file[@]}" --sequence-chunk $chunk
    done
done
# Types, bases, adapters, documents, several micro-batches, policies, what else is offloaded, forms of kernels.
llama=(--model tiny-llama)
for options in '--fp16' '' '--bf16 --load-in-4bit --packing --packing-strategy wrapped' '--load-in-8bit --lora-dropout 0.3' \
    '--bf16 --use-dora --gradient-accumulation-steps 2' '--bf16 --gradient-release --max-grad-norm 0.5' \
    '--bf16 --gradient-dtype bf16 --gradient-accumulation-steps 3' "--bf16 --freeze *layers.0*"; do
    read -ra own <<<"$options"
    whole "${llama[@]}" "${all[@]}" "${own[@]}"
    same "${llama[@]}" "${all[@]}" "${own[@]}" "${file[@]}" --sequence-chunk 13
done
whole "${llama[@]}" --lora-r 4 --target-modules q_proj --bf16
for more in '--gradient-checkpointing sqrt --offload-what streams' '--gradient-checkpointing memory-poor --offload-what bases,states,streams' \
    "--offload-what bases,weights,gradients,streams --kernels $other_kernels"; do
    read -ra own <<<"$more"
    same "${llama[@]}" --lora-r 4 --target-modules q_proj --bf16 "${file[@]}" --sequence-chunk 17 "${own[@]}"
done
whole "${llama[@]}" "${all[@]}" --bf16 --validation-split 0.1 --eval-steps 2
same "${llama[@]}" "${all[@]}" --bf16 --validation-split 0.1 --eval-steps 2 "${file[@]}" --sequence-chunk 24

# Resumed with streams, and the other way round.
train "${llama[@]}" "${all[@]}" --save-steps 2
right=$digest
train "${llama[@]}" "${all[@]}" --stop-at-step 2 "${file[@]}" --sequence-chunk 16
run train "${llama[@]}" "${all[@]}" --data "$work/text" --output-dir "$work/run" --max-seq-length 32 --per-device-train-batch-size 2 \
    --max-steps 3 --device host --json --quiet --resume
[[ $code -eq 0 && $(json state_digest) == "$right" ]]
check $? "resumed without streams" "$err"

# A further token takes what one key-value head has, and numbers of all heads: here heads of 16 in bf16, two to a group. The
# process takes no more than the plan says, in a run whose rows are most of it.
mkdir "$work/far"
cat >"$work/far/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 65536, "rms_norm_eps": 1e-5,
 "tie_word_embeddings": true}
END
far() { # TOKENS WHAT
    run plan --model "$work/far" --max-seq-length "$1" --per-device-train-batch-size 1 --bf16 "${all[@]}" --gradient-checkpointing full \
        --loss-chunk-rows 64 --device host --threads 2 --sequence-chunk 256 --offload "file:$work/tier:1GB" --offload-what "$2" --json
    json arena_bytes | head -1
}
short=$(far 8192 streams) longer=$(far 16384 streams) before=$(far 16384 checkpoints)
each=$(((longer - short) / 8192))
[[ -n $short && -n $longer && $each -le 560 && $longer -lt $((before * 2 / 3)) ]]
check $? "a further token takes $each bytes; $longer bytes, with checkpoints alone $before"

# What is refused, by name.
no() { # WHAT options..
    expect 2 "--offload-what: streams are offloaded .*$1" plan --max-seq-length 32 --per-device-train-batch-size 2 --device host \
        "${file[@]}" --sequence-chunk 8 "${@:2}"
}
no 'tables and the last norm are frozen' --model tiny-llama
no 'tables and the last norm are frozen' --model tiny-llama --lora-r 4 --target-modules q_proj --modules-to-save norm
no 'no positions, noise or dropout' --model tiny --lora-r 4 --target-modules all-linear
no 'without dropout in attention' --model tiny-llama "${all[@]}" --dropout 0.1
no 'blocks run in chunks before and behind attention' --model tiny-cohere "${all[@]}"
no 'learn each token by itself' --model tiny-llama "${all[@]}" --task dpo
expect 2 'streams come and go in chunks of fewer tokens' plan --model tiny-llama "${all[@]}" --max-seq-length 32 --device host "${file[@]}"
finish
