#!/bin/bash
# SPDX-License-Identifier: MIT
# A file may hold any one tensor of those that a model ties, as safetensors.torch.save_model writes it: the name that is
# kept is the first by the alphabet, the others stand in the metadata. The same loss, and an untied model still needs both.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 20; i++)); do echo "line $i of ale and bread"; done >"$work/text"
echo '{"model_type": "roberta", "vocab_size": 256, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
"intermediate_size": 32, "max_position_embeddings": 40, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}' >"$work/roberta"
sed 's/roberta/gpt_neox/; s/"pad_token_id": 1/"tie_word_embeddings": true/' "$work/roberta" >"$work/gpt_neox"

# rename DIR TO KEPT NAME: of the tied tensor NAME only KEPT remains in a file of DIR, with or without the metadata.
rename() {
    cp -r "$1" "$2"
    python3 - "$2/model.safetensors" "$3" "$4" "${5:-}" <<'P'
import json, struct, sys
path, kept, name, said = sys.argv[1:]
data = open(path, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8 : 8 + size])
head[kept] = head.pop(name)
head["__metadata__"] = {"format": "pt"} | ({name: kept} if said else {})
text = json.dumps(head).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size :])
P
}
loss() { run eval --model "$1" --data "$work/text" --max-seq-length 16 --json; json loss; }

while read -r model task kept name; do
    dir=$work/$model.run
    [[ $model == tiny* ]] && from=$model || from=$work/$model
    [[ $model == tiny* ]] || { mkdir "$work/$model.base"; mv "$from" "$work/$model.base/config.json"; from=$work/$model.base; }
    run train --model "$from" --task "$task" --data "$work/text" --max-seq-length 16 --max-steps 1 --quiet --output-dir "$dir"
    check $code "$model" "$err"
    right=$(loss "$dir")
    for said in said ''; do
        rename "$dir" "$dir.$said" "$kept" "$name" $said
        [[ -n $right && $(loss "$dir.$said") == "$right" ]]
        check $? "$model: $kept alone in the file, ${said:-not said} in its metadata" "$out$err"
    done
    run export --model "$dir.said" --to "$dir.again"
    check $code "$model: exported" "$err"
    [[ $(loss "$dir.again") == "$right" ]] && grep -qaF "\"$name\"" "$dir.again/model.safetensors"
    check $? "$model: and exported again by its own name" "$err"
done <<'E2'
tiny-llama causal-lm lm_head.weight model.embed_tokens.weight
tiny causal-lm lm_head.weight transformer.wte.weight
tiny-bert masked-lm cls.predictions.decoder.weight bert.embeddings.word_embeddings.weight
roberta masked-lm lm_head.decoder.weight roberta.embeddings.word_embeddings.weight
gpt_neox causal-lm embed_out.weight gpt_neox.embed_in.weight
E2

# A classifier has no head of words: only what the metadata say makes the head the table.
echo '{"text": "a", "label": 0}' >"$work/rows.jsonl"
echo '{"text": "b", "label": 1}' >>"$work/rows.jsonl"
judge() { run train --model "$1" --data "$work/rows.jsonl" --task classification --num-labels 2 --max-seq-length 16 --max-steps 1 --json --quiet --output-dir "$1.judge"; }
judge "$work/tiny-llama.run"
right=$(json state_digest)
judge "$work/tiny-llama.run.said"
[[ -n $right && $(json state_digest) == "$right" ]]
check $? "a classifier begins with the table that the metadata name" "$out$err"
judge "$work/tiny-llama.run."
[[ $code -eq 4 && $err == *"embed_tokens.weight: a tensor of the model is missing"* ]]
check $? "and has none without" "$out$err"

# An untied model has two tensors: one of them is not enough.
sed 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' "$work/tiny-llama.run./config.json" >"$work/config"
mv "$work/config" "$work/tiny-llama.run./config.json"
expect 4 'embed_tokens.weight: a tensor of the model is missing' eval --model "$work/tiny-llama.run." --data "$work/text"

# Both kinds as GGUF: a head that differs from the embedding is read as one, and a copy of it, as older converters wrote it,
# is the embedding.
for model in tiny tiny-llama; do
    mkdir "$work/$model.flip"
    run train --model "$model" --data "$work/text" --max-seq-length 16 --max-steps 0 --quiet --output-dir "$work/$model.start"
    sed 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' "$work/$model.start/config.json" >"$work/$model.flip/config.json"
    grep -q '"tie_word_embeddings": false' "$work/$model.flip/config.json" ||
        sed -i 's/^{/{"tie_word_embeddings": false,/' "$work/$model.flip/config.json"
    run train --model "$work/$model.flip" --data "$work/text" --max-seq-length 16 --max-steps 1 --quiet --output-dir "$work/$model.untied"
    check $code "$model with a head that is not tied" "$err"
    for kind in start untied; do
        right=$(loss "$work/$model.$kind")
        expect 0 '' export --model "$work/$model.$kind" --to "$work/$model.$kind.gguf"
        [[ -n $right && $(loss "$work/$model.$kind.gguf") == "$right" ]]
        check $? "$model.$kind as GGUF: its loss is $right" "$out$err"
        expect 0 '' import --from "$work/$model.$kind.gguf" --to "$work/$model.$kind.back"
        [[ $(loss "$work/$model.$kind.back") == "$right" ]]
        check $? "$model.$kind: and read back" "$out$err"
    done
done
cp -r "$work/tiny.untied" "$work/copied"
python3 - "$work/copied/model.safetensors" <<'P'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8 : 8 + size])
place = lambda name: slice(*(8 + size + at for at in head[name]["data_offsets"]))
data[place("lm_head.weight")] = data[place("transformer.wte.weight")]
head.pop("__metadata__", None)
text = json.dumps(head).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size :])
P
right=$(loss "$work/copied")
expect 0 '' export --model "$work/copied" --to "$work/copied.gguf"
grep -qa output.weight "$work/copied.gguf" && [[ -n $right && $(loss "$work/copied.gguf") == "$right" ]]
check $? "a copy of the embedding as the head of a GGUF" "$out$err"
expect 0 '' import --from "$work/copied.gguf" --to "$work/copied.back"
! grep -qa lm_head.weight "$work/copied.back/model.safetensors"
check $? "is tied again" "$(cat "$work/copied.back/config.json")"
finish
