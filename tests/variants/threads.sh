#!/bin/bash
# SPDX-License-Identifier: MIT
# ThreadSanitizer finds nothing in what shares memory among threads: the tests of the pool and of
# fabrics of threads, and 20 steps on 1, 2 and 5 threads. test_mpi is left out: it starts the system's MPI
# libraries, whose own locks the sanitizer complains of and which MPICH's does not survive.
# verifies device-8.373e
cd "$(dirname "$0")/../.." || exit 1
. tests/assurance/missing.sh
unset MAKEFLAGS MAKELEVEL # where it is a goal's: make would not know how many may work
build=build/tsan
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'int main(void) { return 0; }' >"$probe/probe.c"
# Some kernels place memory where the sanitizer does not expect it, unless told not to randomise.
for runner in '' 'setarch -R'; do
    # shellcheck disable=SC2086
    gcc -fsanitize=thread "$probe/probe.c" -o "$probe/probe" 2>/dev/null &&
        $runner "$probe/probe" 2>/dev/null && works=yes && break
done
[[ -n ${works:-} ]] || missing_tool 'ThreadSanitizer does not run on this machine (gcc with libtsan); no races were looked for'
programs=("$build/tests/house/digest")
while read -r source; do programs+=("$build/${source%.c}"); done < <(
    find tests/unit -name 'test_*.c' | grep -E '(pool|fabric|thread)' | grep -v 'fabric/test_mpi\.c' | sort)
env -u BUILD make -s VARIANT=tsan "${programs[@]}" || exit 1
passed=0
failed=0
for program in "${programs[@]}"; do
    # shellcheck disable=SC2086
    if out=$($runner "$program" best 2>&1) && [[ $out != *ThreadSanitizer* ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$program: $(tail -60 <<<"$out")"
    fi
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
