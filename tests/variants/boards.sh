#!/bin/bash
# SPDX-License-Identifier: MIT
# boards.sh [long|size] [CORE..]: microcontrollers that QEMU emulates (Cortex-M, and rv32imc without floating point), and
# aarch64 and riscv64 under qemu-user, train to the bits of this machine:
#   - the example of tools/board, which plans on the board;
#   - trainers made by plan --emit-c, whose digests are also those of `bedplate train` over the same data.
# Their code and static memory stay within board.sizes. The long form takes five trainers on every core, the shortest
# first, and 1,000 steps, whose digests release.digests has; `size` only builds and says the sizes.
# verifies device-16.465c
cd "$(dirname "$0")/../.." || exit 1
. tests/assurance/missing.sh
. tests/variants/models.sh
unset MAKEFLAGS MAKELEVEL BUILD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# A core, what emulates it, and the examples that run there. What they may take stands in board.sizes.
boards='cortex-m7 mps2-an500 train gpt gpt8 mlp gru cnn kws kwslow anomaly anomalylow resnet llama llama8
cortex-m4 mps2-an386 mlp cnn
cortex-m33 mps2-an505 mlp cnn
cortex-m55 mps3-an547 mlp cnn
riscv32 virt mlp cnn
aarch64 qemu-aarch64 gpt mlp gru cnn
riscv64 qemu-riscv64 gpt mlp gru cnn'
sizes=tests/variants/board.sizes
steps=20
long=''
if [[ ${1:-} == long ]]; then
    shift
    steps=1000
    long='mlp cnn gru gpt decoder'
fi
size=''
if [[ ${1:-} == size ]]; then
    shift
    size=yes
fi

# steps_of NAME: how many a trainer takes; some take 2 to 9 seconds for a step there.
steps_of() {
    [[ -z $long && $1 =~ llama|resnet|gpt8 ]] && echo 4 || echo "$steps"
}

judge() {
    if [[ $1 == "$2" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$3: ${1: -80}; ${2: -80} is right"
    fi
}

# What the cores that were asked for train.
asked=$(while read -r core _ names; do
    [[ -z $* || " $* " == *" $core "* ]] && echo " ${long:-$names} "
done <<<"$boards")

# on_pc NAME DATA OPTION..: a trainer on this machine against `bedplate train`.
on_pc() {
    local name=$1 data=$2
    [[ $asked == *" $name "* ]] || return 0
    shift 2
    local count
    count=$(steps_of "$name")
    local options=(--model "$work/$name-model" --max-steps "$count" "$@")
    build/release/bedplate plan "${options[@]}" --emit-c "$work/$name" >/dev/null || return 1
    make -s -C "$work/$name" BEDPLATE="$PWD/build/release/kit" CFLAGS="-O2 -Wall -Wextra -Werror" STEPS="$count" || return 1
    "$work/$name/example" >"$work/$name.said"
    judge "$(sed -n 's/^state digest //p' "$work/$name.said")" "$(build/release/bedplate train "${options[@]}" \
        --data "$data" --data-format "$([[ $data == *.csv ]] && echo auto || echo bytes)" --quiet --json \
        --output-dir "$work/$name-run" | sed -n 's/.*"state_digest": "\([^"]*\)".*/\1/p')" "$name on this machine"
    [[ -z $long ]] || judge "$(sed -n 's/^state digest //p' "$work/$name.said")" "$(digest_of_release "$name" host)" \
        "$name, 1,000 steps, against release.digests"
}

# compiler_of CORE TOOL: the tool of the compiler for that core.
compiler_of() {
    case $1 in
    cortex-*) echo "arm-none-eabi-$2" ;;
    riscv32) echo "riscv64-unknown-elf-$2" ;;
    *) echo "$1-linux-gnu-$2" ;;
    esac
}

# emulate BOARD PROGRAM: runs it there, and what it prints.
emulate() {
    local system=(-nographic -semihosting-config 'enable=on,target=native' -kernel)
    case $1 in
    mps*) qemu-system-arm -M "$1" "${system[@]}" "$2" ;;
    virt) qemu-system-riscv32 -M virt -bios none "${system[@]}" "$2" ;;
    qemu-*) "$1" "$2" ;;
    *) "$2" ;;
    esac </dev/null 2>&1
}
export -f emulate

