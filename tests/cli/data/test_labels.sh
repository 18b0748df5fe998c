#!/bin/bash
# SPDX-License-Identifier: MIT
# Texts with labels: one class, any of several, a number; from tables and from JSON lines.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 40; i++) printf "%d\t%s %d\n", i % 2, i % 2 ? "good film" : "bad film", i * i }' >"$work/films.tsv"
awk -F'\t' '{ printf "{\"text\": \"%s\", \"label\": %d}\n", $2, $1 }' "$work/films.tsv" >"$work/films.jsonl"
awk -F'\t' 'BEGIN { print "text,label" } { printf "\"%s\",%d\n", $2, $1 }' "$work/films.tsv" >"$work/films.csv"
common=(--model tiny-bert --task classification --max-seq-length 16 --per-device-train-batch-size 8
    --learning-rate 3e-3 --threads 2)

run train "${common[@]}" --data "$work/films.tsv" --output-dir "$work/a" --max-steps 40 --json
check $((code != 0)) "train a classifier on a table" "$err"
digest=$(json state_digest)
last=$(json loss)
grep -q "films.tsv: [0-9]* tokens of 40 documents" <<<"$err"
check $? "40 texts" "$err"
for form in jsonl csv; do
    run train "${common[@]}" --data "$work/films.$form" --output-dir "$work/$form" --max-steps 40 --json
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$form: the same texts, the same training" "$out$err"
done
run eval --model "$work/a" --task classification --data "$work/films.tsv" --max-seq-length 16 --json
[[ $(json tokens) -eq 40 ]] && awk -v l="$(json loss)" 'BEGIN { exit !(l < 0.3) }'
check $? "40 labels, learned" "$out$err"

