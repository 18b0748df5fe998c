#!/bin/bash
# SPDX-License-Identifier: MIT
# `make gpu`: the tests of device/cuda against the machine's own driver, the benchmarks of its kernels and
# of the step of GPT-2 124M, PyTorch's beside them where python3 has it, and a short training run on each
# device. What comes out goes to tools/bench/results/gpu-DATE.txt line by line; what fails is said there
# and stops nothing else; what there is no time for is left out, with a word. With REHEARSE=1 the same in
# small on tools/ptxvm: the figures mean nothing, the file lies in the build.
#
#   [BEGAN=SECONDS] tests/gpu/run.sh BUILD      BEGAN: the time since 1970 that counts as the start
build=${1:-build/release}
rehearse=${REHEARSE:-0}
cd "$(dirname "$0")/../.." || exit 1
deadline=$((${BEGAN:-$(date +%s)} + ${SECONDS_MOST:-470}))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p tools/bench/results
result=tools/bench/results/gpu-$(date -u +%Y-%m-%d-%H%M).txt
failed=0
first='test_d*' # the benchmarks come before the tests of all rows, which take longest
last='test_[!d]*'
kernels=(4096 20)
model=gpt2
step=(--per-device-train-batch-size 8 --max-seq-length 1024)
beside=(--side 4096 --batch 8 --sequence 1024)
demo=(--model demo --max-seq-length 256 --per-device-train-batch-size 8)
steps=${STEPS:-100}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
# The driver compiles everything once, whatever is left of earlier runs, and keeps it for this one.
export CUDA_CACHE_PATH=$work/jit CUDA_CACHE_MAXSIZE=1073741824
[[ ! -d $build/lib ]] || export LD_LIBRARY_PATH=$PWD/$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [[ $rehearse -ne 0 ]]; then
    export LD_LIBRARY_PATH=$PWD/$build/ptxvm${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    result=$build/gpu-rehearsal.txt
    first='test_dr*'
    last='test_u*'
    kernels=(16 1)
    model=tiny
    step=(--per-device-train-batch-size 1 --max-seq-length 8)
    beside=(--side 16 --batch 1 --sequence 8)
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$PWD/$build/ptxvm/nccl PTXVM_DEVICES=2
    gpus=2
    demo=(--model tiny --max-seq-length 8 --per-device-train-batch-size 1)
    steps=2
fi

# limited SECONDS NAME COMMAND..: runs it for at most so long, and never past the end of all.
limited() {
    local most=$1 name=$2 left=$((deadline - $(date +%s))) rc
    shift 2
    if [[ $left -lt 5 ]]; then
        echo "LEFT OUT, no time: $name"
        failed=1
        return 1
    fi
    timeout -k 5 $((most < left ? most : left)) "$@" 2>&1
    rc=$?
    [[ $rc -ne 124 && $rc -ne 137 ]] || echo "TOOK TOO LONG: $name"
    [[ $rc -eq 0 ]] || failed=1
    return $rc
}

tests_on_the_driver() {
    local folder=$build/tests/unit/device/cuda test command began
    for test in $({ "$folder/suite" --list; ls "$folder" | grep -v '[.]'; } | LC_ALL=C sort -u); do
        # shellcheck disable=SC2053
        [[ $test == $1 ]] || continue
        command=("$folder/suite" "$test")
        "$folder/suite" --list | grep -qx "$test" || command=("$folder/$test")
        began=$(date +%s)
        if limited 150 "$test" env BP_TEST_GPU=1 "${command[@]}" >"$work/out"; then
            echo "ok      $test, $(($(date +%s) - began)) s"
        else
            echo "FAILED  $test"
            grep -v '^\[ *\(RUN\|OK\)' "$work/out" | tail -40 | sed 's/^/    /'
        fi
    done
}

benchmarks() {
    local precision
    echo "--- kernels"
    limited 120 kernels "$build/tools/bench/gpu_kernels" "${kernels[@]}" | tee "$work/kernels"
    [[ ${PIPESTATUS[0]} -eq 0 ]] || failed=1
    for precision in --bf16 --fp16 --fp32 "--fp32 --tf32"; do
        echo "--- a step of the preset $model, ${step[*]}, $precision"
        # shellcheck disable=SC2086
        limited 40 "step $precision" "$build/bedplate" bench step --model "$model" "${step[@]}" \
            --dropout 0 --device cuda --json $precision
    done
}

# PyTorch is no part of this: where it is missing that is said, and is no failure.
beside_pytorch() {
    echo "--- PyTorch on the same GPU, in the same run"
    echo "a rehearsal needs none" >"$work/out"
    if [[ $rehearse -ne 0 ]] || ! timeout 60 python3 -c 'import torch; torch.zeros(1).cuda()' 2>"$work/out"; then
        echo "left out: python3 has no PyTorch that sees a GPU ($(tail -1 "$work/out" 2>/dev/null))"
        return
    fi
    limited 150 PyTorch python3 -u tools/bench/torch_gpu.py "${beside[@]}" --kernels "$work/kernels"
}

training() {
    local device
    awk 'BEGIN { for (i = 0; i < 20000; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' \
        >"$work/text"
    for device in cuda host; do
        echo "--- $steps steps, ${demo[*]}, --device $device"
        limited 100 "training on $device" "$build/bedplate" train "${demo[@]}" --data "$work/text" \
            --max-steps "$steps" --logging-steps 25 --device "$device" --output-dir "$work/$device"
    done
}

# All GPUs of the machine (as many as a power of two says) joined by NCCL, or one rank of it: the state
# digest is that of one rank with as many lanes. A machine without NCCL is said, and no failure.
ranks_by_nccl() {
    local ranks=1 shard one several
    echo "--- ranks by NCCL"
    while ((2 * ranks <= gpus && ranks < 8)); do ranks=$((2 * ranks)); done
    local train=("$build/bedplate" train "${demo[@]}" --data "$work/text" --max-steps 4 --virtual-ranks "$ranks"
        --gradient-accumulation-steps "$ranks" --device cuda --json)
    one=$(limited 60 "one rank" "${train[@]}" --output-dir "$work/one" 2>&1 | grep -o '"state_digest": "[0-9a-f]*"')
    for shard in none gradients parameters; do
        several=$(limited 90 "$ranks ranks by NCCL" "${train[@]}" --fabric "nccl:$ranks" --shard $shard \
            --output-dir "$work/nccl-$shard" 2>&1 | tee "$work/out" | grep -o '"state_digest": "[0-9a-f]*"')
        grep -o '"fabric_bytes": [0-9]*' "$work/out"
        if grep -q 'NCCL cannot be loaded' "$work/out"; then
            echo "left out: no libnccl.so.2 that can be loaded"
            return
        fi
        if [[ -n $one && $one == "$several" ]]; then
            echo "ok      $ranks ranks by NCCL, --shard $shard"
        else
            failed=1
            echo "FAILED  $ranks ranks by NCCL, --shard $shard: $several, expected $one"
            grep '^bedplate' "$work/out" | sed 's/^/    /'
        fi
    done
}

{
    date -u
    git rev-parse --short HEAD 2>/dev/null
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    limited 60 devices "$build/bedplate" devices
    tests_on_the_driver "$first"
    benchmarks
    beside_pytorch
    tests_on_the_driver "$last"
    training
    ranks_by_nccl
    echo "failed: $failed"
} > >(tee "$result") 2>&1
wait $!
grep -q '^failed: 0$' "$result"
