#!/bin/bash
# SPDX-License-Identifier: MIT
# instructions.sh FORM N [MOST [WHAT]]: instructions on aarch64 per multiply-add of a product of N x N matrices,
# packing included (WHAT: bf16), or per weight of AdamW on N x N with 8-bit states (block8, companded8):
# those of three less those of one, counted by QEMU, which says each as it runs it. With MOST, in hundredths:
# more than that is a failure (exit 1). CPU= names another processor.
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
case ${4:-} in
*8) per=weight each=$((n * n)) ;;
*) per=multiply-add each=$((n * n * n)) ;;
esac
hundredths=$(((thrice - once) * 100 / (2 * each)))
printf '%s %s: %d.%02d instructions per %s\n' "$form" "$n" $((hundredths / 100)) $((hundredths % 100)) $per
[[ $thrice -gt $once && ( -z $most || $hundredths -le $most ) ]]
