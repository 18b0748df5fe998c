#!/bin/bash
# SPDX-License-Identifier: MIT
# `make coverage`: builds with counters, runs the library's tests in their short form, prints lines
# and branches per folder, writes build/coverage/html, and fails below the thresholds.
#
# Forms of kernels that this processor cannot run are left out of the count, and named.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL
build=build/coverage
options='--rc lcov_branch_coverage=1 --rc geninfo_auto_base=0 --quiet'
command -v lcov >/dev/null || { echo "lcov is not installed: make deps"; exit 1; }

# Counters of an earlier run would be added up, and those of other sources refused.
find $build -name '*.gcda' -delete 2>/dev/null
rm -rf $build/html $build/*.info
# The library is not optimised, so that every branch of the source is one in the count; the kernels
# of device/host, of which only lines are asked, are, or they would not end in time.
make -s -j2 VARIANT=coverage unit || exit 1
BP_TEST_SHORT=1 tests/run.sh $build short >$build/tests.log 2>&1 || {
    cat $build/tests.log
    echo "a test fails in the coverage build"
    # Thresholds are still of interest, but the verdict is given.
    broken=1
}

folders=(arena core layers optim tools/formats device/host device/cuda)
left_out=()
grep -qw avx2 /proc/cpuinfo || left_out+=('*_avx2.*')
grep -qw avx512f /proc/cpuinfo || left_out+=('*_avx512.*')
[[ ${#left_out[@]} -eq 0 ]] || echo "left out, this processor lacks them: ${left_out[*]}"
directories=()
for f in "${folders[@]}"; do [[ -d $build/$f ]] && directories+=(--directory "$build/$f"); done
# Objects whose source is gone would be looked for in vain.
find $build -name '*.gcno' | while read -r note; do
    source=${note#"$build"/}
    source=${source%.gcno}
    source=${source%_bf16} # several builds of one source
    source=${source%_f16}
    [[ -f $source.c ]] || rm -f "$note" "${note%.gcno}.gcda"
done
# shellcheck disable=SC2086
{
    lcov $options --capture --initial "${directories[@]}" --base-directory . \
        --no-external -o $build/none.info &&
        lcov $options --capture "${directories[@]}" --base-directory . --no-external \
            -o $build/some.info &&
        lcov $options -a $build/none.info -a $build/some.info -o $build/all.info &&
        lcov $options --remove $build/all.info '*/tests/*' '*/tools/bedplate/*' \
            "${left_out[@]}" -o $build/coverage.info
} >$build/lcov.log 2>&1 || { tail -20 $build/lcov.log; exit 1; }
genhtml --branch-coverage --quiet -o $build/html $build/coverage.info >>$build/lcov.log 2>&1

# Per folder: lines and branches found and hit. LF, LH, BRF and BRH close each file's record.
awk -F: -v root="$PWD/" '
    BEGIN {
        count = split("arena core layers optim tools/formats device/host device/cuda", order, " ")
        least["device/host"] = 95
        least["device/cuda"] = 97
        printf "%-16s %18s %20s\n", "folder", "lines", "branches"
    }
    function share(hit, found) { return found ? 100 * hit / found : 100 }
    /^SF:/ {
        path = substr($0, 4)
        sub(root, "", path)
        folder = path
        sub(/\/[^\/]*$/, "", folder)
        if (folder == "device") folder = "device/host"
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
            device = f in least
            low = l < (device ? least[f] : 98) || (!device && b < 90)
            printf "%-16s %5d/%5d %5.1f %%  %5d/%5d %5.1f %%%s\n", f, line_hits[f], lines[f], l,
                branch_hits[f], branches[f], b, low ? "   FAILED" : ""
            if (low) { printf "%s", missed[f]; failed++ } else passed++
        }
        print "required: lines 98 % and branches 90 % in each; device/host lines 95 %, device/cuda 97 %"
        print "report: build/coverage/html/index.html"
        print passed + 0 " passed, " failed + 0 " failed"
        exit failed > 0
    }' $build/coverage.info || exit 1
[[ -z ${broken:-} ]]
