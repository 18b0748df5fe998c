#!/bin/bash
# SPDX-License-Identifier: MIT
# boards.sh [long] [CORE..]: microcontrollers that QEMU emulates, and aarch64 and riscv64 under qemu-user, train
# to the bits of this machine:
#   - the example of tools/board, which plans on the board;
#   - trainers made by plan --emit-c, whose digests are also those of `bedplate train` over the same data.
# Their code and static memory stay within limits. The long form takes every trainer on every core, and 1,000 steps.
# verifies device-16.465c
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL BUILD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# A core, what emulates it, and the examples that run there; behind `=` the most bytes of code with constants, and of
# RAM. They rose four times: with pairs and rows of several texts in the feed (0.5 KB), and their kernels in the table
# of all (14 KB); with noise on embeddings (0.5 KB), and the kernels of the tape in 8 bits and of rules over matrices
# (15 KB); with products whose sums stay in registers (0.25 KB), and the kernels of images (7 KB);
# with the rows of magnitudes (17 KB).
boards='cortex-m7 mps2-an500 train=256000,1324200 gpt=47900,1024000 mlp=23700,18100 gru=57700,458000 cnn=
cortex-m4 mps2-an386 mlp= cnn=
cortex-m33 mps2-an505 mlp=29700,18200
cortex-m55 mps3-an547 mlp= cnn=
aarch64 qemu-aarch64 gpt= mlp= gru= cnn=
riscv64 qemu-riscv64 gpt= mlp= gru= cnn='
steps=20
long=''
if [[ ${1:-} == long ]]; then
    shift
    steps=1000
    long='gpt= mlp= gru= cnn='
fi

judge() {
    if [[ $1 == "$2" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$3: ${1: -80}; ${2: -80} is right"
    fi
}

# make_rows NUMBERS CLASSES: 64 rows.
make_rows() {
    awk -v n="$1" -v classes="$2" 'BEGIN { for (j = 0; j < n; j++) printf "f%d,", j; print "label"
        for (i = 0; i < 64; i++) { for (j = 0; j < n; j++) printf "%.6f,", ((i * n + j) * 7919 % 257 - 128) / 64
            print i % classes } }'
}

# The models of the trainers, and data as their examples make it up.
make_inputs() {
    mkdir -p "$work"/{gpt,mlp,gru,cnn}-model
    echo '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 128,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}' >"$work/gpt-model/config.json"
    echo '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' \
        >"$work/mlp-model/config.json"
    echo '{"model_type": "rnn", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 128,
        "max_position_embeddings": 64}' >"$work/gru-model/config.json"
    echo '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "num_labels": 3,
        "layers": ["conv 4 3", "separable 8 3 stride 2", "basic 8", "mean-pool all"]}' >"$work/cnn-model/config.json"
    sed -n 's/^    "\(.*\)"[;]*$/\1/p' tools/embed/poem.h | tr -d '\n' | sed 's/\\n/\n/g' >"$work/text"
    make_rows 16 4 >"$work/rows.csv"
    make_rows 64 3 >"$work/images.csv"
}

# on_pc NAME DATA OPTION..: a trainer on this machine against `bedplate train`.
on_pc() {
    local name=$1 data=$2
    shift 2
    local options=(--model "$work/$name-model" --max-steps "$steps" "$@")
    build/release/bedplate plan "${options[@]}" --emit-c "$work/$name" >/dev/null || return 1
    make -s -C "$work/$name" BEDPLATE="$PWD/build/release/kit" CFLAGS="-O2 -Wall -Wextra -Werror" STEPS="$steps" || return 1
    "$work/$name/example" >"$work/$name.said"
    judge "$(sed -n 's/^state digest //p' "$work/$name.said")" "$(build/release/bedplate train "${options[@]}" \
        --data "$data" --data-format "$([[ $data == *.csv ]] && echo auto || echo bytes)" --quiet --json \
        --output-dir "$work/$name-run" | sed -n 's/.*"state_digest": "\([^"]*\)".*/\1/p')" "$name on this machine"
}

# on_board CORE BOARD NAME PROGRAM SAID LIMITS: runs it there, and looks at its size.
on_board() {
    local what="$1: $3" said=$5 code ram emulator=(qemu-system-arm -M "$2" -nographic
        -semihosting-config "enable=on,target=native" -kernel)
    [[ $2 != qemu-* ]] || emulator=("$2")
    if [[ $2 != qemu-* ]]; then
        read -r code ram < <(arm-none-eabi-size "$4" | awk 'NR == 2 { print $1 + $2, $2 + $3 }')
        echo "$what: $code bytes of code and constants, $ram of static memory"
        [[ -z $6 ]] || judge "$((code <= ${6%,*} && ram <= ${6#*,}))" 1 \
            "$what has $code,$ram bytes, $6 are allowed; within the limits"
    fi
    judge "$(timeout 3000 "${emulator[@]}" "$4" </dev/null 2>&1 | grep -v '^plan')" "$said" "$what"
}

# build_for CORE LIMIT..: the kit of that core, and the example that plans where it is asked for.
build_for() {
    local core=$1 out
    [[ " $* " == *" train="* ]] && goals='board board-kit' || goals=board-kit
    # shellcheck disable=SC2086
    out=$(make -s VARIANT="$core" $goals 2>&1) && return
    echo "$core: does not build: $(tail -5 <<<"$out")"
    failed=$((failed + 1))
    return 1
}

make_inputs
make -s board build/release/bedplate && make -s install-library DESTDIR= PREFIX="$PWD/build/release/kit" >/dev/null || exit 1
on_pc gpt "$work/text" --per-device-train-batch-size 4 --max-seq-length 32 --learning-rate 3e-3
on_pc mlp "$work/rows.csv" --per-device-train-batch-size 8 --optim sgd --learning-rate 1e-2
on_pc gru "$work/text" --per-device-train-batch-size 2 --max-seq-length 32 --learning-rate 3e-3 \
    --gradient-accumulation-steps 2
on_pc cnn "$work/images.csv" --per-device-train-batch-size 4 --optim sgd --learning-rate 1e-2
while read -r core board limits; do
    [[ -n $core && (-z $* || " $* " == *" $core "*) ]] || continue
    runner=$board compiler=$core-linux-gnu-gcc
    [[ $core != cortex-* ]] || runner=qemu-system-arm compiler=arm-none-eabi-gcc
    if ! command -v "$runner" >/dev/null || ! command -v "$compiler" >/dev/null; then
        echo "skipped: $core, no $compiler or no $runner"
        continue
    fi
    limits=${long:-$limits}
    # shellcheck disable=SC2086
    build_for "$core" $limits || continue
    for limit in $limits; do
        name=${limit%%=*}
        program=build/$core/tools/board/$name said=$(build/release/tools/board/train | grep -v '^plan')
        if [[ $name != train ]]; then
            cp -r "$work/$name" "$work/$core-$name"
            cat "build/$core/kit/kit.mk" "$work/$name/Makefile" >"$work/$core-$name/Makefile"
            make -s -C "$work/$core-$name" clean && make -s -C "$work/$core-$name" STEPS="$steps" example || failed=$((failed + 1))
            program=$work/$core-$name/example said=$(cat "$work/$name.said")
        fi
        on_board "$core" "$board" "$name" "$program" "$said" "${limit#*=}"
    done
done <<<"$boards"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
