#!/bin/bash
# SPDX-License-Identifier: MIT
# Metrics, alert rules and dashboard as Prometheus' own tool reads them.
. "$(dirname "$0")/../lib.sh"
command -v promtool >/dev/null || { echo "skipped: promtool is not here"; exit 77; }

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
train=(train --model tiny --data "$work/text" --max-seq-length 16 --threads 1 --quiet --per-device-train-batch-size 2)
well() { # FILE NAME
    promtool check metrics <"$1" >"$work/prom" 2>&1
    check $? "promtool check metrics: $2" "$(cat "$work/prom")"
}
# verifies alone-8.f2be
# Of a run that has evaluated and saved; of one that has not, so that much is NaN; with a name that has to be
# escaped; after a resume.
run "${train[@]}" --max-steps 20 --save-steps 5 --eval-steps 5 --validation-split 0.1 --output-dir "$work/run" --metrics "$work/run.prom"
well "$work/run.prom" "a run"
run "${train[@]}" --max-steps 20 --stop-at-step 1 --save-strategy no --output-dir "$work/a \"quoted\\\" run" --metrics "$work/quoted.prom"
well "$work/quoted.prom" "one step, and a name with quotes"
run "${train[@]}" --max-steps 20 --resume --fp16 --output-dir "$work/none" --metrics "$work/quoted.prom"
well "$work/quoted.prom" "over another run's file"
sed 's/^\(# TYPE bedplate_train_loss\) gauge/\1 gouge/' "$work/run.prom" >"$work/bad.prom"
promtool check metrics <"$work/bad.prom" >/dev/null 2>&1
[[ $? -ne 0 ]]
check $? "and it would see a type that there is not"

promtool check rules tools/monitoring/alerts.yml >"$work/prom" 2>&1
check $? "promtool check rules" "$(cat "$work/prom")"
# Each expression of the dashboard is one that Prometheus can read, over metrics that runs have.
python3 - "$work" tools/monitoring <<'P' >"$work/found" 2>&1
import json, re, sys
work, folder = sys.argv[1:]
board = json.load(open(f"{folder}/dashboard.json"))
written = set(re.findall(r"^(\w+)\{", open(f"{work}/run.prom").read(), re.M))
shown = [t["expr"] for p in board["panels"] for t in p["targets"]]
assert len(shown) >= 15, len(shown)
assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
cells = set()
for p in board["panels"]:
    g = p["gridPos"]
    assert p["title"] and g["x"] + g["w"] <= 24
    area = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
    assert not area & cells, p["title"]
    cells |= area
rules = open(f"{folder}/alerts.yml").read()
for name in re.findall(r"bedplate_\w+", " ".join(shown) + rules):
    assert name in written, name
asked = re.findall(r"label_values\((\w+), (\w+)\)", json.dumps(board))
assert asked and all(m in written for m, _ in asked), asked
with open(f"{work}/shown.yml", "w") as out:
    out.write("groups:\n  - name: board\n    rules:\n")
    for i, expr in enumerate(shown):
        out.write(f"      - record: board_{i}\n        expr: {json.dumps(expr.replace('$run', '.*'))}\n")
P
check $? "the dashboard shows metrics that there are" "$(cat "$work/found")"
promtool check rules "$work/shown.yml" >"$work/prom" 2>&1
check $? "in expressions that Prometheus can read" "$(cat "$work/prom")"

# Alerts come when they should, and not before.
cat >"$work/when.yml" <<P
rule_files: [$PWD/tools/monitoring/alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'bedplate_last_step_timestamp_seconds{run="stuck"}', values: '0+60x5 300x25'}
      - {series: 'bedplate_last_step_timestamp_seconds{run="ended"}', values: '0+60x5 300x25'}
      - {series: 'bedplate_last_step_timestamp_seconds{run="fine"}', values: '0+60x30'}
      - {series: 'bedplate_step_duration_seconds_sum{run="stuck"}', values: '0+10x30'}
      - {series: 'bedplate_step_duration_seconds_count{run="stuck"}', values: '0+1x30'}
      - {series: 'bedplate_step_duration_seconds_sum{run="ended"}', values: '0+10x30'}
      - {series: 'bedplate_step_duration_seconds_count{run="ended"}', values: '0+1x30'}
      - {series: 'bedplate_step_duration_seconds_sum{run="fine"}', values: '0+10x30'}
      - {series: 'bedplate_step_duration_seconds_count{run="fine"}', values: '0+1x30'}
      - {series: 'bedplate_state{run="stuck",state="ended"}', values: '0x30'}
      - {series: 'bedplate_state{run="ended",state="ended"}', values: '0x5 1x25'}
      - {series: 'bedplate_state{run="fine",state="ended"}', values: '0x30'}
      - {series: 'bedplate_saves_postponed{run="full"}', values: '0x5 1x25'}
      - {series: 'bedplate_free_bytes{run="full"}', values: '100x30'}
      - {series: 'bedplate_checkpoint_bytes{run="full"}', values: '60x30'}
      - {series: 'bedplate_replay_mismatches_total{run="odd",class="transient"}', values: '0x10 1x20'}
      - {series: 'bedplate_anomalies_total{run="odd"}', values: '0x10 9x20'}
      - {series: 'bedplate_output_errors_total{run="odd"}', values: '0x30'}
    alert_rule_test:
      - {eval_time: 6m, alertname: BedplateStalled, exp_alerts: []}
      - eval_time: 20m
        alertname: BedplateStalled
        exp_alerts:
          - exp_labels: {severity: page, run: stuck}
            exp_annotations: {summary: 'stuck: no step for 15m 0s'}
      - eval_time: 20m
        alertname: BedplateSavesPostponed
        exp_alerts:
          - exp_labels: {severity: page, run: full}
            exp_annotations: {summary: 'full: checkpoints cannot be written; see the disk before the patience is over'}
      - eval_time: 20m
        alertname: BedplateDiskLow
        exp_alerts:
          - exp_labels: {severity: warning, run: full}
            exp_annotations: {summary: 'full: room for less than two checkpoints'}
      - eval_time: 20m
        alertname: BedplateReplayMismatch
        exp_alerts:
          - exp_labels: {severity: page, run: odd, class: transient}
            exp_annotations: {summary: 'odd: a step came out differently when it was run again'}
      - eval_time: 20m
        alertname: BedplateAnomalies
        exp_alerts:
          - exp_labels: {severity: warning, run: odd}
            exp_annotations: {summary: 'odd: losses or norms out of line'}
      - {eval_time: 20m, alertname: BedplateOutputErrors, exp_alerts: []}
P
promtool test rules "$work/when.yml" >"$work/prom" 2>&1
check $? "promtool test rules" "$(cat "$work/prom")"
finish
