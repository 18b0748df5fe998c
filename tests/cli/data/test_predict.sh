#!/bin/bash
# SPDX-License-Identifier: MIT
# What classifiers and regressions predict: a JSON line for each row, and how often they are right.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 41; i++) printf "%d\t%s %d\n", i % 3, i % 2 ? "good film" : "bad film", i * i }' >"$work/films.tsv"
common=(--task classification --data "$work/films.tsv" --max-seq-length 16 --threads 2)
train=(train --model tiny-bert --num-labels 3 --per-device-train-batch-size 8 --learning-rate 1e-3 --quiet --json)
run "${train[@]}" "${common[@]}" --output-dir "$work/a" --max-steps 10 --validation-split 0.3 --eval-steps 5
check $code "a classifier" "$err"
[[ $(grep -c '"eval_accuracy": [0-9.]*, "eval_f1_macro": [0-9.]*' <<<"$out") -eq 3 ]]
check $? "evaluations of a training say how often it was right" "$out"
sed -i 's/"LABEL_0"/"so \\"so\\""/; s/"LABEL_1"/"übel"/' "$work/a/config.json"

run eval --model "$work/a" "${common[@]}" --predictions "$work/p.jsonl" --json
check $code "predictions" "$err"
[[ $(json rows) -eq 41 ]] && ! grep -q 'perplexity\|bits_per_token' <<<"$out"
check $? "a classifier has accuracy, and no perplexity" "$out"
[[ $(wc -l <"$work/p.jsonl") -eq 41 ]] && [[ $(head -1 "$work/p.jsonl") == '{"index": 0, "prediction": "'* ]] &&
    grep -q '^{"index": 40, .*"label": "übel", "logits": \[' "$work/p.jsonl" && grep -q '"label": "so \\"so\\""' "$work/p.jsonl"
check $? "a line for each row, with the names of classes" "$(tail -3 "$work/p.jsonl")"
# verifies face-20.17bf face-32.0666
# Accuracy, macro F1 and Matthews' coefficient as the file has them, the loss as its logits do, the score their softmax.
sed -E 's/"[a-z]+"://g; s/"so \\"so\\""/0/g; s/"übel"/1/g; s/"LABEL_2"/2/g; s/[^0-9.e -]+/ /g' "$work/p.jsonl" |
    awk -v accuracy="$(json accuracy)" -v f1="$(json f1_macro)" -v loss="$(json loss)" -v m="$(json matthews_correlation)" '
    function off(a, b) { return a > b ? a - b : b - a }
    { right += $2 == $4; found[$2]++; given[$4]++; both[$2] += $2 == $4
      sum = exp($5) + exp($6) + exp($7); nll += log(sum) - $(5 + $4); bad += off($3, exp($(5 + $2)) / sum) > 1e-5 }
    END { for (c = 0; c < 3; c++) { mean += found[c] + given[c] ? 2 * both[c] / (found[c] + given[c]) : 0
                                    kinds += found[c] + given[c] > 0; pt += found[c] * given[c]
                                    pp += found[c] ^ 2; tt += given[c] ^ 2 }
          spread = (NR * NR - pp) * (NR * NR - tt); mcc = spread > 0 ? (right * NR - pt) / sqrt(spread) : 0
          exit !(NR == 41 && !bad && off(right / NR, accuracy) < 1e-6 && off(mean / kinds, f1) < 1e-6 && m != "" && off(mcc, m) < 1e-6 &&
                 off(nll / NR, loss) < 1e-5) }'
check $? "accuracy, F1, Matthews, loss and scores are those of the file" "$out"
digest=$(sha256sum <"$work/p.jsonl")
for batch in 1 7 41; do
    run eval --model "$work/a" "${common[@]}" --predictions "$work/q.jsonl" --per-device-eval-batch-size $batch
    [[ $code -eq 0 && $(sha256sum <"$work/q.jsonl") == "$digest" ]] && grep -q 'over 41 rows, accuracy .*, macro F1' <<<"$out"
    check $? "in batches of $batch the same file" "$out$err"
done
expect 0 'accuracy 0' eval --model "$work/a" "${common[@]}" --bf16 --predictions "$work/q.jsonl"
# A dash is standard output, which then has the predictions alone; a file of that name is not made.
here=$PWD
(cd "$work" && "$here/$program" eval --model a "${common[@]}" --predictions - >dash.jsonl 2>dash.err)
[[ $(sha256sum <"$work/dash.jsonl") == "$digest" && ! -e $work/- ]] && grep -q 'over 41 rows, accuracy' "$work/dash.err"
check $? "predictions on standard output" "$(diff "$work/p.jsonl" "$work/dash.jsonl" | head -5; head -3 "$work/dash.err")"

