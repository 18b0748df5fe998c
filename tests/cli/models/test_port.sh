#!/bin/bash
# SPDX-License-Identifier: MIT
# Export and import: files byte by byte as other programs write them, round trips, and what is
# refused.
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/port

same() {
    cmp -s "$1" "$2"
    check $? "$1 equals $2"
}

# A model without a tokenizer, as the reference files are.
mkdir "$work/m"
cp $golden/config.json $golden/model.safetensors "$work/m"
expect 0 '28 tensors, 3968 parameters' export --model "$work/m" --format gguf --to "$work/m.gguf"
mkdir "$work/port"
cp "$work"/m/* "$work/port"
for type in fp32:f32 fp16:f16 bf16:bf16; do
    run export --model "$work/port/" --format gguf --dtype "${type%:*}" --to "$work/x.gguf"
    same "$work/x.gguf" "$golden/${type#*:}.gguf"
done
for type in fp32 bf16; do
    run export --model "$work/m" --format llmc --dtype $type --to "$work/x.llmc"
    same "$work/x.llmc" "$golden/$type.llmc"
done
expect 2 '--to: a Hugging Face model is a directory' export --model "$work/m" --to "$work/x.safetensors"
run export --model "$work/m" --format llmc --to "$work/x.llmc" --json
same "$work/x.llmc" "$golden/fp32.llmc"
[[ $(json tensors) == 28 && $(json parameters) == 3968 && $(json bytes) == $(stat -c %s "$work/x.llmc") ]]
check $? "the JSON counts" "$out"

# With its tokenizer, and back: the same ids.
cp $golden/vocab.json $golden/merges.txt "$work/port"
run export --model "$work/port" --format gguf --dtype fp16 --to "$work/x.gguf"
same "$work/x.gguf" $golden/tokens.gguf
run import --from $golden/tokens.gguf --to "$work/tokens"
run generate --model "$work/port" --prompt 'the and' --max-new-tokens 2 --temperature 0 --output-ids
ids=$out
run generate --model "$work/tokens" --prompt 'the and' --max-new-tokens 2 --temperature 0 --output-ids
[[ $code -eq 0 && -n $ids && $ids == "$out" ]]
check $? "the imported tokenizer encodes as the original ($ids, $out)" "$err"

# And back.
for file in f32.gguf fp32.llmc; do
    expect 0 '28 tensors' import --from "$golden/$file" --to "$work/back"
    same "$work/back/model.safetensors" $golden/model.safetensors
    grep -q '"vocab_size": 270' "$work/back/config.json"
    check $? "the configuration of $file" "$(cat "$work/back/config.json")"
    rm -r "$work/back"
done
run import --from "$golden/bf16.gguf" --to "$work/back" --dtype bf16
run export --model "$work/m" --dtype bf16 --to "$work/m16"
same "$work/back/model.safetensors" "$work/m16/model.safetensors"
grep -q '"dtype": "bfloat16"' "$work/m16/config.json"
check $? "the new type is in config.json" "$(cat "$work/m16/config.json")"
run export --model "$work/m" --to "$work/copy"
same "$work/copy/config.json" "$work/m/config.json"
same "$work/copy/model.safetensors" "$work/m/model.safetensors"
# A Llama: grouped heads, biases, a head of its own.
mkdir "$work/llama"
cp $golden/llama.safetensors "$work/llama/model.safetensors"
cat >"$work/llama/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 19, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
 "head_dim": 12, "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "rope_theta": 20000.0,
 "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": false, "bos_token_id": 1,
 "eos_token_id": 2, "torch_dtype": "float32"}
END
run export --model "$work/llama" --format gguf --dtype fp16 --to "$work/llama.gguf"
same "$work/llama.gguf" $golden/llama.gguf
run export --model "$work/llama" --dtype fp16 --to "$work/llama16"
run import --from $golden/llama.gguf --to "$work/back" --dtype fp16
same "$work/back/model.safetensors" "$work/llama16/model.safetensors"
run import --from $golden/llama.gguf --to "$work/back2"
run export --model "$work/back2" --format gguf --to "$work/again.gguf"
cmp -s <(tail -c 9000 "$work/again.gguf") <(tail -c 9000 $golden/llama.gguf)
check $? "a Llama goes to GGUF and back"
rm -r "$work/back"
expect 2 'GPT-2 models only' export --model "$work/llama" --format llmc --to "$work/x.llmc2"

# Training no step gives the file back in its own types.
awk 'BEGIN { for (i = 0; i < 300; i++) printf "%c%c", 97 + i % 20, 0 }' >"$work/ids.bin"
zero=(train --max-seq-length 6 --per-device-train-batch-size 2 --max-steps 0 --quiet --data "$work/ids.bin")
for model in m m16; do
    run "${zero[@]}" --model "$work/$model" --output-dir "$work/zero-$model" --save-dtype source
    same "$work/zero-$model/model.safetensors" "$work/$model/model.safetensors"
done
run "${zero[@]}" --model "$work/m" --output-dir "$work/zero-16" --save-dtype bf16
same "$work/zero-16/model.safetensors" "$work/m16/model.safetensors"
grep -q '"torch_dtype": "bfloat16"' "$work/zero-16/config.json"
check $? "the trained model's config.json has its type" "$(cat "$work/zero-16/config.json")"

# Shards.
mkdir "$work/shards"
cp "$work/m/config.json" "$work/shards"
cp "$work/m/model.safetensors" "$work/shards/model-00001-of-00001.safetensors"
index() {
    {
        printf '{"metadata": {}, "weight_map": {'
        grep -aoE '"transformer[^"]*"' "$work/m/model.safetensors" | sort | sed "s|\$|: \"$1\"|" | paste -sd,
        printf '}}'
    } >"$work/shards/model.safetensors.index.json"
}
index model-00001-of-00001.safetensors
run export --model "$work/shards" --to "$work/one"
same "$work/one/model.safetensors" "$work/m/model.safetensors"
expect 0 'loss|[0-9]' eval --model "$work/shards" --data "$work/ids.bin" --max-seq-length 6
index ../m/model.safetensors
expect 4 'without a path' export --model "$work/shards" --to "$work/one"
index model-00002-of-00002.safetensors
expect 4 'a file that the index names is missing' export --model "$work/shards" --to "$work/one"

# The ending says what is written, unless --format does.
expect 0 'end.gguf: 28 tensors.*\(gguf, types as they were\)' export --model "$work/m" --to "$work/end.gguf"
same "$work/end.gguf" "$work/m.gguf"
expect 0 '"format": "llmc"' export --model "$work/m" --to "$work/end.bin" --json
[[ $(od -An -tu4 -N4 "$work/end.bin") -eq 20240326 ]]
check $? "NAME.bin is llm.c's"
expect 0 '\(hf, types' export --model "$work/m" --format hf --to "$work/folder.gguf"
same "$work/folder.gguf/model.safetensors" "$work/m/model.safetensors"
expect 0 '\(hf, types' export --model "$work/m" --to "$work/gguf"

# verifies face-22.6b4a
# What is refused.
expect 2 'option is needed: a model directory' export --to "$work/x"
expect 2 'option is needed: where to write' export --model "$work/m"
expect 2 'option is needed: the file' import --to "$work/x"
expect 2 'option is needed: the directory' import --from "$golden/f32.gguf"
expect 2 "another path" export --model "$work/m" --to "$work/m"
expect 2 "another path" export --model "$work/m" --format gguf --to "$work/m/model.safetensors"
ln -s "$work/m" "$work/link"
expect 2 "another path" export --model "$work/m" --to "$work/link"
expect 2 'fp16' export --model "$work/m" --format llmc --dtype fp16 --to "$work/x.llmc2"
expect 2 'format' export --model "$work/m" --format onnx --to "$work/x"
expect 4 'no directory with a config.json' export --model gpt2 --to "$work/x"
cp -r "$work/m" "$work/none"
rm "$work/none/model.safetensors"
expect 4 'no model.safetensors' export --model "$work/none" --to "$work/x"
expect 4 'neither GGUF nor an llm.c model' import --from "$work/m/config.json" --to "$work/x"
expect 4 'no-such-file: there is no such file' import --from "$work/no-such-file" --to "$work/x"
head -c 9000 $golden/f32.gguf >"$work/short.gguf"
expect 4 'short.gguf' import --from "$work/short.gguf" --to "$work/x"
LC_ALL=C sed 's/gpt2\x0c/gpt9\x0c/' $golden/f32.gguf >"$work/arch.gguf"
LC_ALL=C sed 's/attention.head_count\x04\x00\x00\x00\x02/attention.head_count\x04\x00\x00\x00\x03/' $golden/f32.gguf >"$work/heads.gguf"
expect 4 'head_count: the heads do not divide the width: found 3, expected a divisor of 8' \
    import --from "$work/heads.gguf" --to "$work/x"
expect 4 'general.architecture: this architecture is not supported: found gpt9' import --from "$work/arch.gguf" --to "$work/x"
LC_ALL=C sed 's/blk.0.ffn_up.bias/blk.0.ffn_op.bias/' $golden/f32.gguf >"$work/name.gguf"
expect 4 'blk.0.ffn_op.bias: the file holds a tensor that the model does not have' import --from "$work/name.gguf" --to "$work/x"
expect 4 'transformer.h.0.mlp.c_fc.bias: a tensor of the model is missing' import --from "$work/name.gguf" --to "$work/x"
[[ ! -e $work/x ]]
check $? "none of these made the target"
expect 6 'none/where' export --model "$work/m" --format gguf --to "$work/none/where/x.gguf"

# Loading may be told to go on.
LC_ALL=C sed 's/transformer.wpe/transformer.wxe/' "$work/m/model.safetensors" >"$work/shards/model.safetensors"
expect 4 'a tensor of the model is missing' eval --model "$work/shards" --data "$work/ids.bin" --max-seq-length 6
expect 4 'wxe.weight: the file holds' eval --model "$work/shards" --data "$work/ids.bin" --max-seq-length 6 --allow-missing
expect 0 'missing in the file \(allowed\)' eval --model "$work/shards" --data "$work/ids.bin" --max-seq-length 6 \
    --allow-missing --allow-unexpected
[[ -z $(find "$work" -name '*.tmp') ]]
check $? "no temporary files are left" "$(find "$work" -name '*.tmp')"
finish
