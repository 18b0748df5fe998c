#!/bin/bash
# SPDX-License-Identifier: MIT
# What plan --unit prints, run as its reader would run it: with its words, its limits and its folders.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/some text"
plan=(plan --model tiny --data "$work/some text" --output-dir "$work/a run" --max-seq-length 16 --threads 1)
mkdir "$work/metrics"
options=(--max-steps 40 --save-steps 10 --metrics "$work/metrics/run.prom" --report-to tensorboard
    --replay-every 10 --on-spike skip --quiet --time-limit 11h30m)
run "${plan[@]}" --json
bytes=$(($(json arena_bytes) + $(json host_bytes)))

# verifies alone-7.783e
# systemd.
run "${plan[@]}" "${options[@]}" --unit systemd
check $((code != 0)) "options that only a run takes belong into its unit" "$err"
cp "$work/.out" "$work/bedplate-test.service"
[[ $out == *'Type=notify'*"MemoryMax=$((bytes + (64 << 20)))"* && $out == *"\"$work/a run\" --resume auto"* ]]
check $? "a unit of systemd with the plan's numbers" "$out"
[[ $out == *"ReadWritePaths=$work"$'\n'*"ReadWritePaths=$work/metrics"$'\n'* ]]
check $? "that may write where the run writes" "$(grep ReadWrite <<<"$out")"
if command -v systemd-analyze >/dev/null; then
    found=$(systemd-analyze verify "$work/bedplate-test.service" 2>&1 | grep bedplate-test | grep -v "'man bedplate")
    [[ -z $found ]]
    check $? "systemd-analyze verify" "$found"
    exposure=$(systemd-analyze security --offline=true "$work/bedplate-test.service" 2>/dev/null | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
    awk -v e="$exposure" 'BEGIN { exit !(e != "" && e < 2) }'
    check $? "systemd-analyze security: an exposure of ${exposure:-unknown}"
else
    echo "skipped: systemd-analyze is not here"
fi
# limited LINE: runs a line of shell words below MemoryMax: by a control group of memory where one can be made,
# else the sizes of the process's own data.
limited() {
    local group=/sys/fs/cgroup/memory/bedplate-test.$$ limit
    limit=$(sed -n 's/^MemoryMax=//p' "$work/bedplate-test.service")
    if mkdir "$group" 2>/dev/null && echo "$limit" 2>/dev/null >"$group/memory.limit_in_bytes"; then
        (echo $BASHPID >"$group/cgroup.procs" && eval "$1") >"$work/.out" 2>"$work/.err" </dev/null
        code=$?
        most=$(<"$group/memory.max_usage_in_bytes")
        rmdir "$group"
    else
        echo "skipped: no control groups of memory can be made here; RLIMIT_DATA instead"
        (ulimit -d $((limit / 1024)) && eval "$1") >"$work/.out" 2>"$work/.err" </dev/null
        code=$?
        most=0
    fi
}
line=$(sed -n 's/^ExecStart=//p' "$work/bedplate-test.service")
limited "cd / && exec $line"
[[ $code -eq 0 && -d "$work/a run/checkpoint-40" && -s $work/metrics/run.prom ]]
check $? "ExecStart runs below MemoryMax (at most $most bytes)" "$(cat "$work/.err")"
expect 0 'up to step 40|ended at step 40' verify "$work/a run"
run "${plan[@]}" --fabric threads:2 --virtual-ranks 2 --gradient-accumulation-steps 2 --unit systemd
ranks=$(sed -n 's/^MemoryMax=//p' "$work/.out")
[[ $ranks -gt $((bytes * 2)) ]]
check $? "two ranks of one process have two arenas: $ranks"
run "${plan[@]}" --arena 100KB --unit systemd
[[ $code -eq 3 && -z $out ]]
check $? "no unit of a plan that does not fit" "$out$err"
expect 2 'unit: no such value' "${plan[@]}" --unit cron
expect 2 'replay-every: an option of other commands' "${plan[@]}" --replay-every 10
for kind in systemd slurm kubernetes; do
    for name in $'a\nb' $'a\eb' $'a\x7fb' $'a\xffb'; do
        for option in --output-dir --data --metrics --stop-when; do
            expect 2 'a unit cannot hold a name or value with a control character, or one that is not UTF-8' \
                "${plan[@]}" "$option" "$name" --unit "$kind"
            [[ -z $out ]]
            check $? "and none is printed" "$out"
        done
    done
done
expect 2 'fabrik: unknown option' "${plan[@]}" --unit systemd --fabrik mpi

# verifies alone-7.783e
# Slurm: the script as the batch shell runs it. Saved by a signal or at the time limit the job comes again;
# complete it does not.
rm -rf "$work/a run"
mkdir "$work/bin"
printf '#!/bin/bash\necho "$@" >>%q\n' "$work/requeued" >"$work/bin/scontrol"
chmod +x "$work/bin/scontrol"
slurm() { # OPTIONS..: writes the script
    run "${plan[@]}" --quiet --bf16 "$@" --unit slurm
    cp "$work/.out" "$work/job.sh"
    rm -f "$work/requeued"
}
batch() { exec env SLURM_JOB_ID=77 PATH=$work/bin:$PATH bash "$work/job.sh" >"$work/.out" 2>"$work/.err" </dev/null; } # in a shell of its own
slurm --time-limit 2h
[[ $out == *'#SBATCH --mem='*'#SBATCH --time=122'*'--signal=B:USR1@'*"--output-dir '$work/a run' --resume auto --on-usr1 stop &"* ]]
check $? "a script of Slurm with the plan's numbers" "$out"
slurm --max-steps 10000000
batch &
job=$!
wait_for 120 '[[ $(cat "$work/a run/record.jsonl" 2>/dev/null | wc -l) -gt 2 ]]' $job
kill -USR1 $job
wait $job
[[ $? -eq 138 && $(cat "$work/requeued") == 'requeue 77' && -n $(ls -d "$work/a run"/checkpoint-*) ]]
check $? "USR1 saves, and the job comes again" "$(cat "$work/.err")"
rm -rf "$work/a run"
slurm --max-steps 10000000 --time-limit 1s # limit: it ends by it
(batch)
[[ $? -eq 0 && $(cat "$work/requeued") == 'requeue 77' ]]
check $? "the time limit as well" "$(cat "$work/.err")"
rm -rf "$work/a run"
slurm --max-steps 5 --time-limit 1h
(batch)
[[ $? -eq 0 && ! -e $work/requeued && -d "$work/a run/checkpoint-5" ]]
check $? "a run that is complete does not" "$(cat "$work/.err")"
slurm --max-steps 5 --learning-rate 1e-3
(batch)
[[ $? -eq 2 && ! -e $work/requeued ]]
check $? "nor what no restart heals" "$(cat "$work/.err")"

# Kubernetes: the command is what a run takes, and every file and folder of it is mounted.
rm -rf "$work/a run"
run "${plan[@]}" "${options[@]}" --unit kubernetes
[[ $out == *'kind: Job'*"\"$work/a run\", \"--resume\", \"auto\"]"*"limits: {memory: \"$((bytes + (64 << 20)))\"}"* ]]
check $? "a Job of Kubernetes" "$out"
version=$("$program" --version | cut -d ' ' -f 2)
[[ $out == *"image: bedplate:$version"$'\n'* ]]
check $? "of the image that the release's Containerfile makes" "$(grep image: <<<"$out")"
[[ $out == *"readOnly: true, mountPath: \"$work/some text\"}"* && $out == *", mountPath: \"$work/metrics\"}"* && $(grep -c 'name: file-' <<<"$out") -eq 4 ]]
check $? "with its files and folders" "$(grep 'file-' <<<"$out")"
python3 - "$work/.out" "$program" >"$work/.err" 2>&1 <<'P'
import json, re, subprocess, sys
text = open(sys.argv[1]).read()
words = json.loads(re.search(r"command: (\[.*\])", text).group(1))
words[0] = sys.argv[2]
sys.exit(subprocess.call(words))
P
[[ $? -eq 0 && -d "$work/a run/checkpoint-40" ]]
check $? "its command runs"
python=${YAML_PYTHON:-python3}
if "$python" -c 'import yaml' 2>/dev/null; then
    "$python" - "$work/.out" <<'P'
import sys, yaml
job = yaml.safe_load(open(sys.argv[1]))
pod = job["spec"]["template"]["spec"]
mounted = {m["name"] for m in pod["containers"][0]["volumeMounts"]}
assert mounted == {v["name"] for v in pod["volumes"]}
assert pod["restartPolicy"] == "Never" and job["kind"] == "Job"
P
    check $? "as YAML it is well-formed"
else
    echo "skipped: python's yaml is not here (YAML_PYTHON)"
fi
finish
