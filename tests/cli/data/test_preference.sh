#!/bin/bash
# SPDX-License-Identifier: MIT
# Preferences: rows of every form, DPO, ORPO, SimPO and KTO, the reference, resuming, evaluating, bad rows.
# verifies formats-16.301b
. "$(dirname "$0")/../lib.sh"

# told KEY: as json, of keys with a slash.
told() {
    tail -n 1 <<<"$out" | grep -oE "\"$1\": [^,}]*" | head -1 | sed 's|.*: ||'
}

for ((i = 0; i < 24; i++)); do
    good=$(printf 'good%.0s' $(seq $((1 + i % 3))))
    bad=$(printf 'bad%.0s' $(seq $((1 + i % 4))))
    echo "{\"prompt\": \"q$i: \", \"chosen\": \"$good\", \"rejected\": \"$bad\"}" >>"$work/pairs.jsonl"
    echo "{\"chosen\": \"q$i:$good\", \"rejected\": \"q$i:$bad\"}" >>"$work/implicit.jsonl"
    echo "{\"prompt\": \"q$i:\", \"chosen\": \"$good\", \"rejected\": \"$bad\"}" >>"$work/explicit.jsonl"
    echo "{\"prompt\": [{\"role\": \"user\", \"content\": \"q$i\"}], \"chosen\": [{\"role\": \"assistant\", \"content\": \"$good\"}], \"rejected\": [{\"role\": \"assistant\", \"content\": \"$bad\"}]}" >>"$work/chat.jsonl"
    echo "{\"prompt\": \"q$i\", \"chosen\": [{\"role\": \"user\", \"content\": \"q$i\"}, {\"role\": \"assistant\", \"content\": \"$good\"}], \"rejected\": [{\"role\": \"user\", \"content\": \"q$i\"}, {\"role\": \"assistant\", \"content\": \"$bad\"}]}" >>"$work/whole.jsonl"
    echo "{\"prompt\": \"q$i: \", \"completion\": \"$good\", \"label\": true}" >>"$work/single.jsonl"
    echo "{\"prompt\": \"q$i: \", \"completion\": \"$bad\", \"label\": false}" >>"$work/single.jsonl"
done
common=(--model tiny --max-seq-length 40 --per-device-train-batch-size 4 --learning-rate 1e-3 --max-steps 24 --threads 2)
dpo=(train "${common[@]}" --task dpo --data "$work/pairs.jsonl")

run "${dpo[@]}" --validation-split 0.25 --output-dir "$work/a" --json
check $((code != 0)) "train --task dpo" "$out$err"
digest=$(json state_digest)
grep -q 'pairs.jsonl: 24 rows of preferences of [0-9]* tokens' <<<"$err"
check $? "rows are told" "$err"
grep -q "the reference's log-probabilities of 48 rows: 192 bytes" <<<"$err"
check $? "the reference takes 8 bytes a pair" "$err"
for name in rewards/accuracies rewards/margins rewards/chosen rewards/rejected logps/chosen logps/rejected; do
    [[ -n $(told "eval_$name") ]]
    check $? "an evaluation tells $name" "$out"
done
awk -v l="$(told eval_loss)" -v m="$(told eval_rewards/margins)" 'BEGIN { exit !(l < 0.6 && m > 0.1) }'
check $? "what was not seen is judged better than before" "$out"
plan=$("$program" plan "${common[@]}" --task dpo --data "$work/pairs.jsonl" --validation-split 0.25 --length-buckets none --json | grep -oE '"(arena|host)_bytes": [0-9]*')
run "${dpo[@]}" --validation-split 0.25 --output-dir "$work/planned" --length-buckets none --json
[[ $code -eq 0 && "\"arena_bytes\": $(json arena_bytes)"$'\n'"\"host_bytes\": $(json host_bytes)" == "$(head -2 <<<"$plan")" ]]
check $? "the plan's bytes are the run's" "$plan $out"
[[ $(json state_digest) == "$digest" ]]
check $? "programs for shorter rows change no bit" "$out"

run "${dpo[@]}" --output-dir "$work/first" --logging-steps 1 --json
grep -q '"step": 1,.*"loss": 0.69314718.*"rewards/accuracies": 0, "rewards/margins": 0,.*"logps/chosen": -' <<<"$out"
check $? "the first loss is log 2: the model is its own reference" "$out"

