#!/bin/bash
# SPDX-License-Identifier: MIT
# Qwen3.5 and Qwen3-Next from end to end: the same bits however they are computed, directories as transformers writes them, adapters,
# generation that goes on from states, and what is refused.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
awk '{ printf "{\"text\": \"%s\"}\n", $0 }' "$work/text" >"$work/texts.jsonl"
common=(--data "$work/text" --max-seq-length 40 --learning-rate 1e-2 --device host --quiet --json)

# Policies, threads, forms of the kernels, micro-batches, packed rows, checkpoints.
# verifies layers-2.7756
for model in tiny-qwen3.5 tiny-qwen3-next; do
    whole=(--model "$model" --max-steps 4 --per-device-train-batch-size 4)
    digest "$model" "${whole[@]}" --gradient-checkpointing none --threads 1 --save-dtype fp32
    first=$state
    for how in '--gradient-checkpointing full --threads 2' "--gradient-checkpointing every:2 --kernels $other_kernels" \
        '--gradient-checkpointing selective:norm,swiglu,attention --poison' '--gradient-checkpointing memory-poor' \
        '--gradient-release' '--sequence-chunk 8'; do
        read -ra options <<<"$how"
        same "${whole[@]}" "${options[@]}"
    done
done
digest cut "${whole[@]}" --stop-at-step 2
digest cut "${whole[@]}" --resume --gradient-checkpointing full
[[ $state == "$first" ]]
check $? 'resumed, the same state'
for how in --packing --bf16 '--optim muon' '--load-in-4bit --lora-r 2 --target-modules all-linear'; do
    read -ra options <<<"$how"
    [[ $how == --packing ]] && common[1]=$work/texts.jsonl || common[1]=$work/text
    digest "form" --model tiny-qwen3.5 --max-steps 4 --per-device-train-batch-size 4 "${options[@]}" --threads 1
    first=$state
    same --model tiny-qwen3.5 --max-steps 4 --per-device-train-batch-size 4 "${options[@]}" --threads 2 \
        --gradient-checkpointing full --kernels "$other_kernels"
    rm -rf "$work/form"
done

# What is written, and read again.
o=$work/tiny-qwen3.5
grep -q '"model_type": "qwen3_5_text"' "$o/config.json" && grep -q '"Qwen3_5ForCausalLM"' "$o/config.json" &&
    grep -q '"layer_types": \["linear_attention", "linear_attention", "linear_attention", "full_attention"\]' "$o/config.json"
check $? 'config.json has its keys' "$(cat "$o/config.json")"
shapes() { # DIR: of a linear layer's tensors
    grep -aoE '"model\.layers\.1\.linear_attn[a-z_A-Z.0-9]*":\{"dtype":"F32","shape":\[[0-9,]*' "$1/model.safetensors" |
        sed 's/.*linear_attn.//; s/":{"dtype":"F32","shape":\[/ /' | LC_ALL=C sort | tr '\n' ' '
}
[[ $(shapes "$o") == 'A_log 4 conv1d.weight 160,1,4 dt_bias 4 in_proj_a.weight 4,64 in_proj_b.weight 4,64 in_proj_qkv.weight 160,64 in_proj_z.weight 96,64 norm.weight 24 out_proj.weight 64,96 ' ]]
check $? 'tensors have the names and shapes of transformers' "$(shapes "$o")"
[[ $(shapes "$work/tiny-qwen3-next") == 'A_log 4 conv1d.weight 160,1,4 dt_bias 4 in_proj_ba.weight 8,64 in_proj_qkvz.weight 256,64 norm.weight 24 out_proj.weight 64,96 ' ]]
check $? "Qwen3-Next's too" "$(shapes "$work/tiny-qwen3-next")"
run export --model "$o" --to "$work/copy"
[[ $code -eq 0 ]] && cmp "$o/model.safetensors" "$work/copy/model.safetensors"
check $? 'an export has the same tensors' "$out$err"
run verify "$o"
check "$code" 'it verifies' "$out$err"
expect 2 'qwen3_5_text: GGUF files of this model type are not implemented' export --model "$o" --to "$work/no.gguf"

