#!/bin/bash
# SPDX-License-Identifier: MIT
# Token classification: words with tags from JSON and from columns, classes and entities as transformers and seqeval
# have them (tools/golden/tagged.py), adapters, policies, resuming.
# verifies formats-22.c8a1
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/tagged
task=(--task token-classification --max-seq-length 24 --threads 2)

mkdir "$work/base"
cp $golden/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/base"
run train --model "$work/base" "${task[@]}" --data $golden/rows.jsonl --max-steps 0 --quiet --json --output-dir "$work/m"
check $code "a model of random weights" "$err"
grep -q '"id2label": {"0": "B-LOC", "1": "B-ORG", .*"8": "S-ORG"}' "$work/m/config.json" &&
    grep -q 'BertForTokenClassification' "$work/m/config.json"
check $? "the classes are those of the data" "$(cat "$work/m/config.json")"

# Loss, accuracy and entities, first pieces or all of them; from every form of file.
for all in "" all_; do
    run eval --model "$work/m" "${task[@]}" --task auto --data $golden/rows.jsonl --json ${all:+--label-all-tokens}
    for key in loss tokens accuracy precision recall f1; do
        near $key $all$key
    done
done
(echo -n '['; sed 's/$/,/; $s/,$/]/' $golden/rows.jsonl) >"$work/rows.json"
sed 's/"tokens"/"words"/; s/"ner_tags"/"labels"/' $golden/rows.jsonl >"$work/named.jsonl"
sed 's/"ner_tags"/"tags"/' $golden/rows.jsonl | sed 's/$/\r/' >"$work/crlf.jsonl"
tr ' ' '\t' <$golden/columns.txt >"$work/tabs.tsv"
gzip -c $golden/columns.txt >"$work/columns.txt.gz"
# CoNLL-U with the tag as UPOS, comments, ranges and empty nodes; columns with comments as MultiCoNER has them.
awk 'BEGIN { OFS = "\t" } NF == 0 { n = 0; print ""; next } n == 0 { print "# text = A = B"; print "# newpar" }
    { n++; if (n == 1) print "1-2", "Xy", "_", "_", "_", "_", "_", "_", "_", "_"
      print n, $1, "_", $NF, "_", "Number=Sing", "0", "root", "_", "SpaceAfter=No"
      if (n == 2) print "2.1", "Z", "_", "X", "_", "_", "_", "_", "_", "_" }' $golden/columns.txt >"$work/u.conllu"
awk 'NF == 0 { n = 0; print ""; next } n++ == 0 { print "# id 1 domain=en" } { print }' $golden/columns.txt >"$work/id.conll"
for file in $golden/rows.jsonl $golden/columns.txt "$work/columns.txt.gz" "$work/rows.json" "$work/named.jsonl" "$work/crlf.jsonl" "$work/tabs.tsv" \
    "$work/u.conllu" "$work/id.conll"; do
    run eval --model "$work/m" "${task[@]}" --task auto --data "$file" --predictions "$work/p.jsonl" --json
    near loss loss
    sed -E 's/.*"prediction": \[//; s/\].*//; s/[",]//g; s/null/-/g' "$work/p.jsonl" | cmp -s - $golden/words.txt
    check $? "$file: classes of words are those of transformers" "$(head -2 "$work/p.jsonl")"
done
grep -q '^{"index": 0, "words": \[".*"\], "prediction": \[".*\], "label": \[".*"\]}$' "$work/p.jsonl"
check $? "a line for each sentence" "$(head -2 "$work/p.jsonl")"
[[ $(grep -o '"entities": {"LOC": {"precision": [0-9.]*, "recall": [0-9.]*, "f1": [0-9.]*, "number": [0-9]*}, "ORG"' <<<"$out") ]]
check $? "entities of each type" "$out"
for batch in 1 7; do
    run eval --model "$work/m" "${task[@]}" --data $golden/rows.jsonl --predictions "$work/q.jsonl" --per-device-eval-batch-size $batch
    cmp -s "$work/p.jsonl" "$work/q.jsonl"
    check $? "in batches of $batch the same file" "$err"
done

printf '1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n2\tb\t_\tX\n' >"$work/short.conllu"
expect 4 'short.conllu:2: the line of CoNLL-U .*found 4, expected 10' eval --model "$work/m" "${task[@]}" --data "$work/short.conllu"

# Words without tags, and a held-out part.
awk 'NF == 0 { print ""; next } { print $1 }' $golden/columns.txt >"$work/bare.txt"
run eval --model "$work/m" "${task[@]}" --data "$work/bare.txt" --predictions "$work/q.jsonl" --json
[[ $code -eq 0 && $(json rows) == 48 ]] && cmp -s <(sed 's/, "label".*/}/' "$work/p.jsonl") "$work/q.jsonl"
check $? "words without tags are judged all the same" "$out$err"
expect 4 'bare.txt:15: the words have no tags' eval --model "$work/m" "${task[@]}" --data "$work/bare.txt"
run eval --model "$work/m" "${task[@]}" --data $golden/rows.jsonl --predictions "$work/q.jsonl" --validation-split 0.25
cmp -s <(tail -12 "$work/p.jsonl" | sed 's/"index": [0-9]*//') <(sed 's/"index": [0-9]*//' "$work/q.jsonl")
check $? "of a part its sentences" "$(head -1 "$work/q.jsonl")"

