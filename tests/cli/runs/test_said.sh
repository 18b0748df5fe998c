#!/bin/bash
# SPDX-License-Identifier: MIT
# What the program prints is what it did: runs that had ended, samples that are no tokens, types of what is written,
# adapters beside another base, two sets of weights, help of one command.
. "$(dirname "$0")/../lib.sh"
# verifies face-60.7ec1
awk 'BEGIN { for (i = 0; i < 60; i++) print i, "green bottles" }' >"$work/text.txt"
common=(--data "$work/text.txt" --max-seq-length 16 --per-device-train-batch-size 2 --threads 1)

# A run that had ended is started once more: there are no steps, and it is no resume.
again=(train --model tiny "${common[@]}" --max-steps 4 --output-dir "$work/run" --resume auto)
run "${again[@]}" --stop-at-step 2
run "${again[@]}"
run "${again[@]}"
[[ $code -eq 0 ]] && grep -q '^nothing is left to train: the run has had its steps, 4,' <<<"$out" && ! grep -q 'steps 5 to' <<<"$out"
check $? "a run that had ended" "$out"
run watch "$work/run" --once
grep -q 'resumes 1$' <<<"$out" && grep -q '^step 4 of 4' <<<"$out"
check $? "is no resume" "$out"
grep -qE '^grad_norm [0-9.e+-]+ +lr [0-9.e+-]+ +[0-9]+ tokens/s' <<<"$out"
check $? "lines have the field's names" "$out"
[[ $(grep -c '^  step ' <<<"$out") -eq $(grep -cE '^  step [0-9]+ +[A-Z][^"]*$' <<<"$out") ]] && grep -qE '^  step 4 +Resumed with bedplate [0-9.]+ on ' <<<"$out"
check $? "events are sentences" "$out"
tail -2 "$work/run/events.jsonl" | grep -q '"event":"progress".*"step":4,"total":4'
check $? "its events know where it is" "$(tail -2 "$work/run/events.jsonl")"

# With --json a run is an object, of several each one, and what is no run says so.
run watch "$work/run" "$work" --json
python3 - "$work/.out" <<'END'
import json, sys
run, other = map(json.loads, open(sys.argv[1]))
assert run["state"] == "complete" and run["step"] == run["total_steps"] == 4 and run["resumes"] == 1 and run["exit_code"] == 0, run
assert other["state"] == "no run" and set(other) == {"directory", "state"}, other
assert {"loss", "eval_loss", "lr", "grad_norm", "tokens_per_second", "seconds_left", "saves", "metrics"} <= set(run), run
END
check $? "watch --json" "$out$err"
expect 4 'no record.jsonl' watch "$work" --json

# Images and rows of numbers are samples.
printf '{"model_type": "mlp", "input_size": 2, "hidden_sizes": [3], "num_labels": 2}\n' >"$work/config.json"
mkdir "$work/net" && mv "$work/config.json" "$work/net"
for ((i = 0; i < 12; i++)); do echo "$i,2,$((i % 2))"; done >"$work/rows.csv"
net=(train --model "$work/net" --data "$work/rows.csv" --per-device-train-batch-size 4 --max-steps 2)
run "${net[@]}" --output-dir "$work/n1"
grep -q ' 4 samples a step,' <<<"$out" && grep -qE 'step 2/2  loss [0-9.]+  grad_norm [0-9.]+  lr [0-9.e-]+  .* samples/s ' <<<"$err" && ! grep -qE 'tokens(/s| a step| per)' <<<"$out$err"
check $? "rows of numbers are no tokens" "$out$err"
run "${net[@]}" --output-dir "$work/n2" --json
grep -q '"samples_per_second": ' <<<"$out" && ! grep -q tokens <<<"$out"
check $? "nor in JSON" "$out"
run bench step --model "$work/net" --per-device-train-batch-size 4 --repeat 2
grep -q ' samples/s' <<<"$out" && ! grep -q tokens <<<"$out"
check $? "nor in a benchmark" "$out$err"
mkdir -p "$work/folder/cat"
expect 4 'task: classification, 1 classes, from the folders of' train --model "$work/net" --data "$work/folder" --max-steps 1 --output-dir "$work/x"

