#!/bin/bash
# SPDX-License-Identifier: MIT
# Schedules and their numbers, as options; their values are tested against transformers' in
# tests/unit/optim/test_rate_golden.c.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 60; i++) print i, "bottles of ale" }' >"$work/text"
train=(train --model tiny --data "$work/text" --max-seq-length 8 --per-device-train-batch-size 1 --threads 1
    --max-steps 10 --logging-steps 1 --learning-rate 1e-3 --quiet --json)
number=0

# rates WANTED OPTIONS..: the learning rates of the ten steps.
rates() {
    local wanted=$1
    shift
    number=$((number + 1))
    run "${train[@]}" --output-dir "$work/r$number" "$@"
    local found
    found=$(grep -oE '"learning_rate": [^,]*' <<<"$out" | sed 's/.*: //' | tr '\n' ' ')
    [[ $code -eq 0 && $found == "$wanted " ]]
    check $? "$* gives $wanted" "$found$err"
}

rates '0.001 0.0009 0.0008 0.0007 0.0006 0.0005 0.0004 0.0003 0.0002 0.0001'
rates '0 0.0005 0.001 0.000875 0.00075 0.000625 0.0005 0.000375 0.00025 0.000125' --warmup-ratio 0.2
rates '0 0.0005 0.001 0.000875 0.00075 0.000625 0.0005 0.000375 0.00025 0.000125' --warmup-ratio 0.11
rates '0 0.001 0.000888888889 0.000777777778 0.000666666667 0.000555555556 0.000444444444 0.000333333333 0.000222222222 0.000111111111' \
    --warmup-ratio 0.5 --warmup-steps 1
rates '0.001 0.001 0.001 0.001 0.001 0.001 0.001 0.001 0.001 0.001' --lr-scheduler-type inverse_sqrt \
    --lr-scheduler-kwargs 'timescale=1000000000000000'
rates '0.001 0.00081 0.00064 0.00049 0.00036 0.00025 0.00016 9e-05 4e-05 1e-05' --lr-scheduler-type polynomial \
    --lr-scheduler-kwargs '{"power": 2.0, "lr_end": 0}'
rates '0.001 0.0009001 0.0008002 0.0007003 0.0006004 0.0005005 0.0004006 0.0003007 0.0002008 0.0001009' \
    --lr-scheduler-type polynomial --lr-scheduler-kwargs lr_end=1e-6
rates '0.001 0.00092 0.00084 0.00076 0.00068 0.0006 0.00052 0.00044 0.00036 0.00028' --lr-scheduler-type polynomial \
    --min-lr 2e-4
rates '0.001 0.000904508497 0.000654508497 0.000345491503 9.54915028e-05 0.001 0.000904508497 0.000654508497 0.000345491503 9.54915028e-05' \
    --lr-scheduler-type cosine_with_restarts --lr-scheduler-kwargs num_cycles=2

# As transformers' cosine_with_min_lr, its least rate given in each of three ways.
for least in '--min-lr 1e-4' '--lr-scheduler-kwargs min_lr=1e-4' '--lr-scheduler-kwargs {"min_lr_rate":0.1}'; do
    # shellcheck disable=SC2086
    rates '0.001 0.000977975432 0.000914057647 0.000814503364 0.000689057647 0.00055 0.000410942353 0.000285496636 0.000185942353 0.000122024568' \
        --lr-scheduler-type cosine_with_min_lr $least
done

# As transformers' get_wsd_schedule of num_decay_steps=5, min_lr_ratio=0.1, num_warmup_steps=2.
rates '0.0001 0.00055 0.001 0.001 0.001 0.001 0.000914057647 0.000689057647 0.000410942353 0.000185942353' \
    --lr-scheduler-type warmup_stable_decay --warmup-steps 2 --lr-scheduler-kwargs '{"num_decay_steps": 5, "min_lr_ratio": 0.1}'

refused() {
    expect 2 "$1" "${train[@]}" --output-dir "$work/x" "${@:2}"
    expect 2 "$1" plan --model tiny "${@:2}"
}
refused 'kwargs: the schedule has no such number: found "power", expected .*num_cycles.*' \
    --lr-scheduler-type cosine --lr-scheduler-kwargs power=2
refused 'kwargs: the schedule has no such number: found "power", expected nothing' --lr-scheduler-kwargs power=2
refused 'kwargs: num_cycles: found "1.5", expected a whole number of at least 1$' \
    --lr-scheduler-type cosine_with_restarts --lr-scheduler-kwargs '{"num_cycles": 1.5}'
refused 'kwargs: lr_end: found "0.5", expected a rate from 0 to below --learning-rate$' \
    --lr-scheduler-type polynomial --lr-scheduler-kwargs lr_end=0.5
refused 'lr-scheduler-type: the least rate is missing: found "cosine_with_min_lr", expected --min-lr' \
    --lr-scheduler-type cosine_with_min_lr
refused 'kwargs: min_lr_rate: found "2", expected a share' --lr-scheduler-type cosine --lr-scheduler-kwargs min_lr_rate=2
refused 'kwargs: power: found "much"' --lr-scheduler-type polynomial --lr-scheduler-kwargs power=much
refused 'kwargs: the schedule has no such number: found "decay_type", expected num_decay_steps or min_lr_ratio' \
    --lr-scheduler-type warmup_stable_decay --lr-scheduler-kwargs decay_type=linear
refused 'kwargs: num_decay_steps: found "0", expected a whole number' --lr-scheduler-type warmup_stable_decay \
    --lr-scheduler-kwargs num_decay_steps=0
refused 'kwargs: a key without a value: found "power"' --lr-scheduler-type polynomial --lr-scheduler-kwargs power
refused 'learning-rate: too low for where a polynomial schedule ends' --lr-scheduler-type polynomial --learning-rate 1e-8
refused 'warmup-ratio: the value is out of range' --warmup-ratio 1.5
[[ ! -e $work/x ]]
check $? "none of these made the output directory"

# Another schedule is another run.
run "${train[@]}" --output-dir "$work/run" --lr-scheduler-type polynomial --lr-scheduler-kwargs power=2 --stop-at-step 5
check $code "a run that stops" "$err"
expect 2 'lr-scheduler-kwargs differs from the checkpoint.s: found "power=3", expected "power=2"' "${train[@]}" \
    --output-dir "$work/run" --lr-scheduler-type polynomial --lr-scheduler-kwargs power=3 --resume
expect 2 'warmup-ratio differs' "${train[@]}" --output-dir "$work/run" --lr-scheduler-type polynomial \
    --lr-scheduler-kwargs power=2 --warmup-ratio 0.1 --resume
run "${train[@]}" --output-dir "$work/run" --lr-scheduler-type polynomial --lr-scheduler-kwargs power=2 --resume
check $code "and goes on" "$err"
finish
