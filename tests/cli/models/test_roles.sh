#!/bin/bash
# SPDX-License-Identifier: MIT
# Roles of tokens (bos, eos, ..) and chat templates are those that the files say, the same from a directory, a GGUF
# file and an import of it, and never guessed from names while a file says them.
. "$(dirname "$0")/../lib.sh"

# A ChatML model: eos is <|im_end|> by config.json; <|endoftext|> is there too and ends nothing.
mkdir "$work/base"
cp tests/golden/tokenizers/qwen2/tokenizer.json "$work/base"
sed "s/\"max_position_embeddings\": 32/\"max_position_embeddings\": 96/" tests/golden/readback/qwen2.json >"$work/base/config.json"
for i in 1 2 3 4; do echo "{\"prompt\": \"the number $i\", \"completion\": \" of it\"}"; done >"$work/rows.jsonl"
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' >"$work/chat.jsonl"
run train --model "$work/base" --data "$work/rows.jsonl" --max-seq-length 16 --max-steps 0 --save-dtype fp32 --quiet \
    --output-dir "$work/dir"
check $code "a model" "$err"
template="{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
printf '%s' "$template" >"$work/dir/chat_template.jinja"
run export --model "$work/dir" --to "$work/m.gguf"
check $code "its file" "$err"
run import --from "$work/m.gguf" --to "$work/in"
check $code "the directory of the file" "$err"

loss() { run eval --model "$1" --data "$2" --max-seq-length 64 --json && sed -nE 's/.*"loss": ([0-9.]+).*/\1/p' <<<"$out"; }
for data in rows chat; do
    first=$(loss "$work/dir" "$work/$data.jsonl")
    [[ -n $first ]]
    check $? "a loss of $data" "$err"
    for form in m.gguf in; do
        other=$(loss "$work/$form" "$work/$data.jsonl")
        [[ $first == "$other" ]]
        check $? "$data: the loss of $form is the directory's: $first, $other" "$err"
    done
done
grep -q '"eos_token": "<|im_end|>"' "$work/in/tokenizer_config.json"
check $? "import writes the roles" "$(cat "$work/in/tokenizer_config.json")"
grep -q 'im_start' "$work/in/tokenizer_config.json"
check $? "import writes the template"

