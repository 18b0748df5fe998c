#!/bin/bash
# SPDX-License-Identifier: MIT
# Columns of text and label: every form of header in every format for every task gives the run that the plain names
# give, or is refused; what was found is printed.
. "$(dirname "$0")/../lib.sh"
# verifies formats-71.e6f5

# Rows of a task: label, text, and second text of pairs.
rows_of() {
    local i
    for ((i = 0; i < 12; i++)); do
        case $1 in
        classification) printf '%d\ttext %d\n' $((i % 2)) $i ;;
        multi-label-classification) printf '%s\ttext %d\n' "$([[ $((i % 2)) -eq 0 ]] && echo '1 0 1' || echo '0 0 0')" $i ;;
        regression) printf '%d.5\ttext %d\n' $i $i ;;
        embedding) printf '0.%d\tfirst %d\tother %d\n' $i $i $i ;;
        mlp) printf '%d\t%d\t0.5\n' $((i % 2)) $i ;;
        esac
    done
}

# A file of these rows. FORMAT HEADER.. (label, text, second; - for none)
put_file() {
    local format=$1 label=$2 text=${3:-} second=${4:-}
    case $format in
    jsonl)
        awk -F'\t' -v l="$label" -v t="$text" -v s="$second" -v many="$task" '{
            v = $1
            if (many ~ /^multi/) { gsub(" ", ",", v); v = "[" v "]" }
            printf "{\"%s\": \"%s\", ", t, $2
            if (s != "") printf "\"%s\": \"%s\", ", s, $3
            printf "\"%s\": %s}\n", l, v }' "$work/rows"
        ;;
    *)
        local d=$'\t'
        [[ $format == tsv ]] || d=,
        [[ $label == - ]] || printf '%s\n' "$text$d${second:+$second$d}$label"
        awk -F'\t' -v OFS="$d" '{ if (NF > 2) print $2, $3, $1; else print $2, $1 }' "$work/rows"
        ;;
    esac >"$work/data.$format"
}

learn() { # OPTIONS..: trains two steps; the digest is in $digest
    rm -rf "$work/run"
    run train "${model[@]}" --data "$work/data.$format" --output-dir "$work/run" --max-steps 2 --threads 1 --json \
        --per-device-train-batch-size 4 "$@"
    digest=$(json state_digest)
}

same() { # NAME: what was just learned is what the plain names give
    [[ $code -eq 0 && $digest == "$plain" ]]
    check $? "$task, $format: $1" "$out$err"
}

refused() { # NAME
    [[ $code -eq 4 && ! -e $work/run ]]
    check $? "$task, $format: $1 is refused" "$code $out$err"
}

for task in classification multi-label-classification regression embedding; do
    model=(--model tiny-bert --task $task --max-seq-length 16)
    [[ $task != multi* ]] || model+=(--num-labels 3)
    second='' third=''
    [[ $task != embedding ]] || { second=sentence2 third=Sentence2; }
    rows_of $task >"$work/rows"
    names=(label text)
    [[ $task != embedding ]] || names=(label sentence1)
    plain=''
    for format in csv tsv jsonl; do
        put_file $format "${names[@]}" $second
        learn
        [[ -n $plain ]] || plain=$digest
        same "plain names"
        grep -q "data.$format: text in .*\"${names[1]}\".* in .*\"label\"" <<<"$err"
        check $? "$task, $format: which are printed" "$err"
        put_file $format Score "${names[1]^^}" $third
        learn
        same "other names in any case"
        put_file $format bar foo $second
        learn
        refused "a header of unknown names"
        learn --text-column foo --label-column bar
        same "unknown names that are asked for"
        learn --text-column foo --label-column none
        [[ $task == embedding ]] || refused "a column that is not there"
        [[ $format != jsonl && $task != embedding ]] || continue
        put_file $format - -
        learn
        [[ $task == regression || $task == classification || $task == multi* ]] && same "no header"
        grep -q "data.$format: text in column 1, label in column 2, no header" <<<"$err"
        check $? "$task, $format: the columns of no header are printed" "$err"
        learn --no-header
        same "a header that is denied"
        learn --no-header --text-column 1 --label-column 2
        same "columns by number"
        learn --no-header --label-column 1
        [[ $code -eq 4 || $code$task == 2regression || $task == classification ]] # whose classes may be any texts
        check $? "$task, $format: a text is no label" "$out$err"
    done
done

# Numbers: the label is named, or the last column of no header.
printf '{"model_type": "mlp", "input_size": 2, "hidden_sizes": [3], "num_labels": 2}\n' >"$work/config.json"
mkdir "$work/mlp"
mv "$work/config.json" "$work/mlp"
task=mlp
model=(--model "$work/mlp" --task classification)
rows_of mlp >"$work/rows"
plain=''
for format in csv tsv; do
    put_file $format label a b
    learn
    [[ -n $plain ]] || plain=$digest
    same "a table of numbers"
    put_file $format CLASS a b
    learn
    same "another name in capitals"
    grep -q "data.$format: label in column 3 \"CLASS\"" <<<"$err"
    check $? "which is printed" "$err"
    put_file $format y score rating
    learn
    refused "a header of numbers that could be anything"
    put_file $format c a b
    learn
    refused "a header without a label"
    learn --label-column c
    same "a label that is asked for"
    put_file $format -
    learn
    same "no header"
    learn --no-header
    same "a header that is denied"
    learn --no-header --label-column 3
    same "a column by number"
    put_file $format label a target
    learn
    refused "two columns that could be the label"
done

# Tags of words: lists of other names, a header of columns.
task=token-classification
model=(--model tiny-bert --task $task --max-seq-length 16)
for ((i = 0; i < 8; i++)); do printf '{"tokens": ["a", "word"], "ner_tags": ["O", "B-x"]}\n'; done >"$work/data.jsonl"
format=jsonl
learn
plain=$digest
check $code "words and tags" "$err"
sed -i 's/tokens/w/; s/ner_tags/t/' "$work/data.jsonl"
learn
refused "lists of unknown names"
learn --text-column w --label-column t
same "lists that are asked for"
format=tsv
for ((i = 0; i < 8; i++)); do printf 'a\tO\nword\tB-x\n\n'; done >"$work/data.tsv"
learn
same "columns of words"
{ printf 'Word\tTag\n' && for ((i = 0; i < 8; i++)); do printf 'a\tO\nword\tB-x\n\n'; done; } >"$work/data.tsv"
learn
same "under a header"

# Texts of a language model, by another field; and where the options say nothing.
printf '{"body": "some text to learn, long enough for a row or two of them", "text": "x"}\n' >"$work/lm.jsonl"
expect 0 '"steps": 1' train --model tiny --data "$work/lm.jsonl" --text-column body --max-seq-length 8 \
    --per-device-train-batch-size 2 --max-steps 1 --output-dir "$work/lm" --json
expect 4 'neither `text` nor' train --model tiny --data "$work/lm.jsonl" --text-column nobody --max-seq-length 8 \
    --max-steps 1 --output-dir "$work/x"
expect 2 '.--label-column' train --model tiny --task causal-lm --data "$work/lm.jsonl" --label-column body --max-seq-length 8 \
    --max-steps 1 --output-dir "$work/x"
expect 2 '.--no-header' train --model tiny --data "$work/lm.jsonl" --no-header --max-seq-length 8 --output-dir "$work/x"
expect 2 '.--label-form' train --model tiny-bert --task classification --label-form classes --data "$work/data.csv" \
    --output-dir "$work/x"
finish
