#!/bin/bash
# SPDX-License-Identifier: MIT
# Whether the planned order of checkpoint policies is the measured one: steps of an 8-layer GPT under
# every named policy and under auto at several budgets, planned by counted costs and timed. Where
# one is planned faster than another by more than 10 %, it has to be measured faster.
#
#     tools/bench/policies.sh [OUTPUT.md]      BUILD=build/release, VISITS=5
set -u
BUILD=${BUILD:-build/release}
visits=${VISITS:-5}
output=${1:-/dev/stdout}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/model"
cat >"$work/model/config.json" <<END
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 128, "n_embd": 256, "n_layer": 8, "n_head": 8,
 "n_inner": null, "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0,
 "attn_pdrop": 0.0, "layer_norm_epsilon": 1e-05, "initializer_range": 0.02}
END
shapes=(--model "$work/model" --max-seq-length 128 --per-device-train-batch-size 4
    --gradient-accumulation-steps 1 --loss-chunk-rows 512 --json)

value() { grep -oE "\"$1\": [^,}]*" <<<"$2" | head -1 | sed 's/.*: //'; }

# NAME ARENA POLICY: planned seconds and bytes, by counted costs.
plan_row() {
    local plan
    plan=$("$BUILD/bedplate" plan "${shapes[@]}" --arena "$2" --gradient-checkpointing "$3")
    echo "$1 $2 $3 $(value estimated_seconds "$plan") $(value arena_bytes "$plan")"
}

# The best median of several visits: other work on the machine only ever adds time.
measure() {
    local name arena policy rest
    while read -r name arena policy rest; do
        echo "$name $(value ms_per_step "$("$BUILD/bedplate" bench step "${shapes[@]}" --arena "$arena" \
            --repeat 3 --gradient-checkpointing "$policy")")"
    done <"$work/plans"
}

most=$(value arena_bytes "$("$BUILD/bedplate" plan "${shapes[@]}")")
least=$(value arena_bytes "$("$BUILD/bedplate" plan "${shapes[@]}" --arena 1000 2>/dev/null)")
for policy in none full memory-poor every:3 sqrt list:2,5 selective:norm,gelu \
    selective:norm,gelu,attention; do
    plan_row "$policy" 1TiB "$policy"
done >"$work/plans"
for tenths in 0 2 4 6 8 9; do
    plan_row "auto:$tenths/10" $((least + (most - least) * tenths / 10)) auto
done >>"$work/plans"
for ((visit = 0; visit < visits; visit++)); do measure; done >"$work/times"
awk 'NR == FNR { if (!($1 in best) || $2 < best[$1]) best[$1] = $2; next }
    { print $1, $4, best[$1], $5 }' "$work/times" "$work/plans" >"$work/rows"

{
    echo "| policy | arena bytes | planned, s | measured, s |"
    echo "|---|---|---|---|"
    sort -g -k 2 "$work/rows" |
        awk '{ printf "| %s | %d | %.4f | %.4f |\n", $1, $4, $2, $3 / 1000 }'
    awk '{ name[NR] = $1; plan[NR] = $2; time[NR] = $3 }
        END {
            for (i = 1; i <= NR; i++)
                for (j = 1; j <= NR; j++)
                    if (plan[i] * 1.1 < plan[j]) {
                        pairs++
                        if (time[i] >= time[j]) {
                            wrong++
                            printf "\n%s is planned faster than %s and measured slower", name[i], name[j]
                        }
                    }
            printf "\n%d pairs are planned apart by more than 10 %%; %d of them are measured in the other order.\n",
                pairs, wrong
        }' "$work/rows"
} >"$output"
