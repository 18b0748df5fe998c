#!/bin/bash
# Runs every test program of a build and every tests/*/test_*.sh; ends with `N passed, N failed`.
build=${1:-build/release}
passed=0
failed=0
for t in "$build"/tests/*/test_* tests/*/test_*.sh; do
    [[ -x $t && $t != *.[do] ]] || continue
    out=$(BUILD=$build "$t" 2>&1)
    rc=$?
    # cmocka says "[  PASSED  ] 5 test(s)." and "[  FAILED  ] 1 test(s), ..."; scripts say it plainly.
    p=$(grep -oE '^\[  PASSED  \] [0-9]+ test|^[0-9]+ passed' <<<"$out" | grep -oE '[0-9]+' | head -1)
    f=$(grep -oE '^\[  FAILED  \] [0-9]+ test|passed, [0-9]+ failed' <<<"$out" | grep -oE '[0-9]+ (test|failed)' |
        grep -oE '[0-9]+' | head -1)
    p=${p:-0}
    f=${f:-0}
    # A program that died or ran nothing is a failure even if it printed no count of any.
    if [[ $rc -ne 0 && $f -eq 0 ]] || [[ $((p + f)) -eq 0 ]]; then f=$((f + 1)); fi
    passed=$((passed + p))
    failed=$((failed + f))
    printf '%-52s %4d passed, %d failed\n' "${t#"$build"/}" "$p" "$f"
    [[ $f -eq 0 ]] || printf '%s\n' "$out" | grep -vE '^\[ (RUN|      OK) ' | tail -40
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
