#!/bin/bash
# SPDX-License-Identifier: MIT
# ResNet: a directory that transformers saved is read, judges as transformers does, comes out to the last bit, and trains
# (every policy's bits, stopped and resumed); what is not computed is refused.
# verifies layers-17.98a6
. "$(dirname "$0")/lib.sh"
golden=tests/golden/resnet
data=(--data "$golden/images.csv")

run eval --model "$golden" "${data[@]}" --predictions "$work/said.jsonl" --json
check $code "eval" "$err"
near loss loss
paste -d' ' <(grep -o '"logits": \[[^]]*' "$work/said.jsonl" | tr -c '0-9.e\n-' ' ' | sed 's/^ *e* *//') \
    <(sed 's/.*"logits": \[//; s/\], \[/\n/g' "$golden/eval.json" | tr -d '[]}' | tr ',' ' ') |
    awk '{ sub(/^[^0-9-]*/, ""); for (i = 1; i <= 3; i++) { d = $i - $(i + 3); if (d * d > 1e-10 * (1 + $i * $i)) bad++ } }
         END { exit !(NR == 6 && bad == 0) }'
check $? "its logits are those of transformers" "$(cat "$work/said.jsonl" "$golden/eval.json")"

run train --model "$golden" "${data[@]}" --per-device-train-batch-size 3 --max-steps 0 --quiet --output-dir "$work/same"
check $code "no step" "$err"
if command -v python3 >/dev/null; then
    python3 - "$golden" "$work/same" <<'END2'
import json, struct, sys
def tensors(path):
    data = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
counts = [k for k in a if k.endswith("num_batches_tracked")]
x, y = (json.load(open(d + "/config.json")) for d in sys.argv[1:])
same = all(x[k] == y[k] for k in ("depths", "hidden_sizes", "embedding_size", "layer_type", "id2label", "image_size",
                                  "architectures", "num_channels", "downsample_in_bottleneck"))
sys.exit(not (len(counts) == 12 and same and {k: v for k, v in a.items() if k not in counts} == b))
END2
    check $? "every tensor but the counts of batches comes back to the last bit, and the configuration" \
        "$(cat "$work/same/config.json")"
fi

common=(--model "$golden" "${data[@]}" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --learning-rate 1e-2 --quiet)
run plan --model "$golden" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --json
planned=$(json arena_bytes)
run train "${common[@]}" --max-steps 8 --output-dir "$work/a" --json
[[ $code -eq 0 && -n $planned && $(json arena_bytes) -eq $planned && $(json device_bytes_in_use) -eq $planned ]]
check $? "planned bytes are used" "$planned $out$err"
digest=$(json state_digest)
for policy in full sqrt selective:norm; do
    run train "${common[@]}" --max-steps 8 --output-dir "$work/$policy" --json --gradient-checkpointing $policy
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$policy: the same bits" "$out$err"
done
run train "${common[@]}" --max-steps 8 --output-dir "$work/b" --stop-at-step 3
run train "${common[@]}" --max-steps 8 --output-dir "$work/b" --resume --json
[[ $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"

# Without image_size images have the size that preprocessor_config.json makes of all alike, and the key is written.
size=$(sed -n 's/.*"image_size": \([0-9]*\).*/\1/p' "$golden/config.json")
cp -r "$golden" "$work/unsized" && sed -i '/"image_size"/d' "$work/unsized/config.json"
for prep in "{\"size\": {\"height\": $size, \"width\": $size}}" "{\"size\": {\"shortest_edge\": 90}, \"do_center_crop\": true,
    \"crop_size\": {\"height\": $size, \"width\": $size}}" "{\"size\": {\"shortest_edge\": $size}, \"crop_pct\": 0.875}"; do
    rm -rf "$work/sized"
    echo "${prep/\{/\{\"image_mean\": [0, 0, 0], \"image_std\": [1, 1, 1], }" >"$work/unsized/preprocessor_config.json"
    run train "${common[@]}" --model "$work/unsized" --max-steps 8 --output-dir "$work/sized" --json
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]] && grep -q "\"image_size\": $size\b" "$work/sized/config.json"
    check $? "sized by $prep" "$out$err"
