#!/bin/bash
# SPDX-License-Identifier: MIT
# Mixtures of experts from end to end: the same bits however they are computed, Hugging Face's directories of both forms, GGUF,
# adapters of attention, generation, and what is refused.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(--data "$work/text" --max-seq-length 16 --learning-rate 1e-2 --device host --quiet --json)

# Policies, threads, forms of the kernels, micro-batches, checkpoints; some layers have no experts.
for model in tiny-qwen3-moe tiny-olmoe tiny-qwen2-moe tiny-glm4-moe; do
    four=(--model $model --max-steps 6 --per-device-train-batch-size 4)
    digest $model "${four[@]}" --gradient-checkpointing none --threads 1 --save-dtype fp32
    first=$state
    # In the short form two families have all of these, and the others each a share.
    hows=('--gradient-checkpointing full --threads 2' '--gradient-checkpointing selective:norm,swiglu,attention')
    kinds=(--bf16 '--optim muon')
    if long_form || [[ $model == tiny-olmoe || $model == tiny-glm4-moe ]]; then
        hows+=("--gradient-checkpointing every:2 --kernels $other_kernels" '--gradient-checkpointing sqrt --threads 2 --poison'
            '--sequence-chunk 8' '--gradient-checkpointing memory-poor')
    fi
    ! long_form && [[ $model != tiny-olmoe ]] ||
        kinds=(--bf16 --fp16 '--bf16 --tape-dtype fp8' '--optim adamw_8bit' '--optim adafactor' '--optim muon' '--optim adam_mini')
    for how in "${hows[@]}"; do
        read -ra options <<<"$how"
        same "${four[@]}" "${options[@]}"
    done
    digest "$model-cut" "${four[@]}" --stop-at-step 3
    digest "$model-cut" "${four[@]}" --resume --gradient-checkpointing full
    [[ $state == "$first" ]]
    check $? "$model: resumed, the same state"
    if [[ $model == tiny-olmoe ]]; then # of a table that the head shares another order of sums is known
        same "${four[@]}" --gradient-release
        same "${four[@]}" --gradient-release --gradient-checkpointing full --threads 2
        same --model $model --max-steps 6 --per-device-train-batch-size 2 --gradient-accumulation-steps 2
        same --model $model --max-steps 6 --per-device-train-batch-size 1 --gradient-accumulation-steps 4 --threads 2
    fi
    for how in "${kinds[@]}"; do
        read -ra options <<<"$how"
        digest one "${four[@]}" "${options[@]}" --max-steps 3
        first=$state
        same "${four[@]}" "${options[@]}" --max-steps 3 --gradient-checkpointing full --threads 2
        rm -rf "$work/one"
    done
done
mkdir "$work/mixed"
sed -E 's/"decoder_sparse_step": 1/"decoder_sparse_step": 2/; s/"num_hidden_layers": 2/"num_hidden_layers": 5/;
    s/"mlp_only_layers": \[\]/"mlp_only_layers": [3]/' "$work/tiny-qwen3-moe/config.json" >"$work/mixed/config.json"
digest mixed1 --model "$work/mixed" --max-steps 3 --per-device-train-batch-size 4
first=$state
same --model "$work/mixed" --max-steps 3 --per-device-train-batch-size 4 --gradient-checkpointing full --sequence-chunk 8 --threads 2
grep -q '"mlp_only_layers": \[3\]' "$work/mixed1/config.json" && grep -q '"decoder_sparse_step": 2' "$work/mixed1/config.json"
check $? "the keys are written as they were read" "$(cat "$work/mixed1/config.json")"
[[ $(grep -aoE 'layers\.[0-9]\.mlp\.experts\.5\.up_proj' "$work/mixed1/model.safetensors") == layers.1.mlp.experts.5.up_proj ]]
check $? "one layer of five has experts"

