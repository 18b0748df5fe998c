#!/bin/bash
# SPDX-License-Identifier: MIT
# The demo: plans, trains, evaluates and samples a small GPT on texts that every Debian has.
#
#     demo.sh BUILD [MODEL [DATA]]
#
# MODEL is a preset or a model directory, DATA a text file. The options are fixed so that the preset
# `demo` takes two to four minutes on two cores.
set -eu
build=$1
model=${2:-demo}
data=${3:-}
folder=build/demo
mkdir -p "$folder"
if [[ -z $data ]]; then
    data=$folder/licences.txt
    # Symbolic links are second names of texts that are there already.
    find /usr/share/common-licenses -type f | LC_ALL=C sort | xargs cat >"$data"
fi
options=(--model "$model" --data "$data" --validation-split 0.1 --max-seq-length 128)
training=(--per-device-train-batch-size 8 --max-steps 3000 --learning-rate 3e-3
    --lr-scheduler-type cosine --warmup-steps 50 --weight-decay 0.1 --adam-beta2 0.99 --dropout 0.1
    --eval-steps 500 --logging-steps 250 --save-steps 1000 --save-total-limit 1)

echo "== The plan: every byte, before the first step"
"$build/bedplate" plan "${options[@]}" "${training[@]}"
echo
echo "== Training on $(stat -c %s "$data") bytes of $data, the last tenth left out"
rm -rf "$folder/model"
"$build/bedplate" train "${options[@]}" "${training[@]}" --output-dir "$folder/model"
echo
echo "== The last tenth, which it never saw"
"$build/bedplate" eval --model "$folder/model" --data "$data" --validation-split 0.1 \
    --max-seq-length 128
printf 'an order-2 context model, at its very best: %s nats per byte\n' \
    "$("$build/tools/bench/order2" "$data" 0.1)"
echo
echo "== What it writes"
"$build/bedplate" generate --model "$folder/model" --prompt "This License " --max-new-tokens 200 \
    --temperature 0.8 --top-k 40
echo
echo "The model is in $folder/model: config.json, model.safetensors, tokenizer.json, as transformers"
echo "opens them; its snapshot beside them resumes the run."
