#!/bin/bash
# SPDX-License-Identifier: MIT
# Training of vectors on pairs and triplets (losses and gradients: tests/golden/test_families_golden.c): the same bits by any
# policy, a batch's loss by any micro-batch, evaluation by Spearman and recall, directories of sentence-transformers.
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/embeddings

mkdir "$work/base"
cp tests/golden/pairs/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/base"
sed -i 's/"hidden_dropout_prob": 0.0/"hidden_dropout_prob": 0.1/' "$work/base/config.json"
# Pairs whose texts share a word, and triplets with a text that does not.
awk 'BEGIN { srand(5); for (i = 0; i < 64; i++) { w = int(i / 2) + 3; a = "w" w " " int(rand() * 9)
    printf "{\"positive\": \"%s %d\", \"query\": \"%s\"}\n", "w" w, rand() * 99, a } }' >"$work/pairs.jsonl"
awk 'BEGIN { print "anchor,positive,negative"; for (i = 0; i < 40; i++) printf "a %d,b %d,c %d\n", i, i, i * 7 % 40 }' >"$work/three.csv"
common=(--task embedding --max-seq-length 16 --threads 2)
train=(train --model "$work/base" "${common[@]}" --data "$work/pairs.jsonl" --learning-rate 5e-3 --quiet --json)

learn=("${train[@]}" --max-steps 12 --max-grad-norm 0.5)
same_bits --model "$work/base" "${common[@]}" --max-grad-norm 0.5 -- "${learn[@]}"

# The losses of a batch of 16 pairs, to the last digit, by any cut of it; the first is before any update.
losses() {
    run "${train[@]}" --max-steps 6 --logging-steps 1 --output-dir "$work/l$1" --per-device-train-batch-size "$1" \
        --gradient-accumulation-steps $((16 / $1)) "${@:2}"
    grep -oE '"step": [0-9]+|"loss": [0-9.e-]+' <<<"$out" | paste - - >"$work/losses$1"
}
for batch in 16 8 2 1; do
    losses $batch
    [[ $code -eq 0 && $(head -1 "$work/losses$batch") == "$(head -1 "$work/losses16")" && $(wc -l <"$work/losses$batch") -ge 6 ]]
    check $? "micro-batches of $batch: the loss of 16 pairs" "$(head -2 "$work/losses16" "$work/losses$batch")$err"
done
paste "$work/losses16" "$work/losses1" | awk '{ d = $4 - $8; bad += d * d > 1e-8 * $4 * $4 } END { exit !(NR >= 6 && !bad) }'
check $? "and those of later steps within rounding" "$(paste "$work/losses16" "$work/losses1")"
run plan --model bert-base --task embedding --max-seq-length 64 --per-device-train-batch-size 8 --json
few=$(json arena_bytes)
run plan --model bert-base --task embedding --max-seq-length 64 --per-device-train-batch-size 8 \
    --gradient-accumulation-steps 512 --json
many=$(json arena_bytes)
# The vectors of 8,192 texts are 24 MiB; the gradients that are added up are as large as in any accumulation.
run plan --model bert-base --task masked-lm --max-seq-length 64 --per-device-train-batch-size 16 \
    --gradient-accumulation-steps 512 --json
[[ $many -gt 0 && $((many - $(json arena_bytes))) -lt $((64 << 20)) && $few -gt 0 ]]
check $? "4,096 pairs in the bytes of 8" "$few $many $out"

# It is learnt; triplets too; what is held out is whole rows.
run "${train[@]}" --max-steps 150 --output-dir "$work/t" --per-device-train-batch-size 16 --dropout 0
last=$(grep -o '"mean_loss": [0-9.e-]*' <<<"$out" | tail -1 | sed 's/.* //')
awk -v a="$last" 'BEGIN { exit !(a != "" && a < 1.6) }'
check $? "pairs are learnt" "$out"
run "${train[@]/$work\/pairs.jsonl/$work/three.csv}" --max-steps 4 --output-dir "$work/h" --validation-split 0.3 \
    --per-device-train-batch-size 4 --gradient-accumulation-steps 2 --metric-for-best-model recall_at_1
[[ $code -eq 0 && $(json eval_recall_at_10) =~ ^[01] && $(json eval_mrr_at_10) =~ ^[01] ]]
check $? "triplets, some of them held out" "$out$err"
run "${train[@]}" --max-steps 4 --output-dir "$work/x" --bf16 --per-device-train-batch-size 4 --gradient-accumulation-steps 2 \
    --lora-r 2 --target-modules all-linear