# The balancing loss: the same bits however it is computed, said beside the loss, none without its key or its coefficient.
balanced() { # NAME COEFFICIENT
    mkdir -p "$work/$1"
    sed "s/\"output_router_logits\": false/\"output_router_logits\": true/; s/\"router_aux_loss_coef\": 0.001/\"router_aux_loss_coef\": $2/" \
        "$work/mixed/config.json" >"$work/$1/config.json"
}
balanced even 0.25
balanced none 0
two=(--max-steps 3 --per-device-train-batch-size 2 --gradient-accumulation-steps 2)
digest balance1 --model "$work/even" "${two[@]}" --threads 1 --gradient-checkpointing none
first=$state
for how in '--gradient-checkpointing full --threads 2' "--kernels $other_kernels" '--gradient-release' '--sequence-chunk 8' \
    '--gradient-checkpointing memory-poor' '--gradient-checkpointing sqrt --threads 2 --poison'; do
    read -ra options <<<"$how"
    same --model "$work/even" "${two[@]}" "${options[@]}"
done
digest balance3 --model "$work/mixed" "${two[@]}"
[[ $state != "$first" ]]
check $? 'the loss changes what is trained' "$state"
plain=$state
digest balance4 --model "$work/none" "${two[@]}"
[[ $state == "$plain" ]]
check $? 'with a coefficient of 0 there is no such loss' "$state for $plain"
for how in --bf16 --fp16; do
    digest "balance5$how" --model "$work/even" "${two[@]}" $how --threads 2
    first=$state
    same --model "$work/even" "${two[@]}" $how --gradient-checkpointing full --threads 1
done
run train --model "$work/even" "${common[@]::${#common[@]}-2}" --json "${two[@]}" --logging-steps 1 --output-dir "$work/balance6"
aux=$(sed -n '1s/.*"aux_loss": \([0-9.]*\).*/\1/p' <<<"$out")
with=$(sed -n '1s/.*"loss": \([0-9.]*\).*"mean_loss".*/\1/p' <<<"$out")
run train --model "$work/mixed" "${common[@]::${#common[@]}-2}" --json "${two[@]}" --logging-steps 1 --output-dir "$work/balance7"
without=$(sed -n '1s/.*"loss": \([0-9.]*\).*"mean_loss".*/\1/p' <<<"$out")
awk -v a="$aux" -v w="$with" -v o="$without" 'BEGIN { d = w - o - 0.25 * a; exit !(a > 1 && d < 1e-6 && d > -1e-6) }'
check $? 'aux_loss is in the lines of a log, times the coefficient in their loss' "$aux $with $without"
[[ $out != *aux_loss* ]]
check $? 'and only where it is asked for' "$out"
grep -q '"output_router_logits": true' "$work/balance1/config.json" && grep -q '"router_aux_loss_coef": 0.25' "$work/balance1/config.json"
check $? 'its keys are written'
for ranks in 2 4; do
    digest balance8$ranks --model "$work/even" --max-steps 3 --per-device-train-batch-size 1 --gradient-accumulation-steps 4 --virtual-ranks $ranks
    [[ $ranks == 2 ]] || first=$state
done
same --model "$work/even" --max-steps 3 --per-device-train-batch-size 1 --gradient-accumulation-steps 4 --virtual-ranks 4 --threads 2 --gradient-checkpointing full

