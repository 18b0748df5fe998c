#!/bin/bash
# SPDX-License-Identifier: MIT
# Whole training steps of two builds of the program, in pairs: A, B, B, A, .. for each row, so that a
# machine that slows down slows both. For each row: the least and the median time of a step of either,
# in ms, and what B takes of A's least. Two builds of the same sources show the noise.
#
#     tools/bench/steps.sh A B [OUTPUT.md]      VISITS=4, THREADS=1, ROWS=.. (a grep over the rows)
set -u
[[ $# -ge 2 ]] || { echo "usage: $0 PROGRAM_A PROGRAM_B [OUTPUT.md]"; exit 2; }
first=$1
second=$2
output=${3:-/dev/stdout}
visits=${VISITS:-4}

# NAME OPTIONS..: presets of every family, and what changes a step's programs.
rows=(
    'gpt2 --model gpt2 --max-seq-length 64 --per-device-train-batch-size 4'
    'gpt2-long --model gpt2 --max-seq-length 512 --per-device-train-batch-size 1'
    'gpt2-full --model gpt2 --max-seq-length 64 --per-device-train-batch-size 4 --gradient-checkpointing full'
    'gpt2-selective --model gpt2 --max-seq-length 64 --per-device-train-batch-size 4 --gradient-checkpointing selective:norm,gelu'
    'gpt2-bf16 --model gpt2 --max-seq-length 64 --per-device-train-batch-size 2 --bf16'
    'gpt2-release --model gpt2 --max-seq-length 64 --per-device-train-batch-size 4 --gradient-release'
    'gpt2-lora --model gpt2 --max-seq-length 64 --per-device-train-batch-size 4 --lora-r 8'
    'gpt2-8bit --model gpt2 --max-seq-length 64 --per-device-train-batch-size 4 --optim adamw_8bit'
    'bert-base --model bert-base --max-seq-length 64 --per-device-train-batch-size 4'
    'demo --model demo --per-device-train-batch-size 8'
    'tiny-llama --model tiny-llama --per-device-train-batch-size 8'
    'tiny-bert --model tiny-bert --per-device-train-batch-size 8'
    'mlp --model mlp --per-device-train-batch-size 64'
    'gru --model gru --max-seq-length 128 --per-device-train-batch-size 4'
    'lstm --model lstm --max-seq-length 128 --per-device-train-batch-size 4'
)

step_ms() { # PROGRAM OPTIONS..: ms of a step, the median of what the program repeats
    local program=$1
    shift
    "$program" bench step --threads "${THREADS:-1}" --json "$@" 2>/dev/null |
        grep -oE '"ms_per_step": [0-9.]+' | grep -oE '[0-9.]+$'
}

{
    echo "$(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'), ${THREADS:-1} thread(s), $(date +%F)"
    echo
    echo "| step | A least | A median | B least | B median | B / A |"
    echo "|---|---|---|---|---|---|"
    for row in "${rows[@]}"; do
        [[ $row =~ ${ROWS:-.} ]] || continue
        read -r -a words <<<"$row"
        times_a=()
        times_b=()
        for ((visit = 0; visit < visits; visit++)); do
            order=(a b)
            ((visit % 2 == 0)) || order=(b a)
            for side in "${order[@]}"; do
                program=$first
                [[ $side == a ]] || program=$second
                ms=$(step_ms "$program" "${words[@]:1}")
                [[ -n $ms ]] || { echo "| ${words[0]} | does not run: $program |"; continue 3; }
                if [[ $side == a ]]; then times_a+=("$ms"); else times_b+=("$ms"); fi
            done
        done
        printf '%s\n' "${times_a[@]}" | sort -g >/tmp/steps.$$.a
        printf '%s\n' "${times_b[@]}" | sort -g >/tmp/steps.$$.b
        awk -v name="${words[0]}" -v n="$visits" 'FNR == 1 { file++ } { t[file, FNR] = $1 }
            END { m = int((n + 1) / 2)
                  printf "| %s | %.1f | %.1f | %.1f | %.1f | %.3f |\n", name, t[1, 1], t[1, m], t[2, 1],
                      t[2, m], t[2, 1] / t[1, 1] }' /tmp/steps.$$.a /tmp/steps.$$.b
    done
    rm -f /tmp/steps.$$.*
} >"$output"
