#!/bin/bash
# SPDX-License-Identifier: MIT
# --trainable GLOB:FIRST-LAST: rows of matrices and of convolutions are trained alone: what a loop in double computes, the
# bits of every policy, kernel form and number of threads, stopped and resumed, and of a trainer; less memory; refusals.
. "$(dirname "$0")/../lib.sh"

mkdir -p "$work/mlp" "$work/cnn"
echo '{"model_type": "mlp", "input_size": 12, "hidden_sizes": [16, 10], "num_labels": 4}' >"$work/mlp/config.json"
echo '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 2, "num_labels": 3, "freeze_batch_norm": true,
    "layers": ["conv 6 3 padding same", "basic 8", "conv 5 2 stride 2", "mean-pool all"]}' >"$work/cnn/config.json"
# numbers COUNT CLASSES: 64 rows, as a trainer's example makes them.
numbers() {
    awk -v n="$1" -v classes="$2" 'BEGIN { for (j = 0; j < n; j++) printf "f%d,", j; print "label"
        for (i = 0; i < 64; i++) { for (j = 0; j < n; j++) printf "%.6f,", ((i * n + j) * 7919 % 257 - 128) / 64
            print i % classes } }'
}
numbers 12 4 >"$work/mlp.csv"
numbers 128 3 >"$work/cnn.csv"
mlp=(--model "$work/mlp" --freeze '*' --trainable layers.0.weight:4-7 --trainable layers.1.weight:0-2
    --trainable classifier.bias --trainable classifier.weight:3-3)
cnn=(--model "$work/cnn" --freeze '*' --trainable layers.0.convolution.weight:1-3 --trainable 'classifier.*'
    --trainable layers.1.layer.1.convolution.weight:5-7 --trainable '*normalization.bias')

# Four steps over all rows at once, against a loop in double with a mask over the gradient.
# verifies face-73.601b
steps=(--data "$work/mlp.csv" --per-device-train-batch-size 64 --max-grad-norm 0 --optim sgd --learning-rate 0.1
    --lr-scheduler-type constant --weight-decay 0 --quiet)
run train "${mlp[@]}" "${steps[@]}" --max-steps 0 --output-dir "$work/before"
run train "${mlp[@]}" "${steps[@]}" --max-steps 4 --output-dir "$work/after" --json
[[ $code -eq 0 ]]
check $? "rows are trained" "$out$err"
if command -v python3 >/dev/null; then
    python3 - "$work" <<'END'
import json, math, struct, sys
work = sys.argv[1]
def tensors(path):
    data = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, v in json.loads(data[8 : 8 + n]).items():
        if name != "__metadata__":
            a, b = v["data_offsets"]
            flat = struct.unpack("<%df" % ((b - a) // 4), data[8 + n + a : 8 + n + b])
            width = v["shape"][1] if len(v["shape"]) == 2 else len(flat)
            out[name] = [list(flat[i : i + width]) for i in range(0, len(flat), width)]
    return out
p, made, begun = tensors(work + "/before"), tensors(work + "/after"), tensors(work + "/before")
rows = [[float(x) for x in line.split(",")] for line in open(work + "/mlp.csv").read().split("\n")[1:] if line]
trained = {"layers.0.weight": range(4, 8), "layers.1.weight": range(0, 3), "classifier.weight": [3], "classifier.bias": [0]}
def product(w, b, x):
    return [sum(u * v for u, v in zip(row, x)) + b[0][i] for i, row in enumerate(w)]
layers = ["layers.0.", "layers.1.", "classifier."]
for step in range(4):
    d = {k: [[0.0] * len(r) for r in v] for k, v in p.items()}
    for *x, label in rows:
        seen = [x]
        for name in layers:
            y = product(p[name + "weight"], p[name + "bias"], seen[-1])
            seen.append([max(v, 0.0) for v in y] if name != "classifier." else y)
        top = max(seen[-1])
        e = [math.exp(v - top) for v in seen[-1]]
        g = [(v / sum(e) - (i == label)) / len(rows) for i, v in enumerate(e)]
        for k in (2, 1, 0):
            name = layers[k]
            for i, v in enumerate(g):
                d[name + "bias"][0][i] += v
                for j, u in enumerate(seen[k]):
                    d[name + "weight"][i][j] += v * u
            g = [sum(g[i] * p[name + "weight"][i][j] for i in range(len(g))) * (seen[k][j] > 0) for j in range(len(seen[k]))]
    for name, which in trained.items():
        for i in which:
            p[name][i] = [w - 0.1 * v for w, v in zip(p[name][i], d[name][i])]
far = max(abs(a - b) for k in p for r, s in zip(p[k], made[k]) for a, b in zip(r, s))
still = all(made[k][i] == begun[k][i] for k in p for i in range(len(p[k])) if i not in trained.get(k, []))
moved = all(made[k][i] != begun[k][i] for k in trained for i in trained[k])
print(far, still, moved)
sys.exit(not (far < 1e-6 and still and moved))
END
    check $? "as a loop in double trains them, and nothing else"
fi

# same NAME OPTION..: one digest whatever is kept, with any number of threads and any kernels, released, stopped and resumed.
same() {
    local name=$1 whole='' form
    shift
    local train=(train "$@" --data "$work/$name.csv" --per-device-train-batch-size 8 --max-steps 6 --quiet --json)
    for form in '' '--gradient-checkpointing full' '--gradient-checkpointing memory-poor' '--gradient-release' '--threads 1' \
        '--kernels portable' '--gradient-release --gradient-checkpointing memory-poor'; do
        # shellcheck disable=SC2086
        run "${train[@]}" $form --output-dir "$work/run" --overwrite-output-dir
        [[ $code -eq 0 && -n ${whole:=$(json state_digest)} && $(json state_digest) == "$whole" ]]
        check $? "$name ${*: -2}: the same bits ${form:-keeping all}" "$out$err"
    done
    run "${train[@]}" --output-dir "$work/stopped-$name" --overwrite-output-dir --stop-at-step 3
    run "${train[@]}" --output-dir "$work/stopped-$name" --resume
    [[ $code -eq 0 && $(json state_digest) == "$whole" ]]
    check $? "$name ${*: -2}: stopped and resumed" "$out$err"
}
same mlp "${mlp[@]}" --max-grad-norm 0.1
same mlp "${mlp[@]}" --gradient-accumulation-steps 2
same mlp "${mlp[@]}" --param-override '*: optim_bits=8'
same cnn "${cnn[@]}" --max-grad-norm 0.1

# The first step of rows is that of the whole tensor, and the others' values are what they were.
one=(--model "$work/cnn" --freeze '*' --data "$work/cnn.csv" --per-device-train-batch-size 8 --quiet --learning-rate 1e-2
    --max-grad-norm 0)
for step in 0 1; do
    run train "${one[@]}" --trainable '*convolution.weight' --max-steps $step --output-dir "$work/whole-$step"
done
run train "${one[@]}" --trainable '*convolution.weight:1-3' --max-steps 1 --output-dir "$work/rows-1"
if command -v python3 >/dev/null; then
    python3 - "$work" <<'END'
import json, struct, sys
def tensors(path):
    data = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: (v["shape"], data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]])
            for k, v in json.loads(data[8 : 8 + n]).items() if k.endswith("convolution.weight")}
