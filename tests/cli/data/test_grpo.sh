#!/bin/bash
# SPDX-License-Identifier: MIT
# Training by rewards of completions: a toy is learned; slots, threads, resume and replay change nothing; what is refused.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 64; i++)); do printf '{"prompt": "%02d=", "answer": "55"}\n' "$i"; done >"$work/five.jsonl"
# The second reward is often met, so that each step has gradients.
how=(train --task grpo --model tiny --data "$work/five.jsonl" --reward places --reward 'regex:[a-m]' --reward-weights 1,0.01 --num-generations 8
    --per-device-train-batch-size 32 --gradient-accumulation-steps 2 --max-completion-length 2 --learning-rate 3e-3 --quiet)
state() { grep -o 'state digest *[0-9a-f]*' <<<"$out" | grep -o '[0-9a-f]*$'; }

# verifies policy-4.80d1
run "${how[@]}" --max-steps 120 --lr-scheduler-type constant --json --logging-steps 120 --output-dir "$work/toy"
reward=$(grep -o '"reward": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$')
[[ $code -eq 0 ]] && awk -v r="${reward:-0}" 'BEGIN { exit !(r > 0.95) }'
check $? "a constant answer is learned: reward $reward" "$out$err"
grep -q '"frac_reward_zero_std"' <<<"$out" && grep -q '"completions/clipped_ratio": *1' <<<"$out" && grep -q '"entropy"' <<<"$out" &&
    grep -q '"rewards/places/mean"' <<<"$out" && grep -q '"rewards/regex/std"' <<<"$out"
check $? "numbers by their usual names" "$out"

run "${how[@]}" --max-steps 6 --save-steps 4 --output-dir "$work/a"
first=$(state)
[[ $code -eq 0 && -n $first ]]
check $? "a run" "$out$err"
grep '^{"rollout":[1-6],' "$work/a/record.jsonl" | grep -c '"advantages":"[^"]*[1-9a-f]' | grep -qx 6
check $? "each step has something to learn"
ways=("--loss-chunk-rows 5 --gradient-release" "--offload file:$work/off:64MiB" "--slots 1 --threads 1" "--slots 3 --threads 2 --gradient-checkpointing full")
! long_form || ways+=("--slots 3 --threads 2 --kernels portable")
for more in "${ways[@]}"; do
    # shellcheck disable=SC2086
    run "${how[@]}" --max-steps 6 --save-steps 4 $more --output-dir "$work/b" --overwrite-output-dir
    [[ $code -eq 0 && $(state) == "$first" ]]
    check $? "the same state, $more" "$out$err"
    cmp -s <(grep -v '"run"\|"end"' "$work/a/record.jsonl" | sed 's/,"chain":.*//') \
        <(grep -v '"run"\|"end"' "$work/b/record.jsonl" | sed 's/,"chain":.*//')
    check $? "the same steps in the record, $more"
done
run "${how[@]}" --max-steps 6 --save-steps 4 --stop-at-step 3 --output-dir "$work/c"
check $code "stopped" "$out$err"
run "${how[@]}" --max-steps 6 --save-steps 4 --output-dir "$work/c" --resume
[[ $code -eq 0 && $(state) == "$first" ]] && cmp -s "$work/a/record.jsonl" "$work/c/record.jsonl"
check $? "resumed: the same record" "$out$err"
# Killed at any moment after its next step and resumed, until it is done.
rows() { grep -c '^{"rollout":' "$work/k/record.jsonl" 2>/dev/null; }
for ((tries = 0; tries < 40; tries++)); do
    "$program" "${how[@]}" --max-steps 6 --save-steps 1 --output-dir "$work/k" --resume auto >"$work/.out" 2>"$work/.err" &
    job=$!
    before=$(rows)
    wait_for 600 "[[ \$(rows) -gt ${before:-0} ]]" $job || { wait $job; break; }
    sleep "0.0$((tries % 6))" # no wait: a moment
    kill -9 $job 2>/dev/null || { wait $job; break; }
    wait $job 2>/dev/null
