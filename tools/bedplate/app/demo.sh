#!/bin/bash
# SPDX-License-Identifier: MIT
# The demo: plans, trains, evaluates and samples a small GPT on texts that every Debian has.
#
#     demo.sh BUILD [MODEL [DATA [OPTIONS..]]]
#
# MODEL is a preset or a model directory, DATA a text file, OPTIONS go to the training. The options
# below are fixed so that the preset `demo` takes two to four minutes on two cores.
set -eu
build=$1
model=${2:-demo}
data=${3:-}
shift $(($# < 3 ? $# : 3))
folder=build/demo
mkdir -p "$folder"
if [[ -z $data ]]; then
    data=$folder/licences.txt
    # Symbolic links are second names of texts that are there already.
    find /usr/share/common-licenses -type f | LC_ALL=C sort | xargs cat >"$data"
fi
# Models with fewer positions take sequences of their own length.
length=128
"$build/bedplate" plan --model "$model" --max-seq-length "$length" >/dev/null 2>&1 || length=0
options=(--model "$model" --data "$data" --validation-split 0.1 --max-seq-length "$length")
training=(--per-device-train-batch-size 8 --max-steps 1500 --learning-rate 2e-3
    --lr-scheduler-type cosine --warmup-steps 50 --weight-decay 0.1 --adam-beta2 0.99
    --eval-steps 500 --logging-steps 100 --save-steps 500 --save-total-limit 1 "$@")

echo "== The plan: every byte, before the first step"
"$build/bedplate" plan "${options[@]}" "${training[@]}"
echo
echo "== Training on $(stat -c %s "$data") bytes of $data, the last tenth left out"
rm -rf "$folder/model"
"$build/bedplate" train "${options[@]}" "${training[@]}" --output-dir "$folder/model"
echo
echo "== The last tenth, which it never saw"
"$build/bedplate" eval --model "$folder/model" --data "$data" --validation-split 0.1 \
    --max-seq-length "$length"
printf 'an order-2 context model, at its very best: %s nats per byte\n' \
    "$("$build/tools/bench/order2" "$data" 0.1)"
echo
echo "== What it writes"
write=(generate --model "$folder/model" --prompt "This License " --temperature 0.8 --top-k 40)
"$build/bedplate" "${write[@]}" --max-new-tokens 110 2>/dev/null ||
    "$build/bedplate" "${write[@]}" --max-new-tokens 40
echo
echo "The model is in $folder/model: config.json, model.safetensors, tokenizer.json, as transformers"
echo "opens them; its checkpoint beside them resumes the run."
