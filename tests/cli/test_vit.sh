#!/bin/bash
# SPDX-License-Identifier: MIT
# ViT: a directory that transformers saved is read, judges as transformers does, comes out to the last bit, and trains
# (every policy's bits, released, stopped and resumed, adapters too); what is not computed is refused.
# verifies layers-31.1059
. "$(dirname "$0")/lib.sh"
golden=tests/golden/vit
data=(--data "$golden/images.csv")

run eval --model "$golden" "${data[@]}" --predictions "$work/said.jsonl" --json
check $code "eval" "$err"
near loss loss
# same_logits FILE: those of said.jsonl are those of a json file of ours.
same_logits() {
    paste -d' ' <(grep -o '"logits": \[[^]]*' "$work/said.jsonl" | tr -c '0-9.e\n-' ' ' | sed 's/^ *e* *//') \
        <(sed 's/.*"logits": \[//; s/\], \[/\n/g' "$1" | tr -d '[]}' | tr ',' ' ') |
        awk '{ sub(/^[^0-9-]*/, ""); for (i = 1; i <= 3; i++) { d = $i - $(i + 3); if (d * d > 1e-10 * (1 + $i * $i)) bad++ } }
             END { exit !(NR == 6 && bad == 0) }'
}
same_logits "$golden/eval.json"
check $? "its logits are those of transformers" "$(cat "$work/said.jsonl" "$golden/eval.json")"

# same_tensors A B [SKIP]: the tensors of two directories, but for those whose names begin so, and what config.json says.
same_tensors() {
    python3 - "$@" <<'END2'
import json, struct, sys
def tensors(path):
    data = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__" and not (len(sys.argv) > 3 and k.startswith(sys.argv[3]))}
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
x, y = (json.load(open(d + "/config.json")) for d in sys.argv[1:3])
same = all(x[k] == y[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size",
                                  "patch_size", "qkv_bias", "layer_norm_eps", "architectures", "num_channels"))
sys.exit(not (len(a) > 30 and same and a == b))
END2
}
run train --model "$golden" "${data[@]}" --per-device-train-batch-size 3 --max-steps 0 --quiet --output-dir "$work/same"
check $code "no step" "$err"
if command -v python3 >/dev/null; then
    same_tensors "$golden" "$work/same"
    check $? "every tensor comes back to the last bit, and the configuration" "$(cat "$work/same/config.json")"
fi

common=(train --model "$golden" "${data[@]}" --learning-rate 1e-2 --quiet --json --save-steps 0 --max-steps 8)
same_bits --model "$golden" --threads 2 -- "${common[@]}" --threads 2
full=$(json state_digest)
rm -rf "$work"/[a-e]
lora=(--lora-r 2 --lora-alpha 4 --target-modules all-linear)
same_bits --model "$golden" --threads 2 "${lora[@]}" -- "${common[@]}" --threads 2 "${lora[@]}"
[[ $(json state_digest) != "$full" ]]
check $? "adapters are another run"
more=(--per-device-train-batch-size 2 --gradient-accumulation-steps 4 --lanes 4)
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
run eval --model "$golden" --adapter "$golden/adapter" "${data[@]}" --predictions "$work/said.jsonl" --json
[[ $code -eq 0 ]] && same_logits "$golden/adapter/logits.json"
check $? "an adapter of PEFT's: its logits" "$err$(cat "$work/said.jsonl")"
run export --model "$golden" --adapter "$golden/adapter" --merge --to "$work/merged5"
[[ $code -eq 0 ]] && run eval --model "$work/merged5" "${data[@]}" --predictions "$work/said.jsonl" --json &&
    same_logits "$golden/adapter/logits.json"
check $? "merged, the same" "$err$(cat "$work/said.jsonl")"
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
    run eval --model "$golden" --adapter "$work/older" "${data[@]}" --predictions "$work/said.jsonl" --json
    [[ $code -eq 0 ]] && same_logits "$golden/adapter/logits.json"
    check $? "by the older names" "$err$(cat "$work/said.jsonl")"
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

# On the simulated GPU it trains as on the host.
if [[ -e $BUILD/ptxvm/libcuda.so.1 ]]; then
    for with in "" "${lora[*]}"; do
        losses=()
        for device in host cuda; do
            # shellcheck disable=SC2086
            LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run train --model "$golden" "${data[@]}" --per-device-train-batch-size 2 \
                --max-steps 3 --learning-rate 1e-2 --device $device --output-dir "$work/on-$device${with:0:3}" $with
            losses+=("$code $(grep -oE 'step 3/3  loss [0-9.]+' <<<"$out$err")")
        done
        [[ ${losses[0]} == "0 step"* && ${losses[0]} == "${losses[1]}" ]]
        check $? "the loss of a GPU $with" "${losses[*]} $err"
    done
fi

# Classes of one's own: a new classifier over the same layers, also over a ViTModel's bare tensors.
run train --model "$golden" "${data[@]}" --per-device-train-batch-size 3 --quiet --max-steps 0 --output-dir "$work/five" \
    --num-labels 5
[[ $code -eq 0 ]] && run eval --model "$work/five" "${data[@]}" --json && grep -q '"LABEL_4"' "$work/five/config.json"
check $? "five classes" "$out$err"
if command -v python3 >/dev/null; then
    same_tensors "$golden" "$work/five" classifier.
    check $? "the layers are as they were"
    mkdir "$work/bare"
    python3 - "$golden" "$work/bare" <<'END2'
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8 : 8 + n]), data[8 + n :]
at, out, bare = 0, b"", {}
for k, v in list(head.items()):
    if k.startswith("vit."):
        piece = body[slice(*v["data_offsets"])]
        bare[k[4:]] = {**v, "data_offsets": [at, at + len(piece)]}
        at, out = at + len(piece), out + piece
bare["pooler.dense.bias"] = {"dtype": "F32", "shape": [12], "data_offsets": [at, at + 48]}
text = json.dumps(bare).encode()
open(sys.argv[2] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + out + bytes(48))
config = json.load(open(sys.argv[1] + "/config.json"))
config["architectures"] = ["ViTModel"]
json.dump(config, open(sys.argv[2] + "/config.json", "w"))
END2
    run train --model "$work/bare" "${data[@]}" --per-device-train-batch-size 3 --quiet --max-steps 2 --output-dir "$work/new" \
        --num-labels 3
    check $code "a bare model gets a classifier" "$err"
    expect 4 'classifier.*missing|missing.*classifier' eval --model "$work/bare" "${data[@]}"
fi

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
mkdir "$work/odd"
cp "$golden/model.safetensors" "$work/odd"
while read -r want edit key; do
    sed "$edit" "$golden/config.json" >"$work/odd/config.json"
    expect "$want" "$key" eval --model "$work/odd" "${data[@]}"
done <<'END2'
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
