#!/bin/bash
# SPDX-License-Identifier: MIT
# ViT: a directory that transformers saved is read, judges as transformers does, comes out to the last bit, and trains
# (every policy's bits, released, stopped and resumed, adapters too); what is not computed is refused.
# verifies layers-31.1059 layers-33.4818
golden=tests/golden/vit
. "$(dirname "$0")/images.sh"

judges
comes_back 31 hidden_size,num_hidden_layers,num_attention_heads,intermediate_size,image_size,patch_size,qkv_bias,layer_norm_eps,architectures,num_channels
sixteen 31

common=(train --model "$golden" "${data[@]}" --learning-rate 1e-2 --quiet --json --save-steps 0 --max-steps 8)
same_bits --model "$golden" --threads 2 -- "${common[@]}" --threads 2
full=$(json state_digest)
rm -rf "$work"/[a-e]
lora=(--lora-r 2 --lora-alpha 4 --target-modules all-linear)
same_bits --model "$golden" --threads 2 "${lora[@]}" -- "${common[@]}" --threads 2 "${lora[@]}"
[[ $(json state_digest) != "$full" ]]
check $? "adapters are another run"
more=(--per-device-train-batch-size 2 --gradient-accumulation-steps 4 --virtual-ranks 4)
run "${common[@]}" "${more[@]}" --output-dir "$work/r1"
one=$(json state_digest)
run "${common[@]}" "${more[@]}" --output-dir "$work/r2" --fabric threads:2
[[ -n $one && $(json state_digest) == "$one" ]]
check $? "two ranks: the same bits" "$out$err"

# Merged adapters judge as the adapters beside their base do; on a base of 4 bits they train as well.
run "${common[@]}" --per-device-train-batch-size 6 --output-dir "$work/tuned" --lora-r 4
check $code "queries and values are adapted unless another is said" "$err"
grep -q '"q_proj"' "$work/tuned/adapter_config.json"
check $? "the adapter's file names them" "$(cat "$work/tuned/adapter_config.json")"
run eval --model "$golden" --adapter "$work/tuned" "${data[@]}" --json
loss=$(json loss)
run export --model "$golden" --adapter "$work/tuned" --merge --to "$work/merged"
check $code "merge" "$err"
run eval --model "$work/merged" "${data[@]}" --json
awk -v a="$loss" -v b="$(json loss)" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-10) }'
check $? "merged, it judges the same" "$loss $out$err"
run "${common[@]}" --per-device-train-batch-size 6 --output-dir "$work/q" "${lora[@]}" --load-in-4bit
check $code "on a base of 4 bits" "$err"

# Adapters bear the names that modules have in transformers 5, where PEFT wrote them so; the older ones are read as well,
# and written where targets are older.
judged "an adapter of PEFT's: its logits" "$golden/adapter/logits.json" --model "$golden" --adapter "$golden/adapter"
run export --model "$golden" --adapter "$golden/adapter" --merge --to "$work/merged5"
check $code "merged" "$err"
judged "merged, the same" "$golden/adapter/logits.json" --model "$work/merged5"
run train --model "$golden" --adapter "$golden/adapter" "${data[@]}" --max-steps 0 --output-dir "$work/again"
[[ $code -eq 0 ]] && grep -aq 'vit.layers.1.attention.q_proj.base_layer.bias' "$work/again/adapter_model.safetensors" &&
    grep -aq 'vit.layers.1.mlp.fc2.lora_A.weight' "$work/again/adapter_model.safetensors"
check $? "it comes out by the names that it had" "$err"
if command -v python3 >/dev/null; then
    mkdir "$work/older"
    python3 - "$golden/adapter" "$work/older" <<'END2'