[[ $code -eq 0 && $out == *'"loss": '[0-9]* ]] && grep -q '"FEATURE_EXTRACTION"' "$work/x/adapter_config.json"
check $? "adapters, in bf16" "$out$err"

# What is left is a directory of sentence-transformers.
[[ -f $work/t/modules.json && -f $work/t/1_Pooling/config.json && -f $work/t/sentence_bert_config.json ]] &&
    grep -q '"pooling_mode_mean_tokens": true' "$work/t/1_Pooling/config.json" && grep -q '"BertModel"' "$work/t/config.json"
check $? "the files of sentence-transformers" "$(ls "$work/t")"
run embed --model "$work/t" --data $golden/texts.txt --output "$work/o.jsonl" --quiet
run export --model "$work/t" --to "$work/e"
run embed --model "$work/e" --data $golden/texts.txt --output "$work/p.jsonl" --quiet
cmp -s "$work/o.jsonl" "$work/p.jsonl" && [[ -s $work/o.jsonl && -f $work/e/1_Pooling/config.json ]]
check $? "which export takes along" "$err"

# Evaluation: NumPy's correlations of the same vectors, and recall.
sed -i 's/"hidden_dropout_prob": 0.1/"hidden_dropout_prob": 0.0/' "$work/base/config.json"
run train --model "$work/base" --task masked-lm --data $golden/texts.txt --max-seq-length 24 --max-steps 0 --quiet \
    --output-dir "$work/m"
judged=(eval --model "$work/m" --task embedding --max-seq-length 24 --quiet --json)
agree() {
    local want
    want=$(sed -n "s/^$1 //p" $golden/scores.txt)
    awk -v a="$(json "$1")" -v b="$want" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d * d < 1e-9) }'
    check $? "$1 is NumPy's ($want)" "$out$err"
}
run "${judged[@]}" --data $golden/scores.jsonl
agree pearson_cosine
agree spearman_cosine
[[ $(json rows) == 20 && -z $(json recall_at_1) ]]
check $? "rows with scores have no recall" "$out"
sed 's/"score": [0-9.]*, //' $golden/scores.jsonl >"$work/plain.jsonl"
run "${judged[@]}" --data "$work/plain.jsonl" --per-device-eval-batch-size 3
for k in 1 3 5 10; do
    agree recall_at_$k
done

# What is refused.
bad() {
    printf '%b' "$2" >"$work/$1"
    expect 4 "$3" train --model "$work/base" "${common[@]}" --data "$work/$1" --output-dir "$work/no"
}
bad one.jsonl '{"text": "a"}\n{"text": "b"}\n' 'a row has one text'
bad some.jsonl '{"anchor": "a", "positive": "b"}\n{"anchor": "a", "positive": "b", "negative": "c"}\n' ':2: what comes before has another number of texts'
bad scored.jsonl '{"anchor": "a", "positive": "b", "score": 1}\n{"anchor": "a", "positive": "b"}\n' ':2: what comes before is otherwise'
bad score.csv 'sentence1,sentence2,score\na,b,much\n' ':2.*the score is not a number'
bad fields.csv 'sentence1,sentence2\na,b,c\n' ':2: the row has another number of fields'
bad twice.csv 'query,anchor,positive\na,b,c\n' ':1: two fields name the same text'
expect 4 'another number of texts than in the other data' train --model "$work/base" "${common[@]}" --data "$work/pairs.jsonl" \
    --eval-data "$work/three.csv" --output-dir "$work/no"
expect 2 'gradients are released where a batch is one micro-batch' "${train[@]}" --output-dir "$work/no" --gradient-release \
    --gradient-accumulation-steps 2
expect 2 'each row is compared with all others' "${train[@]}" --output-dir "$work/no" --virtual-ranks 2 --gradient-accumulation-steps 2
expect 2 'bedplate embed' eval --model "$work/m" --task embedding --data "$work/plain.jsonl" --predictions "$work/no.jsonl"
expect 2 'compares no texts of several micro-batches' plan --model tiny-bert --task embedding --emit-c "$work/no" \
    --length-buckets none --max-steps 5 --gradient-accumulation-steps 2
[[ ! -e $work/no ]]
check $? "none of these made the output directory"
finish
