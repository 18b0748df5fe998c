#!/bin/bash
# SPDX-License-Identifier: MIT
# `make mutation-requirements` on a tree of one function: which faults it plants, whose cases count, what a list excuses,
# and lines of lists that are found nowhere.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS TRACING_ROOT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
count() { # RC NAME [TEXT]
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $2"
        head -20 <<<"${3:-}"
    fi
}

# Lines of the lists that have moved away are named where they are changed, not on another night.
out=$(tests/assurance/mutate_requirements.py check 2>&1)
count $? "every line of tests/assurance/faults and mutation.survivors is in the code, once" "$out"

tree=$work/tree
mkdir -p "$tree"/{core,tests/unit/core,tests/assurance/requirements,build/release/{core,tests/unit/core}}
cp tests/assurance/{mutate,mutate_programs,mutate_requirements,tracing}.py tests/assurance/mutant_* "$tree/tests/assurance"
cp tests/suite.{h,sh} "$tree/tests"
echo '# none' >"$tree/tests/assurance/mutation.survivors"
cat >"$tree/core/sum.c" <<'C'
#define SUM_TRY(wrong) do { if (wrong) { return -1; } } while (0) /* a statement, which no expression can have in it */
int sum_within(int a, int b, int most);
int sum_within(int a, int b, int most)
{
    SUM_TRY(most < 0);
    int sum = a + b;
    if (sum > most) {
        return most;
    }
    return sum;
}
C
cat >"$tree/tests/assurance/requirements/sum.req" <<'R'
DERIVED sum: a reason
DERIVED most: a reason

REQ sum-1 test: The sum of two numbers is returned.
  in core/sum.c

REQ most-1 test: A sum above the most is the most.
  in core/sum.c
R
cites='/* verifies' # not this script's own
tag() { (cd "$tree" && python3 tests/assurance/tracing.py list "$1" | cut -d ' ' -f 1); }
cat >"$tree/tests/unit/core/test_sum.c" <<C
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
int sum_within(int a, int b, int most);

$cites $(tag sum-1) */
static void sums(void **state)
{
    (void)state;
    assert_int_equal(sum_within(1, 2, 10), 3);
}

$cites $(tag most-1) */
static void the_most(void **state)
{
    (void)state;
    assert_int_equal(sum_within(8, 8, 10), 10);
}