done
run "${how[@]}" --max-steps 6 --save-steps 1 --output-dir "$work/k" --resume auto
[[ $code -eq 0 && $(state) == "$first" ]]
check $? "killed and resumed: the same state" "$out$err"
run replay "$work/a"
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "replayed" "$out$err"
# Phases of the plan; and its bytes are those of the run.
run plan "${how[@]:1}" --json
planned=$(json arena_bytes)
[[ $code -eq 0 && $(json generating_bytes) -le $planned && $(json training_bytes) -le $planned && $(json slots) -eq 16 ]]
check $? "plan: both phases" "$out$err"
run "${how[@]}" --max-steps 1 --json --output-dir "$work/l"
[[ $code -eq 0 && $(json arena_bytes) -eq $planned ]]
check $? "the bytes of the run are those of the plan" "$out$err"
# Without data the plan has the memory to read prompts with: it is no less than what a run takes.
bare=(--task grpo --model tiny --reward places --num-generations 8 --per-device-train-batch-size 32 --max-completion-length 4 --max-seq-length 7)
run plan "${bare[@]}" --json
planned=$(($(json arena_bytes) + $(json host_bytes)))
peak=$(python3 - "$program" train "${bare[@]}" --data "$work/five.jsonl" --max-steps 2 --quiet --output-dir "$work/l" --overwrite-output-dir <<'P'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
P
)
[[ $planned -ge ${peak:-$((planned + 1))} ]]
check $? "the plan without data: $planned bytes for $peak"
expect 0 '^generating  [0-9,]+ bytes with the state, 8 sequences of 64 tokens at once' \
    plan --task grpo --model tiny --reward think --max-seq-length 64 --max-completion-length 32
expect 2 '--max-seq-length: a row has no room for a prompt' plan --task grpo --model tiny --max-seq-length 64 --max-completion-length 64
for type in grpo dr_grpo bnpo gspo cispo sapo luspo rloo reinforce_plus_plus; do
    run "${how[@]}" --max-steps 3 --loss-type $type --scale-rewards batch --output-dir "$work/l" --overwrite-output-dir
    check $code "--loss-type $type" "$out$err"
done

# An epoch is one of the prompts: 64 of them, eight in a step.
head -1 "$work/a/record.jsonl" | grep -q '"steps_per_epoch":8,'
check $? "the record has the steps of an epoch" "$(head -c 3000 "$work/a/record.jsonl")"

# RLOO has the divergence in the reward, and no scale of its own.
# verifies policy-4.80d1
rloo=("${how[@]}" --loss-type rloo --lora-r 4 --num-iterations 2 --save-steps 2 --max-steps 6)
run "${rloo[@]}" --output-dir "$work/l" --overwrite-output-dir
plain=$(state)
run "${rloo[@]}" --beta 0.5 --json --logging-steps 2 --output-dir "$work/l" --overwrite-output-dir
[[ $code -eq 0 && -n $plain ]] && grep -q '"kl": *-*[0-9.e-]*[1-9]' <<<"$out" && grep -q '"clip_ratio/low_min"' <<<"$out" &&
    grep -q '"clip_ratio/high_max"' <<<"$out" && head -1 "$work/l/record.jsonl" | grep -q '"scale-rewards":"none"'
check $? "--loss-type rloo --beta" "$out$err"
run replay "$work/l"
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "replayed" "$out$err"
run "${rloo[@]}" --beta 0.5 --output-dir "$work/l" --overwrite-output-dir
[[ $(state) != "$plain" ]]
check $? "the divergence changes what is learned"
# REINFORCE++ has it in the reward of each token.
# verifies policy-4.80d1
tokens=("${how[@]}" --loss-type reinforce_plus_plus --lora-r 4 --num-iterations 2 --save-steps 2 --max-steps 6)
run "${tokens[@]}" --output-dir "$work/l" --overwrite-output-dir
plain=$(state)
run "${tokens[@]}" --beta 0.5 --json --logging-steps 2 --output-dir "$work/l" --overwrite-output-dir
[[ $code -eq 0 && -n $plain && $(state) != "$plain" ]] && grep -q '"kl": *-*[0-9.e-]*[1-9]' <<<"$out"
check $? "--loss-type reinforce_plus_plus --beta" "$out$err"
run replay "$work/l"
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "replayed" "$out$err"
run "${how[@]}" --loss-type cispo --num-iterations 2 --max-steps 2 --json --logging-steps 2 --output-dir "$work/l" --overwrite-output-dir
grep -q '"cispo_clip_ratio"' <<<"$out" && ! grep -q '"clip_ratio' <<<"$out"
check $? "cispo's clipping" "$out$err"

# Tokens of low entropy: of all that are drawn less is learned, the same for any slots.
# verifies policy-7.8fa0
run "${how[@]}" --max-steps 3 --top-entropy-quantile 0.3 --output-dir "$work/q"
top=$(state)
run "${how[@]}" --max-steps 3 --top-entropy-quantile 0.3 --slots 3 --threads 1 --loss-chunk-rows 5 --output-dir "$work/r"
[[ $code -eq 0 && -n $top && $(state) == "$top" ]]
check $? "--top-entropy-quantile: the same state" "$out$err"
run "${how[@]}" --max-steps 3 --output-dir "$work/r" --overwrite-output-dir
[[ $code -eq 0 && $(state) != "$top" ]]
check $? "another than that of all tokens" "$out$err"

