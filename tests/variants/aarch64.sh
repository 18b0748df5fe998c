#!/bin/bash
# SPDX-License-Identifier: MIT
# aarch64.sh [short|long]: on aarch64, under qemu-user, the NEON form gives the bits of the portable one: the tests of
# kernels, 20 steps of training (digests.sh), and products in as few instructions as were promised. The short form leaves
# out the random calls of all kernels, products that take more than a few seconds here, and instructions of the portable
# form; it trains with the best form on two threads alone.
# verifies device-1.6909
cd "$(dirname "$0")/../.." || exit 1
. tests/assurance/missing.sh
unset MAKEFLAGS MAKELEVEL BUILD
passed=0
failed=0
tests=(device/host/test_isa device/host/vector/test_half device/host/elements/test_activation device/host/test_nf4 core/ops/test_codec_forms)
# The cases of a test that the short form runs, where that is not all of them.
declare -A cases=()
if [[ ${1:-} == short ]]; then
    tests=("${tests[@]:1}")
    cases[device/host/vector/test_half]='random_weights_have_their_masters all_forms_round_alike all_forms_widen_alike
        no_row_is_missing'
    cases[device/host/matmul/test_matmul_forms]='edges_of_tiles edges_of_blocks every_exponent few_rows_of_a_large_b
        workspace_of_nothing'
fi
[[ ${1:-} != long ]] || tests+=(device/host/attention/test_attention_forms)
if command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null; then
    [[ ${1:-} == long ]] || export BP_TEST_SHORT=1
    make -s VARIANT=aarch64 "${tests[@]/#/build/aarch64/tests/unit/}" \
        build/aarch64/tests/unit/device/host/matmul/test_matmul_forms || exit 1
    # With registers of SVE as most processors have them: qemu's own default of 2,048 bits is many times slower.
    for name in "${tests[@]}"; do
        if out=$(BP_TEST_CASES=${cases[$name]:-} qemu-aarch64 -cpu max,sve-max-vq=2 "build/aarch64/tests/unit/$name" 2>&1); then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$name: ${out: -2000}"
        fi
    done
    # A processor without products of bf16 widens them.
    name=device/host/test_isa
    if [[ ${1:-} == short ]]; then
        :
    elif out=$(BP_TEST_SHORT=1 qemu-aarch64 -cpu cortex-a76 "build/aarch64/tests/unit/$name" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name, Cortex-A76: ${out: -2000}"
    fi
    # Products of every form (NEON's too) with one width of SVE's registers; with three in the long form, which take minutes.
    widths=2
    [[ ${1:-} != long ]] || widths='1 2 4'
    for width in $widths; do
        name=device/host/matmul/test_matmul_forms
        short=1
        [[ ${1:-} != long || $width != 2 ]] || short=
        if out=$(env ${short:+BP_TEST_SHORT=1} BP_TEST_CASES="${cases[$name]:-}" qemu-aarch64 -cpu max,sve-max-vq=$width "build/aarch64/tests/unit/$name" 2>&1); then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$name, SVE of $((128 * width)) bits: ${out: -2000}"
        fi
    done
    # In hundredths: 38, and 51 where the compiler keeps sums in memory; plain C takes 177, and took 724. Of bf16 38, and
    # 47 where they are widened; by SVE of 256 bits 26, and 33. AdamW with states of 8 bits takes 4609 for a weight, and
    # 8804 as the compiler makes it of plain C.
    promised=('neon 96 45' 'neon 96 42 bf16' 'sve 96 30 bf16' 'neon 96 5200 block8')
    [[ ${1:-} == short ]] || promised+=('portable 96 190')
    for form in "${promised[@]}"; do
        # shellcheck disable=SC2086
        if out=$(CPU=max,sve-max-vq=2 tools/bench/instructions.sh $form); then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
        echo "$out"
    done
    # SVE is chosen where its registers are wider than NEON's.
    for form in 'neon 1' 'sve 2' 'sve 16'; do
        made=$(qemu-aarch64 -cpu "max,sve-max-vq=${form#* }" build/aarch64/tools/bench/instructions auto)
        if [[ $made == "${form% *}" ]]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "SVE of $((128 * ${form#* })) bits: \"$made\" is chosen, not ${form% *}"
        fi
    done
else
    lacks_tool 'no aarch64 compiler or no qemu-user'
fi
which=aarch64
[[ ${1:-} != short ]] || which=aarch64-best
out=$(tests/variants/digests.sh $which)
echo "$out"
read -r p f < <(tail -1 <<<"$out" | sed 's/[a-z,]//g')
echo "$((passed + ${p:-0})) passed, $((failed + ${f:-1})) failed"
[[ $((failed + ${f:-1})) -eq 0 ]]
