#!/bin/bash
# SPDX-License-Identifier: MIT
# make.sh PROGRAM: makes the runs of this folder, each stopped at step 2 of 4, with a `bedplate` of before the
# words of options, records and snapshots were changed (2026-11-28, commit 9aec8b4b). They are committed, so that
# tests/cli/runs/test_old_runs.sh can go on with them, verify them and replay them; do not make them anew by a later program.
set -eu
program=$(realpath "$1")
target=$(cd "$(dirname "$0")" && pwd)
made=/tmp/bedplate-old # events name the directory
rm -rf "$made"
mkdir "$made" "$made"/{model-wide,model-gpt2,model-bert}
cd "$made"
printf '%s\n' '{"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2,' \
    '"n_inner": null, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new", "attn_pdrop": 0.0,' \
    '"embd_pdrop": 0.0, "resid_pdrop": 0.1}' >model-wide/config.json
sed 's/"n_embd": 32/"n_embd": 16/' model-wide/config.json >model-gpt2/config.json
printf '%s\n' '{"model_type": "bert", "vocab_size": 256, "max_position_embeddings": 32, "hidden_size": 16,' \
    '"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "type_vocab_size": 2,' \
    '"layer_norm_eps": 1e-12, "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,' \
    '"id2label": {"0": "a", "1": "b", "2": "c"}}' >model-bert/config.json
awk 'BEGIN { for (i = 0; i < 60; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >text.txt
awk 'BEGIN { for (i = 0; i < 24; i++) print "{\"prompt\": \"n " i "\", \"chosen\": \" yes " i * 3 "\", \"rejected\": \" no\"}" }' \
    >pairs.jsonl
awk 'BEGIN { print "label\ttext"; for (i = 0; i < 24; i++) print i % 3 "\t" substr("abcdefghijklmnopqrstuvwxyz", 1, 2 + i % 24) }' \
    >rows.tsv

# begin NAME OPTIONS: a run of 4 steps that stops at the second one and is saved then.
begin() {
    local name=$1
    shift
    "$program" train "$@" --max-steps 4 --save-steps 2 --stop-at-step 2 --threads 1 --device host --quiet \
        --output-dir "$name" >/dev/null
}
gpt2=(--model model-gpt2 --max-seq-length 8 --per-device-train-batch-size 2)
"$program" distill --model model-gpt2 --data text.txt --max-seq-length 8 --distill-top-k 4 --quiet --output text.teacher \
    >/dev/null
begin plain "${gpt2[@]}" --data text.txt --validation-split 0.1 --eval-steps 1 --replay-every 1 --on-spike clip \
    --spike-threshold 6 --length-buckets none --gradient-accumulation-steps 2
begin lora "${gpt2[@]}" --model model-wide --data text.txt --lora-r 2 --target-modules all-linear --load-in-4bit --bf16
begin offload "${gpt2[@]}" --model model-wide --data text.txt --bf16 --optim adamw_8bit --below "file:offload.tier:4MiB" \
    --below-what states,weights --below-two-versions --below-buffered
begin average "${gpt2[@]}" --data text.txt --gradient-release adama --gradient-accumulation-steps 2 --max-grad-norm 0
begin ranks "${gpt2[@]}" --data text.txt --lanes 2 --gradient-accumulation-steps 2 --optim schedule_free_adamw
begin distill "${gpt2[@]}" --data text.txt --distill text.teacher
begin preference "${gpt2[@]}" --data pairs.jsonl --task dpo --max-seq-length 16
begin buckets --model model-bert --data rows.tsv --task classification --max-seq-length 32 \
    --per-device-train-batch-size 2 --length-buckets 8,16
rm -rf "$target"/*/
cp -r "$made"/* "$target"
rm -rf "$made"
