#!/bin/bash
# SPDX-License-Identifier: MIT
# Convolutional nets by description: training, every policy's bits, round trips, frozen norms, bad descriptions.
# verifies run-1.e4fa layers-55.06b5
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (k = 0; k < 60; k++) {
    for (i = 0; i < 64; i++) printf "%.3f,", ((i * i + 7 * k * i) % 11 - 5) / 8 + (k % 3 - 1) * (i % 8 - 4) / 3
    print k % 3 } }' >"$work/images.csv"
common=(--model tiny-cnn --per-device-train-batch-size 8 --learning-rate 1e-2 --threads 2)

run plan "${common[@]}" --json
[[ $code -eq 0 && $(json arena_bytes) -gt 0 ]]
check $? "plan" "$out$err"
run train "${common[@]}" --data "$work/images.csv" --output-dir "$work/a" --max-steps 40 --json
[[ $code -eq 0 && $(json device_bytes_in_use) -eq $(json arena_bytes) ]]
check $? "train: planned bytes are used" "$out$err"
digest=$(json state_digest)
for policy in full memory-poor sqrt every:2 list:1 selective:norm; do
    run train "${common[@]}" --data "$work/images.csv" --output-dir "$work/p-$policy" --max-steps 40 --quiet --json \
        --gradient-checkpointing $policy
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$policy: the same bits, running statistics among them" "$out$err"
done
# Freezing the first layers takes no more memory than training them, and has one result.
poor=(--gradient-checkpointing memory-poor --gradient-release --max-grad-norm 0)
run plan --model ds-cnn "${poor[@]}" --json
most=$(json arena_bytes)
run plan --model ds-cnn "${poor[@]}" --freeze 'layers.[012].*' --json
[[ $code -eq 0 && $(json arena_bytes) -le $most ]]
check $? "frozen lower layers cost nothing" "$out$err"
for policy in none memory-poor; do
    run train "${common[@]}" --data "$work/images.csv" --output-dir "$work/low-$policy" --max-steps 9 --quiet --json \
        --freeze 'layers.0.*' --gradient-checkpointing $policy
    [[ $code -eq 0 && $(json state_digest) == "${low:=$(json state_digest)}" ]]
    check $? "frozen lower layers, $policy" "$out$err"
done
# What windows see is written down by lines where little is kept: strides and paddings that begin and end within lines,
# one image and several, an adapter; the bits of whole images in less memory.
mkdir -p "$work/lines"
echo '{"model_type": "cnn", "image_height": 9, "image_width": 8, "num_channels": 2, "num_labels": 3, "layers":
    ["conv 4 5x3 stride 2 padding same", "conv 6 3 padding same", "basic 6", "conv 5 2 stride 2", "mean-pool all"]}' \
    >"$work/lines/config.json"
awk 'BEGIN { for (j = 0; j < 144; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 12; i++) { for (j = 0; j < 144; j++) printf "%.4f,", ((i * 144 + j) * 7919 % 257 - 128) / 64
        print i % 3 } }' >"$work/lines.csv"
for more in '' '--lora-r 2' '--per-device-train-batch-size 3' '--gradient-dtype bf16' '--freeze *.weight' \
    '--freeze *.weight --per-device-train-batch-size 9'; do
    whole=''
    for policy in none full memory-poor; do
        # shellcheck disable=SC2086
        run train --model "$work/lines" --data "$work/lines.csv" --output-dir "$work/lines-run" --overwrite-output-dir \
            --per-device-train-batch-size 1 --max-steps 6 --quiet --json --gradient-checkpointing $policy $more
        [[ $code -eq 0 && -n ${whole:=$(json state_digest)} && $(json state_digest) == "$whole" ]]
        check $? "windows by lines, $policy $more" "$out$err"
    done
done
# Frozen layers by lines of the image, of every kind, where one turn sees lines of another: memory-poor divides them, `none`
# computes whole images.
mkdir -p "$work/turns"
echo '{"model_type": "cnn", "image_height": 17, "image_width": 9, "num_channels": 2, "num_labels": 3, "layers":
    ["conv 4 5x3 stride 2 padding same", "max-pool 3 stride 1 padding 1", "basic 6", "separable 8 3 padding same",
     "depthwise 3 padding 1", "bottleneck 8 stride 2", "conv 5 2 stride 2 linear", "mean-pool 2 stride 1", "conv 5 1",
     "mean-pool all"]}' >"$work/turns/config.json"
awk 'BEGIN { for (j = 0; j < 306; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 12; i++) { for (j = 0; j < 306; j++) printf "%.4f,", ((i * 306 + j) * 7919 % 257 - 128) / 64
        print i % 3 } }' >"$work/turns.csv"
