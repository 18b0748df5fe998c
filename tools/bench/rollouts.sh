#!/bin/bash
# SPDX-License-Identifier: MIT
# Tokens a second of rollouts beside llama.cpp's parallel decoding, on one model of random weights (75.7 million, 12 layers of 768,
# fp32). Bedplate's own figure leaves out its start; llama.cpp's is that of decoding. The middle of three runs in turns.
# Usage: tools/bench/rollouts.sh LLAMA-BATCHED-BENCH [TOKENS]
set -eu
peer=$1 tokens=${2:-64}
program=${BEDPLATE:-build/release/bedplate}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/shape"
cat >"$work/shape/config.json" <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
 "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 256, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
 "rope_theta": 10000.0, "tie_word_embeddings": true}
CONFIG
head -c 4000 "$program" | od -An -tx1 >"$work/text.txt"
"$program" train --model "$work/shape" --data "$work/text.txt" --max-steps 1 --per-device-train-batch-size 1 --max-seq-length 32 \
    --output-dir "$work/model" >/dev/null 2>&1
"$program" export --model "$work/model" --to "$work/model.gguf" >/dev/null
echo '{"prompt": "the quick brown fox ju"}' >"$work/prompt.jsonl"

# ours THREADS SLOTS
ours() {
    rm -f "$work/out.jsonl"
    "$program" rollout --model "$work/model" --data "$work/prompt.jsonl" --output "$work/out.jsonl" --num-generations 16 \
        --max-completion-length "$tokens" --threads "$1" --slots "$2" --json 2>/dev/null | sed 's/.*"tokens_per_second": *\([0-9.]*\).*/\1/'
}
# theirs THREADS SEQUENCES: column S_TG of its table.
theirs() {
    "$peer" -m "$work/model.gguf" -c 4096 -npp 22 -ntg "$tokens" -npl "$2" -t "$1" -tb "$1" 2>/dev/null |
        awk -F'|' '$4 + 0 == '"$2"' { print $9 + 0 }'
}
middle() { sort -n | sed -n 2p; }
printf '%7s %9s %10s %10s\n' threads sequences Bedplate llama.cpp
for threads in 1 2; do
    for at_once in 1 2 16; do
        : >"$work/a" && : >"$work/b"
        for _ in 1 2 3; do
            ours "$threads" "$at_once" >>"$work/a"
            theirs "$threads" "$at_once" >>"$work/b"
        done
        printf '%7s %9s %10.0f %10.0f\n' "$threads" "$at_once" "$(middle <"$work/a")" "$(middle <"$work/b")"
    done
done
