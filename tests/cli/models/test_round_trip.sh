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

# alike FORM WHAT: a form of $family has its $ids, $loss and $said.
alike() {
    local found
    [[ $(tokens "$work/$family$1") == "$ids" ]]
    check $? "$family$1: ids of a text" "$err"
    found=$(losses "$work/$family$1")
    [[ $found == "$loss" ]]
    check $? "$family$1: $2: $loss" "$found$err"
    found=$(answers "$work/$family$1")
    [[ $found == "$said" ]]
    check $? "$family$1: prompts, and where they end" "$said$found"
}

# A family, the preset that it is made from, a tokenizer with its number of tokens and the one that ends texts, a template,
# and how many steps it takes to learn it (60), at which rate (1e-2).
# In the short form each tokenizer, each template, and each way in which a file holds a family's tensors: permuted for rotation, a
# norm's 1, joined matrices, transposed ones, joined by head, experts with a shared one and with a correction, scales.
short=' llama gemma3 phi3 smollm3 gpt2 gemma2 qwen2_moe gpt_neox granite glm4_moe cohere2 '
while read -r family preset tokenizer vocabulary end template steps rate; do
    long_form || [[ $short == *" $family "* ]] || continue
    base=$work/$family.base
    mkdir "$base"
    cp "tests/golden/tokenizers/$tokenizer/tokenizer.json" "$base"
    run train --model "$preset" --data "$work/long" --max-seq-length 8 --max-steps 0 --quiet --output-dir "$work/$family.made"
    sed -E "s/\"vocab_size\": [0-9]+/\"vocab_size\": $vocabulary/; s/\"eos_token_id\": [^,]*/\"eos_token_id\": $end/; s/\"n_(positions|ctx)\": 64/\"n_\1\": 128/" \
        "$work/$family.made/config.json" >"$base/config.json"
    [[ $family != mistral ]] || sed -i -E 's/"sliding_window": [0-9]+/"sliding_window": null/' "$base/config.json"
    [[ $family != exaone4 ]] || # readers know windows of its largest model alone
        sed -i -E 's/"sliding_window": [0-9]+/"sliding_window": null/; s/sliding_attention/full_attention/g' "$base/config.json"
    [[ $family != qwen2 ]] || sed -i -E 's/"llama"/"qwen2"/; s/LlamaFor/Qwen2For/; /_bias"|"head_dim"/d' "$base/config.json"
    run train --model "$base" --data "$work/chat.jsonl" --chat-template "$template" --max-seq-length 120 --max-steps "${steps:-60}" \
        --learning-rate "${rate:-1e-2}" --save-dtype fp32 --quiet --output-dir "$work/$family"
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
    for form in .gguf -in -out; do alike "$form" "losses of completions and a conversation"; done
    loss=$(losses "$work/$family" --adapter "$work/$family-lora") said=$(answers "$work/$family" --adapter "$work/$family-lora")
    for form in -merged -merged.gguf; do alike "$form" "losses as with adapters"; done
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
gemma2 tiny-gemma2 gemma 1003 2 gemma
olmo2 tiny-olmo2 qwen2 805 800 chatml
qwen2_moe tiny-qwen2-moe qwen2 805 800 chatml
qwen3_moe tiny-qwen3-moe qwen2 805 800 chatml
olmoe tiny-olmoe qwen2 805 800 chatml
gpt_neox tiny-neox qwen2 805 800 zephyr
granite tiny-granite smollm 701 700 smollm2 80 3e-2
ernie4_5 tiny-ernie4-5 gemma 1003 2 gemma
glm tiny-glm qwen2 805 800 chatml
glm4 tiny-glm4 qwen2 805 800 chatml
glm4_moe tiny-glm4-moe qwen2 805 800 chatml
seed_oss tiny-seed-oss qwen2 805 800 chatml
olmo3 tiny-olmo3 qwen2 805 800 chatml
exaone4 tiny-exaone4 smollm 701 700 smollm2
hunyuan tiny-hunyuan qwen2 805 800 chatml
cohere tiny-cohere qwen2 805 800 chatml 80 3e-2
cohere2 tiny-cohere2 qwen2 805 800 chatml 80 3e-2
starcoder2 tiny-starcoder2 qwen2 805 800 chatml
arcee tiny-arcee smollm 701 700 smollm2
END

# Encoders, whose file holds a model of vectors: the same ids and vectors, also of texts with padding in them, which has a place of
# its own among RoBERTa's positions. A family, its preset, a tokenizer, its number of tokens, the token for padding and its id.
for ((i = 0; i < 8; i++)); do
    echo "{\"anchor\": \"question $i of it\", \"positive\": \"answer $((i * i)) of it\"}" >>"$work/pairs.jsonl"
