#!/bin/bash
# SPDX-License-Identifier: MIT
# Processor time of whole plans: presets x options x arenas, as a table.
#     tools/bench/planning.sh [PRESET..]
# An arena that is too small costs most, since ways out are then looked for.
program=${BUILD:-build/release}/bedplate
presets=("$@")
[[ $# -gt 0 ]] || presets=(gpt2 gpt2-xl llama-7b llama-13b llama-3-8b llama-3.2-1b qwen3-0.6b bert-large resnet-50 gru)
kinds=(
    ""
    "--offload file:/var/tmp/none:400GB"
    "--lora-r 8 --bf16"
    "--lora-r 16 --load-in-4bit --offload file:/var/tmp/none:400GB"
)
budgets=(1GB 3GB 10GB 80GB)
TIMEFORMAT='%U %S'
for preset in "${presets[@]}"; do
    printf '\n%s\n\n| options |' "$preset"
    printf ' %s |' "${budgets[@]}"
    printf '\n|---|---|---|---|---|\n'
    for kind in "${kinds[@]}"; do
        printf '| %s |' "${kind:-none}"
        read -ra options <<<"$kind"
        for budget in "${budgets[@]}"; do
            seconds=$({ time "$program" plan --model "$preset" --arena "$budget" "${options[@]}" &>/dev/null; } 2>&1)
            awk '{ printf " %.1f |", $1 + $2 }' <<<"$seconds"
        done
        printf '\n'
    done
done
