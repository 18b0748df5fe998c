#!/bin/bash
# SPDX-License-Identifier: MIT
# The tools of tests/assurance, as far as they go without a prover and without a build of their own: units of proofs
# fit the tree, a unit that does not is refused, and a tool that is missing is named and leaves no earlier report.
# The second opinion on MC/DC reads what gcov 14.2 and llvm-cov 19 said of a small file (assurance/sample).
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
mkdir -p "$work/tests/assurance" "$work/tests/fixtures/plans" "$work/tools/bedplate/record"
cp -r tests/assurance/proofs tests/assurance/prove.py "$work/tests/assurance"
cp tests/fixtures/plans/plan_checker.* "$work/tests/fixtures/plans"
cp tools/bedplate/record/event_file.* "$work/tools/bedplate/record"
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
check "without its tools it fails" "$? $(tail -1 <<<"$out")" '1 0 passed, 1 failed'
check "names them, and the way round" "$(grep -cE '^missing: .*frama-c-base|^try: OPTIONAL=1' <<<"$out")" 2
out=$(PATH=$work/bin OPTIONAL=1 "$work/tests/assurance/prove.py")
check "OPTIONAL=1 skips it" "$? $(grep -c '^skipped: .*frama-c-base' <<<"$out") $(tail -1 <<<"$out")" '0 1 0 passed, 0 failed'
check "and leaves no report of an earlier build" "$(find "$work/build/prove" -type f | wc -l)" 0