# look_at_size CORE NAME PROGRAM: says what it takes, which is at most what board.sizes allows.
look_at_size() {
    local code ram most_code most_ram
    read -r code ram < <("$(compiler_of "$1" size)" "$3" | awk 'NR == 2 { print $1 + $2, $2 + $3 }')
    read -r most_code most_ram < <(awk -v core="$1" -v name="$2" '$1 == core && $2 == name { print $3, $4 }' $sizes)
    echo "$1: $2: $code bytes of code and constants, $ram of static memory"
    judge "$((code <= ${most_code:-0} && ram <= ${most_ram:-0}))" 1 \
        "$1: $2 has $code and $ram bytes, ${most_code:-no number} and ${most_ram:-none} are in $sizes; within them"
    ((code + 64 > ${most_code:-0} && ram + 64 > ${most_ram:-0})) ||
        echo "$1: $2 takes less than $sizes says, which may be lowered to: $1 $2 $code $ram"
}

# on_board CORE BOARD NAME PROGRAM SAID: looks at its size, and runs it there.
on_board() {
    [[ $2 == qemu-* || -n $long ]] || look_at_size "$1" "$3" "$4"
    [[ -n $size ]] || judge "$(timeout $((${#long} > 0 ? 12000 : 3000)) bash -c 'emulate "$@"' - "$2" "$4" | grep -v '^plan')" "$5" "$1: $3"
}

# run_there BOARD FOLDER: the trainer in a folder, beside its flash.img; the last digest.
run_there() {
    (cd "$2" && timeout 4000 bash -c 'emulate "$@"' - "$1" ./example)
}

# too_small CORE: the keyword spotting's trainer for boards with too little memory: the linker says what lacks, in the
# words of docs/how-to/appliance.md, and makes nothing.
too_small() {
    local folder=$work/$1-kws ram words
    while read -r ram words; do
        sed -i "s/board_ram_bytes=[0-9A-Z]*/board_ram_bytes=$ram/" "$folder/Makefile"
        make -s -C "$folder" clean
        judge "$(make -s -C "$folder" STEPS="$steps" example 2>&1 | grep -c "$words") $(find "$folder" -name example)" "1 " \
            "$1: \"$words\", and no program, with $ram of memory"
    done <<<"128K region .RAM' overflowed by [0-9]* bytes
236K no room is left for the stack"
}

# without_digest CORE NAME BYTES: a trainer's code alone, built without the digest, is at most that (docs/how-to/appliance.md).
without_digest() {
    local folder=$work/$1-$2 code
    make -s -C "$folder" clean
    make -s -C "$folder" STEPS="$steps" CFLAGS="$(sed -n 's/^CFLAGS = //p' "build/$1/kit/kit.mk") -DNO_DIGEST" example
    code=$(arm-none-eabi-size -A "$folder/example" | awk '$1 == ".text" { print $2 }')
    judge "$((${code:-$3 + 1} <= $3))" 1 "$1: $2 without the digest: ${code:-no} bytes of code of $3"
}

# compact_code CORE BYTES: the code that keeps a trainer's state in slots is at most that.
compact_code() {
    local code
    code=$(arm-none-eabi-size "build/$1/kit/lib/libbedplate.a" 2>/dev/null |
        awk '$6 == "trainer_state.o" { print $1 + $2 }')
    echo "$1: ${code:-no} bytes of code keep a state in slots"
    judge "$((${code:-$2 + 1} <= $2))" 1 "$1: the compact state: ${code:-no} bytes of code of $2"
}

