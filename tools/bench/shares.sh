#!/bin/bash
# SPDX-License-Identifier: MIT
# Bytes of a rank under each form of sharing, from plans; a Markdown table. Mixed precision, 8-bit
# AdamW, one sample of 64 tokens per rank, so that activations hardly count.
#
#     tools/bench/shares.sh [RANKS..]
set -eu
program=${BUILD:-build/release}/bedplate
[[ $# -gt 0 ]] || set -- 1 2 8 64
echo "| model | ranks | none | optimizer | gradients | parameters | 16 bytes | 18 bytes |"
echo "|---|---|---|---|---|---|---|---|"
for model in gpt2 gpt2-xl llama-7b llama-13b; do
    for ranks in "$@"; do
        row="| $model | $ranks |"
        for form in none optimizer gradients parameters; do
            plan=$("$program" plan --model $model --ranks "$ranks" --shard $form --bf16 \
                --optim adamw_8bit --per-device-train-batch-size 1 --max-grad-norm 0 \
                --gradient-accumulation-steps "$ranks" --max-seq-length 64 \
                --gradient-checkpointing full --json)
            bytes=$(grep -oE '"largest_arena_bytes": *[0-9]+' <<<"$plan" | grep -oE '[0-9]+$')
            count=$(grep -oE '"parameters": *[0-9]+' <<<"$plan" | head -1 | grep -oE '[0-9]+$')
            row+=$(awk -v b="$bytes" -v p="$count" 'BEGIN { printf " %.2f GB (%.2f) |", b / 1e9, b / p }')
        done
        awk -v r="$row" -v p="$count" 'BEGIN { printf "%s %.2f GB | %.2f GB |\n", r, 16 * p / 1e9, 18 * p / 1e9 }'
    done
done