static void nobody_cites_this(void **state)
{
    (void)state;
    assert_int_equal(sum_within(-1, 1, 10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(the_most),
                                       cmocka_unit_test(nobody_cites_this)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
C
cat >"$tree/Makefile" <<'M'
objects:
	gcc -std=c99 -O2 -I. -c core/sum.c -o build/release/core/sum.o
	gcc -std=c99 -O2 -I. -c tests/unit/core/test_sum.c -o build/release/tests/unit/core/test_sum.o
	ar qc build/release/objects.a build/release/core/sum.o
M
make -s -C "$tree" objects
count $? "the tree builds"
plant() {
    out=$(cd "$tree" && EACH=20 SEED=1 python3 tests/assurance/mutate_requirements.py "$@" 2>&1)
    rc=$?
    report=$(cat "$tree/build/mutation-requirements/report.txt" 2>/dev/null)
}

# verifies kit-7.17cc
plant sum-1
[[ $report == *'seen sign core/sum.c:sum_within `a + b` => `a - b` tests/unit/core/test_sum.c'* ]]
count $? "a fault that its case sees" "$out"
[[ $report == *'other condition core/sum.c:sum_within `sum > most` => `false` most-1'* ]]
count $? "one that the case of another requirement of the file sees" "$report"
[[ $rc -eq 1 && $report == *'survived boundary core/sum.c:sum_within `sum > most` => `sum >= most`'*', 1 failed' ]]
count $? "one that none sees is a failure" "$rc $report"
mkdir "$tree/tests/assurance/faults"
list=$tree/tests/assurance/faults/sum.faults
printf '%s\n' '# a list' 'FAULTS sum-1' '  core/sum.c:sum_within `sum > most` => `sum >= most` same: the two are equal there' >"$list"
plant sum-1
[[ $rc -eq 0 && $report == *'justified boundary'*', 0 failed' ]]
count $? "unless a line says why" "$rc $report"
printf '%s\n' 'FAULTS sum-1' '  core/sum.c:sum_within `a + b` => `a - b` same: no' >"$list"
plant sum-1
[[ $rc -eq 1 && $report == *'survived sign '*'test_sum.c sees it: take the reason out'* ]]
count $? "a line whose fault is seen is a failure" "$rc $report"
# A case that no requirement cites is none of its evidence: the sum that is 0 alone tells this fault.
sed -i 's/assert_int_equal(sum_within(1, 2, 10), 3)/assert_int_equal(sum_within(5, 0, 10), 5)/' "$tree/tests/unit/core/test_sum.c"
rm -r "$list" "$tree/build/release/objects.a"
make -s -C "$tree" objects
plant sum-1 most-1
[[ $report == *'sum-1 other sign core/sum.c:sum_within `a + b` => `a - b` most-1'* ]]
count $? "a case that does not cite it does not count" "$report"

# What is open is looked for in the cases of others too; `keep` takes it out where these see it, and adds what was drawn.
printf '%s\n' 'FAULTS sum-1' '  core/sum.c:sum_within `a + b` => `a - b` open: yet to come' >"$list"
plant sum-1 most-1
[[ $report == *'sum-1 other sign core/sum.c:sum_within `a + b` => `a - b` most-1'* ]]
count $? "what is open meets the cases of others" "$report"
(cd "$tree" && python3 tests/assurance/mutate_requirements.py keep >/dev/null)
lines=$(cat "$tree"/tests/assurance/faults/*.faults)
[[ $lines != *'`a - b` open'* && $lines == *'FAULTS most-1'*'core/sum.c:sum_within `sum > most` => `false`'* ]]
count $? "and is kept no more" "$lines"
rm "$tree"/tests/assurance/faults/*.faults

# verifies kit-6.36b8
# refuses WORDS LINE..: such a list is refused.
refuses() {
    printf '%s\n' "${@:2}" >"$list"
    plant check
    [[ $rc -eq 1 && $out == *"$1"* ]]
    count $? "$1" "$rc $out"
}
printf '%s\n' 'FAULTS sum-1' '  core/sum.c:sum_within `a + b` => `a - b`' >"$list"
plant check
[[ $rc -eq 0 && $out == '1 faults of 1 requirements' ]]
count $? "a list that fits" "$rc $out"
refuses 'sum.faults:2: found 0 places in the code for core/sum.c:sum_within `a + c` => `a - c`' \
    'FAULTS sum-1' '  core/sum.c:sum_within `a + c` => `a - c`'
refuses 'FAULTS sum-9: there is no such requirement' 'FAULTS sum-9' '  core/sum.c:sum_within `a + b` => `a - b`'
refuses 'sum.faults:2: sum-1 does not name core/other.c' 'FAULTS sum-1' '  core/other.c:sum_within `a + b` => `a - b`'
refuses 'is listed twice' 'FAULTS sum-1' '  core/sum.c:sum_within `a + b` => `a - b`' '  core/sum.c:sum_within `a + b` => `a - b`'
refuses 'sum.faults:2: found core/sum.c:sum_within' 'FAULTS sum-1' '  core/sum.c:sum_within `a + b` => `a - b` because: so'
refuses 'sum-1 has a list already' 'FAULTS sum-1' '  core/sum.c:sum_within `a + b` => `a - b`' 'FAULTS sum-1'
echo 'core/sum.c:sum_within `a - b` => `a + b` same: so' >"$tree/tests/assurance/mutation.survivors"
refuses 'mutation.survivors: found 0 places in the code for core/sum.c:sum_within `a - b`' ''
echo '# none' >"$tree/tests/assurance/mutation.survivors"
sed -i 's/    return sum;/    sum = a + b;\n    return sum;/; s/int sum = a + b;/int sum;\n    sum = a + b;/' "$tree/core/sum.c"
refuses 'found 2 places in the code for core/sum.c:sum_within `sum = a + b`' 'FAULTS sum-1' '  core/sum.c:sum_within `sum = a + b` => `sum = a - b`'

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
