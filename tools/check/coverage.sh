#!/bin/bash
# SPDX-License-Identifier: MIT
# `make coverage`: builds with counters, runs the test programs in their short form and the scripts
# that run the program, prints lines and branches per folder, writes build/coverage/html, and fails
# below the thresholds. Ends with `N passed, N failed`: the tests' and one for each folder.
#
#   coverage.sh report    without running anything: what the counters say now
#
# Forms of kernels that this processor cannot run are left out of the count, and named. A line that
# no run can reach is marked LCOV_EXCL_LINE with the reason beside it.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL
build=build/coverage
options='--rc lcov_branch_coverage=1 --rc geninfo_auto_base=0 --quiet'
command -v lcov >/dev/null || { echo "lcov is not installed: make deps"; exit 1; }
passed=0
failed=0

# tests KIND: runs them; what they say is shown when one fails. Thresholds are still of interest then.
tests() {
    local p f
    BP_TEST_SHORT=1 tests/run.sh $build "$1" >"$build/$1.log" 2>&1 || {
        cat "$build/$1.log"
        echo "a test fails in the coverage build"
    }
    read -r p f < <(tail -1 "$build/$1.log" | sed 's/[a-z,]//g')
    passed=$((passed + p))
    failed=$((failed + f))
    echo "$1: $(tail -1 "$build/$1.log")"
    grep '^slowest' "$build/$1.log"
}

rm -rf $build/html $build/*.info
if [[ ${1:-} != report ]]; then
    # Counters of an earlier run would be added up, and those of other sources refused.
    find $build -name '*.gcda' -delete 2>/dev/null
    # The library is not optimised, so that every branch of the source is one in the count; the
    # kernels of device/host and tools/ptxvm, of which only lines are asked, are, or they would not
    # end in time.
    make -s VARIANT=coverage all tests || { echo "0 passed, 1 failed"; exit 1; }
    tests programs
    tests cli
fi

folders=(arena core layers optim tools/formats tools/bedplate tools/ptxvm device/host device/fabric
    device/cuda)
left_out=()
grep -qw avx2 /proc/cpuinfo || left_out+=('*_avx2.*')
grep -qw avx512f /proc/cpuinfo || left_out+=('*_avx512.*')
grep -qw amx_bf16 /proc/cpuinfo || left_out+=('*_amx_*')
[[ ${#left_out[@]} -eq 0 ]] || echo "left out, this processor lacks them: ${left_out[*]}"
directories=()
for f in "${folders[@]}"; do [[ -d $build/$f ]] && directories+=(--directory "$build/$f"); done
# Objects whose source is gone would be looked for in vain.
find $build -name '*.gcno' | while read -r note; do
    source=${note#"$build"/}
    source=${source%.gcno}
    source=${source%_bf16} # several builds of one source
    source=${source%_f16}
    case $source in tools/ptxvm/arith_portable | tools/ptxvm/arith_wide) source=tools/ptxvm/arith ;; esac
    [[ -f $source.c ]] || rm -f "$note" "${note%.gcno}.gcda"
done
# shellcheck disable=SC2086
{
    lcov $options --capture --initial "${directories[@]}" --base-directory . \
        --no-external -o $build/none.info &&
        lcov $options --capture "${directories[@]}" --base-directory . --no-external \
            -o $build/some.info &&
        lcov $options -a $build/none.info -a $build/some.info -o $build/all.info &&
        lcov $options --remove $build/all.info "$PWD/tests/*" "${left_out[@]}" -o $build/coverage.info
} >$build/lcov.log 2>&1 || { tail -20 $build/lcov.log; echo "$passed passed, $((failed + 1)) failed"; exit 1; }
genhtml --branch-coverage --quiet -o $build/html $build/coverage.info >>$build/lcov.log 2>&1

# Per folder: lines and branches found and hit. LF, LH, BRF and BRH close each file's record. The
# rooms of core are counted as one; a folder that is new has the strictest thresholds.
awk -F: -v root="$PWD/" -v passed=$passed -v failed=$failed '
    BEGIN {
        least["device/host"] = 95
        least["device/cuda"] = 97
        least["tools/bedplate"] = 95
        least["tools/ptxvm"] = 95
        printf "%-16s %18s %20s\n", "folder", "lines", "branches"
    }
    function share(hit, found) { return found ? 100 * hit / found : 100 }
    /^SF:/ {
        path = substr($0, 4)
        sub(root, "", path)
        parts = split(path, part, "/")
        folder = part[1]
        if (parts > 2 && folder != "core") folder = folder "/" part[2]
        if (folder == "device") folder = "device/host"
        if (!(folder in lines)) order[++count] = folder
        lines[folder] += 0
    }
    /^LF:/ { lines[folder] += $2; if ($2) file_lines = $2 }
    /^LH:/ { line_hits[folder] += $2; if (file_lines > $2) missed[folder] = missed[folder] \
        sprintf("    %s: %d lines not run\n", path, file_lines - $2); file_lines = 0 }
    /^BRF:/ { branches[folder] += $2 }
    /^BRH:/ { branch_hits[folder] += $2 }
    END {
        for (i = 1; i <= count; i++) {
            f = order[i]
            l = share(line_hits[f], lines[f])
            b = share(branch_hits[f], branches[f])
            lines_only = f in least
            low = l < (lines_only ? least[f] : 98) || (!lines_only && b < 90)
            printf "%-16s %5d/%5d %5.1f %%  %5d/%5d %5.1f %%%s\n", f, line_hits[f], lines[f], l,
                branch_hits[f], branches[f], b, low ? "   FAILED" : ""
            if (low) { printf "%s", missed[f]; failed++ } else passed++
        }
        print "required: lines 98 % and branches 90 % in each; device/host, tools/bedplate and " \
            "tools/ptxvm lines 95 %, device/cuda 97 %"
        print "report: build/coverage/html/index.html"
        if (count == 0) { print "no folder was counted"; failed++ }
        print passed + 0 " passed, " failed + 0 " failed"
        exit failed > 0
    }' $build/coverage.info
