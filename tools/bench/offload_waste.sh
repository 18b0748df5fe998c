#!/bin/bash
# SPDX-License-Identifier: MIT
# Plans with a second tier of memory: presets x what is offloaded x what is trained, and what each wastes over its lower bound.
#     tools/bench/offload_waste.sh [PRESET|DIR..]       BEDPLATE=another program, JOBS=1
# A line per plan: arena, lower bound, waste in percent, bytes in flight, processor seconds. The last line is the largest waste.
set -u
export program=${BEDPLATE:-${BUILD:-build/release}/bedplate}
presets=("$@")
[[ $# -gt 0 ]] || presets=(gpt2 gpt2-medium gpt2-xl llama-7b llama-13b llama-3-8b llama-3.2-1b qwen3-0.6b bert-large)
trained=("--lora-r 8 --target-modules all-linear --load-in-4bit" "--lora-r 8" "--gradient-release" "--gradient-accumulation-steps 4")
sets=(bases states bases,states weights bases,states,weights weights,checkpoints bases,states,weights,checkpoints weights,gradients)
export TIMEFORMAT='%U %S'
one() { # PRESET TRAINED SET
    local out seconds
    out=$(mktemp)
    # shellcheck disable=SC2086 # options are words
    seconds=$({ time "$program" plan --model "$1" $2 --offload file:/var/tmp/none:900GB --offload-what "$3" --bf16 --optim adamw_8bit \
        --gradient-checkpointing full --max-seq-length 512 --per-device-train-batch-size 1 --device host --threads 2 --json \
        >"$out" 2>/dev/null; } 2>&1)
    awk -v what="$1 | $2 | $3" -v seconds="$seconds" '
        function number(name) {
            return match(all, "\"" name "\": ?[0-9]+") ? substr(all, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : 0
        }
        { all = all $0 }
        END {
            arena = number("arena_bytes")
            bound = number("lower_bound_bytes")
            split(seconds, time, " ")
            if (arena > 0)
                printf "%s | %.0f | %.0f | %.2f %% | %.0f | %.1f\n", what, arena, bound, 100 * (arena - bound) / bound,
                    number("in_pending_bytes"), time[1] + time[2]
        }' "$out"
    rm -f "$out"
}
export -f one
for preset in "${presets[@]}"; do
    for kind in "${trained[@]}"; do
        for what in "${sets[@]}"; do
            printf '%s\0' "$preset" "$kind" "$what"
        done
    done
done | xargs -0 -n 3 -P "${JOBS:-1}" bash -c 'one "$@"' one | tee /dev/stderr | sort -t '|' -k 6 -gr | head -1
