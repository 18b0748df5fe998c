#!/bin/bash
# SPDX-License-Identifier: MIT
# Spikes in real data: what each policy does about them, in the record, over resumes and in replays; and
# steps that are computed twice.
. "$(dirname "$0")/../lib.sh"

python3 - "$work/text" <<'P'
import random, sys
random.seed(5)
text = b"all the same over and over again\n" * 400
for at in (3000, 7000, 9000):
    text = text[:at] + bytes(random.randrange(128, 256) for _ in range(200)) + text[at + 200:]
open(sys.argv[1], "wb").write(text)
P
train=(train --model tiny --data "$work/text" --data-format bytes --max-seq-length 32 --per-device-train-batch-size 2
    --max-steps 300 --save-steps 100 --logging-steps 1000 --learning-rate 3e-3 --lr-scheduler-type constant
    --threads 1 --quiet --json)
outcomes() { grep -c "\"outcome\":\"$2\"" "$work/$1/record.jsonl"; }

expect 0 '' "${train[@]}" --output-dir "$work/none"
plain=$(json state_digest)
expect 0 'an anomaly of kind loss .*: told only' "${train[@]}" --output-dir "$work/warn" --on-spike warn
[[ $(json state_digest) == "$plain" && $(grep -c '"event":"anomaly"' "$work/warn/events.jsonl") -gt 5 ]]
check $? "warn tells and changes no bit" "$err"
expect 0 'kind grad_norm .*: clip' "${train[@]}" --output-dir "$work/clip" --on-spike clip
[[ $(outcomes clip clipped) -ge 1 && $(json state_digest) != "$plain" ]]
check $? "clip clips" "$(json state_digest)"
# verifies doubt-5.69bf
expect 9 'more than 3 of the last 100 steps were anomalies; step [0-9]+ is saved' "${train[@]}" --output-dir "$work/skip" --on-spike skip
expect 0 '' "${train[@]}" --output-dir "$work/many" --on-spike skip --spike-budget 15
[[ $(outcomes many skipped-anomaly) -gt 10 ]]
check $? "skip skips" "$(tail -1 "$work/many/events.jsonl")"

# verifies doubt-3.3ae7
# A resumed run and a replay on other kernels decide alike.
stops=160
! long_form || stops='37 160 201'
for stop in $stops; do
    run "${train[@]}" --output-dir "$work/pieces" --on-spike skip --spike-budget 15 --resume --stop-at-step $stop
done
expect 0 '' "${train[@]}" --output-dir "$work/pieces" --on-spike skip --spike-budget 15 --resume
cmp -s "$work/many/record.jsonl" "$work/pieces/record.jsonl"
check $? "the same decisions after resumes"
expect 0 '^300 of 300 steps proven' replay "$work/many" --variant avx2
expect 0 'record: ' verify "$work/many"
python3 tools/record_check.py "$work/many" >/dev/null
check $? "the second checker knows the outcomes"
expect 2 'on-spike differs from the checkpoint' "${train[@]}" --output-dir "$work/many" --on-spike warn --resume

# verifies doubt-3.3ae7
# Back to the newest checkpoint: the batches since are passed over, and the budget counts it.
back=("${train[@]}" --on-spike rollback --spike-budget 15)
expect 0 'step [0-9]+: back to the state of step [0-9]+; the [0-9]+ batches since are passed over' "${back[@]}" --output-dir "$work/back"
digest=$(json state_digest)
rolls() { grep -c '^{"roll":' "$work/$1/record.jsonl"; }
[[ $digest != "$plain" && $(rolls back) -gt 3 && $(rolls back) == $(outcomes back rolled-back) && $(rolls back) == $(grep -c '"event":"roll"' "$work/back/events.jsonl") ]]
check $? "every spike goes back" "$(rolls back) rolls"
grep -q '^{"roll":[0-9]*,"from":[0-9]*,"to":0,"batches":[0-9]*,"state_digest":"[0-9a-f]*","chain"' "$work/back/record.jsonl"
check $? "before the first checkpoint to the first state" "$(grep '^{"roll' "$work/back/record.jsonl")"
expect 9 'more than 3 of the last 100 steps were anomalies; step [0-9]+ is saved' "${train[@]}" --output-dir "$work/spent" --on-spike rollback
# Stops between, checkpoints of signals and a limit on checkpoints change no decision; nor do other kernels.
stops='37 160'
! long_form || stops='37 101 160 170'
for stop in $stops; do
    run "${back[@]}" --output-dir "$work/parts" --resume --stop-at-step $stop --save-total-limit 1