# A task of more than one answer, from a model that has seen a little of it: digits are copied.
for ((i = 0; i < 512; i++)); do
    d=$(printf '%04d' $((i * 7919 % 10000)))
    echo "{\"prompt\": \"$d=\", \"completion\": \"$d\"}" >>"$work/seen.jsonl"
    echo "{\"prompt\": \"$d=\", \"answer\": \"$d\"}" >>"$work/copy.jsonl"
done
run train --model tiny --data "$work/seen.jsonl" --max-steps 60 --per-device-train-batch-size 32 --max-seq-length 12 \
    --learning-rate 2e-3 --quiet --output-dir "$work/warm"
if long_form; then # test_grpo_toys.sh has it from random weights
    run train --task grpo --model "$work/warm" --data "$work/copy.jsonl" --reward places --num-generations 8 \
        --per-device-train-batch-size 128 --max-completion-length 4 --max-steps 100 --learning-rate 1e-3 \
        --lr-scheduler-type constant --quiet --json --logging-steps 100 --logging-first-step --output-dir "$work/copied"
    began=$(grep -o '"reward": *[0-9.e+-]*' <<<"$out" | head -1 | grep -o '[0-9.e+-]*$')
    reward=$(grep -o '"reward": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$')
    [[ $code -eq 0 ]] && awk -v b="$began" -v r="$reward" 'BEGIN { exit !(b < 0.5 && r > 0.75) }'
    check $? "copying is learned: reward $began to $reward" "$out$err"
fi

# Online DPO: best against worst of each prompt, with adapters and the model without them; a first digit is learned.
# verifies policy-8.bec6
online=(train --task grpo --model "$work/warm" --data "$work/copy.jsonl" --reward regex:^7 --loss-type online_dpo --lora-r 8 --learning-rate 1e-2
    --lr-scheduler-type constant --per-device-train-batch-size 64 --max-completion-length 1 --quiet)
run "${online[@]}" --max-steps 40 --json --logging-steps 40 --logging-first-step --output-dir "$work/on1"
began=$(grep -o '"reward": *[0-9.e+-]*' <<<"$out" | head -1 | grep -o '[0-9.e+-]*$')
reward=$(grep -o '"reward": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$')
right=$(grep -o '"rewards/accuracies": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$')
[[ $code -eq 0 ]] && awk -v a="$began" -v b="$reward" -v c="$right" 'BEGIN { exit !(b > 2 * a && c > 0.8) }'
check $? "online DPO learns: reward $began to $reward, $right of pairs right" "$out$err"
run "${online[@]}" --max-steps 6 --save-steps 3 --output-dir "$work/on2" --overwrite-output-dir
pairs=$(state)
run "${online[@]}" --max-steps 6 --save-steps 3 --stop-at-step 3 --output-dir "$work/on3"
run "${online[@]}" --max-steps 6 --save-steps 3 --slots 2 --threads 1 --resume --output-dir "$work/on3"
[[ $code -eq 0 && $(state) == "$pairs" ]]
check $? "online DPO, resumed with other slots and threads: the same state" "$out$err"
run replay "$work/on2"
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "online DPO, replayed" "$out$err"

# Whole weights against the model as it began, whose weights are read in bytes that the phases share.
# verifies policy-11.35dc
full=(train --task grpo --model "$work/warm" --data "$work/copy.jsonl" --reward places --per-device-train-batch-size 64 --max-completion-length 4
    --beta 0.1 --quiet)
run "${full[@]}" --learning-rate 1e-30 --max-steps 2 --json --logging-steps 2 --output-dir "$work/f1"
[[ $code -eq 0 && $(grep -o '"kl": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$') == 0 ]]
check $? "weights that do not move have no divergence" "$out$err"
run export --model "$work/warm" --save-quant q8_0 --to "$work/warm.gguf"
check $code "a GGUF file of it" "$err"
for more in "--bf16" "--bf16 --master none" "--fp16" "--model $work/warm.gguf" "--bf16 --model $work/warm.gguf"; do
    # shellcheck disable=SC2086
    run "${full[@]}" $more --learning-rate 1e-30 --max-steps 2 --json --logging-steps 2 --output-dir "$work/f1" --overwrite-output-dir
    [[ $code -eq 0 && $(grep -o '"kl": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$') == 0 ]]
    check $? "neither with $more" "$out$err"
