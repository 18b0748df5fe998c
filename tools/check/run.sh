#!/bin/bash
# SPDX-License-Identifier: MIT
# `make check`: runs every check of this folder and prints one line for each: ok, FAILED with what
# was found, or skipped with the reason. Ends with `N passed, N failed`.
#
# A check is a script that prints what it found; exit 0 is ok, 77 skipped, anything else FAILED. It
# is told the build folder in BUILD and the library's objects in LIBOBJ. What came of each is left in
# BUILD/checks.tsv, for tests/assurance. As many run beside each other as there are processors: none writes what
# another reads.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL
checks=(format licence words glossary pages prose manual interface spec includes json family directives length folders names symbols globals
    recursion warnings program requirements ptx)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work
# Those that compile go first: they take the longest.
# shellcheck disable=SC2016
printf '%s\n' recursion warnings "${checks[@]}" | awk '!seen[$0]++' | xargs -P "$(nproc)" -I '{}' bash -c '
    "tools/check/$1.sh" >"$work/$1.found" 2>&1
    echo $? >"$work/$1.status"' check '{}'
passed=0
failed=0
results=''
for check in "${checks[@]}"; do
    found=$(cat "$work/$check.found")
    status=$(cat "$work/$check.status")
    case ${status:-1} in
    0)
        passed=$((passed + 1))
        result=passed
        echo "ok      $check${found:+: $found}"
        ;;
    77)
        result=skipped
        echo "skipped $check: $found"
        ;;
    *)
        failed=$((failed + 1))
        result=failed
        echo "FAILED: $check"
        sed 's/^/    /' <<<"$found"
        ;;
    esac
    results+="tools/check/$check.sh"$'\t-\t'$result$'\n'
done
[[ ! -d ${BUILD:-build/release} ]] || printf '%s' "$results" >"${BUILD:-build/release}/checks.tsv"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
