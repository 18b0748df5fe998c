#!/bin/bash
# SPDX-License-Identifier: MIT
# GGUF files that the gguf package has read, tensor by tensor and key by key (tools/golden/formats/readback.py): the very
# same files come out again. With BP_GGUF_OUT=DIR the models and their files are left there instead.
# verifies formats-7.5b71
. "$(dirname "$0")/../lib.sh"
to=${BP_GGUF_OUT:-$work}
list=tests/golden/readback/sha256

awk 'BEGIN { for (i = 0; i < 300; i++) printf "%c%c", 97 + i % 20, 0 }' >"$work/ids.bin"

# make NAME TOKENIZER TYPE: a model of random weights with a tokenizer, and its file.
make() {
    mkdir -p "$work/$1"
    cp tests/golden/tokenizers/"$2"/* "$work/$1"
    cp tests/golden/readback/"$1".json "$work/$1/config.json"
    run train --model "$work/$1" --data "$work/ids.bin" --max-seq-length 6 --per-device-train-batch-size 2 \
        --max-steps 0 --quiet --output-dir "$to/$1-model"
    check $code "a model for $1" "$err"
    run export --model "$to/$1-model" --format gguf --dtype "$3" --to "$to/$1.gguf"
    check $code "the file of $1" "$err"
    [[ -n ${BP_GGUF_OUT:-} ]] && return
    [[ "$(sha256sum <"$to/$1.gguf" | cut -c1-64)  $1.gguf" == "$(grep "  $1.gguf\$" $list)" ]]
    check $? "$1.gguf is the file that was read"
    # And as our own reader has it: the same weights in the type of the file.
    run import --from "$to/$1.gguf" --to "$work/$1-back" --dtype fp32
    check $code "$1.gguf is imported" "$err"
    run export --model "$to/$1-model" --dtype "$3" --to "$work/$1-narrow"
    run export --model "$work/$1-back" --dtype "$3" --to "$work/$1-again"
    cmp -s "$work/$1-narrow/model.safetensors" "$work/$1-again/model.safetensors"
    check $? "the same weights came back from $1.gguf" "$err"
}

make gpt2 gpt2_small fp32
make llama2 llama2 fp16
make llama3 llama3 bf16
make qwen2 qwen2 bf16

# A tokenizer that a reader would get wrong stays out, by name: an added token that is a word by itself.
mkdir "$work/word"
cp tests/golden/tokenizers/single_words/tokenizer.json "$work/word"
cp tests/golden/readback/gpt2.json "$work/word/config.json"
run train --model "$work/word" --data "$work/ids.bin" --max-seq-length 6 --per-device-train-batch-size 2 --max-steps 0 --quiet \
    --output-dir "$work/word-model"
check $code "a model whose tokenizer has words" "$err"
expect 0 'has no tokenizer: .*single word \(single_word\)' export --model "$work/word-model" --format gguf --to "$work/word.gguf"
! grep -aqE 'tokenizer.ggml.(model|tokens)' "$work/word.gguf"
check $? "and none is in the file"
finish