done
while read -r family preset tokenizer vocabulary padding pad; do
    base=$work/$family.base
    mkdir "$base"
    # U+2581 in a piece of words would be taken for the mark of a word by readers of WordPiece
    sed 's/\xe2\x96\x81/zq/g' "tests/golden/tokenizers/$tokenizer/tokenizer.json" >"$base/tokenizer.json"
    echo "{\"pad_token\": \"$padding\"}" >"$base/tokenizer_config.json"
    for text in 'the number 7' "number$padding 7 of$padding$padding it" "$padding of it"; do echo "{\"text\": \"$text\"}"; done >"$work/padded.jsonl"
    run train --model "$preset" --task embedding --data "$work/pairs.jsonl" --max-seq-length 8 --max-steps 0 --quiet --output-dir "$work/$family.made"
    sed -E "s/\"vocab_size\": [0-9]+/\"vocab_size\": $vocabulary/; s/\"pad_token_id\": [^,]*/\"pad_token_id\": $pad/; s/\"eos_token_id\": [^,]*/\"eos_token_id\": null/" \
        "$work/$family.made/config.json" >"$base/config.json"
    [[ $family != roberta ]] || sed -i "s/\"max_position_embeddings\": 130/\"max_position_embeddings\": $((129 + pad))/" "$base/config.json"
    options=(--data "$work/pairs.jsonl" --max-seq-length 24 --max-steps 2 --per-device-train-batch-size 4 --quiet)
    run train --model "$base" --task embedding "${options[@]}" --learning-rate 1e-2 --save-dtype fp32 --output-dir "$work/$family"
    check $code "$family: a model of vectors" "$err"
    # Rows of positions up to padding's, which files leave out, are zeros in transformers' models.
    [[ $family != roberta ]] || python3 - "$work/$family/model.safetensors" <<'EOF'
import json, sys
data = bytearray(open(sys.argv[1], "rb").read())
base = 8 + int.from_bytes(data[:8], "little")
tensor = json.loads(data[8:base])["roberta.embeddings.position_embeddings.weight"]
first, width = base + tensor["data_offsets"][0], 4 * tensor["shape"][1]
data[first : first + 801 * width] = bytes(801 * width)
open(sys.argv[1], "wb").write(data)
EOF
    run train --model "$work/$family" "${options[@]}" --lora-r 2 --learning-rate 1e-2 --output-dir "$work/$family-lora"
    check $code "$family: its adapters" "$err"
    run export --model "$work/$family" --to "$work/$family.gguf"
    run import --from "$work/$family.gguf" --to "$work/$family-in"
    check $code "$family: its forms" "$err"
    run export --model "$work/$family-in" --to "$work/$family-again.gguf"
    run export --model "$work/$family" --to "$work/$family-out"
    run export --model "$work/$family" --adapter "$work/$family-lora" --merge --to "$work/$family-merged"
    run export --model "$work/$family" --adapter "$work/$family-lora" --merge --to "$work/$family-merged.gguf"
    check $code "$family: its merged forms" "$err"
    vectors() {
        run embed --model "$@" --data "$work/padded.jsonl" --max-seq-length 24 --output "$work/v.npy"
        [[ $code -eq 0 ]] && md5sum <"$work/v.npy"
    }
    ids=$(tokens "$work/$family") said=$(vectors "$work/$family")
    [[ -n $ids && -n $said ]]
    check $? "$family: something to compare" "$err"
    for form in .gguf -in -out -again.gguf; do
        [[ $(tokens "$work/$family$form") == "$ids" ]]
        check $? "$family$form: ids of a text" "$err"
        found=$(vectors "$work/$family$form")
        [[ $found == "$said" ]]
        check $? "$family$form: vectors, padding in texts among them" "$found$err"
    done
    cmp -s "$work/$family-merged.gguf" <(cat "$work/$family.gguf")
    check $((1 - $?)) "$family: adapters change something"
    said=$(vectors "$work/$family-merged")
    for form in -merged -merged.gguf; do
        [[ $(tokens "$work/$family$form") == "$ids" ]]
        check $? "$family$form: ids of a text" "$err"
        found=$(vectors "$work/$family$form")
        [[ -n $said && $found == "$said" ]]
        check $? "$family$form: vectors" "$found$err"
    done
    grep -q "\"pad_token_id\": $pad" "$work/$family-in/config.json" && grep -qF "\"pad_token\": \"$padding\"" "$work/$family-in/tokenizer_config.json"
    check $? "$family: padding's role comes back" "$(cat "$work/$family-in/config.json" "$work/$family-in/tokenizer_config.json")"
    grep -q "\"model_type\": \"$(sed 's/.*"model_type": "\([a-z_-]*\)".*/\1/;t;d' "$work/$family/config.json")\"" "$work/$family-in/config.json"
    check $? "$family: and its family" "$(cat "$work/$family-in/config.json")"
done <<'END'
bert tiny-bert bert_uncased 1600 [PAD] 0
distilbert tiny-distilbert bert_uncased 1600 [PAD] 0
roberta tiny-roberta qwen2 810 <|endoftext|> 800
modernbert tiny-modernbert qwen2 810 <|endoftext|> 800
END
finish
