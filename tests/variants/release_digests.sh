#!/bin/bash
# SPDX-License-Identifier: MIT
# release_digests.sh [PLATFORM..]: 1,000 steps of five small models leave the states whose digests release.digests has.
# Platforms, `x86` where none is named:
#   x86             `bedplate train` with each form of kernels that this processor has
#   x86-vectors     without the portable form, which takes most of the time
#   sm_80, sm_90a   `bedplate train --device cuda` on the PTX interpreter: an hour of processor time each
#   another         a core of boards.sh, whose trainers are compared: cortex-m7, aarch64, riscv64
#   write           makes the table: x86 with portable kernels, and sm_80
# Every platform but a GPU has one digest for a model. A GPU sums products in another order, and has its own.
# verifies device-2.69b0
cd "$(dirname "$0")/../.." || exit 1
. tests/assurance/missing.sh
. tests/variants/models.sh
unset MAKEFLAGS MAKELEVEL BUILD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table=tests/variants/release.digests
models='mlp cnn gru gpt decoder'
passed=0
failed=0

# digest_after NAME OPTION..: of 1,000 steps by the program.
digest_after() {
    local name=$1 data
    shift
    local -n of_model=$name
    data=$(data_of "$name")
    rm -rf "$work/run"
    build/release/bedplate train --model "$work/$name-model" "${of_model[@]}" --max-steps 1000 --data "$data" \
        --data-format "$([[ $data == *.csv ]] && echo auto || echo bytes)" --quiet --json --output-dir "$work/run" "$@" |
        sed -n 's/.*"state_digest": "\([^"]*\)".*/\1/p'
}

# judge NAME DEVICE WHERE DIGEST
judge() {
    local right
    right=$(digest_of_release "$1" "$2")
    if [[ -n $4 && $4 == "$right" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$1 on $3: state digest: found ${4:-none}, expected ${right:-none} ($table)"
    fi
}

# lacks FORM: this processor has no such kernels (exit code 7).
lacks() {
    build/release/bedplate train --model "$work/mlp-model" --data "$work/rows.csv" --max-steps 1 --quiet --kernels "$1" \
        --output-dir "$work/lacks" >/dev/null 2>&1
    [[ $? -eq 7 ]]
}

# on_x86 FORM..
on_x86() {
    local form name
    for form in "$@"; do
        lacks $form && { echo "skipped: this processor has no $form"; continue; }
        for name in $models; do judge "$name" host "$form" "$(digest_after "$name" --kernels $form)"; done
    done
}

on_gpu() {
    local name
    for name in $models; do judge "$name" cuda "$1" "$(gpu_digest "$1" "$name")"; done
}

# gpu_digest TARGET NAME
gpu_digest() {
    PTXVM_DEVICE=${1%a} LD_LIBRARY_PATH=$PWD/build/release/ptxvm digest_after "$2" --device cuda
}

write_table() {
    {
        echo "# What 1,000 steps of the models in models.sh leave: model, device, state digest (release_digests.sh write)."
        echo "# Bedplate $(sed -n 's/^#define BP_VERSION "\(.*\)"$/\1/p' core/base/version.h), $(date -u +%F)."
        for name in $models; do
            echo "$name host $(digest_after "$name" --kernels portable)"
            echo "$name cuda $(gpu_digest sm_80 "$name")"
        done
    } >"$work/table" && mv "$work/table" $table
}

make_inputs
make -s all build/release/ptxvm/libcuda.so.1 >/dev/null || exit 1
for platform in "${@:-x86}"; do
    case $platform in
    write) write_table ;;
    x86) on_x86 portable avx2 avx512 ;;
    x86-vectors) on_x86 avx2 avx512 ;;
    sm_*) on_gpu "$platform" ;;
    *)
        read -r more not < <(tests/variants/boards.sh long "$platform" | tee /dev/stderr | tail -1 |
            sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')
        passed=$((passed + ${more:-0})) failed=$((failed + ${not:-1}))
        ;;
    esac
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && ($passed -gt 0 || ${OPTIONAL:-} == 1) ]]
