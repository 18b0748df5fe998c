#!/bin/bash
# SPDX-License-Identifier: MIT
# What signals and limits leave behind: reports, metrics and logs by their content, checkpoints that are kept, and
# how long a stop takes where storage is slow.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(train --model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 2
    --lr-scheduler-type constant --threads 1)
start() { # DIRECTORY OPTIONS..
    local dir=$1
    shift
    (
        trap - INT
        exec "$program" "${common[@]}" --max-steps 10000000 --logging-steps 1 --output-dir "$dir" "$@"
    ) >"$work/.out" 2>"$work/.err" </dev/null &
    job=$!
    wait_for 120 "grep -q ^step $work/.err" $job
}
step_of() { sed -n 's/^bedplate_step{.*} //p' "$work/run.prom" 2>/dev/null; }

# verifies alone-4.f3bb
# USR2: metrics and the page, now: not at the next of the five seconds.
start "$work/run" --metrics "$work/run.prom" --report-to tensorboard
rm -f "$work/run.prom"
kill -USR2 $job
wait_for 120 "[[ -s $work/run/report.html && -s $work/run.prom ]]" $job
check $? "USR2 writes both"
grep -q '^bedplate_tokens_total{.*} [1-9]' "$work/run.prom" && [[ $(step_of) -ge 1 ]]
check $? "metrics of the moment" "$(head -5 "$work/run.prom")"
grep -q '<polyline' "$work/run/report.html" && grep -q "$work/run" "$work/run/report.html" && [[ $(tail -1 "$work/run/report.html") == '</body></html>' ]]
check $? "a whole page with its curves"
first=$(step_of)
rm "$work/run.prom"
kill -USR2 $job
wait_for 120 "[[ \$(step_of) -gt $first ]]" $job
check $? "and again later, of a later step"

# verifies alone-4.f3bb
# HUP: what was moved away is left, and new files begin; the record is no log.
mv "$work/run/events.jsonl" "$work/run/events.1"
before=$(wc -l <"$work/run/events.1")
boards=$(ls "$work/run/runs" | wc -l)
kill -HUP $job
wait_for 120 "[[ -e $work/run/events.jsonl ]]" $job
check $? "HUP opens the events again"
moved=$(wc -c <"$work/run/events.1")
kill -USR1 $job
wait_for 120 "grep -q '\"event\":\"save\"' $work/run/events.jsonl" $job
check $? "later events are in the new file" "$(cat "$work/run/events.jsonl")"
[[ $(wc -c <"$work/run/events.1") -eq $moved && $(ls "$work/run/runs" | wc -l) -eq $((boards + 1)) ]]
check $? "none in the old one, and TensorBoard has another file" "$(ls "$work/run/runs")"
kill -PIPE $job
kill -XFSZ $job
seen=$(wc -l <"$work/.err")
wait_for 120 "[[ \$(wc -l <$work/.err) -gt $((seen + 2)) ]]" $job && kill -0 $job
check $? "PIPE and XFSZ are nothing"
kill -TERM $job
wait $job
[[ $? -eq 143 ]]
check $? "TERM ends it" "$(tail -3 "$work/.err")"
expect 0 'valid, state digest' verify "$work/run"
run "${common[@]}" --max-steps 10000000 --stop-at-step 1 --output-dir "$work/run" --resume --quiet
sequence=$(cat "$work/run/events.1" "$work/run/events.jsonl" | grep -o '"seq":[0-9]*' | sed 's/.*://')
[[ $(sort -n <<<"$sequence" | uniq | wc -l) -eq $(wc -l <<<"$sequence") && $(sort -n <<<"$sequence") == "$sequence" && $(wc -l <<<"$sequence") -gt $before ]]
check $? "numbers of events go on over a rotation and a resume" "$(tr '\n' ' ' <<<"$sequence")"

# TERM and INT at once: the second one does not wait for a save.
start "$work/twice"
kill -STOP $job
kill -TERM $job
kill -INT $job
kill -CONT $job
wait $job
code=$?
[[ $code -ge 130 && -z $(ls -d "$work"/twice/checkpoint-* 2>/dev/null) ]]
check $? "a second signal ends it at once (exit $code)" "$(ls "$work/twice")"

