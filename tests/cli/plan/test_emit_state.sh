#!/bin/bash
# SPDX-License-Identifier: MIT
# The compact state of a trainer: kept in two slots, taken up again, and read by `bedplate import` as a checkpoint of the
# digest of `train`; torn and changed at any byte it is refused, or the older one is taken. Cuts of power on a flash are
# tests/unit/device/host/test_trainer_state.c's.
. "$(dirname "$0")/../lib.sh"

kit=$work/kit
make -s install-library PREFIX="$kit" DESTDIR= >/dev/null 2>&1
check $? "install the library"
mkdir -p "$work/mlp"
echo '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' >"$work/mlp/config.json"
awk 'BEGIN { for (j = 0; j < 16; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 64; i++) { for (j = 0; j < 16; j++) printf "%.6f,", ((i * 16 + j) * 7919 % 257 - 128) / 64
        print i % 4 } }' >"$work/rows.csv"
cat >"$work/keeps.c" <<'END'
#include "trainer.h"
#include <stdio.h>
#include <string.h>
int example_main(void);
static unsigned char slots[2][32768];
static bp_status from(void *user, uint32_t slot, uint64_t offset, void *to, size_t bytes)
{
    (void)user;
    memcpy(to, slots[slot] + offset, bytes);
    return BP_OK;
}
static bp_status erase(void *user, uint32_t slot)
{
    (void)user;
    memset(slots[slot], 0xff, sizeof slots[slot]);
    return BP_OK;
}
static bp_status into(void *user, uint32_t slot, uint64_t offset, const void *data, size_t bytes)
{
    (void)user;
    memcpy(slots[slot] + offset, data, bytes);
    return BP_OK;
}
int main(void)
{
    static const bp_trainer_slots place = {NULL, sizeof slots[0], from, erase, into};
    static unsigned char seen[24];
    const bp_trainer_part parts[] = {{"sensor", seen, sizeof seen}};
    bool any = true;
    uint64_t digest = 0, again = 1;
    memset(slots, 0xff, sizeof slots);
    memset(seen, 7, sizeof seen);
    if (trainer_init() != BP_OK || trainer_recall(&place, parts, 1, &any) != BP_OK || any) return 1;
    if (trainer_keep(&place, parts, 1) != BP_OK || example_main() != 0) return 2;
    if (trainer_keep(&place, parts, 1) != BP_OK || trainer_digest(&digest) != BP_OK) return 3;
    memset(seen, 0, sizeof seen);
    if (trainer_init() != BP_OK || trainer_recall(&place, parts, 1, &any) != BP_OK || !any) return 4;
    if (trainer_digest(&again) != BP_OK || again != digest || trainer_steps() != STEPS || seen[23] != 7) return 5;
    FILE *file = fopen("slots.bin", "wb");
    return fwrite(slots, 1, sizeof slots, file) == sizeof slots && fclose(file) == 0 ? 0 : 6;
}
END
options=(--model "$work/mlp" --per-device-train-batch-size 8 --max-steps 20 --learning-rate 1e-2)
run plan "${options[@]}" --emit-c "$work/c"
make -s -C "$work/c" BEDPLATE="$kit" CFLAGS=-O1 plan.o trainer.o >"$work/made" 2>&1
(cd "$work/c" && cc -std=c99 -O1 -I"$kit/include" -Dmain=example_main -c example.c &&
    cc -std=c99 -O1 -I"$kit/include" -DSTEPS=20 -I. ../keeps.c example.o plan.o trainer.o pc.c -L"$kit/lib" -lbedplate -lm -o keeps &&
    ./keeps) >>"$work/made" 2>&1
check $? "kept and taken up again" "$(cat "$work/made")"
run train "${options[@]}" --data "$work/rows.csv" --output-dir "$work/run" --quiet --json
trained=$(json state_digest)

# verifies device-40.58da
run import --from "$work/c/slots.bin" --to "$work/board" --model "$work/mlp" --json
[[ $code -eq 0 && $(json step) -eq 20 && -n $trained && $(json state_digest) == "$trained" ]]
check $? "a checkpoint of the digest of train" "$trained $out$err"
run verify "$work/board/checkpoint-20" --json
[[ $(json state_digest) == "$trained" ]]
check $? "which verify reads" "$out$err"
run eval --model "$work/board/checkpoint-20" --data "$work/rows.csv" --json --quiet
loss=$(json loss)
run eval --model "$work/run" --data "$work/rows.csv" --json --quiet
[[ -n $loss && $(json loss) == "$loss" ]]
check $? "and eval judges as the model of train" "$loss $out$err"

