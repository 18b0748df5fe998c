#!/bin/bash
# SPDX-License-Identifier: MIT
# Hostile files: one function for each class of bug that readers of models and checkpoints have had,
# each over every reader that the class concerns. A refusal has exit code 4, names the file, says
# what is wrong, and leaves nothing behind. The same classes byte by byte, and with failing storage,
# are in the unit tests named beside them.
#
#  class                                          here                    unit tests
#   1 a count from the file drives loops          class_01_counts         test_safetensors_hostile.c hostile_header_length, hostile_number_of_entries
#   2 products that wrap                          class_02_products       test_safetensors_hostile.c hostile_products
#   3 padding and alignment that wrap             class_03_padding        test_safetensors_hostile.c hostile_sums; test_core_small.c
#   4 position + length that wraps                class_04_sums           test_safetensors_hostile.c hostile_sums; test_formats_tokens.c headers_that_contradict_the_file
#   5 zero dimensions                             class_05_zeros          test_safetensors_hostile.c hostile_zero_dimensions
#   6 signs                                       class_06_signs          test_safetensors_hostile.c hostile_signs
#   7 alignment 0, no power of two, unaligned     class_07_alignment      test_formats_gguf.c every_lie_of_a_header_is_refused
#   8 assert as validation                        class_08_statuses       tools/check/symbols (no library calls assert)
#   9 types out of the table                      class_09_types          test_safetensors_hostile.c hostile_types; test_formats_bnb.c other_forms_are_refused
#  10 strings: too long, no end, empty, NUL       class_10_strings        test_safetensors_hostile.c hostile_names; test_formats_shards.c a_hostile_index_is_refused
#  11 the same twice, holes, trailing bytes       class_11_twice          test_safetensors_hostile.c hostile_duplicates_and_holes; test_formats_gguf.c keys_twice_are_refused
#  12 ranges outside the file, over one another   class_12_ranges         test_safetensors_hostile.c hostile_ranges
#  13 sizes beyond the data                       class_13_sizes          test_safetensors_hostile.c hostile_declared_sizes; test_formats_data.c damaged_token_files_are_refused
#  14 values of another type                      class_14_kinds          test_safetensors_hostile.c hostile_value_types; test_formats_gguf.c values_of_another_kind_are_refused_by_name
#  15 types of no bytes, nesting                  class_15_nesting        test_safetensors_hostile.c hostile_nesting; test_json.c limits_depth
#  16 files cut anywhere                          class_16_cuts           test_safetensors_hostile.c hostile_truncation_and_flips; test_checkpoint_damage.c every_cut_file_is_found; test_tokenizer.c, test_unpack.c a_file_cut_anywhere_is_refused
#  17 indices as data: tokens, labels             class_17_indices        test_feed.c test_bad_data
#  18 files that change while they are read       class_18_change         test_safetensors_hostile.c hostile_change_while_reading; test_tokenizer_files.c files_that_change_between_passes
#  19 values of a configuration                   class_19_configuration  test_formats_config.c every_wrong_value_is_refused_by_name
#  20 payload: NaN, infinity, damaged state       class_20_payload        test_formats_shards.c weights_that_are_no_numbers_are_refused; test_checkpoint_damage.c every_changed_byte_is_found
# shellcheck disable=SC2059
# verifies formats-18.2618
. "$(dirname "$0")/../lib.sh"

signals=0 # runs that a signal ended

# refused PATTERN ARGUMENTS: exit 4, the pattern, and no output directory or file.
refused() {
    local pattern=$1
    shift
    expect 4 "$pattern" "$@"
    ((code < 128)) || signals=$((signals + 1))
    [[ ! -e $work/x ]]
    check $? "nothing was written: $*"
    rm -rf "$work/x"
}

