#!/bin/bash
# SPDX-License-Identifier: MIT
# Families x forms of a model: the directory, its GGUF file, what is imported from that, an exported directory, adapters beside
# the model, and both forms of what is merged from them. All give the same ids of a text, of a prompt and of a conversation, the
# same ends and the same template.
. "$(dirname "$0")/../lib.sh"

printf '%s\n' 'the number 7 of it' 'say it, and "more"' >"$work/text"
for i in 1 2 3 4; do echo "{\"prompt\": \"the number $i\", \"completion\": \" of it\"}"; done >"$work/rows.jsonl"
echo '{"messages": [{"role": "user", "content": "say 3"}, {"role": "assistant", "content": "it is 3"}]}' >"$work/chat.jsonl"
seq 300 >"$work/long"

# tokens FORM: the ids of the text.
tokens() {
    run tokenize --model "$1" --data "$work/text" --output "$work/ids.bin"
    [[ $code -eq 0 ]] && md5sum <"$work/ids.bin"
}
losses() { # FORM OPTIONS..: losses of completions and of a conversation, which have other ids where roles or templates differ
    for data in rows chat; do
        run eval --model "$@" --data "$work/$data.jsonl" --max-seq-length 120 --json
        printf '%.4f ' "$(json loss)"
    done
}
# A greedy answer and a greedy text: the tokens of their prompts, what was written, and whether an end was reached.
answers() {
    run generate --model "$@" --chat --prompt 'say 3' --max-new-tokens 24 --temperature 0 --json
    grep -oE '"finish_reason": "[a-z]*"|"prompt_tokens": [0-9]+|"ids": .*' <<<"$out" | paste -sd' ' -
    run generate --model "$@" --prompt 'the number 7 of' --max-new-tokens 24 --temperature 0 --json
    grep -oE '"finish_reason": "[a-z]*"|"prompt_tokens": [0-9]+|"ids": \[[^]]*\]' <<<"$out" | paste -sd' ' -
}

# A family, the preset that it is made from, a tokenizer with its number of tokens and the one that ends texts, a template.
while read -r family preset tokenizer vocabulary end template; do
    base=$work/$family.base
    mkdir "$base"
    cp "tests/golden/tokenizers/$tokenizer/tokenizer.json" "$base"
    run train --model "$preset" --data "$work/long" --max-seq-length 8 --max-steps 0 --quiet --output-dir "$work/$family.made"
    sed -E "s/\"vocab_size\": [0-9]+/\"vocab_size\": $vocabulary/; s/\"eos_token_id\": [^,]*/\"eos_token_id\": $end/; s/\"n_(positions|ctx)\": 64/\"n_\1\": 128/" \
        "$work/$family.made/config.json" >"$base/config.json"
    [[ $family != mistral ]] || sed -i -E 's/"sliding_window": [0-9]+/"sliding_window": null/' "$base/config.json"
    [[ $family != qwen2 ]] || sed -i -E 's/"llama"/"qwen2"/; s/LlamaFor/Qwen2For/; /_bias"|"head_dim"/d' "$base/config.json"
    run train --model "$base" --data "$work/chat.jsonl" --chat-template "$template" --max-seq-length 120 --max-steps 60 \
        --learning-rate 1e-2 --save-dtype fp32 --quiet --output-dir "$work/$family"
    check $code "$family: a model that has learned $template" "$err"
    run train --model "$work/$family" --data "$work/chat.jsonl" --max-seq-length 120 --max-steps 2 --lora-r 2 --learning-rate 1e-4 \
        --quiet --output-dir "$work/$family-lora"
    check $code "$family: its adapters" "$err"
    run export --model "$work/$family" --to "$work/$family.gguf"
    run import --from "$work/$family.gguf" --to "$work/$family-in"
    run export --model "$work/$family" --to "$work/$family-out"
    run export --model "$work/$family" --adapter "$work/$family-lora" --merge --to "$work/$family-merged"
    run export --model "$work/$family" --adapter "$work/$family-lora" --merge --to "$work/$family-merged.gguf"
    check $code "$family: its forms" "$err"
    ids=$(tokens "$work/$family") loss=$(losses "$work/$family") said=$(answers "$work/$family")
    [[ -n $ids && $loss =~ ^[0-9.]+\ [0-9.]+\ $ && $said == *'"stop"'* ]]
    check $? "$family: something to compare: $loss" "$said$err"
    for form in .gguf -in -out; do
        [[ $(tokens "$work/$family$form") == "$ids" ]]
        check $? "$family$form: ids of a text" "$err"
        [[ $(losses "$work/$family$form") == "$loss" ]]
        check $? "$family$form: losses of completions and a conversation: $loss" "$(losses "$work/$family$form")$err"
        [[ $(answers "$work/$family$form") == "$said" ]]
        check $? "$family$form: prompts, and where they end" "$said$(answers "$work/$family$form")"
    done
    loss=$(losses "$work/$family" --adapter "$work/$family-lora") said=$(answers "$work/$family" --adapter "$work/$family-lora")
    for form in -merged -merged.gguf; do
        [[ $(tokens "$work/$family$form") == "$ids" ]]
        check $? "$family$form: ids of a text" "$err"
        [[ $(losses "$work/$family$form") == "$loss" ]]
        check $? "$family$form: losses as with adapters: $loss" "$(losses "$work/$family$form")$err"
        [[ $(answers "$work/$family$form") == "$said" ]]
        check $? "$family$form: prompts, and where they end" "$said$(answers "$work/$family$form")"
    done
    cmp -s "$work/$family/chat_template.jinja" "$work/$family-out/chat_template.jinja" &&
        cmp -s "$work/$family-lora/chat_template.jinja" "$work/$family-merged/chat_template.jinja"
    check $? "$family: directories have the template"
    cmp -s "$work/$family/generation_config.json" "$work/$family-out/generation_config.json" ||
        [[ ! -e $work/$family/generation_config.json && ! -e $work/$family-out/generation_config.json ]]
    check $? "$family: and the list of ends"
done <<'END'
qwen2 tiny-llama qwen2 805 800 chatml
llama tiny-llama llama3 904 902 llama3
qwen3 tiny-qwen3 qwen2 805 802 chatml
mistral tiny-mistral gemma 1003 2 zephyr
gemma tiny-gemma gemma 1003 2 gemma
gemma3 tiny-gemma3-text gemma 1003 2 zephyr
phi3 tiny-phi3 qwen2 805 800 chatml
smollm3 tiny-smollm3 smollm 701 700 smollm2
gpt2 tiny qwen2 805 800 chatml
END
finish
