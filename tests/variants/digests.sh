#!/bin/bash
# SPDX-License-Identifier: MIT
# digests.sh VARIANT..: the same 20 steps leave the same state, bit for bit, as in the build that ships,
# in each of these: clang, without optimisation, under AddressSanitizer and UBSan (with
# the search for leaks), and for aarch64 under qemu-user; with every form of kernels and 1, 2 and 5 threads.
# VARIANT-best: the best form on two threads alone. For riscv64 under qemu-user once: its build is freestanding, one thread and the portable form.
# `table`: five models after 1,000 steps with the program, against release.digests (release_digests.sh); `vectors`: with
# the forms of vectors alone.
# verifies device-2.69b0
cd "$(dirname "$0")/../.." || exit 1
. tests/assurance/missing.sh
target=tests/house/digest
export LLVM_PROFILE_FILE=/dev/null # the sanitizers' build counts what it runs: not here
passed=0
failed=0
wanted=''

# compare VARIANT: builds it, runs it, compares every line's digest.
compare() {
    local name=${1%-best} build=build/${1%-best} runner='' only=() out line
    [[ $1 != *-best ]] || only=(best 2)
    case $name in
    clang)
        command -v clang >/dev/null || { lacks_tool 'clang is not installed'; return; }
        ;;
    aarch64)
        if ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
            lacks_tool 'no aarch64 compiler or no qemu-user'
            return
        fi
        # Registers of SVE as most processors have them: with 2,048 bits of its own choice QEMU takes many times as long.
        runner="qemu-aarch64 -cpu max,sve-max-vq=2"
        ;;
    riscv64)
        if ! command -v qemu-riscv64 >/dev/null || ! command -v riscv64-linux-gnu-gcc >/dev/null; then
            lacks_tool 'no riscv64 compiler or no qemu-user'
            return
        fi
        runner=qemu-riscv64
        only=(best 1)
        ;;
    esac
    if ! out=$(env -u BUILD make -s VARIANT="$name" "$build/$target" 2>&1); then
        echo "$name: does not build: $out"
        failed=$((failed + 1))
        return
    fi
    if ! out=$($runner "$build/$target" "${only[@]}" 2>&1) || [[ -z $out ]]; then
        echo "$name: does not run: $out"
        failed=$((failed + 1))
        return
    fi
    while read -r line; do
        # shellcheck disable=SC2086
        set -- $line
        wanted=${wanted:-$3}
        if [[ $3 == "$wanted" ]]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$name, form $1, $2 threads: state digest $3, loss $4; $wanted elsewhere"
        fi
    done <<<"$out"
}

# compare_table PLATFORM: what release_digests.sh counts.
compare_table() {
    local out more not
    out=$(tests/variants/release_digests.sh "$1" 2>&1)
    read -r more not < <(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' <<<"$out")
    passed=$((passed + ${more:-0})) failed=$((failed + ${not:-1}))
    [[ ${not:-1} -eq 0 ]] || echo "$out"
}

for variant in release "$@"; do
    case $variant in
    table) compare_table x86 ;;
    vectors) compare_table x86-vectors ;;
    *) compare "$variant" ;;
    esac
done
echo "all state digests: $wanted"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && ($passed -gt 0 || ${OPTIONAL:-} == 1) ]]
