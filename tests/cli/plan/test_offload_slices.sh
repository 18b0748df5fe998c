#!/bin/bash
# SPDX-License-Identifier: MIT
# Matrices of several slices that live in a file: the bits of the run that has them in its arena, for each form of a weight,
# for widths that slices do not divide, with biases, residuals and GELU behind the product, and in less memory.
# verifies run-24.0483 compile-31.a51c
. "$(dirname "$0")/../lib.sh"

data=$work/data.txt
for ((i = 0; i < 300; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
disk=$(mktemp -d "$BUILD/slices.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
file=$disk/offload
offload=(--offload "file:$file:2GiB")
dd if=/dev/zero of="$file" bs=4096 count=1 oflag=direct status=none 2>/dev/null &&
    [[ $(stat -f -c %T "$disk") != tmpfs ]] || offload+=(--offload-buffered)
rm -f "$file"
common=(--data "$data" --max-seq-length 32 --per-device-train-batch-size 1 --device host --json --gradient-checkpointing full)
lora=(--lora-r 3 --target-modules all-linear)

what=() layers=1

# shape FOLDER WIDTH INNER MEMBERS: the configuration of `layers` blocks.
shape() {
    mkdir "$1"
    cat >"$1/config.json" <<END
{"model_type": "llama", "vocab_size": 300, "max_position_embeddings": 64, "hidden_size": $2, "intermediate_size": $3,
 "num_hidden_layers": $layers, "num_attention_heads": $(($2 / 64)), "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "hidden_act": "silu",
 "tie_word_embeddings": true$4}
END
}

# model NAME WIDTH INNER MEMBERS: with its weights in a file, or else each run would draw millions of them, which was three
# quarters of what this script took.
model() {
    shape "$work/drawn" "${@:2}"
    run train --model "$work/drawn" "${common[@]}" --max-steps 0 --save-strategy no --output-dir "$work/$1"
    [[ $code -eq 0 && -s $work/$1/model.safetensors ]]
    check $? "the weights of $1" "$out$err"
    rm -rf "$work/drawn"
}

digest() {
    rm -rf "$work/out"
    run train "${common[@]}" --max-steps 2 --output-dir "$work/out" "$@"
    state=$(json state_digest)
}

# same MODEL OPTIONS: one state with and without the file, and slices in the program with it.
same() {
    local plain arena
    digest --model "$work/$1" "${@:2}" --threads 2
    plain=$state arena=$(json arena_bytes)
    digest --model "$work/$1" "${@:2}" --threads 1 "${offload[@]}" "${what[@]}"
    [[ -n $plain && $state == "$plain" && $(json arena_bytes) -lt $arena ]]
    check $? "$* has the same bits in slices, and a smaller arena" "$plain $state $out$err"
    run plan --model "$work/$1" "${common[@]/--json/--listing}" "${@:2}" --threads 1 "${offload[@]}" "${what[@]}"
    [[ $code -eq 0 && $out == *d_input_sums* ]]
    check $? "$*: sums go on from slice to slice" "$err"
}

# 1,088 = 17 x 64 and 4,104 = 64 x 64 + 8: neither is a multiple of a slice, nor of a tile.
model wide 1088 4104 ', "attention_bias": true, "mlp_bias": true'
same wide "${lora[@]}" --bf16
same wide "${lora[@]}" --load-in-8bit --gradient-accumulation-steps 2
if long_form; then
    same wide "${lora[@]}"
    same wide "${lora[@]}" --fp16 --validation-split 0.1 --eval-steps 1
    same wide "${lora[@]}" --load-in-8bit --bf16
fi
same wide --bf16 --gradient-release --optim adamw_8bit
# Codes of 4 bits that are 4 MiB and more.
model wider 1088 8256 ""
same wider "${lora[@]}" --load-in-4bit --bf16
if long_form; then
    model ragged 1088 8264 ""
    same ragged "${lora[@]}" --load-in-4bit --bnb-4bit-use-double-quant false --gradient-checkpointing memory-poor
fi
# Blocks of a GGUF file, which rows are whole numbers of.
run export --model "$work/wider" --save-quant q8_0 --to "$work/blocks.gguf"
check $code "a file with packed weights" "$out$err"
same blocks.gguf "${lora[@]}" --bf16
! long_form || same blocks.gguf "${lora[@]}"
# Weights that are drawn, slice by slice.
shape "$work/drawn" 512 2304 ""
same drawn --gradient-release
# Ten blocks in the proportions of Llama 3 70B, four in the short form, with everything in the file that can be.
rm -r "$work/drawn"
layers=10
long_form || layers=4
model deep 512 2304 ""
what=(--offload-what bases,states,weights,checkpoints)
same deep "${lora[@]}" --optim adamw_8bit

finish
