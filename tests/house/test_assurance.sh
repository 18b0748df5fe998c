#!/bin/bash
# SPDX-License-Identifier: MIT
# The tools of tests/assurance, as far as they go without a prover and without a build of their own: units of proofs
# fit the tree, a unit that does not is refused, and a tool that is missing is named and leaves no earlier report.
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() {
    if [[ $2 == "$3" ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s: %s, not %s\n' "$1" "$2" "$3"
    fi
}

out=$(tests/assurance/prove.py texts)
check "every unit of proofs fits the tree: $out" $? 0

# A copy of the tree's part that is enough for the tool.
mkdir -p "$work/tests/assurance" "$work/tests/support" "$work/tools/bedplate"
cp -r tests/assurance/proofs tests/assurance/prove.py "$work/tests/assurance"
cp tests/support/plan_checker.* "$work/tests/support"
cp tools/bedplate/event_file.* "$work/tools/bedplate"
cp -r arena core "$work"
sed -i 's/b > a) ? BP_SIZE_INVALID/a < b) ? BP_SIZE_INVALID/' "$work/arena/base.h"
out=$("$work/tests/assurance/prove.py" texts 2>&1)
check "a unit whose function has changed is seen" $? 1
check "and named" "$(grep -c 'size.proof.*b > a.*bp_size_sub' <<<"$out")" 1
mkdir -p "$work/build/prove" "$work/bin"
touch "$work/build/prove/report.txt"
ln -s "$(command -v env)" "$work/bin"
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/bin/python3"
out=$(PATH=$work/bin "$work/tests/assurance/prove.py")
check "without its tools it ends well" $? 0
check "says so" "$(grep -c '^skipped: .*frama-c-base' <<<"$out")" 1
check "and leaves no report of an earlier build" "$(find "$work/build/prove" -type f | wc -l)" 0

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