# packages CORE BOARD: the folders for other build systems, with the library of that core beside their sources, train there as
# the plain one does, and Arduino's sketch learns there, as C++.
# verifies device-45.20e6
packages() {
    local core=$1 board=$2 form there flags start link sources
    flags="$(sed -n 's/^CFLAGS = //p' "build/$core/kit/kit.mk") -ffunction-sections -fdata-sections -ffp-contract=off"
    start=$(sed -n 's/^BOARD = //p' "build/$core/kit/kit.mk")
    link=$(sed -n 's/^LDFLAGS = //p' "build/$core/kit/kit.mk")
    for form in arduino zephyr cmsis-pack esp-idf; do
        there=$work/$core-$form
        build/release/bedplate plan --model "$work/mlp-model" --max-steps "$steps" "${mlp[@]}" --predict --emit-c "$there" \
            --as $form >/dev/null && make -s -C "$there" -f bedplate.mk BEDPLATE="$PWD/build/$core/kit" CORE="$core"
        cp "$work/mlp/"{example.c,board.h,flash.h} "$there/"
        sources=("$there/example.c" "$there/src/plan.c" "$there/src/trainer.c")
        # shellcheck disable=SC2086
        "$(compiler_of "$core" gcc)" $flags -std=c99 -pedantic -Wall -Wextra -Werror -DSTEPS="$steps" -I"$there/src" \
            "${sources[@]}" $start $link -L"$there/src/$core" -lbedplate -lm -o "$there/example"
        judge "$(run_there "$board" "$there" | tail -1)" "$(tail -1 "$work/mlp.said")" "$core: as a package, $form"
    done
    there=$work/$core-arduino
    cat >"$there/Arduino.h" <<'END'
#include <stdint.h>
#include <string.h>
#define A0 0
int analogRead(int pin);
struct SerialPort { void begin(long); void println(const char *); void println(double); };
extern SerialPort Serial;
END
    cat >"$there/sketch.cpp" <<'END'
#include "Arduino.h"
#include "examples/Learn/Learn.ino"
extern "C" void board_write(const char *text);
SerialPort Serial;
int analogRead(int) { static int n = 0; return n++ % 1024; }
void SerialPort::begin(long) {}
void SerialPort::println(const char *text) { board_write(text); board_write("\n"); }
void SerialPort::println(double number) { board_write(number > 0.0 ? "learned\n" : "no loss\n"); }
int main() { setup(); loop(); loop(); return 0; }
END
    # shellcheck disable=SC2086
    "$(compiler_of "$core" g++)" $flags -std=c++11 -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wall -Wextra \
        -I"$there" -I"$there/src" -c "$there/sketch.cpp" -o "$there/sketch.o" &&
        "$(compiler_of "$core" gcc)" $flags -std=c99 -I"$there/src" "$there/sketch.o" "$there/src/plan.c" "$there/src/trainer.c" \
            $start $link -L"$there/src/$core" -lbedplate -lm -o "$there/example"
    judge "$(run_there "$board" "$there" | tr '\n' ' ')" "ready learned learned " "$core: Arduino's sketch"
}

# refuses CORE BOARD: tools/board/refuses.c: wrong samples, classes, states and rings are refused there, as on this machine.
# verifies device-46.7015
refuses() {
    local core=$1 board=$2 there="$work/$1-refuses" here="$work/pc-refuses" flags
    build/release/bedplate plan --model "$work/mlp-model" --max-steps 20000 "${mlp[@]}" --lr-scheduler-type constant --predict \
        --emit-c "$here" >/dev/null
    cp tools/board/refuses.c "$here/example.c"
    cp -r "$here" "$there"
    make -s -C "$here" BEDPLATE="$PWD/build/release/kit" CFLAGS="-O2 -I."
    judge "$(run_there '' "$here")" "nothing wrong was taken" "$core: bad input on this machine, torn at every byte"
    flags=$(sed -n 's/^CFLAGS = //p' "build/$core/kit/kit.mk")
    cat "build/$core/kit/kit.mk" "$here/Makefile" >"$there/Makefile"
    make -s -C "$there" clean # what was made for this machine
    make -s -C "$there" CFLAGS="$flags -I. -DTORN=97" example
    judge "$(run_there "$board" "$there")" "nothing wrong was taken" "$core: bad input"
}