# The eos that config.json says is what completions end with, not the usual name.
sed 's/"eos_token_id": 802/"eos_token_id": 800/' "$work/dir/config.json" >"$work/config"
mkdir "$work/other"
cp "$work"/dir/* "$work/other" 2>/dev/null
cp "$work/config" "$work/other/config.json"
[[ $(loss "$work/other" "$work/rows.jsonl") != "$(loss "$work/dir" "$work/rows.jsonl")" ]]
check $? "another eos of the configuration is another target"

# The order of docs/how-to/chat.md: each file goes before those behind it, and the tokenizer's own eos is taken where the list has it.
ends=$(loss "$work/dir" "$work/rows.jsonl") text=$(loss "$work/other" "$work/rows.jsonl")
echo '{"text": "a text"}' >"$work/texts.jsonl"
said() { # WANTED GENERATION CONFIG TOKENIZER MAP: what files say (-: nothing), and which loss that is
    rm -rf "$work/said" && cp -r "$work/dir" "$work/said"
    sed -i "s/\"eos_token_id\": 802/\"eos_token_id\": ${3/-/null}/" "$work/said/config.json"
    [[ $2 == - ]] || echo "{\"eos_token_id\": $2}" >"$work/said/generation_config.json"
    [[ $4 == - ]] || echo "{\"eos_token\": \"$4\"}" >"$work/said/tokenizer_config.json"
    [[ $5 == - ]] || echo "{\"eos_token\": \"$5\"}" >"$work/said/special_tokens_map.json"
    [[ $(loss "$work/said" "$work/rows.jsonl") == "$1" ]]
    check $? "the end of completions where files say $2 $3 $4 $5" "$err"
    for option in --model --tokenizer; do # and so are documents of a token file, whose tokens have 2 bytes
        run tokenize "$option" "$work/said" --data "$work/texts.jsonl" --output "$work/said.bin"
        [[ $(tail -c 2 "$work/said.bin" | od -An -tu2 | tr -d ' ') == "$([[ $1 == "$ends" ]] && echo 802 || echo 800)" ]]
        check $? "and of documents by $option" "$err$(tail -c 2 "$work/said.bin" | od -An -tu2)"
    done
    for form in said.gguf said-in; do
        [[ $form == said-in ]] && run import --from "$work/said.gguf" --to "$work/$form" || run export --model "$work/said" --to "$work/$form"
        [[ $(loss "$work/$form" "$work/rows.jsonl") == "$1" ]]
        check $? "and of $form" "$err"
    done
    rm -rf "$work/said-in"
}
said "$ends" [802] 800 - -
said "$ends" [802,800] 800 '<|im_end|>' -
said "$text" [802,800] 802 '<|endoftext|>' -
said "$text" - [802,800] '<|endoftext|>' '<|im_end|>'
said "$ends" - 802 '<|endoftext|>' -
said "$ends" - 802 - '<|endoftext|>'
said "$ends" - - '<|im_end|>' '<|endoftext|>'
said "$ends" - - - '<|im_end|>'
said "$text" - - - -

# Another tokenizer than the model's brings its own list of ends, by generation_config.json, else by config.json, which the
# trained model has: `generate` needs no word of the other directory.
for file in generation_config config; do
    rm -rf "$work/brings" "$work/brought" && mkdir "$work/brings" && cp "$work/dir/tokenizer.json" "$work/brings"
    echo '{"eos_token_id": [802, 801], "vocab_size": 3}' >"$work/brings/$file.json"
    run train --model "$work/other" --tokenizer "$work/brings" --data "$work/rows.jsonl" --max-seq-length 16 --max-steps 0 --quiet \
        --output-dir "$work/brought"
    grep -q '"eos_token_id": \[802, 801\]' "$work/brought/generation_config.json"
    check $? "ends of --tokenizer's $file are the trained model's" "$err"
    [[ $(loss "$work/brought" "$work/rows.jsonl") == "$ends" ]]
    check $? "and its losses are those of these ends" "$err"
done

# Gemma's <bos>: the post-processor says it, or special_tokens_map.json, or tokenizer_config.json; the same ids.
mkdir "$work/bare"
sed 's/<|begin_of_text|>/<bos>/g; s/<|end_of_text|>/<eos>/g' tests/golden/tokenizers/llama3/tokenizer.json >"$work/bare/tokenizer.json"
cp tests/golden/readback/llama3.json "$work/bare/config.json"
run train --model "$work/bare" --data "$work/rows.jsonl" --max-seq-length 16 --max-steps 0 --save-dtype fp32 --quiet \
    --output-dir "$work/plain"
check $code "a model of Gemma's tokenizer" "$err"
rm -f "$work/plain/tokenizer_config.json" "$work/plain/special_tokens_map.json"
cp -r "$work/plain" "$work/map" && echo '{"bos_token": "<bos>", "eos_token": {"content": "<eos>"}}' >"$work/map/special_tokens_map.json"
cp -r "$work/plain" "$work/config-says" && echo '{"bos_token": "<bos>", "eos_token": "<eos>"}' >"$work/config-says/tokenizer_config.json"
right=$(loss "$work/config-says" "$work/rows.jsonl")
for form in plain map; do
    [[ -n $right && $(loss "$work/$form" "$work/rows.jsonl") == "$right" ]]
    check $? "roles of $form are those of tokenizer_config.json: $right" "$err"
done

# What adapters were trained with goes before the base's template, in generate, merged exports and GGUF.
run train --model "$work/dir" --data "$work/chat.jsonl" --chat-template zephyr --lora-r 2 --max-seq-length 64 --max-steps 1 --quiet \
    --output-dir "$work/sft"
check $code "adapters with a template of their own" "$err"
run export --model "$work/dir" --adapter "$work/sft" --merge --to "$work/merged"
check $code "merged" "$err"
cmp -s "$work/sft/chat_template.jinja" "$work/merged/chat_template.jinja"
check $? "the merged model has the adapters' template"
run export --model "$work/dir" --adapter "$work/sft" --merge --to "$work/merged.gguf"
check $code "merged into a file" "$err"
grep -qa 'tokenizer.chat_template' "$work/merged.gguf" && grep -qaF "$(head -c 40 "$work/sft/chat_template.jinja")" "$work/merged.gguf"
check $? "and so has its file"

# A base model whose eos is <|endoftext|> (800) learns ChatML: the end of a turn (802, <|im_end|>) is what the template puts
# behind an answer, and every form of the model says it and stops there.
mkdir "$work/raw"
cp "$work/base/tokenizer.json" "$work/raw"
sed 's/"eos_token_id": 802/"eos_token_id": 800/; s/: 96/: 128/' "$work/base/config.json" >"$work/raw/config.json"
for i in 1 2 3 4 5 6 7 8; do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"it is $i\"}]}"
done >"$work/turns.jsonl"
turns=(--data "$work/turns.jsonl" --max-seq-length 64 --save-dtype fp32 --quiet --chat-template chatml)
stops() { # MODEL OPTIONS..: an answer of the model ends at 802
    run generate --model "$@" --chat --prompt 'say 3' --max-new-tokens 40 --temperature 0 --json
    [[ $out == *'"finish_reason": "stop"'*', 802]}' ]]
    check $? "an answer of $* ends with its turn" "$out$err"
}
run train --model "$work/raw" "${turns[@]}" --max-steps 200 --learning-rate 3e-3 --output-dir "$work/talks"
check $code "a base model learns to answer" "$err"
grep -q '"eos_token_id": \[800, 802\]' "$work/talks/generation_config.json"
check $? "its list of ends has the turn's" "$(cat "$work/talks/generation_config.json")"
stops "$work/talks"
run export --model "$work/talks" --to "$work/talks.gguf"
run import --from "$work/talks.gguf" --to "$work/talks-in"
stops "$work/talks.gguf"
stops "$work/talks-in"
grep -q '"bos_token_id": 800' "$work/talks/generation_config.json"
check $? "a new list of ends has its neighbours" "$(cat "$work/talks/generation_config.json")"
# Answers of that text without the template: the list of the file decides alone.
run generate --model "$work/talks" --prompt '<|im_start|>user
say 3<|im_end|>
<|im_start|>assistant
' --max-new-tokens 40 --temperature 0 --json
[[ $out == *'"finish_reason": "stop"'*', 802]'* ]]
check $? "and so do texts" "$out$err"
# What stood in the file stays; a list that has the end is left alone; a model whose file is silent still stops.
echo '{"temperature": 0.25, "eos_token_id": 800, "top_k": [1]}' >"$work/raw/generation_config.json"
run train --model "$work/raw" "${turns[@]}" --max-steps 0 --output-dir "$work/kept"
tr -d ' \n' <"$work/kept/generation_config.json" | grep -qF '{"temperature":0.25,"eos_token_id":[800,802],"top_k":[1]}'
check $? "other members stay" "$(cat "$work/kept/generation_config.json")"
run train --model "$work/talks" "${turns[@]}" --max-steps 0 --output-dir "$work/kept" --overwrite-output-dir
cmp -s "$work/talks/generation_config.json" "$work/kept/generation_config.json"
check $? "a list that has it stays" "$(cat "$work/kept/generation_config.json")"
rm "$work/talks/generation_config.json"
stops "$work/talks"
# Adapters, and what is merged from them.
cp -r "$work/talks" "$work/still" && rm "$work/still/chat_template.jinja"
run train --model "$work/still" "${turns[@]}" --max-steps 2 --learning-rate 1e-4 --lora-r 2 --output-dir "$work/turned"
check $code "adapters learn to answer" "$err"
stops "$work/still" --adapter "$work/turned"
run export --model "$work/still" --adapter "$work/turned" --merge --to "$work/turned-in"
run export --model "$work/still" --adapter "$work/turned" --merge --to "$work/turned.gguf"
for form in turned-in turned.gguf; do
    stops "$work/$form"
done
# key, type 4 (uint32), value
id_at() { od -An -v -tu1 <(grep -aobF "$2" "$1" | head -1 | cut -d: -f1 | { read -r at && tail -c +$((at + 1 + ${#2} + 4)) "$1" | head -c 2; }) | awk '{ print $1 + 256 * $2 }'; }
for form in talks.gguf turned.gguf; do
    [[ $(id_at "$work/$form" tokenizer.ggml.eos_token_id) == 800 && $(id_at "$work/$form" tokenizer.ggml.eot_token_id) == 802 ]]
    check $? "eos and eot of $form" "$(id_at "$work/$form" tokenizer.ggml.eot_token_id)"
done
# A model over bytes has no such token: the text of the turn's end stops the answer, and is no part of it.
printf '%s' "{% for m in messages %}{{ m.role[:1] + ':' + m.content + '.\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}" >"$work/dots"
sed 's/it is \([0-9]\)/\1\1/' "$work/turns.jsonl" >"$work/digits.jsonl"
run train --model tiny --data "$work/digits.jsonl" --max-seq-length 24 --chat-template "$work/dots" --max-steps 150 --learning-rate 3e-3 \
    --quiet --output-dir "$work/dotted"
run generate --model "$work/dotted" --chat --prompt 'say 3' --max-new-tokens 12 --temperature 0 --json
[[ $out == *'"content": "'[!.]*'", "finish_reason": "stop"'* ]] && ! grep -q '"content": "[^"]*\.' <<<"$out"
check $? "bytes stop at the text of a turn's end" "$out$err"

# A list of ends: the tokenizer's own is eos, the other one eot (llama.cpp's converter).
sed 's/"eos_token_id": 802/"eos_token_id": [800, 802]/' "$work/base/config.json" >"$work/dir/config.json"
echo '{"eos_token": "<|im_end|>"}' >"$work/dir/tokenizer_config.json"
run export --model "$work/dir" --to "$work/list.gguf"
check $code "a list of ends" "$err"
id_of() { id_at "$work/list.gguf" "$1"; }
[[ $(id_of tokenizer.ggml.eos_token_id) == 802 && $(id_of tokenizer.ggml.eot_token_id) == 800 ]]
check $? "eos and eot of the file: $(id_of tokenizer.ggml.eos_token_id) $(id_of tokenizer.ggml.eot_token_id)"

# bos and pad that tokenizer_config.json alone says, or says otherwise than config.json: the file has them, as gguf-py's SpecialVocab
# reads them, and its conversations and those of its import are the directory's.
cp -r "$work/base" "$work/begins"
sed -i 's/"eos_token_id": 802/"eos_token_id": 802, "pad_token_id": 801/; s/"bos_token_id": [0-9a-z]*/"bos_token_id": null/' "$work/begins/config.json"
run train --model "$work/begins" --data "$work/rows.jsonl" --max-seq-length 16 --max-steps 0 --save-dtype fp32 --quiet --output-dir "$work/bos"
check $code "a model whose config.json has no bos" "$err"
echo '{"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "pad_token": {"content": "<|im_end|>"}}' >"$work/bos/tokenizer_config.json"
printf '%s' "{{ bos_token }}$template" >"$work/bos/chat_template.jinja"
run export --model "$work/bos" --to "$work/bos.gguf"
run import --from "$work/bos.gguf" --to "$work/bos-in"
[[ $(id_at "$work/bos.gguf" tokenizer.ggml.bos_token_id) == 800 && $(id_at "$work/bos.gguf" tokenizer.ggml.padding_token_id) == 802 ]]
check $? "bos and pad of the tokenizer: $(id_at "$work/bos.gguf" tokenizer.ggml.bos_token_id) $(id_at "$work/bos.gguf" tokenizer.ggml.padding_token_id)"
right=$(loss "$work/bos" "$work/chat.jsonl")
for form in bos.gguf bos-in; do
    [[ -n $right && $(loss "$work/$form" "$work/chat.jsonl") == "$right" ]]
    check $? "a conversation begins alike in $form: $right" "$(loss "$work/$form" "$work/chat.jsonl")$err"
