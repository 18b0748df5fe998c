#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/board/vibration.c on this machine: a trainer learns a class that it did not know from windows of a sensor, keeps the
# old ones, and ends with the same state however often the power was cut. tests/variants/boards.sh runs it on a Cortex-M7.
. "$(dirname "$0")/../lib.sh"

kit=$work/kit
make -s install-library PREFIX="$kit" DESTDIR= >/dev/null 2>&1
check $? "install the library"
mkdir -p "$work/mlp"
echo '{"model_type": "mlp", "input_size": 32, "hidden_sizes": [32], "num_labels": 4}' >"$work/mlp/config.json"
run plan --model "$work/mlp" --max-steps 520 --predict --per-device-train-batch-size 8 --optim sgd --learning-rate 5e-2 \
    --lr-scheduler-type constant --emit-c "$work/c"
cp tools/board/vibration.c "$work/c/example.c"
# learns CUT: what it prints, until it has learned all; the power is cut once in the write of that number (0: never), and after
# each further start in a later one.
learns() {
    local cut=$1 times=0 said=''
    rm -f "$work/c/vibration.img"
    while ((times < 30)); do
        rm -f "$work/c/example" "$work/c/example.o"
        make -s -C "$work/c" BEDPLATE="$kit" CFLAGS="-O1 -Wall -Wextra -Werror -I. -DCUT=$cut" >"$work/made" 2>&1 || return 1
        said=$(cd "$work/c" && ./example)
        code=$?
        times=$((times + 1))
        [[ $code -ne 0 ]] || break
        [[ $said == *'the power was cut'* ]] || return 1
        cut=$((cut * 3 / 2 + 1))
    done
    starts=$times
    echo "$starts"
    echo "$said"
}

# verifies device-41.25da
whole=$(learns 0)
before=$(grep '^three are known' <<<"$whole")
after=$(grep '^four are known' <<<"$whole")
right() { grep -oE '[0-9]+ of 16' <<<"$1" | sed -n "$2s/ .*//p"; }
known=1
for class in 1 2 3; do
    [[ $(right "$before" $class) -ge 14 && $(right "$after" $class) -ge 14 ]] || known=0
done
[[ $known -eq 1 && $(right "$before" 4) -eq 0 && $(right "$after" 4) -ge 14 ]]
check $? "the fourth class is learned, the others stay" "$whole$(cat "$work/made")"
state=$(grep '^state' <<<"$whole")
for cut in 1 7 30 61 100; do
    said=$(learns $cut)
    [[ -n $state && $(grep '^state' <<<"$said") == "$state" && $(head -1 <<<"$said") -gt 1 &&
        $(grep '^four' <<<"$said") == "$after" ]]
    check $? "cuts from write $cut on: the state of no cut" "$said
$whole"
done
finish
