#!/bin/bash
# SPDX-License-Identifier: MIT
# Classes that the data names: their number and names come from the labels where neither config.json nor
# --num-labels says them.
. "$(dirname "$0")/../lib.sh"
# verifies formats-59.92c8

kinds=(sport "world news" art)
for ((i = 0; i < 60; i++)); do
    printf '%s\t%s\n' "${kinds[i % 3]}" "${kinds[i % 3]} in words, number $i"
done >"$work/rows"
{ printf 'label\ttext\n' && cat "$work/rows"; } >"$work/rows.tsv"
{ echo 'label,text' && sed 's/\t/,"/; s/$/"/' "$work/rows"; } >"$work/rows.csv"
sed 's/\(.*\)\t\(.*\)/{"text": "\2", "label": "\1"}/' "$work/rows" >"$work/rows.jsonl"
common=(train --model tiny-bert --task classification --max-seq-length 32 --per-device-train-batch-size 6
    --max-steps 60 --learning-rate 2e-3 --threads 2 --json --seed 1)

for file in rows.tsv rows.csv rows.jsonl; do
    run "${common[@]}" --data "$work/$file" --output-dir "$work/${file/./-}"
    check "$code" "$file names its classes" "$err"
    grep -q "$file: 3 classes: art, sport, world news" <<<"$err"
    check $? "in their order" "$err"
    tr -d ' \n' <"$work/${file/./-}/config.json" >"$work/config"
    grep -q '"id2label":{"0":"art","1":"sport","2":"worldnews"}' "$work/config" &&
        grep -q '"label2id":{"art":0,"sport":1,"worldnews":2}' "$work/config"
    check $? "which config.json has then" "$(<"$work/config")"
    [[ $file == rows.tsv ]] && digest=$(json state_digest)
    [[ $(json state_digest) == "$digest" ]]
    check $? "$file: the same run" "$out"
done
# A directory that says the classes gives the same.
mkdir "$work/base"
run train --model tiny-bert --task classification --num-labels 3 --max-steps 0 --data "$work/rows.tsv" \
    --max-seq-length 32 --per-device-train-batch-size 6 --output-dir "$work/base" --seed 1
check "$code" "--num-labels with as many names" "$err"
run "${common[@]}" --model "$work/base" --data "$work/rows.csv" --output-dir "$work/again"
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "names of config.json are the ones of the data" "$out$err"

# Evaluation and predictions go by name; an unknown one is refused with its row.
run eval --model "$work/rows-csv" --data "$work/rows.jsonl" --predictions "$work/made.jsonl" --json
[[ $code -eq 0 && $(json accuracy) == 1 ]]
check $? "what was learnt is known" "$out$err"
grep -q '"prediction": "world news"' "$work/made.jsonl"
check $? "predictions have names"
{ echo 'label,text' && echo 'art,a' && echo '"culture",b'; } >"$work/other.csv"
expect 4 'other.csv:3: the label is.*found culture, expected one of its classes' "${common[@]}" --data "$work/rows.csv" \
    --eval-data "$work/other.csv" --output-dir "$work/x"
expect 4 'other.csv:3:.*found culture, expected one of its classes' eval --model "$work/rows-csv" --data "$work/other.csv"
expect 4 'other.csv:3:.*found culture, expected one of its classes' train --model "$work/rows-csv" --data "$work/other.csv" \
    --output-dir "$work/x" --max-steps 1 --per-device-train-batch-size 1

