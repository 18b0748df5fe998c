#!/bin/bash
# SPDX-License-Identifier: MIT
# The check of requirements can fail: it is shown a small tree with each fault that it has to find. And
# the pages of the matrix lead from a claim to its result and back, without a link that leads nowhere.
# verifies house-9.e56b
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
export TRACING_ROOT=$tree
passed=0
failed=0
count() { # RC NAME [TEXT]
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $2"
        head -20 <<<"${3:-}"
    fi
}
tracing() {
    out=$(python3 "$root/tests/assurance/tracing.py" "$@" 2>&1)
    rc=$?
}

# What is there to begin with is right.
build() {
    rm -rf "$tree"
    mkdir -p "$tree/tests/assurance/requirements" "$tree/tests/unit" "$tree/core" "$tree/build/release"
    printf '%s\n' '# Page' '## Compared with other programs' '| | this |' '|---|---|' '| one and one | yes |' '## End' >"$tree/README.md"
    printf '%s\n' 'REQ sum-1 test: One and one' '    is two.' '  in core/sum.c' '  from README.md "one and one"' '' \
        'DERIVED sum: what is not one and one' '    is a choice made here' '' 'REQ sum-2 analysis: Nothing else is.' >"$tree/tests/assurance/requirements/sum.req"
    printf '%s\n' 'int sum(int a, int b)' '{' '    return a + b;' '}' >"$tree/core/sum.c"
    tracing list
    tag1=$(grep -oE 'sum-1\.[0-9a-f]{4}' <<<"$out")
    tag2=$(grep -oE 'sum-2\.[0-9a-f]{4}' <<<"$out")
    printf '%s\n' "/* verifies $tag1 */" 'static void one_and_one(void **state)' '{' '}' 'static void other(void **state)' '{' '}' \
        'int main(void) { cmocka_unit_test(one_and_one); cmocka_unit_test(other); }' >"$tree/tests/unit/test_sum.c"
    printf '%s\n' '#!/bin/bash' "# verifies $tag2" 'exit 0' >"$tree/tests/unit/test_all.sh"
}
build
tracing check
[[ $rc -eq 0 && $out == "2 requirements (1 from a page, 1 derived), 2 ids in 2 files; 1 of 3 test cases have none"* ]]
count $? "a tree without a fault" "$out"
tracing untraced
[[ $out == tests/unit/test_sum.c:other ]]
count $? "the case without an id is listed" "$out"

# refuses WORDS FILE SED: with that change the check fails and says so.
refuses() {
    build
    sed -i "$3" "$tree/$2"
    tracing check
    [[ $rc -eq 1 && $out == *"$1"* ]]
    count $? "$1" "$rc $out"
}
requirements=tests/assurance/requirements/sum.req
refuses 'the sentence of sum-1 was changed since' $requirements 's/is two/is three/'
refuses 'there is no such requirement' tests/unit/test_sum.c 's/sum-1/sum-9/'
refuses 'nothing verifies sum-2' tests/unit/test_all.sh 's/verifies.*//'
refuses 'sum-1 stands at' $requirements 's/REQ sum-2 analysis/REQ sum-1 analysis/'
refuses 'method guess, right would be one of test, proof' $requirements 's/analysis/guess/'
refuses 'there is no file core/sums.c' $requirements 's/sum\.c/sums.c/'
refuses 'README.md does not say' $requirements 's/"one and one"/"one and two"/'
refuses 'no requirement is derived from this claim' README.md 's/^| one.*/&\n| two and two | yes |/'
refuses 'this line is none of REQ, in, from' $requirements 's/^REQ sum-2 .*/&\nfrom nowhere/'
refuses 'sum-2 is neither from a page nor derived: DERIVED sum: REASON' $requirements 's/^DERIVED sum.*//; s/^    is a choice.*//'
refuses 'no requirement is called other-N' $requirements 's/^DERIVED sum: .*/&\nDERIVED other: nothing is/'
refuses 'sum has a reason already' $requirements 's/^DERIVED sum: .*/&\nDERIVED sum: once more/'
refuses 'is no id with its digest' tests/unit/test_all.sh "s/verifies .*/verifies sum-2/"
refuses 'this id is within another comment' tests/unit/test_sum.c 's|/[*] verifies|/* One and one. verifies|'
rm -f "$tree/$requirements"
tracing check
[[ $rc -eq 1 && $out == *"there are no requirements"* ]]
count $? "no requirements at all" "$out"
# White space makes no other sentence.
build
sed -i 's/is two/is     two/' "$tree/$requirements"
tracing check
count $rc "white space" "$out"

# Results: none, passed, failed; the worst of a requirement's counts.
tracing matrix "$tree/out" "$tree/build/release"
[[ $rc -eq 0 && $out == "2 requirements: 2 not run" ]]
count $? "a matrix without results" "$out"
printf '%s\t%s\t%s\n' tests/unit/test_sum.c - passed tests/unit/test_sum.c one_and_one passed tests/unit/test_all.sh - failed >"$tree/build/release/results.tsv"
tracing matrix "$tree/out" "$tree/build/release"
[[ $rc -eq 1 && $out == "2 requirements: 1 failed, 1 passed" ]]
count $? "a matrix with results" "$out"
grep -q "^sum-1,${tag1#*.},test,One and one is two.,README.md: one and one,core/sum.c,tests/unit/test_sum.c,1,one_and_one,passed$" "$tree/out/matrix.csv"
count $? "its CSV" "$(cat "$tree/out/matrix.csv")"

# Every link of every page leads to a file, and to a place in it.
links() { python3 "$root/tests/assurance/links.py" "$1"; }
found=$(links "$tree/out")
count $? "links of the small matrix" "$found"
grep -q 'href="requirements.html#sum-1"' "$tree/out/index.html" && grep -q 'href="files/tests_unit_test_sum.c.html#L1"' "$tree/out/requirements.html" &&
    grep -q 'href="../requirements.html#sum-1"' "$tree/out/files/core_sum.c.html" &&
    grep -q "href=\"index.html#$(grep -oE 'id="claim-[0-9a-f]{12}"' "$tree/out/index.html" | cut -d'"' -f2)\"" "$tree/out/requirements.html"
count $? "from claim to requirement, test and back"
sed -i 's/id="L1"/id="M1"/' "$tree/out/files/core_sum.c.html"
found=$(links "$tree/out") && false
[[ $? -ne 0 ]]
count $? "a link that leads nowhere is found"

# This tree's own.
unset TRACING_ROOT
tracing check
count $rc "the requirements of this tree" "$out"
tracing matrix "$tree/own" "$root/build/none"
links "$tree/own" >"$tree/found"
count $? "the pages of this tree" "$(cat "$tree/found")"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
