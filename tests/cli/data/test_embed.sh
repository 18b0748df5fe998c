#!/bin/bash
# SPDX-License-Identifier: MIT
# bedplate embed: vectors of texts are those of transformers with sentence-transformers' formulas (tools/golden/embeddings.py),
# in the order of the input; directories of sentence-transformers; what is refused.
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/embeddings

mkdir "$work/base"
cp tests/golden/pairs/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/base"
run train --model "$work/base" --task masked-lm --data $golden/texts.txt --max-seq-length 24 --max-steps 0 --quiet \
    --output-dir "$work/m"
check $code "a model of random weights" "$err"
embed=(embed --model "$work/m" --max-seq-length 24 --threads 2 --quiet)

# vectors_agree WAY FILE.jsonl [LENGTHS]: the first 8 numbers of each vector are the golden ones, divided by their length
# where LENGTHS is 1 (which is that of all 16).
vectors_agree() {
    sed -n "/^$1\$/,/^[a-z]/p" $golden/vectors.txt | grep -v '^[a-z]' >"$work/golden.txt"
    sed -E 's/.*"embedding": \[//; s/[],}]//g' "$2" | paste -d' ' - "$work/golden.txt" | awk -v one="${3:-0}" '
        { sum = 0; for (i = 1; i <= 16; i++) sum += $i * $i
          factor = one ? $17 != 0 ? $1 / $17 : 0 : 1
          if (one && (sum - 1) * (sum - 1) > 1e-10) bad++
          for (i = 1; i <= 8; i++) { d = $i - $(i + 16) * factor; bad += d * d > 1e-9; most = $i * $i > most ? $i * $i : most } }
        END { exit !(NR == 40 && !bad && most > 0.01) }'
    check $? "vectors of $1 are those of transformers" "$(head -2 "$2" | cut -c 1-200)"
}
for way in mean cls lasttoken mean_sqrt_len_tokens weightedmean; do
    run "${embed[@]}" --data $golden/texts.txt --pooling $way --output "$work/$way.jsonl"
    [[ $code -eq 0 ]]
    check $? "embed --pooling $way" "$err"
    vectors_agree $way "$work/$way.jsonl"
done
run "${embed[@]}" --data $golden/texts.txt --normalize true --output "$work/n.jsonl" --json
[[ $(json rows) == 40 && $(json dimension) == 16 && $(json normalized) == true ]]
check $? "what is said of it" "$out"
vectors_agree mean "$work/n.jsonl" 1

# verifies face-21.8a44
# The same bits whatever runs together, on any kernels; the npy file has the numbers of the other.
for more in "--per-device-eval-batch-size 1" "--per-device-eval-batch-size 40" "--length-buckets none" \
    "--kernels $other_kernels --threads 1"; do
    # shellcheck disable=SC2086
    run "${embed[@]}" --data $golden/texts.txt $more --output "$work/o.jsonl"
    cmp -s "$work/mean.jsonl" "$work/o.jsonl"
    check $? "$more: the same vectors" "$err"
done
run "${embed[@]}" --data $golden/texts.txt --output "$work/v.npy"
head -c 128 "$work/v.npy" | tr -d '\0' | grep -aq "'descr': '<f4', 'fortran_order': False, 'shape': (40, 16)" &&
    [[ $(wc -c <"$work/v.npy") -eq $((128 + 4 * 16 * 40)) ]]
check $? "the head of the npy file"
tail -c +129 "$work/v.npy" | od -An -v -tf4 -w64 | awk '{$1 = $1; print}' >"$work/v.txt"
sed -E 's/.*"embedding": \[//; s/[],}]//g' "$work/mean.jsonl" | paste -d' ' - "$work/v.txt" |
    awk '{ for (i = 1; i <= 16; i++) { d = $i - $(i + 16); bad += d * d > 1e-12 } } END { exit !(NR == 40 && !bad) }'
check $? "the numbers of the npy file"

# The same texts as JSON lines and in a table.
awk '{ gsub(/["\\]/, "\\\\&"); printf "{\"id\": %d, \"text\": \"%s\"}\n", NR, $0 }' $golden/texts.txt >"$work/t.jsonl"
{ echo id,sentence && awk '{ gsub(/"/, "\"\""); printf "%d,\"%s\"\n", NR, $0 }' $golden/texts.txt; } >"$work/t.csv"
for file in t.jsonl t.csv; do
    run "${embed[@]}" --data "$work/$file" --output "$work/o.jsonl"
    cmp -s "$work/mean.jsonl" "$work/o.jsonl"
    check $? "$file: the same vectors" "$err"
