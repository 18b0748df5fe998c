#!/bin/bash
# SPDX-License-Identifier: MIT
# A published claim: feed-forward models ten times larger for 20 % more time. Chains of dense layers
# that are 1.5 to 10 times as deep as a first one, under auto in the bytes of activations that the
# first one needs to keep everything, and under the named policies; timed against keeping everything
# at the same depth.
#
#     tools/bench/claim.sh [OUTPUT.md]      BUILD=build/release, VISITS=3, BASE=32, WIDTH=128, ROWS=1024,
#                                             TENTHS="15 20 25 30 50 100"
#
# Two micro-batches a step, so that weights, state and gradients live all the time and what is above
# them is activations: checkpoints, tape and workspace. Times are the least of VISITS visits to each
# plan, each the median of REPEAT steps (20) on one thread: nothing else should run.
set -u
BUILD=${BUILD:-build/release}
visits=${VISITS:-3}
base=${BASE:-32}
width=${WIDTH:-128}
rows=${ROWS:-1024}
repeat=${REPEAT:-20}
output=${1:-/dev/stdout}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

value() { grep -oE "\"$1\": [^,}]*" <<<"$2" | head -1 | sed 's/.*: //'; }

model() { # LAYERS: makes the directory
    mkdir -p "$work/$1"
    echo "{\"model_type\": \"mlp\", \"input_size\": $width, \"hidden_size\": $width," \
        "\"num_hidden_layers\": $1, \"num_labels\": 10, \"hidden_act\": \"gelu\"}" >"$work/$1/config.json"
}

# shellcheck disable=SC2054 # commas inside a word
options() { # LAYERS POLICY ARENA
    args=(--model "$work/$1" --per-device-train-batch-size "$rows" --gradient-accumulation-steps 2
        --loss-chunk-rows "$rows" --json --gradient-checkpointing "$2" --arena "$3")
}

# What lives all the time, whatever the policy.
fixed() {
    local sum=0 class
    for class in weights master optimizer gradients io; do
        sum=$((sum + $(value "$class" "$1")))
    done
    echo "$sum"
}

# NAME LAYERS POLICY ARENA: a row of the plan: activations, planned seconds.
plan_row() {
    local plan
    options "$2" "$3" "$4"
    if plan=$("$BUILD/bedplate" plan "${args[@]}" 2>/dev/null); then
        echo "$1 $2 $3 $4 $(($(value arena_bytes "$plan") - $(fixed "$plan"))) $(value estimated_seconds "$plan")"
    else
        echo "$1 $2 $3 $4 - -"
    fi
}

# Milliseconds of a step.
spent() { value ms_per_step "$("$BUILD/bedplate" bench step "${args[@]}" --threads 1 --repeat "$repeat")"; }

measure() {
    local name layers policy arena bytes rest
    while read -r name layers policy arena bytes rest; do
        [[ $bytes != - ]] || continue
        options "$layers" "$policy" "$arena"
        echo "$name $layers $(spent)"
    done <"$work/plans"
}

model "$base"
options "$base" none 1TiB
first=$("$BUILD/bedplate" plan "${args[@]}")
budget=$(($(value arena_bytes "$first") - $(fixed "$first")))
for tenths in ${TENTHS:-15 20 25 30 50 100}; do
    layers=$((base * tenths / 10))
    model "$layers"
    options "$layers" none 1TiB
    whole=$(fixed "$("$BUILD/bedplate" plan "${args[@]}")")
    plan_row none "$layers" none 1TiB
    plan_row auto "$layers" auto $((whole + budget))
    if [[ $tenths -eq 100 ]]; then
        plan_row sqrt "$layers" sqrt 1TiB
        plan_row full "$layers" full 1TiB
        for more in 2 3 4; do
            plan_row "auto,_${more}_times_the_bytes" "$layers" auto $((whole + more * budget))
        done
    fi
done >"$work/plans"
for ((visit = 0; visit < visits; visit++)); do measure; done >"$work/times"

{
    echo "| layers | times as deep | policy | bytes of activations | of the first chain's | planned time | measured time | bound |"
    echo "|---|---|---|---|---|---|---|---|"
    awk -v base="$base" -v budget="$budget" '
        NR == FNR {
            k = $1 " " $2
            if (!(k in best) || $3 < best[k]) best[k] = $3
            next
        }
        { k = $1 " " $2 }
        $1 == "none" { plan[$2] = $6; time[$2] = best[k] }
        {
            name = $1; gsub("_", " ", name)
            if ($5 == "-") { printf "| %d | %.1f | %s | does not fit | | | | |\n", $2, $2 / base, name; next }
            share = $5 / budget
            bound = share < $2 / base ? 1 + (1 - share * base / $2) / 3 : 1
            printf "| %d | %.1f | %s | %d | %.2f | %.3f | %.3f | %.3f |\n", $2, $2 / base, name, $5,
                share, $6 / plan[$2], best[k] / time[$2], bound
        }' "$work/times" "$work/plans"
} >"$output"
