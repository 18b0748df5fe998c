#!/bin/bash
# SPDX-License-Identifier: MIT
# Encoders in GGUF, which gguf's own table of names and llama.cpp have read (tools/golden/formats/vectors_gguf.py): the file as a
# model, and the directory that is imported from it, give the vectors of the model; tokenizers; what is refused.
# verifies formats-8.e397
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 8; i++)); do
    echo "{\"anchor\": \"question $i of the licence\", \"positive\": \"answer $((i * i)) of it\"}" >>"$work/pairs.jsonl"
    echo "{\"text\": \"this is number $i, of $((7 * i)) things\"}" >>"$work/texts.jsonl"
done

# vectors MODEL FILE
vectors() {
    run embed --model "$1" --data "$work/texts.jsonl" --max-seq-length 24 --output "$2"
    [[ $code -eq 0 ]] || echo "$err"
}

# round NAME MODEL OPTIONS..: a trained model, its file and what is imported from the file.
round() {
    local name=$1 model=$2
    shift 2
    run train --model "$model" --task embedding --data "$work/pairs.jsonl" --max-seq-length 24 --max-steps 2 \
        --per-device-train-batch-size 4 --output-dir "$work/$name" "$@"
    check $code "$name is trained" "$err"
    run export --model "$work/$name" --to "$work/$name.gguf" --dtype fp32
    check $code "$name is exported" "$err"
    said=$err
    run import --from "$work/$name.gguf" --to "$work/$name-back"
    check $code "$name is imported" "$err"
    vectors "$work/$name" "$work/a.npy"
    vectors "$work/$name.gguf" "$work/b.npy"
    cmp -s "$work/a.npy" "$work/b.npy"
    check $? "$name: the vectors of the file are the model's" "$err"
    vectors "$work/$name-back" "$work/b.npy"
    cmp -s "$work/a.npy" "$work/b.npy"
    check $? "$name: and of what is imported from it" "$err"
}