for more in 'layers.0.* 1' 'layers.[0-3].* 3' 'layers.[0-5].* 1' 'layers.* 3'; do
    whole=''
    for policy in none full memory-poor; do
        run train --model "$work/turns" --data "$work/turns.csv" --validation-data "$work/turns.csv" --eval-steps 2 --quiet \
            --output-dir "$work/turns-run" --overwrite-output-dir --freeze "${more% *}" --max-steps 4 --json \
            --per-device-train-batch-size "${more#* }" --gradient-checkpointing $policy
        of_policy="$(json state_digest) $(json eval_loss)"
        [[ $code -eq 0 && -n ${whole:=$of_policy} && $of_policy == "$whole" && ${#of_policy} -gt 20 ]]
        check $? "frozen layers by lines, $policy, freeze and batch $more" "$out$err"
    done
done
run plan --model "$work/turns" --per-device-train-batch-size 1 --freeze 'layers.*' --gradient-checkpointing memory-poor \
    --alignment 32 --kernels portable --json
[[ $code -eq 0 && $(json arena_bytes) -le 11264 ]]
check $? "frozen layers by lines take fewer bytes (12,288 as a whole)" "$out$err"
# A tall image has so many turns that their ops take less memory than the image.
mkdir "$work/tall"
echo '{"model_type": "cnn", "image_height": 8000, "image_width": 8, "num_channels": 1, "num_labels": 3, "layers":
    ["conv 4 3 padding same", "conv 4 3 padding same", "conv 4 3 padding same", "conv 4 3 padding same", "mean-pool all"]}' \
    >"$work/tall/config.json"
run plan --model "$work/tall" --per-device-train-batch-size 1 --freeze 'layers.*' --gradient-checkpointing memory-poor --json
[[ $code -eq 0 && $(json host_bytes) -le 100000000 ]]
check $? "ops of a tall image's frozen layers are bounded" "$out$err"
run plan --model resnet-8 --per-device-train-batch-size 1 --optim sgd "${poor[@]}" --freeze 'layers.*' --offload flash:1MB \
    --alignment 32 --kernels portable --json
[[ $code -eq 0 && $(json arena_bytes) -le 121728 ]]
check $? "the classifier of ResNet-8 in 119 KB" "$out$err"
# A norm lies where its convolution's output lay: 540,416 bytes beside each other. A sample has one label
# and one loss: 466,688 with as many as it has numbers. Frozen layers are computed by lines: 356,128 as a
# whole. Statistics of frozen norms lie in flash: 222,496 beside the rest.
run plan --model mobilenet-v1-0.25 --per-device-train-batch-size 1 --optim sgd "${poor[@]}" --freeze 'layers.*' --offload flash:1MB \
    --alignment 32 --kernels portable --json
[[ $code -eq 0 && $(json arena_bytes) -le 200608 ]]
check $? "the classifier of MobileNet in 196 KB" "$out$err"
run eval --model "$work/a" --data "$work/images.csv" --json
[[ $(json tokens) -eq 60 ]] && awk -v l="$(json loss)" 'BEGIN { exit !(l < 0.9) }'
check $? "60 images, learned" "$out$err"
run train "${common[@]}" --data "$work/images.csv" --output-dir "$work/b" --max-steps 40 --stop-at-step 13
run train "${common[@]}" --data "$work/images.csv" --output-dir "$work/b" --max-steps 40 --resume --json
[[ $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"

# Groups of micro-batches: whatever the order of stages, each norm sees them in their order.
for more in "" "--gradient-checkpointing full" "--gradient-release" "--gradient-release --gradient-checkpointing sqrt"; do
    run train "${common[@]}" --per-device-train-batch-size 4 --gradient-accumulation-steps 3 --data "$work/images.csv" \
        --output-dir "$work/g${more// /}" --max-steps 20 --quiet --json --max-grad-norm 0 $more
    [[ -n ${grouped:=$(json state_digest)} && $code -eq 0 && $(json state_digest) == "$grouped" ]]
    check $? "three micro-batches a step ${more:-keeping all}" "$out$err"
done
# A second backward over the same micro-batch leaves the statistics.
run train "${common[@]}" --data "$work/images.csv" --output-dir "$work/r" --max-steps 40 --quiet --json --gradient-release exact
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "released by the exact norm: the same bits" "$out$err"
expect 2 '--replay-every: .*running statistics' train "${common[@]}" --data "$work/images.csv" --output-dir "$work/twice" \
    --max-steps 40 --quiet --replay-every 1

# Adapters without a name are of all convolutions but those of each channel by itself, with the names written down that a
# directory is read by; by name one of those is refused.
for preset in ds-cnn mobilenet-v1-0.25; do
    expect 0 'frozen .*layers.0.convolution.weight' plan --model $preset --lora-r 2
    expect 2 'layers.1.layer.0.convolution.weight: .*each channel' plan --model $preset --lora-r 2 --target-modules convolution
done
expect 0 'frozen' plan --model ds-cnn --lora-r 2 --exclude-modules '.*\.[23]\.layer.*'
# What is offered where nothing fits is what such a net takes, and fits.
small=(plan --model resnet-18-cifar --per-device-train-batch-size 2 --arena 100MB)
expect 3 'it would fit with --lora-r 8: [0-9,]+ bytes' "${small[@]}"
expect 0 'frozen' "${small[@]}" --lora-r 8
awk 'BEGIN { for (k = 0; k < 8; k++) { for (i = 0; i < 490; i++) printf "%.2f,", ((i * i + 7 * k) % 11 - 5) / 8; print k % 12 } }' \
    >"$work/sounds.csv"
sounds=(--data "$work/sounds.csv" --per-device-train-batch-size 4 --quiet)
run train --model ds-cnn "${sounds[@]}" --max-steps 0 --output-dir "$work/base"
run train --model "$work/base" "${sounds[@]}" --lora-r 2 --max-steps 2 --learning-rate 1e-2 --output-dir "$work/adapted"
[[ $code -eq 0 ]] && grep -q '"target_modules": \["layers.0.convolution", "layers.1.layer.1.convolution", ' "$work/adapted/adapter_config.json" &&
    [[ $(grep -ao 'lora_A.weight' "$work/adapted/adapter_model.safetensors" | wc -l) -eq 5 ]]
check $? "adapters of what can have one" "$out$err$(cat "$work/adapted/adapter_config.json")"
run train --model "$work/base" --adapter "$work/adapted" "${sounds[@]}" --max-steps 0 --output-dir "$work/adapted2"
[[ $code -eq 0 ]] && cmp -s "$work/adapted/adapter_model.safetensors" "$work/adapted2/adapter_model.safetensors" &&
    cmp -s "$work/adapted/adapter_config.json" "$work/adapted2/adapter_config.json"
check $? "the adapter is read and comes out as it was" "$out$err"

# The model directory goes in and out unchanged.
run train --model "$work/a" --data "$work/images.csv" --output-dir "$work/same" --max-steps 0
[[ $code -eq 0 ]] && cmp -s "$work/a/model.safetensors" "$work/same/model.safetensors" &&
    cmp -s "$work/a/config.json" "$work/same/config.json"
check $? "no step: the same files" "$err"
grep -q '"layers": \["conv 4 3", "basic 8 stride 2", "mean-pool all"\]' "$work/a/config.json"
check $? "the layers are written down" "$(cat "$work/a/config.json")"

# Frozen norms: the running statistics stay.
sed 's/"freeze_batch_norm": false/"freeze_batch_norm": true/' "$work/a/config.json" >"$work/same/config.json"
mkdir "$work/cold"
cp "$work/same/config.json" "$work/same/model.safetensors" "$work/cold"
run train --model "$work/cold" --data "$work/images.csv" --per-device-train-batch-size 8 --output-dir "$work/frozen" --max-steps 3
check $code "train with frozen norms" "$err"
run train --model "$work/cold" --data "$work/images.csv" --per-device-train-batch-size 8 --output-dir "$work/twice" --max-steps 3 \
    --quiet --replay-every 1
check $code "with frozen norms steps are computed twice" "$err"
if command -v python3 >/dev/null; then
    python3 - "$work/cold/model.safetensors" "$work/frozen/model.safetensors" "$work/a/model.safetensors" <<'END'
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    return {k: data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
still = [k for k in a if "running" in k]
sys.exit(not (len(still) == 8 and all(a[k] == b[k] for k in still) and all(a[k] != b[k] for k in a if "convolution" in k)))
END
    check $? "they stay, and the weights move"
fi

# CIFAR-10's binary files: pixels of 32 x 32 whose brightness tells the class; damaged ones.
LC_ALL=C awk 'BEGIN { for (k = 0; k < 24; k++) { printf "%c", substr("XYZ", k % 3 + 1, 1)
    for (i = 1; i < 3073; i++) printf "%c", 33 + (k % 3) * 15 + (i * 7 + k) % 20 } }' | tr 'XYZ' '\000\001\002' >"$work/batch.bin"
[[ $(stat -c %s "$work/batch.bin") -eq $((24 * 3073)) ]]
check $? "24 images of 3073 bytes"
mkdir "$work/cifar"
cat >"$work/cifar/config.json" <<'END'
{"model_type": "cnn", "num_labels": 3, "layers": ["conv 4 3 stride 2", "separable 8 3 stride 2", "max-pool 2 stride 2", "mean-pool all"]}
END
images=(--model "$work/cifar" --data "$work/batch.bin" --data-format cifar10)
expect 0 'batch.bin: 24 rows of 3072 numbers and a label' train "${images[@]}" --per-device-train-batch-size 8 --learning-rate 3e-2 \
    --max-steps 30 --output-dir "$work/seen"
expect 0 'accuracy 1\.0000' eval --model "$work/seen" --data "$work/batch.bin" --data-format cifar10
# Of more than five classes also how often the label is one of the five likeliest, as the logits have it.
sed 's/"num_labels": 3/"num_labels": 9/' "$work/cifar/config.json" >"$work/config.json"
LC_ALL=C awk 'BEGIN { for (k = 0; k < 27; k++) { printf "%c", 65 + k % 9
    for (i = 1; i < 3073; i++) printf "%c", 80 + (i * 7 + k) % 20 } }' >"$work/letters.bin"
for ((k = 0; k < 27; k++)); do # letters only where labels are
    tail -c +$((3073 * k + 1)) "$work/letters.bin" | head -c 1 | tr A-I '\000-\010'
    tail -c +$((3073 * k + 2)) "$work/letters.bin" | head -c 3072
done >"$work/nine.bin"
nine=(--model "$work" --data "$work/nine.bin" --data-format cifar10)
run eval "${nine[@]}" --predictions "$work/nine.jsonl" --json
check $code "nine classes" "$err"
sed -E 's/"[a-z]+"://g; s/"LABEL_//g; s/[^0-9.e-]+/ /g' "$work/nine.jsonl" |
    awk -v one="$(json accuracy)" -v five="$(json accuracy_top_5)" '
    { mine = $(5 + $4); above = 0
      for (c = 0; c < 9; c++) above += $(5 + c) > mine || ($(5 + c) == mine && c < $4)
      first += above == 0; near += above < 5 }
    function off(a, b) { return a > b ? a - b : b - a }
    END { exit !(NR == 27 && five != "" && near > 0 && near < NR && off(first / NR, one) < 1e-6 && off(near / NR, five) < 1e-6) }'
check $? "top-1 and top-5 accuracy are those of the file" "$out$(head -3 "$work/nine.jsonl")"
expect 0 'accuracy [0-9.]*, top-5 accuracy [0-9.]*, macro F1' eval "${nine[@]}"
expect 0 'best_eval_accuracy_top_5' train "${nine[@]}" --per-device-train-batch-size 8 --max-steps 2 --eval-strategy steps --eval-steps 1 \
    --eval-data "$work/nine.bin" --load-best-model-at-end --metric-for-best-model eval_accuracy_top_5 --json --output-dir "$work/top"
expect 2 'accuracy_top_5' train "${images[@]}" --metric-for-best-model accuracy_top_5 --eval-data "$work/batch.bin" --output-dir "$work/x"
run eval "${images[@]}" --json
[[ $code -eq 0 ]] && ! grep -q top_5 <<<"$out"
check $? "of three classes only the likeliest" "$out$err"
head -c 9000 "$work/batch.bin" >"$work/cut.bin"
expect 4 'cut.bin: .*no whole number of images.*found 9000, expected 6146' train "${images[@]:0:2}" --data "$work/cut.bin" \
    --data-format cifar10 --output-dir "$work/x"
{ head -c 3073 "$work/batch.bin"; head -c 1 /dev/zero | tr '\000' '\011'; head -c 3072 "$work/batch.bin"; } >"$work/label.bin"
expect 4 'label.bin:2: the label is no class' train "${images[@]:0:2}" --data "$work/label.bin" --data-format cifar10 \
    --output-dir "$work/x"
expect 4 '32 x 32 x 3, and the model.s have another size' train "${common[@]}" --data "$work/batch.bin" --data-format cifar10 \
    --output-dir "$work/x"
expect 4 'cifar10, idx' train "${images[@]:0:2}" --data "$work/batch.bin" --output-dir "$work/x"

# A table of PGM images, whose classes have names; a damaged one.
mkdir "$work/folder"
awk -v to="$work/folder" 'BEGIN { print "file_name,label" >(to "/metadata.csv")
    for (k = 0; k < 12; k++) { name = "i" k ".pgm"; print name "," substr("redtoosad", k % 3 * 3 + 1, 3) >(to "/metadata.csv")
        printf "P5 8 8 255\n" >(to "/" name); for (i = 0; i < 64; i++) printf "%c", 33 + k % 3 * 30 + i % 8 >(to "/" name) } }'