# A checkpoint of train becomes a slot, which a trainer takes up and goes on from.
cat >"$work/takes.c" <<'END'
#include "trainer.h"
#include <stdio.h>
#include <string.h>
static unsigned char slots[2][32768];
static bp_status from(void *user, uint32_t slot, uint64_t offset, void *to, size_t bytes)
{
    (void)user;
    memcpy(to, slots[slot] + offset, bytes);
    return BP_OK;
}
int main(void)
{
    static const bp_trainer_slots place = {NULL, sizeof slots[0], from, NULL, NULL};
    bool any = false;
    uint64_t digest = 0;
    FILE *file = fopen("slot", "rb");
    if (file == NULL || fread(slots[1], 1, sizeof slots[1], file) == 0) return 1;
    if (trainer_init() != BP_OK || trainer_recall(&place, NULL, 0, &any) != BP_OK || !any) return 2;
    if (trainer_digest(&digest) != BP_OK) return 3;
    printf("%d %016llx\n", (int)trainer_steps(), (unsigned long long)digest);
    return 0;
}
END
run train "${options[@]}" --stop-at-step 7 --data "$work/rows.csv" --output-dir "$work/seven" --quiet --json
run verify "$work/seven/checkpoint-7" --json
seventh=$(json state_digest)
run export --model "$work/seven/checkpoint-7" --to "$work/c/slot" --format state --json
[[ $code -eq 0 && $(json step) -eq 7 && $(json state_digest) == "$seventh" ]]
check $? "export --format state" "$out$err"
said=$(cd "$work/c" && cc -std=c99 -O1 -I"$kit/include" -I. ../takes.c plan.o trainer.o -L"$kit/lib" -lbedplate -lm -o takes && ./takes)
[[ -n $seventh && $said == "7 $seventh" ]]
check $? "and a trainer takes it up" "$said $seventh"
run import --from "$work/c/slot" --to "$work/there" --json
[[ $code -eq 0 && $(json state_digest) == "$seventh" ]]
check $? "and import gives it back" "$out$err"
expect 4 'checkpoint' export --model "$work/mlp" --to "$work/x" --format state
cp -r "$work/seven/checkpoint-7" "$work/damaged"
printf X | dd of="$work/damaged/state.safetensors" bs=1 seek=2500 conv=notrunc status=none
expect 4 'state.safetensors' export --model "$work/damaged" --to "$work/x" --format state
[[ ! -e $work/x ]]
check $? "nothing is written of a damaged one"

# One slot alone; the newest whole one of two; none.
tail -c 32768 "$work/c/slots.bin" >"$work/one"
head -c 32768 "$work/c/slots.bin" >"$work/two"
steps=''
for file in one two; do
    rm -rf "$work/board"
    run import --from "$work/$file" --to "$work/board" --json
    steps+="$code $(json step) "
done
[[ $steps == '0 0 0 20 ' || $steps == '0 20 0 0 ' ]]
check $? "each slot by itself" "$steps"
newest=two older=one
[[ $steps == '0 0 0 20 ' ]] || newest=one older=two
# changed AT FILE: a byte changed there.
changed() {
    cp "$2" "$work/changed"
    printf '%s' "X" | dd of="$work/changed" bs=1 seek="$1" conv=notrunc status=none
}
bytes=0 wrong=''
for at in 4 8 12 17 24 32 40 44 60 63 256 260 300 700 1500 4096 9000; do
    changed "$at" "$work/$newest"
    rm -rf "$work/board"
    run import --from "$work/changed" --to "$work/board"
    [[ $code -eq 4 && $err == *'no state in the file is whole'* && ! -e $work/board ]] || wrong+="$at $code "
    bytes=$((bytes + 1))
done
check "$([[ -z $wrong && $bytes -eq 17 ]]; echo $?)" "a changed byte is found" "$wrong$err"
wrong=''
for length in 4 63 64 255 256 257 1000 5000 9000; do
    head -c $length "$work/$newest" >"$work/cut"
    run import --from "$work/cut" --to "$work/board"
    [[ $code -eq 4 && ! -e $work/board ]] || wrong+="$length $code "
done
check "$([[ -z $wrong ]]; echo $?)" "a file that is cut off is found" "$wrong$err"
changed 1000 "$work/$newest"
cat "$work/changed" "$work/$older" >"$work/both"
run import --from "$work/both" --to "$work/board" --json
[[ $code -eq 0 && $(json step) -eq 0 ]]
check $? "the older one where the newest is torn" "$out$err"
expect 2 'only a state of a board' import --from "$work/rows.csv" --to "$work/x" --model "$work/mlp"
# Frozen weights are the program's.
run plan "${options[@]}" --freeze 'layers.0.*' --offload flash:1MB --emit-c "$work/c"
rm -f "$work/c/"*.o
make -s -C "$work/c" BEDPLATE="$kit" CFLAGS=-O1 plan.o trainer.o frozen.o >"$work/made" 2>&1
(cd "$work/c" && cc -std=c99 -O1 -I"$kit/include" -Dmain=example_main -c example.c &&
    cc -std=c99 -O1 -I"$kit/include" -DSTEPS=20 -I. ../keeps.c example.o plan.o trainer.o frozen.o pc.c -L"$kit/lib" -lbedplate -lm \
        -o keeps && ./keeps) >>"$work/made" 2>&1
check $? "beside frozen weights" "$(cat "$work/made")"
expect 4 'layers.0.bias: the state lacks a frozen weight' import --from "$work/c/slots.bin" --to "$work/x"
finish
