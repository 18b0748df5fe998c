#!/bin/bash
# SPDX-License-Identifier: MIT
# Every number of every JSON file that is read, made one that is none of its kind: far too large, below 0, not whole, beyond 64 bits,
# above the largest double, no number at all. Each is refused by the file's name, or is a value that the field may have; nothing
# crashes, and nothing that is whole takes what is not. A number is cast in one place, bp_number_whole, and else as JSON has it.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 6; i++)); do echo "{\"text\": \"row $i of it\", \"label\": $((i % 2))}" >>"$work/rows.jsonl"; done
seq 300 >"$work/text"
small=(--max-seq-length 8 --max-steps 1 --quiet)
run train --model tiny-llama --data "$work/text" "${small[@]}" --output-dir "$work/llama"
run train --model tiny-bert --task classification --data "$work/rows.jsonl" "${small[@]}" --output-dir "$work/bert"
run train --model "$work/llama" --data "$work/text" "${small[@]}" --lora-r 2 --output-dir "$work/lora"
check $code "models to read" "$err"
python3 - "$work/lora/adapter_config.json" <<'P'
import json, sys
config = json.load(open(sys.argv[1]))
config.update(rank_pattern={"k_proj": 2}, layers_to_transform=[0, 1], alpha_pattern={"k_proj": 4})
json.dump(config, open(sys.argv[1], "w"))
P
cp -r "$work/llama" "$work/tok" && cp tests/golden/tokenizers/unigram/tokenizer.json "$work/tok"
sed -i 's/"vocab_size": [0-9]*/"vocab_size": 910/' "$work/tok/config.json"
echo '{"eos_token_id": [1, 2]}' >"$work/tok/generation_config.json"
mkdir "$work/parts" && cp "$work/llama"/*.json "$work/parts" && cp "$work/llama/model.safetensors" "$work/parts/model-00001-of-00001.safetensors"
python3 - "$work/parts" <<'P'
import json, sys
raw = open(sys.argv[1] + "/model-00001-of-00001.safetensors", "rb").read()
size = int.from_bytes(raw[:8], "little")
names = [name for name in json.loads(raw[8:8 + size]) if name != "__metadata__"]
index = {"metadata": {"total_size": len(raw) - 8 - size}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
json.dump(index, open(sys.argv[1] + "/model.safetensors.index.json", "w"))
P

# variants DIR FILE SKIP: FILE with one number changed, as FILE.N in $work/v, and a line "N PATH VALUE KIND" each; of long lists the
# first, the middle and the last. KIND says whether the number was whole.
variants() {
    rm -rf "$work/v" && mkdir "$work/v"
    python3 - "$1/$2" "$work/v" <<'P'
import json, os, sys
raw = open(sys.argv[1], "rb").read()
head = b""
if sys.argv[1].endswith(".safetensors"):
    size = int.from_bytes(raw[:8], "little")
    head, raw = raw[8 + size:], raw[8:8 + size]
document = json.loads(raw)
places = []
def walk(node, path):
    if isinstance(node, bool):
        return
    if isinstance(node, (int, float)):
        places.append(path)
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    if len(items) > 24:
        items = [items[0], items[len(items) // 2], items[-1]]
    for key, value in items:
        walk(value, path + [key])
walk(document, [])
values = ["1e300", "-1", "0.5", "2.5", "18446744073709551616", "1e400", "NaN"]
number = 0
for at, path in enumerate(places):
    node = document
    for key in path[:-1]:
        node = node[key]
    old = node[path[-1]]
    # BP_TEST_LONG, and where coverage is counted: every value.
    whole = (os.getenv("BP_TEST_LONG") or os.getenv("BP_TEST_WHOLE")) and not os.getenv("BP_TEST_SHORT")
    for value in values if whole else values[at % 2::2]:
        node[path[-1]] = "@@"
        text = json.dumps(document).replace('"@@"', value).encode()
        node[path[-1]] = old
        if head or sys.argv[1].endswith(".safetensors"):
            text = len(text).to_bytes(8, "little") + text + head
        open(f"{sys.argv[2]}/{number}", "wb").write(text)
        print(number, ".".join(map(str, path)), value, "whole" if isinstance(old, int) else "real")
        number += 1
P
}
# Numbers that no part of a computation is taken from, and reals that are written as whole ones.
free='^(label2id\.|metadata\.|.*\.type_id$|truncation|padding|version$|max_input_chars_per_word|.*(rope_theta|lora_alpha|dropout|alpha_pattern.*)$)'
least=5
long_form || least=2
[[ -z ${BP_TEST_SHORT:-} ]] || least=2
# numbers DIR FILE COMMAND..: the command with each of them in the file's place
numbers() {
    local directory=$1 file=$2 tried=0 bad='' n path value kind
    shift 2
    cp "$directory/$file" "$work/good"
    run "$@"
    check $code "$file: as it is" "$err"
    while read -r n path value kind; do
        cp "$work/v/$n" "$directory/$file"
        run "$@"
        tried=$((tried + 1))
        case $code in
        0) [[ $kind == real || $path =~ $free || $value == -1 ]] || bad+="$path = $value is taken"$'\n' ;;
        2 | 3 | 4) [[ -n $err ]] || bad+="$path = $value: exit $code without a word"$'\n' ;;
        *) bad+="$path = $value: exit $code: $err"$'\n' ;;
        esac
        [[ $value != NaN && $value != 1e400 || $code -eq 4 || $path =~ $free ]] || bad+="$path = $value: exit $code"$'\n'
        [[ $out != *nan* && $out != *'"loss": inf'* ]] || bad+="$path = $value: $out"$'\n'
    done < <(variants "$directory" "$file")
    cp "$work/good" "$directory/$file"
    [[ -z $bad && $tried -gt $least ]]
    check $? "$file: $tried variants" "$bad"
}
numbers "$work/llama" config.json eval --model "$work/llama" --data "$work/text" --max-seq-length 8 --json
numbers "$work/bert" config.json eval --model "$work/bert" --data "$work/rows.jsonl" --max-seq-length 8 --json
numbers "$work/llama" model.safetensors export --model "$work/llama" --to "$work/out"
numbers "$work/parts" model.safetensors.index.json eval --model "$work/parts" --data "$work/text" --max-seq-length 8 --json
numbers "$work/lora" adapter_config.json eval --model "$work/llama" --adapter "$work/lora" --data "$work/text" --max-seq-length 8 --json
numbers "$work/lora" adapter_model.safetensors eval --model "$work/llama" --adapter "$work/lora" --data "$work/text" --max-seq-length 8 --json
numbers "$work/tok" tokenizer.json tokenize --model "$work/tok" --data "$work/text" --output "$work/ids"
numbers "$work/tok" generation_config.json tokenize --model "$work/tok" --data "$work/text" --output "$work/ids"
finish