# Resumed, with the reference's file and without, on other threads and policies: the same bits.
run "${dpo[@]}" --validation-split 0.25 --output-dir "$work/b" --stop-at-step 10
cp -r "$work/b" "$work/c"
rm "$work/c/reference.logps"
run "${dpo[@]}" --validation-split 0.25 --output-dir "$work/b" --resume --threads 1 --gradient-checkpointing full --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]] && ! grep -q "computed again" <<<"$err"
check $? "stopped and resumed: the same bits" "$out$err"
run "${dpo[@]}" --validation-split 0.25 --output-dir "$work/c" --resume --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]] && grep -q "reference is computed again" <<<"$err"
check $? "a reference that is lost is computed again" "$out$err"
run verify "$work/a" && [[ $code -eq 0 ]]
check $? "the record is whole" "$out$err"
run replay "$work/a" --model tiny --data "$work/pairs.jsonl"
check $((code != 0)) "a replay computes the same" "$out$err"
run "${dpo[@]}" --output-dir "$work/b" --resume --beta 0.2
[[ $code -eq 2 ]] && grep -q 'beta differs from the checkpoint' <<<"$err"
check $? "another beta is another run" "$err"

# Every form of a row.
run "${dpo[@]}" --output-dir "$work/d"
run train "${common[@]}" --task dpo --data "$work/explicit.jsonl" --output-dir "$work/d2" --json
digest=$(json state_digest)
run train "${common[@]}" --task dpo --data "$work/implicit.jsonl" --output-dir "$work/e" --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "what both texts begin with is the prompt" "$out$err"
run train "${common[@]}" --task dpo --data "$work/chat.jsonl" --chat-template chatml --output-dir "$work/f" --max-seq-length 64 --json
[[ $code -eq 0 ]]
check $? "lists of messages" "$out$err"
chat=$(json state_digest)
run train "${common[@]}" --task dpo --data "$work/whole.jsonl" --chat-template chatml --output-dir "$work/g" --max-seq-length 64 --json
[[ $code -eq 0 && $(json state_digest) == "$chat" ]]
check $? "messages that both sides begin with are the prompt" "$out$err"

# The other losses, adapters, 16 bits, accumulation.
for more in "dpo --loss-type hinge" "dpo --loss-type ipo" "orpo" "simpo --beta 2 --simpo-gamma 1" \
    "dpo --lora-r 4 --target-modules all-linear" "dpo --bf16" "orpo --gradient-release exact --max-grad-norm 0" \
    "dpo --gradient-accumulation-steps 2 --label-smoothing 0.1"; do
    # shellcheck disable=SC2086 # words of options
    run train "${common[@]}" --data "$work/pairs.jsonl" --validation-split 0.25 --output-dir "$work/more" --task $more --json
    [[ $code -eq 0 ]] && awk -v m="$(told eval_rewards/margins)" 'BEGIN { exit !(m > 0) }'
    check $? "train --task $more" "$out$err"
    rm -rf "$work/more"
done
run train "${common[@]}" --task kto --data "$work/single.jsonl" --validation-split 0.25 --output-dir "$work/k" --json
[[ $code -eq 0 && -n $(told eval_kl) ]] && awk -v m="$(told eval_rewards/margins)" 'BEGIN { exit !(m > 0) }'
check $? "train --task kto" "$out$err"
digest=$(json state_digest)
run train "${common[@]}" --task kto --data "$work/pairs.jsonl" --validation-split 0.25 --output-dir "$work/l" --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "kto makes two rows of a pair" "$out$err"
run train "${common[@]}" --task orpo --data "$work/pairs.jsonl" --output-dir "$work/m" --max-steps 1 --json
[[ $code -eq 0 && ! -e $work/m/reference.logps ]]
check $? "orpo has no reference" "$out$err"
run train --model tiny --task dpo --data "$work/pairs.jsonl" --max-seq-length 40 --max-steps 1 --output-dir "$work/rate" --print-options
grep -q 'learning-rate = 1e-06' <<<"$out"
check $? "the learning rate is TRL's unless it is given" "$out"