# Texts that have no labels are judged all the same.
judge=(--task classification --max-seq-length 16 --threads 2)
cut -f2 "$work/films.tsv" | sed '1i text' >"$work/bare.tsv"
awk -F'\t' '{ printf "{\"text\": \"%s\"}\n", $2 }' "$work/films.tsv" >"$work/bare.jsonl"
for file in bare.tsv bare.jsonl; do
    run eval --model "$work/a" "${judge[@]}" --data "$work/$file" --predictions "$work/q.jsonl" --json
    [[ $code -eq 0 && $(json rows) == 41 ]] && ! grep -q '"loss"\|accuracy' <<<"$out"
    check $? "$file" "$out$err"
    cmp -s <(sed 's/"label".*"logits"/"logits"/' "$work/p.jsonl") "$work/q.jsonl"
    check $? "$file: the same predictions" "$(head -2 "$work/q.jsonl")"
done
for task in regression "multi-label-classification --num-labels 3"; do
    expect 0 '^41 rows without labels are judged in' eval --model tiny-bert "${judge[@]}" --task $task \
        --data "$work/bare.jsonl" --predictions "$work/q.jsonl"
done
expect 2 '--task: bare.jsonl holds plain text .*found classification' eval --model "$work/a" "${judge[@]}" --data "$work/bare.jsonl"
expect 4 'bare.tsv:1: .*has two' train --model tiny-bert "${judge[@]}" --data "$work/bare.tsv" --output-dir "$work/x"
sed '3s/}/, "label": 1}/' "$work/bare.jsonl" >"$work/some.jsonl"
expect 4 'some.jsonl:3: what comes before is otherwise' eval --model "$work/a" "${judge[@]}" \
    --data "$work/some.jsonl" --predictions "$work/q.jsonl"

# Any of several classes, and numbers of texts and of rows.
printf '{"text": "a", "label": [0, 2]}\n{"text": "b", "label": []}\n{"text": "c", "label": 1}\n' >"$work/any.jsonl"
expect 0 '"accuracy": [0-9.]*, "f1_micro": ' eval --model tiny-bert --task multi-label-classification --num-labels 3 \
    --data "$work/any.jsonl" --max-seq-length 8 --predictions "$work/q.jsonl" --json
grep -q '"index": 0, "prediction": \[.*\], "label": \[0, 2\], "logits"' "$work/q.jsonl" && grep -q '"label": \[\]' "$work/q.jsonl"
check $? "lists of labels" "$(cat "$work/q.jsonl")"
expect 0 'accuracy [0-9.]*, micro F1' eval --model tiny-bert --task multi-label-classification --num-labels 3 \
    --data "$work/any.jsonl" --max-seq-length 8
awk 'BEGIN { for (i = 0; i < 9; i++) printf "%g,%g,%g,%g\n", i, i % 4, 1, 0.25 * int(i * 0.7) - 1 }' >"$work/rows.csv"
printf '{"model_type": "mlp", "input_size": 3, "hidden_sizes": [4], "num_labels": 1, "problem_type": "regression"}' >"$work/config.json"
run eval --model "$work" --task regression --data "$work/rows.csv" --data-format csv --predictions "$work/q.jsonl" --json
[[ $code -eq 0 && $(wc -l <"$work/q.jsonl") -eq 9 ]]
check $? "rows of numbers" "$out$err"
sed -E 's/"[a-z]+"://g; s/[^0-9.e-]+/ /g' "$work/q.jsonl" | awk -v pearson="$(json pearson)" -v loss="$(json loss)" '
    { x[NR] = $2; y[NR] = $3; mx += $2; my += $3; e += ($2 - $3) ^ 2; bad += $2 != $4 }
    END { for (i = 1; i <= NR; i++) { a = x[i] - mx / NR; b = y[i] - my / NR; p += a * b; q += a * a; r += b * b }
          d = p / sqrt(q * r) - pearson; f = e / NR - loss
          exit !(NR == 9 && !bad && d * d < 1e-10 && f * f < 1e-10) }'