cat >"$work/folder/config.json" <<'END'
{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "id2label": {"0": "red", "1": "sad", "2": "too"},
 "layers": ["conv 4 3", "mean-pool all"]}
END
folder=(--model "$work/folder" --data "$work/folder/metadata.csv" --data-format imagefolder --per-device-train-batch-size 4)
expect 0 'metadata.csv: 12 rows of 64 numbers and a label' train "${folder[@]}" --max-steps 60 --learning-rate 5e-2 --output-dir "$work/named"
expect 0 'accuracy 1\.0000' eval --model "$work/named" "${folder[@]:2:4}"
head -c 70 "$work/folder/i4.pgm" >"$work/cut.pgm" && cp "$work/cut.pgm" "$work/folder/i4.pgm"
expect 4 'metadata.csv:6: .*i4.pgm: .*cut short.*found 70, expected 75' train "${folder[@]}" --output-dir "$work/x"

# An autoencoder gives back its row: the loss is the mean of squares, and there is no label.
awk 'BEGIN { for (i = 0; i < 64; i++) printf "%sx%d", i ? "," : "", i; print ",label"
    for (k = 0; k < 40; k++) { for (i = 0; i < 64; i++) printf "%.3f,", (i % 8 - 4) / 4 * (k % 5 - 2); print "odd" } }' >"$work/rows.csv"
