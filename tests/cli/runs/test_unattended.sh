#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs that nobody looks after: signals, limits, one command line for a restart loop, full disks.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(train --model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 2
    --lr-scheduler-type constant --threads 1 --logging-steps 1)

# start DIR OPTIONS..: in the background, up to its first step.
start() {
    local dir=$1
    shift
    (
        trap - INT
        exec "$program" "${common[@]}" --output-dir "$dir" --max-steps 10000000 "$@"
    ) >"$work/.out" 2>"$work/.err" </dev/null &
    job=$!
    steps_pass 1
}
# steps_pass N: until N more lines of the log are there, or the job has ended.
steps_pass() {
    local want=$(($(grep -c '^step' "$work/.err") + $1))
    wait_for 120 '[[ $(grep -c ^step "$work/.err") -ge $want ]]' $job
}
newest() { ls -d "$1"/checkpoint-* 2>/dev/null | sed 's/.*-//' | sort -n | tail -1; }
# ends CODE NAME: the job ends with it, and the newest checkpoint is valid.
ends() {
    wait $job
    local got=$?
    [[ $got -eq $1 ]]
    check $? "$2 ends with $1, not $got" "$(tail -3 "$work/.err")"
}

# verifies alone-4.f3bb
# USR1, USR2 and HUP do not end a run; USR1 saves.
start "$work/s"
kill -USR2 $job
kill -HUP $job
kill -USR1 $job
wait_for 120 '[[ -n $(newest "$work/s") ]]' $job
steps_pass 3
kill -0 $job
check $? "a run goes on after USR1, USR2, HUP" "$(tail -3 "$work/.err")"
saved=$(newest "$work/s")
expect 0 'valid, state digest' verify "$work/s"
kill -XCPU $job
kill -XCPU $job 2>/dev/null
ends 152 "XCPU"
[[ $(newest "$work/s") -gt $saved ]]
check $? "XCPU saves (and a second XCPU does nothing)" "$(ls "$work/s")"
start "$work/u" --on-usr1 stop
kill -USR1 $job
ends 138 "--on-usr1 stop"
expect 0 'valid, state digest' verify "$work/u"
# A second one of TERM and INT stops at once: a run that waits for the disk does not hear of the first.
if unshare -m true 2>/dev/null; then
    cat >"$work/full.sh" <<'S'
