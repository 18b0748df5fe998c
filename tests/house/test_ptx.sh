#!/bin/bash
# SPDX-License-Identifier: MIT
# The check of the committed PTX is able to fail: it is shown faults in a copy, without the compiler,
# so that what it reads out of the texts must be enough.
# verifies device-14.1cf2
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
mkdir -p "$tree"/{device,tools,bin}
cp -r "$root/core" "$tree"
cp -r "$root/device/cuda" "$tree/device"
cp -r "$root/tools/ptx" "$tree/tools"
python=$(python3 -c 'import sys; print(sys.executable)')
cd "$tree" || exit 1
text=device/cuda/kernels/words.ptx

check() { PATH=$tree/bin "$python" -B tools/ptx/check.py 2>&1; }

count() {
    if [[ $1 == yes ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$2"
    fi
}

# refuses WORD FILE: with FILE as it is now the check fails and says WORD; FILE is then put back.
refuses() {
    local out rc
    out=$(check)
    rc=$?
    if [[ $rc -eq 1 && $out == *"$1"* ]]; then count yes; else
        count no "should have said \"$1\" of $2 (exit $rc): $out"
    fi
    if [[ -e $root/$2 ]]; then cp "$root/$2" "$2"; else rm -f "$2"; fi
}

# plant WORD LINE: the check refuses a kernel with this line.
plant() {
    sed -i "0,/^ret;/s//$2\nret;/" $text
    refuses "$1" $text
}

out=$(check) && count yes || count no "refuses what is committed: $out"

echo '/* another word */' >>device/cuda/kernels/words.cu
refuses "run make ptx" device/cuda/kernels/words.cu
echo '/* another word */' >>core/ir/step.h
refuses "run make ptx" core/ir/step.h
sed -i 's/^\.version .*/.version 8.0/' $text
refuses ".version" $text
sed -i 's/^\.target .*/.target sm_90/' $text
refuses ".target" $text
sed -i 's/^words .*/words words.cu sm_90a 7.4/' tools/ptx/modules
refuses "sm_90a has .version 8.0" tools/ptx/modules
sed -i 's/^words .*/words words.cu sm_75 7.4/' tools/ptx/modules
refuses "no rule" tools/ptx/modules
plant "rounding mode" 'add.f32 %f1,%f1,%f1;'
plant "rounding mode" 'mul.ftz.f32 %f1,%f1,%f1;'
plant "rounding mode" '@%p1 sub.f64 %fd1,%fd1,%fd1;'
plant "depends on the GPU" 'ex2.approx.f32 %f1,%f1;'
plant "subnormal" 'fma.rn.ftz.f32 %f1,%f1,%f1,%f1;'
plant "atomics" 'red.global.add.f32 [%rd1],%f1;'
plant "schedules" 'activemask.b32 %r1;'
plant "where and when" 'mov.u32 %r1,%smid;'
plant "local memory" '.local .align 4 .b8 depot[16];'
sed -i '0,/^\.visible/s//.extern .func vprintf();\n.visible/' $text
refuses "elsewhere" $text
sed -i '0,/^\.param .*,$/s//.param .align 8 .b8 many[5000],/' $text
refuses "4352" $text
rm device/cuda/kernels/loss.ptx
refuses "loss" device/cuda/kernels/loss.ptx
cp $text device/cuda/kernels/other.ptx
refuses "not in tools/ptx/modules" device/cuda/kernels/other.ptx
head -c 600000 /dev/zero | tr '\0' '/' | fold -w 80 >>$text
refuses "at most" $text

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
