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

# A list of ends: the tokenizer's own is eos, the other one eot (llama.cpp's converter).
sed 's/"eos_token_id": 802/"eos_token_id": [800, 802]/' "$work/base/config.json" >"$work/dir/config.json"
echo '{"eos_token": "<|im_end|>"}' >"$work/dir/tokenizer_config.json"
run export --model "$work/dir" --to "$work/list.gguf"
check $code "a list of ends" "$err"
# key, type 4 (uint32), value
id_of() { od -An -v -tu1 <(grep -aobF "$1" "$work/list.gguf" | head -1 | cut -d: -f1 | { read -r at && tail -c +$((at + 1 + ${#1} + 4)) "$work/list.gguf" | head -c 2; }) | awk '{ print $1 + 256 * $2 }'; }
[[ $(id_of tokenizer.ggml.eos_token_id) == 802 && $(id_of tokenizer.ggml.eot_token_id) == 800 ]]
check $? "eos and eot of the file: $(id_of tokenizer.ggml.eos_token_id) $(id_of tokenizer.ggml.eot_token_id)"
finish