# What gcc 14 says beside clang, in a tree of the sample alone, with tools that say what they said of it.
tree=$work/gcc
mkdir -p "$tree"/{arena,core,optim,layers,tools/formats,device/host,tests/assurance,build/mcdc,build/mcdc-gcc/arena} "$work/tools-14"
cp tests/assurance/mcdc_gcc.* tests/assurance/mcdc_conditions.awk tests/assurance/missing.sh "$tree/tests/assurance"
for ending in c h; do cp tests/assurance/sample/decisions.$ending.txt "$tree/arena/decisions.$ending"; done
printf '#!/bin/sh\necho 14.2.0\n' >"$work/tools-14/gcc-14"
printf '#!/bin/sh\ncat "%s"\n' "$work/gcov.json" >"$work/tools-14/gcov-14"
chmod +x "$work"/tools-14/*
cp tests/assurance/sample/gcov.json "$work"
touch "$tree/build/mcdc-gcc/arena/decisions.gcno"
cat >"$tree/tests/assurance/mcdc.justified" <<'J'
# as the list of the tree
arena/decisions.c:decisions_count `a < 2` contract: neither shows it
arena/decisions.c:decisions_count `c == 1` tool: only clang needs it
J
second() { out=$(PATH=$work/tools-14:$PATH "$tree/tests/assurance/mcdc_gcc.sh" "${@:-report}" 2>&1) && rc=0 || rc=$?; }
second
check "what gcc says alone: $out" "$rc $(grep -c '^nothing to compare with: no results of make mcdc' <<<"$out")" "0 1"
check "outcomes of arena" "$(cut -f 1-7 "$tree/build/mcdc-gcc/summary.tsv" | grep '^arena')" "$(printf 'arena\t31\t42\t73.8 %%\t10\t20\t50.0 %%')"
check "of an inline function, by two objects" "$(grep -c $'decisions.h\tdecisions_inline\t11\t1 of 2\t[12]\t1\t1$' "$tree/build/mcdc-gcc/conditions.tsv")" 2
check "of a decision that clang cannot measure" "$(grep $'\t27\t' "$tree/build/mcdc-gcc/conditions.tsv" | cut -f 4-)" \
    "$(printf '1 of 3\t%s\n' $'1\t1\t1' $'2\t1\t0' $'3\t1\t0')"
cp "$tree/build/mcdc-gcc/conditions.tsv" "$work/conditions.tsv"
tac tests/assurance/sample/gcov.json >"$work/gcov.json"
second
check "whichever object comes first" "$rc $(cmp "$work/conditions.tsv" "$tree/build/mcdc-gcc/conditions.tsv" 2>&1)" "0 "
sed "s|^/tree/|$tree/|" tests/assurance/sample/mcdc.txt >"$tree/build/mcdc/mcdc.txt"
second
check "where the compilers differ" "$rc $(cut -f 1,3,4,5 "$tree/build/mcdc-gcc/differences.tsv" | sed 1d)" "0 $(
    printf '%s\t%s\t%s\t%s\n' arena/decisions.c:20 'c == 1' 'gcc alone' 'tool: only clang needs it' \
        arena/decisions.c:31 'd < 7' 'clang alone, gcc lacks false' '' arena/decisions.h:11 'b == 1' 'gcc alone' '')"
check "compared, clang alone, gcc alone, justified" "$(grep '^arena' "$tree/build/mcdc-gcc/summary.tsv" | cut -f 8-)" "$(printf '17\t1\t2\t1')"
sed -i '/(23:30) to/,/Coverage for Decision/d' "$tree/build/mcdc/mcdc.txt"
second
check "a line of which clang has one decision and gcc two" "$(grep '^arena' "$tree/build/mcdc-gcc/summary.tsv" | cut -f 8-) $(grep -c '^2 conditions of clang' <<<"$out")" "$(printf '13\t1\t2\t0 1')"
touch -d '1 hour' "$tree/arena/decisions.c"
second
check "clang's results of older sources are not compared" "$rc $(grep -c 'older than arena/decisions.c' <<<"$out") $(ls "$tree"/build/mcdc-gcc/*.tsv | wc -l)" "0 1 2"
printf '#!/bin/sh\n' >"$work/tools-14/make"
mkdir -p "$tree/build/mcdc-gcc/tests/unit"
printf '#!/bin/sh\necho "[  PASSED  ] 3 test(s)."\n' >"$tree/build/mcdc-gcc/tests/unit/test_good"
printf '#!/bin/sh\necho "[  PASSED  ] 2 test(s)."\necho "[  FAILED  ] 1 test(s), listed below:"\nexit 1\n' >"$tree/build/mcdc-gcc/tests/unit/test_bad"
printf '#!/bin/sh\nexit 9\n' >"$tree/build/mcdc-gcc/tests/unit/test_dead"
chmod +x "$work/tools-14/make" "$tree"/build/mcdc-gcc/tests/unit/test_*
second again tests/unit/test_good.c
check "a program run again" "$rc $(tail -1 <<<"$out")" "0 4 passed, 0 failed"
second again tests/unit/test_good tests/unit/test_bad
check "one of them fails" "$rc $(tail -1 <<<"$out") $(grep -c '^failed: .*test_bad$' <<<"$out")" "1 6 passed, 1 failed 1"
mkdir -p "$tree/tests/unit"
touch "$tree"/tests/unit/test_{good,bad}.c "$tree/build/mcdc-gcc/arena/decisions.gcda"
cp tests/run.sh "$tree/tests"
second all
check "all programs of the tree" "$rc $(tail -1 <<<"$out") $(grep -c '^failed: .*test_bad$' <<<"$out") $(find "$tree" -name '*.gcda')" "1 6 passed, 1 failed 1 "
second again tests/unit/test_dead
check "one of them dies" "$rc $(tail -1 <<<"$out")" "1 1 passed, 1 failed"
: >"$work/gcov.json"
second
check "that nothing was measured is a failure" "$rc $(tail -1 <<<"$out")" "1 0 passed, 1 failed"
ln -s "$(command -v dirname)" "$(command -v rm)" "$work/bin"
out=$(PATH=$work/bin "$tree/tests/assurance/mcdc_gcc.sh")
check "without gcc 14 it fails and leaves nothing of before" "$? $(grep -c '^missing: .*Debian 13: gcc-14' <<<"$out") $(find "$tree/build/mcdc-gcc" -name '*.tsv' | wc -l)" "1 1 0"
out=$(PATH=$work/bin OPTIONAL=1 "$tree/tests/assurance/mcdc_gcc.sh")
check "OPTIONAL=1 skips it" "$? $(grep -c '^skipped: .*Debian 13: gcc-14' <<<"$out")" "0 1"
# Goals of other folders: a compiler without ThreadSanitizer, no debootstrap.
printf '#!/bin/sh\nexit 1\n' >"$work/bin/gcc"
chmod +x "$work/bin/gcc"
for tool in bash mktemp id unshare chroot; do ln -sf "$(command -v $tool)" "$work/bin"; done
for goal in variants/threads.sh house/bare.sh; do
    out=$(PATH=$work/bin tests/$goal 2>&1)
    check "$goal without its tools" "$? $(grep -c '^missing: ' <<<"$out") $(tail -1 <<<"$out")" '1 1 0 passed, 1 failed'
    out=$(PATH=$work/bin OPTIONAL=1 tests/$goal 2>&1)
    check "$goal with OPTIONAL=1" "$? $(grep -c '^skipped: ' <<<"$out") $(tail -1 <<<"$out")" '0 1 0 passed, 0 failed'
done

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
