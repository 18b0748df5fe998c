#!/bin/bash
# SPDX-License-Identifier: MIT
# Ranks on GPUs, which here are the instrument of tools/ptxvm with several devices: every form of
# sharing on every number of ranks gives the files of one rank, staged through host memory or by NCCL,
# which here is a stand-in, strict and without mercy for communicators that are left; each rank takes
# the GPU of its number on the host, and two on one GPU are refused.
# verifies ranks-3.d7df
. "$(dirname "$0")/../lib.sh"

export LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm PTXVM_DEVICES=4
[[ -e $LD_LIBRARY_PATH/libcuda.so.1 ]] || { echo "no $LD_LIBRARY_PATH/libcuda.so.1"; exit 1; }
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
cat >"$work/config.json" <<'EOF'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
EOF
train=(train --data "$work/text" --max-seq-length 4 --per-device-train-batch-size 1
    --gradient-accumulation-steps 4 --virtual-ranks 4 --max-steps 2 --threads 1 --json --output-dir "$work/run")

# trained NAME OPTIONS..: two steps; the files are in $work/NAME, whatever they were called.
trained() {
    local name=$1
    shift
    rm -rf "$work/run" "${work:?}/$name"
    run "${train[@]}" --device cuda "$@"
    digest=$(json state_digest)
    [[ ! -e $work/run ]] || mv "$work/run" "$work/$name"
}

# like_one NAME OPTIONS..: what these ranks give is what one rank gave.
like_one() {
    local name=$1
    shift
    trained several "$@"
    [[ $code -eq 0 && $digest == "$right" ]]
    check $? "$name" "$digest, right would be $right; $err"
    diff -r -x events.jsonl "$work/one" "$work/several" >/dev/null
    check $? "$name: the files of one rank" "$(diff -rq "$work/one" "$work/several")"
}

alike() {
    trained one "$@"
    right=$digest
    [[ $code -eq 0 && -n $right ]]
    check $? "one rank: $*" "$err"
}

# What the stand-in complains about is a fault, whatever became of the run.
by_nccl() {
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$PWD/$BUILD/ptxvm/nccl like_one "$@"
    ! grep 'nccl stand-in' "$work/.err"
    check $? "$1: the stand-in is content"
}

alike --model "$work"
for form in none optimizer gradients parameters; do
    # In the short form two of them by NCCL and two without.
    long_form || [[ $form == none || $form == gradients ]] || like_one "2 ranks, $form" --model "$work" --fabric threads:2 --shard $form
    long_form || [[ $form == none || $form == gradients ]] || continue
    by_nccl "2 ranks by NCCL, $form" --model "$work" --fabric nccl:2 --shard $form
    [[ $(json fabric_bytes) -gt 0 ]]
    check $? "NCCL's own memory is reported" "$out"
done
by_nccl "one rank by NCCL" --model "$work" --fabric nccl
alike --model "$work" --bf16 --optim adamw_8bit --max-grad-norm 0.3
for form in gradients parameters; do
    PTXVM_SEED=3 like_one "4 ranks, $form" --model "$work" --bf16 --optim adamw_8bit --max-grad-norm 0.3 \
        --fabric threads:4 --fabric-seed 3 --shard $form
done
by_nccl "4 ranks by NCCL, parameters" --model "$work" --bf16 --optim adamw_8bit --max-grad-norm 0.3 \
    --fabric nccl:4 --shard parameters

# Weights of more than one unit, which are gathered ahead of their use: in two micro-batches of two lanes.
train[8]=2 train[10]=2
mkdir "$work/wide"
sed 's/"n_layer": 2/"n_layer": 1, "n_inner": 4200/' "$work/config.json" >"$work/wide/config.json"
alike --model "$work/wide"
like_one "2 ranks, weights ahead" --model "$work/wide" --fabric threads:2 --shard parameters --shard-ahead 2
by_nccl "2 ranks by NCCL, weights ahead" --model "$work/wide" --fabric nccl:2 --shard parameters

train[8]=4 train[10]=4

# refused CODE WORDS OPTIONS..
refused() {
    local want=$1 words=$2
    shift 2
    rm -rf "$work/run"
    run "${train[@]}" --model "$work" "$@"
    [[ $code -eq $want && $err == *"$words"* && $(grep -cF "$words" <<<"$err") -eq 1 ]]
    check $? "$*: exit $code, wanted $want and once: $words" "$err"
}

refused 2 "ranks 0 and 1: two ranks have one GPU between them: expected one rank per GPU of a host, and \
--device cuda" --device cuda:1 --fabric threads:2
PTXVM_DEVICES=1 refused 2 "ranks 0 and 1: two ranks have one GPU" --device cuda --fabric threads:2
PTXVM_DEVICES=2 refused 2 "ranks 0 and 2: two ranks have one GPU" --device cuda --fabric threads:4
mkdir "$work/none"
: >"$work/none/libnccl.so.2"
LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$work/none refused 7 "NCCL cannot be loaded" --device cuda --fabric nccl:2
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$PWD/$BUILD/ptxvm/nccl
BP_NCCL_VERSION=21504 refused 7 "NCCL is too old; versions are 10000 times the first number and 100 times the second\
: found 21504, expected at least 21800" --device cuda --fabric nccl:2
refused 2 "NCCL joins GPUs: expected --device cuda" --fabric nccl:2 --device host
refused 2 "cannot be checked" --device cuda --fabric nccl:2 --fabric-check

# A rank whose NCCL finds another gone.
BP_NCCL_FAILS=1:6:6 refused 10 "the GPUs of the ranks cannot exchange" --device cuda --fabric nccl:2

finish