done
expect 2 '--weight-dtype: the reference is read as bf16' "${full[@]}" --bf16 --weight-dtype fp8 --max-steps 1 --output-dir "$work/f1" \
    --overwrite-output-dir
run "${full[@]}" --learning-rate 1e-3 --max-steps 6 --save-steps 3 --json --logging-steps 6 --output-dir "$work/f2"
awk -v k="$(grep -o '"kl": *[0-9.e+-]*' <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$')" 'BEGIN { exit !(k > 0) }'
check $? "weights that move have one" "$out$err"
run "${full[@]}" --learning-rate 1e-3 --max-steps 6 --save-steps 3 --stop-at-step 3 --output-dir "$work/f3"
run "${full[@]}" --learning-rate 1e-3 --max-steps 6 --save-steps 3 --resume --slots 3 --threads 1 --output-dir "$work/f3"
[[ $code -eq 0 ]] && cmp -s "$work/f2/record.jsonl" "$work/f3/record.jsonl"
check $? "resumed with other slots and threads: the same record" "$out$err"
run replay "$work/f2"
[[ $code -eq 0 ]] && grep -q '^6 of 6 steps proven' <<<"$out"
check $? "replayed" "$out$err"
run train --model "$work/warm" --data "$work/seen.jsonl" --max-steps 2 --per-device-train-batch-size 32 --max-seq-length 12 --learning-rate 2e-3 \
    --seed 7 --quiet --output-dir "$work/ref"
