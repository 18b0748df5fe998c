#!/bin/bash
# SPDX-License-Identifier: MIT
# Training by rewards that is killed (SIGKILL) while it generates, scores, computes log-probabilities, trains and saves, and is
# resumed: the record is that of a run which nobody killed.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 64; i++)); do printf '{"prompt": "%02d=", "answer": "%d"}\n' "$i" $((i % 10)); done >"$work/prompts.jsonl"
# A command whose rewards are a function of the completion's number, and which kills whoever asks: with the first or behind the
# last request of a step, once. What it was asked is in $work/asked.
cat >"$work/grader.py" <<'END'
import json, os, signal, sys, time
def asker():
    pid = os.getppid()
    while open(f"/proc/{pid}/comm").read().strip() != "bedplate":
        pid = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
    return pid
where, step, wait, done = os.environ.get("KILL", "never 0 0").split() + [os.environ["WORK"] + "/killed"]
print(json.dumps({"name": "test", "version": "1"}), flush=True)
count, at = 0, 0
for line in sys.stdin:
    one = json.loads(line)
    count = count + 1 if one["step"] == at else 1
    at = one["step"]
    open(os.environ["WORK"] + "/asked", "a").write(f"{at}\n")
    due = at == int(step) and not os.path.exists(done)
    if due and where == "first":
        open(done, "w").close()
        os.kill(asker(), signal.SIGKILL)
        sys.exit(1)
    print(json.dumps({"id": one["id"], "reward": (one["id"] * 7 % 11) / 11}), flush=True)
    if due and where == "last" and count == int(os.environ["COUNT"]):
        open(done, "w").close()
        time.sleep(float(wait))  # no wait: a moment within the phase
        os.kill(asker(), signal.SIGKILL)
        sys.exit(1)
END
export WORK="$work" COUNT=32
how=(train --task grpo --model tiny --data "$work/prompts.jsonl" --reward-command "exec python3 $work/grader.py" --num-generations 8
    --per-device-train-batch-size 32 --max-completion-length 40 --slots 1 --learning-rate 1e-3 --max-steps 5 --save-steps 1 --quiet)

# verifies policy-4.80d1
# whole OPTIONS..: the run that nobody kills.
whole() {
    rm -rf "$work/whole" "$work/run"
    run "${how[@]}" "$@" --output-dir "$work/whole"
    check $code "a run: $*" "$err"
}

# goes_on PHASE OPTIONS..: resumed until it is done; the same record.
goes_on() {
    local phase=$1
    shift
    run "${how[@]}" "$@" --resume auto --output-dir "$work/run"
    [[ $code -eq 0 ]] && cmp -s "$work/whole/record.jsonl" "$work/run/record.jsonl"
    check $? "killed while it $phase, and resumed: the same record: $*" "$out$err"
    rm -rf "$work/run" "$work/killed" "$work/asked"
}

# scored PHASE "WHERE STEP SECONDS" OPTIONS..: killed by the command.
scored() {
    local phase=$1 kill=$2
    shift 2
    { KILL=$kill run "${how[@]}" "$@" --output-dir "$work/run"; } 2>/dev/null
    [[ $code -eq 137 && -e $work/killed ]]
    check $? "killed while it $phase: $*" "$code $err"
    goes_on "$phase" "$@"
}

lines() { grep -c '^{"rollout":' "$work/run/record.jsonl" 2>/dev/null; }

# generated OPTIONS..: killed behind a step, before the command is asked for the next one: most of that time it generates.
generated() {
    local job tries before asked
    for ((tries = 0; tries < 200; tries++)); do
        rm -rf "$work/run" "$work/asked"
        "$program" "${how[@]}" "$@" --output-dir "$work/run" >"$work/.out" 2>"$work/.err" &
        job=$!
        wait_for 600 '[[ $(lines) -ge 2 ]]' $job
        kill -9 $job 2>/dev/null
        wait $job 2>/dev/null
        before=$(lines)
        asked=$(tail -1 "$work/asked")
        [[ $before -ge 5 || $asked -gt $before ]] || break
    done
    [[ $asked -eq $before ]]
    check $? "killed before the command is asked again: $*" "step $before, asked for $asked"
    goes_on generates "$@"
}

whole
generated
scored scores "first 3 0"
waits='0.01' later='0.05'
! long_form || waits='0 0.01 0.03' later='0 0.02 0.05 0.1'
for wait in $waits; do
    scored "trains or saves" "last 3 $wait"
done
# The first step: there is no checkpoint yet.
scored "scores the first step" "first 1 0"

# With a reference and several steps on the same completions log-probabilities are computed, too.
more=(--lora-r 4 --beta 0.05 --num-iterations 2 --save-steps 2 --max-steps 6)
whole "${more[@]}"
scored scores "first 3 0" "${more[@]}"
for wait in $later; do
    scored "computes log-probabilities or trains" "last 3 $wait" "${more[@]}"
done
finish
