#!/bin/bash
# SPDX-License-Identifier: MIT
# A new run with the state of an old one (--continue-from), and a strict resume from a checkpoint that is
# named (--resume-from-checkpoint).
. "$(dirname "$0")/../lib.sh"

# Every window of this text is the same, so that the order of the data makes no difference: a run
# that is continued has to come to the bits of one that was never divided.
awk 'BEGIN { for (i = 0; i < 65; i++) printf "bottles!"; printf "b" }' >"$work/text"
common=(train --model tiny --data "$work/text" --max-seq-length 8 --per-device-train-batch-size 4 --threads 1
    --learning-rate 2e-3 --lr-scheduler-type constant --quiet --json)
number=0
# verifies face-26.2da0
same() { # OPTIONS..: 12 steps at once, and 5 continued by 7
    number=$((number + 1))
    local at=$work/same$number
    run "${common[@]}" "$@" --output-dir "$at-whole" --max-steps 12
    check $code "$* whole" "$err"
    local whole
    whole=$(json state_digest)
    run "${common[@]}" "$@" --output-dir "$at-first" --max-steps 5
    check $code "$* first" "$err"
    run "${common[@]}" "$@" --output-dir "$at-second" --max-steps 7 --continue-from "$at-first/checkpoint-5"
    [[ $code -eq 0 && $(json state_digest) == "$whole" && $(json steps) == 7 && $(json continued_from_step) == 5 ]]
    check $? "$* continued: $(json state_digest), $whole" "$out$err"
    [[ "$*" == *lora* ]] && return # its directory is an adapter's
    run "${common[@]}" "$@" --output-dir "$at-weights" --max-steps 7 --model "$at-first"
    [[ $code -eq 0 && $(json state_digest) != "$whole" ]]
    check $? "$*: the weights alone do not come to it: the moments were carried" "$out$err"
}
same
same --optim adamw_8bit --weight-decay 0.1
same --bf16 --optim lion
same --fp16
same --fp16 --initial-loss-scale 1e12 --loss-scale-window 3
same --optim ademamix --optim-args t_alpha=10,t_beta3=10
same --bf16 --optim adopt --gradient-release
same --percentile-clipping 50 --gradient-release
same --lora-r 2 --optim sgd --optim-args momentum=0.9

# Of another directory, batch, accumulation, seed, rate, schedule and policy; the newest of a directory.
from=$work/same1-first
run "${common[@]}" --output-dir "$work/other" --max-steps 9 --continue-from "$from" --per-device-train-batch-size 2 \
    --gradient-accumulation-steps 3 --seed 7 --learning-rate 1e-4 --lr-scheduler-type cosine --warmup-steps 2 \
    --gradient-checkpointing full --logging-steps 1 --dropout 0.1 --adam-beta2 0.95 --arena 64MiB
[[ $code -eq 0 && $(json steps) -eq 9 && $(head -n 2 <<<"$out" | grep -c '"learning_rate": 0,') -eq 1 ]]
check $? "another schedule, which begins with its warm-up" "$out$err"
grep -q '"step": 1, ' <<<"$out" && [[ -d $work/other/checkpoint-9 ]]
check $? "steps are counted anew" "$out"
cmp -s "$from/checkpoint-5/state.safetensors" "$work/same1-first/checkpoint-5/state.safetensors"
check $? "the checkpoint itself is not touched"

# Killed and resumed within: with and without the option.
run "${common[@]}" --output-dir "$work/cut" --max-steps 7 --continue-from "$from" --save-steps 2 --stop-at-step 4
check $code "stopped in the middle" "$err"
cp -r "$work/cut" "$work/cut2"
run "${common[@]}" --output-dir "$work/same1-second2" --max-steps 7 --continue-from "$from"
whole=$(json state_digest)
run "${common[@]}" --output-dir "$work/cut" --max-steps 7 --resume
[[ $code -eq 0 && $(json state_digest) == "$whole" ]]
check $? "resumed" "$out$err"
run "${common[@]}" --output-dir "$work/cut2" --max-steps 7 --resume --continue-from "$from"
[[ $code -eq 0 && $(json state_digest) == "$whole" ]]
check $? "resumed by the command line that began it" "$out$err"
run "${common[@]}" --output-dir "$work/cut3" --max-steps 7 --resume --continue-from "$from"
[[ $code -eq 0 && $(json state_digest) == "$whole" && $err == *"starting from step 0"* ]]
check $? "which also begins it" "$out$err"
run "${common[@]}" --output-dir "$work/kill" --max-steps 4000 --continue-from "$from" --save-steps 50 --stop-at-step 200
whole=$(json state_digest)
("$program" "${common[@]}" --output-dir "$work/killed" --max-steps 4000 --continue-from "$from" --save-steps 50 >/dev/null 2>&1 &
    echo $! >"$work/pid"
    wait)&
