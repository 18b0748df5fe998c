#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs make goals one after the other, whatever becomes of each, and adds up what their last counting
# lines say: goals.sh GOAL.. ends with a line for each goal and `N passed, N failed`.
#
# A goal that fails, or dies without a counting line, fails at least once; one that succeeds without
# such a line (`all`, `deps`) counts nothing. What a goal said is kept in build/ci/GOAL.log,
# how often it passed and failed in build/ci/GOAL.counts.
#
# With BP_GOALS_MINUTES=n goals that have not begun n minutes after the first are left out, by name: where
# a service ends what takes too long, a slow machine still gets an answer. A quiet one runs all.
cd "$(dirname "$0")/.." || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS
logs=build/ci
mkdir -p "$logs"
passed=0
failed=0
table=''

# Goals that run goals inherit the first one's beginning.
export BP_GOALS_BEGAN=${BP_GOALS_BEGAN:-$(date +%s)}

for name in "$@"; do
    start=$SECONDS
    rm -f "$logs/$name.counts"
    if [[ -n ${BP_GOALS_MINUTES:-} && $(($(date +%s) - BP_GOALS_BEGAN)) -ge $((BP_GOALS_MINUTES * 60)) ]]; then
        table+=$(printf 'make %-16s left out: %d minutes have passed' "$name" "$BP_GOALS_MINUTES")$'\n'
        continue
    fi
    echo "== make $name"
    make "$name" </dev/null 2>&1 | tee "$logs/$name.log"
    rc=${PIPESTATUS[0]}
    p=0
    f=0
    read -r p f < <(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$logs/$name.log" | tail -1 |
        sed 's/[a-z,]//g')
    [[ $rc -eq 0 || ${f:-0} -gt 0 ]] || f=1
    echo "${p:-0} ${f:-0}" >"$logs/$name.counts"
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-0}))
    line=$(printf 'make %-16s %6d passed, %d failed %8d s' "$name" "${p:-0}" "${f:-0}" $((SECONDS - start)))
    table+="$line"$'\n'
done
echo "== $*"
printf '%s' "$table"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
