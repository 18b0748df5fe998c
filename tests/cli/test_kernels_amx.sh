#!/bin/bash
# SPDX-License-Identifier: MIT
# The form with AMX: its bits do not depend on threads or checkpointing, are not the other forms', and a run
# goes on with the arithmetic that it began with. Where the processor lacks it, it is refused by name.
set -u
bedplate=$PWD/${BUILD:-build/release}/bedplate
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
head -c 60000 "$PWD/README.md" "$PWD"/docs/*.md >"$dir/text"

passed=0

fail() {
    echo "FAILED: $*"
    echo "$passed passed, 1 failed"
    exit 1
}

# What a check says of itself when it holds.
holds() {
    passed=$((passed + 1))
}

train() {
    local to=$1
    shift
    "$bedplate" train --model tiny --data "$dir/text" --data-format text --output-dir "$dir/$to" --max-steps 4 \
        --per-device-train-batch-size 2 --max-seq-length 32 --save-steps 2 --json "$@" 2>"$dir/err" >"$dir/out"
}

digest() {
    sed -n 's/.*"state_digest": "\([0-9a-f]*\)".*/\1/p' "$dir/out" | tail -1
}

if ! train a --bf16 --kernels amx --threads 1; then
    grep -q 'cannot run the variant.*amx\|amx.*cannot run the variant' "$dir/err" || fail "refused without its name: $(cat "$dir/err")"
    echo "skipped: this processor has no AMX for bf16"
    exit 77
fi
amx=$(digest)
[[ -n $amx ]] || fail "no digest"
for options in "--threads 3" "--threads 2 --gradient-checkpointing full"; do
    # shellcheck disable=SC2086
    train b --bf16 --kernels amx $options || fail "$(cat "$dir/err")"
    [[ $(digest) == "$amx" ]] || fail "other bits with $options"
    holds
    rm -rf "$dir/b"
done
train c --bf16 --kernels avx512 || fail "$(cat "$dir/err")"
[[ $(digest) != "$amx" ]] || fail "the bits of avx512"
holds
train d --kernels amx || fail "$(cat "$dir/err")"
fp32=$(digest)
train e --kernels avx512 || fail "$(cat "$dir/err")"
[[ $(digest) == "$fp32" ]] || fail "fp32 has other bits"
holds

train a --bf16 --kernels avx512 --resume --max-steps 6
[[ $? -eq 2 ]] && grep -q arithmetic "$dir/err" || fail "resumed with another arithmetic: $(cat "$dir/err")"
holds
train c --bf16 --kernels amx --resume --max-steps 6
[[ $? -eq 2 ]] && grep -q arithmetic "$dir/err" || fail "resumed with another arithmetic: $(cat "$dir/err")"
holds
rm -rf "$dir/f"
train f --bf16 --kernels amx --stop-at-step 2 || fail "$(cat "$dir/err")"
train f --bf16 --kernels amx --resume || fail "$(cat "$dir/err")"
[[ $(digest) == "$amx" ]] || fail "other bits after a resume"
holds
for adapters in "" "--load-in-4bit"; do
    for threads in 1 3; do
        # shellcheck disable=SC2086
        train "g$threads" --bf16 --kernels amx --lora-r 8 --target-modules all-linear --threads $threads $adapters \
            || fail "$(cat "$dir/err")"
        digest >"$dir/digest$threads"
        rm -rf "$dir/g$threads"
    done
    cmp -s "$dir/digest1" "$dir/digest3" || fail "adapters $adapters depend on threads"
    holds
done
echo "$passed passed, 0 failed"
