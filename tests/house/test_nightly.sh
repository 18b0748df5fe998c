#!/bin/bash
# SPDX-License-Identifier: MIT
# make nightly leaves a stamp with the commit where all of it passed and nothing else, and make kit wants it; what
# .ci/run leaves to it stands above its last line. In a tree of these scripts alone, whose goals say what they are told.
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v git >/dev/null || { echo "skipped: git is not installed"; exit 77; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
check() { # NAME FOUND WANTED
    if [[ $2 == "$3" ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s: %s, not %s\n' "$1" "$2" "$3"
    fi
}
mkdir -p "$tree"/{tests/assurance,.ci}
cp "$root"/tests/{goals,nightly}.sh "$tree/tests"
cp "$root/tests/assurance/kit.sh" "$tree/tests/assurance"
echo one >"$tree/file"
cp "$root/.ci/run" "$tree/.ci"
cd "$tree" || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS BUILD BEDPLATE_COMMIT BP_GOALS_MINUTES BP_GOALS_BEGAN
printf 'NIGHTLY := one more\n' >tests/tests.mk
cat >Makefile <<'M'
all deps check test ptx-covered test-variants:
	@echo "1 passed, 0 failed"
good one:
	@echo "2 passed, 0 failed"
bad:
	@echo "1 passed, 1 failed"; false
touches:
	@echo >>file; echo "1 passed, 0 failed"
M
echo /build/ >.gitignore
git init -q . && git add -A && git -c user.name=t -c user.email=t@t commit -qm one
commit=$(git rev-parse HEAD)
night() { out=$(tests/nightly.sh "$@" 2>&1) && rc=0 || rc=$?; stamp=$(cat build/nightly.stamp 2>/dev/null); }
kit() { out=$(tests/assurance/kit.sh 2>&1) && rc=0 || rc=$?; }

kit
check "no kit without a nightly" "$rc $(grep -c "^no kit: this is commit $commit, and make nightly has passed for none" <<<"$out") $(tail -1 <<<"$out")" "3 1 0 passed, 1 failed"
night good one
check "a night that passes" "$rc $(tail -1 <<<"$out") $(head -1 <<<"$stamp")" "0 4 passed, 0 failed $commit"
check "and what passed" "$(sed -n '2s/^[-0-9]*: //p' <<<"$stamp")" "4 passed, 0 failed"
kit
check "a kit goes on after it" "$rc $(grep -c '^no kit' <<<"$out") $(grep -c '^build/release/bedplate is not there' <<<"$out")" "1 0 1"
night good bad
check "a night that fails leaves none, not even the last one's" "$rc $(tail -1 <<<"$out") $stamp" "1 3 passed, 1 failed "
night missing good
check "a goal that is not there" "$rc $(tail -1 <<<"$out") $stamp" "1 2 passed, 1 failed "
night good
echo >>file
kit
check "no kit of changed files" "$rc $(grep -c "commit $commit, with changes, and make nightly has passed for $commit" <<<"$out")" "3 1"
night good
check "a night of changed files" "$rc $(tail -1 <<<"$out") $(grep -c '^no build/nightly.stamp: what was tested is no commit' <<<"$out") $stamp" "0 2 passed, 0 failed 1 "
git checkout -q file
night touches
check "a night that changes files" "$rc $(grep -c '^no build/nightly.stamp: what was tested is no commit' <<<"$out") $stamp" "0 1 "
git checkout -q file
night good
git -c user.name=t -c user.email=t@t commit -q --allow-empty -m two
kit
check "no kit of another commit" "$rc $(grep -c "commit $(git rev-parse HEAD), and make nightly has passed for $commit " <<<"$out")" "3 1"

out=$(.ci/run 2>&1) && rc=0 || rc=$?
check "what CI leaves, above its counts" "$rc $(tail -2 <<<"$out" | tr '\n' ';')" "0 left to make nightly: one more;6 passed, 0 failed;"
sed -i 's/^all deps check test ptx-covered test-variants:/&\n\t@exit 3/' Makefile
out=$(.ci/run 2>&1) && rc=0 || rc=$?
check "CI fails with its goals" "$rc $(tail -1 <<<"$out")" "1 0 passed, 6 failed"

# Every goal that CI leaves is one of the tree's, and none of them is run by CI as well.
for goal in $(sed -n 's/^NIGHTLY := //p' "$root/tests/tests.mk"); do
    grep -qE "^([a-z-]+ )*$goal( [a-z-]+)*:" "$root/tests/tests.mk"
    check "the goal $goal" $? 0
    ! sed -n 's/^VARIANTS := //p' "$root/tests/tests.mk" | tr ',/' '  ' | grep -qw -- "$goal " &&
        ! grep '^exec' "$root/.ci/run" | grep -qE " $goal( |\$)"
    check "$goal is left out by CI" $? 0
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