mount -t tmpfs -o size=${SIZE:-2m} none "$1" || exit 99
shift
"$@"
code=$?
[[ -n ${AFTER:-} ]] && eval "$AFTER"
exit $code
S
    mkdir "$work/disk"
    # verifies alone-2.31fb
    # on_disk AFTER ARGUMENTS: runs on a disk of $SIZE that only this run sees.
    on_disk() {
        AFTER=$1 unshare -m bash "$work/full.sh" "$work/disk" "${@:2}" >"$work/.out" 2>"$work/.err" </dev/null
        code=$?
        out=$(cat "$work/.out")
        err=$(cat "$work/.err")
    }
    checkpoint=$(du -sb "$work/u/checkpoint-$(newest "$work/u")" | cut -f 1)
    export SIZE=$((checkpoint * 5 / 2))
    train=("$program" "${common[@]}" --output-dir "$work/disk/r" --max-steps 12 --save-steps 2 --quiet --json)
    run "${common[@]}" --output-dir "$work/whole" --max-steps 12 --save-steps 2 --quiet --json
    whole=$(json state_digest)
    on_disk "ls $work/disk/r" "${train[@]}"
    [[ $code -eq 0 && $(grep -o '"state_digest": "[^"]*"' <<<"$out" | grep -o '[0-9a-f]\{16\}') == "$whole" ]]
    check $? "room is made for each checkpoint (exit $code)" "$out$err"
    on_disk "ls $work/disk/r" "${train[@]}" --save-total-limit 0
    [[ $code -eq 6 && $out == *checkpoint-4* && $out == *checkpoint-2* && $out != *tmp-* && $err == *'postponed; training continues for 600 s'* ]]
    check $? "kept are all where that was said; saves are postponed, the end is 6 (exit $code)" "$out$err"
    # A disk that fills while it is trained: the file is not counted when the run begins.
    grow="head -c $((checkpoint * 2)) /dev/zero >$work/disk/other"
    resume="rm -f $work/disk/other; ${train[*]} --resume auto"
    SIZE=$((checkpoint * 4)) on_disk "$resume" bash -c "
        ${train[*]} --max-steps 12 --stop-at-step 3; $grow
        mkdir -p $work/disk/r/tmp-checkpoint-4; head -c $((checkpoint / 2)) /dev/zero >$work/disk/r/tmp-checkpoint-4/state.safetensors
        ${train[*]} --resume --stop-at-step 5; exit \$?"
    [[ $out == *"\"state_digest\": \"$whole\""* ]]
    check $? "a disk that was full, and goes on when it is not" "$out$err"
    # A damaged newest checkpoint does not hold the room that the next one needs.
    SIZE=$((checkpoint * 7 / 2)) on_disk "" bash -c "
        ${train[*]} --stop-at-step 10 --resume auto >/dev/null
        printf X | dd of=$work/disk/r/checkpoint-10/state.safetensors bs=1 seek=9000 conv=notrunc status=none
        head -c $((checkpoint * 11 / 10)) /dev/zero >$work/disk/other
        ls $work/disk/r >&2
        exec ${train[*]} --resume auto --storage-patience 60s"
    [[ $code -eq 0 && $err == *checkpoint-8* && $out == *"\"state_digest\": \"$whole\""* ]]
    check $? "a damaged newest checkpoint makes room (exit $code)" "$out$err"
    # verifies alone-2.31fb
    # Patience that is over ends the run in its middle, with 6; the run waits at its end, and TERM ends that.
    SIZE=$((checkpoint * 3 / 2)) on_disk "" "${train[@]}" --save-total-limit 0 --storage-patience 0 --max-steps 1000
    [[ $code -eq 6 && $err == *'checkpoint'*'could not be written'* || $code -eq 6 && $err == *'free space'* ]]
    check $? "no patience (exit $code)" "$err"
    [[ $(grep -o '"step": [0-9]*' <<<"$out" | tail -1) == '"step": 4' ]]
    check $? "ends at the save that failed" "$out"
    SIZE=$((checkpoint * 3 / 2)) on_disk "" "${train[@]}" --save-total-limit 0 --storage-patience 10s # limit: a hundred times its steps
    [[ $code -eq 6 && $(grep -o '"step": [0-9]*' <<<"$out" | tail -1) == '"step": 12' ]]
    check $? "patience lets it train to its end (exit $code)" "$err"
    # A disk that becomes read-only.
    SIZE=$((checkpoint * 8)) on_disk "" bash -c "${train[*]} --stop-at-step 4 && mount -o remount,ro none $work/disk && ${train[*]} --resume auto --storage-patience 2s" # limit: it ends by it
    [[ $code -eq 6 && ($err == *'read-only file system'* || $err == *'cannot be opened for writing'*) ]]
    check $? "a read-only disk is 6 (exit $code)" "$err"
else
    echo "skipped: full disks (no mount namespaces here)"
fi

# verifies alone-3.6e78
# Two runs in one directory: the second one leaves the first alone.
start "$work/two" --resume auto
expect 6 'two: another run is at work in this directory' "${common[@]}" --output-dir "$work/two" --max-steps 10000000 --resume auto
kill -0 $job
check $? "the first goes on"
kill -TERM $job
ends 143 "the first"
expect 0 'valid, state digest' verify "$work/two"
expect 0 '' "${common[@]}" --output-dir "$work/two" --max-steps 10000000 --resume auto --stop-at-step 1 --quiet
expect 2 'output-dir: the option is needed' "${common[@]}" --output-dir ""

