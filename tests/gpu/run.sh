#!/bin/bash
# SPDX-License-Identifier: MIT
# `make gpu`: the tests of device/cuda against the machine's own driver, and a short training run on
# each device; what came out goes to tools/bench/results/gpu-DATE.txt too.
#
#   tests/gpu/run.sh BUILD
build=${1:-build/release}
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p tools/bench/results
result=tools/bench/results/gpu-$(date -u +%Y-%m-%d-%H%M).txt
failed=0

# The longest of these takes seconds on a GPU.
tests_on_the_driver() {
    local test out
    for test in "$build"/tests/unit/test_cuda_*; do
        [[ -x $test && ! -d $test && $test != *.* ]] || continue
        out=$(BP_TEST_GPU=1 timeout 120 "$test" 2>&1)
        if [[ $? -eq 0 ]]; then
            echo "ok      ${test##*/}"
        else
            echo "FAILED  ${test##*/}"
            tail -20 <<<"$out" | sed 's/^/    /'
            failed=1
        fi
    done
}

training() {
    local device
    awk 'BEGIN { for (i = 0; i < 20000; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' \
        >"$work/text"
    for device in host cuda; do
        echo "--- 100 steps of the preset demo, batch 8 x 256, --device $device"
        timeout 150 "$build/bedplate" train --model demo --data "$work/text" --max-seq-length 256 \
            --per-device-train-batch-size 8 --max-steps "${STEPS:-100}" --logging-steps 25 \
            --device "$device" --output-dir "$work/$device" 2>&1 || failed=1
    done
}

{
    date -u
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    timeout 120 "$build/bedplate" devices || failed=1
    tests_on_the_driver
    training
    echo "failed: $failed"
} > >(tee "$result") 2>&1
wait
grep -q '^failed: 0$' "$result"