# Training: the same bits by any policy, released, resumed; planned as it is run.
train=(train --model "$work/base" "${task[@]}" --quiet --json --data $golden/rows.jsonl --learning-rate 1e-2)
learn=("${train[@]}" --max-steps 12 --max-grad-norm 0)
same_bits --model "$work/base" "${task[@]}" --num-labels 9 --max-grad-norm 0 -- "${learn[@]}"
run "${learn[@]}" --output-dir "$work/e" --per-device-train-batch-size 8 --resume --label-all-tokens
[[ $code -ne 0 ]]
check $? "a resumed run keeps its labels" "$out$err"
run "${train[@]}" --output-dir "$work/f" --max-steps 200 --eval-data $golden/columns.txt --bf16
awk -v a="$(json eval_accuracy)" 'BEGIN { exit !(a > 0.9) }'
check $? "tags are learnt" "$out$err"
grep -q '"eval_f1"' <<<"$out"
check $? "evaluations of a training count entities" "$out"

# Weighted classes and smoothed labels: the loss and the norm of a first step over all rows, from every form of a
# kernel; evaluations; the same bits by any policy.
weights=(--class-weights 0.25,0.5,0.75,1,0.25,0.5,0.75,1,0.25)
first=(train --model "$work/m" "${task[@]}" --quiet --json --data $golden/rows.jsonl --eval-data $golden/rows.jsonl --max-steps 1
    --per-device-train-batch-size 48 --learning-rate 0 --logging-steps 1)
step() { # NAME OPTIONS..: golden values NAME_loss and NAME_norm
    run "${first[@]}" --output-dir "$work/l" "${@:2}"
    near loss "$1_loss" "$(grep -oE '"loss": [^,]*' <<<"$out" | head -1 | sed 's/.*: //')"
    near loss "$1_loss" "$(json eval_loss)"
    [[ $1 == smooth ]] || near grad_norm "$1_norm" "$(grep -oE '"grad_norm": [^,]*' <<<"$out" | head -1 | sed 's/.*: //')"
    rm -rf "$work/l"
}
step weighted "${weights[@]}"
step both "${weights[@]}" --label-smoothing-factor 0.2
step both "${weights[@]}" --label-smoothing-factor 0.2 --kernels $other_kernels --length-buckets none --loss-chunk-rows 100 \
    --per-device-train-batch-size 16 --gradient-accumulation-steps 3
step smooth --label-smoothing-factor 0.2
rm -rf "$work"/[a-e]
same_bits --model "$work/base" "${task[@]}" --num-labels 9 --max-grad-norm 0 --class-weights balanced -- "${learn[@]}" --class-weights balanced
rm -rf "$work"/[a-e]
balanced=$(sed -n 's/.*"balanced": "\(.*\)".*/\1/p' $golden/eval.json)
run "${learn[@]}" --output-dir "$work/a" --max-seq-length 32 --class-weights balanced
digest=$(json state_digest)
run "${learn[@]}" --output-dir "$work/b" --max-seq-length 32 --class-weights "$balanced"
[[ -n $digest && $(json state_digest) == "$digest" ]]
check $? "balanced is $balanced" "$out$err"

# Adapters keep the head beside them.
run "${train[@]}" --output-dir "$work/g" --max-steps 60 --lora-r 4 --target-modules all-linear --eval-data $golden/rows.jsonl
loss=$(json eval_loss)
grep -q '"task_type": "TOKEN_CLS"' "$work/g/adapter_config.json" && grep -q '"modules_to_save": \["classifier"\]' "$work/g/adapter_config.json"
check $? "adapters with their head" "$out$err$(cat "$work/g/adapter_config.json")"
run eval --model "$work/base" "${task[@]}" --num-labels 9 --adapter "$work/g" --data $golden/rows.jsonl --json
[[ -n $loss && $(json loss) == "$loss" ]]
check $? "the adapter's head serves a base without one" "$out$err"

# What is refused.
bad() { # FILE CONTENT PATTERN
    printf "$2" >"$work/$1"
    expect 4 "$3" train --model tiny-bert --task token-classification --data "$work/$1" --output-dir "$work/x"
}
bad bad.jsonl '{"tokens": ["a", "b"], "ner_tags": [0]}\n' 'bad.jsonl:1: the sentence has another number of tags.*found 1'
bad bad.jsonl '{"tokens": ["a"], "ner_tags": [0]}\n{"tokens": ["a"]}\n' ':2: what comes before is otherwise: all sentences'
bad bad.jsonl '{"tokens": "a b", "ner_tags": [0]}\n' ':1.*words and tags are lists'
bad bad.jsonl '{"tokens": [7], "ner_tags": [0]}\n' ':1.*a word is not a string'
bad bad.jsonl '{"tokens": ["a"], "ner_tags": [-1]}\n' ':1: the label is no class'
echo '{"text": "a"}' >"$work/bad.jsonl"
expect 2 '--task: bad.jsonl holds plain text .*found token-classification' train --model tiny-bert --task token-classification --data "$work/bad.jsonl" --output-dir "$work/x"
bad bad.jsonl '{"tokens": ["a"], "ner_tags": [0]\n' 'bad.jsonl'
bad bad.jsonl '' 'the data holds no tagged words'
bad bad.txt 'a B-X\nb\n' ':2: the word has no tag'
bad bad.csv 'a,b\n' 'token-classification reads JSON'
printf 'a B-NEW\n' >"$work/other.txt"
expect 4 'other.txt:[0-9]+: .*name of a class that the model.s id2label has.*B-NEW' eval --model "$work/m" "${task[@]}" --data "$work/other.txt"
expect 2 'token-classification and question-answering need bert' train --model tiny --task token-classification \
    --data $golden/rows.jsonl --output-dir "$work/x"
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
finish
