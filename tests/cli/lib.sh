# SPDX-License-Identifier: MIT
# Shared by the tests of the program: runs it and compares exit code, messages and files.
set -u
BUILD=${BUILD:-build/release}
program=$BUILD/bedplate
# Sanitized builds report leaks of what the program leaves to the system at exit: not the matter here.
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# check RC NAME [TEXT]: counts one check; RC 0 is a pass.
check() {
    if [[ $1 -eq 0 ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $2"
        [[ -z ${3:-} ]] || printf '%s\n' "$3" | head -20 | cut -c 1-2000
    fi
}

# run ARGUMENTS: runs the program; its streams are in $out and $err, its exit code in $code.
run() {
    local began=$SECONDS
    "$program" "$@" >"$work/.out" 2>"$work/.err" </dev/null
    code=$?
    ((SECONDS - began < 20)) || echo "slow: $((SECONDS - began)) s: bedplate $*"
    out=$(tr -d '\0' <"$work/.out")
    err=$(tr -d '\0' <"$work/.err")
}

# expect CODE PATTERN ARGUMENTS: exit code and an extended regular expression in either stream.
expect() {
    local want=$1 pattern=$2
    shift 2
    run "$@"
    local ok=0
    [[ $code -eq $want ]] || ok=1
    grep -qE -- "$pattern" <<<"$out
$err" || ok=1
    check $ok "bedplate $* (exit $code, wanted $want and /$pattern/)" "$out$err"
}

# json KEY: the value of a key in the last line of $out, quotes removed.
json() {
    tail -n 1 <<<"$out" | grep -oE "\"$1\": (\"[^\"]*\"|[^,}]*)" | head -1 | sed -E "s/^\"$1\": //; s/\"//g"
}

finish() {
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 && $passed -gt 0 ]]
    exit $?
}
