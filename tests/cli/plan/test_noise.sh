#!/bin/bash
# SPDX-License-Identifier: MIT
# --neftune-noise-alpha: the same bits however a step is computed, none in evaluations, of the size that
# the formula has, and refused where there is no embedding. The noise itself: tests/unit/device/host/rows/test_embedding.c.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 80; i++)); do printf '%d bottles of beer on wall %d\n' "$i" $((i * i)); done >"$work/text"
common=(train --model tiny --data "$work/text" --max-seq-length 16 --max-steps 10 --learning-rate 3e-3 --quiet --json
    --save-steps 0 --logging-steps 1)

same_bits --model tiny --max-seq-length 16 --threads 2 --neftune-noise-alpha 5 -- \
    "${common[@]}" --neftune-noise-alpha 5 --threads 2
noisy=$(json state_digest)
run "${common[@]}" --output-dir "$work/f" --per-device-train-batch-size 8
[[ $code -eq 0 && $(json state_digest) != "$noisy" ]]
check $? "noise changes what is learned" "$out$err"
plain=$(json state_digest)
run "${common[@]}" --output-dir "$work/g" --per-device-train-batch-size 8 --neftune-noise-alpha 0
[[ $(json state_digest) == "$plain" ]]
check $? "none changes nothing" "$out$err"

# At a learning rate of 0 all that noise can change is the loss of training.
run "${common[@]}" --output-dir "$work/h" --eval-data "$work/text" --learning-rate 0
loss=$(json eval_loss) first=$(head -n 1 <<<"$out" | grep -oE '"loss": [0-9.e+-]+')
run "${common[@]}" --output-dir "$work/i" --eval-data "$work/text" --learning-rate 0 --neftune-noise-alpha 100
[[ -n $loss && $(json eval_loss) == "$loss" ]]
check $? "evaluations have no noise" "$out$err"
[[ -n $first && $(head -n 1 <<<"$out" | grep -oE '"loss": [0-9.e+-]+') != "$first" ]]
check $? "the loss of training has" "$out$err"

expect 2 'resume: neftune-noise-alpha differs' "${common[@]}" --output-dir "$work/e" --per-device-train-batch-size 8 --resume \
    --neftune-noise-alpha 4
expect 2 'neftune-noise-alpha' "${common[@]}" --output-dir "$work/j" --neftune-noise-alpha -1
finish
