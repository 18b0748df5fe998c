#!/bin/bash
# SPDX-License-Identifier: MIT
# instructions.sh FORM N [MOST [bf16]]: instructions per multiply-add of a product of N x N matrices on aarch64,
# packing included: those of three products less those of one, counted by QEMU, which says each as it
# runs it. With MOST, in hundredths: more than that is a failure (exit 1). CPU= names another processor.
cd "$(dirname "$0")/../.." || exit 1
form=$1 n=$2 most=${3:-}
program=build/aarch64/tools/bench/instructions
env -u BUILD make -s VARIANT=aarch64 $program || exit 1
count() {
    { qemu-aarch64 -cpu "${CPU:-max}" -singlestep -d exec,nochain $program "$form" "$n" "$1" "${@:2}" ||
        echo FAILED; } 2>&1 | awk '/^Trace/ { n++ } /FAILED|^[a-z]/ { print > "/dev/stderr" } END { print n + 0 }'
}
once=$(count 1 "${@:4}")
thrice=$(count 3 "${@:4}")
hundredths=$(((thrice - once) * 100 / (2 * n * n * n)))
printf '%s %s: %d.%02d instructions per multiply-add\n' "$form" "$n" $((hundredths / 100)) $((hundredths % 100))
[[ $thrice -gt $once && ( -z $most || $hundredths -le $most ) ]]
