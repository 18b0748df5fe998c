#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs every test program of a build and every tests/*/test_*.sh, two at a time, each with a
# temporary folder of its own in TMPDIR; ends with `N passed, N failed`.
#
#   tests/run.sh BUILD short      the test programs alone
#   tests/run.sh BUILD variant    also the scripts, but for those that make builds of their own
#
# A test is an executable that prints cmocka's closing lines, or a line `N passed, N failed`; a line
# `skipped: REASON` is passed on. BP_TEST_SHORT=1 asks tests to keep the number of steps low.
build=${1:-build/release}
kind=${2:-all}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Scripts that call make start it anew.
unset MAKEFLAGS MAKELEVEL MFLAGS

# Runs one test and writes its line to result.N, its output on failure to output.N.
run_one() {
    local number=$1 test=$2 p f rc start elapsed
    local out=$work/output.$number
    mkdir -p "$work/tmp.$number"
    start=$EPOCHREALTIME
    BUILD=$build TMPDIR=$work/tmp.$number timeout 7200 "$test" >"$out" 2>&1 </dev/null
    rc=$?
    elapsed=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    rm -rf "$work/tmp.$number"
    # cmocka says "[  PASSED  ] 5 test(s)." and "[  FAILED  ] 1 test(s), ..."; scripts say it plainly.
    p=$(grep -aoE '^\[  PASSED  \] [0-9]+ test|^[0-9]+ passed' "$out" | grep -oE '[0-9]+' |
        awk '{ n += $1 } END { print n + 0 }')
    f=$(grep -aoE '^\[  FAILED  \] [0-9]+ test|passed, [0-9]+ failed' "$out" |
        grep -oE '[0-9]+ (test|failed)' | awk '{ n += $1 } END { print n + 0 }')
    # A program that died or ran nothing is a failure even if it counted none.
    if [[ $rc -ne 0 && $f -eq 0 ]] || [[ $((p + f)) -eq 0 ]]; then f=$((f + 1)); fi
    [[ $rc -ne 124 ]] || echo "stopped after two hours" >>"$out"
    printf '%-48s %4d passed, %d failed%s\n' "${test#"$build"/}" "$p" "$f" \
        "$(awk -v s="$elapsed" 'BEGIN { if (s > 2) printf "   %6.1f s", s }')" >"$work/line.$number"
    grep -a '^skipped: ' "$out" | sed 's/^/    /' >>"$work/line.$number"
    [[ $f -eq 0 ]] || grep -avE '^\[ (RUN|      OK) ' "$out" | tail -40 >>"$work/line.$number"
    cat "$work/line.$number"
    echo "$p $f" >"$work/result.$number"
}
export -f run_one
export build work

# Scripts come first: they take longest.
case $kind in
all) scripts=$(compgen -G 'tests/*/test_*.sh') ;;
variant) scripts=$(compgen -G 'tests/*/test_*.sh' | grep -v '^tests/house/') ;;
esac
programs=$(find "$build/tests" -name 'test_*' -type f | grep -vE '\.[a-z]+$' | LC_ALL=C sort)
number=0
for t in $scripts $programs; do
    [[ -x $t && -f $t ]] || continue
    # A program whose source is gone is left over from an earlier build.
    [[ $t == *.sh || -f ${t#"$build"/}.c ]] || continue
    number=$((number + 1))
    printf '%s\0%s\0' "$number" "$t"
done | xargs -0 -r -n 2 -P "${JOBS:-2}" bash -c 'run_one "$1" "$2"' run_one

read -r passed failed < <(cat "$work"/result.* 2>/dev/null |
    awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
