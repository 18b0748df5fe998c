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
. "$(dirname "${BASH_SOURCE[0]}")/wait.sh"

# long_form: holds in the long form of a script (BP_TEST_LONG: `make test-long`) and where what the tests run is counted
# (BP_TEST_WHOLE: `make sanitize`). Otherwise what shows the same by other models, forms or rounds is left out.
long_form() { [[ -n ${BP_TEST_LONG:-}${BP_TEST_WHOLE:-} ]]; }
# tests/unit/device/cuda looks for races in every kernel; in whole trainings on the instrument they take a quarter of the time.
long_form || export PTXVM_RACES=${PTXVM_RACES:-0}

# A form of kernels that is not the one that is chosen here. The portable one takes 25 times as long: in `make test`,
# test_selftest.sh and tests/house/test_same_bits hold it against the others.
other_kernels=portable
long_form || [[ $BUILD == *aarch64* ]] || ! grep -qm1 ' avx512f ' /proc/cpuinfo || other_kernels=avx2

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
    # limit: nothing fails by it
    ((SECONDS - began < 20)) || echo "slow: $((SECONDS - began)) s: bedplate $*"
    # Without zero bytes, of which the shell says that it leaves them out; and without a process for it.
    { out=$(<"$work/.out") && err=$(<"$work/.err"); } 2>/dev/null
}

# messages: the lines of standard input that begin as the program's messages, without those about the task that was found and
# weights that are random.
messages() {
    grep '^bedplate:' | grep -v '^bedplate: task: \|: a preset: the weights are random'
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

# digest NAME OPTIONS..: trains with the script's ${common[@]} into $work/NAME; the state is in $state. same OPTIONS..: another such
# run ends in the state $first.
digest() {
    local name=$1
    shift
    run train "${common[@]}" --output-dir "$work/$name" "$@"
    state=$(json state_digest)
    [[ $code -eq 0 && -n $state && $(json arena_bytes) == "$(json device_bytes_in_use)" ]]
    check $? "train $*: in the bytes that were planned" "$out$err"
}
same() {
    digest other "$@"
    [[ $state == "$first" ]]
    check $? "the same with $*" "$state for $first"
    rm -rf "$work/other"
}

# json KEY: the value of a key in the last line of $out, quotes removed. Without ${out##*$'\n'}, whose time is quadratic: a
# quarter of a second for a line of 26 KB.
json() {
    local LC_ALL=C lines line before value
    mapfile -t lines <<<"$out"
    line=${lines[-1]}
    before=${line%%"\"$1\": "*}
    [[ ${#before} -lt ${#line} ]] || return 0
    value=${line:${#before}+${#1}+4}
    if [[ $value == '"'* ]]; then
        value=${value:1}
        value=${value%%'"'*}
    else
        value=${value%%[,\}]*}
    fi
    printf '%s\n' "${value//\"/}"
}

# near KEY GOLDEN_KEY: a number of the last line of $out is that of $golden/eval.json, to 1e-6.
near() {
    awk -v a="${3:-$(json "$1")}" -v b="$(grep -oE "\"$2\": [0-9.e-]+" "$golden/eval.json" | sed 's/.*: //')" \
        'BEGIN { d = a - b; exit !(a != "" && b != "" && d * d < 1e-12 * (1 + b * b)) }'
    check $? "$1 is that of transformers" "$out"
}

# same_bits PLAN_OPTIONS -- TRAIN..: a training by its arguments (with no output directory and no batch) has
# the arena of `plan PLAN_OPTIONS` and the same bits by any policy, released, and resumed after a stop.
# Its outputs are $work/a to $work/e.
same_bits() {
    local plan=() digest arena more
    while [[ $1 != -- ]]; do
        plan+=("$1")
        shift
    done
    shift
    local small=(--per-device-train-batch-size 4 --gradient-accumulation-steps 2) large=(--per-device-train-batch-size 8)
    run "$@" --output-dir "$work/a" "${small[@]}"
    digest=$(json state_digest)
    arena=$(json arena_bytes)
    run plan "${plan[@]}" "${small[@]}" --json
    [[ -n $digest && -n $arena && $(json arena_bytes) == "$arena" ]]
    check $? "the plan is that of the run" "$out$err"
    for more in "--gradient-checkpointing full" "--gradient-checkpointing selective:norm,gelu,attention --poison"; do
        rm -rf "$work/b"
        # shellcheck disable=SC2086
        run "$@" --output-dir "$work/b" "${small[@]}" $more
        [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
        check $? "$more: the same bits" "$out$err"
    done
    # Two steps, the second with what the first has changed.
    digest=
    for more in "" "--gradient-checkpointing memory-poor --kernels $other_kernels --threads 1"; do
        rm -rf "$work/b"
        # shellcheck disable=SC2086
        run "$@" --output-dir "$work/b" "${small[@]}" --stop-at-step 2 $more
        [[ $code -eq 0 && $(json state_digest) == "${digest:-$(json state_digest)}" && -n $(json state_digest) ]]
        check $? "${more:-two steps}: the same bits" "$out$err"
        digest=$(json state_digest)
    done
    run "$@" --output-dir "$work/c" "${large[@]}"
    digest=$(json state_digest)
    run "$@" --output-dir "$work/d" "${large[@]}" --gradient-release
    [[ -n $digest && $(json state_digest) == "$digest" ]]
    check $? "released gradients: the same bits" "$out$err"
    run "$@" --output-dir "$work/e" "${large[@]}" --stop-at-step 5
    run "$@" --output-dir "$work/e" "${large[@]}" --resume
    [[ $(json state_digest) == "$digest" ]]
    check $? "resumed: the same bits" "$out$err"
}

finish() {
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 && $passed -gt 0 ]]
    exit $?
}
