#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs every test of a build and every tests/*/test_*.sh, each in a process of its own (of the tests of a
# folder that are one program, tests/suite.c, too), four at a time (JOBS; many do little but wait), each
# with a temporary folder of its own in TMPDIR; names the slowest and ends with `N passed, N failed`.
#
#   tests/run.sh BUILD programs   the tests in C alone
#   tests/run.sh BUILD numbers    those of the host's kernels, of formats of numbers and of update rules
#   tests/run.sh BUILD cli        the scripts that run the program alone
#   tests/run.sh BUILD variant    both of these, without the scripts that make builds of their own
#   tests/run.sh BUILD memory     the share of `variant` in which a sanitizer finds most for its time: without the tests
#                                 of device/cuda, of the planner, of golden models and of whole trainings; of the
#                                 scripts those that drive the readers of files
#   tests/run.sh BUILD long       those that BP_TEST_LONG makes longer; what came of them goes to results-long.tsv
#
# BUILD/results.tsv has what came of each: source, case (of a script -), passed, failed or skipped; its
# first line is the SHA-256 of the program that was tested. tests/assurance/tracing.py joins it to the requirements.
#
# A test is an executable that prints cmocka's closing lines, or a line `N passed, N failed`; a line
# `skipped: REASON` is passed on, and with exit code 77 it is all that a test has to say.
# PTX_COVERED names the tests of which BUILD/ptx-coverage gets what they execute of the kernels' PTX.
# BP_TEST_SHORT=1 asks tests to keep the number of steps low, BP_TEST_WHOLE=1 to leave out nothing for its time alone, as
# BP_TEST_LONG=1 does.
build=${1:-build/release}
kind=${2:-all}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Scripts that call make start it anew.
unset MAKEFLAGS MAKELEVEL MFLAGS
# Against a test that would never end, and far from any that does: the slowest takes a minute on a
# quiet machine, four under a sanitizer. A busy machine is no failure.
limit=7200

# A python3 that is a shell script (pyenv's) finds its interpreter anew at each start, in 37 processes: once is enough.
if interpreter=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) && [[ -x $interpreter ]]; then
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec %s "$@"\n' "'$interpreter'" >"$work/bin/python3"
    chmod +x "$work/bin/python3"
    export PATH=$work/bin:$PATH
fi

# Runs one test and writes its line to result.N, its output on failure to output.N.
run_one() {
    local number=$1 test=$2 name p f rc
    local out=$work/output.$number TIMEFORMAT='%R %U %S'
    local command=("$test")
    [[ $test != *.sh ]] || command=(bash "$test") # whatever its mode: a script is never left out
    [[ $suites != *" $test "* ]] || command=("${test%/*}/suite" "${test##*/}")
    name=${test#"$build"/tests/}
    name=${name#tests/}
    mkdir -p "$work/tmp.$number"
    unset PTXVM_COVERAGE
    # Tests beside each other keep the processors busy: several host threads of the instrument would take turns, and
    # locks. Those of the instrument itself have them.
    export PTXVM_THREADS=1
    [[ $test != "$build"/tests/ptxvm/* ]] || unset PTXVM_THREADS
    [[ " ${PTX_COVERED:-} " != *" $test "* ]] || export PTXVM_COVERAGE=$build/ptx-coverage/${test##*/}
    # Kernel cases and models allocate megabytes again and again. What was given back to the system returns with a fault a page,
    # a sixth of the time of tests/unit/device/cuda/test_kernels.c: the tests in C keep it.
    local kept=()
    [[ $test == *.sh ]] || kept=(env MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=2000000000 MALLOC_TOP_PAD_=16777216)
    { time BUILD=$build TMPDIR=$work/tmp.$number timeout "$limit" "${kept[@]}" "${command[@]}" >"$out" 2>&1 </dev/null; } \
        2>"$work/time.$number"
    rc=$?
    rm -rf "$work/tmp.$number"
    # Wall clock and processor time; the latter is what a test costs on a machine that is busy too.
    read -r elapsed processor < <(tail -1 "$work/time.$number" | awk '{ printf "%.1f %.1f\n", $1, $2 + $3 }')
    echo "$elapsed $processor $name" >"$work/slow.$number"
    # cmocka says "[  PASSED  ] 5 test(s)." and "[  FAILED  ] 1 test(s), ..."; scripts say it plainly.
    p=$(grep -aoE '^\[  PASSED  \] [0-9]+ test|^[0-9]+ passed' "$out" | grep -oE '[0-9]+' |
        awk '{ n += $1 } END { print n + 0 }')
    f=$(grep -aoE '^\[  FAILED  \] [0-9]+ test|passed, [0-9]+ failed' "$out" |
        grep -oE '[0-9]+ (test|failed)' | awk '{ n += $1 } END { print n + 0 }')
    # A program that died or ran nothing is a failure even if it counted none.
    if [[ $rc -ne 77 || $((p + f)) -ne 0 ]] || ! grep -qa '^skipped: ' "$out"; then
        if [[ $rc -ne 0 && $f -eq 0 ]] || [[ $((p + f)) -eq 0 ]]; then f=$((f + 1)); fi
    fi
    [[ $rc -ne 124 ]] || echo "stopped after $limit s" >>"$out"
    printf '%-48s %4d passed, %d failed%s\n' "$name" "$p" "$f" \
        "$(awk -v s="$elapsed" 'BEGIN { if (s > 2) printf "   %6.1f s", s }')" >"$work/line.$number"
    grep -a '^skipped: ' "$out" | sed 's/^/    /' >>"$work/line.$number"
    [[ $f -eq 0 ]] || grep -avE '^\[ (RUN|      OK) ' "$out" | tail -40 >>"$work/line.$number"
    cat "$work/line.$number"
    echo "$p $f $name" >"$work/result.$number"
    note_cases "$test" "$out" "$f" >"$work/cases.$number"
}

# Each case of a program by cmocka's words, or the whole where it is a script or never got so far.
note_cases() {
    local source=${1#"$build"/} out=$2 f=$3 whole=passed
    [[ $1 == *.sh ]] || source=$source.c
    [[ $f -eq 0 ]] || whole=failed
    [[ $whole == failed ]] || grep -qaE '^([0-9]+ passed|\[  PASSED  \] [1-9])' "$out" || whole=skipped
    printf '%s\t-\t%s\n' "$source" "$whole"
    [[ $1 == *.sh ]] || sed -nE "s|^\[       OK \] ([A-Za-z0-9_]+)\$|$source\t\1\tpassed|p
        s|^\[  FAILED  \] ([A-Za-z_][A-Za-z0-9_]*)\$|$source\t\1\tfailed|p
        s|^\[  SKIPPED \] ([A-Za-z_][A-Za-z0-9_]*)\$|$source\t\1\tskipped|p" "$out" | LC_ALL=C sort -u
}
export -f run_one note_cases
# What the suites of the folders have in them. A program of such a test that was made by itself may be older.
suites=' '$(find "$build/tests" -name suite -type f 2>/dev/null | while read -r suite; do
    "$suite" --list | sed "s|^|${suite%/*}/|"
done | tr '\n' ' ')' '
export build work limit suites

scripts=''
programs=''
case $kind in
all) scripts=$(find tests -name 'test_*.sh' | LC_ALL=C sort) ;;
cli | variant) scripts=$(find tests/cli -name 'test_*.sh' | LC_ALL=C sort) ;;
memory)
    scripts=$(printf "tests/cli/%s.sh\n" app/test_{bad_input,hostile,usage} \
        data/test_{bad_rows,columns,data,packed,pairs,predict,tokenize} images/test_{augment,images,prep})
    ;;
long) scripts=$(find tests -name 'test_*.sh' -exec grep -lE 'BP_TEST_LONG|long_form|other_kernels|same_bits|ptxvm' {} + | LC_ALL=C sort) ;;
esac
folders=.
[[ $kind != numbers ]] || folders='/(device/host|core/ops|optim)/'
# The planted faults have a goal of their own (make mutants); what includes these has a long form.
[[ $kind != long ]] || folders="/($(grep -rlE 'BP_TEST_LONG|(short_tables|fixtures/share|(model|bare|ranks)_fixture|spec_case)\.h' tests --include='test_*.c' |
    grep -v '/test_mutants\.c$' | sed 's|.*/||; s|\.c$||' | paste -sd '|'))\$"
