#!/bin/bash
# SPDX-License-Identifier: MIT
# A restart that cannot read what is there, once or from then on: it goes on to the same bits, or it ends with 6, and
# neither the record nor a checkpoint is touched. And it never begins anew beside what is left of a run.
. "$(dirname "$0")/../lib.sh"

case $BUILD in
*sanitize* | *tsan* | *aarch64*)
    echo "skipped: faults are preloaded, which this build does not allow"
    exit 77
    ;;
esac
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
${CC:-cc} -shared -fPIC -O1 -o "$work/reads.so" tests/fault/reads.c -ldl 2>"$work/.err"
check $? "builds what makes reads fail" "$(cat "$work/.err")"
train=(train --model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 2 --max-steps 7 --save-steps 2
    --threads 1 --quiet --json --save-total-limit 0 --storage-patience 1s --output-dir) # limit: it ends by it, or does not
run "${train[@]}" "$work/whole" --stop-at-step 6
whole=$(json state_digest)
run "${train[@]}" "$work/good" --stop-at-step 5
[[ $code -eq 0 && -n $whole ]]
check $? "the runs without a fault" "$err"

# What a restart may meet: whole checkpoints; the newest of them damaged; one file of it gone; a replaced one.
scene() {
    rm -rf "$work/r"
    cp -r "$work/good" "$work/r"
    case $1 in
    damaged) printf X | dd of="$work/r/checkpoint-5/state.safetensors" bs=1 seek=9000 conv=notrunc status=none ;;
    missing) rm "$work/r/checkpoint-5/model.safetensors" ;;
    replaced) mv "$work/r/checkpoint-5" "$work/r/old-checkpoint-5" ;;
    esac
}
# lost: whether a checkpoint that was there is gone, or a line of the record.
lost() {
    local name
    for name in "$work"/good/checkpoint-*; do
        [[ -e $work/r/${name##*/}/state.safetensors || -e $work/r/old-${name##*/}/state.safetensors ]] || return 0
    done
    ! cmp -s "$work/good/record.jsonl" <(head -c "$(stat -c %s "$work/good/record.jsonl")" "$work/r/record.jsonl")
}

# verifies alone-13.683b
# failing SCENE CODE EVER: every call of a restart that reads in the output directory fails with that number.
failing() {
    local n=$first calls ends='' bad=0
    export FAULT_UNDER=$work/r FAULT_CODE=$2 FAULT_COUNT=$work/count
    [[ -z $3 ]] || export FAULT_EVER=1
    while :; do
        scene "$1"
        FAULT_AT=$n LD_PRELOAD=$work/reads.so "$program" "${train[@]}" "$work/r" --resume auto --stop-at-step 6 >"$work/.out" 2>"$work/.err"
        code=$?
        out=$(cat "$work/.out")
        err=$(cat "$work/.err")
        calls=$(cat "$work/count")
        ends+=" $code"
        if [[ $code -eq 0 ]]; then
            [[ $(json state_digest) == "$whole" && $(wc -l <"$work/r/record.jsonl") -eq $(wc -l <"$work/whole/record.jsonl") ]] ||
                { bad=1 && check 1 "$1: call $n of $calls fails with $2: another run" "$out$err"; }
        else
            [[ $code -eq 6 ]] && ! lost ||
                { bad=1 && check 1 "$1: call $n of $calls fails with $2: exit $code, or something is lost" "$err"; }
        fi
        ((n <= calls && bad < 5)) || break
        n=$((n + step))
    done
    unset FAULT_UNDER FAULT_CODE FAULT_COUNT FAULT_EVER
    run "${train[@]}" "$work/r" --resume auto --stop-at-step 6
    [[ $code -eq 0 && $(json state_digest) == "$whole" ]] || { bad=1 && check 1 "$1: when nothing fails any more" "$err"; }
    first=$((step > 1 ? first + 5 : 1))
    [[ $bad -eq 0 && $n -gt 200 && $ends == *6* ]]
    check $? "$1: each of $n failing calls ($2${3:+, from then on})" "$ends"
}
# A share of the calls, others in each scene; all of them with BP_TEST_LONG.
step=37
[[ -z ${BP_TEST_LONG:-} ]] || step=1
first=1
failing whole 116 '' # ESTALE
failing damaged 5 ''  # EIO
failing missing 13 '' # EACCES
failing whole 2 ''    # ENOENT of what is there: it leads to no older step
failing replaced 24 '' # EMFILE
failing whole 12 ever # ENOMEM
failing damaged 116 ever

# All files of one name, in the one way and the other: opening, what follows it.
for file in model.safetensors state.safetensors config.json record.jsonl; do
    for fault in 2.1 116.1 5.1 13.1 12.1 24.1 5.2 5.3; do # ENOENT ESTALE EIO EACCES ENOMEM EMFILE; the first, second, third call
        scene whole
        FAULT_FILE=$file FAULT_UNDER=$work/r FAULT_CODE=${fault%.*} FAULT_AT=${fault#*.} FAULT_EVER=1 LD_PRELOAD=$work/reads.so \
            "$program" "${train[@]}" "$work/r" --resume auto --stop-at-step 6 >"$work/.out" 2>"$work/.err"
        code=$?
        [[ $code -eq 6 ]] && ! lost
        check $? "$file: ${fault%.*} from call ${fault#*.} on: exit $code" "$(cat "$work/.err")"
    done
done

# What is left of a run whose checkpoints are all damaged, or gone, is no beginning; --overwrite-output-dir says that it is.
auto=("${train[@]}" "$work/r" --resume auto --stop-at-step 6)
for end in 2 4 5; do
    printf X | dd of="$work/good/checkpoint-$end/model.safetensors" bs=1 seek=9000 conv=notrunc status=none
done
scene whole
expect 4 'none of them is valid; --overwrite-output-dir' "${auto[@]}"
lost && check 1 "nothing is lost where all checkpoints are damaged" "$(ls "$work/r")"
rm -r "$work"/r/checkpoint-*
expect 4 'lists saved states, and no checkpoint is here' "${auto[@]}"
expect 2 'lists saved states, and no checkpoint is here' "${train[@]}" "$work/r" --stop-at-step 6
cmp -s "$work/good/record.jsonl" "$work/r/record.jsonl"
check $? "the record is as it was"
scene whole
expect 2 'give --resume to continue it, --overwrite-output-dir' "${train[@]}" "$work/r"
mv "$work/r/checkpoint-2" "$work/r/old-checkpoint-2"
for options in --resume ''; do
    # shellcheck disable=SC2086
    run "${train[@]}" "$work/r" --stop-at-step 1 --overwrite-output-dir $options
    [[ $code -eq 0 && $(cd "$work/r" && echo *checkpoint-*) == checkpoint-1 && $(wc -l <"$work/r/record.jsonl") -eq 2 ]]
    check $? "--overwrite-output-dir $options begins anew" "$err$(ls "$work/r")"
    scene replaced
done
# Killed before its first checkpoint a run begins anew by itself: nothing can have been lost.
mkdir "$work/early"
head -2 "$work/good/record.jsonl" >"$work/early/record.jsonl"
run "${train[@]}" "$work/early" --resume auto --stop-at-step 6
[[ $code -eq 0 && $(json state_digest) == "$whole" ]]
check $? "a run that was killed before its first checkpoint" "$err"
# So it does with states in its record whose saves were all postponed: its events list no save. One save, or
# events whose beginning is not there, and a checkpoint may have been lost.
postponed() { # LINES of events, ..
    rm -r "$work/early" && mkdir "$work/early"
    head -5 "$work/good/record.jsonl" >"$work/early/record.jsonl"
    printf '%s\n' "$@" >"$work/early/events.jsonl"
}
began='{"event":"start","seq":0,"time":"2026-11-28T00:00:00Z","unix":1795824000.000000,"step":0}'
missed='{"event":"save-failed","seq":2,"time":"2026-11-28T00:00:00Z","unix":1795824000.000000,"step":2}'
grep -q '^{"state":' <(head -5 "$work/good/record.jsonl")
check $? "the record of that run has a state"
postponed "$began" "$missed"
run "${train[@]}" "$work/early" --resume auto --stop-at-step 6
[[ $code -eq 0 && $(json state_digest) == "$whole" ]]
check $? "a run that was killed before any save succeeded begins anew" "$err"
postponed "$began" "$missed" "${missed/save-failed/save}"
expect 4 'lists saved states, and no checkpoint is here' "${train[@]}" "$work/early" --resume auto --stop-at-step 6
postponed "${began/seq\":0/seq\":1}" "$missed"
expect 4 'lists saved states, and no checkpoint is here' "${train[@]}" "$work/early" --resume auto --stop-at-step 6
finish