import json, struct, sys
old = {"vit.layers.": "vit.encoder.layer.", "attention.q_proj": "attention.attention.query", "mlp.fc2": "output.dense"}
data = open(sys.argv[1] + "/adapter_model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = data[8 : 8 + n].decode()
config = open(sys.argv[1] + "/adapter_config.json").read().replace('"q_proj"', '"query"').replace('"fc2"', '"output.dense"')
for a, b in old.items():
    head = head.replace(a, b)
head = head.encode()
open(sys.argv[2] + "/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data[8 + n :])
open(sys.argv[2] + "/adapter_config.json", "w").write(config)
END2
    # The end "output.dense" is that of the attention's too, as it was for PEFT: its adapter is missing.
    expect 4 'attention.output.dense.*lora_A' eval --model "$golden" --adapter "$work/older" "${data[@]}"
    sed -i 's/"output.dense"/"1.output.dense"/' "$work/older/adapter_config.json"
    judged "by the older names" "$golden/adapter/logits.json" --model "$golden" --adapter "$work/older"
    run train --model "$golden" --adapter "$work/older" "${data[@]}" --max-steps 0 --output-dir "$work/again4"
    [[ $code -eq 0 ]] && grep -aq 'vit.encoder.layer.1.attention.attention.query.base_layer.bias' "$work/again4/adapter_model.safetensors"
    check $? "older names come out as they were" "$err"
fi
run "${common[@]}" --output-dir "$work/named" --lora-r 2 --target-modules query,intermediate.dense
[[ $code -eq 0 ]] && grep -q '"query", "intermediate.dense"' "$work/named/adapter_config.json" &&
    grep -aq 'vit.encoder.layer.1.intermediate.dense.lora_B.weight' "$work/named/adapter_model.safetensors"
check $? "older targets give older names" "$err"
run "${common[@]}" --output-dir "$work/some" --lora-r 2 --target-modules all-linear --layers-to-transform 1
[[ $code -eq 0 ]] && grep -q '"q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"' "$work/some/adapter_config.json"
check $? "names of some layers" "$err$(cat "$work/some/adapter_config.json")"
expect 2 'gate_proj' "${common[@]}" --output-dir "$work/x" --lora-r 2 --target-modules gate_proj

# The patches' convolution takes one by its name, and no all-linear does.
run "${common[@]}" --per-device-train-batch-size 6 --output-dir "$work/patches" --lora-r 4 --lora-dropout 0.2 \
    --target-modules projection,v_proj
grep -aq 'vit.embeddings.patch_embeddings.projection.lora_A.weight.*"shape":\[4,3,4,4\]' "$work/patches/adapter_model.safetensors" &&
    ! grep -aq projection "$work/tuned/adapter_model.safetensors"
check $? "an adapter of the patches" "$out$err"
run export --model "$golden" --adapter "$work/patches" --merge --to "$work/merged6"
[[ $code -eq 0 ]] && run eval --model "$golden" --adapter "$work/patches" "${data[@]}" --json
beside=$(json loss)
run eval --model "$work/merged6" "${data[@]}" --json
awk -v a="$beside" -v b="$(json loss)" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-10) }'
check $? "merged, it judges the same as well" "$beside $out$err"

on_gpu whole 3 --learning-rate 1e-2
on_gpu adapters 3 --learning-rate 1e-2 "${lora[@]:0:4}" --target-modules projection,query
five_classes
bare vit. ViTModel

# Images of bytes are prepared, and may change from step to step.
{
    printf 'P6 8 8 255\n'
    printf '%192s' '' | tr ' ' x
} >"$work/a.ppm"
printf 'file_name,label\na.ppm,a\na.ppm,c\n' >"$work/list.csv"
mkdir "$work/seen"
cp "$golden"/{config.json,model.safetensors} "$work/seen"
echo '{"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}, "image_mean": [0.5, 0.5, 0.5],
       "image_std": [0.5, 0.5, 0.5]}' >"$work/seen/preprocessor_config.json"
run train --model "$work/seen" --data "$work/list.csv" --data-format imagefolder --per-device-train-batch-size 2 --max-steps 2 \
    --random-resized-crop 0.5 --random-horizontal-flip 0.5 --output-dir "$work/kept"
[[ $code -eq 0 ]] && cmp -s "$work/seen/preprocessor_config.json" "$work/kept/preprocessor_config.json"
check $? "images in files" "$out$err"

# What is not computed is refused by name.
refused <<'END2'
4 s/"hidden_act":."gelu"/"hidden_act":"quick_gelu"/ hidden_act
4 s/"patch_size":.4/"patch_size":0/ patch_size
2 s/"patch_size":.4/"patch_size":9/ patch_size
4 s/"num_attention_heads":.2/"num_attention_heads":5/ num_attention_heads
4 s/"image_size":.8/"image_size":[8,8]/ image_size
4 s/"patch_size":.4/"patch_size":2/ embeddings
END2
expect 2 'bf16|fp32' "${common[@]}" --output-dir "$work/x" --bf16
expect 2 'max-seq-length' "${common[@]}" --output-dir "$work/x" --max-seq-length 64
expect 2 'task' plan --model "$golden" --task causal-lm
finish