# le BYTES NUMBER..: little-endian numbers, two's complement.
le() {
    local bytes=$1 number i
    shift
    for number; do
        for ((i = 0; i < bytes; i++)); do printf "\\x$(printf %02x $(((number >> (8 * i)) & 255)))"; done
    done
}
text64() { le 8 ${#1} && printf %s "$1"; } # GGUF's strings
zeros() { head -c "$1" /dev/zero; }

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "green bottles" }' >"$work/text"
run train --model tiny --data "$work/text" --max-seq-length 16 --max-steps 2 --output-dir "$work/good" --quiet
check $code "a model to begin with" "$err"
run train --model "$work/good" --data "$work/text" --max-seq-length 16 --max-steps 1 --lora-r 2 --output-dir "$work/lora" --quiet
check $code "adapters to begin with" "$err"
mkdir "$work/m" "$work/t"
cp "$work/good/config.json" "$work/m"
mkdir "$work/q"
cp tests/golden/answers/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/q"
on_text=(--data "$work/text" --max-seq-length 16)

# Readers: each takes what is bad and what the refusal says.
weights() { # PATTERN HEADER DATA-BYTES [LENGTH]
    { le 8 "${4:-${#2}}" && printf %s "$2" && zeros "$3"; } >"$work/m/model.safetensors"
    refused "m/model.safetensors.*$1" eval --model "$work/m" "${on_text[@]}"
    rm "$work/m/model.safetensors"
}
config() { # PATTERN SED [PRESET]
    local from=$work/config-${3:-tiny}
    mkdir -p "$work/c"
    if [[ ! -e $from ]]; then
        run train --model "${3:-tiny}" --data "$work/text" --max-seq-length 16 --max-steps 0 --output-dir "$work/made" --quiet
        mv "$work/made/config.json" "$from"
        rm -r "$work/made"
    fi
    sed "$2" "$from" >"$work/c/config.json"
    ! cmp -s "$from" "$work/c/config.json"
    check $? "the configuration is another: $2"
    refused "c/config.json: $1" plan --model "$work/c"
}
gguf() { # PATTERN: of $work/f.gguf
    refused "f.gguf.*$1" import --from "$work/f.gguf" --to "$work/x"
}
adapter() { # PATTERN SED
    rm -rf "$work/a"
    cp -r "$work/lora" "$work/a"
    sed -i "$2" "$work/a/adapter_config.json"
    refused "a/adapter_config.json: $1" eval --model "$work/good" --adapter "$work/a" "${on_text[@]}"
}
tokenizer() { # PATTERN JSON
    printf %s "$2" >"$work/t/tokenizer.json"
    refused "tokenizer.json.*$1" tokenize --tokenizer "$work/t" --data "$work/text" --output "$work/x"
}
bpe() { printf '{"model":{"type":"BPE","vocab":{%s},"merges":[%s]},"pre_tokenizer":{"type":"ByteLevel"}}' "$1" "$2"; }
lines() { # PATTERN CONTENT
    printf -- "$2" >"$work/d.jsonl"
    refused "d.jsonl(: )?$1" train --model tiny --output-dir "$work/x" --data "$work/d.jsonl" --max-seq-length 8
}
rows() { # PATTERN CONTENT
    printf -- "$2" >"$work/d.tsv"
    refused "d.tsv(: )?$1" train --model tiny --task classification --num-labels 2 --output-dir "$work/x" --data "$work/d.tsv" --max-seq-length 8
}
# Words with tags, and questions: from a file with this ending.
tagged() { # PATTERN ENDING CONTENT
    printf -- "$3" >"$work/d.$2"
    refused "d.$2(: )?$1" train --model tiny-bert --task token-classification --output-dir "$work/x" --data "$work/d.$2" --max-seq-length 8
}
asked() { # PATTERN ENDING CONTENT
    printf -- "$3" >"$work/d.$2"
    refused "d.$2(: )?$1" train --model "$work/q" --task question-answering --output-dir "$work/x" --data "$work/d.$2" --max-seq-length 24 --doc-stride 4
}
question() { printf '{"question": "q", "context": "a b", "answers": %s}\\n' "$1"; }
token_file() { # PATTERN: of $work/ids.bin
    refused "ids.bin: $1" train --model tiny --output-dir "$work/x" --data "$work/ids.bin" --max-seq-length 8
}
llmc() { # PATTERN WORD..: the header of a model file
    { le 4 "${@:2}" && zeros 4096; } >"$work/f.bin"
    refused "f.bin: $1" import --from "$work/f.bin" --to "$work/x"
}
index() { # PATTERN JSON
    printf %s "$2" >"$work/m/model.safetensors.index.json"
    refused "index.json.*$1" eval --model "$work/m" "${on_text[@]}"
    rm "$work/m/model.safetensors.index.json"
}
one() { printf '{"a":{"dtype":"%s","shape":%s,"data_offsets":%s}}' "$1" "$2" "$3"; }
head_of() { printf GGUF && le 4 3 && le 8 "$1" "$2"; } # tensors, keys

class_01_counts() {
    weights 'longer than 100,000,000' '{}' 4 $((1 << 60))
    { head_of $((1 << 60)) 0; } >"$work/f.gguf" && gguf ''
    { head_of 0 $((1 << 60)); } >"$work/f.gguf" && gguf ''
    { head_of 0 1 && text64 a && le 4 9 4 && le 8 $((1 << 60)); } >"$work/f.gguf" && gguf ''
    config 'n_layer: this value is not supported: found 99999999999, expected a whole number from 1 to 4096' 's/"n_layer": 2/"n_layer": 99999999999/'
    tokenizer 'out of range' "$(bpe '"a":4294967295' '')"
    adapter 'r: .*range' 's/"r": 2/"r": 1000000000/'
    { le 4 20240520 1 2147483647 && zeros 1012; } >"$work/ids.bin" && token_file '.*size differs'
    llmc '' 20240326 3 2147483647 2147483647 2147483647 1 64 2147483647
    many=$(printf '"a",%.0s' {1..16384})
    tagged ':1: the sentence has more words than can be.*found 16385' jsonl "{\"tokens\": [$many\"a\"]}\n"
    tagged ':16385: the sentence has more words' txt "$(printf 'a O\\n%.0s' {1..16385})"
    asked ':1.*more than 64 answers' jsonl "$(question "{\"text\": [${many:0:256}\"a\"], \"answer_start\": [0]}")"
    asked ':1.*longer than can be' jsonl "{\"question\": \"${many//[^a]/bb}\"}\n"
}
class_02_products() {
    weights 'overflows' "$(one U8 '[4294967296,4294967296]' '[0,0]')" 0
    weights 'overflows' "$(one F32 '[4611686018427387905]' '[0,4]')" 4
    { head_of 1 0 && text64 t && le 4 2 && le 8 $((1 << 33)) $((1 << 33)) && le 4 0 && le 8 0; } >"$work/f.gguf" && gguf ''
    llmc '' 20240326 3 65536 65536 65536 65536 65536 65536
}
class_03_padding() {
    weights '' '{}' 4 -8
    { head_of 1 0 && text64 t && le 4 1 && le 8 1 && le 4 0 && le 8 -8; } >"$work/f.gguf" && gguf ''
    { head_of 0 1 && text64 general.alignment && le 4 4 -32; } >"$work/f.gguf" && gguf ''
}
class_04_sums() {
    weights '' '{}' 4 -1
    weights 'do not cover' "$(one U8 '[9223372036854775807]' '[0,9223372036854775807]')" 1
    { head_of 0 1 && le 8 -1 && printf a; } >"$work/f.gguf" && gguf ''
    { head_of 0 1 && text64 a && le 4 8 && le 8 -9; } >"$work/f.gguf" && gguf ''
}
class_05_zeros() {
    weights 'overflows|does not have' "$(one F64 '[4294967296,4294967296,0]' '[0,0]')" 0
    { head_of 1 0 && text64 t && le 4 1 && le 8 0 && le 4 0 && le 8 0; } >"$work/f.gguf" && gguf ''
    for key in n_embd n_layer n_head n_positions vocab_size; do
        config "$key: this value is not supported: found 0, expected a whole number from 1" "s/\"$key\": [0-9]*/\"$key\": 0/"
    done
    adapter 'r: .*range' 's/"r": 2/"r": 0/'
    llmc '' 20240326 3 64 256 0 0 0 256
}
class_06_signs() {
    weights 'm/model|integers' "$(one U8 '[-4]' '[0,4]')" 4
    weights 'm/model|integers' "$(one U8 '[4]' '[-4,0]')" 4
    config 'n_embd: this value is not supported: found -64, expected a whole number from 1' 's/"n_embd": 64/"n_embd": -64/'
    config 'eos_token_id: ' 's/"eos_token_id": [a-z0-9]*/"eos_token_id": -5/'
    tokenizer 'out of range' "$(bpe '"a":-1' '')"
    adapter 'lora_alpha: .*range' 's/"lora_alpha": [0-9]*/"lora_alpha": -8/'
    rows ':1: the label is no class.*found -1' '-1\tbad\n'
    llmc '' 20240326 3 64 256 -2 4 64 256
    { le 4 20240520 1 -1 && zeros 1014; } >"$work/ids.bin" && token_file '.*size differs'
    tagged ':1: the label is no class.*found -1' jsonl '{"tokens": ["a"], "ner_tags": [-1]}\n'
    asked ':1.*answer_start is no whole number' jsonl "$(question '{"text": "a", "answer_start": -1}')"
}
class_07_alignment() {
    for alignment in 0 3 -1; do
        { head_of 0 1 && text64 general.alignment && le 4 4 $alignment; } >"$work/f.gguf" && gguf ''
    done
    { head_of 0 1 && text64 general.alignment && le 4 8 && text64 32; } >"$work/f.gguf" && gguf ''
    { head_of 1 0 && text64 t && le 4 1 && le 8 1 && le 4 0 && le 8 5 && zeros 64; } >"$work/f.gguf" && gguf ''
}
class_08_statuses() {
    [[ $signals -eq 0 ]]
    check $? "every refusal is a status: $signals runs were ended by signals"
}
class_09_types() {
    weights '' "$(one F33 '[1]' '[0,4]')" 4
    weights '' "$(one I64 '[4]' '[0,32]')" 32
    for type in 99 -1; do
        { head_of 1 0 && text64 t && le 4 1 && le 8 1 && le 4 $type && le 8 0 && zeros 64; } >"$work/f.gguf" && gguf ''
        { head_of 0 1 && text64 a && le 4 $type; } >"$work/f.gguf" && gguf ''
    done
    config 'model_type:.*found "mamba"' 's/"gpt2"/"mamba"/'
    adapter 'peft_type: only LORA' 's/"LORA"/"IA3"/'
    tokenizer 'model' '{"model":{"type":"Unigram","vocab":[["a",0]]}}'
    llmc '' 20240326 9 64 256 2 4 64 256
    { le 4 20240520 9 0 && zeros 1012; } >"$work/ids.bin" && token_file ''
}
class_10_strings() {
    weights '' '{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 1
    weights '' '{"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 1
    weights '' '{"a' 0
    { head_of 0 1 && le 8 100 && printf a; } >"$work/f.gguf" && gguf ''
    { head_of 0 1 && le 8 0 && le 4 4 1; } >"$work/f.gguf" && gguf ''
    { head_of 1 0 && text64 "$(printf 't%.0s' {1..90})" && le 4 1 && le 8 1 && le 4 0 && le 8 0; } >"$work/f.gguf" && gguf ''
    lines ':2' '{"text":"a"}\n{"text":"b\n'
    rows ':1: the text holds a NUL byte' '1\ta\0b\n'
    rows ':1: the text is not UTF-8' '1\ta\377\n'
    index 'without a path' '{"weight_map":{"a":"../good/model.safetensors"}}'
    index 'NUL' '{"weight_map":{"a\u0000b":"model.safetensors"}}'
    printf '[UNK]\n\n[CLS]\n' >"$work/t/vocab.txt"
    rm -f "$work/t/tokenizer.json"
    refused 'vocab.txt' tokenize --tokenizer "$work/t" --data "$work/text" --output "$work/x"
    tagged 'byte 15: a string is not valid UTF-8' jsonl '{"tokens": ["a\377"], "ner_tags": [0]}\n'
    tagged 'the file holds NUL bytes' txt 'a\0b O\n'
    tagged ':2' jsonl '{"tokens": ["a"], "ner_tags": [0]}\n{"tokens": ["b\n'
    asked '.*a string is not valid UTF-8' jsonl '{"question": "\377", "context": "a", "answers": []}\n'
}
class_11_twice() {
    weights '' '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}' 2
    weights '' "$(one U8 '[1]' '[1,2]')" 2
    weights '' "$(one U8 '[1]' '[0,1]')" 2
    config '.*twice' 's/"n_head": 4/"n_head": 4, "n_head": 4/'
    adapter '.*twice' 's/"r": 2/"r": 2, "r": 2/'
    tokenizer 'same id' "$(bpe '"a":0,"b":0' '')"
    tokenizer 'same text' "$(bpe '"a":0,"a":1' '')"
    lines ':1.*twice' '{"text":"a","text":"b"}\n'
    rows ':1: the table has two columns' 'label\ttext\tlabel\n1\ta\t1\n'
    index 'twice' '{"weight_map":{},"weight_map":{}}'
    { head_of 0 2 && text64 a && le 4 4 1 && text64 a && le 4 4 1; } >"$work/f.gguf" && gguf '.*twice'
    printf '[UNK]\n[CLS]\n[SEP]\na\na\n' >"$work/t/vocab.txt"
    rm -f "$work/t/tokenizer.json"
    refused 'vocab.txt' tokenize --tokenizer "$work/t" --data "$work/text" --output "$work/x"
    tagged '.*twice' jsonl '{"tokens": ["a"], "tokens": ["b"], "ner_tags": [0]}\n'
    asked '.*twice' jsonl '{"question": "q", "question": "r", "context": "a", "answers": []}\n'
}
class_12_ranges() {
    weights '' "$(one U8 '[100]' '[0,100]')" 4
    weights '' '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}' 3
    { head_of 1 0 && text64 t && le 4 1 && le 8 4 && le 4 0 && le 8 4096 && zeros 64; } >"$work/f.gguf" && gguf ''
}
class_13_sizes() {
    size=$(stat -c %s "$work/good/model.safetensors")
    head -c $((size - 4)) "$work/good/model.safetensors" >"$work/m/model.safetensors"
    refused 'm/model.safetensors' eval --model "$work/m" "${on_text[@]}"
    rm "$work/m/model.safetensors"
    { le 4 20240520 1 100 && zeros 1012 && zeros 198; } >"$work/ids.bin"
    token_file '.*size differs.*found 1222, expected 1224'
    zeros 199 >"$work/ids.bin"
    refused 'ids.bin: .*odd number' train --model tiny --output-dir "$work/x" --data "$work/ids.bin" --max-seq-length 8
    run export --model "$work/good" --format gguf --to "$work/whole.gguf"
    head -c $(($(stat -c %s "$work/whole.gguf") - 32)) "$work/whole.gguf" >"$work/f.gguf" && gguf ''
    run export --model "$work/good" --format llmc --to "$work/whole.bin"
    head -c $(($(stat -c %s "$work/whole.bin") - 4)) "$work/whole.bin" >"$work/f.bin"
    refused 'f.bin: ' import --from "$work/f.bin" --to "$work/x"
}
class_14_kinds() {
    weights '' "$(one U8 '"4"' '[0,4]')" 4
    weights '' '{"a":7}' 4
    config 'n_layer: this value is not supported: found "2", expected a whole' 's/"n_layer": 2/"n_layer": "2"/'
    config 'n_layer: this value is not supported: found a list' 's/"n_layer": 2/"n_layer": [2]/'
    adapter 'r: ' 's/"r": 2/"r": "2"/'
    adapter 'target_modules: ' 's/"target_modules": \[[^]]*\]/"target_modules": {"a": 1}/'
    tokenizer 'must be a whole number' "$(bpe '"a":"0"' '')"
    lines ':1' '{"text":5}\n'
    index 'without a path' '{"weight_map":{"a":5}}'
    { head_of 0 1 && text64 general.architecture && le 4 4 7; } >"$work/f.gguf" && gguf ''
    tagged ':1.*a word is not a string' jsonl '{"tokens": ["a", ["b"]], "ner_tags": [0, 0]}\n'
    tagged ':1: the label is not a whole number: found "0.5"' jsonl '{"tokens": ["a"], "ner_tags": [0.5]}\n'
    asked ':1.*answers are an object or a list' jsonl "$(question 7)"
    asked '.*the array holds something else than objects' json '[[]]'
}
class_15_nesting() {
    deep=$(printf '[%.0s' {1..3000})
    weights '' "{\"a\":$deep" 0
    config '' "s/^{/{\"a\": $(printf '[%.0s' {1..300}),/"
    tokenizer '' "{\"model\":$deep"
    lines ':1' "{\"text\":\"a\",\"b\":$deep\\n"
    index '' "{\"metadata\":$deep"
    { head_of 0 1 && text64 a && le 4 9 9 && le 8 1 && le 4 9 && le 8 1; } >"$work/f.gguf" && gguf ''
    { head_of 0 1 && text64 a && le 4 9 99 && le 8 1000000; } >"$work/f.gguf" && gguf ''
    tagged '.*nested deeper' jsonl "{\"tokens\": [\"a\"], \"ner_tags\": [0], \"x\": $deep\\n"
    asked '.*nested deeper' json "{\"data\": [{\"paragraphs\": [{\"context\": \"a\", \"qas\": $deep"
}
class_16_cuts() {
    for file in config.json model.safetensors; do
        cp "$work/good/config.json" "$work/good/model.safetensors" "$work/m"
        for part in 0 1 5 9; do
            head -c $(($(stat -c %s "$work/good/$file") * part / 10)) "$work/good/$file" >"$work/m/$file"
            refused "m/$file" eval --model "$work/m" "${on_text[@]}"
        done
    done
    cp "$work/good/config.json" "$work/m"
    rm "$work/m/model.safetensors"
    for file in adapter_config.json adapter_model.safetensors; do
        rm -rf "$work/a"
        cp -r "$work/lora" "$work/a"
        for part in 0 3 9; do
            head -c $(($(stat -c %s "$work/lora/$file") * part / 10)) "$work/lora/$file" >"$work/a/$file"
            refused "a/$file" eval --model "$work/good" --adapter "$work/a" "${on_text[@]}"
        done
    done
    tokenizer '' '{"model":{"type":"BPE","vocab":{"a":'
    tokenizer '' ''
    index '' '{"weight_map":{"a":"b"'
    for bytes in 0 3 4 20 24; do
        head_of 1 1 | head -c $bytes >"$work/f.gguf" && gguf ''
    done
    for part in 1 4 7 9; do
        asked '' json "$(head -c $((2600 * part / 10)) tests/golden/answers/squad.json | sed 's/[%\\]//g')"
        tagged '' json "[$(head -c $((500 * part / 10)) tests/golden/tagged/rows.jsonl | sed 's/$/,/; s/[%\\]//g')"
    done
}
class_17_indices() {
    for ((i = 0; i < 70; i++)); do le 2 300; done >"$work/ids.bin"
    token_file "a token id is not below the model's vocabulary: found 300"
    refused "ids.bin: a token id is not below" eval --model tiny --data "$work/ids.bin" --max-seq-length 8
    refused 'not below the model.s vocabulary: found 256' generate --model tiny --prompt-ids 1,256
    refused 'not below the model.s vocabulary: found -1' generate --model tiny --prompt-ids 1,-1
    rows ':2: the label is no class of the model: found 2, expected at most 1' '1\tgood\n2\tbad\n'
    # A tokenizer whose vocabulary is larger than the model's.
    mkdir "$work/large"
    {
        printf '{"model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","vocab":{"<unk>":0'
        for ((i = 0; i < 256; i++)); do printf ',"<0x%02X>":%d' $i $((i + 1)); done
        printf '},"merges":[]}}'
    } >"$work/large/tokenizer.json"
    refused 'vocabulary.*found 257, expected at most 256' train --model tiny --tokenizer "$work/large" \
        --output-dir "$work/x" "${on_text[@]}"
    tagged ':2: the label is no class of the model: found 4294967296' jsonl '{"tokens": ["a"], "ner_tags": [1]}\n{"tokens": ["a"], "ner_tags": [4294967296]}\n'
    asked ':1.*answer_start is no whole number' jsonl "$(question '{"text": "a", "answer_start": 18446744073709551616}')"
}
class_18_change() {
    for ((i = 0; i < 2000; i++)); do printf '\1\0\2\0\3\0\4\0\5\0\6\0\7\0\10\0'; done >"$work/moving.bin"
    "$program" train --model tiny --data "$work/moving.bin" --max-seq-length 8 --max-steps 1000000 --threads 1 \
        --output-dir "$work/moving" --json --logging-steps 1 >"$work/.out" 2>"$work/.err" &
    pid=$!
    wait_for 120 "grep -q '\"step\": 3' $work/.out" $pid
    : >"$work/moving.bin"
    wait $pid
    code=$?
    [[ ($code -eq 4 || $code -eq 6) ]] && grep -q 'moving.bin' "$work/.err"
    check $? "a file cut while it is read is refused, no signal (exit $code)" "$(tail -3 "$work/.err")"
}
class_19_configuration() {
    config 'n_head: the heads do not divide the width' 's/"n_head": 4/"n_head": 5/'
    config 'attn_pdrop: this value is not supported: found 1.5, expected a number from 0 to below 1' 's/"attn_pdrop": [0-9.]*/"attn_pdrop": 1.5/'
    config 'layer_norm_epsilon: ' 's/"layer_norm_epsilon": [0-9.e-]*/"layer_norm_epsilon": -1/'
    config '' 's/"layer_norm_epsilon": [0-9.e-]*/"layer_norm_epsilon": NaN/'
    config '' 's/"layer_norm_epsilon": [0-9.e-]*/"layer_norm_epsilon": 1e999/'
    config 'num_key_value_heads: ' 's/"num_key_value_heads": [0-9]*/"num_key_value_heads": 3/' tiny-llama
    config 'head_dim: ' 's/^{/{ "head_dim": 7,/' tiny-llama
    config 'rope_theta: ' 's/"rope_theta": [0-9.]*/"rope_theta": -1/' tiny-llama
    config 'rope_scaling.rope_type:.*found "spiral"' 's/"rope_scaling": null/"rope_scaling": {"rope_type": "spiral", "factor": 2}/' tiny-llama
    config 'num_attention_heads: ' 's/"num_attention_heads": [0-9]*/"num_attention_heads": 7/' tiny-bert
}
class_20_payload() {
    cp "$work/good/model.safetensors" "$work/m"
    size=$(stat -c %s "$work/good/model.safetensors")
    for value in '\0\0\300\177' '\0\0\200\177' '\0\0\200\377'; do
        printf "$value" | dd of="$work/whole.bin" bs=1 seek=4000 conv=notrunc status=none
        run import --from "$work/whole.bin" --to "$work/nan"
        [[ $code -eq 4 ]] || expect 4 'a weight is infinite or not a number' eval --model "$work/nan" "${on_text[@]}"
        rm -rf "$work/nan"
    done
    printf '\0\0\300\177' | dd of="$work/m/model.safetensors" bs=1 seek=$((size - 4)) conv=notrunc status=none
    refused 'm/model.safetensors: .*a weight is infinite or not a number' eval --model "$work/m" "${on_text[@]}"
    rm "$work/m/model.safetensors"
    # Finite, but so large that what is computed is not.
    mkdir "$work/huge"
    cp "$work/good/config.json" "$work/huge"
    LC_ALL=C head -c $((size - 65536)) "$work/good/model.safetensors" >"$work/huge/model.safetensors"
    for ((i = 0; i < 16384; i++)); do printf '\0\0\177\177'; done >>"$work/huge/model.safetensors"
    expect 5 'huge: the loss is not finite' eval --model "$work/huge" "${on_text[@]}" --json
    expect 5 'huge: the logits are not finite' generate --model "$work/huge" --prompt-ids 1,2 --output-ids
    cp -r "$work/good" "$work/damaged"
    printf '\377' | dd of="$work/damaged/checkpoint-2/state.safetensors" bs=1 conv=notrunc status=none \
        seek=$(($(stat -c %s "$work/damaged/checkpoint-2/state.safetensors") - 1))
    refused 'digest' verify "$work/damaged"
    expect 2 '--loss-scale: ' train --model tiny --fp16 --loss-scale 0 --output-dir "$work/x" "${on_text[@]}"
    expect 2 '--adam-epsilon: ' train --model tiny --adam-epsilon nan --output-dir "$work/x" "${on_text[@]}"
}

for class in $(declare -F | grep -oE 'class_[0-9]+_[a-z]+' | grep -v class_08); do
    "$class"
done
class_08_statuses
finish