# Each unattended option keeps two checkpoints; without one all are kept.
kept() { ls -d "$work"/k/checkpoint-* | sed 's/.*-//' | sort -n | tr '\n' ' '; }
for option in "--resume auto" "--time-limit 1h" "--stop-when $work/never" "--on-usr1 stop" "--storage-patience 1m"; do
    rm -rf "$work/k"
    # shellcheck disable=SC2086
    run "${common[@]}" --max-steps 12 --save-steps 3 --quiet --output-dir "$work/k" $option
    [[ $(kept) == '9 12 ' ]]
    check $? "$option keeps two" "$(kept)$err"
done
rm -rf "$work/k"
run "${common[@]}" --max-steps 12 --save-steps 3 --quiet --output-dir "$work/k"
[[ $(kept) == '3 6 9 12 ' ]]
check $? "else all are kept" "$(kept)"
rm -rf "$work/k"
run "${common[@]}" --max-steps 12 --save-steps 3 --quiet --output-dir "$work/k" --resume auto --save-total-limit 3
[[ $(kept) == '6 9 12 ' ]]
check $? "or as many as were asked for" "$(kept)"
# 10 is verified, so 9 is the last checkpoint of which all is; it stays.
rm -rf "$work/k"
run "${common[@]}" --max-steps 19 --save-steps 3 --quiet --output-dir "$work/k" --resume auto --replay-every 10
[[ $(kept) == '9 18 19 ' ]]
check $? "the last verified one is kept beside them" "$(kept)$err"

# Slow storage: a save is as many syncs as it is, which is measured, told, and left time for.
cc -shared -fPIC -O1 -o "$work/slow.so" tests/soak/trouble.c -ldl 2>"$work/.err"
check $? "builds what slows syncs down" "$(cat "$work/.err")"
case $BUILD in
*sanitize* | *tsan*) echo "skipped: slow syncs are preloaded, which this build does not allow" ;;
*)
    rm -rf "$work/k"
    began=$(date +%s%N) # limit: ten times its time, without one it has ten million steps
    # limit: it ends by it
    SOAK_SLOW=200 LD_PRELOAD=$work/slow.so "$program" "${common[@]}" --max-steps 10000000 --time-limit 5s --logging-steps 100000 --json \
    --output-dir "$work/k" >"$work/.out" 2>"$work/.err"
    code=$?
    took=$((($(date +%s%N) - began) / 1000000)) # limit: of the above
    [[ $code -eq 0 && $took -lt 50000 && $took -gt 1500 && $(<"$work/.out") == *'"ended_by": "time-limit"'* ]]
    check $? "--time-limit holds where syncs take 0.2 s: $took ms" "$(cat "$work/.err")"
    said=$(sed -n 's/^bedplate: a save takes about \([0-9.]*\) s here.*/\1/p' "$work/.err")
    real=$(grep -o '"event":"save".*"seconds":[0-9.]*' "$work/k/events.jsonl" | sed 's/.*"seconds"://')
    awk -v said="$said" -v real="$real" 'BEGIN { exit !(real > 1 && said > 0.1 * real && said < 10 * real) }'
    check $? "the save took $real s, said were $said"
    ;;
esac
run "${common[@]}" --max-steps 2 --output-dir "$work/g"
[[ $err != *BEDPLATE_GRACE* ]]
check $? "no grace is asked for"
BEDPLATE_GRACE=0.000001 run "${common[@]}" --max-steps 2 --output-dir "$work/g2"
[[ $err == *'longer than BEDPLATE_GRACE (1e-06 s): a stop may lose'* ]]
check $? "a grace that is too short is told" "$err"
for name in BEDPLATE_GRACE WATCHDOG_USEC WATCHDOG_PID; do
    for value in abc 5x -1 nan ' 7'; do
        export "$name=$value"
        expect 2 "bedplate: $name: the variable is not a number: found $value, expected a number such as 90" \
            "${common[@]}" --max-steps 2 --output-dir "$work/g3"
        unset "$name"
    done
done
finish
