#!/bin/bash
# SPDX-License-Identifier: MIT
# --model FILE.gguf: a GGUF file is a model like its directory, with the tokenizer of its own keys.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 60; i++) print "the number", i, "of what is there: we have", 3 * i, "things." }' >"$work/text"

# pair NAME TOKENIZER TYPE: a trained model of that configuration as a directory and as a file.
pair() {
    mkdir -p "$work/base-$1"
    cp tests/golden/tokenizers/"$2"/* "$work/base-$1"
    cp tests/golden/readback/"$1".json "$work/base-$1/config.json"
    run train --model "$work/base-$1" --data "$work/text" --max-seq-length 12 --per-device-train-batch-size 4 \
        --learning-rate 1e-3 --dropout 0 --max-steps 12 --quiet --save-dtype "$3" --output-dir "$work/$1"
    check $code "a model for $1" "$err"
    run export --model "$work/$1" --to "$work/$1.gguf"
    check $code "the file of $1" "$err"
}

# verifies formats-8.e397
# alike ARGUMENTS: the same output of the directory and of the file.
alike() {
    local command=$1 from
    shift
    for from in "$name" "$name.gguf"; do
        run "$command" --model "$work/$from" "$@"
        check $code "$command --model $from $*" "$err"
        sed -E 's/"([a-z_]*_second|[a-z_]*seconds|host_bytes|model)": [^,}]*//g; s/^[^:]*: //' <<<"$out" >"$work/out.${from##*.}"
    done
    cmp -s "$work/out.$name" "$work/out.gguf"
    check $? "$command $* of $name and of its file" "$(cat "$work/out.$name" "$work/out.gguf")"
}

for row in gpt2:gpt2_small:fp32 qwen2:qwen2:bf16 llama2:llama2:fp16 llama3:llama3:bf16; do
    IFS=: read -r name tokenizer type <<<"$row"
    pair "$name" "$tokenizer" "$type"
    alike eval --data "$work/text" --max-seq-length 12 --json
    alike eval --data "$work/text" --max-seq-length 12 --bf16 --json
    alike generate --prompt 'the number 7 of' --max-new-tokens 3 --temperature 0 --json
    alike generate --prompt 'the number' --max-new-tokens 3 --seed 4 --num-return-sequences 2
    alike plan --max-seq-length 12 --dropout 0 --json
    [[ $name == gpt2 ]] || alike eval --data "$work/text" --max-seq-length 12 --load-in-4bit --json
    run export --model "$work/$name.gguf" --dtype "$type" --to "$work/$name-same"
    cmp -s "$work/$name/model.safetensors" "$work/$name-same/model.safetensors"
    check $? "$name.gguf exports to the weights that it was made of" "$err"
    run export --model "$work/$name.gguf" --to "$work/$name-back"
    run import --from "$work/$name.gguf" --to "$work/$name-in"
    diff -rq "$work/$name-back" "$work/$name-in" >"$work/diff"
    check $? "export and import of $name.gguf are the same directory" "$(cat "$work/diff")"
done

# SentencePiece's own file, whose scores go along, and Unigram: T5's form has a token behind a text and none before it.
mkdir "$work/pieces-base" "$work/spelt-base"
cp tests/golden/tokenizers/spm_plain/tokenizer.model "$work/pieces-base"
cp tests/golden/tokenizers/unigram_strip/tokenizer.json "$work/spelt-base"
for name in pieces spelt; do
    cp tests/golden/readback/llama2.json "$work/$name-base/config.json"
    run train --model "$work/$name-base" --data "$work/text" --max-seq-length 12 --max-steps 3 --quiet --output-dir "$work/$name"
    check $code "a model for $name" "$err"
    run export --model "$work/$name" --to "$work/$name.gguf"
    ! grep -q 'has no tokenizer' <<<"$err"
    check $? "the file of $name has the tokenizer" "$err"
    alike eval --data "$work/text" --max-seq-length 12 --json
    alike generate --prompt 'the number 7 of' --max-new-tokens 8 --temperature 0 --json
    run import --from "$work/$name.gguf" --to "$work/$name-in"
    [[ $code -eq 0 && -s $work/$name-in/tokenizer.json ]]
    check $? "$name.gguf is imported" "$err"
    run export --model "$work/$name-in" --to "$work/$name-again.gguf"
    run import --from "$work/$name-again.gguf" --to "$work/$name-again"
    cmp -s "$work/$name-in/tokenizer.json" "$work/$name-again/tokenizer.json"
    check $? "the tokenizer of $name comes out of its reading again" "$err"