# learns CORE BOARD: tools/board/vibration.c there, with the power cut twice, ends as on this machine without a cut.
# verifies device-41.25da
learns() {
    local core=$1 board=$2 there="$work/$1-vibration" here="$work/pc-vibration" whole said='' cut flags
    mkdir -p "$work/vibration-model"
    echo '{"model_type": "mlp", "input_size": 32, "hidden_sizes": [32], "num_labels": 4}' >"$work/vibration-model/config.json"
    build/release/bedplate plan --model "$work/vibration-model" --max-steps 520 --predict --per-device-train-batch-size 8 \
        --optim sgd --learning-rate 5e-2 --lr-scheduler-type constant --kernels portable --emit-c "$here" >/dev/null
    cp tools/board/vibration.c "$here/example.c"
    cp -r "$here" "$there"
    make -s -C "$here" BEDPLATE="$PWD/build/release/kit" CFLAGS="-O2 -I."
    whole=$(run_there '' "$here" | tail -2)
    cat "build/$core/kit/kit.mk" "$here/Makefile" >"$there/Makefile"
    flags=$(sed -n 's/^CFLAGS = //p' "build/$core/kit/kit.mk")
    for cut in 61 150 0; do
        rm -f "$there/example" "$there/example.o"
        make -s -C "$there" CFLAGS="$flags -I. -DCUT=$cut" example
        said+=$(run_there "$board" "$there")$'\n'
    done
    judge "$(grep -c 'power was cut' <<<"$said") $(tail -2 <<<"${said%$'\n'}")" "2 $whole" "$core learns through cuts"
    size=yes look_at_size "$core" vibration "$there/example"
}

