#!/bin/bash
# SPDX-License-Identifier: MIT
# A run from beginning to end: log, checkpoints, stopping, resuming, the trained model.
. "$(dirname "$0")/../lib.sh"

# Text with some order in it, the same on every machine.
awk 'BEGIN { for (i = 0; i < 700; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
tail -c 600 "$work/text" >"$work/held"
common=(--model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 2
    --learning-rate 3e-3 --dropout 0.1 --threads 2)

run train "${common[@]}" --output-dir "$work/a" --max-steps 12 --logging-steps 4 --save-steps 5 \
    --eval-data "$work/held" --eval-steps 6 --json
check $((code != 0)) "train" "$err"
whole=$(json state_digest)
[[ ${#whole} -eq 16 ]]
check $? "a state digest of 16 digits"
for key in train_seconds samples_per_second tokens_per_second arena_bytes device_bytes_in_use; do
    [[ -n $(json $key) ]]
    check $? "the summary has $key"
done
# The seconds of the whole program, in parts that do not overlap.
seconds_add_up() {
    awk -v l="$(json load_seconds)" -v w="${1:-0}" -v t="$(json total_seconds)" \
        'BEGIN { exit !(l > 0 && t >= l + w && t < 600) }'
    check $? "load_seconds are a part of total_seconds: $2" "$out"
}
seconds_add_up "$(json train_seconds)" train
[[ $(grep -c '"loss":' <<<"$out") -eq 3 ]]
check $? "a line every 4 of 12 steps" "$out"
for key in step loss grad_norm learning_rate tokens_per_second arena_bytes; do
    [[ $(grep -c "\"$key\": [0-9]" <<<"$out") -ge 3 ]]
    check $? "every logged step has $key" "$out"
done
[[ $(grep -c '"eval_loss":.*"eval_tokens": 599' <<<"$out") -eq 2 ]]
check $? "evaluated at steps 6 and 12" "$out"
[[ $(ls "$work/a") == "checkpoint-10
checkpoint-12
checkpoint-5
config.json
events.jsonl
model.safetensors
record.jsonl
tokenizer.json
tokenizer_config.json" ]]
check $? "the output directory" "$(ls "$work/a")"
grep -qE '^step 4/12 +loss [0-9.]+ ' <<<"$err"
# verifies face-15.b00f
check $? "a line of progress per interval" "$err"
expect 0 'valid, state digest '"$whole" verify "$work/a"
expect 0 "\"step\": 12, \"valid\": true, \"state_digest\": \"$whole\"" verify "$work/a" --json
expect 0 '"step": 5, "valid": true' verify "$work/a/checkpoint-5" --json

# verifies run-10.e313
# The same run in pieces, by other threads, kernels, checkpoint policies, is the same run.
pieces=(train "${common[@]}" --output-dir "$work/b" --max-steps 12 --resume --json --quiet)
expect 0 'no checkpoint to resume from' "${pieces[@]}" --stop-at-step 3
expect 0 '"steps": 3' "${pieces[@]}" --stop-at-step 2
expect 0 '"steps": 7' "${pieces[@]}" --stop-at-step 7 --threads 1 --gradient-checkpointing full
expect 0 'may differ' "${pieces[@]}" --stop-at-step 9 --kernels portable --gradient-checkpointing memory-poor
run "${pieces[@]}" --gradient-checkpointing every:2 --threads 5 --poison
[[ $(json state_digest) == "$whole" ]]
check $? "stopped at 3, 7 and 9 and resumed: the same bits" "$out $err"
[[ -z $(grep step <<<"$err") ]]
check $? "--quiet leaves no progress" "$err"
cmp -s "$work/a/model.safetensors" "$work/b/model.safetensors"
check $? "the same model file"
expect 0 "$whole" "${pieces[@]}"

# verifies face-14.7a86
# A damaged checkpoint is named and passed over.
printf 'X' | dd of="$work/b/checkpoint-12/state.safetensors" bs=1 seek=9000 conv=notrunc status=none
expect 4 'checkpoint-12' verify "$work/b/checkpoint-12"
expect 4 '"valid": false' verify "$work/b/checkpoint-12" --json
run "${pieces[@]}"
grep -q 'checkpoint-12.*damaged and is passed over' <<<"$err" && [[ $(json state_digest) == "$whole" ]]
check $? "resumes from the one before a damaged checkpoint" "$out $err"

# verifies face-12.4b01
# Signals: the step is finished, the state saved, the code is the signal's.
for signal in TERM:143 INT:130; do
    dir=$work/${signal%:*}
    # Through a subshell of its own: bash lets background jobs ignore SIGINT.
    (
        trap - INT
        exec "$program" train "${common[@]}" --output-dir "$dir" --max-steps 1000000 --logging-steps 1
    ) >"$work/.out" 2>"$work/.err" &
    job=$!
    wait_for 120 'grep -q ^step "$work/.err"' $job
    kill -"${signal%:*}" $job
    wait $job
    [[ $? -eq ${signal#*:} ]]
    check $? "SIG${signal%:*} ends with ${signal#*:}" "$(tail -3 "$work/.err")"
    expect 0 'valid, state digest' verify "$dir"
done

# Old checkpoints go, the newest stay.
run train "${common[@]}" --output-dir "$work/d" --max-steps 9 --save-steps 2 --save-total-limit 2 --quiet
[[ $(ls -d "$work"/d/checkpoint-* | sort | tr '\n' ' ') == "$work/d/checkpoint-8 $work/d/checkpoint-9 " ]]
check $? "--save-total-limit 2" "$(ls "$work/d")"

# Epochs; and a validation split is not trained on.
run train "${common[@]}" --output-dir "$work/e" --num-train-epochs 0.02 --validation-split 0.25 --quiet
bytes=$(stat -c %s "$work/text")
held=$((bytes / 4))
grep -q "loss .* over $(printf "%'d" $((held - 1)) | tr -d '\n')\|eval loss" <<<"$out"
check $? "a split is evaluated at the end" "$out"
expect 0 "\"tokens\": $((held - 1))," eval --model "$work/e" --data "$work/text" --validation-split 0.25 \
    --max-seq-length 16 --json

# The trained model is a model directory; a checkpoint is one too.
run eval --model "$work/a" --data "$work/held" --max-seq-length 16 --json
seconds_add_up 0 eval
mine=$(json loss)
run eval --model "$work/a/checkpoint-12" --data "$work/held" --max-seq-length 16 --json
[[ -n $mine && $mine == "$(json loss)" ]]
check $? "evaluation of the model and of its checkpoint agree"
expect 0 'nats per token' eval --model tiny --data "$work/held"
run generate --model "$work/a" --prompt-ids 49,32,98 --max-new-tokens 2 --json
seconds_add_up 0 generate
greedy=(generate --model "$work/a" --prompt-ids 49,32,98 --max-new-tokens 20 --temperature 0)
run "${greedy[@]}"
first=$out
[[ $(wc -w <<<"$first") -eq 20 ]]
check $? "20 ids" "$out"
run "${greedy[@]}" --seed 7 --kernels portable --threads 1
[[ $out == "$first" ]]
check $? "greedy text does not depend on the seed or the kernels" "$out / $first"
run generate --model "$work/a" --prompt "1 b" --max-new-tokens 20 --temperature 0 --output-ids
[[ $out == "$first" ]]
check $? "a text prompt and its ids are the same" "$out / $first"
run generate --model "$work/a" --prompt "1 b" --max-new-tokens 20 --temperature 1 --top-k 1 --output-ids
[[ $out == "$first" ]]
check $? "top-k 1 is greedy" "$out / $first"
run generate --model "$work/a" --prompt "1 b" --max-new-tokens 30 --seed 1 --output-ids
one=$out
run generate --model "$work/a" --prompt "1 b" --max-new-tokens 30 --seed 1 --output-ids
[[ $out == "$one" ]]
check $? "the same seed, the same text"
run generate --model "$work/a" --prompt "1 b" --max-new-tokens 30 --seed 2 --output-ids
[[ $out != "$one" ]]
check $? "another seed, another text"
expect 0 '"tokens": 5,.*"ids": \[[0-9]+, ' generate --model "$work/a" --prompt x --max-new-tokens 5 --json

# Fine-tuning begins with the directory's weights.
run train --model "$work/a" --data "$work/held" --output-dir "$work/f" --max-steps 0 --quiet \
    --max-seq-length 16 --per-device-train-batch-size 2
cmp -s "$work/a/model.safetensors" "$work/f/model.safetensors"
check $? "no step leaves the weights as they came" "$err"

# verifies face-9.24ea
# Training that explodes stops, and the weights are kept.
expect 5 'is not finite; the weights are those before it' train "${common[@]}" --learning-rate 900 --weight-decay 900 \
    --lr-scheduler-type constant --max-steps 40 --output-dir "$work/g" --quiet
expect 0 'valid' verify "$work/g"
# They are the weights whose loss was not finite, and eval says so.
expect 5 'the loss is not finite' eval --model "$(ls -d "$work"/g/checkpoint-*)" --data "$work/held" --max-seq-length 16
finish
