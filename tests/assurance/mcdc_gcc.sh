#!/bin/bash
# SPDX-License-Identifier: MIT
# `make mcdc-gcc`: a second opinion on what `make mcdc` says, by the condition coverage of gcc 14 or later.
# Builds with its counters, runs the test programs in their short form, and prints for each folder how many
# outcomes of conditions they show to decide (gcc counts a condition's true and its false), and where gcc and
# clang differ, if results of `make mcdc` for these sources are there (mcdc_gcc.py). It is for information: it
# fails where a test fails or nothing could be measured. Ends with `N passed, N failed`: tests, and the measurement.
#
#   mcdc_gcc.sh            all of it
#   mcdc_gcc.sh again P..  only these programs (tests/unit/core/run/test_feed): what they show is added to what
#                          is there; a file that was compiled anew begins with nothing
#   mcdc_gcc.sh report     without running anything: what the counters say now
cd "$(dirname "$0")/../.." || exit 1
. tests/assurance/missing.sh
unset MAKEFLAGS MAKELEVEL MFLAGS
build=build/mcdc-gcc
here=tests/assurance
folders='arena core optim layers tools/formats device/host'
# What an earlier build said is of no account any more.
rm -f $build/*.tsv
gcc=''
for name in gcc-14 gcc-15 gcc-16 gcc; do
    [[ $($name -dumpversion 2>/dev/null) =~ ^[0-9]+ && ${BASH_REMATCH[0]} -ge 14 ]] || continue
    gcov=${name/gcc/gcov}
    command -v "$gcov" >/dev/null && gcc=$name && break
done
if [[ -z $gcc ]]; then
    missing_tool 'no gcc of version 14 or later with its gcov is installed (Debian 13: gcc-14); no second opinion was measured'
fi
passed=0
failed=0

if [[ ${1:-} != report ]]; then
    programs=''
    if [[ ${1:-} == again ]]; then
        programs=${*:2}
        # shellcheck disable=SC2086
        programs=$(printf "$build/%s " ${programs//.c/})
    fi
    mkdir -p $build
    # shellcheck disable=SC2086
    make -s VARIANT=mcdc-gcc CC="$gcc" ${programs:-all tests} 2>$build/warnings || {
        grep -aE 'error|Error' $build/warnings | head
        echo "0 passed, 1 failed"
        exit 1
    }
    # What gcc gave up would be missing without a word. Its objects go, so that the next build warns again.
    grep -a 'Wcoverage-too-many-conditions' $build/warnings | grep -avE '_(avx2|avx512)\.[ch]:' | sort -u >$build/too_many
    while IFS=: read -r file _; do rm -f $build/"${file%.c}"{,_bf16,_f16}.o; done <$build/too_many
    export BP_TEST_SHORT=1 BP_TEST_WHOLE=1
    if [[ ${1:-} == again ]]; then
        for p in $programs; do
            BUILD=$build $p 2>&1 || echo "failed: $p"
        done >$build/programs.log
        read -r passed failed < <(awk '/^\[  (PASSED|FAILED)  \] [0-9]+ test/ { n[$2] += $4 } /^failed: / { bad++ }
            END { print n["PASSED"] + 0, (n["FAILED"] > bad + 0 ? n["FAILED"] : bad + 0) }' $build/programs.log)
    else
        find $build -name '*.gcda' -delete
        tests/run.sh $build programs >$build/programs.log 2>&1
        read -r passed failed < <(tail -1 $build/programs.log | sed 's/[a-z,]//g')
    fi
    grep -a '^failed: ' $build/programs.log
fi

# Counters of sources that have changed since would pass for those of today.
# shellcheck disable=SC2086
newer=$(find $folders -name '*.[ch]' -newer $build/libbedplate.a 2>/dev/null | sort | head -1)
if [[ ${1:-} == report && -n $newer ]]; then
    echo "the counters in $build are older than $newer: make mcdc-gcc"
    echo "0 passed, 1 failed"
    exit 1
fi

# Where the decisions of clang's results lie, if these are of the sources as they are.
clang=''
if [[ ! -s build/mcdc/mcdc.txt ]]; then
    echo "nothing to compare with: no results of make mcdc are here"
else
    # shellcheck disable=SC2086
    newer=$(find $folders -name '*.[ch]' -newer build/mcdc/mcdc.txt | sort | head -1)
    if [[ -n $newer ]]; then
        echo "nothing to compare with: the results of make mcdc are older than $newer"
    else
        clang=$build/clang.tsv
        awk -v root="$PWD" -v places=1 -f $here/mcdc_conditions.awk build/mcdc/mcdc.txt >$clang
    fi
fi
# An inline function of a header is counted in the unit tests of arena and core too, as `make mcdc` does.
# shellcheck disable=SC2086
notes=$(cd $build && find $folders tests/unit/arena tests/unit/core -name '*.gcno' 2>/dev/null | sort | sed "s|^|$build/|")
# shellcheck disable=SC2086
said=$("$gcov" --conditions --json-format --stdout $notes 2>$build/gcov.log | python3 $here/mcdc_gcc.py $build $clang 2>&1)
if [[ $? -eq 0 ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "$said"
[[ ! -s $build/too_many ]] || echo "not measured: $(wc -l <$build/too_many) decisions of more conditions than gcc counts ($build/too_many)"
echo "by $("$gcc" --version | head -1); conditions: $build/conditions.tsv${clang:+, what the compilers differ in: $build/differences.tsv}"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
