# SPDX-License-Identifier: MIT
# Models and data under the names that docs/getting-started and docs/how-to use, so small that a command takes a moment.
# Sourced by tests/house/test_pages.sh. pages_fixture PROGRAM ROOT FOLDER: makes them in FOLDER; ROOT is the source tree.

# language NAME: a directory of a small Llama with the ChatML template.
pages_language() {
    mkdir "$1.config"
    cp "$root/tests/golden/tokenizers/qwen2/tokenizer.json" "$1.config"
    cat >"$1.config/config.json" <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 832, "hidden_size": 32, "intermediate_size": 48,
 "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 2048,
 "tie_word_embeddings": true, "bos_token_id": 801, "eos_token_id": 802}
END
    cat >"$1.config/tokenizer_config.json" <<'END'
{"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>", "chat_template":
 "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}
END
    "$program" train --model "$1.config" --data my.txt --max-seq-length 32 --max-steps 0 --quiet --output-dir "$1" >&2 || return
    cp -n "$1.config/tokenizer_config.json" "$1"
    cp "$1.config/tokenizer_config.json" "$1/tokenizer_config.json"
    rm -r "$1.config" "$1"/checkpoint-* "$1"/*.jsonl
}

# encoder NAME TASK: a directory of a small BERT.
pages_encoder() {
    mkdir "$1.config"
    cp "$root/tests/golden/tokenizers/bert_uncased/tokenizer.json" "$1.config"
    cat >"$1.config/config.json" <<'END'
{"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 1600, "hidden_size": 32, "intermediate_size": 64,
 "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
 "pad_token_id": 0, "tie_word_embeddings": true}
END
    "$program" train --model "$1.config" --task "$2" --data "$3" --max-seq-length 32 --max-steps 0 --quiet --output-dir "$1" >&2 || return
    rm -rf "$1.config" "$1"/checkpoint-* "$1"/*.jsonl
}

# vision NAME FAMILY: a directory of a small model of tests/golden; photos/CLASS/ has pictures.
pages_vision() {
    mkdir "$1"
    cp "$root/tests/golden/$2"/{config.json,model.safetensors} "$1"
    echo '{"do_resize": true, "size": {"height": 8, "width": 8}, "resample": 2, "do_rescale": true, "rescale_factor": 0.00392156862745098,
 "do_normalize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}' >"$1/preprocessor_config.json"
    local class i
    for class in cat dog; do
        mkdir -p photos/train/$class photos/test/$class
        for ((i = 0; i < 8; i++)); do
            { printf 'P6 16 16 255\n'; yes "$class $i" | head -qc 768; } >photos/train/$class/$i.ppm
            cp photos/train/$class/$i.ppm photos/test/$class
        done
    done
}

# image_text NAME: a directory of a small whole CLIP; pictures/ and held-out/ have images and their texts.
pages_image_text() {
    mkdir -p "$1" pictures held-out
    cp "$root"/tests/golden/image_text/*.json "$root/tests/golden/image_text/model.safetensors" "$1"
    cp "$root"/tests/golden/image_text/{metadata.jsonl,pictures/0.ppm} held-out
    cp -r "$root/tests/golden/image_text/pictures" held-out
    for i in 1 2; do cp "$root/tests/golden/image_text/pictures/$i.ppm" pictures/$i.jpg; done # the reader goes by its bytes
}

# speech NAME: a directory of a small Whisper; speech/ has sounds and their texts.
pages_speech() {
    mkdir -p "$1" speech/train speech/test
    cp "$root"/tests/golden/speech/{config.json,model.safetensors,tokenizer.json,tokenizer_config.json,preprocessor_config.json} "$1"
    cp -r "$root"/tests/golden/speech/{metadata.csv,sounds} speech/train
    cp -r "$root"/tests/golden/speech/{metadata.csv,sounds} speech/test
}

pages_fixture() {
    local program=$1 root=$2
    cd "$3" || return
    head -qc 1000 "$root"/docs/explanation/*.md "$root/LICENSE" 2>/dev/null | tr -d '\0' >my.txt
    echo '{"anchor": "a", "positive": "b"}' >made.jsonl
    pages_language SmolLM2-135M && pages_language SmolLM2-135M-Instruct && pages_language SmolLM2-1.7B &&
        pages_encoder bert-base-uncased masked-lm my.txt && pages_encoder all-MiniLM-L6-v2 embedding made.jsonl &&
        pages_vision vit-base-patch16-224 vit &&
        pages_vision clip-vit-base-patch32-model clip && pages_image_text openai-clip-vit-base-patch32 && pages_speech whisper-tiny-model || return
    "$program" export --model SmolLM2-135M-Instruct --to SmolLM2-135M-Instruct-F16.gguf --dtype fp16 >&2 || return
    rm made.jsonl
}