round bert tiny-bert
round roberta tiny-roberta --pooling cls
round distilbert tiny-distilbert --pooling lasttoken
round modernbert tiny-modernbert
# What a file holds beside the model is not written elsewhere, and is named. The script puts one tensor more behind the others.
more() { # FROM TO NAME
    python3 - "$@" <<'EOF'
import struct, sys
data, name = open(sys.argv[1], "rb").read(), sys.argv[3].encode()
tensors, keys = struct.unpack_from("<QQ", data, 8)
sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
at = 24
def text(at):
    return at + 8 + struct.unpack_from("<Q", data, at)[0]
for i in range(keys):
    at = text(at)
    kind, at = struct.unpack_from("<I", data, at)[0], at + 4
    count = 1
    if kind == 9:
        kind, count = struct.unpack_from("<IQ", data, at)
        at += 12
    for k in range(count):
        at = text(at) if kind == 8 else at + sizes[kind]
last = 0
for i in range(tensors):
    at = text(at)
    rank = struct.unpack_from("<I", data, at)[0]
    at += 4 + 8 * rank + 12
blob = data[-(-at // 32) * 32:]
blob += bytes(-len(blob) % 32)
info = struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 8, 0, len(blob))
head = struct.pack("<4sIQQ", b"GGUF", 3, tensors + 1, keys) + data[24:at] + info
open(sys.argv[2], "wb").write(head + bytes(-len(head) % 32) + blob + bytes(32))
EOF
}
more "$work/bert.gguf" "$work/one.gguf" cls.output.bias
more "$work/one.gguf" "$work/two.gguf" cls.dense.bias
expect 0 'two.gguf: not written, as the model has no use for it: cls.dense.bias, cls.output.bias$' import --from "$work/two.gguf" --to "$work/two"
expect 0 'one.gguf: not written, as the model has no use for it: cls.output.bias$' export --model "$work/one.gguf" --to "$work/one"
vectors "$work/bert" "$work/a.npy"
vectors "$work/two" "$work/b.npy"
cmp -s "$work/a.npy" "$work/b.npy"
check $? "the rest is the model"
# Every second layer looks at all; all of them; and others than every so many, which readers have no word for.
modern='{"model_type": "modernbert", "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 40, "local_attention": 6, "pad_token_id": 0, "layer_types": '
mkdir "$work"/{second,all,other}
echo "$modern"'["full_attention", "sliding_attention", "full_attention"]}' >"$work/second/config.json"
echo "$modern"'["full_attention", "full_attention", "full_attention"]}' >"$work/all/config.json"
echo "$modern"'["full_attention", "full_attention", "sliding_attention"]}' >"$work/other/config.json"
round modernbert-second "$work/second" --pooling cls
grep -aq 'modern-bert.attention.sliding_window' "$work/modernbert-second.gguf"
check $? "a window is in the file"
round modernbert-all "$work/all" --pooling lasttoken
grep -aq 'modern-bert.attention.sliding_window' "$work/modernbert-all.gguf"
check $((1 - $?)) "none is where no layer looks through it"
run train --model "$work/other" --task embedding --data "$work/pairs.jsonl" --max-seq-length 24 --max-steps 1 \
    --per-device-train-batch-size 4 --output-dir "$work/modernbert-other"
expect 2 'layer_types: readers know one global layer in every N' export --model "$work/modernbert-other" --to "$work/x.gguf"

# WordPiece: tokens that begin with U+2581, by which the file marks words, are refused by name.
mkdir "$work/words" "$work/marked"
cp tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/marked"
sed 's/\xe2\x96\x81/zq/g' "$work/marked/tokenizer.json" >"$work/words/tokenizer.json"
for d in words marked; do
    echo '{"model_type": "bert", "vocab_size": 1600, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 40}' >"$work/$d/config.json"
done
round worded "$work/words"
! grep -q 'has no tokenizer' <<<"$said"
check $? "the file has the tokenizer" "$said"
round unworded "$work/marked" >/dev/null
grep -q 'a piece of words begins with U+2581' <<<"$said"
check $? "what cannot be told apart is left out, and told" "$said"
sed 's/"lowercase":true/"lowercase":false/' "$work/words/tokenizer.json" >"$work/worded/tokenizer.json"
expect 0 'readers of WordPiece lower-case texts' export --model "$work/worded" --to "$work/z.gguf"
sed 's/"post_processor":{.*},"decoder"/"post_processor":null,"decoder"/' "$work/words/tokenizer.json" \
    >"$work/worded/tokenizer.json"
expect 0 'readers of WordPiece put' export --model "$work/worded" --to "$work/z.gguf"

# Byte-level BPE with a token before and one behind a text, as RoBERTa's.
mkdir "$work/bytes"
sed 's/"post_processor":null/"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|im_start|>",'`
    `'"type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<|im_end|>","type_id":0}}],"pair":'`
    `'[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":0}}],"special_tokens":{"<|im_start|>":'`
    `'{"id":"<|im_start|>","ids":[801],"tokens":["<|im_start|>"]},"<|im_end|>":{"id":"<|im_end|>","ids":[802],"tokens":'`
    `'["<|im_end|>"]}}}/' tests/golden/tokenizers/qwen2/tokenizer.json >"$work/bytes/tokenizer.json"
echo '{"model_type": "roberta", "vocab_size": 810, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 40, "type_vocab_size": 1, "bos_token_id": 801, "eos_token_id": 802}' \
    >"$work/bytes/config.json"
round bytes-out "$work/bytes"
grep -q 'has no tokenizer' <<<"$said"
check $((1 - $?)) "the file has it too" "$said"
grep -q '"pair": \[{"SpecialToken": {"id": "<|im_start|>".*"type_id": 0}}, {"SpecialToken": {"id": "<|im_end|>"' \
    "$work/bytes-out-back/tokenizer.json"
check $? "and what stands around a text" "$(grep post_processor "$work/bytes-out-back/tokenizer.json")"

# Unigram, as XLM-R has it: tokenizer.json, and fairseq's pieces.
for form in unigram xlmr_own; do
    mkdir "$work/$form"
    cp tests/golden/tokenizers/$form/* "$work/$form"
    echo '{"model_type": "xlm-roberta", "vocab_size": 910, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2}' >"$work/$form/config.json"
    round "$form-out" "$work/$form"
    grep -q 'has no tokenizer' <<<"$said"
    check $((1 - $?)) "the file of $form has the tokenizer" "$said"
    grep -q '"type": "Unigram"' "$work/$form-out-back/tokenizer.json"
    check $? "and it comes back" "$err"
done

# Heads have no place in the file, nor has every way to pool.
run train --model tiny-bert --data "$work/texts.jsonl" --max-seq-length 24 --max-steps 1 --output-dir "$work/masked"
expect 2 'bert: GGUF has no place for .* head; what can be written is a model of vectors' \
    export --model "$work/masked" --to "$work/x.gguf"
echo '{"pooling_mode": "weightedmean"}' >"$work/bert/1_Pooling/config.json"
expect 2 'pooling_mode: readers know the mean, the first and the last token' export --model "$work/bert" --to "$work/x.gguf"
sed -i 's/"weightedmean"/"mean"/' "$work/bert/1_Pooling/config.json"
run train --model tiny-electra --task embedding --data "$work/pairs.jsonl" --max-seq-length 24 --max-steps 1 \
    --per-device-train-batch-size 4 --normalize true --output-dir "$work/electra"
expect 2 'GGUF files of this model type are not implemented' export --model "$work/electra" --to "$work/x.gguf"
[[ ! -e $work/x.gguf ]]
check $? "nothing is left of what is refused"
finish
