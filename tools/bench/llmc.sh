#!/bin/bash
# SPDX-License-Identifier: MIT
# GPT-2 124M, 4 x 64 tokens, fp32, on this machine's CPU: karpathy/llm.c's train_gpt2 beside bedplate, in
# turns, in one sitting.
#
#     tools/bench/llmc.sh LLMC [THREADS [ROUNDS]]
#
# LLMC is a checkout whose own Makefile has built train_gpt2 with OpenMP and which holds what that
# program reads: gpt2_124M.bin and a token file. Its first step is left out, as is ours.
set -eu
llmc=$1
threads=${2:-$(nproc)}
rounds=${3:-2}
bedplate=$(realpath "${BUILD:-build/release}/bedplate")
theirs=()
ours=()

median() {
    printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

for ((round = 0; round < rounds; round++)); do
    while read -r ms; do
        theirs+=("$ms")
    done < <(cd "$llmc" && OMP_NUM_THREADS=$threads timeout "${LLMC_SECONDS:-75}" stdbuf -oL ./train_gpt2 |
        sed -n 's/^step [1-9][0-9]*: train loss .* (took \([0-9.]*\) ms)$/\1/p')
    ours+=("$("$bedplate" bench step --model gpt2 --per-device-train-batch-size 4 \
        --max-seq-length 64 --threads "$threads" --dropout 0 --json |
        sed -n 's/.*"ms_per_step": \([0-9.]*\).*/\1/p')")
done
a=$(median "${theirs[@]}")
b=$(median "${ours[@]}")
printf '| program | ms per step | tokens per second |\n|---|---|---|\n'
awk -v a="$a" -v b="$b" 'BEGIN {
    printf "| llm.c train_gpt2 | %.0f | %.0f |\n| bedplate | %.0f | %.0f |\n", a, 256e3 / a, b, 256e3 / b
    printf "ratio %.2f\n", a / b }'
