#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/soak/run.sh BUILD HOURS [SEED]: a run that meets every trouble that a machine has for it, from seeded
# kills to a clock that jumps by days, always continued by the same command line, ends with the digest, the
# record and the model of the run that met none. Rounds with new seeds until the time is over and every trouble
# was met, and was seen to be one.
build=${1:-build/release}
hours=${2:-0.02}
seed=${3:-1}
if [[ -z ${SOAK_INSIDE:-} ]]; then
    unshare -m true 2>/dev/null || { echo "skipped: no mount namespaces here"; exit 77; }
    SOAK_INSIDE=1 exec unshare -m "$0" "$@"
fi
work=$(mktemp -d)
trap 'umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
mkdir "$work/disk"
cc -shared -fPIC -O1 -o "$work/trouble.so" "$(dirname "$0")/trouble.c" -ldl || exit 1
awk 'BEGIN { for (i = 0; i < 800; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
steps=${SOAK_STEPS:-4000}
line() { # DIRECTORY: the command, always the same but for where the output goes
    "$build/bedplate" train --model tiny --data "$work/text" --validation-split 0.1 --max-seq-length 16 \
        --per-device-train-batch-size 2 --max-steps "$steps" --save-steps 60 --eval-steps 200 --logging-steps 20 \
        --threads 1 --quiet --json --resume auto --storage-patience 60s --stop-when "$work/enough" --keep-best \
        --report-to tensorboard --metrics "$work/run.prom" --output-dir "$1"
}
digest_of() { grep -o '"state_digest": "[0-9a-f]*"' "$1" | tail -1; }
began=$SECONDS
limit=$(awk -v h="$hours" 'BEGIN { print int(h * 3600) }')
SEED_NOW=$seed
export SOAK_READONLY=$work/readonly

line "$work/quiet" >"$work/quiet.out" 2>"$work/quiet.err" || { cat "$work/quiet.err"; echo "0 passed, 1 failed"; exit 1; }
right=$(digest_of "$work/quiet.out")
bytes=$(du -sb "$work/quiet/checkpoint-$steps" | cut -f 1)

