#!/bin/bash
# SPDX-License-Identifier: MIT
# Lines and branches that the tests run, of the counters that `make sanitize` left: prints them per folder,
# writes build/coverage/html, and fails below the thresholds. Ends with `N passed, N failed`, one for each
# folder. `make coverage` runs the tests first.
#
# The counters are clang's of the source as it is written, so that neither the optimiser nor the sanitizers
# change what is counted. Forms of kernels that this processor cannot run are left out of the count, and
# named. A line that no run can reach is marked LCOV_EXCL_LINE with the reason beside it.
cd "$(dirname "$0")/../.." || exit 1
build=build/sanitize
out=build/coverage
# No other version reads what this clang's programs wrote.
profdata=$(clang -print-prog-name=llvm-profdata)
cov=$(clang -print-prog-name=llvm-cov)
for tool in "$profdata" "$cov" genhtml; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed: make deps"; exit 1; }
done
[[ -n $(find $build/raw -name '*.profraw' 2>/dev/null | head -1) ]] || {
    echo "no counters in $build/raw: make coverage runs the tests that leave them"
    echo "0 passed, 1 failed"
    exit 1
}
rm -rf $out
mkdir -p $out

folders=(arena core layers optim tools/formats tools/bedplate tools/ptxvm device/host device/fabric
    device/cuda)
left_out='^$'
for feature in avx2 avx512f:avx512 amx_bf16:amx; do
    grep -qw "${feature%:*}" /proc/cpuinfo && continue
    left_out+="|_${feature#*:}[_.]"
    echo "left out, this processor lacks it: ${feature#*:}"
done

# One object that has everything of the library once: files that no program links show nothing run instead of
# vanishing.
echo 'int main(void) { return 0; }' >$out/whole.c
{
    find $build/raw -name '*.profraw' >$out/list &&
        $profdata merge -sparse -f $out/list -o $out/all.profdata &&
        clang -fsanitize=address,undefined -fprofile-instr-generate $out/whole.c \
            -Wl,--whole-archive $build/libbedplate.a -Wl,--no-whole-archive -l:libutf8proc.a -l:libz.a \
            -l:libzstd.a -lm -lpthread -ldl -o $out/whole &&
        counted=("$out/whole" -object "$build/bedplate" -object "$build/ptxvm/libcuda.so.1"
            "-instr-profile=$out/all.profdata" "-compilation-dir=$PWD") &&
        $cov export "${counted[@]}" -format=lcov >$out/all.info &&
        $cov export "${counted[@]}" -format=text -skip-functions -skip-expansions >$out/branches.json
} 2>$out/coverage.log || { tail -20 $out/coverage.log; echo "0 passed, 1 failed"; exit 1; }

tools/check/coverage_merge.py $out/all.info $out/branches.json "$left_out" "${folders[@]}" >$out/coverage.info ||
    { echo "0 passed, 1 failed"; exit 1; }
genhtml --branch-coverage --quiet -o $out/html $out/coverage.info >>$out/coverage.log 2>&1

# Per folder: lines and branches found and hit. LF, LH, BRF and BRH close each file's record. The
# rooms of core are counted as one; a folder that is new has the strictest thresholds.
awk -F: -v root="$PWD/" '
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
    }' $out/coverage.info
