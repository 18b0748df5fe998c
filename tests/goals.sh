#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs make goals one after the other, whatever becomes of each, and adds up what their last counting
# lines say: goals.sh GOAL.. ends with a line for each goal and `N passed, N failed`.
#
#   goals.sh a b,c/d,e     a; then b and after it c, beside d and after it e: for goals that use one processor
#                          each and do not build in the same folder. They say what they have to say at their end.
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

# What BP_GOALS_LEFT names is said at the end to be left to `make nightly`; not by the goals that run goals.
left=${BP_GOALS_LEFT:-}
unset BP_GOALS_LEFT
# Goals that run goals inherit the first one's beginning.
export BP_GOALS_BEGAN=${BP_GOALS_BEGAN:-$(date +%s)} # no wait: goals are left out by it, by name

# run_goal NAME: leaves its log, its counts and its line of the table.
run_goal() {
    local name=$1 start=$SECONDS rc p=0 f=0
    rm -f "$logs/$name.counts"
    # limit: what is left out is no failure
    if [[ -n ${BP_GOALS_MINUTES:-} && $(($(date +%s) - BP_GOALS_BEGAN)) -ge $((BP_GOALS_MINUTES * 60)) ]]; then
        printf 'make %-16s left out: %d minutes have passed\n' "$name" "$BP_GOALS_MINUTES" >"$logs/$name.line"
        return
    fi
    echo "== make $name"
    make "$name" </dev/null 2>&1 | tee "$logs/$name.log"
    rc=${PIPESTATUS[0]}
    read -r p f < <(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$logs/$name.log" | tail -1 |
        sed 's/[a-z,]//g')
    [[ $rc -eq 0 || ${f:-0} -gt 0 ]] || f=1
    echo "${p:-0} ${f:-0}" >"$logs/$name.counts"
    printf 'make %-16s %6d passed, %d failed %8d s\n' "$name" "${p:-0}" "${f:-0}" $((SECONDS - start)) \
        >"$logs/$name.line"
}

# run_beside CHAIN/CHAIN..: chains of goals at the same time.
run_beside() {
    local chains name i
    IFS=/ read -ra chains <<<"$1"
    for i in "${!chains[@]}"; do
        for name in ${chains[i]//,/ }; do run_goal "$name"; done >"$logs/chain.$i" 2>&1 &
    done
    wait
    for i in "${!chains[@]}"; do cat "$logs/chain.$i"; done
    rm -f "$logs"/chain.*
}

passed=0
failed=0
table=''
for argument in "$@"; do
    if [[ $argument == */* ]]; then run_beside "$argument"; else run_goal "$argument"; fi
    for name in ${argument//[,\/]/ }; do
        table+=$(cat "$logs/$name.line")$'\n'
        [[ -f $logs/$name.counts ]] || continue
        read -r p f <"$logs/$name.counts"
        passed=$((passed + p))
        failed=$((failed + f))
    done
done
echo "== $*"
printf '%s' "$table"
[[ -z $left ]] || echo "left to make nightly: $left"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