check $? "Pearson and the loss are those of the file" "$out$(cat "$work/q.jsonl")"
# verifies face-33.4738
# Spearman by ranks that are counted: of equal numbers the mean of theirs.
sed -E 's/"[a-z]+"://g; s/[^0-9.e-]+/ /g' "$work/q.jsonl" | awk -v spearman="$(json spearman)" '
    { x[NR] = $2; y[NR] = $3 }
    function ranks(v, r, i, k) { for (i = 1; i <= NR; i++) { r[i] = 0.5; for (k = 1; k <= NR; k++) r[i] += v[k] < v[i] ? 1 : v[k] == v[i] ? 0.5 : 0 } }
    END { ranks(x, a); ranks(y, b)
          for (i = 1; i <= NR; i++) { u = a[i] - (NR + 1) / 2; w = b[i] - (NR + 1) / 2; p += u * w; q += u * u; r += w * w }
          d = p / sqrt(q * r) - spearman; exit !(spearman != "" && d * d < 1e-10) }'
check $? "Spearman is that of the file" "$out"
expect 0 'Pearson [-0-9.]*, Spearman' eval --model "$work" --task regression --data "$work/rows.csv" --data-format csv

# What is refused.
expect 2 '--predictions: a language model predicts no labels' eval --model tiny --data "$work/films.tsv" --data-format text \
    --predictions "$work/x"
expect 2 'predictions' train --model tiny-bert "${common[@]}" --output-dir "$work/x" --predictions "$work/x"
[[ ! -e $work/x ]]
check $? "nothing was made"
expect 6 'none/q.jsonl: the file cannot be made' eval --model "$work/a" "${common[@]}" --predictions "$work/none/q.jsonl"
expect 6 '/dev/full: the file cannot be written' eval --model "$work/a" "${common[@]}" --predictions /dev/full
# Indices are the data's: of rows without a token, of which none is made, and of a part of the data.
# verifies formats-73.d382
indices() { grep -oE '"index": [0-9]+' "$work/index.out" | grep -oE '[0-9]+' | tr '\n' ' '; }
numbered() { # RIGHT OPTIONS..
    run eval --max-seq-length 16 --predictions "$work/index.out" --model "$work/index" "${@:2}"
    [[ $code -eq 0 && $(indices) == "$1" ]]
    check $? "${*:2}: rows $1" "$(indices)$err"
}
fresh=(--max-seq-length 16 --per-device-train-batch-size 1 --max-steps 1)
: >"$work/rows.jsonl"
for text in '' a '' '' b c '' d ''; do echo "{\"text\": \"$text\", \"label\": 1}" >>"$work/rows.jsonl"; done
{ echo text,label && sed 's/.*"text": "\(.*\)", .*/"\1",1/' "$work/rows.jsonl"; } >"$work/rows.csv"
for task in classification multi-label-classification regression; do
    rm -rf "$work/index"
    run train --model tiny-bert --task $task --num-labels $([[ $task == regression ]] && echo 1 || echo 3) "${fresh[@]}" \
        --data "$work/rows.csv" --output-dir "$work/index"
    numbered '1 4 5 7 ' --data "$work/rows.jsonl"
    numbered '1 4 5 7 ' --data "$work/rows.csv"
    numbered '1 4 5 7 10 13 14 16 ' --data "$work/rows.csv" "$work/rows.csv"
    numbered '5 7 ' --data "$work/rows.csv" --validation-split 0.5
    sed 's/, "label": 1//' "$work/rows.jsonl" >"$work/bare.jsonl"
    numbered '1 4 5 7 ' --data "$work/bare.jsonl"
done
printf '{"tokens": [%s], "ner_tags": [%s]}\n' '' '' '"a"' '"O"' '""' '"O"' '"b", "c"' '"O", "B-x"' '"d"' '"O"' >"$work/words.jsonl"
rm -rf "$work/index"
run train --model tiny-bert --task token-classification "${fresh[@]}" --data "$work/words.jsonl" --output-dir "$work/index"
grep -q '2 sentences without a token are left out' <<<"$err"
check $? "sentences without a word are counted" "$err"
numbered '1 3 4 ' --data "$work/words.jsonl"
numbered '4 ' --data "$work/words.jsonl" --validation-split 0.4
printf '{"model_type": "mlp", "input_size": 2, "hidden_sizes": [3], "num_labels": 2}\n' >"$work/config.json"
mkdir "$work/net" && mv "$work/config.json" "$work/net"
printf '1,2,0\n3,4,1\n5,6,0\n7,8,1\n' >"$work/rows-of.csv"
rm -rf "$work/index"
run train --model "$work/net" --task classification --data "$work/rows-of.csv" --max-steps 1 --per-device-train-batch-size 1 --output-dir "$work/index"
numbered '2 3 ' --data "$work/rows-of.csv" --validation-split 0.5 --max-seq-length 2
finish
