#!/bin/bash
# SPDX-License-Identifier: MIT
# gpt-oss from end to end: the same bits however they are computed, its directory, adapters of attention and of experts, generation,
# and what is refused. Blocks of MXFP4: tests/unit/tools/formats/hf/test_views.c.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
awk '{ printf "{\"text\": \"%s\"}\n", $0 }' "$work/text" >"$work/texts.jsonl"
common=(--data "$work/text" --max-seq-length 40 --learning-rate 1e-2 --device host --quiet --json)

# Policies, threads, forms of the kernels, micro-batches, packed rows, checkpoints. Windows (24) are shorter than rows.
# verifies layers-2.7756
whole=(--model tiny-gpt-oss --max-steps 4 --per-device-train-batch-size 4)
digest whole "${whole[@]}" --gradient-checkpointing none --threads 1 --save-dtype fp32
first=$state
for how in '--gradient-checkpointing full --threads 2' "--gradient-checkpointing every:2 --kernels $other_kernels" \
    '--gradient-checkpointing selective:norm,swiglu,attention --poison' '--sequence-chunk 8' '--gradient-checkpointing memory-poor' \
    '--gradient-release'; do
    read -ra options <<<"$how"
    same "${whole[@]}" "${options[@]}"
done
digest cut "${whole[@]}" --stop-at-step 2
digest cut "${whole[@]}" --resume --gradient-checkpointing full
[[ $state == "$first" ]]
check $? 'resumed, the same state'
for how in --packing --bf16 '--optim muon' '--optim adam_mini' '--load-in-4bit --lora-r 2 --target-modules all-linear'; do
    read -ra options <<<"$how"
    [[ $how == --packing ]] && common[1]=$work/texts.jsonl || common[1]=$work/text
    digest "form" "${whole[@]}" "${options[@]}" --threads 1
    first=$state
    same "${whole[@]}" "${options[@]}" --threads 2 --gradient-checkpointing full --kernels $other_kernels
    rm -rf "$work/form"
done

# What is written, and read again.
o=$work/whole
grep -q '"model_type": "gpt_oss"' "$o/config.json" && grep -q '"GptOssForCausalLM"' "$o/config.json" &&
    grep -q '"layer_types": \["sliding_attention", "full_attention"\]' "$o/config.json" && grep -q '"truncate": false' "$o/config.json"
check $? 'config.json has its keys' "$(cat "$o/config.json")"
names=$(grep -aoE '"model\.layers\.1\.(mlp|self_attn\.sinks)[a-z_.]*":\{"dtype":"F32","shape":\[[0-9,]*' "$o/model.safetensors" | sed 's/.*layers.1.//; s/{"dtype":"F32","shape"://' | sort | tr '\n' ' ')
[[ $names == 'mlp.experts.down_proj":[6,176,64 mlp.experts.down_proj_bias":[6,64 mlp.experts.gate_up_proj":[6,64,352 mlp.experts.gate_up_proj_bias":[6,352 mlp.router.bias":[6 mlp.router.weight":[6,64 self_attn.sinks":[4 ' ]]
check $? 'tensors have the names and shapes of transformers' "$names"
run export --model "$o" --to "$work/copy"
[[ $code -eq 0 ]] && cmp "$o/model.safetensors" "$work/copy/model.safetensors"
check $? 'an export has the same tensors' "$out$err"
run verify "$o"
check "$code" 'it verifies' "$out$err"

# GGUF and back: every tensor has its bits, in the names that gguf-py has for the architecture.
run export --model "$o" --to "$work/oss.gguf"
check $code 'it goes into a GGUF file' "$out$err"
for name in blk.1.ffn_gate_exps.weight blk.1.ffn_up_exps.bias blk.1.ffn_down_exps.weight blk.0.attn_sinks.weight blk.0.ffn_gate_inp.bias \
    blk.0.post_attention_norm.weight; do
    grep -aq "$name" "$work/oss.gguf"
    check $? "$name is in the file"
done
run import --from "$work/oss.gguf" --to "$work/back"
[[ $code -eq 0 ]] && cmp "$o/model.safetensors" "$work/back/model.safetensors"
check $? 'and back, with the same tensors' "$out$err"
grep -q '"truncate": false' "$work/back/config.json" && grep -q '"intermediate_size": 176' "$work/back/config.json"
check $? 'and the same keys' "$(cat "$work/back/config.json")"
sed 's/"swiglu_limit": 7.0/"swiglu_limit": 6.0/' -i "$work/back/config.json"
expect 2 'swiglu_limit' export --model "$work/back" --to "$work/no.gguf"