done

# Readers put bos before texts of tekken's split unless the file denies it (llama-vocab.cpp).
mkdir "$work/split"
cp tests/golden/tokenizers/tekken/tokenizer.json "$work/split"
sed 's/"vocab_size": [0-9]*/"vocab_size": 900/' tests/golden/readback/llama3.json >"$work/split/config.json"
seq 50 >"$work/numbers"
run train --model "$work/split" --data "$work/numbers" --data-format text --max-seq-length 4 --per-device-train-batch-size 1 --max-steps 0 --quiet --output-dir "$work/tekken"
check $code "a model with tekken's split" "$err"
run export --model "$work/tekken" --to "$work/tekken.gguf"
[[ $(grep -ac 'tokenizer.ggml.add_bos_token' "$work/tekken.gguf") -gt 0 ]]
check $? "its file says that no bos is put there" "$err"

# Llama 2's tokenizer puts a space before the text behind each special token: the tokens are those of the tokenizers library
# (41, of which the first is no target).
mkdir "$work/prefixed"
cp tests/golden/tokenizers/llama2/tokenizer.json "$work/prefixed"
sed 's/"vocab_size": [0-9]*/"vocab_size": 1003/; s/"max_position_embeddings": [0-9]*/"max_position_embeddings": 128/' tests/golden/readback/llama2.json >"$work/prefixed/config.json"
printf '%s' "{% for m in messages %}{{ '<s>[INST] ' + m.content + ' [/INST]' if m.role == 'user' else ' ' + m.content + '</s>\n' }}{% endfor %}" \
    >"$work/prefixed/chat_template.jinja"
echo '{"messages": [{"role": "user", "content": "say 3"}, {"role": "assistant", "content": "it is 3"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]}' >"$work/inst.jsonl"
run train --model "$work/prefixed" --data "$work/inst.jsonl" --max-seq-length 64 --max-steps 1 --quiet --output-dir "$work/inst"
check $code "a conversation with special tokens inside" "$err"
run eval --model "$work/inst" --data "$work/inst.jsonl" --loss-on all --max-seq-length 64 --json
[[ $(json tokens) == 40 ]]
check $? "its tokens are those of the tokenizers library" "$out$err"
run eval --model "$work/inst" --data "$work/inst.jsonl" --max-seq-length 64 --json
[[ $(json tokens) == 8 ]]
check $? "of which the answers and their ends are learned" "$out$err"
finish