wait_for 300 'compgen -G "$work/killed/checkpoint-*" >/dev/null'
kill -9 "$(cat "$work/pid")" 2>/dev/null
wait
rm -rf "$work"/killed/checkpoint-[2-9]?? "$work"/killed/checkpoint-????
run "${common[@]}" --output-dir "$work/killed" --max-steps 4000 --save-steps 50 --stop-at-step 200 --resume
[[ $code -eq 0 && $(json state_digest) == "$whole" ]]
check $? "killed, and resumed" "$out$err"

# verifies face-26.2da0
# What does not go on, by its name.
mkdir "$work/heads"
sed 's/"n_head": 4/"n_head": 2/' "$work/same1-first/config.json" >"$work/heads/config.json"
refused() { # PATTERN OPTIONS..
    expect 2 "continue-from: $1" "${common[@]}" --output-dir "$work/x" --max-steps 7 --continue-from "$from" "${@:2}"
}
refused 'optim differs from the checkpoint.s: found "lion", expected "adamw"' --optim lion
refused 'bf16 differs' --bf16
refused 'model_type differs' --model tiny-llama
refused 'n_head differs' --model "$work/heads"
refused 'lora-r differs' --lora-r 4
refused 'freeze differs' --freeze '*.h.0.*'
refused 'percentile-clipping differs' --percentile-clipping 10
refused 'the state of another model, optimizer, precision or adapter cannot be continued' --optim lion
from=$work/same8-first refused 'target-modules differs' --lora-r 2 --optim sgd --optim-args momentum=0.9 --target-modules all-linear
from=$work/same3-first refused 'master differs: found|master differs' --bf16 --optim lion --master split8
expect 4 'continue-from: .*nowhere: there is no checkpoint' "${common[@]}" --output-dir "$work/x" --max-steps 7 \
    --continue-from "$work/nowhere"
cp -r "$from/checkpoint-5" "$work/damaged"
printf x | dd of="$work/damaged/state.safetensors" bs=1 seek=$(($(stat -c %s "$work/damaged/state.safetensors") - 9000)) \
    conv=notrunc 2>/dev/null
expect 4 'digest' "${common[@]}" --output-dir "$work/x" --max-steps 7 --continue-from "$work/damaged"
expect 2 'holds checkpoints of an earlier run' "${common[@]}" --output-dir "$from" --max-steps 7 --continue-from "$from"
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
# A dynamic loss scale goes on, a fixed one is the new run's.
from=$work/same5-first
run "${common[@]}" --fp16 --loss-scale 128 --output-dir "$work/fixed" --max-steps 1 --continue-from "$from" --logging-steps 1
[[ $code -eq 0 ]] && grep -q '"loss_scale": 128,' <<<"$out"
check $? "a fixed loss scale" "$out$err"

# --resume-from-checkpoint: strict, from the checkpoint that is named.
train=("${common[@]}" --max-steps 10 --save-steps 3)
run "${train[@]}" --output-dir "$work/run"
whole=$(json state_digest)
for where in "$work/run/checkpoint-3" "$work/run/checkpoint-6" "$work/run"; do
    rm -rf "$work/again"
    run "${train[@]}" --output-dir "$work/again" --resume-from-checkpoint "$where"
    [[ $code -eq 0 && $(json state_digest) == "$whole" && $(json steps) -eq 10 ]]
    check $? "resumed from $where" "$out$err"
done
run "${train[@]}" --output-dir "$work/run" --resume-from-checkpoint "$work/run/checkpoint-3" --logging-steps 1
[[ $code -eq 0 && $(json state_digest) == "$whole" && $(grep -c '"step"' <<<"$out") -eq 7 ]]
check $? "in its own directory: seven steps" "$out$err"
for value in true ''; do
    run "${train[@]}" --output-dir "$work/run" --resume-from-checkpoint $value
    [[ $code -eq 0 && $(json state_digest) == "$whole" ]]
    check $? "resume-from-checkpoint $value" "$out$err"
done
expect 2 'learning-rate differs from the checkpoint.s' "${train[@]}" --output-dir "$work/again2" \
    --resume-from-checkpoint "$work/run/checkpoint-3" --learning-rate 1
expect 4 'resume-from-checkpoint: .*nowhere: there is no checkpoint' "${train[@]}" --output-dir "$work/again2" \
    --resume-from-checkpoint "$work/nowhere"
expect 2 'holds checkpoints of an earlier run' "${train[@]}" --output-dir "$work/same1-first" \
    --resume-from-checkpoint "$work/run/checkpoint-3"
finish