# Continuations: what is kept of a prompt, several sequences at once, forms of the kernels.
ids() { grep -o '"ids": [^]]*' <<<"$out" | sort -u; }
run generate --model "$o" --prompt-ids 7,8,9,10,11 --max-new-tokens 40 --temperature 0 --num-return-sequences 3 --json
likeliest=$(ids)
[[ $code -eq 0 && $(wc -l <<<"$likeliest") -eq 1 ]]
check $? 'each likeliest continuation is the same' "$out$err"
run generate --model "$o" --prompt-ids 7,8,9,10,11 --max-new-tokens 40 --temperature 0 --kernels portable --json
[[ $(ids) == "$likeliest" ]]
check $? 'and with portable kernels' "$out$err"

# Adapters of attention and of experts: merged they give the same loss.
run eval --model "$o" --data "$work/text" --max-seq-length 40 --json
plain=$(json loss)
both=(--model "$o" --lora-r 2 --target-modules q_proj,experts.gate_up_proj,experts.down_proj --max-steps 3
    --per-device-train-batch-size 4 --learning-rate 3e-2)
digest both "${both[@]}" --gradient-checkpointing none --threads 1
first=$state
same "${both[@]}" --gradient-checkpointing full --threads 2
same "${both[@]}" --gradient-checkpointing memory-poor --kernels $other_kernels
names=$(grep -aoE 'layers\.1\.mlp\.experts\.[a-z_A-Z.]*weight":\{"dtype":"F32","shape":\[[0-9,]*' "$work/both/adapter_model.safetensors" | sort)
[[ $names == *'experts.base_layer.lora_A.weight":{"dtype":"F32","shape":[12,64'*'experts.base_layer.lora_B.weight":{"dtype":"F32","shape":[352,12'*'experts.lora_A.weight":{"dtype":"F32","shape":[12,176'*'experts.lora_B.weight":{"dtype":"F32","shape":[64,12'* ]]
check $? 'tensors have the names and shapes of PEFT' "$names"
run eval --model "$o" --adapter "$work/both" --data "$work/text" --max-seq-length 40 --json
loss=$(json loss)
run export --model "$o" --adapter "$work/both" --merge --to "$work/merged"
run eval --model "$work/merged" --data "$work/text" --max-seq-length 40 --json
[[ -n $loss && $loss != "$plain" && $(printf %.5f "$(json loss)") == "$(printf %.5f "$loss")" ]]
check $? 'merged they give the same loss' "$loss $plain $out$err"
disk=$(mktemp -d "$BUILD/gpt_oss.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
same "${both[@]}" --gradient-checkpointing full --offload "file:$disk/file:64MiB" --offload-buffered

# What is refused.
refused() { # PATTERN SED [CODE]
    mkdir -p "$work/c"
    sed "$2" "$o/config.json" >"$work/c/config.json"
    expect "${3:-4}" "$1" plan --model "$work/c"
}
refused 'swiglu_limit: ' 's/"swiglu_limit": 7.0/"swiglu_limit": 0/'
refused 'swiglu_limit: ' 's/"swiglu_limit": 7.0/"swiglu_limit": -1/'
refused 'swiglu_alpha: ' 's/"swiglu_alpha": 1.702/"swiglu_alpha": -1/'
refused 'num_local_experts: ' 's/"num_local_experts": 6/"num_local_experts": 0/'
refused 'num_experts_per_tok: ' 's/"num_experts_per_tok": 2/"num_experts_per_tok": 7/' 2
refused 'sliding_window: ' 's/"sliding_window": 24/"sliding_window": -1/'
refused 'layer_types: ' 's/"sliding_attention", "full_attention"/"full_attention"/'
refused 'quantization_config: ' 's/^{/{ "quantization_config": {"quant_method": "gptq"},/'
expect 7 'attention_sinks: the device has no kernel of this name' plan --model tiny-gpt-oss --device cuda:sm_80
sed 's/^{/{ "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},/' "$o/config.json" >"$work/c/config.json"
run plan --model "$work/c"
check "$code" 'a file that says mxfp4 is read' "$err"
# Rotary positions: without the object yarn, with rope_type default none.
sed -E '/"rope_scaling": \{/,/\}/d' "$o/config.json" >"$work/c/config.json"
run plan --model "$work/c" --listing
[[ $code -eq 0 && $out == *'magnitude=1.3465'* ]]
check $? 'without rope_scaling positions are those of yarn' "$(grep -m2 rotary <<<"$out")$err"
sed -E 's/"rope_type": "yarn"/"rope_type": "default"/' "$o/config.json" >"$work/c/config.json"
run plan --model "$work/c" --listing
[[ $code -eq 0 && $out != *'magnitude='* ]]
check $? 'with rope_type default they are not scaled' "$(grep -m2 rotary <<<"$out")$err"
finish
