#!/bin/bash
# SPDX-License-Identifier: MIT
# What others see of a run: metrics, TensorBoard's files, watch and report.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(train --model tiny --data "$work/text" --validation-split 0.1 --max-seq-length 16 --threads 1 --quiet
    --per-device-train-batch-size 2 --lr-scheduler-type constant --logging-steps 10 --eval-steps 20 --save-steps 20)
line=("${common[@]}" --max-steps 60 --output-dir "$work/run" --metrics "$work/run.prom" --report-to tensorboard --resume auto)
metric() { sed -n "s/^bedplate_$1{[^}]*} //p" "$work/run.prom" | tail -1; }

run "${line[@]}" --stop-at-step 30
check $code "a run with everything" "$err"
[[ $(metric step) == 30 && $(metric planned_steps) == 60 && $(metric steps_total) == 30 && $(metric checkpoints_total) == 2 ]]
check $? "metrics" "$(cat "$work/run.prom")"
run "${line[@]}"
line_ratio=$(metric tokens_per_second)/$(metric samples_per_second)
awk "BEGIN { r = $line_ratio; exit !(r > 14.9 && r < 16.1) }" # windows of 16 tokens, and the last line alone
check $? "tokens and samples a second: $line_ratio"
[[ $(metric step) == 60 && $(metric steps_total) == 60 && $(metric last_checkpoint_step) == 60 &&
    $(metric step_duration_seconds_count) == 60 && $(metric 'step_duration_seconds_bucket') == 60 ]]
# verifies alone-8.f2be
check $? "counters go on over a resume" "$(cat "$work/run.prom")"
grep -q '^bedplate_state{run="[^"]*",state="ended"} 1$' "$work/run.prom"
check $? "the state at the end"
[[ $(tail -c 1 "$work/run.prom" | od -An -c | tr -d ' ') == '\n' && -z $(ls "$work" | grep 'prom\.') ]]
check $? "whole lines, and no temporary file is left"
if command -v promtool >/dev/null; then
    promtool check metrics <"$work/run.prom" >"$work/prom" 2>&1
    check $? "promtool check metrics" "$(cat "$work/prom")"
else
    echo "skipped: promtool is not here"
fi
expect 6 'metrics.*the folder of the file is not there' "${common[@]}" --max-steps 1 --output-dir "$work/x" --metrics "$work/none/run.prom"
expect 6 'metrics.*a folder has this name' "${common[@]}" --max-steps 1 --output-dir "$work/x" --metrics "$work"
expect 6 'metrics.*the file cannot be written' "${common[@]}" --max-steps 1 --output-dir "$work/x" --metrics ""
expect 2 'report-to: found "wandb": TensorBoard files can be synced' "${common[@]}" --output-dir "$work/x" --report-to wandb
# Files that cannot be written end no run.
run "${common[@]}" --max-steps 20 --output-dir "$work/y" --report-to tensorboard --logging-dir /proc/none --metrics "$work/y.prom"
[[ $code -eq 0 ]] && ! grep -q '^bedplate_output_errors_total{[^}]*} 0$' "$work/y.prom"
check $? "errors of event files are counted" "$err"

[[ $(ls "$work/run/runs" | grep -c tfevents) -eq 2 ]]
check $? "a new event file after the resume"
python=${TENSORBOARD_PYTHON:-python3}
if "$python" -c 'import tensorboard' 2>/dev/null; then
    "$python" - "$work/run/runs" >"$work/board" 2>&1 <<'P'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
