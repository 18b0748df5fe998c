#!/bin/bash
# SPDX-License-Identifier: MIT
# GPT-2 124M on this machine's CPU: PyTorch (torch_step.py: eager, compiled) beside bedplate, in turns, in
# one sitting; time of a step and bytes.
#
#     tools/bench/torch.sh [THREADS [ROUNDS [BATCHxSEQUENCE..]]]
#
# Needs torch and transformers for its python3. Bytes are PyTorch's largest resident size beyond that of its
# interpreter and libraries, and bedplate's arena.
set -eu
threads=${1:-$(nproc)}
rounds=${2:-2}
shapes=("${@:3}")
[[ ${#shapes[@]} -gt 0 ]] || shapes=(4x64 8x256 1x1024)
here=$(dirname "$0")
bedplate=${BUILD:-build/release}/bedplate

# The median of the numbers on standard input.
median() {
    sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

field() {
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$2" | median
}

# Runs every program once on a shape; each adds a line to a file of its own.
once() {
    local batch=$1 sequence=$2 dir=$3
    local common=(--batch "$batch" --sequence "$sequence" --threads "$threads")
    "$here/torch_step.py" "${common[@]}" 2>/dev/null >>"$dir/PyTorch"
    "$here/torch_step.py" "${common[@]}" --compile 2>/dev/null >>"$dir/PyTorch, compiled"
    "$bedplate" bench step --model gpt2 --per-device-train-batch-size "$batch" --max-seq-length "$sequence" \
        --threads "$threads" --dropout 0 --json >>"$dir/bedplate"
}

printf '| GPT-2 124M, fp32, %d threads | ms per step | tokens per second | bytes |\n|---|---|---|---|\n' "$threads"
for shape in "${shapes[@]}"; do
    batch=${shape%x*}
    sequence=${shape#*x}
    dir=$(mktemp -d)
    for ((round = 0; round < rounds; round++)); do
        once "$batch" "$sequence" "$dir"
    done
    for program in PyTorch "PyTorch, compiled" bedplate; do
        bytes=$(field peak_bytes "$dir/$program")
        [[ $bytes ]] || bytes=$(field arena_bytes "$dir/$program")
        awk -v name="$batch x $sequence, $program" -v ms="$(field ms_per_step "$dir/$program")" -v bytes="$bytes" \
            -v tokens="$((batch * sequence))" \
            'BEGIN { printf "| %s | %.0f | %.0f | %.0f |\n", name, ms, 1e3 * tokens / ms, bytes }'
    done
    rm -r "$dir"
done
