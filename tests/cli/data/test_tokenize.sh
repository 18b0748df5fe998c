#!/bin/bash
# SPDX-License-Identifier: MIT
# bedplate tokenize: token files in llm.c's format, the known answers of GPT-2 where its files are
# (BP_GPT2_DIR: vocab.json, merges.txt, tinyshakespeare.txt), and tokenizers that are refused.
. "$(dirname "$0")/../lib.sh"
small=tests/golden/tokenizers

# header FILE: magic, version and count; body FILE: its ids as one line.
header() { od -An -td4 -N12 "$1" | tr -s ' ' | sed 's/^ //'; }
body() { tail -c +1025 "$1" | od -An -tu2 -v | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'; }

printf 'the and The you' >"$work/a.txt"
for name in gpt2_small llama3 qwen2 llama2 metaspace bert_uncased bert_cased; do
    run tokenize --tokenizer $small/$name --data "$work/a.txt" --output "$work/a.bin" --json
    check $((code != 0)) "tokenize with $name" "$out$err"
    count=$(json tokens)
    [[ $(header "$work/a.bin") == "20240520 1 $count" &&
        $(stat -c %s "$work/a.bin") -eq $((1024 + 2 * count)) && ! -e $work/a.bin.ids ]]
    check $? "$name: header, count and size agree" "$(header "$work/a.bin"), $count"
done

# Documents: the end token behind each; a special token spelt out is that token; --model serves too.
printf '{"text": "you"}\n{"text": "you<|endoftext|>you"}\n' >"$work/b.jsonl"
cp -r $small/gpt2_small "$work/model"
run tokenize --model "$work/model" --data "$work/b.jsonl" --output "$work/b.bin"
check $((code != 0)) "tokenize JSON lines" "$out$err"
set -- $(body "$work/b.bin")
[[ $# -eq 6 && $2 -eq 900 && $4 -eq 900 && $6 -eq 900 && $1 == "$3" && $1 == "$5" ]]
check $? "each document ends with the end token" "$*"

# verifies face-28.6066
# What training reads is what tokenize writes.
head -c 20000 /usr/share/common-licenses/GPL-3 >"$work/c.txt"
run tokenize --tokenizer $small/llama3 --data "$work/c.txt" --output "$work/c.bin"
check $((code != 0)) "tokenize a licence" "$out$err"
cp "$work/c.bin" "$work/first.bin"
run tokenize --tokenizer $small/llama3 --data "$work/c.txt" --output "$work/c.bin"
cmp -s "$work/c.bin" "$work/first.bin"
check $? "a second run replaces the file by the same"

expect 2 '--tokenizer: the option is needed' tokenize --data "$work/a.txt" --output "$work/x"
expect 2 '--data: the option is needed' tokenize --tokenizer $small/qwen2 --output "$work/x"
expect 2 '--output: the option is needed' tokenize --tokenizer $small/qwen2 --data "$work/a.txt"
expect 4 'there is no such file' tokenize --tokenizer $small/qwen2 --data "$work/none" --output "$work/x"
expect 4 'holds no tokenizer' tokenize --tokenizer "$work" --data "$work/a.txt" --output "$work/x"
expect 4 'holds no text' tokenize --tokenizer $small/qwen2 --data "$work/a.bin" --output "$work/x"
expect 6 'no such file or directory' tokenize --tokenizer $small/qwen2 --data "$work/a.txt" \
    --output "$work/none/x"
: >"$work/empty.txt"
expect 4 'no document with a token' tokenize --tokenizer $small/qwen2 --data "$work/empty.txt" --output "$work/x"
printf '{"prompt": "a", "completion": "b"}\n' >"$work/p.jsonl"
expect 4 'prompts and completions' tokenize --tokenizer $small/gpt2_small --data "$work/p.jsonl" \
    --output "$work/x"

# What is not implemented is refused by name.
refused() {
    local pattern=$1 edit=$2
    mkdir -p "$work/bad"
    sed "$edit" $small/qwen2/tokenizer.json >"$work/bad/tokenizer.json"
    expect 4 "bad/tokenizer.json: $pattern" tokenize --tokenizer "$work/bad" --data "$work/a.txt" \
        --output "$work/x"
}
refused 'normalizer NFKC: this kind of part' 's/"type":"NFC"/"type":"NFKC"/'
refused 'pre_tokenizer Split\..*this pattern is not' 's/p{N}|/p{N}{1,4}|/'
refused 'model WordLevel: this kind of model' 's/"type":"BPE"/"type":"WordLevel"/'
refused 'model BPE.dropout: only null' 's/"dropout":null/"dropout":0.1/'
refused 'chat: this part of a tokenizer.json' 's/"truncation":null/"chat":1/'
refused 'merges: a merge names a token that the vocabulary lacks' 's/"merges":\["[^"]*"/"merges":["Ġ zz"/'
[[ ! -e $work/x && ! -e $work/x.ids ]]
check $? "nothing is left of a run that failed"

# Mistral's own tekken.json: the run's directory and what is exported from it have it too, and GGUF says what it lacks.
mkdir "$work/own"
cp tests/golden/tokenizers/tekken_own/tekken.json "$work/own"
echo '{"model_type": "mistral", "vocab_size": 825, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}' >"$work/own/config.json"
awk 'BEGIN { for (i = 0; i < 60; i++) print "the number", i, "of what is there: we have", 3 * i, "things." }' >"$work/own.txt"
run train --model "$work/own" --data "$work/own.txt" --max-seq-length 12 --max-steps 2 --quiet --output-dir "$work/owned"
check $code "trained by tekken.json" "$err"
run export --model "$work/owned" --to "$work/again"
cmp -s "$work/own/tekken.json" "$work/owned/tekken.json" && cmp -s "$work/own/tekken.json" "$work/again/tekken.json"
check $? "tekken.json goes along" "$err"
expect 0 '.' generate --model "$work/again" --prompt 'the number 7' --max-new-tokens 4
expect 0 'tekken.json is not written to GGUF' export --model "$work/again" --to "$work/own.gguf"
sed 's/"rank":300,/"rank":301,/' "$work/own/tekken.json" >"$work/again/tekken.json"
expect 4 'tekken.json: .*ranks from 0 on' generate --model "$work/again" --prompt x

# The same of tiktoken's tokenizer.model of Llama 3 and of XLM-R's sentencepiece.bpe.model.
mkdir "$work/ranks" "$work/fair"
cp tests/golden/tokenizers/llama3_own/tokenizer.model "$work/ranks"
tokens=$(wc -l <"$work/ranks/tokenizer.model")
sed 's/"mistral"/"llama"/; s/825/'$((tokens + 256))'/' "$work/own/config.json" >"$work/ranks/config.json"
run train --model "$work/ranks" --data "$work/own.txt" --max-seq-length 12 --max-steps 2 --quiet --output-dir "$work/ranked"
check $code "trained by tiktoken's tokenizer.model" "$err"
cmp -s "$work/ranks/tokenizer.model" "$work/ranked/tokenizer.model"
check $? "tokenizer.model goes along" "$err"
expect 0 '.' generate --model "$work/ranked" --prompt 'the number 7' --max-new-tokens 4
expect 0 "tiktoken's tokenizer.model is not written to GGUF" export --model "$work/ranked" --to "$work/own.gguf"
sed -i 's/"vocab_size": [0-9]*/"vocab_size": '$tokens'/' "$work/ranks/config.json"
expect 4 "vocab" train --model "$work/ranks" --data "$work/own.txt" --max-seq-length 12 --max-steps 2 --output-dir "$work/x"
cp tests/golden/tokenizers/xlmr_own/sentencepiece.bpe.model "$work/fair"
echo '{"model_type": "xlm-roberta", "vocab_size": 902, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": 34, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0,
    "eos_token_id": 2}' >"$work/fair/config.json"
run train --model "$work/fair" --task masked-lm --data "$work/own.txt" --max-seq-length 12 --max-steps 2 --quiet \
    --output-dir "$work/faired"
check $code "trained by sentencepiece.bpe.model" "$err"
cmp -s "$work/fair/sentencepiece.bpe.model" "$work/faired/sentencepiece.bpe.model"
check $? "sentencepiece.bpe.model goes along" "$err"

if [[ -z ${BP_GPT2_DIR:-} || ! -e $BP_GPT2_DIR/tinyshakespeare.txt ]]; then
    echo "skipped: BP_GPT2_DIR names no folder with GPT-2's files and tinyshakespeare.txt"
    finish
fi

# tokens TEXT TOKENS SHA256: of the ids alone (nanoGPT), or with the header if the digest says so.
tokens() {
    run tokenize --tokenizer "$BP_GPT2_DIR" --data "$1" --output "$work/t.bin" --json
    [[ $(json tokens) -eq $2 ]]
    check $? "$1: $2 tokens" "$out$err"
    [[ -z ${3:-} || $(tail -c +1025 "$work/t.bin" | sha256sum) == "$3 "* ]]
    check $? "$1: the published digest"
}
text=$BP_GPT2_DIR/tinyshakespeare.txt
tokens "$text" 338025
head -c 1003854 "$text" >"$work/train.txt"
tail -c +1003855 "$text" >"$work/val.txt"
tokens "$work/train.txt" 301966 502a2bdc8210d1ac5d5674867cb74467dd31db575d25cf6dbb08c8bdbea8680f
tokens "$work/val.txt" 36059 68a53422394c26a655ebe641f5c6f49888e8f4e45fe5d6f02abda63ba3ebd65b
# llm.c puts the end token before each section; its first 32,768 tokens are the validation set.
{ printf '<|endoftext|>'; perl -0pe 's/\n\n/\n\n<|endoftext|>/g' "$text"; } >"$work/sections.txt"
tokens "$work/sections.txt" $((32768 + 305260))
# of FIRST COUNT: the file that llm.c makes of those tokens
part() {
    printf '\x88\xd8\x34\x01\x01\x00\x00\x00'
    for shift in 0 8 16 24; do printf "\\x$(printf %02x $(($2 >> shift & 255)))"; done
    head -c 1012 /dev/zero
    tail -c +$((1025 + 2 * $1)) "$work/t.bin" | head -c $((2 * $2))
}
[[ $(part 0 32768 | sha256sum) == fe99db720dc7c83e694806d4e047a952909411da1daccde4ccc2e55f40882a62* ]]
check $? "llm.c's tiny_shakespeare_val.bin"
[[ $(part 32768 305260 | sha256sum) == 8a70606be574040c26d225694f5f9759973b419852d22f7fe5c118e1b359dcc8* ]]
check $? "llm.c's tiny_shakespeare_train.bin"
finish
