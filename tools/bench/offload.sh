#!/bin/bash
# SPDX-License-Identifier: MIT
# A run with a second tier of memory beside the one in one arena: the same options and steps, in pairs (A, B, B, A, ..), so
# that a machine that slows down slows both. A line per run: seconds a step, seconds of processor in all, arena, most of the process in memory, bytes that
# storage read and wrote for it (/proc/PID/io), digest of the state; at last what B takes of A's time, by pairs.
#
#     tools/bench/offload.sh DATA FILE [OPTIONS..]       VISITS=1, STEPS=1, PRESET=gpt2-medium|none
#                                                     SIDES=resident or offload: that one alone
#
# FILE lives on the storage that is measured, and is deleted. OPTIONS come after those of the preset: full fine-tuning of
# GPT-2 medium at 4,096 tokens a step with exact masters and 8-bit states (--gradient-release, no clipping).
set -u
[[ $# -ge 2 ]] || { echo "usage: $0 DATA FILE [OPTIONS..]" >&2; exit 2; }
data=$1
file=$2
bedplate=${BUILD:-build/release}/bedplate
out=$(mktemp -d)
trap 'rm -rf "$out" "$file"' EXIT
options=(--model gpt2-medium --data-format bytes --bf16 --master split --optim adamw_8bit --gradient-release --max-grad-norm 0
    --gradient-checkpointing full --max-seq-length 1024 --per-device-train-batch-size 1 --gradient-accumulation-steps 4
    --loss-chunk-rows 64 --threads 2)
[[ ${PRESET:-gpt2-medium} == gpt2-medium ]] || options=()
one() { # NAME OPTIONS..: a run; sets `seconds`, of a step
    local name=$1 pid io
    shift
    rm -rf "$out/run"
    "$bedplate" train "${options[@]}" --data "$data" --max-steps "${STEPS:-1}" --logging-steps 1 --save-steps 0 --device host \
        --quiet --json --output-dir "$out/run" "$@" >"$out/json" 2>"$out/err" &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        io=$(grep -E '^(read|write)_bytes' "/proc/$pid/io" 2>/dev/null | tr '\n' ' ') && [[ -n $io ]] && echo "$io" >"$out/io"
        sleep 0.2
    done
    wait "$pid" || { cat "$out/err" >&2; exit 1; }
    times >"$out/times"
    processor=$(awk 'NR == 2 { split($0, a, /[ms ]+/); print a[1] * 60 + a[2] + a[3] * 60 + a[4] }' "$out/times")
    read -r seconds arena resident digest < <(python3 - "$out/json" "${STEPS:-1}" <<'END'
import json, sys
last = [json.loads(line) for line in open(sys.argv[1])][-1]
print("%.3f %d %d %s" % (last["train_seconds"] / int(sys.argv[2]), last["arena_bytes"], last["peak_resident_bytes"],
                         last["state_digest"]))
END
)
    echo "$name: $seconds s a step, $(awk -v a="$processor" -v b="$before" 'BEGIN { print a - b }') s of processor, arena $arena, resident $resident, $(cat "$out/io") digest $digest"
    before=$processor
}
before=0
echo "$(grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'), $(date '+%F %H:%M'), load $(cut -d' ' -f1-3 /proc/loadavg)"
for ((visit = 0; visit < ${VISITS:-1}; visit++)); do
    order=(resident offload)
    ((visit % 2 == 0)) || order=(offload resident)
    for side in "${order[@]}"; do
        [[ ${SIDES:-$side} == "$side" ]] || continue
        if [[ $side == resident ]]; then
            one resident "${@:3}"
            first=$seconds
        else
            one offload --offload "file:$file:16GiB" "${@:3}"
            second=$seconds
        fi
    done
    [[ -n ${SIDES:-} ]] || awk -v a="$first" -v b="$second" 'BEGIN { printf "offload / resident: %.3f\n", b / a }'
done
