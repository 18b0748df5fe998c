#!/bin/bash
# SPDX-License-Identifier: MIT
# `make nightly`: what .ci/run has no time for. nightly.sh GOAL.. runs the goals one after the other, whatever becomes of
# each, and ends with `N passed, N failed`. Where all of them passed, and every file was and is that of the commit,
# build/nightly.stamp has the commit in its first line and what passed in its second: `make kit` wants it.
cd "$(dirname "$0")/.." || exit 1
stamp=build/nightly.stamp
# An earlier night says nothing about this one.
rm -f $stamp
of_commit() { [[ -z $(git status --porcelain 2>&1) ]] && git rev-parse HEAD; }
commit=$(of_commit)
export FUZZ_SECONDS=${FUZZ_SECONDS:-60} # of each target; ten where somebody waits
# Nobody waits: nothing is left out.
unset BP_GOALS_MINUTES
mkdir -p build
tests/goals.sh "$@" | tee build/nightly.log
rc=${PIPESTATUS[0]}
counts=$(tail -1 build/nightly.log)
if [[ $rc -ne 0 ]]; then
    echo "no $stamp: not everything passed"
elif [[ -z $commit || $(of_commit) != "$commit" ]]; then
    echo "no $stamp: what was tested is no commit, git status names the changes"
else
    printf '%s\n' "$commit" "$(date -u +%F): $counts" >$stamp
    echo "$stamp: $commit"
fi
echo "$counts"
exit "$rc"
