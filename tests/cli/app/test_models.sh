#!/bin/bash
# SPDX-License-Identifier: MIT
# What --model and --device name that is not here: a model of a hub, a preset nearly, a GPU for a plan.
. "$(dirname "$0")/../lib.sh"
run plan --model meta-llama/Llama-3.2-1B
[[ $code -eq 2 && $err == *"--model: "*"found meta-llama/Llama-3.2-1B, expected a directory"* ]] &&
    grep -qx 'try: hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B' <<<"$err"
check $? "a model of a hub is answered with its download" "$code $err"
for name in https://huggingface.co/org/m hf.co/org/m hf:org/m hf://org/m; do
    [[ $name != hf.co/* ]] || name=https://$name
    expect 2 '^try: hf download org/m --local-dir m$' plan --model "$name"
done
expect 4 '^try: hf download bert-base-uncased --local-dir bert-base-uncased$' plan --model bert-base-uncased
run plan --model lama-7b
[[ $code -eq 4 && $err == *'nearest is llama-7b'* && $err != *try:* ]]
check $? "a preset nearly is no model of a hub" "$err"
expect 4 'unknown model' plan --model ./none/there
expect 4 'unknown model.*llama-3.2-1b' plan --model llama-3.2-1
for i in 1 2 3 4 5 6; do echo text; done >"$work/text.txt"
train=(train --model tiny --data "$work/text.txt" --max-seq-length 8 --per-device-train-batch-size 1 --max-steps 1 --output-dir)
expect 0 'tiny: a preset: the weights are random' "${train[@]}" "$work/a"
expect 0 'tiny: [0-9,]+ parameters, random weights, batch' plan --model tiny
expect 0 '"weights": "random"' plan --model tiny --json
run "${train[@]}" "$work/b" --quiet
[[ $code -eq 0 && $err != *preset* ]]
check $? "--quiet" "$err"
run plan --model "$work/a" --max-seq-length 8
[[ $code -eq 0 && $out == *' parameters, batch '* ]]
check $? "a directory has its own" "$out$err"
if ! "$program" devices --json 2>/dev/null | grep -q '"usable": true'; then
    run plan --model tiny --device cuda --json
    [[ $code -eq 0 && $(json target) == sm_90a && $err == *'no driver: planned for sm_90a (H100)'* ]]
    check $? "a plan for a GPU without a driver" "$code $err"
    expect 0 '"target": "sm_80"' plan --model tiny --device cuda:sm_80 --json
    expect 7 '.' "${train[@]}" "$work/c" --device cuda
fi
finish