done

# Directories of sentence-transformers, of both ages.
cp -r "$work/m" "$work/st"
mkdir "$work/st/1_Pooling"
modules() {
    local i=0 list='' name
    for name in "$@"; do
        list="$list${list:+, }{\"idx\": $i, \"name\": \"$i\", \"path\": \"$([[ $i -eq 0 ]] || echo "${i}_${name##*.}")\", \"type\": \"$name\"}"
        i=$((i + 1))
    done
    echo "[$list]" >"$work/st/modules.json"
}
old=sentence_transformers.models
modules $old.Transformer $old.Pooling $old.Normalize
echo '{"word_embedding_dimension": 16, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}' \
    >"$work/st/1_Pooling/config.json"
echo '{"max_seq_length": 24, "do_lower_case": false}' >"$work/st/sentence_bert_config.json"
st=(embed --model "$work/st" --data $golden/texts.txt --quiet --output "$work/o.jsonl")
run "${st[@]}"
vectors_agree cls "$work/o.jsonl" 1
run "${st[@]}" --normalize false --pooling mean
cmp -s "$work/mean.jsonl" "$work/o.jsonl"
check $? "options come before the directory" "$err"
modules a.b.Transformer a.b.Pooling
echo '{"embedding_dimension": 16, "pooling_mode": "lasttoken", "include_prompt": true}' >"$work/st/1_Pooling/config.json"
run "${st[@]}"
cmp -s "$work/lasttoken.jsonl" "$work/o.jsonl"
check $? "a directory without normalisation, in the newer form" "$err"
echo '{"pooling_mode": ["mean"]}' >"$work/st/1_Pooling/config.json"
sed 's/^/query: /' $golden/texts.txt >"$work/prompted.txt"
run "${embed[@]}" --data "$work/prompted.txt" --output "$work/p.jsonl"
echo '{"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": null}' >"$work/st/config_sentence_transformers.json"
run "${st[@]}" --prompt-name query
cmp -s "$work/p.jsonl" "$work/o.jsonl"
check $? "the prompt of that name stands before each text" "$err"
echo '{"default_prompt_name": "query", "prompts": {"document": "", "query": "query: "}}' >"$work/st/config_sentence_transformers.json"
run "${st[@]}"
cmp -s "$work/p.jsonl" "$work/o.jsonl"
check $? "and so does the usual one" "$err"
run "${st[@]}" --prompt-name document
cmp -s "$work/mean.jsonl" "$work/o.jsonl"
check $? "an empty prompt" "$err"

# What is refused.
expect 2 'no prompt of this name' "${st[@]}" --prompt-name question
modules $old.Transformer $old.Pooling $old.Dense
expect 4 '2_Dense/config.json: config.json: the file is not there' "${st[@]}"
modules $old.Transformer $old.Pooling $old.LSTM
expect 4 'modules.json: LSTM: the module is not implemented' "${st[@]}"
modules $old.Transformer
expect 4 'there is no Pooling' "${st[@]}"
modules $old.Transformer $old.Pooling
echo '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}' >"$work/st/1_Pooling/config.json"
expect 4 'several ways of pooling' "${st[@]}"
echo '{"pooling_mode": "max"}' >"$work/st/1_Pooling/config.json"
expect 4 'config.json: max: this way of pooling is not implemented' "${st[@]}"
rm "$work/st/1_Pooling/config.json"
expect 4 '1_Pooling/config.json: the file is not there|config.json: the file is not there' "${st[@]}"
echo '{' >"$work/st/modules.json"
expect 4 'modules.json' "${st[@]}"
expect 2 'the option is needed: where the vectors go' embed --model "$work/m" --data $golden/texts.txt
expect 2 'NAME.npy or NAME.jsonl' embed --model "$work/m" --data $golden/texts.txt --output "$work/o.txt"
expect 6 'the file cannot be made' "${embed[@]}" --data $golden/texts.txt --output "$work/no/o.npy"
expect 4 'a row has several texts' "${embed[@]}" --data $golden/scores.jsonl --output "$work/o.npy"
expect 2 'task' embed --model tiny-gru --data $golden/texts.txt --output "$work/o.npy"
bad() {
    printf '%b' "$2" >"$work/$1"
    expect 4 "$1(: )?$3" "${embed[@]}" --data "$work/$1" --output "$work/o.npy"
}
bad bad.jsonl '{"text": "a"}\n{"text": 5}\n' ':2.*a text is a string'
bad bad.jsonl '{"text": "a"}\n{"body": "b"}\n' ':2: the row has no first text'
bad bad.jsonl '{"text": "a", "query": "b"}\n' ':1: two fields name the same text'
bad bad.jsonl '{"text": "a", "negative": "b"}\n' ':1: the row has a further text, but lacks one before it'
bad bad.jsonl '{"text": "a"\n' ':1'
bad bad.csv 'id,body\n1,a\n' ':1: the row has no first text'
# A pooler, of which vectors make no use, stays in the model as it was.
# verifies face-61.d955
tensor() { # FILE NAME: a digest of its bytes
    local n from to
    n=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    read -r from to < <(tail -c +9 "$1" | head -c "$n" | grep -aoE "\"$2\": ?\{[^}]*\}" |
        grep -oE 'data_offsets": ?\[[0-9]+, ?[0-9]+' | grep -oE '[0-9]+, ?[0-9]+' | tr ',' ' ')
    [[ -z ${to:-} ]] || tail -c +$((9 + n + from)) "$1" | head -c $((to - from)) | md5sum
}
printf 'text,label\n' >"$work/judged.csv"
printf 'anchor,positive\n' >"$work/two.csv"
for ((i = 0; i < 8; i++)); do
    echo "a text $i,$((i % 2))" >>"$work/judged.csv"
    echo "a $i,b $i" >>"$work/two.csv"
done
few=(--max-seq-length 16 --per-device-train-batch-size 2 --max-steps 1 --quiet)
run train --model tiny-bert --task classification --data "$work/judged.csv" "${few[@]}" --output-dir "$work/judge"
pooler=$(tensor "$work/judge/model.safetensors" bert.pooler.dense.weight)
for base in judge vectors-of-judge; do
    run train --model "$work/$base" --task embedding --data "$work/two.csv" "${few[@]}" --allow-unexpected --output-dir "$work/vectors-of-$base"
    [[ $code -eq 0 && -n $pooler && $(tensor "$work/vectors-of-$base/model.safetensors" bert.pooler.dense.weight) == "$pooler" ]]
    check $? "$base: its pooler is kept" "$err"
    expect 0 'Spearman|recall' eval --task embedding --model "$work/vectors-of-$base" --data "$work/two.csv" --max-seq-length 16
done
# So it does in exports: as it is, in another type, in codes, with adapters merged; and one without its prefix gets the others'.
run train --model "$work/vectors-of-judge" --task embedding --data "$work/two.csv" "${few[@]}" --lora-r 2 --output-dir "$work/adapter"
check $code "adapters of vectors" "$err"
mkdir "$work/bare" && cp "$work"/vectors-of-judge/*.json "$work/bare" && cp -r "$work"/vectors-of-judge/[0-9]* "$work/bare"
# The names lose "bert." and the header as many spaces as keep its length.
LC_ALL=C sed '1s/"bert\.\([^"]*"\)/"\1     /g' "$work/vectors-of-judge/model.safetensors" >"$work/bare/model.safetensors"
! LC_ALL=C grep -qa "\"bert\." "$work/bare/model.safetensors"
check $? "the names are bare"
while read -r from options; do
    rm -rf "$work/out"
    # shellcheck disable=SC2086
    run export --model "$work/$from" --to "$work/out" $options
    [[ $code -eq 0 && $(tensor "$work/out/model.safetensors" bert.pooler.dense.weight) == "$pooler" ]]
    check $? "export of $from $options keeps the pooler" "$out$err"
    run eval --task embedding --model "$work/out" --data "$work/two.csv" --max-seq-length 16
    check $code "and is a model" "$err"
done <<END
vectors-of-judge
vectors-of-judge --dtype bf16
vectors-of-judge --load-in-4bit
vectors-of-judge --adapter $work/adapter --merge
bare
END
run export --model "$work/vectors-of-judge" --to "$work/same"
cmp -s "$work/vectors-of-judge/model.safetensors" "$work/same/model.safetensors"
check $? "an export is the model, byte for byte"
[[ $err != *"not written"* ]]
check $? "of which nothing is left out" "$err"
expect 0 'not written, as the model has no use for it: bert.pooler.dense.bias, bert.pooler.dense.weight$' export --model "$work/vectors-of-judge" \
    --to "$work/same.gguf"
# A decoder whose head is a table of its own has no use for it in vectors or classes: the file's is passed over, in a directory
# and in GGUF, and the vectors are those of the model without it.
grep . $golden/texts.txt >"$work/texts.txt"
while read -r name config; do
    mkdir "$work/$name"
    echo "{$config, \"vocab_size\": 256, \"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 2,
        \"intermediate_size\": 32, \"max_position_embeddings\": 64, \"tie_word_embeddings\": false}" >"$work/$name/config.json"
    run train --model "$work/$name" --task causal-lm --data "$work/texts.txt" "${few[@]}" --output-dir "$work/$name-whole"
    check $code "$name: a model with a head" "$err"
    run train --model "$work/$name-whole" --task embedding --data "$work/two.csv" "${few[@]}" --max-steps 0 --output-dir "$work/$name-bare"
    [[ $code -eq 0 ]] && ! grep -qaE 'lm_head|embed_out' "$work/$name-bare/model.safetensors"
    check $? "$name: vectors of it, without its head" "$err"
    run export --model "$work/$name-whole" --to "$work/$name-whole.gguf"
    same=
    for from in -bare -whole -whole.gguf; do
        run embed --model "$work/$name$from" --data "$work/texts.txt" --max-seq-length 24 --quiet --output "$work/o.jsonl"
        same=${same:-$(md5sum <"$work/o.jsonl")}
        [[ $code -eq 0 && $(md5sum <"$work/o.jsonl") == "$same" ]]
        check $? "$name$from: the same vectors" "$err"
    done
    for from in -whole -whole.gguf; do
        expect 0 '' train --model "$work/$name$from" --task classification --data "$work/judged.csv" "${few[@]}" --output-dir "$work/$name-judge$from"
    done
done <<END
llama "model_type": "llama"
neox "model_type": "gpt_neox", "rotary_pct": 0.25
END
# Adapters of vectors have the names that PEFT gives those of BertModel, which has no "bert." (PEFT 0.19: get_peft_model of
# AutoModel with FEATURE_EXTRACTION); they are read again, merged, and found in the record. A model whose class has no head
# is one of vectors without a list of modules, too.
names=$(head -c 4000 "$work/adapter/adapter_model.safetensors" | grep -aoE '"base_model[^"]*"' | head -2 | tr -d '"' | paste -sd' ')
[[ $names == "base_model.model.encoder.layer.0.attention.self.query.lora_A.weight base_model.model.encoder.layer.0.attention.self.query.lora_B.weight" ]]
check $? "adapters of vectors are called as PEFT has it" "$names"
expect 0 'compared with the last checkpoint: ([0-9]+) of \1 exported tensors' verify "$work/adapter"
cp -r "$work/vectors-of-judge" "$work/plain" && rm -r "$work"/plain/{modules.json,1_Pooling}
grep -q '"BertModel"' "$work/plain/config.json"
check $? "the class has no head"
run embed --model "$work/plain" --adapter "$work/adapter" --data "$work/texts.txt" --pooling mean --max-seq-length 16 --output "$work/adapted.npy" --quiet
check $code "a model without a head, with adapters" "$err"
for to in "$work/whole" "$work/whole.gguf"; do
    expect 0 '' export --model "$work/plain" --adapter "$work/adapter" --merge --to "$to"
    run embed --model "$to" --data "$work/texts.txt" --pooling mean --max-seq-length 16 --output "$work/merged.npy" --quiet
    tail -c +129 "$work/merged.npy" | od -An -v -tf4 -w4 >"$work/merged.txt"
    tail -c +129 "$work/adapted.npy" | od -An -v -tf4 -w4 | paste - "$work/merged.txt" |
        awk '{ d = $1 - $2; bad += d * d > 1e-10 } END { exit !(NR > 100 && !bad) }'
    check $? "$to: merged it has the vectors of the adapters" "$err"
done
finish
