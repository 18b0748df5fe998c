#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh BUILD SECONDS: for every fuzz target of a build, replays its committed corpus file by file
# under the sanitizers, then looks for new inputs from there for some seconds; two targets at a time.
# New inputs are kept under BUILD/corpus, and so is what made a target fail. Ends with
# `N passed, N failed`: one for each file replayed and one for each target's search.
build=${1:-build/fuzz}
seconds=${2:-30}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# An input that takes a minute is a finding: the slowest takes a tenth of a second.
options='-timeout=60 -rss_limit_mb=1024 -verbosity=0'

# One target: what it says is shown when it fails.
fuzz_one() {
    local target=$1 name=${1##*/fuzz_} p=0 f=0 file out seeds found
    out=$work/$name.out
    seeds=tests/fuzz/corpus/$name
    mkdir -p "$build/corpus/$name"
    # All at once; only where that fails one by one, to name the file.
    # shellcheck disable=SC2086
    if compgen -G "$seeds/*" >/dev/null && "$target" $options -artifact_prefix="$build/corpus/$name-" \
        "$seeds"/* >"$out" 2>&1; then
        p=$(grep -c '^Executed ' "$out")
    else
        for file in "$seeds"/*; do
            if "$target" $options -artifact_prefix="$build/corpus/$name-" "$file" >"$out" 2>&1; then
                p=$((p + 1))
            else
                f=$((f + 1))
                echo "fuzz_$name fails on $file:"
                tail -40 "$out"
            fi
        done
    fi
    # shellcheck disable=SC2086
    if "$target" $options -max_total_time="$seconds" -print_final_stats=1 \
        -artifact_prefix="$build/corpus/$name-" "$build/corpus/$name" "$seeds" >"$out" 2>&1; then
        p=$((p + 1))
        found=$(awk '/number_of_executed_units/ { n = $2 } /slowest_unit_time_sec/ { s = $2 }
            END { printf "%d inputs, the slowest %d s", n, s }' "$out")
    else
        f=$((f + 1))
        found='FAILED'
        tail -60 "$out"
    fi
    printf 'fuzz_%-14s %4d passed, %d failed   %s s: %s\n' "$name" "$p" "$f" "$seconds" "$found"
    echo "$p $f" >"$work/$name.count"
}
export -f fuzz_one
export build seconds work options

for target in "$build"/tests/fuzz/fuzz_*; do
    [[ -x $target && $target != *.[do] && -f ${target#"$build"/}.c ]] || continue
    printf '%s\0' "$target"
done | xargs -0 -r -n 1 -P "${JOBS:-2}" bash -c 'fuzz_one "$1"' fuzz_one

read -r passed failed < <(cat "$work"/*.count 2>/dev/null |
    awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