# verifies alone-5.d61d
# Limits.
run "${common[@]}" --output-dir "$work/t" --max-steps 10000000 --time-limit 2s --quiet --json # limit: it ends by it
[[ $code -eq 0 && $(json ended_by) == time-limit ]] && awk -v t="$(json total_seconds)" 'BEGIN { exit !(t < 100) }' # limit: ten million steps take an hour
check $? "a limit of two seconds" "$out$err"
first=$(json steps)
run "${common[@]}" --output-dir "$work/t" --max-steps 10000000 --time-limit 0h0m2s --quiet --json --resume auto # limit: it ends by it
[[ $code -eq 0 && $(json steps) -gt $first ]]
check $? "and on with the same line" "$out$err"
[[ $(ls -d "$work"/t/checkpoint-* | wc -l) -eq 2 ]]
check $? "an unattended run keeps two checkpoints" "$(ls "$work/t")"
start "$work/w" --stop-when "$work/enough"
touch "$work/enough"
ends 0 "--stop-when"
expect 0 'valid, state digest' verify "$work/w"
expect 2 'time-limit: the value is not a time: found "11x"' "${common[@]}" --output-dir "$work/x" --time-limit 11x
expect 2 'time-limit: the value is not a time: found "1h30"' "${common[@]}" --output-dir "$work/x" --time-limit 1h30
expect 2 'storage-patience: the value is not a time' "${common[@]}" --output-dir "$work/x" --storage-patience=-1
expect 0 '^time-limit = 41400$' "${common[@]}" --output-dir "$work/x" --time-limit 11h30m --print-options

# verifies alone-1.c14d
# One command line begins, goes on, and ends at once.
line=("${common[@]}" --output-dir "$work/a" --max-steps 6 --save-steps 2 --quiet --json --resume auto)
run "${line[@]}" --stop-at-step 3
check $code "begins" "$err"
[[ -z $err || $err == *'keeps its newest 2 checkpoints'* ]]
check $? "and has nothing to say" "$err"
run "${line[@]}"
digest=$(json state_digest)
run "${line[@]}"
[[ $code -eq 0 && $(json steps) -eq 6 && $(json state_digest) == "$digest" && -n $digest ]]
check $? "is complete" "$out$err"
printf 'X' | dd of="$work/a/checkpoint-6/state.safetensors" bs=1 seek=9000 conv=notrunc status=none
run "${line[@]}"
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "a damaged newest checkpoint" "$out$err"
expect 2 'save-total-limit' "${line[@]}" --save-total-limit x

# A service may start it without standard streams: no line of the log gets into a file of the run.
for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- >&- 2>&-'; do
    rm -rf "$work/c"
    (
        eval "exec $closed"
        exec "$program" "${common[@]}" --output-dir "$work/c" --max-steps 4 --save-steps 2
    ) >/dev/null 2>&1 </dev/null
    check $? "runs with $closed"
    expect 0 'agrees with 2 checkpoints' verify "$work/c"
done
"$program" --version >&- 2>/dev/null
[[ $? -eq 6 ]]
check $? "and what cannot be printed is an error still"

# The longest name that it will ever write is known at the start.
deep=$work/$(printf 'd%.0s' {1..200})/$(printf 'e%.0s' {1..180})
for length in 467 468; do
    long=$deep/$(printf "%0$((length - ${#deep} - 1))d" 0)
    mkdir -p "${long%/*}"
    expect $((length == 467 ? 0 : 2)) 'total_seconds|a path is too long: found 512, expected at most 511' \
        "${common[@]}" --output-dir "$long" --max-steps 1000 --stop-at-step 1 --quiet --json
done
[[ ! -e $long ]]
check $? "and nothing is written where it is too long"

# The best evaluation's checkpoint is kept beside the newest.
run "${common[@]}" --output-dir "$work/b" --eval-data "$work/text" --eval-steps 2 --save-steps 2 --max-steps 12 \
    --learning-rate 0.3 --keep-best --save-total-limit 1 --quiet --json
best=$(grep -oE '"step": [0-9]+, "epoch": [^,]*, "eval_loss": [0-9.]+' <<<"$out" | sed 's/[^0-9. ]//g' | sort -k3 -g | awk 'NR == 1 { print $1 }')
[[ -n $best && -d $work/b/checkpoint-$best && -d $work/b/checkpoint-12 ]]
check $? "--keep-best ($best)" "$(ls "$work/b")"
finish