done
expect 0 '' "${back[@]}" --output-dir "$work/parts" --resume
[[ $(json state_digest) == "$digest" ]] && cmp -s "$work/back/record.jsonl" "$work/parts/record.jsonl"
check $? "the same ways back after resumes" "$(json state_digest)"
expect 0 '^300 of 300 steps proven' replay "$work/back" --variant avx2
! long_form || expect 0 '^300 of 300 steps proven' replay "$work/parts" --threads 2
expect 0 'record: ' verify "$work/back"
python3 tools/record_check.py "$work/back" >/dev/null
check $? "the second checker knows the way back"
# Where the state to go back to has gone, nothing is done and nothing saved.
run "${back[@]}" --output-dir "$work/gone" --resume --stop-at-step 37
rm -r "$work/gone/checkpoint-0"
expect 4 'checkpoint-0, which step [0-9]+ goes back to, cannot be loaded' "${back[@]}" --output-dir "$work/gone" --resume

# verifies doubt-6.252f
# A policy without a spike, and steps computed twice, change nothing.
calm=(train --model tiny --data README.md --max-seq-length 32 --max-steps 40 --save-steps 20 --threads 2 --quiet --json)
expect 0 '' "${calm[@]}" --output-dir "$work/calm"
plain=$(json state_digest)
expect 0 '' "${calm[@]}" --output-dir "$work/twice" --on-spike skip --replay-every 1 --gradient-accumulation-steps 1
[[ $(json state_digest) == "$plain" && $(tail -1 "$work/twice/events.jsonl") == *'"anomalies":0,"replays":40,"mismatches":0,"verified":40'* ]]
check $? "the bits of a run without" "$(tail -1 "$work/twice/events.jsonl")"
expect 0 '' "${calm[@]}" --output-dir "$work/stays" --on-spike rollback
[[ $(json state_digest) == "$plain" && -z $(grep "^{\"roll" "$work/stays/record.jsonl") ]]
check $? "no spike, nothing to go back from" "$(json state_digest)"
expect 0 '' "${calm[@]}" --output-dir "$work/some" --replay-every 7 --bf16 --gradient-accumulation-steps 2
[[ $(tail -1 "$work/some/events.jsonl") == *'"replays":5,"mismatches":0,"verified":35'* ]]
check $? "every seventh step" "$(tail -1 "$work/some/events.jsonl")"
cmp -s <(sed 's/,"chain".*//' "$work/calm/record.jsonl" | tail -n +2 | grep -v '^{"end') <(sed 's/,"verified":[0-9]*//; s/,"chain".*//' "$work/twice/record.jsonl" | tail -n +2 | grep -v '^{"end')
check $? "and the same record, but for the steps that it calls verified"

# Thresholds that make no sense, and plans whose steps cannot be judged.
expect 2 'spike-threshold' "${calm[@]}" --output-dir "$work/x" --on-spike skip --spike-threshold 0
expect 2 'spike-budget' "${calm[@]}" --output-dir "$work/x" --on-spike skip --spike-budget 99
expect 2 'on-spike' "${calm[@]}" --output-dir "$work/x" --on-spike often
expect 2 'cannot be judged before their update' "${calm[@]}" --output-dir "$work/x" --on-spike skip --gradient-release previous-norm
finish