e = EventAccumulator(sys.argv[1])
e.Reload()
steps = [s.step for s in e.Scalars('train/loss')]
assert steps == [10, 20, 30, 40, 50, 60], steps
assert [s.step for s in e.Scalars('eval/loss')] == [20, 40, 60]
assert 'perf/tokens_per_second' in e.Tags()['scalars']
assert b'| arena |' in e.Tensors('plan')[0].tensor_proto.string_val[0]
data = plugin_data_pb2.HParamsPluginData()
data.ParseFromString(e.SummaryMetadata('_hparams_/session_start_info').plugin_data.content)
assert data.session_start_info.hparams['max-seq-length'].number_value == 16
P
    check $? "TensorBoard's own reader" "$(tail -3 "$work/board")"
    # Killed in the middle of a record, and continued from an earlier step: what was lost is forgotten.
    run "${common[@]}" --max-steps 60 --output-dir "$work/torn" --report-to tensorboard --resume auto --stop-at-step 50
    torn=$(ls "$work"/torn/runs/*)
    head -c 30 "$torn" >"$work/half"
    cat "$work/half" >>"$torn"
    rm -r "$work/torn/checkpoint-50"
    run "${common[@]}" --max-steps 60 --output-dir "$work/torn" --report-to tensorboard --resume auto
    "$python" - "$work/torn/runs" >"$work/board" 2>&1 <<'P'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
e = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
e.Reload()
assert [s.step for s in e.Scalars('train/loss')] == [10, 20, 30, 40, 50, 60], e.Scalars('train/loss')
assert [s.step for s in e.Scalars('eval/loss')] == [20, 40, 60]
P
    check $? "reads past a torn tail, and no step twice" "$(tail -3 "$work/board")"
    grep -q 'Removing [1-9][0-9]* scalars' "$work/board"
    check $? "it has purged what was lost" "$(tail -3 "$work/board")"
else
    echo "skipped: python's tensorboard is not here (TENSORBOARD_PYTHON)"
fi

# Steps computed twice, in two processes, and a replay.
seen=("${common[@]}" --max-steps 60 --output-dir "$work/checked" --replay-every 10)
run "${seen[@]}" --stop-at-step 30
run "${seen[@]}" --resume
run replay "$work/checked" --from 1 --to 20
run watch "$work/checked"
[[ $out == *'verified  60   computed twice 6, of which 0 differed   by replay 20'* ]]
check $? "watch counts checks over processes" "$out"
run report "$work/checked" --output "$work/checked.html"
grep -q '<td class="r">6</td><td class="r">10.0&nbsp;%</td><td class="r">0</td><td class="r">60</td><td class="r">33.3&nbsp;%</td>' "$work/checked.html"
check $? "and the page their share of the steps" "$(grep 'nbsp' "$work/checked.html")"

# Metrics say what the run does: one that computes each step twice is often found at it.
slow=(train --model tiny --data "$work/text" --max-seq-length 16 --threads 1 --quiet --per-device-train-batch-size 128 --max-steps 100000
    --output-dir "$work/again" --replay-every 1)
"$program" "${slow[@]}" --metrics "$work/again.prom" >/dev/null 2>&1 &
job=$!
for state in replaying training; do
    wait_for 600 "grep -qs 'state=\"$state\"} 1' $work/again.prom" $job || break
done
check $? "the state is seen to be replaying and training" "$(grep '^bedplate_state' "$work/again.prom")"
kill -TERM $job
wait $job

expect 0 'loss [0-9.]+   eval -$' watch "$work/again"
run watch "$work/run"
[[ $code -eq 0 && $out == *complete*'step 60 of 60'*'evaluation'*'memory '*'saves '*'verified'* ]] && ! grep -qE '^.{81}' <<<"$out"
check $? "watch, in 80 columns" "$out"
run watch "$work/run" "$work/checked" "$work/again" "$work"
[[ $code -eq 0 && $(wc -l <<<"$out") -eq 5 ]] && ! grep -qE '^.{81}' <<<"$out"
check $? "watch, a table of runs in 80 columns" "$out"
grep -qE '^run +step/of +loss eval loss +lr +tok/s +left state$' <<<"$out" &&
    grep -qE "/run +60/60 +[0-9.]+ +[0-9.]+ +5.0e-05 +[0-9]+ +- complete$" <<<"$out" &&
    grep -qE "/again +[0-9]+/100k +[0-9.]+ +- .* exit 143$" <<<"$out" && grep -qE ' - no run$' <<<"$out"
check $? "with steps, losses, rates and states" "$out"
expect 4 'not the output directory of a run' watch "$work" /
expect 4 'not the output directory of a run' watch "$work"
expect 4 'not the output directory of a run' report "$work"
run "${common[@]}" --max-steps 40 --learning-rate 1e-3 --output-dir "$work/other <&> run"
run report "$work/run" "$work/other <&> run" --output "$work/page.html"
[[ $code -eq 0 && -s $work/page.html ]] && ! grep -qE '<script [a-z]|src=|href="http|@import' "$work/page.html" &&
    [[ $(grep -c '<script' "$work/page.html") -eq 1 ]]
check $? "a page of two runs, alone by itself" "$out$err"
grep -q '<tr class="d"><td>learning-rate</td><td>5e-05</td><td>0.001</td>' "$work/page.html"
check $? "what differs is marked" "$(grep learning-rate "$work/page.html")"
grep -q "<th>option</th><th>.*$work/run</th><th>.*other &lt;&amp;&gt; run</th>" "$work/page.html"
check $? "with the names of the runs above"
grep -q 'other &lt;&amp;&gt; run' "$work/page.html" && grep -q '<polyline' "$work/page.html" && grep -q '<circle' "$work/page.html"
check $? "names are escaped, and curves are there"
browser=$(command -v chromium || command -v chromium-browser || true)
if [[ -n $browser ]]; then
    # With all names refused, a request would be an error in the log.
    timeout 600 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --enable-logging=stderr --v=0 \
        --host-resolver-rules='MAP * ~NOTFOUND' --screenshot="$work/page.png" --window-size=1000,2400 \
        "file://$work/page.html" >"$work/browser" 2>&1
    [[ $(stat -c %s "$work/page.png" 2>/dev/null || echo 0) -gt 20000 ]]
    check $? "a browser shows it" "$(tail -3 "$work/browser")"
    ! grep -qE 'CONSOLE|net::ERR|Refused to' "$work/browser"
    check $? "without an error" "$(grep -E 'CONSOLE|net::ERR|Refused to' "$work/browser")"
    timeout 600 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --dump-dom "file://$work/page.html" >"$work/dom" 2>/dev/null
    [[ $(grep -o '<h2>' "$work/dom" | wc -l) -ge 8 ]]
    check $? "and sees every section"
else
    echo "skipped: chromium is not here"
fi

# A complete run that is started again makes no step: watch shows the speed that it had.
few=(train --model tiny-gru --data tests/golden/embeddings/texts.txt --data-format bytes --max-seq-length 4 --max-steps 20 --logging-steps 5
    --save-steps 10 --quiet --resume auto --output-dir "$work/ended")
run "${few[@]}"
run watch "$work/ended"
had=$(grep -oE '[1-9][0-9]* tokens/s' <<<"$out")
run "${few[@]}"
check $code "a complete run started again" "$err"
run watch "$work/ended"
[[ -n $had && $out == *" $had "* ]]
check $? "has the speed that it had: $had" "$out"
finish
