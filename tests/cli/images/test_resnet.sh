#!/bin/bash
# SPDX-License-Identifier: MIT
# ResNet: a directory that transformers saved is read, judges as transformers does, comes out to the last bit, and trains
# (every policy's bits, stopped and resumed), adapters of its convolutions too, in PEFT's form both ways; what is not
# computed is refused.
# verifies layers-17.99a3 layers-33.4818
golden=tests/golden/resnet
. "$(dirname "$0")/images.sh"

judges
comes_back 74 depths,hidden_sizes,embedding_size,layer_type,id2label,image_size,architectures,num_channels,downsample_in_bottleneck
sixteen 74
exported 74
same_steps whole 8 3 -- --model "$golden" -- --learning-rate 1e-2

# Counts of batches grow by one with each micro-batch that has an image: of six images, four and two a step, three in two
# steps; whatever is recomputed, and when a run goes on. Frozen norms keep theirs.
# counted COUNT DIR: every norm's count.
counted() {
    command -v python3 >/dev/null || return 0
    python3 - "$@" <<'END2'
import json, struct, sys
data = open(sys.argv[2] + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8 : 8 + n])
found = [(v["dtype"], v["shape"], struct.unpack("<q", data[8 + n :][slice(*v["data_offsets"])])[0])
         for k, v in head.items() if k.endswith("num_batches_tracked")]
print(found)
sys.exit(found != [("I64", [], int(sys.argv[1]))] * 12)
END2
}
for dir in whole whole-full whole-stopped; do
    said=$(counted $((7 + 12)) "$work/$dir")
    check $? "counts of batches of $dir" "$said"
done
run train --model "$golden" "${data[@]}" --per-device-train-batch-size 6 --max-steps 3 --quiet --output-dir "$work/one"
said=$(counted 10 "$work/one")
check $? "counts of batches of one micro-batch a step" "$said"
cp -r "$golden" "$work/frozen" && sed -i 's/"depths"/"freeze_batch_norm": true, "depths"/' "$work/frozen/config.json"
run train --model "$work/frozen" "${data[@]}" --per-device-train-batch-size 6 --max-steps 3 --quiet --output-dir "$work/still"
said=$(counted 7 "$work/still")
check $? "counts of batches of frozen norms" "$said"
if command -v python3 >/dev/null; then
    mkdir "$work/counts"
    cp "$golden/config.json" "$work/counts"
    while read -r type bytes want; do
        python3 - "$golden" "$work/counts" "$type" "$bytes" <<'END2'
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8 : 8 + n]), data[8 + n :]
new, out = bytes.fromhex(sys.argv[4]), b""
for k, v in head.items():
    if k != "__metadata__":
        piece = body[slice(*v["data_offsets"])]
        if k == "resnet.embedder.embedder.normalization.num_batches_tracked":
            piece, v["dtype"], v["shape"] = new, sys.argv[3], [1] if sys.argv[3] == "I32" else v["shape"]
        v["data_offsets"] = [len(out), len(out) + len(piece)]
        out += piece
text = json.dumps(head).encode()
open(sys.argv[2] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + out)
END2
        expect "${want%%:*}" "${want#*:}" train --model "$work/counts" "${data[@]}" --max-steps 0 --output-dir "$work/c-$type-$bytes"
    done <<'END2'
I32 05000000 0:
I64 ffffff7f00000000 0:
I64 0000008000000000 4:num_batches_tracked.*2147483647
I64 ffffffffffffffff 4:num_batches_tracked.*out.of.its.range
F32 00000000 4:num_batches_tracked.*I64
END2
    # The greatest count stays, and what was written is read.
    for device in host cuda; do
        [[ $device == host || -e $BUILD/ptxvm/libcuda.so.1 ]] || continue
        LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run train --model "$work/c-I64-ffffff7f00000000" "${data[@]}" --per-device-train-batch-size 2 \
            --max-steps 2 --quiet --device $device --output-dir "$work/full-$device"
        [[ $code -eq 0 ]] && run train --model "$work/full-$device" "${data[@]}" --max-steps 0 --output-dir "$work/full-again-$device"
        [[ $code -eq 0 ]] && same_tensors "$work/c-I64-ffffff7f00000000" "$work/full-$device" 1 "" '^(?!resnet.embedder.*tracked)'
        check $? "$device: the greatest count stays" "$out$err"
    done
fi

# Without image_size images have the size that preprocessor_config.json makes of all alike, and the key is written.
common=(--model "$golden" "${data[@]}" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --learning-rate 1e-2 --quiet)
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
expect 4 "expected $((224 * 224 * 3 + 1))" train "${common[@]}" --model "$work/unsized" --max-steps 1 --output-dir "$work/x"

on_gpu whole 3 --learning-rate 1e-2
five_classes
bare resnet. ResNetModel

# Adapters of convolutions, a window of 7 x 7 with a stride among them: those that PEFT wrote judge as it says, beside
# their base, merged, and when they have been read and written.
judged "an adapter of PEFT's" "$golden/adapter/logits.json" --model "$golden" --adapter "$golden/adapter"
run export --model "$golden" --adapter "$golden/adapter" --merge --to "$work/merged"
check $code "merge" "$err"
if command -v python3 >/dev/null; then
    same_tensors "$golden" "$work/merged" 40 "" 'convolution.weight$|^classifier'
    check $? "merged, what has no adapter is whole, counts of batches too"