kinds=(kill kill kill term int freeze usr1 usr2 hup when full readonly remount damage)
proofs=(clock slow)
declare -A met
for kind in "${kinds[@]}" "${proofs[@]}"; do met[$kind]=0; done
count() { met[$1]=$((met[$1] + 1)); }
# Whether another checkpoint than this one is valid: what damages the only one ends the run, as it must.
spare() {
    local each
    for each in "$work"/disk/run/checkpoint-*; do
        [[ $each != "$work/disk/run/checkpoint-$1" ]] && "$build/bedplate" verify "$each" && return 0
    done
    return 1
}
newest() {
    local path most=
    for path in "$1"/checkpoint-*; do
        path=${path##*-}
        [[ ! $path =~ ^[0-9]+$ || $path -le ${most:--1} ]] || most=$path
    done
    [[ -z $most ]] || echo "$most"
}
pause() { sleep "0.$((RANDOM % 50 + 10))"; } # no wait: a moment
# The kinds in a new order each time that all of them were dealt, so that none is left to chance.
deck=()
deal() {
    if [[ ${#deck[@]} -eq 0 ]]; then
        mapfile -t deck < <(for kind in "${kinds[@]}"; do echo "$RANDOM $kind"; done | sort -n | cut -d ' ' -f 2)
    fi
    kind=${deck[0]}
    deck=("${deck[@]:1}")
}
# A save that is tried while the disk takes nothing is told; `failures` counts the lines of all starts.
failures() { grep -c 'could not be written\|free space' "$work/err"; }
. "$(dirname "$0")/../cli/wait.sh"
# tried FAILURES: until a save has failed, has succeeded after all, or the process has ended.
tried() {
    local was
    was=$(newest "$work/disk/run")
    wait_for 120 '[[ $(failures) -gt $1 || $(newest "$work/disk/run") != "$was" ]]' "$job"
}
# One trouble for the process $job; it may end it.
trouble() {
    local kind before last
    deal
    case $kind in
    kill) kill -KILL "$job" && count kill ;;
    term) kill -TERM "$job" && count term ;;
    int) kill -INT "$job" && count int ;;
    usr1) kill -USR1 "$job" && count usr1 ;;
    usr2) kill -USR2 "$job" && count usr2 ;;
    hup) kill -HUP "$job" && count hup ;;
    freeze) # longer than a sync, in any place
        kill -STOP "$job" && count freeze
        pause
        kill -CONT "$job"
        ;;
    when)
        touch "$work/enough"
        wait "$shell"
        grep -q '"ended_by": "stop-when"' "$work/out" && count when
        rm "$work/enough"
        ;;
    full)
        before=$(failures)
        head -c 1G /dev/zero >"$work/disk/filler"
        kill -USR1 "$job"
        pause
        if [[ $((RANDOM % 2)) -eq 0 ]]; then kill -KILL "$job" && pause; else tried "$before"; fi
        [[ $(failures) -gt $before ]] && count full
        rm -f "$work/disk/filler"
        ;;
    readonly) # under the feet of the run (trouble.c)
        before=$(failures)
        touch "$SOAK_READONLY"
        kill -USR1 "$job"
        pause
        if [[ $((RANDOM % 3)) -eq 0 ]]; then kill -KILL "$job" && pause; else tried "$before"; fi
        [[ $(failures) -gt $before ]] && count readonly
        rm -f "$SOAK_READONLY"
        ;;
    remount) # before the next start, and for its first moments
        kill -KILL "$job"
        wait "$shell"
        mount -o remount,ro none "$work/disk" && count remount
        (pause && pause && mount -o remount,rw none "$work/disk") &
        ;;
    damage)
        kill -KILL "$job"
        wait "$shell"
        last=$(newest "$work/disk/run")
        spare "$last" && printf 'X' | dd of="$work/disk/run/checkpoint-$last/state.safetensors" bs=1 seek=9000 conv=notrunc &&
            ! "$build/bedplate" verify "$work/disk/run/checkpoint-$last" && count damage
        ;;
    esac >/dev/null 2>&1
}
all_met() {
    local kind
    for kind in "${!met[@]}"; do [[ ${met[$kind]} -gt 0 ]] || return 1; done
}
# One start of the line with troubles until it ends; its exit code is in $code.
start() {
    local days=$((RANDOM % 41 - 20))
    export SOAK_CLOCK=$((days * 86400)) SOAK_SLOW=$(((RANDOM % 4) * (RANDOM % 4) * 20))
    [[ $SOAK_CLOCK -ne 0 ]] && count clock
    [[ $SOAK_SLOW -ne 0 ]] && count slow
    (
        trap - INT
        LD_PRELOAD=$work/trouble.so
        export LD_PRELOAD
        line "$work/disk/run"
    ) >"$work/out" 2>>"$work/err" </dev/null &
    shell=$!
    while kill -0 $shell 2>/dev/null; do
        pause
        job=$(pgrep -P $shell 2>/dev/null | head -1)
        [[ -n $job ]] && trouble
    done
    wait $shell
    code=$?
}
# What must hold when a round has ended.
good() {
    [[ $code -eq 0 && $(digest_of "$work/out") == "$right" ]] || { echo "digest: $(digest_of "$work/out"), exit $code"; return 1; }
    cmp "$work/quiet/record.jsonl" "$work/disk/run/record.jsonl" ||
        { diff "$work/quiet/record.jsonl" "$work/disk/run/record.jsonl" | head -6; return 1; }
    cmp "$work/quiet/model.safetensors" "$work/disk/run/model.safetensors" || return 1
    "$build/bedplate" verify "$work/disk/run" >/dev/null || return 1
    [[ -z $(ls -d "$work"/disk/run/tmp-* 2>/dev/null) ]] || { echo "a temporary is left"; return 1; }
    [[ $(ls -d "$work"/disk/run/checkpoint-* | wc -l) -le 3 ]] || { echo "more than two checkpoints and the best"; return 1; }
}

rounds=0
failed=0
starts=0
# limit: as long as was asked for
while [[ $rounds -eq 0 || $((SECONDS - began)) -lt $limit ]] || { ! all_met && [[ $rounds -lt 20 ]]; }; do
    RANDOM=$SEED_NOW
    mount -t tmpfs -o size=$((bytes * 6)) none "$work/disk" || exit 1
    rm -f "$work/run.prom"
    : >"$work/err"
    tries=0
    code=1
    until [[ $code -eq 0 && $(<"$work/out") == *'"ended_by": "complete"'* || $tries -eq 400 ]]; do
        tries=$((tries + 1))
        start
        # Saved and stopped, killed, or the disk: all else would be an error of the program.
        case $code in 0 | 6 | 130 | 137 | 143) ;; *) break ;; esac
    done
    starts=$((starts + tries))
    if ! good; then
        failed=$((failed + 1))
        echo "FAILED: seed $SEED_NOW, start $tries, exit $code; right would be $right"
        tail -5 "$work/err"
        ls "$work/disk/run"
    fi
    umount "$work/disk"
    rounds=$((rounds + 1))
    SEED_NOW=$((SEED_NOW + 1))
done
echo "$rounds rounds of $steps steps from seed $seed, $starts starts, $((SECONDS - began)) s; met:" \
    "$(for kind in "${!met[@]}"; do echo "${met[$kind]} $kind,"; done | sort -k 2 | tr '\n' ' ' | sed 's/, $//')"
all_met || { failed=$((failed + 1)) && echo "FAILED: a trouble was never met"; }
echo "$((rounds - failed)) passed, $failed failed"
[[ $failed -eq 0 ]]
