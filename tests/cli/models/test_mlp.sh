#!/bin/bash
# SPDX-License-Identifier: MIT
# Chains of dense layers over rows of numbers: tables and bare floats, every task, round trips, bad input.
. "$(dirname "$0")/../lib.sh"
# verifies formats-23.429b

awk 'BEGIN { print "a,b,c,d,label"; for (i = 0; i < 120; i++) {
    k = i % 3; printf "%.3f,%.3f,%.3f,%.3f,%d\n", k + i % 7 / 8, -k * (i % 5), i % 11 / 10, k == 1, k } }' >"$work/rows.csv"
common=(--model tiny-mlp --per-device-train-batch-size 8 --learning-rate 1e-2 --threads 2)

run plan "${common[@]}" --json
[[ $code -eq 0 && $(json arena_bytes) -gt 0 ]]
check $? "plan a chain of dense layers" "$out$err"
run train "${common[@]}" --data "$work/rows.csv" --output-dir "$work/a" --max-steps 60 --json
check $((code != 0)) "train on a table" "$out$err"
digest=$(json state_digest)
grep -q "rows.csv: 120 rows of 4 numbers and a label, read into" <<<"$err"
check $? "120 rows" "$err"
for policy in full memory-poor sqrt every:2 list:1; do
    run train "${common[@]}" --data "$work/rows.csv" --output-dir "$work/p-$policy" --max-steps 60 --quiet --json \
        --gradient-checkpointing $policy
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$policy: the same bits" "$out$err"
done
run eval --model "$work/a" --data "$work/rows.csv" --json
[[ $(json tokens) -eq 120 ]] && awk -v l="$(json loss)" 'BEGIN { exit !(l < 0.4) }'
check $? "120 rows, learned" "$out$err"
expect 0 'loss 0\.[0-9]+ per row over 120 rows' eval --model "$work/a" --data "$work/rows.csv"
run train "${common[@]}" --data "$work/rows.csv" --output-dir "$work/b" --max-steps 60 --stop-at-step 23
run train "${common[@]}" --data "$work/rows.csv" --output-dir "$work/b" --max-steps 60 --resume --json
[[ $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"
run train "${common[@]}" --data "$work/rows.csv" --output-dir "$work/v" --max-steps 5 --validation-split 0.25 --json
[[ $code -eq 0 ]] && grep -q '"eval_tokens": 30' <<<"$out"
check $? "a quarter of the rows is held out" "$out$err"

# The model directory that training leaves goes in and out unchanged.
run train --model "$work/a" --data "$work/rows.csv" --output-dir "$work/same" --max-steps 0
[[ $code -eq 0 ]] && cmp -s "$work/a/model.safetensors" "$work/same/model.safetensors" &&
    cmp -s "$work/a/config.json" "$work/same/config.json"
check $? "no step: the same files" "$err"
expect 0 'tensors' export --model "$work/a" --format hf --dtype source --to "$work/hf"
cmp -s "$work/a/model.safetensors" "$work/hf/model.safetensors"
check $? "exported: the same weights"

# The same rows as bare floats.
floats() {
    LC_ALL=C awk -F, 'NR > 1 { for (i = 1; i <= NF; i++) print $i }' "$1" | python3 -c '
import struct, sys
sys.stdout.buffer.write(b"".join(struct.pack("<f", float(x)) for x in sys.stdin))' >"$2"
}
if command -v python3 >/dev/null; then
    floats "$work/rows.csv" "$work/rows.f32"
    run train "${common[@]}" --data "$work/rows.f32" --output-dir "$work/f" --max-steps 60 --json
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "bare floats: the same training" "$out$err"
    head -c 1000 "$work/rows.f32" >"$work/cut.f32"
    head -c 1010 "$work/rows.f32" >"$work/cut2.f32"
    expect 0 '"steps": 1' train "${common[@]}" --data "$work/cut.f32" --output-dir "$work/f2" --max-steps 1 --json
    expect 4 "cut2.f32: .*no whole number of rows.*found 1010, expected 1000" train "${common[@]}" \
        --data "$work/cut2.f32" --output-dir "$work/x" --max-steps 1
fi

# Any of several classes, a number, no hidden layer at all.
printf '1,2,3,4,0 2\n4,3,2,1,\n0,0,0,1,1\n' >"$work/any.csv"
expect 0 '"steps": 3' train "${common[@]}" --task multi-label-classification --data "$work/any.csv" \
    --output-dir "$work/d" --max-steps 3 --json
printf '1,2,3,4,0.5\n4,3,2,1,-1.25\n' >"$work/warm.csv"
expect 0 '"steps": 3' train "${common[@]}" --task regression --data "$work/warm.csv" --output-dir "$work/e" --max-steps 3 --json
grep -q '"problem_type": "regression"' "$work/e/config.json"
check $? "regression is written down"
mkdir "$work/own"
printf '{"model_type": "mlp", "input_size": 4, "hidden_sizes": [], "num_labels": 3}\n' >"$work/own/config.json"
expect 0 '15 parameters' plan --model "$work/own"
expect 0 '"steps": 2' train --model "$work/own" --data "$work/rows.csv" --output-dir "$work/g" --max-steps 2 --json
printf '{"model_type": "mlp", "input_size": 4, "hidden_sizes": [5, 2], "num_labels": 3}\n' >"$work/own/config.json"
cp "$work/a/model.safetensors" "$work/own"
expect 4 'layers.0.weight: .*shape' eval --model "$work/own" --data "$work/rows.csv"
printf '{"model_type": "mlp", "input_size": 4, "hidden_sizes": [16, 16, 16], "num_labels": 3, "hidden_act": "tanh"}\n' \
    >"$work/own/config.json"
expect 4 'layers.2.weight: .*(missing|not in)' eval --model "$work/own" --data "$work/rows.csv"
printf '{"model_type": "mlp", "input_size": 4, "hidden_sizes": [16], "num_labels": 3, "hidden_act": "tanh"}\n' \
    >"$work/own/config.json"
expect 4 'layers.1.weight: ' eval --model "$work/own" --data "$work/rows.csv"

# Bad rows, and what is not for this model.
bad() {
    printf "$2" >"$work/$1"
    expect 4 "$3" train "${common[@]}" --data "$work/$1" --output-dir "$work/x" --max-steps 1 "${@:4}"
}
bad bad.csv '1,2,3,4,0\n1,2,3,0\n' 'bad.csv:2: the row has another number of fields.*found 4, expected 5'
bad bad.csv '1,2,3,4,5,0\n' 'bad.csv:1: the row has another number of fields.*found 6, expected 5'
bad bad.csv '1,2,3,4,0\n1,2,x,4,0\n' 'bad.csv:2: the field is not a number'
bad bad.csv '1,2,3,4,0\n1,2,1e39,4,0\n' 'bad.csv:2: a number is not finite'
bad bad.csv '1,2,3,4,0\n1,2,3,4,3\n' 'bad.csv:2: the label is no class of the model: found 3, expected at most 2'
bad bad.csv '1,2,3,4,0\n1,2,3,4,one\n' 'bad.csv:2: the label is neither a number'
bad bad.csv '1,2,3,4,0 3\n' 'bad.csv:1: the label is no class' --task multi-label-classification
bad bad.csv 'a,b,c,d,label\n' 'bad.csv: .*no row'
bad bad.txt 'a text' 'bad.txt: .*rows of numbers'
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
expect 2 'max-seq-length' train "${common[@]}" --data "$work/rows.csv" --output-dir "$work/x" --max-seq-length 3
expect 2 'fp32' train "${common[@]}" --data "$work/rows.csv" --output-dir "$work/x" --bf16
expect 2 'judges rows of numbers' generate --model tiny-mlp --prompt-ids 1
finish
