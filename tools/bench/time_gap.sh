#!/bin/bash
# SPDX-License-Identifier: MIT
# How far the schedules that `plan --arena` chooses are from the estimated lower bound of the step's time: presets at ten
# budgets each, evenly spaced between the least arena and the one that keeps everything. A row: budget, estimated seconds, lower
# bound, gap in percent, seconds of planning. The last line has the largest gap and the time of all.
#     tools/bench/time_gap.sh [PRESET:BATCH:LENGTH..]
program=${BUILD:-build/release}/bedplate
presets=("$@")
[[ $# -gt 0 ]] || presets=(gpt2:8:1024 gpt2-xl:4:1024 llama-3.2-1b:4:2048 llama-3-8b:2:2048 qwen3-0.6b:4:2048 bert-large:16:512
    pythia-410m:8:1024 modernbert-base:8:1024)
number() { sed -nE "s/.*\"$1\": ([-0-9.e+]+).*/\1/p" <<<"$2" | head -1; }
chosen() { sed -nE 's/.*("choice": \{[^}]*\}).*/\1/p' <<<"$1"; }
largest=0
began=$SECONDS
for preset in "${presets[@]}"; do
    IFS=: read -r name batch length <<<"$preset"
    plan=("$program" plan --model "$name" --per-device-train-batch-size "$batch" --gradient-accumulation-steps 1
        --max-seq-length "$length" --json)
    most=$(number arena_bytes "$("${plan[@]}")")
    least=$(number arena_bytes "$("${plan[@]}" --gradient-checkpointing memory-poor 2>/dev/null)")
    full=$(number arena_bytes "$("${plan[@]}" --gradient-checkpointing full)")
    [[ -n $least && $least -lt $full ]] || least=$full
    echo "$preset: $least to $most bytes"
    for part in 1 2 3 4 5 6 7 8 9 10; do
        budget=$((least + (most - least) * part / 11))
        one=$(date +%s.%N)
        said=$("${plan[@]}" --arena "$budget" 2>/dev/null)
        two=$(date +%s.%N)
        choice=$(chosen "$said")
        gap=$(number gap "$choice")
        awk -v b=$budget -v s="$(number estimated_seconds "$choice")" -v l="$(number lower_bound_seconds "$choice")" -v g="${gap:-1}" \
            -v t="$(awk "BEGIN { print $two - $one }")" 'BEGIN { printf "  %15.0f %12.4f %12.4f %8.3f %6.1f\n", b, s, l, 100 * g, t }'
        largest=$(awk -v a="$largest" -v b="${gap:-1}" 'BEGIN { print (b > a ? b : a) }')
    done
done
awk -v g="$largest" -v t=$((SECONDS - began)) 'BEGIN { printf "largest gap %.3f %%, %d s in all\n", 100 * g, t }'
