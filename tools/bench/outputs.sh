#!/bin/bash
# SPDX-License-Identifier: MIT
# What a run's outputs cost, and steps that are computed twice, as shares of its steps. In pairs:
# - runs with everything on (record, events, a metrics file, TensorBoard's files, a line of the log each step)
#   and runs with the record and the events alone and no log: ms of a step and of what is between steps;
# - within a run with --replay-every R, each step that is computed twice and the mean of its two neighbours.
#
#     tools/bench/outputs.sh PROGRAM [MODEL]      STEPS=12, PAIRS=2, THREADS=2, REPLAY=4, BATCH=4, LENGTH=64
set -u
[[ $# -ge 1 ]] || { echo "usage: $0 PROGRAM [MODEL]"; exit 2; }
program=$1
model=${2:-gpt2}
steps=${STEPS:-12}
pairs=${PAIRS:-2}
replay=${REPLAY:-4}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Bytes as tokens: the text needs no tokenizer, and what a step costs does not hang on them.
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) printf "%d bottles of %d beers\n", i, rand() * 1e6 }' >"$work/text"
train() { # NAME OPTIONS..
    local name=$1
    shift
    rm -rf "$work/out"
    "$program" train --model "$model" --data "$work/text" --data-format bytes --max-seq-length "${LENGTH:-64}" \
        --per-device-train-batch-size "${BATCH:-4}" --max-steps "$steps" --save-strategy no --threads "${THREADS:-2}" \
        --stop-at-step $((steps - 1)) --quiet --json --output-dir "$work/out" "$@" >"$work/$name" 2>"$work/err" ||
        { cat "$work/err"; exit 1; }
}
number() { tail -1 "$work/$1" | grep -oE "\"$2\": [0-9.e-]+" | sed 's/.*: //'; }
all=(--logging-steps 1 --metrics "$work/run.prom" --report-to tensorboard)

echo "$(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'), ${THREADS:-2} thread(s), $model, ${BATCH:-4} x ${LENGTH:-64}, $(date +%F)"
echo "| outputs | ms of a step | ms between steps | share |"
echo "|---|---|---|---|"
for ((pair = 0; pair < pairs; pair++)); do
    order=(all least)
    ((pair % 2 == 0)) || order=(least all)
    for side in "${order[@]}"; do
        if [[ $side == all ]]; then train x "${all[@]}"; else train x; fi
        awk -v side="$side" -v n=$((steps - 1)) -v t="$(number x train_seconds)" -v o="$(number x output_seconds)" \
            'BEGIN { printf "| %s | %.1f | %.3f | %.3f %% |\n", side, 1e3 * t / n, 1e3 * o / n, 100 * o / t }'
    done
done
[[ $replay -gt 1 ]] || exit 0
# Of each line tokens_per_second, of one step: its inverse is the step's time but for a factor.
train twice "${all[@]}" --replay-every "$replay"
grep -oE '"tokens_per_second": [0-9.]+, "arena' "$work/twice" | grep -oE '[0-9.]+' | head -n $((steps - 1)) |
    awk -v every="$replay" -v o="$(number twice output_seconds)" -v t="$(number twice train_seconds)" '
        { time[NR] = 1 / $1 }
        END {
            for (i = every; i < NR; i += every) {
                usual = (time[i - 1] + time[i + 1]) / 2
                share[++n] = time[i] / usual - 1
            }
            for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (share[j] < share[i]) { s = share[i]; share[i] = share[j]; share[j] = s }
            middle = n % 2 ? share[(n + 1) / 2] : (share[n / 2] + share[n / 2 + 1]) / 2
            printf "a step computed twice takes %.1f %% more than its neighbours (median of %d, %.1f to %.1f): ", 100 * middle, n, 100 * share[1], 100 * share[n]
            printf "%.2f %% with --replay-every 100; checks of memory and outputs between steps: %.3f %%\n", middle, 100 * o / t
        }'
