#!/bin/bash
# SPDX-License-Identifier: MIT
# Pairs of texts with a label, as GLUE's tasks have them: tokens of the second text have type 1, and the longer text of
# a pair is cut first. The logits are those of transformers (tools/golden/pairs.py).
. "$(dirname "$0")/../lib.sh"
# verifies run-35.b20a
golden=tests/golden/pairs

mkdir "$work/base"
cp $golden/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/base"
common=(--task classification --max-seq-length 24 --threads 2)
train=(train --model "$work/base" "${common[@]}" --quiet --json)
run "${train[@]}" --data $golden/rows.tsv --max-steps 0 --output-dir "$work/m"
check $code "a model of random weights" "$err"
run eval --model "$work/m" "${common[@]}" --data $golden/rows.tsv --predictions "$work/p.jsonl"
grep -q 'rows.tsv: 23 of 40 examples are longer than --max-seq-length 24: the longer text of each is cut first' <<<"$err"
check $? "what is cut is said" "$err"
sed -E 's/.*"logits": \[//; s/[],}]//g' "$work/p.jsonl" | paste -d' ' - $golden/logits.txt | awk '
    { a = $1 - $3; b = $2 - $4; bad += a * a > 1e-10 || b * b > 1e-10; most = $4 * $4 > most ? $4 * $4 : most }
    END { exit !(NR == 40 && !bad && most > 0.01) }'
check $? "logits of pairs are those of transformers" "$(paste "$work/p.jsonl" $golden/logits.txt | head -3)"

# The same as JSON lines, under other names, and as CSV.
awk -F'\t' 'NR > 1 { gsub(/["\\]/, "\\\\&"); printf "{\"label\": \"%s\", \"text_pair\": \"%s\", \"text\": \"%s\"}\n", $4, $3, $2 }' \
    $golden/rows.tsv >"$work/rows.jsonl"
sed 's/"text_pair"/"hypothesis"/; s/"text"/"premise"/' "$work/rows.jsonl" >"$work/named.jsonl"
awk -F'\t' '{ gsub(/"/, "\"\""); printf "\"%s\",%s,\"%s\"\n", $2, $4, $3 }' $golden/rows.tsv >"$work/rows.csv"
sed 's/"text_pair"/"sentence"/; s/"text"/"question"/' "$work/rows.jsonl" >"$work/asked.jsonl"
for file in rows.jsonl named.jsonl asked.jsonl rows.csv; do
    run eval --model "$work/m" "${common[@]}" --data "$work/$file" --predictions "$work/q.jsonl"
    cmp -s "$work/p.jsonl" "$work/q.jsonl"
    check $? "$file: the same predictions" "$err"
done

# Training: the same bits with accumulation by any policy, released, resumed; planned as it is run.
learn=("${train[@]}" --data $golden/rows.tsv --learning-rate 1e-2 --max-steps 12 --max-grad-norm 0)
same_bits --model "$work/base" "${common[@]}" --max-grad-norm 0 --text-pairs -- "${learn[@]}"
run "${learn[@]}" --output-dir "$work/f" --per-device-train-batch-size 8 --max-steps 60 --validation-split 0.25 --bf16
[[ $code -eq 0 && $(json eval_accuracy) =~ ^[01] ]]
check $? "part of the pairs is held out" "$out$err"
# What is learnt from the second text alone needs its tokens and their types.
awk 'BEGIN { print "sentence1\tsentence2\tlabel"; for (i = 0; i < 64; i++) printf "%s\t%s\t%d\n", i % 4 < 2 ? "the" : "and", i % 2 ? "the" : "and", i % 2 }' \
    >"$work/which.tsv"
run "${train[@]}" --num-labels 2 --data "$work/which.tsv" --output-dir "$work/g" --max-seq-length 8 --max-steps 150 \
    --learning-rate 1e-2 --validation-split 0.25
[[ $(json eval_accuracy) == 1 ]]
check $? "which of two texts a word stands in is learnt" "$out$err"
# Models without token types read one text behind the other.
expect 0 '"eval_accuracy"' train --model tiny --task classification --data "$work/which.tsv" --output-dir "$work/h" \
    --max-steps 3 --max-seq-length 8 --validation-split 0.25 --quiet --json

# What is refused.
bad() {
    printf "$2" >"$work/$1"
    expect 4 "$3" train --model tiny-bert --task classification --data "$work/$1" --output-dir "$work/x"
}
bad bad.jsonl '{"text": "a", "text_pair": "b", "label": 1}\n{"text": "a", "label": 1}\n' \
    'bad.jsonl:2: what comes before has another number of texts'
bad bad.jsonl '{"text": "a", "text_pair": 5, "label": 1}\n' ':1.*text, text_pair, prompt and completion are strings'
bad bad.jsonl '{"text_pair": "b", "label": 1}\n' ':1: the line lacks `text` or `label`'
bad bad.tsv 'sentence2\tsentence1\tlabel\na\tb\t1\n' 'the column of the second text is before that of the first'
bad bad.tsv 'sentence2\tlabel\na\t1\n' 'the column of the second text is before that of the first, or is the only one'
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
finish
