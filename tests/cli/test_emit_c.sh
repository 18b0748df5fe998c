#!/bin/bash
# SPDX-License-Identifier: MIT
# plan --emit-c: trainers in C end with the digest that `bedplate train` has over the same data; what
# they cannot do is refused. tests/variants/boards.sh runs them on microcontrollers.
. "$(dirname "$0")/lib.sh"

kit=$work/kit
make -s install-library PREFIX="$kit" DESTDIR= >/dev/null 2>&1
check $? "install the library"
mkdir -p "$work"/{gpt,mlp,gru}
echo '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 128,
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}' >"$work/gpt/config.json"
echo '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' >"$work/mlp/config.json"
echo '{"model_type": "rnn", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 128,
    "max_position_embeddings": 64}' >"$work/gru/config.json"
sed -n 's/^    "\(.*\)"[;]*$/\1/p' tools/embed/poem.h | tr -d '\n' | sed 's/\\n/\n/g' >"$work/text"
awk 'BEGIN { for (j = 0; j < 16; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 64; i++) { for (j = 0; j < 16; j++) printf "%.6f,", ((i * 16 + j) * 7919 % 257 - 128) / 64
        print i % 4 } }' >"$work/rows.csv"

# verifies device-17.7fcf
# same NAME DATA OPTION..
same() {
    local name=$1 data=$2 format=bytes made
    shift 2
    [[ $data != *.csv ]] || format=auto
    rm -rf "$work/c" "$work/run"
    run plan --model "$work/$name" --max-steps 20 --emit-c "$work/c" "$@"
    [[ $code -eq 0 ]] && make -s -C "$work/c" BEDPLATE="$kit" CFLAGS='-O1 -Wall -Wextra -Werror' >"$work/made" 2>&1
    check $? "$name $*: made" "$out$err$(cat "$work/made")"
    made=$("$work/c/example" | sed -n 's/^state digest //p')
    run train --model "$work/$name" --max-steps 20 --data "$data" --data-format $format --output-dir "$work/run" \
        --quiet --json "$@"
    [[ -n $made && $(json state_digest) == "$made" ]]
    check $? "$name $*: the digest of train" "$made $out$err"
}
same mlp "$work/rows.csv" --per-device-train-batch-size 8 --optim sgd --learning-rate 1e-2
same mlp "$work/rows.csv" --per-device-train-batch-size 8 --optim sgd --alignment 32 --kernels portable # verifies device-22.986d
same mlp "$work/rows.csv" --per-device-train-batch-size 4 --optim adamw_8bit --lr-scheduler-type cosine
same gpt "$work/text" --per-device-train-batch-size 4 --max-seq-length 32 --warmup-steps 3
same gpt "$work/text" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --bf16 --max-seq-length 16 \
    --gradient-checkpointing full
same gru "$work/text" --per-device-train-batch-size 2 --max-seq-length 32 --gradient-release

# The state in a flash: goes on where it was, and is refused by another plan. verifies device-21.354b
flashed() { make -s -C "$1" BEDPLATE="$kit" CFLAGS=-O1 FLASH=1 STEPS="$2" >"$work/made" 2>&1 && (cd "$1" && ./example); }
sgd=(--per-device-train-batch-size 8 --max-steps 20 --optim sgd --learning-rate 1e-2)
run plan --model "$work/mlp" "${sgd[@]}" --emit-c "$work/f"
out=$(flashed "$work/f" 9)
[[ $(grep -c '^loss' <<<"$out") -eq 9 && -s $work/f/flash.img ]]
check $? "nine steps and a flash" "$out$(cat "$work/made")"
rm "$work/f/example"* && cp -r "$work/f" "$work/g"
run plan --model "$work/mlp" "${sgd[@]}" --emit-c "$work/f"
went=$(flashed "$work/f" 20)
run train --model "$work/mlp" "${sgd[@]}" --data "$work/rows.csv" --output-dir "$work/flashed" --quiet --json
[[ $(grep -c '^loss' <<<"$went") -eq 11 && $(sed -n 's/^state digest //p' <<<"$went") == "$(json state_digest)" ]]
check $? "eleven more: the digest of train" "$went$out"
sed 's/32, 32/32, 31/' "$work/mlp/config.json" >"$work/gru/config.json"
run plan --model "$work/gru" "${sgd[@]}" --emit-c "$work/g"
out=$(flashed "$work/g" 20)
[[ $? -ne 0 && $out == *weight* ]]
check $? "the flash of another plan: refused by the tensor's name" "$out"

expect 2 '--emit-c: .*needs --max-steps' plan --model "$work/gpt" --emit-c "$work/x"
expect 2 'alignment' plan --model "$work/gpt" --alignment 32 --kernels auto --device host
expect 2 'alignment' plan --model "$work/gpt" --alignment 64 --device cuda:sm_80
expect 2 'without lanes' plan --model "$work/gpt" --max-steps 5 --gradient-accumulation-steps 2 --lanes 2 --emit-c "$work/x"
expect 2 'no --group-by-length' plan --model "$work/gpt" --max-steps 5 --group-by-length --emit-c "$work/x"
expect 6 'x.*' plan --model "$work/mlp" --max-steps 5 --emit-c "$work/no/x"
finish