# Another number of classes than the model has makes a new head; the same number leaves it as it is.
{ cat "$work/rows.csv" && sed 's/"\(.*\)"/"more \1"/;s/^[a-z ]*,/four,/' <<<'x,"words"'; } >"$work/four.csv"
expect 4 'or in training another --num-labels, which makes a new head' train --model "$work/rows-csv" --data "$work/four.csv" --max-steps 1 --output-dir "$work/x"
four=(--model "$work/rows-csv" --task classification --data "$work/four.csv" --num-labels 4 --max-seq-length 32 --per-device-train-batch-size 6)
run train "${four[@]}" --max-steps 2 --output-dir "$work/x" --json
[[ $code -eq 0 && $(tr -d ' \n' <"$work/x/config.json") == *'"id2label":{"0":"art","1":"four","2":"sport","3":"worldnews"}'* ]]
check $? "a new head of four classes" "$out$err$(cat "$work/x/config.json")"
right=$(json arena_bytes)
run plan "${four[@]}" --json
[[ $(json num_labels) == 4 && $(json arena_bytes) == "$right" ]]
check $? "which plan counts" "$out$err"
rm -rf "$work/x"
judge=(train --task classification --max-seq-length 32 --per-device-train-batch-size 6 --max-steps 1 --quiet --json)
run "${judge[@]}" --model tiny-llama --data "$work/rows.csv" --output-dir "$work/judge"
run "${judge[@]}" --model "$work/judge" --data "$work/four.csv" --num-labels 4 --output-dir "$work/x"
[[ $code -eq 0 && $(json num_labels) == 4 ]]
check $? "a new head of a decoder" "$out$err"
rm -rf "$work/x"
run eval --model "$work/rows-csv" --data "$work/rows.csv" --num-labels 3 --json
[[ $code -eq 0 && $(json accuracy) == 1 ]]
check $? "as many classes as the model has" "$out$err"

# A run that is resumed finds the same classes.
rm -rf "$work/o"
run "${common[@]}" --data "$work/rows.tsv" --output-dir "$work/o" --stop-at-step 20
run "${common[@]}" --data "$work/rows.tsv" --output-dir "$work/o" --resume
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "resumed, bit for bit" "$out$err"

# Numbers are as they were: two classes, unless it is said.
sed 's/art/0/; s/sport/1/; s/world news/4/' "$work/rows" >"$work/numbers"
{ printf 'label\ttext\n' && cat "$work/numbers"; } >"$work/numbers.tsv"
expect 4 'numbers.tsv:3: the label is no class' "${common[@]}" --num-labels 2 --data "$work/numbers.tsv" --output-dir "$work/x"
expect 0 '"steps": 2' "${common[@]}" --data "$work/numbers.tsv" --num-labels 5 --output-dir "$work/n" --max-steps 2

# Several classes at a time.
for ((i = 0; i < 24; i++)); do
    case $((i % 4)) in 0) l='[]' ;; 1) l='["red"]' ;; 2) l='["green", "red"]' ;; 3) l='["blue"]' ;; esac
    printf '{"text": "colours %d", "label": %s}\n' "$i" "$l"
done >"$work/many.jsonl"
run "${common[@]}" --task multi-label-classification --data "$work/many.jsonl" --output-dir "$work/m" --max-steps 2
[[ $code -eq 0 ]] && tr -d ' \n' <"$work/m/config.json" | grep -q '"id2label":{"0":"blue","1":"green","2":"red"}'
check $? "any of several classes by name" "$err"

# What cannot be.
expect 4 'rows.tsv: .*another number of names.*found 3, expected 5' "${common[@]}" --num-labels 5 \
    --data "$work/rows.tsv" --output-dir "$work/x"
{ cat "$work/rows.tsv" && printf '7\tseven\n'; } >"$work/mixed.tsv"
expect 4 'mixed.tsv:62: the label is a number, and those before' "${common[@]}" --data "$work/mixed.tsv" \
    --output-dir "$work/x"
{ printf '1\tone\nart\tpaint\n'; } >"$work/mixed.tsv"
expect 4 'mixed.tsv:2: the label is neither a number nor.*found art, expected one of its classes' "${common[@]}" --data "$work/mixed.tsv" \
    --output-dir "$work/x"
grep -v 'sport\|world' "$work/rows.tsv" >"$work/one.tsv"
expect 4 'one.tsv: all labels of the data are the same' "${common[@]}" --data "$work/one.tsv" --output-dir "$work/x"
{ echo 'label,text' && for ((i = 0; i < 1100; i++)); do echo "name$i,text"; done; } >"$work/names.csv"
expect 4 'names.csv:1[0-9]*: the data has more names' "${common[@]}" --data "$work/names.csv" --output-dir "$work/x"
[[ ! -e $work/x ]]
check $? "nothing is left behind"
finish