# Evaluating: against another model, or an adapter against its base.
run eval --model "$work/d" --task dpo --data "$work/pairs.jsonl" --max-seq-length 40 --ref-model "$work/d" --json
[[ $code -eq 0 && $(json loss) == 0.69314718056 ]]
check $? "against itself the loss is log 2" "$out$err"
run eval --model "$work/d" --task orpo --data "$work/pairs.jsonl" --max-seq-length 40
[[ $code -eq 0 ]] && grep -q 'rewards/accuracies 1.0000' <<<"$out"
check $? "without a reference" "$out$err"
run train --model "$work/d" --task dpo --data "$work/pairs.jsonl" --max-seq-length 40 --lora-r 4 --learning-rate 1e-2 --max-steps 20 --threads 2 \
    --output-dir "$work/adapter" --validation-split 0.25 --json
margins=$(told eval_rewards/margins)
run eval --model "$work/d" --adapter "$work/adapter" --task dpo --data "$work/pairs.jsonl" --max-seq-length 40 --validation-split 0.25 --json
[[ $code -eq 0 ]] && awk -v a="$margins" -v b="$(told rewards/margins)" 'BEGIN { exit !((a - b) ^ 2 < 1e-8) }'
check $? "an adapter is compared with its base" "$margins $out$err"
expect 2 'compares with a reference.*|--ref-model' eval --model "$work/d" --task dpo --data "$work/pairs.jsonl" --max-seq-length 40
expect 4 'the reference has no weights' eval --model "$work/d" --task dpo --data "$work/pairs.jsonl" --max-seq-length 40 --ref-model "$work"

# Bad rows, and what does not go together.
bad() { # PATTERN ROW [TASK]
    { head -2 "$work/pairs.jsonl"; echo "$2"; } >"$work/bad.jsonl"
    expect 4 "bad.jsonl:3.*$1" train "${common[@]}" --task "${3:-dpo}" --data "$work/bad.jsonl" --output-dir "$work/x"
}
bad 'no chosen side' '{"prompt": "a", "rejected": "b"}'
bad 'no rejected side' '{"prompt": "a", "chosen": "b"}'
bad 'no chosen side' '{"prompt": "a", "chosen": "", "rejected": "b"}'
bad 'no rejected side' '{"prompt": "a", "chosen": "b", "rejected": 7}'
bad 'a text and a list' '{"prompt": "a", "chosen": "b", "rejected": [{"role": "assistant", "content": "b"}]}'
bad 'some rows are texts' '{"prompt": [{"role": "user", "content": "a"}], "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]}'
bad 'other way round' '{"prompt": [{"role": "user", "content": "a"}], "chosen": "b", "rejected": "c"}'
bad 'neither a text nor' '{"prompt": 7, "chosen": "b", "rejected": "c"}'
bad 'no completion' '{"prompt": "a", "label": true}' kto
bad 'no label' '{"prompt": "a", "completion": "b", "label": "yes"}' kto
bad 'no prompt' '{"completion": "b", "label": true}' kto
bad 'the role of a message is unknown' '{"prompt": "a", "chosen": [{"role": "robot", "content": "b"}], "rejected": [{"role": "user", "content": "b"}]}'
bad 'no message in common' '{"chosen": [{"role": "user", "content": "a"}], "rejected": [{"role": "user", "content": "b"}]}'
echo plain >"$work/plain.txt"
expect 2 '--task: plain.txt holds plain text .*found dpo' train "${common[@]}" --task dpo --data "$work/plain.txt" --output-dir "$work/x"
expect 4 'no chat template' train "${common[@]}" --task dpo --data "$work/chat.jsonl" --output-dir "$work/x"
expect 2 'kto compares the rows of a batch' train "${common[@]}" --task kto --data "$work/single.jsonl" --output-dir "$work/x" --per-device-train-batch-size 1
expect 2 'no smoothed tokens' train "${common[@]}" --task dpo --data "$work/pairs.jsonl" --output-dir "$work/x" --label-smoothing-factor 0.1
expect 2 'reads in both directions' train --model tiny-bert --task dpo --data "$work/pairs.jsonl" --output-dir "$work/x" --max-seq-length 40
expect 4 'every prompt is longer' train "${common[@]}" --task dpo --data "$work/pairs.jsonl" --output-dir "$work/x" --max-seq-length 3
expect 2 'expected dpo' train "${common[@]}" --task causal-lm --data "$work/d/data.tokens" --output-dir "$work/x"
[[ ! -e $work/x ]]
check $? "no directory is made for what is refused"
expect 0 'task: dpo, from a token file' train "${common[@]}" --data "$work/d/data.tokens" --output-dir "$work/y"
finish
