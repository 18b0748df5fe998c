#!/bin/bash
# SPDX-License-Identifier: MIT
# `make mcdc`: modified condition/decision coverage by clang-19 of arena, core, optim, layers, tools/formats
# and device/host (its portable form).
# Builds with counters, runs the test programs in their short form, and prints for each folder how many
# conditions are shown to decide by themselves. Fails where more are missing than mcdc.open names or mcdc.missing
# allows, where a line of mcdc.justified or mcdc.open names a condition that is shown by now or that is not there,
# and where clang cannot measure a decision. Ends with `N passed, N failed`: the tests', and one for each folder.
#
# What the cases that carry a requirement show is counted apart (mcdc_cases.c): column "traced", for information.
#
#   mcdc.sh            all of it
#   mcdc.sh again P..  only these programs anew (tests/unit/core/run/test_feed), beside what the others left
#   mcdc.sh report     without running anything: what the counters say now
#   mcdc.sh list       the conditions that are missing, in the form of mcdc.justified
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL
. tests/assurance/missing.sh
build=build/mcdc
here=tests/assurance
conditions=$build/conditions.tsv
# What an earlier build said is of no account any more.
rm -f "$conditions" $build/conditions_traced.tsv $build/mcdc.txt
for tool in clang-19 llvm-profdata-19 llvm-cov-19; do
    command -v $tool >/dev/null && continue
    missing_tool "$tool is not installed (Debian: clang-19 llvm-19 libclang-rt-19-dev); no MC/DC was measured"
done
passed=0
failed=0

if [[ ${1:-} != report && ${1:-} != list ]]; then
    programs=''
    if [[ ${1:-} == again ]]; then
        programs=${*:2}
        programs=$(printf "$build/%s " ${programs//.c/})
        for p in $programs; do
            name=${p#"$build"/}
            rm -f $build/raw/*/"${name//\//_}"-*.profraw
        done
    else
        rm -rf $build/raw
    fi
    mkdir -p $build/raw/traced $build/raw/other
    python3 $here/tracing.py traced >$build/traced
    # shellcheck disable=SC2086
    make -s VARIANT=mcdc ${programs:-all tests} 2>$build/warnings || {
        grep -E 'error|Error' $build/warnings | head
        echo "0 passed, 1 failed"
        exit 1
    }
    # A decision that is not measured would be missing without a word. Its object goes, so that the
    # next build warns again.
    while IFS=: read -r file line _; do
        case $file in arena/* | core/* | optim/* | layers/* | tools/formats/* | device/host/*) ;; *) continue ;; esac
        echo "$file:$line: clang-19 cannot measure this decision; take its inner part out and name it"
        rm -f "$build/${file%.c}.o"
        failed=$((failed + 1))
    done < <(grep -a 'unsupported MC/DC boolean expression' $build/warnings | sort -u)
    export LLVM_PROFILE_FILE=$PWD/$build/raw/%4m.profraw BP_TEST_SHORT=1 BP_TEST_WHOLE=1
    if [[ ${1:-} == again ]]; then
        for p in $programs; do BUILD=$build $p 2>&1; done |
            awk '/^\[  (PASSED|FAILED)  \] [0-9]+ test/ { n[$2] += $4 } { print } END { print n["PASSED"] + 0 " passed, " n["FAILED"] + 0 " failed" }' \
                >$build/programs.log
    else
        tests/run.sh $build programs >$build/programs.log 2>&1 || grep -a '^failed: ' $build/programs.log
    fi
    read -r p f < <(tail -1 $build/programs.log | sed 's/[a-z,]//g')
    passed=$((passed + p))
    failed=$((failed + f))
fi

# One object that has everything once: files that no test links show nothing instead of vanishing.
echo 'int main(void) { return 0; }' >$build/whole.c
# An inline function of a header is counted for each file that has it, the unit tests' own among them: it is
# the same source, so what is shown in one is shown.
once() {
    awk -F'\t' '$1 ~ /\.h$/ && $5 == 0 { held[$1 FS $2 FS $3 FS $4] = $0; next }
        { print; if ($5 == 1) shown[$1 FS $2 FS $3 FS $4] }
        END { for (key in held) if (!(key in shown)) print held[key] }' | sort
}
own=$(find $build/tests/unit/arena $build/tests/unit/core -name 'test_*.o' 2>/dev/null | sort | sed 's/^/-object /' | tr '\n' ' ')
# show FOLDER TEXT CONDITIONS: what the counters below a folder say.
show() {
    find "$1" -name '*.profraw' >$build/raw/list &&
        llvm-profdata-19 merge -sparse -f $build/raw/list -o $build/all.profdata &&
        # shellcheck disable=SC2086
        llvm-cov-19 show $build/whole $own -instr-profile=$build/all.profdata -show-mcdc \
            -show-instantiations=false -compilation-dir="$PWD" >"$2" &&
        awk -v root="$PWD" -f $here/mcdc_conditions.awk "$2" | sort -u | once >"$3"
}
{
    clang-19 -fprofile-instr-generate $build/whole.c -Wl,--whole-archive $build/libbedplate.a \
        -Wl,--no-whole-archive -l:libutf8proc.a -l:libz.a -l:libzstd.a -lm -lpthread -ldl -o $build/whole &&
        show $build/raw/traced $build/traced.txt $build/conditions_traced.tsv &&
        rm -f $build/traced.txt &&
        show $build/raw $build/mcdc.txt "$conditions"
} 2>$build/mcdc.log || {
    tail -5 $build/mcdc.log
    echo "$passed passed, $((failed + 1)) failed"
    exit 1
}
if [[ ${1:-} == list ]]; then
    awk -F'\t' '$5 == 0 { print $1 ":" $2 " `" $4 "`" }' "$conditions"
    exit 0
fi
awk -F'\t' -v passed=$passed -v failed=$failed -v here=$here -f $here/mcdc_gate.awk \
    $build/conditions_traced.tsv "$conditions"
