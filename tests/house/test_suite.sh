#!/bin/bash
# SPDX-License-Identifier: MIT
# The tests of a folder as one program (tests/suite.sh, tests/suite.c) and what tests/run.sh makes of it: each test is
# a process of its own, names that are not there are refused by name, and a test that crashes is one failure.
root=$(cd "$(dirname "$0")/../.." && pwd)
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

mkdir -p "$tree"/tests/unit/part "$tree"/build/release/tests/unit/part
cp "$root"/tests/{run.sh,suite.*} "$tree/tests"
cd "$tree" || exit 1
unset MAKEFLAGS MAKELEVEL BUILD
part=tests/unit/part
suite=build/release/$part/suite
head='#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
'
# write NAME BODY CASE..: a test of these cases.
write() {
    local name=$1 body=$2
    shift 2
    {
        echo "$head$body"
        echo 'int main(void) { const struct CMUnitTest tests[] = {'
        printf 'cmocka_unit_test(%s),\n' "$@"
        echo '}; return cmocka_run_group_tests(tests, NULL, NULL); }'
    } >"$part/$name.c"
}
# Both define `shared`, each its own.
write test_one 'int shared(void) { return 1; }
static void one_is_one(void **state) { (void)state; assert_int_equal(shared(), 1); }
static void one_is_less(void **state) { (void)state; assert_true(shared() < 2); }' one_is_one one_is_less
write test_two 'int shared(void) { return 2; }
static void two_is_two(void **state) { (void)state; assert_int_equal(shared(), 2); }
static void two_is_three(void **state) { (void)state; assert_int_equal(shared(), 3); }' two_is_two two_is_three
write test_crash 'static void fine(void **state) { (void)state; }
static void it_aborts(void **state) { (void)state; abort(); }' fine it_aborts
echo 'int used(void); int used(void) { return 7; }' >used.c
gcc -c used.c -o used.o
link() {
    local name objects=()
    for name in "$@"; do
        gcc -c -g "$part/$name.c" -o "build/release/$part/$name.o" || return 1
        objects+=("build/release/$part/$name.o")
    done
    CC=gcc tests/suite.sh $suite used.o "${objects[@]}" &&
        gcc -I. @$suite.parts/list tests/suite.c -o $suite -lcmocka && rm -r $suite.parts
}
out=$(link test_one test_two test_crash 2>&1)
check "tests that define the same names are linked: $out" $? 0
check "what is in it" "$($suite --list | tr '\n' ' ')" "test_one test_two test_crash "
ran() { out=$($suite "$@" 2>&1) && rc=0 || rc=$?; cases=$(sed -n 's/^\[ RUN      \] //p' <<<"$out" | tr '\n' ' '); }
ran test_one
check "a test" "$rc $cases" "0 one_is_one one_is_less "
ran test_two
check "one that fails" "$rc $cases" "1 two_is_two two_is_three "
ran test_two 'two_is_t[w]*'
check "cases by a pattern" "$rc $cases" "0 two_is_two "
ran test_on
check "no such test" "$rc $(grep -c 'there is no test test_on; the tests are:' <<<"$out") $(grep -cx test_one <<<"$out")" "2 1 1"
ran test_one two_is_two
check "no such case" "$rc $(grep -c 'test_one has no case two_is_two$' <<<"$out")" "2 1"
ran
check "no name" "$rc $(grep -cx 'test_[a-z]*' <<<"$out")" "2 3"

# Every test has its own process: what one does to itself is one failure, the others are counted.
out=$(tests/run.sh build/release programs 2>&1) && rc=0 || rc=$?
check "all of them" "$rc $(tail -1 <<<"$out")" "1 3 passed, 2 failed"
check "whose failures" "$(sed -n 's/^failed: //p' <<<"$out" | sort | tr '\n' ' ')" "unit/part/test_crash unit/part/test_two "
check "results" "$(grep -v '^#' build/release/results.tsv | sed "s|^$part/||" | tr '\t\n' ' ;')" \
    "test_crash.c - failed;test_crash.c fine passed;test_one.c - passed;test_one.c one_is_less passed;test_one.c one_is_one passed;test_two.c - failed;test_two.c two_is_three failed;test_two.c two_is_two passed;"
# A test whose source is gone, and one that was linked by itself before and is older than its suite.
rm $part/test_crash.c
printf '#!/bin/sh\nexit 1\n' >build/release/$part/test_one
chmod +x build/release/$part/test_one
out=$(tests/run.sh build/release programs 2>&1)
check "left-over programs do not count" "$(tail -1 <<<"$out")" "3 passed, 1 failed"

# The longest first: by tests/longest, and once a run has measured them by that.
ran_in_order() { JOBS=1 tests/run.sh build/release programs 2>&1 | sed -nE 's|^unit/part/(test_[a-z]+) .*|\1|p' | tr '\n' ' '; }
rm build/release/times.txt
check "none is known" "$(ran_in_order)" "test_one test_two "
rm build/release/times.txt
echo unit/part/test_two >tests/longest
check "the longest by the list" "$(ran_in_order)" "test_two test_one "
printf '%s\n' '1.5 0.1 unit/part/test_two' '12.0 0.1 unit/part/test_one' >build/release/times.txt
check "the longest as measured" "$(ran_in_order)" "test_one test_two "
gone=$(while read -r name; do [[ -e $root/tests/$name || -e $root/tests/$name.c ]] || echo "$name"; done <"$root/tests/longest")
check "tests/longest has tests that are there" "$gone" ""

# What stands in another's place has to be a program of its own.
write test_three 'int used(void) { return 3; }
static void three_is_three(void **state) { (void)state; assert_int_equal(used(), 3); }' three_is_three
out=$(link test_one test_three 2>&1) && rc=0 || rc=$?
check "one that replaces what others call" "$rc $(grep -c 'test_three.c defines used, which others call' <<<"$out")" "1 1"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