done
echo '{"size": {"shortest_edge": 90}, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]}' >"$work/unsized/preprocessor_config.json"
expect 4 "right would be $((224 * 224 * 3 + 1))" train "${common[@]}" --model "$work/unsized" --max-steps 1 --output-dir "$work/x"

# On the simulated GPU it trains as on the host.
if [[ -e $BUILD/ptxvm/libcuda.so.1 ]]; then
    losses=()
    for device in host cuda; do
        LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run train --model "$golden" "${data[@]}" --per-device-train-batch-size 2 --max-steps 3 \
            --learning-rate 1e-2 --device $device --output-dir "$work/on-$device"
        losses+=("$code $(grep -oE 'step 3/3  loss [0-9.]+' <<<"$out$err")")
    done
    [[ ${losses[0]} == "0 step"* && ${losses[0]} == "${losses[1]}" ]]
    check $? "the loss of a GPU" "${losses[*]} $err"
fi

# Classes of one's own: a new classifier over the same layers, also over a ResNetModel's bare tensors.
run train "${common[@]}" --max-steps 0 --output-dir "$work/five" --num-labels 5
[[ $code -eq 0 ]] && run eval --model "$work/five" "${data[@]}" --json && grep -q '"LABEL_4"' "$work/five/config.json"
check $? "five classes" "$out$err"
if command -v python3 >/dev/null; then
    mkdir "$work/bare"
    python3 - "$golden" "$work/bare" "$work/five" <<'END2'
import json, struct, sys
def read(path):
    data = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + n]), data[8 + n :]
head, body = read(sys.argv[1])
five, more = read(sys.argv[3])
piece = lambda h, b, k: b[slice(*h[k]["data_offsets"])]
for k in five:
    if k.startswith("resnet."):
        assert piece(head, body, k) == piece(five, more, k), k
assert five["classifier.1.weight"]["shape"] == [5, 12]
bare = {k[7:]: v for k, v in head.items() if k.startswith("resnet.")}
at, data = 0, b""
for k, v in bare.items():
    data += piece(head, body, "resnet." + k)
    v["data_offsets"] = [at, len(data)]
    at = len(data)
text = json.dumps(bare).encode()
open(sys.argv[2] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
config = json.load(open(sys.argv[1] + "/config.json"))
config["architectures"] = ["ResNetModel"]
json.dump(config, open(sys.argv[2] + "/config.json", "w"))
END2
    check $? "the layers are as they were, and the classifier another"
    run train --model "$work/bare" "${common[@]:2}" --max-steps 2 --output-dir "$work/new" --num-labels 3
    check $code "a bare model gets a classifier" "$err"
    expect 4 'classifier.1.*missing|missing.*classifier.1' eval --model "$work/bare" "${data[@]}"
fi

# What is not computed is refused by name.
mkdir "$work/odd"
cp "$golden/model.safetensors" "$work/odd"
for odd in 's/"relu"/"gelu"/ hidden_act' 's/"bottleneck",/"wide",/ layer_type' 's/"embedding_size": 4/"embedding_size": 0/ embedding_size'; do
    sed "${odd% *}" "$golden/config.json" >"$work/odd/config.json"
    expect 4 "${odd##* }" eval --model "$work/odd" "${data[@]}"
done
tr -d '\n' <"$golden/config.json" | sed 's/"depths": \[ *1, *2 *\]/"depths": [1, 2, 3]/' >"$work/odd/config.json"
expect 2 'depths' eval --model "$work/odd" "${data[@]}"
tr -d '\n' <"$golden/config.json" | sed 's/"depths": \[ *1, *2 *\]/"depths": [1, 58]/' >"$work/odd/config.json"
expect 2 'depths' eval --model "$work/odd" "${data[@]}"
finish
