#!/bin/bash
# SPDX-License-Identifier: MIT
# `make gpu`: the tests of device/cuda against the machine's own driver, the benchmarks of its kernels
# and of the step of GPT-2 124M, and a short training run on each device; what came out goes to
# tools/bench/results/gpu-DATE.txt too. With REHEARSE=1 the same in small on tools/ptxvm: the figures
# mean nothing, the file lies in the build.
#
#   tests/gpu/run.sh BUILD
build=${1:-build/release}
rehearse=${REHEARSE:-0}
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p tools/bench/results
result=tools/bench/results/gpu-$(date -u +%Y-%m-%d-%H%M).txt
failed=0
tests='test_cuda_*'
kernels=(4096 20)
model=gpt2
step=(--per-device-train-batch-size 8 --max-seq-length 1024)
demo=(--model demo --max-seq-length 256 --per-device-train-batch-size 8)
steps=${STEPS:-100}
real=BP_TEST_GPU=1
if [[ $rehearse -ne 0 ]]; then
    export LD_LIBRARY_PATH=$PWD/$build/ptxvm
    result=$build/gpu-rehearsal.txt
    tests='test_cuda_dr*'
    kernels=(16 1)
    model=tiny
    step=(--per-device-train-batch-size 1 --max-seq-length 8)
    demo=(--model tiny --max-seq-length 8 --per-device-train-batch-size 1)
    steps=2
    real=
fi

# The longest of these takes seconds on a GPU.
tests_on_the_driver() {
    local test out
    for test in "$build"/tests/unit/$tests; do
        [[ -x $test && ! -d $test && $test != *.* ]] || continue
        out=$(env ${real:--u LD_LIBRARY_PATH} timeout 120 "$test" 2>&1)
        if [[ $? -eq 0 ]]; then
            echo "ok      ${test##*/}"
        else
            echo "FAILED  ${test##*/}"
            tail -20 <<<"$out" | sed 's/^/    /'
            failed=1
        fi
    done
}

benchmarks() {
    local precision
    echo "--- kernels"
    timeout 150 "$build/tools/bench/gpu_kernels" "${kernels[@]}" || failed=1
    for precision in --fp32 "--fp32 --tf32" --bf16 --fp16; do
        echo "--- a step of the preset $model, ${step[*]}, $precision"
        # shellcheck disable=SC2086
        timeout 60 "$build/bedplate" bench step --model "$model" "${step[@]}" --dropout 0 \
            --device cuda $precision || failed=1
    done
}

training() {
    local device
    awk 'BEGIN { for (i = 0; i < 20000; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' \
        >"$work/text"
    for device in host cuda; do
        echo "--- $steps steps, ${demo[*]}, --device $device"
        timeout 150 "$build/bedplate" train "${demo[@]}" --data "$work/text" --max-steps "$steps" \
            --logging-steps 25 --device "$device" --output-dir "$work/$device" 2>&1 || failed=1
    done
}

{
    date -u
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    timeout 120 "$build/bedplate" devices || failed=1
    tests_on_the_driver
    benchmarks
    training
    echo "failed: $failed"
} > >(tee "$result") 2>&1
wait
grep -q '^failed: 0$' "$result"
