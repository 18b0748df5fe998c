#!/bin/bash
# SPDX-License-Identifier: MIT
# Files that others write to, move or cut while a run is at work: its record and its data.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(train --model tiny --max-seq-length 16 --per-device-train-batch-size 2 --threads 1 --logging-steps 1
    --max-steps 10000000)

# start DIR OPTIONS..: in the background, up to its first step.
start() {
    local dir=$1
    shift
    "$program" "${common[@]}" --output-dir "$dir" "$@" >"$work/.out" 2>"$work/.err" </dev/null &
    job=$!
    steps_pass 1
}
# steps_pass N: until N more lines of the log are there, or the job has ended.
steps_pass() {
    local want=$(($(grep -c '^step' "$work/.err") + $1))
    wait_for 120 '[[ $(grep -c ^step "$work/.err") -ge $want ]]' $job
}
# saves: it saves, and goes on.
saves() {
    kill -USR1 $job
    local dir=$1 before
    before=$(ls "$dir")
    wait_for 120 '[[ $(ls "$dir") != "$before" ]]' $job
    steps_pass 2
}
# ends CODE NAME
ends() {
    kill -TERM $job 2>/dev/null
    wait $job
    local got=$?
    [[ $got -eq $1 ]]
    check $? "$2 ends with $1, not $got" "$(tail -3 "$work/.err")"
}

# A record that is cut: it is told, once; no NUL is written; what was saved before stays valid.
start "$work/cut" --data "$work/text"
saves "$work/cut"
truncate -s 100 "$work/cut/record.jsonl"
steps_pass 3
ends 143 "a run whose record was cut"
[[ $(grep -c 'record.jsonl: somebody cut the record while the run wrote it' "$work/.err") -eq 1 ]]
check $? "is told, once" "$(grep -v '^step' "$work/.err")"
grep -q '"event":"record",.*"lost":true' "$work/cut/events.jsonl"
check $? "and in the events" "$(grep '"record"' "$work/cut/events.jsonl")"
[[ $(stat -c %s "$work/cut/record.jsonl") -eq 100 && $(tr -d '\0' <"$work/cut/record.jsonl" | wc -c) -eq 100 ]]
check $? "nothing is written behind the cut" "$(head -c 300 "$work/cut/record.jsonl" | cat -v)"
expect 4 'saved without a record, and here is one; moved elsewhere' "${common[@]}" --data "$work/text" \
    --output-dir "$work/cut" --resume
rm "$work/cut/record.jsonl"
expect 0 'there is no such record: one begins' "${common[@]}" --data "$work/text" --output-dir "$work/cut" --resume \
    --stop-at-step 1

# A record that is moved (HUP), or removed (the next checkpoint): all of it is there again.
for how in moved removed; do
    start "$work/$how" --data "$work/text"
    steps_pass 2
    if [[ $how == moved ]]; then
        mv "$work/$how/record.jsonl" "$work/$how/record.jsonl.1"
        kill -HUP $job
        steps_pass 3
    else
        rm "$work/$how/record.jsonl"
    fi
    saves "$work/$how"
    ends 143 "a run whose record was $how"
    grep -q 'record.jsonl: the record was moved or removed: all of it is written here again' "$work/.err"
    check $? "is told" "$(grep -v '^step' "$work/.err")"
    expect 0 'agrees with [0-9]+ checkpoint' verify "$work/$how"
done
cmp -s <(head -c "$(stat -c %s "$work/moved/record.jsonl.1")" "$work/moved/record.jsonl") "$work/moved/record.jsonl.1"
check $? "what was moved is the beginning of it"
# Another file in its place is left alone.
start "$work/other" --data "$work/text"
mv "$work/other/record.jsonl" "$work/other/kept"
echo mine >"$work/other/record.jsonl"
kill -HUP $job
steps_pass 8
ends 143 "a run with another file in the place of its record"
[[ $(<"$work/other/record.jsonl") == mine && $(wc -l <"$work/other/kept") -gt 5 ]]
check $? "leaves that file, and goes on where its own is" "$(tail -3 "$work/.err")"

# Data that are written to in place: told, refused or passed over; replaced by another file they are read as they were.
for how in warn error ignore; do
    cp "$work/text" "$work/data"
    start "$work/d-$how" --data "$work/data" --on-data-change "$how"
    printf 'XXXX' | dd of="$work/data" bs=1 seek=100 conv=notrunc status=none
    if [[ $how == error ]]; then
        kill -USR1 $job
        wait $job
        [[ $? -eq 6 && -z $(ls -d "$work/d-error"/checkpoint-* 2>/dev/null) ]]
        check $? "--on-data-change error ends with 6, before it saves" "$(tail -3 "$work/.err")"
    else
        saves "$work/d-$how"
        ends 143 "--on-data-change $how"
    fi
    want=$([[ $how == ignore ]] && echo 0 || echo 1)
    [[ $(grep -c 'data: the file was written to while the run reads it' "$work/.err") -eq $want ]]
    check $? "--on-data-change $how tells it $want times" "$(grep -v '^step' "$work/.err")"
    [[ $(grep -c '"event":"data-changed",.*"bytes_before":' "$work/d-$how/events.jsonl") -eq $([[ $how == warn ]] && echo 1 || echo 0) ]]
    check $? "--on-data-change $how in the events"
done
cp "$work/text" "$work/data"
start "$work/d-new" --data "$work/data"
cp "$work/text" "$work/data.new"
mv "$work/data.new" "$work/data"
saves "$work/d-new"
ends 143 "data replaced by another file"
! grep -q 'was written to' "$work/.err"
check $? "are read as they were" "$(grep -v '^step' "$work/.err")"
finish
