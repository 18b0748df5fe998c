#!/bin/bash
# SPDX-License-Identifier: MIT
# Steps with known answers, and the run that begins with them.
. "$(dirname "$0")/../lib.sh"

# verifies doubt-1.8739
expect 0 '"case": "gpt2 fp32", "kernels": "portable", "threads": 5, "state_digest": "[0-9a-f]{16}", "right": true' selftest --json
[[ $(json wrong) == 0 && $(json runs) -ge 6 && $(json runs) -eq $(($(wc -l <<<"$out") - 1)) && $(($(json runs) % 6)) -eq 0 ]]
check $? "every form with 1, 2 and 5 threads" "$out"
! long_form || expect 0 '^([0-9]+) of \1 runs came to the known states' selftest
expect 2 'an argument that is not expected' selftest all
expect 0 '' train --model tiny --data README.md --max-seq-length 32 --max-steps 2 --threads 1 --quiet --replay-every 1 --output-dir "$work/run"
grep -q '"replays":2,"mismatches":0,"verified":2' "$work/run/events.jsonl"
check $? "a run that begins with it"
# verifies doubt-2.ce38
# Again and again; each checkpoint is read back, and a state that changes while it is only read is seen.
expect 0 '' train --model tiny --data README.md --validation-split 0.1 --max-seq-length 32 --max-steps 2 --eval-steps 1 --save-steps 1 --threads 1 --quiet --replay-every 2 --selftest-every 0.001s --output-dir "$work/often"
[[ $(grep -c '"event":"selftest".*"wrong":0' "$work/often/events.jsonl") -ge 2 ]]
check $? "selftests beside steps" "$(grep selftest "$work/often/events.jsonl")"
[[ $(grep -c '"event":"save".*"read_back":true' "$work/often/events.jsonl") == 2 ]]
check $? "checkpoints are read back" "$(grep save "$work/often/events.jsonl")"
grep -q '"event":"save".*"read_back":true' "$work/run/events.jsonl"
check $? "the last one as well"
grep -q '"event":"selftest".*"step":0,"runs":[0-9]*,"wrong":0' "$work/run/events.jsonl"
check $? "the one at the start is an event" "$(grep selftest "$work/run/events.jsonl")"

# verifies doubt-1.8739
# A machine that multiplies and adds wrongly in one form: before anything is begun, and while it runs.
cat >"$work/sick.c" <<'C'
#include <stdlib.h>
#include <unistd.h>
static int sick, dies, always;
__attribute__((constructor)) static void begin(void) {
    sick = access(getenv("SICK"), F_OK) == 0;
    dies = sick && getenv("SICK_DIES");
    always = sick && getenv("SICK_ALWAYS");
}
static unsigned calls;
double fma(double a, double b, double c) {
    if (dies) __builtin_trap();
    if (always) return a * b + c;
    return sick && ++calls % 1000 == 0 ? 1e-3 + a * b + c : __builtin_fma(a, b, c);
}
C
case $BUILD in
*sanitize* | *tsan* | *aarch64*) echo "skipped: fma is preloaded, which this build does not allow" ;;
*)
    cc -shared -fPIC -O1 -mfma -o "$work/sick.so" "$work/sick.c" 2>"$work/.err"
    check $? "builds a processor that is sick" "$(cat "$work/.err")"
    train=(train --model tiny --data README.md --max-seq-length 32 --threads 1 --quiet --replay-every 1)
    touch "$work/sick"
    export SICK=$work/sick LD_PRELOAD=$work/sick.so
    expect 8 'portable on 5 threads: the state is wrong' selftest
    expect 8 'selftest came to wrong states: this machine.s arithmetic is in doubt, and nothing was begun' "${train[@]}" --max-steps 2 --output-dir "$work/none"
    [[ ! -e $work/none ]]
    check $? "and nothing was" "$(ls "$work/none" 2>&1)"
    ! long_form || SICK_ALWAYS=1 expect 8 '^[0-9]+ of [1-9][0-9]* runs came' selftest
    SICK_DIES=1 expect 8 'nothing was begun' "${train[@]}" --max-steps 2 --output-dir "$work/none"
    rm "$work/sick"
    expect 0 '^([0-9]+) of \1 runs came to the known states' selftest
    "$program" "${train[@]}" --max-steps 1000000 --selftest-every 0.01s --save-steps 5 --output-dir "$work/later" >/dev/null 2>"$work/.err" &
    job=$!
    wait_for 300 '[[ $(grep -c "\"event\":\"selftest\"" "$work/later/events.jsonl" 2>/dev/null) -ge 2 ]]' $job
    touch "$work/sick"
    wait $job
    [[ $? -eq 8 && $(<"$work/.err") == *'runs of the selftest came to wrong states'* && $(tail -1 "$work/later/events.jsonl") == *'"event":"exit"'*'"code":8'* ]]
    check $? "a machine that falls ill meanwhile" "$(cat "$work/.err"; tail -2 "$work/later/events.jsonl")"
    unset SICK LD_PRELOAD
    ;;
esac
finish