done
# A value that no tokenizer.json may have is refused before there is a model without one: KEY, bytes between its name and
# the value, the words.
while read -r key behind words; do
    at=$(grep -abo "$key" "$work/spelt.gguf" | cut -d: -f1)
    cp "$work/spelt.gguf" "$work/bent.gguf"
    printf '\360\377\377\177' | dd of="$work/bent.gguf" bs=1 seek=$((at + ${#key} + behind)) conv=notrunc status=none
    rm -rf "$work/bent-in"
    expect 4 "bent.gguf: .*$words" import --from "$work/bent.gguf" --to "$work/bent-in"
    [[ -n $at && -z $(ls -A "$work/bent-in") ]]
    check $? "and $key leaves no file behind" "$(ls "$work/bent-in")"
done <<<"tokenizer.ggml.unknown_token_id 4 no piece has this number
tokenizer.ggml.precompiled_charsmap 16 the character map is cut off"
cp tests/golden/tokenizers/spm_bytes/tokenizer.model "$work/pieces"
expect 0 'the GGUF file has no tokenizer: readers of Unigram give unknown text one token' \
    export --model "$work/pieces" --to "$work/none.gguf"
cp tests/golden/tokenizers/spm_bpe_map/tokenizer.model "$work/pieces"
expect 0 'the GGUF file has no tokenizer: readers of pieces apply no character map' \
    export --model "$work/pieces" --to "$work/none.gguf"

# Families of which llama.cpp has another order of rows or norms about 1 (tools/golden/formats/llama_cpp.py lets llama.cpp
# read such files): what is generated is the directory's, and the file comes out of its reading again, byte by byte.
value_of() { tr -d ' \n' <"$1/config.json" | grep -oE "\"$key\":(\[[^]]*\]|[^,]*)"; }
mkdir "$work/again" "$work/in"
for name in tiny-gemma tiny-gemma2 tiny-gemma3-text tiny-phi3 tiny-neox; do
    run train --model $name --data "$work/text" --max-seq-length 32 --max-steps 3 --learning-rate 0.01 --quiet \
        --output-dir "$work/$name"
    check $code "a model for $name" "$err"
    run export --model "$work/$name" --to "$work/$name.gguf"
    check $code "the file of $name" "$err"
    alike generate --prompt 'the number' --max-new-tokens 12 --temperature 0
    run export --model "$work/$name.gguf" --to "$work/in/$name"
    check $code "$name.gguf is read" "$err"
    run export --model "$work/in/$name" --to "$work/again/$name.gguf"
    cmp -s "$work/$name.gguf" "$work/again/$name.gguf"
    check $? "$name.gguf comes out of its reading again" "$err"
    for key in model_type head_dim sliding_window query_pre_attn_scalar partial_rotary_factor rotary_pct layer_types; do
        [[ "$(value_of "$work/$name")" == "$(value_of "$work/in/$name")" ]]
        check $? "$key of $name came back"
    done
done

# verifies formats-9.0f24
# Packed types are read as the floats that they stand for.
golden=tests/golden/blocks
awk 'BEGIN { for (i = 0; i < 300; i++) printf "%c%c", i * i % 40, 0 }' >"$work/ids.bin"
run import --from $golden/qwen2.gguf --to "$work/packed"
check $code "packed types are imported" "$err"
cmp -s "$work/packed/model.safetensors" $golden/qwen2.safetensors
check $? "with the gguf package's values, bit by bit"
cp $golden/qwen2.gguf "$work/packed.gguf"
name=packed
alike eval --data "$work/ids.bin" --max-seq-length 12 --dequantize --json
alike eval --data "$work/ids.bin" --max-seq-length 12 --bf16 --dequantize --json
alike eval --data "$work/ids.bin" --max-seq-length 12 --load-in-8bit --json
alike generate --prompt-ids 1,2,3 --max-new-tokens 9 --temperature 0

# It can be trained, and what a run leaves is a directory with its tokenizer.
run train --model "$work/gpt2.gguf" --data "$work/text" --max-seq-length 12 --max-steps 2 --quiet --save-dtype source \
    --output-dir "$work/tuned"
[[ $code -eq 0 && -s $work/tuned/tokenizer.json ]]
check $? "a GGUF file is trained" "$err"
expect 0 'loss' eval --model "$work/tuned" --data "$work/text" --max-seq-length 12
expect 0 '^# model_type = gpt2' eval --model "$work/gpt2.gguf" --print-options

# What is wrong is said of the file.
expect 4 'unknown model: found .*, expected a directory with config.json, a GGUF file or a preset' eval --model "$work/text" --data "$work/text"
head -c 3000 "$work/gpt2.gguf" >"$work/cut.gguf"
expect 4 'cut.gguf: ' generate --model "$work/cut.gguf" --prompt a
LC_ALL=C sed 's/gpt2\x0c/gpt9\x0c/' "$work/gpt2.gguf" >"$work/arch.gguf"
expect 4 'architecture is not supported' eval --model "$work/arch.gguf" --data "$work/text"
LC_ALL=C sed 's/blk.0.ffn_up.bias/blk.0.ffn_op.bias/' "$work/gpt2.gguf" >"$work/name.gguf"
expect 4 'name.gguf: transformer.h.0.mlp.c_fc.bias: a tensor of the model is missing' \
    eval --model "$work/name.gguf" --data "$work/text" --max-seq-length 12
LC_ALL=C sed 's/ggml.pre\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00gpt-2/ggml.pre\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00gpt-9/' \
    "$work/gpt2.gguf" >"$work/split.gguf"
expect 4 'its tokenizer is not used: only the splits' generate --model "$work/split.gguf" --prompt a
expect 0 '^[0-9 ]+$' generate --model "$work/split.gguf" --prompt-ids 1,2 --max-new-tokens 3
finish