mkdir "$work/auto"
cat >"$work/auto/config.json" <<'END'
{"model_type": "cnn", "image_height": 1, "image_width": 1, "num_channels": 64, "problem_type": "reconstruction",
 "layers": ["dense 16", "dense 4", "dense 16"]}
END
expect 0 'rows.csv: 40 rows of 64 numbers, read' train --model "$work/auto" --data "$work/rows.csv" --output-dir "$work/given" \
    --max-steps 60 --per-device-train-batch-size 10 --learning-rate 1e-2
run eval --model "$work/given" --data "$work/rows.csv" --predictions "$work/errors.jsonl" --json
awk -F'[:}]' -v loss="$(json loss)" '{ sum += $3 } END { off = sum / NR - loss
    exit !(NR == 40 && loss < 0.3 && off < 1e-6 && off > -1e-6) }' "$work/errors.jsonl"
check $? "rows are learned, and the loss is the mean of their errors" "$out$(head -2 "$work/errors.jsonl")"
expect 2 'task: reconstruction is for models that read rows' plan --model gpt2 --task reconstruction
expect 0 'parameters' plan --model tiny-mlp --task reconstruction

# Presets, and what cannot be.
for preset in ds-cnn resnet-8 mobilenet-v1-0.25 resnet-18-cifar autoencoder; do
    expect 0 'parameters' plan --model $preset