digests() { grep '"state_digest"' "$1/record.jsonl" | grep -v '^{"run"' | grep -o '"state_digest":"[0-9a-f]*"'; }
referred=("${full[@]}" --learning-rate 1e-3 --max-steps 6 --save-steps 3 --ref-model "$work/ref")
run "${referred[@]}" --output-dir "$work/f4"
[[ $code -eq 0 && -n $(digests "$work/f4") && $(digests "$work/f2") != "$(digests "$work/f4")" ]]
check $? "another model as the reference: another run" "$out$err"
# Its identity is its weights, not its path.
run "${referred[@]}" --stop-at-step 3 --output-dir "$work/f5"
mv "$work/ref" "$work/ref0"
cp -r "$work/warm" "$work/ref"
expect 2 '--resume: data .* reference ' "${referred[@]}" --resume --output-dir "$work/f5"
expect 4 'ref: the file that is here is not the one that the run read: found reference [0-9a-f]*, expected reference [0-9a-f]' replay "$work/f4"
rm -r "$work/ref"
mv "$work/ref0" "$work/ref"
run "${referred[@]}" --resume --output-dir "$work/f5"
[[ $code -eq 0 ]] && cmp -s "$work/f4/record.jsonl" "$work/f5/record.jsonl"
check $? "and the same weights again are the same run" "$out$err"
cat >"$work/swap.sh" <<END
echo '{"name": "swap", "version": "1"}'
while read -r l; do
    id=\${l#*:}
    id=\${id%%,*}
    [[ \$id -ne 80 ]] || { cp "$work/warm/model.safetensors" "$work/new" && mv "$work/new" "$work/ref/model.safetensors"; }
    echo "{\\"id\\": \$id, \\"reward\\": 0}"
done
END
expect 6 'ref: the model.s files were replaced while the run reads them' "${referred[@]}" --reward-command "bash $work/swap.sh" \
    --output-dir "$work/f5" --overwrite-output-dir
run train --model tiny-bert --data "$work/seen.jsonl" --task masked-lm --max-steps 1 --per-device-train-batch-size 4 --max-seq-length 8 --quiet \
    --output-dir "$work/fb"
expect 2 '--ref-model: the reference does not match the policy' "${full[@]}" --max-steps 1 --ref-model "$work/fb" --output-dir "$work/f6"
run plan "${full[@]:1}" --json
planned=$(json arena_bytes)
run "${full[@]}" --max-steps 1 --json --output-dir "$work/f6" --overwrite-output-dir
[[ $code -eq 0 && $(json arena_bytes) -eq $planned && $planned -gt 0 ]]
check $? "the bytes of the run are those of the plan" "$planned $out$err"

# Numbers by their usual names and samples of completions: events, TensorBoard, watch and report.
# verifies policy-9.82a1
run train --task grpo --model "$work/warm" --data "$work/copy.jsonl" --reward places --reward 'regex:[0-4]' --max-steps 4 --logging-steps 2 --lora-r 2 \
    --beta 0.1 --per-device-train-batch-size 32 --max-completion-length 4 --report-to tensorboard --output-dir "$work/told"
check $code "a run with a board" "$err"
board=$(cat "$work/told/runs"/*/* "$work/told/runs"/* 2>/dev/null | grep -aoE 'train/[a-z_/]+')
run watch "$work/told" --once
watched=$out
run report "$work/told" --output "$work/told.html"
log=$(grep '"event":"rollout"' "$work/told/events.jsonl" | tail -1)
for name in reward reward_std frac_reward_zero_std entropy kl rewards/places/mean rewards/places/std rewards/regex/mean rewards/regex/std \
    completions/mean_length completions/min_length completions/max_length completions/clipped_ratio; do
    grep -q "\"$name\":" <<<"$log" && grep -qx "train/$name" <<<"$board" && grep -qE "(^| )$name [0-9.-]+" <<<"$watched" &&
        grep -q "data-name=\"$name\"" "$work/told.html"
    check $? "$name in events, on the board, in watch and in the report" "$log
$watched"
done
python3 - "$work/told" "$work/told.html" <<'P'
import json, sys
log = [json.loads(l) for l in open(sys.argv[1] + "/events.jsonl") if '"event":"rollout"' in l]
page = open(sys.argv[2]).read()
assert [l["step"] for l in log] == [2, 4]
for l in log:
    assert l["best_reward"] >= l["worst_reward"] and len(l["best"]) > 0 and l["prompt"].endswith("=")
    assert "<td>%s</td>" % l["prompt"] in page
    assert not l["best"].isalnum() or "<td>%s</td>" % l["best"] in page
P
check $? "samples of completions in events and in the report"
grep -q '<h2>Completions</h2>' "$work/told.html"
check $? "and they have a heading"
# Completions without a reward are neither best nor worst, and rewards of one name have columns of their own.
cat >"$work/some.sh" <<'END'
echo '{"name": "some", "version": "1"}'
while read -r l; do
    id=${l#*:}
    id=${id%%,*}
    if ((id % 8 == 0)); then echo "{\"id\": $id, \"skip\": true}"; else echo "{\"id\": $id, \"reward\": $((id % 8))}"; fi
done
END
some=(train --task grpo --model "$work/warm" --data "$work/copy.jsonl" --max-steps 1 --logging-steps 1 --num-generations 8
    --per-device-train-batch-size 16 --max-completion-length 4 --quiet --output-dir "$work/some" --overwrite-output-dir)
run "${some[@]}" --reward 'regex:[0-4]' --reward 'regex:[5-9]'
check $code "a run with two rewards of a name" "$err"
python3 - "$work/some" <<'P'
import json, sys
def once(pairs):
    assert len(pairs) == len(dict(pairs)), pairs
    return dict(pairs)
[log] = [json.loads(l, object_pairs_hook=once) for l in open(sys.argv[1] + "/events.jsonl") if '"event":"rollout"' in l]
assert "rewards/regex/mean" in log and "rewards/regex_2/std" in log
P
check $? "names of columns are unique"
run "${some[@]}" --reward-command "bash $work/some.sh"
[[ $code -eq 0 ]] && grep '"event":"rollout"' "$work/some/events.jsonl" | tail -1 | grep -q '"best_reward":7,.*"worst_reward":1[,}]'
check $? "the best and the worst of completions with rewards" "$(tail -3 "$work/some/events.jsonl")$err"
run watch "$work/told" "$work/toy" --once
grep -qE '^run .* loss +reward' <<<"$out" && grep -qE 'toy +120/120 .* 0\.9[0-9]+|toy +120/120 .* 1' <<<"$out"
check $? "a table of several runs" "$out"

# verifies policy-6.deac
last() { grep -o "\"$1\": *[0-9.e+-]*" <<<"$out" | tail -1 | grep -o '[0-9.e+-]*$'; }
for more in "" "--bf16 --temperature 0.7"; do
    # Weights that do not move: each ratio is 1 to the last bit, and adapters of zeros are no adapters.
    # shellcheck disable=SC2086
    run "${how[@]}" $more --learning-rate 1e-30 --num-iterations 2 --epsilon 1e-15 --lora-r 2 --beta 0.1 --max-steps 4 --json \
        --logging-steps 2 --output-dir "$work/o" --overwrite-output-dir
    [[ $code -eq 0 && $(last clip_ratio/region_mean) == 0 && $(last kl) == 0 ]]
    check $? "the same policy has the same log-probabilities $more" "$out$err"
done
iterated=("${how[@]}" --num-iterations 3 --lora-r 4 --beta 0.05 --max-steps 9 --save-steps 3)
run "${iterated[@]}" --json --logging-steps 3 --output-dir "$work/o" --overwrite-output-dir
awk -v k="$(last kl)" -v c="$(last clip_ratio/region_mean)" 'BEGIN { exit !(k > 0 && c >= 0) }'
check $? "several steps on the same completions" "$out$err"
grep -c '^{"rollout"' "$work/o/record.jsonl" | grep -qx 3
check $? "completions of three steps are told once"
run "${iterated[@]}" --output-dir "$work/p" --stop-at-step 6
run "${iterated[@]}" --output-dir "$work/p" --resume
[[ $code -eq 0 ]] && cmp -s "$work/o/record.jsonl" "$work/p/record.jsonl"
check $? "resumed: the same record" "$out$err"
run replay "$work/o"
[[ $code -eq 0 ]] && grep -q '^9 of 9 steps proven' <<<"$out"
check $? "replayed" "$out$err"
# A checkpoint in between would be one from which no run goes on: what is due there is saved where completions are new.
run "${iterated[@]}" --save-steps 0.5 --output-dir "$work/p" --overwrite-output-dir
[[ $code -eq 0 && $(cd "$work/p" && echo checkpoint-*) == 'checkpoint-6 checkpoint-9' ]]
check $? "a save that is due between steps on the same completions comes after them" "$(ls "$work/p")$err"
rm -r "$work/p/checkpoint-9"
run "${iterated[@]}" --save-steps 0.5 --output-dir "$work/p" --resume
[[ $code -eq 0 && $(state) == "$(grep -o '"state_digest":"[0-9a-f]*"' "$work/o/record.jsonl" | tail -1 | cut -d'"' -f4)" ]]
check $? "from which the run goes on" "$out$err"

# As many sequences at once as an arena has room for, however training is fitted into it.
# verifies policy-4.80d1
room=(--task grpo --model tiny --reward places --num-generations 16 --per-device-train-batch-size 64 --max-seq-length 64 --max-completion-length 32)
run plan "${room[@]}" --json
for share in 60 80; do
    run plan "${room[@]}" --arena $(($(json arena_bytes) * share / 100)) --json
    [[ $code -eq 0 && $(json slots) -eq 16 && $(json generating_bytes) -le $(json arena_bytes) ]]
    check $? "16 sequences at once in $share %" "$(json slots) $err"
    run plan "${room[@]}" --json
done

# verifies policy-5.e050
no() { expect "$1" "$2" "${how[@]}" --max-steps 2 --output-dir "$work/n" --overwrite-output-dir "${@:3}"; }
no 2 '--num-generations: completions of a prompt are compared' --num-generations 1
no 2 '--num-generations: the completions of a step .* are no whole groups' --num-generations 7
no 2 '--lora-dropout: with dropout' --lora-r 2 --lora-dropout 0.1
no 2 '--dropout: with dropout' --dropout 0.1
no 2 '--packing: completions are not packed' --packing
for option in load-best-model-at-end keep-best early-stopping-patience=2 early-stopping-threshold=0.1 metric-for-best-model=reward \
    greater-is-better=true eval-steps=1; do
    no 2 "--${option%=*}: there are no evaluations" "--$option"
done
no 2 '--eval-strategy epoch: there are no evaluations' --eval-strategy epoch
no 2 '--save-strategy best: there are no evaluations' --save-strategy best
no 2 '--reward-weights: a weight is no number: found 1,, expected a number for each reward' --reward-weights 1,
no 2 '--reward-weights: a weight is no number: found x,1, expected a number for each reward' --reward-weights x,1
no 2 '--temperature: at temperature 0' --temperature 0
expect 2 '--temperature: the option is for --task grpo' train --model tiny --data "$work/five.jsonl" --temperature 2 \
    --output-dir "$work/n"
for option in top-entropy-quantile=0.5 num-iterations=2 epsilon=0.1 epsilon-high=0.3 delta=2 mask-truncated-completions slots=2 reward-weights=1 \
    reward-log=x reward-check=3 reward-timeout=60s reward-on-failure=skip reward-memory-limit=1GiB reward-cpu-limit=3s; do
    expect 2 "--${option%=*}: the option is for --task grpo" train --model tiny --data "$work/five.jsonl" "--$option" --output-dir "$work/n"
done
no 2 '--reward-model: the option is given twice' --reward-model "$work/warm" --reward-model "$work/toy"
no 4 '--ref-model: there is no such directory or GGUF file: found ".*nowhere"' --beta 0.1 --ref-model "$work/nowhere"
cp -r "$work/warm" "$work/wild"
python3 - "$work/wild/model.safetensors" <<'P'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
start = 8 + struct.unpack("<Q", data[:8])[0]
for at in range(start, len(data), 4):
    data[at:at + 4] = struct.pack("<f", 1e38)
open(sys.argv[1], "wb").write(data)
P
no 5 '--ref-model: a log-probability of the reference is not finite' --beta 0.1 --ref-model "$work/wild"
no 2 '--beta: the reference is the model as it begins, so it needs a directory with weights' --beta 0.1
no 2 '--ref-model: a reference needs --beta above 0' --ref-model "$work/warm"
no 2 '--beta: a loss of pairs compares them with the reference' --loss-type online_dpo --lora-r 2 --beta 0
no 2 '--beta: the reference is the model as it begins' --loss-type online_ipo
no 2 '--top-entropy-quantile: a loss of pairs' --loss-type online_dpo --lora-r 2 --top-entropy-quantile 0.5
no 2 '--ref-model: the reference of adapters is the model without them' --lora-r 2 --beta 0.1 --ref-model "$work/warm"
no 2 '--beta: the reference is the model without adapters' --lora-r 2 --use-dora --beta 0.1
no 2 '--kernels: with AMX a product of several rows has other bits' --kernels amx
no 2 '--device: on this device generating is not shown to have the bits' --device cuda:sm_80
no 2 '--epsilon: this loss type does not read the option: found "online_dpo"' --loss-type online_dpo --lora-r 2 --epsilon 0.1
no 2 '--epsilon-high: this loss type does not read' --loss-type online_ipo --lora-r 2 --epsilon-high 0.1
no 2 '--delta: this loss type does not read' --loss-type online_dpo --lora-r 2 --delta 2
no 2 '--scale-rewards: this loss type does not read' --loss-type online_dpo --lora-r 2 --scale-rewards none
no 2 '--epsilon: this loss type does not read' --loss-type sapo --epsilon 0.1
no 2 '--epsilon: this loss type does not read' --loss-type cispo --epsilon 0.1
no 2 '--delta: this loss type does not read' --loss-type rloo --delta 2
# What a run refuses a plan refuses, with and without data, by the same words.
same() {
    run "${how[@]}" --max-steps 2 --output-dir "$work/n" --overwrite-output-dir "$@"
    local wanted=$err
    [[ $code -eq 2 ]]
    check $? "refused: $*" "$out$err"
    run plan "${how[@]:1}" "$@"
    [[ $code -eq 2 && $err == "$wanted" ]]
    check $? "and by plan: $*" "$out$err"
    run plan --task grpo --model tiny --max-seq-length 16 "${how[@]:7}" "$@"
    [[ $code -eq 2 && $err == "$wanted" ]]
    check $? "and by plan without data: $*" "$out$err"
}
for wrong in "--reward nonsense" "--reward-weights 1,2,3" "--reward-command true --reward-on-failure never" "--loss-type rloo --delta 2" \
    "--mask-truncated-completions" "--num-generations 7" "--temperature 0" "--packing" \
    "--num-iterations 3 --save-steps 4" "--num-iterations 3 --save-steps 3 --stop-at-step 4" "--ref-model $work/warm" "--slots 0" "--lora-r 2 --lora-dropout 0.1" "--loss-type online_dpo --lora-r 2 --epsilon 0.1" \
    "--metric-for-best-model reward" "--greater-is-better true" "--eval-strategy steps --eval-steps 1" "--eval-strategy epoch"; do
    # shellcheck disable=SC2086
    same $wrong
done
expect 2 '--reward: the option is needed: --reward NAME' plan --task grpo --model tiny --max-seq-length 16 --max-completion-length 4
expect 2 '--num-iterations: the option is for --task grpo' plan --model tiny --num-iterations 2
expect 2 '--max-batch: the batch is the number of completions' plan "${how[@]:1}" --max-batch --arena 64MiB
# Adapters, whose reference is the model without them, are not proposed beside another one.
tight=(plan --task grpo --model "$work/warm" "${how[@]:5}" --beta 0.1 --arena 2000KiB)
run "${tight[@]}"
[[ $code -eq 3 ]] && grep -q -e '--lora-r' <<<"$err"
check $? "adapters are proposed" "$code $err"
run "${tight[@]}" --ref-model "$work/warm"
[[ $code -eq 3 ]] && grep -q 'would fit with --optim' <<<"$err" && ! grep -q -e '--lora-r' -e '--max-seq-length' <<<"$err"
check $? "and not with --ref-model" "$code $err"
# Rewards that are all equal: no gradient, and counted.
run "${how[@]}" --reward-weights 0,0 --max-steps 2 --json --logging-steps 2 --weight-decay 0 --output-dir "$work/n" --overwrite-output-dir
[[ $code -eq 0 && $(last frac_reward_zero_std) == 1 && $(last grad_norm) == 0 && $(last reward) == 0 ]]
check $? "all rewards are equal: no gradient, counted" "$out$err"
no 2 '--save-steps: a checkpoint lies where completions are new' --num-iterations 3 --save-steps 4
no 2 '--stop-at-step: a checkpoint lies where completions are new' --num-iterations 3 --save-steps 3 --stop-at-step 4
no 2 '--loss-type: this loss is over pairs of rows: found "hinge"|this loss is over pairs of rows' --loss-type hinge
no 2 '--max-seq-length: the longest prompt and --max-completion-length' --max-seq-length 4
no 2 '--reward: there is no reward of this name' --reward nonsense
no 4 '--data: there are fewer prompts than a step takes: found 64, expected at least 128' --per-device-train-batch-size 512
no 2 '--mask-truncated-completions: the model has no end token' --mask-truncated-completions
how=("${how[@]/#--reward/--max-grad-norm}")
how=("${how[@]/%places/1}")
how=("${how[@]/%regex:*/1}")
how=("${how[@]/%--max-grad-norm-weights/--seed}")
how=("${how[@]/%1,0.01/42}")
no 2 '--reward: the option is needed: --reward NAME' --seed 1
no 4 'the reward command ended, or said too much, before a hello line' --reward-command 'exit 3' --reward-timeout 5s # limit: it ends before

cat >"$work/grader.sh" <<'END'
echo '{"name": "test", "version": "1"}'
while read -r l; do
    id=${l#*:}
    id=${id%%,*}
    [[ $id -lt 70 ]] || exit 3
    echo "{\"id\": $id, \"reward\": 0.$((id % 10))}"
done
END
no 4 'bash .*: the reward command ended' --reward-command "bash $work/grader.sh"
grep -q 'step 1 is saved' <<<"$err"
check $? "and the state is saved" "$out$err"
run "${how[@]}" --max-steps 4 --output-dir "$work/n" --overwrite-output-dir --reward-command "bash $work/grader.sh" --reward-on-failure skip
[[ $code -eq 0 ]] && grep -q 'completions have no answer: the reward command' <<<"$err"
check $? "failures that are skipped are counted" "$out$err"
# Rewards of a command are taken from the record, and a changed one is found.
sed -i 's/-lt 70/-lt 9999/' "$work/grader.sh"
run "${how[@]}" --max-steps 3 --output-dir "$work/n" --overwrite-output-dir --reward-command "bash $work/grader.sh"
check $code "rewards of a command" "$out$err"
run replay "$work/n" --ask-rewards
[[ $code -eq 0 ]] && grep -q '^3 of 3 steps proven' <<<"$out"
check $? "replayed, and the command asked again" "$out$err"
# Limits of the command are the replay's own.
run replay "$work/n" --ask-rewards --reward-timeout 60s --reward-cpu-limit 1h
[[ $code -eq 0 ]] && grep -q '^3 of 3 steps proven' <<<"$out"
check $? "replayed with limits of its own" "$out$err"
expect 4 'the reward command' replay "$work/n" --ask-rewards --reward-memory-limit 1MiB
expect 2 '--reward-timeout: no reward command runs without --ask-rewards' replay "$work/n" --reward-timeout 60s
run train --model tiny --data "$work/seen.jsonl" --max-seq-length 12 --max-steps 1 --per-device-train-batch-size 4 --quiet --output-dir "$work/plain"
expect 2 '--ask-rewards: the run is not of --task grpo' replay "$work/plain" --ask-rewards
sed -i 's/reward.": 0/reward\\": 1/' "$work/grader.sh"
run replay "$work/n" --ask-rewards
[[ $code -eq 8 ]] && grep -q '^first difference: step 1' <<<"$out"
check $? "another command: the rewards differ" "$code $out$err"
rm "$work/grader.sh"
run replay "$work/n"
[[ $code -eq 0 ]] && grep -q '^3 of 3 steps proven' <<<"$out"
check $? "replayed without the command" "$out$err"
python3 - "$work/n/record.jsonl" <<'P'
import sys
lines = open(sys.argv[1]).read().splitlines()
for i, line in enumerate(lines):
    if line.startswith('{"rollout":2'):
        at = line.index('"rewards":"') + 11
        line = line[:at] + ("4" if line[at] != "4" else "3") + line[at + 1:]
    lines[i] = line
open(sys.argv[1], "w").write("\n".join(lines) + "\n")
P
expect 4 "chain is not that of the lines" replay "$work/n"
finish
