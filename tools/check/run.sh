#!/bin/bash
# SPDX-License-Identifier: MIT
# `make check`: runs every check of this folder and prints one line for each: ok, FAILED with what
# was found, or skipped with the reason. Ends with `N passed, N failed`.
#
# A check is a script that prints what it found; exit 0 is ok, 77 skipped, anything else FAILED. It
# is told the build folder in BUILD and the library's objects in LIBOBJ.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL
checks=(format licence words pages manual interface includes family directives length symbols globals
    recursion warnings program ptx)
passed=0
failed=0
for check in "${checks[@]}"; do
    found=$("tools/check/$check.sh" 2>&1)
    case $? in
    0)
        passed=$((passed + 1))
        echo "ok      $check${found:+: $found}"
        ;;
    77) echo "skipped $check: $found" ;;
    *)
        failed=$((failed + 1))
        echo "FAILED: $check"
        sed 's/^/    /' <<<"$found"
        ;;
    esac
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