left_out='^$'
[[ $kind != memory ]] || left_out='/(unit/device/cuda/|unit/core/plan/|unit/core/ir/verify/test_mutants$|unit/tools/bedplate/(runs|rollout)/|house/|ptxvm/'
[[ $kind != memory ]] || left_out+='|unit/core/run/test_(sharing|sharing_matrix|length_bucket|half_training|states)$|unit/device/fabric/test_mpi'
[[ $kind != memory ]] || left_out+='|unit/device/host/test_bare$|unit/layers/blocks/test_block$|golden/test_(images|families))'
[[ $kind == cli ]] ||
    programs=$({ find "$build/tests" -name 'test_*' -type f ! -name '*.*'; printf '%s\n' $suites; } |
        grep -E "$folders" | grep -vE "$left_out" | LC_ALL=C sort -u)
# The longest first, so that no processor waits for them at the end: as the last run of this build measured them,
# or as tests/longest has them.
ordered=$(for t in $scripts $programs; do
    name=${t#"$build"/tests/}
    echo "${name#tests/} $t"
done | awk -v longest=<({ sort -rn "$build/times.txt" | cut -d ' ' -f 3; cat tests/longest; } 2>/dev/null) '
    BEGIN { while ((getline name <longest) > 0) if (!(name in rank)) rank[name] = ++ranks }
    { print ($1 in rank ? rank[$1] : ranks + 1), $2 }' | sort -s -k 1,1n | cut -d ' ' -f 2)
number=0
for t in $ordered; do
    [[ -x $t && -f $t || $t == *.sh || $suites == *" $t "* ]] || continue
    # A test whose source is gone is left over from an earlier build.
    [[ $t == *.sh || -f ${t#"$build"/}.c ]] || continue
    number=$((number + 1))
    printf '%s\0%s\0' "$number" "$t"
done | xargs -0 -r -n 2 -P "${JOBS:-4}" bash -c 'run_one "$1" "$2"' run_one

{
    sha256sum <"$build/bedplate" 2>/dev/null | cut -d ' ' -f 1 | sed 's/^/# program /'
    cat "$work"/cases.* 2>/dev/null | LC_ALL=C sort -u
} >"$build/results$([[ $kind != long ]] || echo -long).tsv"

# What each cost: elapsed and processor seconds.
sort -k 2,2rn "$work"/slow.* >"$build/times.txt" 2>/dev/null
echo "slowest, in seconds: $(cat "$work"/slow.* 2>/dev/null | sort -rn | head -10 |
    awk '{ printf "%s%s %.0f (%.0f of processor)", (NR > 1 ? ", " : ""), $3, $1, $2 }'
    cat "$work"/slow.* 2>/dev/null | awk '{ s += $2 } END { printf "; all %.0f of processor", s }')"
awk '$2 > 0 { print "failed: " $3 }' "$work"/result.* 2>/dev/null
read -r passed failed < <(cat "$work"/result.* 2>/dev/null |
    awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