# An expert's tensors by themselves are what is written; all experts' in one is read as well.
q=$work/tiny-qwen3-moe
grep -aq '"model.layers.1.mlp.experts.5.down_proj.weight":{"dtype":"F32","shape":\[64,48\]' "$q/model.safetensors"
check $? "experts are in the file one by one"
mkdir "$work/fused" && cp "$q"/*.json "$work/fused"
python3 - "$q/model.safetensors" "$work/fused/model.safetensors" <<'P'
import json, re, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
header.pop("__metadata__", None)
body, tensors, experts = data[8 + size:], {}, {}
for name, about in header.items():
    begin, end = about["data_offsets"]
    match = re.fullmatch(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight", name)
    if match:
        experts.setdefault(match[1], {})[int(match[2]), match[3]] = about["shape"], body[begin:end]
    else:
        tensors[name] = about["shape"], body[begin:end]
for prefix, of in experts.items():
    count = max(e for e, _ in of) + 1
    (rows, width), _ = of[0, "gate"]
    tensors[prefix + ".gate_up_proj"] = [count, 2 * rows, width], b"".join(of[e, s][1] for e in range(count) for s in ("gate", "up"))
    tensors[prefix + ".down_proj"] = [count, width, rows], b"".join(of[e, "down"][1] for e in range(count))
header, at = {}, 0
for name, (shape, values) in tensors.items():
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(values)]}
    at += len(values)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + b"".join(v for _, v in tensors.values()))
P
sed -i 's/"num_experts"/"num_local_experts"/' "$work/fused/config.json"
run export --model "$work/fused" --to "$work/again"
[[ $code -eq 0 ]] && cmp "$q/model.safetensors" "$work/again/model.safetensors"
check $? "experts in one tensor, and version 5's name of their number, are read" "$out$err"

# Mixtral's router is called like its experts in what a run writes; files that call it as the others do are read.
digest m --model tiny-mixtral --max-steps 3 --per-device-train-batch-size 4 --stop-at-step 2
digest m --model tiny-mixtral --max-steps 3 --per-device-train-batch-size 4 --resume
run verify "$work/m"
[[ $code -eq 0 ]]
check $? 'a record of it holds' "$out$err"
m=$work/m/model.safetensors
run export --model "$work/m" --to "$work/m-out"
[[ $code -eq 0 ]] && grep -aq 'layers.1.block_sparse_moe.gate.weight' "$m" && ! grep -aq 'mlp.gate' "$m" && cmp "$m" "$work/m-out/model.safetensors"
check $? "train gives Mixtral's router the name that export gives it" "$out$err"
mkdir "$work/m-old" && cp "$work/m"/*.json "$work/m-old"
sed 's/block_sparse_moe\.gate\.weight":/mlp.gate.weight":             /g' "$m" >"$work/m-old/model.safetensors"
run export --model "$work/m-old" --to "$work/m-new"
[[ $code -eq 0 ]] && grep -aq 'mlp.gate' "$work/m-old/model.safetensors" && cmp "$m" "$work/m-new/model.safetensors"
check $? 'the other name of its router is read' "$out$err"

# GLM-4.5's corrections of the choice: in float32 in every file, never trained, and what the choice goes by.
g=$work/tiny-glm4-moe
corrected() { # DIRECTORY [VALUE]: the corrections of layer 1; with a value expert 7's is set
    python3 - "$1/model.safetensors" "${2:-}" <<'P'
import json, struct, sys
with open(sys.argv[1], "r+b") as file:
    size = struct.unpack("<Q", file.read(8))[0]
    about = json.loads(file.read(size))["model.layers.1.mlp.gate.e_score_correction_bias"]
    assert about["dtype"] == "F32" and about["shape"] == [8], about
    first = 8 + size + about["data_offsets"][0]
    if sys.argv[2]:
        file.seek(first + 28)
        file.write(struct.pack("<f", float(sys.argv[2])))
    file.seek(first)
    print(*struct.unpack("<8f", file.read(32)))
P
}
run eval --model "$g" --data "$work/text" --max-seq-length 16 --json
loss=$(json loss)
corrected "$g" 1.0001 >"$work/corrections" && run eval --model "$g" --data "$work/text" --max-seq-length 16 --json
[[ $code -eq 0 && $(json loss) != "$loss" ]]
check $? 'the choice goes by the corrections' "$loss $out$err"
tier="--offload file:$work/tier:64MiB --offload-buffered"
for how in '--learning-rate 1e-2' '--bf16 --save-dtype bf16' "--fp16 $tier" '--lora-r 2 --bf16' "--lora-r 2 --bf16 $tier" \
    '--gradient-accumulation-steps 2 --bf16 --virtual-ranks 2'; do
    read -ra options <<<"$how"
    run train "${common[@]}" --model "$g" --max-steps 2 --output-dir "$work/corrected" "${options[@]}"
    [[ $how != --lora* ]] || run export --model "$g" --adapter "$work/corrected" --merge --to "$work/corrected/merged" --dtype bf16
    [[ $how != --lora* ]] || mv "$work/corrected/merged"/* "$work/corrected"
    [[ $code -eq 0 && $(corrected "$work/corrected") == "$(<"$work/corrections")" ]]
    check $? "they stay as they are with $how" "$out$err$(corrected "$work/corrected")"
    rm -rf "$work/corrected"
done

# GGUF there and back.
for model in tiny-qwen3-moe tiny-olmoe tiny-qwen2-moe tiny-glm4-moe; do
    run export --model "$work/$model" --to "$work/$model.gguf"
    run import --from "$work/$model.gguf" --to "$work/$model-in"
    [[ $code -eq 0 ]] && cmp "$work/$model/model.safetensors" "$work/$model-in/model.safetensors"
    check $? "$model: GGUF comes back the same" "$out$err"
    for form in '' .gguf -in; do
        run eval --model "$work/$model$form" --data "$work/text" --max-seq-length 16 --json
        [[ -z $form ]] && loss=$(json loss)
        [[ -n $loss && $(json loss) == "$loss" ]]
        check $? "$model$form: the same loss" "$out$err"
    done
done 2>&1
for name in blk.1.ffn_gate_inp.weight blk.1.ffn_gate_exps.weight blk.0.ffn_up_exps.weight blk.1.ffn_down_exps.weight \
    qwen3moe.expert_used_count qwen3moe.expert_feed_forward_length; do
    grep -aq "$name" "$work/tiny-qwen3-moe.gguf"
    check $? "GGUF has $name"
done
expect 2 'mlp_only_layers, decoder_sparse_step: readers of this architecture want experts in all layers' \
    export --model "$work/mixed1" --to "$work/no.gguf"
mkdir "$work/bias-config" && sed 's/"attention_bias": false/"attention_bias": true/' "$work/tiny-qwen3-moe/config.json" >"$work/bias-config/config.json"
run train "${common[@]}" --model "$work/bias-config" --max-steps 0 --output-dir "$work/bias"
grep -aq 'layers.1.self_attn.o_proj.bias' "$work/bias/model.safetensors"
check $? 'a model with biases' "$out$err"
expect 2 'attention_bias: readers of this architecture know no biases' export --model "$work/bias" --to "$work/no.gguf"

# As many tensors as the largest Qwen3-MoE has: 36,945, and a head that is tied.
mkdir "$work/many-config"
sed -E 's/"num_experts": 6/"num_experts": 128/; s/"num_hidden_layers": 2/"num_hidden_layers": 94/; s/"hidden_size": 64/"hidden_size": 8/
    s/"moe_intermediate_size": 48/"moe_intermediate_size": 2/; s/"head_dim": 24/"head_dim": 2/' "$q/config.json" >"$work/many-config/config.json"
run train "${common[@]}" --model "$work/many-config" --max-steps 0 --optim sgd --output-dir "$work/many"
run export --model "$work/many" --to "$work/many-out"
[[ $code -eq 0 && $out == *' 36944 tensors, '* ]] && cmp "$work/many/model.safetensors" "$work/many-out/model.safetensors"
check $? 'experts of 94 layers are exported' "$out$err"

# Continuations: what is kept of a prompt, and several sequences at once.
run generate --model "$q" --prompt-ids 7,8,9,10,11 --max-new-tokens 20 --temperature 0 --num-return-sequences 3 --json
[[ $code -eq 0 && $(wc -l <<<"$out") -eq 3 && $(grep -o '"ids": [^]]*' <<<"$out" | sort -u | wc -l) -eq 1 ]]
check $? "each likeliest continuation is the same" "$out$err"

# Adapters of attention learn beside floats and four bits, of which experts are never made; their weights can be in a file.
run eval --model "$q" --data "$work/text" --max-seq-length 16 --json
before=$(json loss)
for bits in '' --load-in-4bit; do
    digest "l$bits" --model "$q" $bits --lora-r 4 --target-modules q_proj,v_proj,o_proj --max-steps 30 --per-device-train-batch-size 4
    first=$state
    run eval --model "$q" $bits --adapter "$work/l$bits" --data "$work/text" --max-seq-length 16 --json
    awk -v a="$(json loss)" -v b="$before" 'BEGIN { exit !(a > 0 && a < b) }'
    check $? "adapters $bits learn: $(json loss) after $before" "$err"
done
run export --model "$q" --adapter "$work/l" --merge --to "$work/merged"
run eval --model "$q" --adapter "$work/l" --data "$work/text" --max-seq-length 16 --json
loss=$(json loss)
run eval --model "$work/merged" --data "$work/text" --max-seq-length 16 --json
[[ -n $loss && $(printf %.5f "$(json loss)") == "$(printf %.5f "$loss")" ]]
check $? "merged they give the same loss" "$loss $out$err"
digest beside --model "$q" --lora-r 2 --target-modules q_proj --trainable 'model.layers.1.mlp.experts.*' --max-steps 2
expect 2 'mlp.experts.gate_up_proj: experts and convolutions that were trained beside adapters are not merged' \
    export --model "$q" --adapter "$work/beside" --merge --to "$work/no"
disk=$(mktemp -d "$BUILD/experts.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
offload=(--offload "file:$disk/file:64MiB" --offload-buffered)
adapters=(--model "$q" --lora-r 4 --target-modules q_proj,v_proj --max-steps 3 --per-device-train-batch-size 2)
digest o "${adapters[@]}" --gradient-checkpointing full
first=$state arena=$(json arena_bytes)
same "${adapters[@]}" --gradient-checkpointing full --threads 2 "${offload[@]}"
[[ $(json arena_bytes) -lt $arena ]]
check $? "with a smaller arena" "$(json arena_bytes) for $arena"
none='names no dense layer of this model'
for target in gate_proj up_proj,q_proj mlp.down_proj gate experts q_proj,mlp.experts; do
    expect 2 "$none" plan --model tiny-qwen3-moe --lora-r 2 --target-modules $target
done
expect 2 'is chosen for an adapter' plan --model tiny-qwen3-moe --lora-r 2 --target-modules '.*(gate_proj|experts.down_proj)'
for targets in 'all-linear' '.*(q_proj|gate_proj)' 'all-linear,experts.down_proj'; do
    run plan --model tiny-qwen3-moe --lora-r 2 --target-modules "$targets"
    check "$code" "$targets takes what there is" "$err"
done

# A base whose experts are quantised is not what export --load-in-4bit writes: it has float experts and is read with the option.
# verifies face-71.966c
base=(--data "$work/text" --max-seq-length 16)
beside() { # MODEL ADAPTER OPTIONS..: the loss of the adapter there
    local model=$1 adapter=$2
    shift 2
    run eval --model "$work/$model" --adapter "$work/$adapter" "${base[@]}" --json "$@"
    loss=$(json loss)
}
other_base() { # ADAPTER BITS FLOATS OPTIONS: what tells that the last evaluation had another base than the adapter's run
    grep -qE "$1: the adapter was trained on a base and experts quantised to $2 bits; on $3 its .*\(eval --model .* $4 reads such a base\)$" <<<"$err"
}
run train --model tiny-qwen3-moe "${common[@]}" --max-steps 2 --output-dir "$work/mb"
for how in '4 --load-in-4bit' '8 --load-in-8bit' '4 --load-in-4bit --bnb-4bit-quant-type fp4 --bnb-4bit-use-double-quant false --bnb-4bit-blocksize 32'; do
    read -ra options <<<"${how#* }"
    bits=${how%% *}
    run train "${common[@]}" --model "$work/mb" "${options[@]}" --lora-r 2 --max-steps 3 --output-dir "$work/ml"
    run export --model "$work/mb" "${options[@]}" --to "$work/mq"
    [[ $code -eq 0 && $err == *"mq: experts are written as floats (eval --model $work/mq ${options[*]} quantises them, as it does those of $work/mb)"* ]]
    check $? "export ${options[*]} names what stays as floats" "$out$err"
    beside mb ml "${options[@]}"
    there=$loss
    [[ -n $there ]] && ! grep -q 'was trained on' <<<"$err"
    check $? "${options[*]}: beside its own base" "$err"
    beside mq ml "${options[@]}"
    [[ $loss == "$there" ]] && ! grep -q 'was trained on' <<<"$err"
    check $? "${options[*]}: the same loss beside the exported base" "$loss for $there $err"
    beside mq ml
    [[ $loss != "$there" ]] && other_base ml "$bits" 'experts in another form' "${options[*]}"
    check $? "${options[*]}: float experts are another base" "$loss for $there $err"
    beside mb ml
    other_base ml "$bits" 'float weights' "${options[*]}"
    check $? "${options[*]}: and so are floats" "$err"
    beside mb ml --load-in-4bit --bnb-4bit-blocksize 128
    other_base ml "$bits" 'experts in another form' "${options[*]}"
    check $? "${options[*]}: and another form" "$err"
    run export --model "$work/mq" --adapter "$work/ml" --merge --to "$work/mm"
    [[ $code -eq 0 ]] && other_base ml "$bits" 'experts in another form' "${options[*]}"
    check $? "${options[*]}: merged, too" "$err"
    run plan --model "$work/mq" --lora-r 2 "${base[@]}"
    [[ $code -eq 0 && $out == *', frozen base in '*', experts as they are, '* ]]
    check $? "${options[*]}: a plan has both forms" "$out$err"
    run plan --model "$work/mq" "${options[@]}" --lora-r 2 "${base[@]}"
    [[ $code -eq 0 && $out != *'experts as they are'* ]]
    check $? "${options[*]}: a plan with experts in the form of the base" "$out$err"
    rm -rf "$work/ml" "$work/mq" "$work/mm"
done

# Adapters of experts: PEFT's target_parameters.
both=(--model "$q" --lora-r 2 --target-modules q_proj,experts.gate_up_proj,experts.down_proj --max-steps 3
    --per-device-train-batch-size 4 --learning-rate 3e-2)
digest both "${both[@]}" --gradient-checkpointing none --threads 1
first=$state
for how in '--gradient-checkpointing full --threads 2' "--gradient-checkpointing memory-poor --kernels $other_kernels" \
    '--sequence-chunk 8 --poison'; do
    read -ra options <<<"$how"
    same "${both[@]}" "${options[@]}"
done
same "${both[@]}" --gradient-checkpointing full --threads 2 "${offload[@]}"
digest cut "${both[@]}" --stop-at-step 2
digest cut "${both[@]}" --resume
[[ $state == "$first" ]]
check $? 'resumed, the same state' "$state for $first"
grep -q '"target_modules": \["q_proj"\]' "$work/both/adapter_config.json" &&
    grep -q '"target_parameters": \["experts.gate_up_proj", "experts.down_proj"\]' "$work/both/adapter_config.json"
check $? 'targets are written where PEFT looks for them' "$(cat "$work/both/adapter_config.json")"
names=$(grep -aoE 'layers\.1\.mlp\.experts\.[a-z_A-Z.]*weight":\{"dtype":"F32","shape":\[[0-9,]*' "$work/both/adapter_model.safetensors" | sort)
[[ $names == *'experts.base_layer.lora_A.weight":{"dtype":"F32","shape":[12,64'*'experts.base_layer.lora_B.weight":{"dtype":"F32","shape":[96,12'*'experts.lora_A.weight":{"dtype":"F32","shape":[12,48'*'experts.lora_B.weight":{"dtype":"F32","shape":[64,12'* ]]
check $? 'tensors have the names and shapes of PEFT' "$names"
# Patterns of ranks and alphas act on weights of experts, too.
digest pattern "${both[@]}" --threads 1 --alpha-pattern experts.gate_up_proj=64 --rank-pattern gate_up_proj=3
[[ $state != "$first" ]]
check $? 'an alpha of its own leaves another state' "$state"
names=$(grep -aoE 'layers\.1\.mlp\.experts\.[a-z_A-Z.]*weight":\{"dtype":"F32","shape":\[[0-9,]*' "$work/pattern/adapter_model.safetensors" | sort)
[[ $names == *'experts.base_layer.lora_A.weight":{"dtype":"F32","shape":[18,64'*'experts.lora_A.weight":{"dtype":"F32","shape":[12,48'* ]]
check $? 'a rank of its own has its shape' "$names"
run eval --model "$q" --adapter "$work/pattern" --data "$work/text" --max-seq-length 16 --json
adapted=$(json loss)
run export --model "$q" --adapter "$work/pattern" --merge --to "$work/merged-pattern"
run eval --model "$work/merged-pattern" --data "$work/text" --max-seq-length 16 --json
awk -v a="$adapted" -v b="$(json loss)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-8) }'
check $? 'and merged with both it judges alike' "$adapted $(json loss)"
for form in '' --bf16 '--load-in-4bit'; do
    digest "form$form" "${both[@]}" --threads 1 $form
    first=$state
    same "${both[@]}" --threads 2 $form --gradient-checkpointing full
done
run eval --model "$q" --data "$work/text" --max-seq-length 16 --json
plain=$(json loss)
run eval --model "$q" --adapter "$work/both" --data "$work/text" --max-seq-length 16 --json
loss=$(json loss)
run export --model "$q" --adapter "$work/both" --merge --to "$work/both-merged"
run export --model "$q" --adapter "$work/both" --merge --to "$work/both-merged.gguf"
for form in both-merged both-merged.gguf; do
    run eval --model "$work/$form" --data "$work/text" --max-seq-length 16 --json
    [[ -n $loss && $loss != "$plain" && $(printf %.5f "$(json loss)") == "$(printf %.5f "$loss")" ]]
    check $? "$form: merged they give the same loss" "$loss $out$err"
done
run export --model "$work/fused" --adapter "$work/both" --merge --to "$work/fused-merged"
[[ $code -eq 0 ]] && cmp "$work/both-merged/model.safetensors" "$work/fused-merged/model.safetensors"
check $? 'and into experts in one tensor' "$out$err"
digest one --model "$q" --lora-r 3 --target-modules mlp.experts.gate_up_proj --max-steps 2 --per-device-train-batch-size 4
grep -aq 'mlp.experts.lora_B.weight' "$work/one/adapter_model.safetensors" && ! grep -aq base_layer "$work/one/adapter_model.safetensors"
check $? 'one weight alone is not wrapped'
first=$(sha256sum <"$work/one/adapter_model.safetensors")
sed -i 's/"mlp.experts.gate_up_proj"/"gate_up_proj"/' "$work/one/adapter_config.json"
run train "${common[@]}" --model "$q" --adapter "$work/one" --max-steps 1 --learning-rate 0 --output-dir "$work/two" --save-dtype fp32
[[ $code -eq 0 && $(sha256sum <"$work/two/adapter_model.safetensors") == "$first" ]]
check $? 'an adapter that PEFT calls by one word is read and written' "$out$err"
expect 2 'adapters of experts have no magnitudes and no dropout' plan "${both[@]::6}" --lora-dropout 0.1
expect 2 'adapters of experts have no magnitudes and no dropout' plan "${both[@]::6}" --use-dora
sed 's/"gate_up_proj"/"router.weight"/' "$work/one/adapter_config.json" >"$work/c.json" && mv "$work/c.json" "$work/one/adapter_config.json"
expect 4 'target_parameters: parameters other than experts.gate_up_proj' eval --model "$q" --adapter "$work/one" --data "$work/text"
sed -i 's/"router.weight"/"gate_up_proj"/' "$work/one/adapter_config.json"
expect 4 'experts' eval --model "$work/tiny-olmoe" --adapter "$work/one" --data "$work/text"
for targets in '.*(q|o)_proj' 'q_proj,v_proj --exclude-modules v_proj'; do
    read -ra options <<<"$targets"
    run plan --model tiny-qwen3-moe --lora-r 2 --target-modules "${options[@]}"
    check "$code" "those of attention are chosen by $targets" "$err"
done
for arena in 1500000 2000000; do # for a base of codes, and of floats
    run plan --model tiny-qwen3-moe --arena $arena
    read -ra options <<<"$(grep -o -- '--lora-r 8 --target-modules q_proj,k_proj,v_proj,o_proj.*' <<<"$err" | tail -1)"
    run plan --model tiny-qwen3-moe --arena $arena "${options[@]}"
    [[ $code -eq 0 && ${#options[@]} -ge 4 ]]
    check $? "adapters of attention are proposed, and fit into $arena: ${options[*]}" "$err"
done

# What is refused.
refused() { # PATTERN SED [CODE]
    mkdir -p "$work/c"
    sed "$2" "$q/config.json" >"$work/c/config.json"
    expect "${3:-4}" "$1" plan --model "$work/c"
}
refused 'num_experts_per_tok: ' 's/"num_experts_per_tok": 2/"num_experts_per_tok": 7/' 2
refused 'num_experts: this value is not supported: found 0' 's/"num_experts": 6/"num_experts": 0/'
for bad in 'n_group": 4/n_group": 3/n_group' 'topk_group": 2/topk_group": 5/topk_group' 'n_routed_experts": 8/n_routed_experts": 4/n_group' \
    'num_experts_per_tok": 3/num_experts_per_tok": 5/num_experts_per_tok' 'routed_scaling_factor": 1.5/routed_scaling_factor": 0/routed_scaling_factor'; do
    IFS=/ read -r from to key <<<"$bad"
    mkdir -p "$work/c" && sed "s/$from/$to/" "$g/config.json" >"$work/c/config.json"
    expect 2 "$key: " plan --model "$work/c"
done
refused 'router_aux_loss_coef: ' 's/"router_aux_loss_coef": 0.001/"router_aux_loss_coef": -1/'
refused 'mlp_only_layers: this value is not supported: found -1' 's/"mlp_only_layers": \[\]/"mlp_only_layers": [-1]/'
refused 'num_experts: two names of the same field hold different values' 's/^{/{ "num_local_experts": 5,/'
sed 's/^{/{ "clip_qkv": 8.0,/' "$work/tiny-olmoe/config.json" >"$work/c/config.json"
expect 4 'clip_qkv: this value is not supported: found 8.0, expected null' plan --model "$work/c"
expect 7 'route_choose: the device has no kernel of this name' plan --model tiny-qwen3-moe --device cuda:sm_80
for fault in 's/experts.4.up_proj/experts.4.no_proj/' 's/\("model.layers.1.mlp.experts.3.up_proj.weight":{"dtype":"F32","shape":\)\[48,64\]/\1[64,48]/'; do
    rm -rf "$work/bad" && cp -r "$q" "$work/bad"
    sed -i "$fault" "$work/bad/model.safetensors"
    expect 4 'model.layers..\.mlp.experts.[34].up_proj.weight: a tensor' eval --model "$work/bad" --data "$work/text"
done
finish
