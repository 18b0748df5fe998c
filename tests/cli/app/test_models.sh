#!/bin/bash
# SPDX-License-Identifier: MIT
# What --model and --device name that is not here: a model of a hub, a preset nearly, a GPU for a plan.
. "$(dirname "$0")/../lib.sh"
run plan --model meta-llama/Llama-3.2-1B
[[ $code -eq 2 && $err == *"--model: "*"found meta-llama/Llama-3.2-1B, expected a directory"* ]] &&
    grep -qx 'try: hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B' <<<"$err"
check $? "a model of a hub is answered with its download" "$code $err"
for name in https://huggingface.co/org/m https://hf.co/org/m hf.co/org/m huggingface.co/org/m http://huggingface.co/org/m https://hf.co/org/m/ \
    https://huggingface.co/org/m/tree/main 'https://huggingface.co/org/m?library=x' https://huggingface.co/org/m/blob/main/config.json hf:org/m \
    hf://org/m; do
    expect 2 '^try: hf download org/m --local-dir m$' plan --model "$name"
done
for name in https://huggingface.co/gpt2 hf.co/gpt2/ https://huggingface.co/gpt2/tree/main; do
    expect 2 '^try: hf download gpt2 --local-dir gpt2$' plan --model "$name"
done
expect 2 '^try: hf download openai-community/gpt2 --local-dir gpt2$' plan --model https://huggingface.co/openai-community/gpt2/tree/main
for name in https://huggingface.co/ https://hf.co/datasets/org/m https://elsewhere.org/org/m hf.co/../m; do
    run plan --model "$name"
    [[ $code -eq 4 && $err != *'hf download'* ]]
    check $? "no model of a hub: $name" "$code $err"
done
expect 4 '^try: hf download bert-base-uncased --local-dir bert-base-uncased$' plan --model bert-base-uncased
run plan --model lama-7b
[[ $code -eq 4 && $err == *'; the nearest preset is llama-7b'$'\n'* && $err != *'hf download'* ]]
check $? "a preset nearly is no model of a hub" "$err"
# A name like no preset: the three nearest, and the command that lists all.
expect 4 '^bedplate: --model: unknown model: found "llama9x", .*; the nearest presets are [^ ,]+, [^ ,]+, [^ ,]+$' plan --model llama9x
expect 4 '^try: bedplate train --help presets$' train --model llama9x --data "$work/none" --output-dir "$work/none"
run plan --help presets
[[ $code -eq 0 && $(sed -n 's/^  \([^ -][^ ]*\) .*/\1/p' <<<"$out") == "$("$program" completion bash | sed -n 's/.*words="\(gpt2 .*\)"$/\1/p' | tr ' ' '\n')" ]]
check $? "--help presets lists every preset" "$out"
expect 4 'the nearest preset is resnet-8$' plan --model resnet-9
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
