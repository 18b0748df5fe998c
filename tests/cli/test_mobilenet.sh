#!/bin/bash
# SPDX-License-Identifier: MIT
# MobileNetV2: a directory that transformers saved is read, judges as transformers does, comes out to the last bit, and
# trains (every policy's bits, stopped and resumed); what is not computed is refused.
# verifies layers-32.7a15
. "$(dirname "$0")/lib.sh"
golden=tests/golden/mobilenet
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
same = all(x[k] == y[k] for k in ("depth_multiplier", "depth_divisible_by", "min_depth", "expand_ratio", "output_stride",
                                  "first_layer_is_expansion", "finegrained_output", "hidden_act", "tf_padding", "id2label",
                                  "classifier_dropout_prob", "layer_norm_eps", "image_size", "architectures", "num_channels"))
sys.exit(not (len(counts) == 52 and same and {k: v for k, v in a.items() if k not in counts} == b))
END2
    check $? "every tensor but the counts of batches comes back to the last bit, and the configuration" \
        "$(cat "$work/same/config.json")"
fi

common=(--model "$golden" "${data[@]}" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --learning-rate 1e-3 --quiet)
run plan --model "$golden" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --json
planned=$(json arena_bytes)
run train "${common[@]}" --max-steps 4 --output-dir "$work/a" --json
[[ $code -eq 0 && -n $planned && $(json arena_bytes) -eq $planned && $(json device_bytes_in_use) -eq $planned ]]
check $? "planned bytes are used" "$planned $out$err"
digest=$(json state_digest)
for policy in full memory-poor sqrt selective:norm; do
    run train "${common[@]}" --max-steps 4 --output-dir "$work/$policy" --json --gradient-checkpointing $policy
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$policy: the same bits" "$out$err"
done
run train "${common[@]}" --max-steps 4 --output-dir "$work/b" --stop-at-step 2
run train "${common[@]}" --max-steps 4 --output-dir "$work/b" --resume --json
[[ $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"

# On the simulated GPU it trains as on the host; nothing is dropped, and images turn.
if [[ -e $BUILD/ptxvm/libcuda.so.1 ]]; then
    losses=()
    for device in host cuda; do
        LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run train --model "$golden" "${data[@]}" --per-device-train-batch-size 2 --max-steps 2 \
            --learning-rate 1e-3 --device $device --random-horizontal-flip 0.5 --output-dir "$work/on-$device"
        losses+=("$code $(grep -oE 'step 2/2  loss [0-9.]+' <<<"$out$err")")
    done
    [[ ${losses[0]} == "0 step"* && ${losses[1]} == "0 step"* ]] &&
        awk -v a="${losses[0]##* }" -v b="${losses[1]##* }" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-6 * a * a) }'
    check $? "the loss of a GPU, to a thousandth" "${losses[*]} $err"
fi

# Classes of one's own, and a preset.
run train "${common[@]}" --max-steps 0 --output-dir "$work/five" --num-labels 5
[[ $code -eq 0 ]] && run eval --model "$work/five" "${data[@]}" --json && grep -q '"LABEL_4"' "$work/five/config.json"
check $? "five classes" "$out$err"
run plan --model mobilenet-v2 --per-device-train-batch-size 1 --json
[[ $code -eq 0 && $(json parameters) -eq 3540265 ]]
check $? "the parameters and running statistics of transformers, 3,506,153 and 34,112" "$out$err"

# What is not computed is refused by name.
mkdir "$work/odd"
cp "$golden/model.safetensors" "$work/odd"
while read -r want edit key; do
    sed "$edit" "$golden/config.json" >"$work/odd/config.json"
    expect "$want" "$key" eval --model "$work/odd" "${data[@]}"
done <<'END2'
4 s/"hidden_act":."relu6"/"hidden_act":"gelu"/ hidden_act
2 s/"output_stride":.32/"output_stride":16/ output_stride
4 s/"depth_divisible_by":.4/"depth_divisible_by":0/ depth_divisible_by
2 s/"depth_multiplier":.0.1/"depth_multiplier":0.0/ depth_multiplier
2 s/"expand_ratio":.6.0/"expand_ratio":0.0/ expand_ratio
4 s/"depth_multiplier":.0.1/"depth_multiplier":0.3/ convolution.weight
END2
finish
