#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs every fuzz target of a build for some seconds from its committed corpus: run.sh BUILD SECONDS.
# New inputs are kept under BUILD/corpus, and so is what made a target fail.
build=${1:-build/fuzz}
seconds=${2:-30}
failed=0
for target in "$build"/tests/fuzz/fuzz_*; do
    [[ -x $target && $target != *.[do] ]] || continue
    name=${target##*/fuzz_}
    mkdir -p "$build/corpus/$name"
    echo "fuzz_$name: $seconds s"
    if ! "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
        -verbosity=0 -artifact_prefix="$build/corpus/$name-" "$build/corpus/$name" \
        "tests/fuzz/corpus/$name"; then
        failed=1
    fi
done
exit $failed
