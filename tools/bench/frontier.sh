#!/bin/bash
# SPDX-License-Identifier: MIT
# What it gains to choose which values of a block to keep, instead of which classes of them to drop: counted
# seconds of a step at ten budgets (plan --frontier), as Markdown.
#
#     tools/bench/frontier.sh [OUTPUT.md]      BUILD=build/release
set -u
BUILD=${BUILD:-build/release}
output=${1:-/dev/stdout}

# TITLE OPTIONS..: one table.
table() {
    echo
    echo "**$1** (\`${*:2}\`)"
    echo
    echo "| budget, bytes | classes, s | kept sets, s | saved, % |"
    echo "|---|---|---|---|"
    "$BUILD/bedplate" plan "${@:2}" --device host --frontier |
        awk 'found && NF == 4 { printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 } /budget of arena/ { found = 1 }'
}

gpt2=(--model gpt2 --per-device-train-batch-size 8 --max-seq-length 1024)
llama=(--model llama-3.2-1b --per-device-train-batch-size 4 --max-seq-length 2048)
{
    table "GPT-2 124M, 8 x 1024" "${gpt2[@]}"
    table "Llama 3.2 1B, 4 x 2048" "${llama[@]}"
    table "GPT-2 124M, 8 x 1024, adapters" "${gpt2[@]}" --lora-r 8
    table "Llama 3.2 1B, 4 x 2048, adapters over 4 bits" "${llama[@]}" --bf16 --lora-r 8 --load-in-4bit
    table "GPT-2 124M, 8 x 1024, 4 micro-batches, released" "${gpt2[@]}" --bf16 --gradient-release --gradient-accumulation-steps 4
} >"$output"
