#!/bin/bash
# SPDX-License-Identifier: MIT
# The same 20 steps leave the same state, bit for bit, whatever the build: gcc, clang, without
# optimisation as for coverage, under AddressSanitizer and UBSan, and for aarch64 under qemu-user;
# in each with every form of kernels and 1, 2 and 5 threads.
cd "$(dirname "$0")/../.." || exit 1
target=tests/house/digest
passed=0
failed=0
wanted=''

# compare VARIANT: builds it, runs it by $runner, compares every line's digest.
runner=''
compare() {
    local name=$1 build=build/$1 out line
    if ! out=$(make -s -j2 VARIANT="$name" BUILD="$build" "$build/$target" 2>&1); then
        echo "$name: does not build: $out"
        failed=$((failed + 1))
        return
    fi
    # shellcheck disable=SC2086
    if ! out=$($runner "$build/$target" 2>&1) || [[ -z $out ]]; then
        echo "$name: does not run: $out"
        failed=$((failed + 1))
        return
    fi
    while read -r line; do
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

compare release
if command -v clang >/dev/null; then compare clang; else echo "skipped: clang is not installed"; fi
compare sanitize
compare coverage
if command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null; then
    runner=qemu-aarch64
    compare aarch64
else
    echo "skipped: no aarch64 compiler or no qemu-user"
fi
echo "all state digests: $wanted"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