# moves CORE BOARD: the MLP's state in a flash goes from `bedplate train` to the board, from there to this machine and
# back to a folder: all end where one run ends. A board refuses the state of another plan.
# verifies device-21.354b
moves() {
    local core=$1 board=$2 there="$work/$1-flash" here="$work/pc-flash" image=flash.img blocks
    local carry=$PWD/build/release/tools/board/carry whole
    rm -rf "$there" "$here" "$work/moving" "$work/moved"
    cp -r "$work/mlp" "$there" && cp -r "$work/mlp" "$here"
    cat "build/$core/kit/kit.mk" "$work/mlp/Makefile" >"$there/Makefile"
    make -s -C "$there" clean && make -s -C "$there" FLASH=1 STEPS=14 example &&
        make -s -C "$here" clean && make -s -C "$here" BEDPLATE="$PWD/build/release/kit" FLASH=1 STEPS=20 example
    blocks=$(printf '#include "flash.h"\nFLASH_BLOCKS' |
        gcc -E -P -I"$here" -Ibuild/release/kit/include - | tail -1)
    build/release/bedplate train --model "$work/mlp-model" --max-steps 20 --stop-at-step 7 "${mlp[@]}" \
        --data "$work/rows.csv" --quiet --output-dir "$work/moving" >/dev/null
    "$carry" "$there/$image" $((blocks)) in "$work/moving/checkpoint-7"
    judge "$(run_there "$board" "$there" | grep -c '^loss')" 7 "$core goes on from the 7 steps of train"
    cp "$there/$image" "$here/$image"
    whole=$(run_there '' "$here")
    judge "$(grep -c '^loss' <<<"$whole") $(tail -1 <<<"$whole")" "6 $(tail -1 "$work/mlp.said")" \
        "$core: flash back on this machine"
    mkdir "$work/moved" && "$carry" "$here/$image" $((blocks)) out "$work/moved/checkpoint-20"
    judge "$(build/release/bedplate verify "$work/moved/checkpoint-20" --json | sed -n 's/.*"state_digest": "\([^"]*\)".*/\1/p')" \
        "$(sed -n 's/^state digest //p' "$work/mlp.said")" "$core: a folder out of the flash"
}

# build_for CORE NAME..: the kit of that core, and the example that plans where it is asked for.
build_for() {
    local core=$1 out
    [[ " $* " == *" train "* ]] && goals='board board-kit' || goals='board-kit'
    # shellcheck disable=SC2086
    out=$(make -s VARIANT="$core" $goals 2>&1) && return
    echo "$core: does not build: $(tail -5 <<<"$out")"
    failed=$((failed + 1))
    return 1
}

make_inputs
make -s board build/release/bedplate && make -s install-library DESTDIR= PREFIX="$PWD/build/release/kit" >/dev/null || exit 1
on_pc gpt "$(data_of gpt)" "${gpt[@]}"
on_pc gpt8 "$work/text" "${gpt[@]}" --tape-dtype fp8 # its tape in eight bits
# Its buffers lie closer together.
# verifies device-22.986d
mlp+=(--alignment 32 --kernels portable)
on_pc mlp "$(data_of mlp)" "${mlp[@]}"
on_pc gru "$(data_of gru)" "${gru[@]}"
on_pc cnn "$(data_of cnn)" "${cnn[@]}"
on_pc decoder "$(data_of decoder)" "${decoder[@]}"
# Trained whole, and above its first six layers as they are, in less than 256 KB with all else (board.sizes).
kws=(--per-device-train-batch-size 1 --optim sgd --learning-rate 1e-3 --max-grad-norm 0 --gradient-release
    --gradient-checkpointing memory-poor --alignment 32 --kernels portable)
on_pc kws "$work/mfcc.csv" "${kws[@]}"
on_pc kwslow "$work/mfcc.csv" "${kws[@]}" --freeze 'layers.[0-5].*'
on_pc anomaly "$work/mel.csv" "${kws[@]}" # MLPerf Tiny's autoencoder, whose weights alone are 1.08 MB
# In 256 KB: most of its matrices stay as they are, in flash; norms, biases and four in the middle are trained.
# verifies device-25.d3df
on_pc anomalylow "$work/mel.csv" "${kws[@]}" --freeze 'layers.[0-3].convolution.weight' \
    --freeze 'layers.8.convolution.weight' --freeze classifier.weight --offload flash:1MB
# The classifier of MLPerf Tiny's ResNet-8: what windows see is written down by lines.
on_pc resnet "$work/pictures.csv" "${kws[@]}" --freeze 'layers.*' --offload flash:1MB
# A Llama fine-tuned by LoRA in 256 KB, its base in flash: in fp32, and its layers' matrices in int8.
# verifies device-25.d3df
lora=(--per-device-train-batch-size 1 --max-seq-length 32 --lora-r 4 --learning-rate 3e-3 --gradient-release
    --gradient-checkpointing memory-poor --alignment 32 --kernels portable --offload flash:2MB)
on_pc llama "$work/text" "${lora[@]}"
on_pc llama8 "$work/text" "${lora[@]}" --load-in-8bit
while read -r core board names; do
    [[ -n $core && (-z $* || " $* " == *" $core "*) ]] || continue
    runner=$board compiler=$(compiler_of "$core" gcc)
    case $board in
    mps*) runner=qemu-system-arm ;;
    virt) runner=qemu-system-riscv32 ;;
    esac
    if ! command -v "$runner" >/dev/null || ! command -v "$compiler" >/dev/null; then
        lacks_tool "$core, no $compiler or no $runner"
        continue
    fi
    [[ -z $size || $board != qemu-* ]] || continue
    names=${long:-$names}
    # shellcheck disable=SC2086
    build_for "$core" $names || continue
    for name in $names; do
        program=build/$core/tools/board/$name said=$(build/release/tools/board/train | grep -v '^plan')
        if [[ $name != train ]]; then
            cp -r "$work/$name" "$work/$core-$name"
            cat "build/$core/kit/kit.mk" "$work/$name/Makefile" >"$work/$core-$name/Makefile"
            # Its stack ends with 256 KB of memory: the linker refuses what has less room.
            [[ $name != llama* ]] || sed -i 's/board_ram_bytes=4M/board_ram_bytes=256K/' "$work/$core-$name/Makefile"
            make -s -C "$work/$core-$name" clean && make -s -C "$work/$core-$name" STEPS="$(steps_of "$name")" example || failed=$((failed + 1))
            program=$work/$core-$name/example said=$(cat "$work/$name.said")
        fi
        on_board "$core" "$board" "$name" "$program" "$said"
    done
    [[ " $names " != *" kws "* ]] || too_small "$core"
    [[ $core != cortex-m7 || -n $long$size ]] || learns "$core" "$board"
    [[ ! $core =~ cortex-m7|riscv32 || -n $long$size ]] || { packages "$core" "$board" && refuses "$core" "$board"; }
    [[ $core != cortex-m7 ]] || compact_code "$core" 4096
    [[ $core != cortex-m7 || -n $long ]] || { without_digest "$core" gpt 24840 && without_digest "$core" mlp 17408; }
    [[ -n $long$size || $core == cortex-m4 || $core == aarch64 ]] || moves "$core" "$board"
done <<<"$boards"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && ($passed -gt 0 || ${OPTIONAL:-} == 1) ]]