done
describe() { # JSON-MEMBERS
    mkdir -p "$work/own"
    printf '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "num_labels": 3, %s}\n' "$1" >"$work/own/config.json"
}
describe '"layers": ["conv 4 3", "mean-pool all"]'
expect 0 '67 parameters' plan --model "$work/own"
describe '"layers": ["conv 4 3", "pool 3"]'
expect 4 'layers: this value is not supported: found "pool 3", expected a list of at most 60 texts' plan --model "$work/own"
describe '"layers": ["conv 4 3", "max-pool 9"]'
expect 2 'layers: .*window is larger' plan --model "$work/own"
describe '"layers": ["conv 4 3 padding 3"]'
expect 2 'layers: .*padding' plan --model "$work/own"
describe '"layers": ["bottleneck 6"]'
expect 2 'layers: .*channels' plan --model "$work/own"
describe '"layers": []'
expect 2 'layers' plan --model "$work/own"
expect 2 'max-seq-length' train "${common[@]}" --data "$work/images.csv" --output-dir "$work/x" --max-seq-length 3
expect 2 'fp32' train "${common[@]}" --data "$work/images.csv" --output-dir "$work/x" --bf16
expect 2 'does not generate' generate --model tiny-cnn --prompt-ids 1
# A search measures sets of kept values that no policy names: adapters of convolutions.
for name in ds-cnn mobilenet-v1-0.25; do
    expect 0 '"arena_bytes"' plan --model $name --lora-r 4 --max-steps 2 --gradient-checkpointing auto --arena 16000000 --json
done
finish
