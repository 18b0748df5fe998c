#!/bin/bash
# SPDX-License-Identifier: MIT
# The form with AMX: its bits do not depend on threads or checkpointing, are not the other forms', and a run
# goes on with the arithmetic that it began with. Where the processor lacks it, it is refused by name.
# verifies device-4.66f5
. "$(dirname "$0")/../lib.sh"
head -qc 60000 README.md docs/*.md docs/*/*.md >"$work/text"

# train DIRECTORY OPTIONS: $digest is that of its state.
train() {
    local to=$work/$1
    shift
    run train --model tiny --data "$work/text" --data-format text --output-dir "$to" --max-steps 4 \
        --per-device-train-batch-size 2 --max-seq-length 32 --save-steps 2 --json --quiet "$@"
    digest=$(json state_digest)
}

# same NAME DIGEST, and other: the run went well, and its bits are those, or not those.
same() {
    [[ $code -eq 0 && -n $digest && $digest == "$2" ]]
    check $? "$1: the same bits" "$out$err"
}
other() {
    [[ $code -eq 0 && -n $digest && $digest != "$2" ]]
    check $? "$1: other bits" "$out$err"
}

train a --bf16 --kernels amx --threads 1
if [[ $code -ne 0 ]] && grep -q 'cannot run the variant.*amx\|amx.*cannot run the variant' <<<"$err"; then
    echo "skipped: this processor has no AMX for bf16"
    exit 77
fi
amx=$digest
other "a run with AMX" ""
for options in "--threads 3" "--threads 2 --gradient-checkpointing full"; do
    rm -rf "$work/b"
    # shellcheck disable=SC2086
    train b --bf16 --kernels amx $options
    same "$options" "$amx"
done
train c --bf16 --kernels avx512
other "bf16 with AVX-512" "$amx"
train d --kernels amx
fp32=$digest
train e --kernels avx512
same "fp32" "$fp32"

for run in "a avx512" "c amx"; do
    train "${run% *}" --bf16 --kernels "${run#* }" --resume --max-steps 6
    [[ $code -eq 2 ]] && grep -q arithmetic <<<"$err"
    check $? "a run does not go on with another arithmetic: $run" "$out$err"
done
train f --bf16 --kernels amx --stop-at-step 2
train f --bf16 --kernels amx --resume
same "resumed" "$amx"
for base in "" "--load-in-4bit"; do
    rm -rf "$work/g" "$work/h"
    # shellcheck disable=SC2086
    train g --bf16 --kernels amx --lora-r 8 --target-modules all-linear --threads 1 $base
    one=$digest
    # shellcheck disable=SC2086
    train h --bf16 --kernels amx --lora-r 8 --target-modules all-linear --threads 3 $base
    same "adapters $base with 1 and 3 threads" "$one"
done
finish