fi
judged "merged, the same" "$golden/adapter/logits.json" --model "$work/merged"
run train --model "$golden" --adapter "$golden/adapter" "${data[@]}" --max-steps 0 --output-dir "$work/again"
[[ $code -eq 0 ]] && grep -q '"rank_pattern": {"layer.1.convolution": 1}' "$work/again/adapter_config.json" &&
    cmp -s <(tail -c 2516 "$golden/adapter/adapter_model.safetensors" | od -An -v -tx4 -w4 | sort) \
        <(tail -c 2516 "$work/again/adapter_model.safetensors" | od -An -v -tx4 -w4 | sort)
check $? "it comes out as it was" "$err$(cat "$work/again/adapter_config.json")"
judged "and judges the same" "$golden/adapter/logits.json" --model "$golden" --adapter "$work/again"

# They train as everything does, and are what convolutions get without a name.
same_steps some 8 3 -- --model "$golden" --lora-r 2 --lora-alpha 4 --lora-dropout 0.2 --target-modules '.*\.layer\.[01]\.convolution' \
    --rank-pattern layer.0.convolution=3 -- --learning-rate 1e-2
[[ -e $work/some/adapter_model.safetensors ]] && grep -q '"classifier.1"' "$work/some/adapter_config.json" &&
    grep -q '"task_type": null' "$work/some/adapter_config.json" &&
    ! grep -aq 'embedder\|running' "$work/some/adapter_model.safetensors"
check $? "the adapter's files" "$(cat "$work/some/adapter_config.json")"
run train "${common[@]}" --output-dir "$work/usual" --lora-r 2 --max-steps 4 --json
[[ $code -eq 0 ]] && grep -q '"target_modules": \["convolution"\]' "$work/usual/adapter_config.json"
check $? "all convolutions unless some are named" "$err$(cat "$work/usual/adapter_config.json")"
run train "${common[@]}" --output-dir "$work/ranks" --lora-r 2 --max-steps 4 --json --virtual-ranks 2 --fabric threads:2
check $code "two ranks, as no statistics move" "$err"
used=$(json device_bytes_in_use)
run plan "${common[@]:0:2}" "${common[@]: -7:4}" --lora-r 2 --virtual-ranks 2 --fabric threads:2 --json
[[ $code -eq 0 && $(json arena_bytes) -eq $used ]]
check $? "the plan is that of the run, though the net without adapters may not have ranks" "$out$err"
on_gpu adapters 3 --learning-rate 1e-2 --lora-r 2 --lora-dropout 0.1
expect 2 'all-linear.*no convolution' train "${common[@]}" --output-dir "$work/x" --lora-r 2 --target-modules all-linear
expect 2 'use-dora.*convolution' train "${common[@]}" --output-dir "$work/x" --lora-r 2 --use-dora
expect 2 'embedder.*no convolution' train "${common[@]}" --output-dir "$work/x" --lora-r 2 --target-modules embedder
if command -v python3 >/dev/null; then
    mkdir "$work/wrong"
    cp "$golden/adapter/adapter_config.json" "$work/wrong"
    # wrong FROM TO: the adapter with a text in its tensors' description changed.
    wrong() {
        python3 - "$golden/adapter" "$work/wrong" "$@" <<'END2'
import struct, sys
data = open(sys.argv[1] + "/adapter_model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = data[8 : 8 + n].decode()
assert sys.argv[3] in head
head = head.replace(sys.argv[3], sys.argv[4], 1).encode()
open(sys.argv[2] + "/adapter_model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data[8 + n :])
END2
    }
    for shape in "[2,3,7,7] [2,147,1,1]" "[2,3,7,7] [2,21,1,7]" "[2,3,7,7] [2,21,7,1]" "[2,3,7,7] [2,147]" "[2,3,7,7] [3,2,7,7]" "[8,2,1,1] [8,2]" "[8,2,1,1] [2,8,1,1]"; do
        wrong ${shape}
        expect 4 'shape' eval --model "$golden" --adapter "$work/wrong" "${data[@]}"
        expect 4 'another base: its shape' export --model "$golden" --adapter "$work/wrong" --merge --to "$work/no"
    done
    cp "$golden/adapter/adapter_model.safetensors" "$work/wrong"
    sed 's/"use_dora": false/"use_dora": true/' "$golden/adapter/adapter_config.json" >"$work/wrong/adapter_config.json"
    expect 4 'magnitudes.*convolutions' export --model "$golden" --adapter "$work/wrong" --merge --to "$work/no"
fi

refused <<'END2'
4 s/"hidden_act":."relu"/"hidden_act":"gelu"/ hidden_act
4 s/"bottleneck",/"wide",/ layer_type
4 s/"embedding_size":.4/"embedding_size":0/ embedding_size
2 s/"depths":.\[.*1,.*2.*\],..*"downsample_in_b/"depths":[1,2,3],"downsample_in_b/ depths
2 s/"depths":.\[.*1,.*2.*\],..*"downsample_in_b/"depths":[1,58],"downsample_in_b/ depths
END2
finish