run train "${common[@]}" --data "$work/films.tsv" --output-dir "$work/b" --max-steps 40 --stop-at-step 17
run train "${common[@]}" --data "$work/films.tsv" --output-dir "$work/b" --max-steps 40 --resume --json
[[ $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"
run train "${common[@]}" --data "$work/films.tsv" --output-dir "$work/c" --max-steps 5 --validation-split 0.2 \
    --max-seq-length 8 --json
[[ $code -eq 0 ]] && grep -q '"eval_tokens": 8' <<<"$out" && grep -q '40 of 40 examples are longer.*: their ends are cut$' <<<"$err"
check $? "a fifth of the texts is held out; texts are cut, which is said" "$out$err"

# What is wrong with a table says what was found.
printf 'label\ttext\n1\tgood\nnever\tbad\n' >"$work/word.tsv"
expect 4 'word.tsv:3: the label is neither a number nor.*found never, expected one of its classes' train "${common[@]}" \
    --data "$work/word.tsv" --output-dir "$work/x"
printf 'label\ttext\n1\tgood\n7\tbad\n' >"$work/range.tsv"
expect 4 'range.tsv:3: the label is no class of the model: found 7, expected at most 1' train "${common[@]}" --num-labels 2 \
    --data "$work/range.tsv" --output-dir "$work/x"
printf 'label\ttext\tlabel\n1\tgood\t0\n' >"$work/two.tsv"
expect 4 'two.tsv:1: the table has two columns that could be the label' train "${common[@]}" \
    --data "$work/two.tsv" --output-dir "$work/x"
[[ ! -e $work/x ]]
check $? "none of these made the output directory"

# true and false are two classes by Python's names, as pandas writes them into a table: the same run. They are no numbers.
printf 'text,label\na,True\nb,False\nc,True\n' >"$work/truth.csv"
printf '{"text": "a", "label": true}\n{"text": "b", "label": false}\n{"text": "c", "label": true}\n' >"$work/truth.jsonl"
for task in '' '--task classification'; do
    for form in csv jsonl; do
        # shellcheck disable=SC2086
        run train --model tiny-bert $task --max-seq-length 8 --max-steps 2 --json --quiet --data "$work/truth.$form" \
            --output-dir "$work/by.$form$task"
        json state_digest >"$work/$form.digest"
    done
    [[ -s $work/csv.digest ]] && cmp -s "$work/csv.digest" "$work/jsonl.digest"
    check $? "true and false: as a table has them ${task:-by the data}" "$out$err"
    grep -q '"label2id": {"False": 0, "True": 1}' "$work/by.jsonl$task/config.json"
    check $? "and by their names in the model ${task:-by the data}" "$(cat "$work/by.jsonl$task/config.json")"
done
expect 2 'found regression, expected classification' train --model tiny-bert --task regression --max-seq-length 8 --max-steps 2 \
    --data "$work/truth.jsonl" --output-dir "$work/x"

# Any of several classes, and a number.
printf '{"text": "a", "label": [0, 2]}\n{"text": "b", "label": []}\n{"text": "c", "label": 1}\n' >"$work/any.jsonl"
expect 0 '"steps": 3' train "${common[@]}" --task multi-label-classification --num-labels 3 --data "$work/any.jsonl" \
    --output-dir "$work/d" --max-steps 3 --json
# Multi-hot labels, as transformers' multi_label_classification has them, are the classes that they mean.
# verifies formats-70.8053
some=(--task multi-label-classification --num-labels 3 --max-steps 3 --json)
printf '{"text": "a", "label": [0, 2]}\n{"text": "b", "label": []}\n{"text": "c", "label": [1]}\n' >"$work/list.jsonl"
printf '{"text": "a", "label": [1, 0, 1]}\n{"text": "b", "label": [0, 0, 0]}\n{"text": "c", "label": [0, 1, 0]}\n' >"$work/hot.jsonl"
sed 's/\([01]\)\([],]\)/\1.0\2/g' "$work/hot.jsonl" >"$work/floats.jsonl"
sed 's/\[0/[false/; s/, 0/, false/g; s/\[1/[true/; s/, 1/, true/g' "$work/hot.jsonl" >"$work/truths.jsonl"
printf 'text,label\na,1 0 1\nb,0 0 0\nc,0 1 0\n' >"$work/hot.csv"
run train "${common[@]}" "${some[@]}" --data "$work/list.jsonl" --output-dir "$work/list"
digest=$(json state_digest)
for file in hot.jsonl floats.jsonl truths.jsonl hot.csv; do
    run train "${common[@]}" "${some[@]}" --data "$work/$file" --output-dir "$work/hot-$file"
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$file: the classes that hold" "$out$err"
done
run eval --model "$work/hot-hot.csv" --data "$work/hot.jsonl" --predictions "$work/hot.out" --max-seq-length 16
[[ $(grep -o '"label": [^]]*]' "$work/hot.out" | tr -d '\n') == \
    '"label": ["LABEL_0", "LABEL_2"]"label": []"label": ["LABEL_1"]' ]]
check $? "and their targets" "$(<"$work/hot.out")"
printf '{"text": "a", "label": [0, 1]}\n' >"$work/both.jsonl"
expect 4 'both.jsonl:1: the label could be multi-hot or a list of classes: --label-form' train "${common[@]}" "${some[@]}" \
    --num-labels 2 --data "$work/both.jsonl" --output-dir "$work/x"
for form in multi-hot classes; do
    expect 0 '"steps": 3' train "${common[@]}" "${some[@]}" --num-labels 2 --data "$work/both.jsonl" --label-form $form \
        --output-dir "$work/both-$form"
    run eval --model "$work/both-$form" --data "$work/both.jsonl" --label-form $form --predictions "$work/$form.out" --max-seq-length 16
done
grep -q '"label": \["LABEL_1"\]' "$work/multi-hot.out" && grep -q '"label": \["LABEL_0", "LABEL_1"\]' "$work/classes.out"
check $? "as it is said" "$(cat "$work"/*.out)"

# Numbers as pandas writes them.
sed 's/^\([01]\)/\1.0/' "$work/films.tsv" >"$work/pandas.tsv"
run train "${common[@]}" --data "$work/films.tsv" --output-dir "$work/plain" --max-steps 3 --json
digest=$(json state_digest)
run train "${common[@]}" --data "$work/pandas.tsv" --output-dir "$work/pandas" --max-steps 3 --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "1.0 is class 1" "$out$err"

printf '0.5\tlukewarm\n-1.25\tcold\n' >"$work/warm.tsv"
expect 0 '"steps": 3' train "${common[@]}" --task regression --data "$work/warm.tsv" --output-dir "$work/e" --max-steps 3 --json

# A base of another task lacks the head, which training begins anew; nothing else may be missing.
for base in tiny-bert tiny tiny-llama; do
    task=causal-lm
    [[ $base != tiny-bert ]] || task=masked-lm
    run train --model $base --task $task --data "$work/films.tsv" --data-format text --output-dir "$work/base-$base" \
        --max-steps 1 --max-seq-length 16
    new=(--model "$work/base-$base" --task classification --max-seq-length 16 --data "$work/films.tsv")
    expect 0 '"steps": 2' train "${new[@]}" --output-dir "$work/new-$base" --max-steps 2 --json
    grep -q '\(classifier\|score\).weight: a tensor of the model is missing in the file (allowed)' <<<"$err"
    check $? "the new head is named" "$err"
    expect 0 '"accuracy"' eval --model "$work/new-$base" --data "$work/films.tsv" --max-seq-length 16 --json
    expect 4 'is missing in the file' eval "${new[@]}"
    expect 4 'is missing in the file' train "${new[@]}" --lora-r 2 --output-dir "$work/y"
done

# What the configuration calls its classes, and what it was made for.
names='"id2label":{"0":"good","1":"so so","2":"\\u00fcbel"}'
mkdir "$work/named"
sed "s/\"id2label\".*/$names,/; s/\"label2id\".*//" "$work/a/config.json" >"$work/named/config.json"
printf 'a film\tgood\nb film\tso so\nc film\tübel\nd film\t1\n' >"$work/named.tsv"
printf '{"text":"a film","label":"good"}\n{"text":"b film","label":"so so"}\n{"text":"c film","label":"übel"}\n{"text":"d film","label":1}\n' \
    >"$work/named.jsonl"
named=("${common[@]}" --model "$work/named" --max-steps 3 --json)
run train "${named[@]}" --data "$work/named.tsv" --output-dir "$work/f"
digest=$(json state_digest)
grep -q '"1": "so so", "2": "übel"' "$work/f/config.json" && grep -q '"so so": 1' "$work/f/config.json"
check $? "the model keeps the names of its classes" "$err"
run train "${named[@]}" --data "$work/named.jsonl" --output-dir "$work/g"
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "names of classes are labels, in either column and in JSON lines" "$out$err"
sed -i 's/"problem_type".*/"problem_type": "multi_label_classification",/' "$work/named/config.json"
printf '{"text":"a","label":["good","übel"]}\n{"text":"b","label":[]}\n' >"$work/some.jsonl"
expect 0 '"steps": 3' train "${named[@]}" --data "$work/some.jsonl" --output-dir "$work/h"
printf '{"text":"a","label":["better"]}\n' >"$work/some.jsonl"
expect 4 ':1: the label is neither' train "${named[@]}" --data "$work/some.jsonl" --output-dir "$work/x"

# Bad labels.
bad() {
    printf "$2" >"$work/$1"
    expect 4 "$3" train "${common[@]}" --data "$work/$1" --output-dir "$work/x" "${@:4}"
}
bad bad.tsv '1\tgood\n2\tbetter\n' 'bad.tsv:2: the label is no class of the model: found 2, expected at most 1' --num-labels 2
bad bad.tsv '1\tgood\n-1\tbad\n' 'bad.tsv:2: the label is no class of the model: found -1'
bad bad.tsv '1\tgood\ntwo\tbad\n' 'bad.tsv:2: the label is neither a number nor'
bad bad.tsv '1\tgood\n\n1\n' 'bad.tsv:3: the row has another number of fields: found 1, expected 2'
bad bad.csv 'text,label\n"open,1\n' 'bad.csv:2: a quoted field has no end'
bad bad.jsonl '{"text": "a", "label": 3}' 'bad.jsonl:1: the label is no class' --num-labels 2
echo '{"text": "a"}' >"$work/bad.jsonl"
echo 'a text that has no label' >"$work/bad.txt"
for file in bad.jsonl bad.txt; do
    expect 2 "--task: $file holds plain text.*found classification, expected causal-lm" train "${common[@]}" --data "$work/$file" --output-dir "$work/x"
done
bad bad.tsv '3\tx\n' 'bad.tsv:1: the label is no class' --task multi-label-classification --num-labels 3
[[ ! -e $work/x ]]
check $? "none of these made the output directory"

# An llm.c file has no place for a classifier: it is not left out silently.
run train --model tiny --task classification --data "$work/films.tsv" --max-seq-length 16 --max-steps 0 --output-dir "$work/heads"
expect 2 'no place for a classifier' export --model "$work/heads" --format llmc --to "$work/g.bin"
expect 2 'score.weight: the format has no name' export --model "$work/heads" --format gguf --to "$work/g.gguf"
[[ ! -e $work/g.bin && ! -e $work/g.gguf ]]
check $? "and nothing was written"
finish