# Continuations: a prompt in one piece or token by token, several sequences at once, forms of the kernels, and a text's loss.
ids() { grep -o '"ids": [^]]*' <<<"$out" | sort -u; }
for m in "$o" "$work/tiny-qwen3-next"; do
    run generate --model "$m" --prompt-ids 7,8,9,10,11 --max-new-tokens 40 --temperature 0 --json
    likeliest=$(ids)
    [[ $code -eq 0 && -n $likeliest ]]
    check $? 'it generates' "$out$err"
    run generate --model "$m" --prompt-ids 7,8,9,10,11 --max-new-tokens 40 --temperature 0 --num-return-sequences 3 --json
    [[ $(ids) == "$likeliest" ]]
    check $? 'each likeliest continuation is the same' "$(ids) for $likeliest"
    run generate --model "$m" --prompt-ids 7,8,9,10,11 --max-new-tokens 40 --temperature 0 --kernels portable --json
    [[ $(ids) == "$likeliest" ]]
    check $? 'and with portable kernels' "$(ids)"
    # What was generated first, given with the prompt, goes on the same way.
    begun=$(sed 's/.*\[//; s/ //g' <<<"$likeliest" | cut -d, -f1-20)
    rest=$(sed 's/.*\[//; s/ //g' <<<"$likeliest" | cut -d, -f21-40)
    run generate --model "$m" --prompt-ids "7,8,9,10,11,$begun" --max-new-tokens 20 --temperature 0 --json
    [[ $(ids | sed 's/.*\[//; s/ //g') == "$rest" ]]
    check $? 'a longer prompt goes on the same way' "$(ids) for $rest"
done

# Adapters: merged they give the same loss.
run eval --model "$o" --data "$work/text" --max-seq-length 40 --json
plain=$(json loss)
both=(--model "$o" --lora-r 2 --target-modules all-linear --max-steps 3 --per-device-train-batch-size 4 --learning-rate 3e-2)
digest both "${both[@]}" --gradient-checkpointing none --threads 1
first=$state
same "${both[@]}" --gradient-checkpointing full --threads 2
grep -aq 'layers.1.linear_attn.in_proj_qkv.lora_A.weight' "$work/both/adapter_model.safetensors" &&
    grep -aq 'layers.3.self_attn.q_proj.lora_B.weight' "$work/both/adapter_model.safetensors" &&
    ! grep -aq 'conv1d' "$work/both/adapter_model.safetensors"
check $? 'adapters are on dense layers alone'
run eval --model "$o" --adapter "$work/both" --data "$work/text" --max-seq-length 40 --json
loss=$(json loss)
run export --model "$o" --adapter "$work/both" --merge --to "$work/merged"
run eval --model "$work/merged" --data "$work/text" --max-seq-length 40 --json
[[ -n $loss && $loss != "$plain" && $(printf %.5f "$(json loss)") == "$(printf %.5f "$loss")" ]]
check $? 'merged they give the same loss' "$loss $plain $out$err"
disk=$(mktemp -d "$BUILD/qwen3_5.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
same "${both[@]}" --gradient-checkpointing full --offload "file:$disk/file:64MiB" --offload-buffered

# A text model beside an image model: its config inside, its tensors by another name.
mkdir -p "$work/beside"
{ echo '{"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "vision_config": {"depth": 2}, "text_config":' &&
    cat "$o/config.json" && echo '}'; } >"$work/beside/config.json"
python3 - "$o/model.safetensors" "$work/beside/model.safetensors" <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + size])
head = {n.replace("model.", "model.language_model.", 1) if n.startswith("model.") else n: t for n, t in head.items()}
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
PY
run eval --model "$work/beside" --data "$work/text" --max-seq-length 40 --json
[[ $code -eq 0 && $(json loss) == "$plain" ]]
check $? 'beside an image model it has the same loss' "$(json loss) for $plain $err"

# What is refused.
refused() { # PATTERN SED [CODE]
    mkdir -p "$work/c"
    sed "$2" "$o/config.json" >"$work/c/config.json"
    expect "${3:-4}" "$1" plan --model "$work/c"
}
refused 'linear_conv_kernel_dim: ' 's/"linear_conv_kernel_dim": 4/"linear_conv_kernel_dim": 17/'
refused 'linear_conv_kernel_dim: ' 's/"linear_conv_kernel_dim": 4/"linear_conv_kernel_dim": 1/' 2
refused 'linear_num_key_heads: ' 's/"linear_num_key_heads": 2/"linear_num_key_heads": 3/' 2
refused 'linear_key_head_dim: ' 's/"linear_key_head_dim": 16/"linear_key_head_dim": 0/'
refused 'layer_types: ' 's/"linear_attention", //'
refused 'layer_types: ' 's/"linear_attention", /"sliding_attention", /'
refused 'attn_output_gate: ' 's/^{/{ "attn_output_gate": false,/'
expect 2 'tape-dtype: ' plan --model tiny-qwen3.5 --tape-dtype fp8
expect 7 'the device has no kernel of this name' plan --model tiny-qwen3.5 --device cuda:sm_80
expect 2 'transformers has no class for this task and family: found "qwen3_5_moe_text"' plan --model tiny-qwen3.5-moe --task classification
echo '{"prompt": "1 bottle"}' >"$work/asks.jsonl"
expect 2 'generate_regions: ' rollout --model "$o" --data "$work/asks.jsonl" --num-generations 2 --max-completion-length 4 --output "$work/o.jsonl"
finish