# Types of what is written, adapters beside another base than they were learned beside, two sets of weights.
run train --model tiny-llama "${common[@]}" --max-steps 1 --output-dir "$work/base"
run train --model "$work/base" "${common[@]}" --max-steps 2 --lora-r 4 --load-in-4bit --output-dir "$work/adapter"
expect 0 '\(hf, types as they were\)' export --model "$work/base" --to "$work/plain"
expect 0 '\(hf, codes of 4 or 8 bits, other types as they were\)' export --model "$work/base" --load-in-4bit --to "$work/codes"
expect 0 '\(hf, codes of 4 or 8 bits, other types as they were\)' export --model "$work/codes" --to "$work/codes-2"
other='the adapter was trained on a base quantised to 4 bits'
run export --model "$work/codes" --adapter "$work/adapter" --merge --to "$work/same"
grep -q '(hf, quantised tensors as floats, other types as they were)' <<<"$out" && ! grep -q "$other" <<<"$err"
check $? "merged into the base that it was learned beside" "$out$err"
expect 0 "$other" export --model "$work/base" --adapter "$work/adapter" --merge --to "$work/another"
expect 0 "$other" eval --model "$work/base" --adapter "$work/adapter" "${common[@]:0:4}"
# The adapter's own file has it too: a directory with what PEFT reads alone, whatever the form of the base.
expect 0 '.' export --model "$work/base" --load-in-8bit --to "$work/codes8"
for options in --load-in-4bit "--load-in-4bit --bnb-4bit-quant-type fp4 --bnb-4bit-use-double-quant false --bnb-4bit-blocksize 128" --load-in-8bit "--model $work/codes8"; do
    read -ra words <<<"$options"
    bits=$([[ $options == *8* && $options != *128* ]] && echo 8 || echo 4)
    rm -rf "$work/q" "$work/alone" && mkdir "$work/alone"
    run train --model "$work/base" "${common[@]}" --max-steps 1 --lora-r 4 "${words[@]}" --output-dir "$work/q"
    cp "$work/q"/adapter_{config.json,model.safetensors} "$work/alone"
    expect 0 "alone: the adapter was trained on a base quantised to $bits bits" export --model "$work/base" --adapter "$work/alone" --merge --to "$work/another"
    run eval --model "$work/base" "${words[@]}" --adapter "$work/alone" "${common[@]:0:4}"
    [[ $code -eq 0 ]] && ! grep -q 'was trained on a base' <<<"$err"
    check $? "an adapter alone beside its own base ($options)" "$err"
done
run eval --model "$work/base" --adapter "$work/adapter" --load-in-4bit "${common[@]:0:4}" --json
here=$(json loss)
! grep -q "$other" <<<"$err"
check $? "beside its own base" "$err"
run eval --model "$work/same" "${common[@]:0:4}" --json
awk -v a="$here" -v b="$(json loss)" 'BEGIN { exit !((a - b) ^ 2 < 1e-10) }'
check $? "which gives the same loss merged" "$here $out"
echo '{"weight_map": {"a": "model-00001-of-00001.safetensors"}}' >"$work/base/model.safetensors.index.json"
stale='base: model.safetensors is read, and the shards of model.safetensors.index.json beside it are not'
expect 0 "$stale" eval --model "$work/base" "${common[@]:0:4}"
expect 0 "$stale" export --model "$work/base" --to "$work/plain-2"

# The help of a command speaks of no other.
names=$("$program" --help | grep -oE '^  [a-z]+ ' | tr -d ' ')
for name in $names; do
    run "$name" --help all
    bad=$(grep -E "^        ([^;]*; )?($(paste -sd '|' <<<"$names")): " <<<"$out")
    [[ -z $bad ]]
    check $? "$name --help speaks of $name" "$bad"
done
run import --help all
grep -q -- '--from FILE$' <<<"$out" && ! grep -q STEP <<<"$out"
check $? "import has no steps" "$out"
run replay --help all
grep -q -- '--from STEP$' <<<"$out" && ! grep -q 'NAME.bin' <<<"$out"
check $? "replay has no files" "$out"
finish