before, whole, rows = (tensors(sys.argv[1] + "/" + d) for d in ("whole-0", "whole-1", "rows-1"))
right = len(rows) == 5
for k, (shape, data) in rows.items():
    row = len(data) // shape[0]
    for i in range(shape[0]):
        like = whole if 1 <= i <= 3 else before
        right = right and data[i * row : (i + 1) * row] == like[k][1][i * row : (i + 1) * row]
sys.exit(not right)
END
    check $? "a step of channels of convolutions is that of the whole" "$err"
fi

# Gradients and states are those of the rows: bytes of AdamW.
for rows in '' :4-7; do
    run plan --model "$work/mlp" --per-device-train-batch-size 8 --max-steps 9 --freeze '*' --trainable "layers.0.weight$rows" --json
    [[ $code -eq 0 && $out == *"\"trainable_parameters\": $((${#rows} > 0 ? 48 : 192)),"* &&
        $out == *"\"gradients\": $((${#rows} > 0 ? 256 : 768)),"* ]]
    check $? "planned bytes of rows '$rows'" "$out$err"
done

# A trainer has the digest of train.
make -s install-library PREFIX="$work/kit" DESTDIR= >/dev/null 2>&1
for name in mlp cnn; do
    declare -n more=$name
    emitted=("${more[@]}" --max-steps 20 --optim sgd --per-device-train-batch-size 2 --gradient-release --max-grad-norm 0
        --gradient-checkpointing memory-poor --alignment 32 --kernels portable --learning-rate 1e-2 --offload flash:1MB)
    run train "${emitted[@]}" --data "$work/$name.csv" --quiet --json --output-dir "$work/emitted-$name"
    digest=$(json state_digest)
    run plan "${emitted[@]}" --emit-c "$work/$name-c"
    [[ $code -eq 0 ]] && make -s -C "$work/$name-c" BEDPLATE="$work/kit" CFLAGS=-O1 STEPS=20 >"$work/made" 2>&1
    [[ -n $digest && $("$work/$name-c/example" | sed -n 's/^state digest //p') == "$digest" ]]
    check $? "$name: the trainer's digest is that of train" "$digest $out$err$(cat "$work/made")"
done

# Refusals.
plain=(plan --model "$work/mlp" --max-steps 9)
expect 2 'layers.0.weight: a parameter has no such row: found 16, expected at most 15' "${plain[@]}" --trainable layers.0.weight:4-16
for wrong in layers.0.weight:4 layers.0.weight:7-4 layers.0.weight: :0-1 layers.0.weight:a-3 layers.0.weight:0-1x \
    layers.0.weight:99999999999999999999-0; do
    expect 2 'trainable: the value is not a pattern and its rows' "${plain[@]}" --trainable "$wrong"
done
expect 2 'layers.0.bias: rows are trained of matrices' "${plain[@]}" --trainable layers.0.bias:0-1
expect 2 'rows are trained by rules of single elements' "${plain[@]}" --trainable layers.0.weight:0-1 --optim lamb
expect 2 'rows are trained of matrices' plan --model gpt2 --freeze '*' --trainable 'transformer.wte.weight:0-9'
expect 2 'rows are trained in fp32' plan --model gpt2 --bf16 --freeze '*' --trainable '*attn.c_attn.weight:0-9'
expect 2 'rows are trained without ranks' plan --model "$work/mlp" --max-steps 9 --ranks 2 --gradient-accumulation-steps 2 \
    --trainable layers.0.weight:0-1
run train "${mlp[@]}" --data "$work/mlp.csv" --per-device-train-batch-size 8 --max-steps 6 --quiet --resume --max-grad-norm 0.1 \
    --output-dir "$work/stopped-mlp" --trainable classifier.weight:0-0
[[ $code -eq 2 && $err == *trainable* ]]
check $? "a checkpoint of other rows is refused" "$code $err"
finish
