#!/bin/bash
# SPDX-License-Identifier: MIT
# Question answering: SQuAD's files in windows, loss, answers and their measures as transformers has them
# (tools/golden/answers.py), adapters, policies, resuming.
# verifies formats-22.c8a1
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/answers
row=(--max-seq-length 40 --doc-stride 9 --threads 2)
task=(--task question-answering "${row[@]}")
judge=(eval "${row[@]}" --n-best-size 5 --max-answer-length 6)

mkdir "$work/base"
cp $golden/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/base"
run train --model "$work/base" "${task[@]}" --data $golden/squad.json --max-steps 0 --quiet --json --output-dir "$work/m"
check $code "a model of random weights" "$err"
grep -q 'BertForQuestionAnswering' "$work/m/config.json"
check $? "its class is that of transformers" "$(cat "$work/m/config.json")"

# The predictions of a file as JSON strings.
answers() { sed -E 's/.*"prediction": ("([^"\\]|\\.)*").*/\1/' "$1"; }
run "${judge[@]}" --model "$work/m" --data $golden/squad.json --json --predictions "$work/p.jsonl"
for key in loss exact_match f1; do near $key $key; done
[[ $(json rows) == $(wc -l <$golden/windows.txt) && $(json NoAns_total) == 11 ]]
check $? "windows and questions are counted" "$out"
answers "$work/p.jsonl" | cmp -s - $golden/answers.txt
check $? "answers are those of transformers" "$(answers "$work/p.jsonl" | diff - $golden/answers.txt)"
grep -q '^{"index": 0, "id": "q0", "prediction": ".*", "null_score_diff": [-0-9.]*, "label": \[.*\], "n_best": \[{"text": ' "$work/p.jsonl"
check $? "a line for each question" "$(head -1 "$work/p.jsonl")"
(echo -n '['; sed 's/$/,/; $s/,$/]/' $golden/flat.jsonl) >"$work/flat.json"
(echo -n '{"data": ['; sed 's/$/,/; $s/,$/]}/' $golden/flat.jsonl) >"$work/inside.json"
gzip -c $golden/flat.jsonl >"$work/flat.jsonl.gz"
for file in $golden/flat.jsonl "$work/flat.json" "$work/inside.json" "$work/flat.jsonl.gz"; do
    run "${judge[@]}" --model "$work/m" --data "$file" --json --predictions "$work/f.jsonl"
    for key in loss exact_match f1; do near $key flat_$key; done
    answers "$work/f.jsonl" | cmp -s - $golden/flat.txt
    check $? "$file: answers are those of transformers" "$(answers "$work/f.jsonl" | diff - $golden/flat.txt)"
done
# Of a part of the data questions keep the numbers that they have in the whole.
# verifies formats-73.d382
run "${judge[@]}" --model "$work/m" --data $golden/flat.jsonl --json --predictions "$work/part.jsonl" --validation-split 0.5
[[ $code -eq 0 && -s $work/part.jsonl ]] &&
    cmp -s <(tail -n "$(wc -l <"$work/part.jsonl")" "$work/f.jsonl" | cut -c 1-30) <(cut -c 1-30 "$work/part.jsonl")
check $? "a part's questions keep their numbers" "$(head -2 "$work/part.jsonl")$err"
for batch in 1 7; do
    run "${judge[@]}" --model "$work/m" --data $golden/squad.json --predictions "$work/q.jsonl" --per-device-eval-batch-size $batch
    cmp -s "$work/p.jsonl" "$work/q.jsonl" && grep -q 'over 97 windows, exact match 14.8148, F1 16.6667' <<<"$out"
    check $? "in batches of $batch the same file" "$out$err"
done
run "${judge[@]}" --model "$work/m" --data $golden/squad.json --json --null-score-diff-threshold -1e6
[[ $(json NoAns_exact) == 100 && $(json HasAns_exact) == 12.5 ]] # answers of punctuation alone are none
check $? "a threshold that no answer passes" "$out"
run "${judge[@]}" --model "$work/m" --data $golden/flat.jsonl --version-2-with-negative --null-score-diff-threshold -1e6 --predictions "$work/q.jsonl"
[[ $(answers "$work/q.jsonl" | sort -u) == '""' ]]
check $? "there may be no answer where it is said so" "$err"
# Questions without answers are answered all the same.
sed 's/, "answers": .*/}/' $golden/flat.jsonl >"$work/bare.jsonl"
run "${judge[@]}" --model "$work/m" --data "$work/bare.jsonl" --predictions "$work/q.jsonl" --json
[[ $code -eq 0 ]] && ! grep -q '"loss"\|exact' <<<"$out" && answers "$work/q.jsonl" | cmp -s - $golden/flat.txt
check $? "questions alone" "$out$err"
expect 4 'bare.jsonl:1.*the question has no `answers`' "${judge[@]}" --model "$work/m" --data "$work/bare.jsonl"

# Training: the same bits by any policy, released, resumed; planned as it is run.
train=(train --model "$work/base" "${task[@]}" --quiet --json --data $golden/squad.json --learning-rate 1e-2)
learn=("${train[@]}" --max-steps 12 --max-grad-norm 0)
same_bits --model "$work/base" --task question-answering --max-seq-length 40 --text-pairs --max-grad-norm 0 -- "${learn[@]}"
run "${train[@]}" --output-dir "$work/f" --max-steps 300 --eval-data $golden/flat.jsonl --bf16 --learning-rate 5e-3
awk -v a="$(json eval_f1)" 'BEGIN { exit !(a > 60) }'
check $? "answers are learnt" "$(tail -1 <<<"$out")$err"
run "${train[@]}" --output-dir "$work/h" --max-steps 2 --validation-split 0.3 --eval-steps 1
[[ $code -eq 0 && $(grep -c '"eval_exact_match": [0-9.]*, "eval_f1"' <<<"$out") -eq 3 ]]
check $? "part of the questions is held out" "$out$err"

# Evaluations of a training in batches of another size than it trains in.
for batch in 4 3 16; do
    run "${train[@]}" --output-dir "$work/i$batch" --max-steps 20 --per-device-train-batch-size 4 --per-device-eval-batch-size $batch --eval-data $golden/flat.jsonl
    echo "$(json eval_loss) $(json eval_exact_match) $(json eval_f1)" >>"$work/evaluated"
done
[[ $code -eq 0 && $(sort -u "$work/evaluated") =~ ^[0-9.]+\ [0-9.]+\ [0-9.]+$ ]]
check $? "answers do not depend on the batch of evaluations" "$err$(cat "$work/evaluated")"

# Smoothed labels: the loss and the norm of a first step over all windows.
for more in "" "--kernels $other_kernels --per-device-train-batch-size 13 --gradient-accumulation-steps 4"; do
    # shellcheck disable=SC2086
    run train --model "$work/m" "${row[@]}" --quiet --json --data $golden/flat.jsonl --max-steps 1 --learning-rate 0 --logging-steps 1 \
        --eval-data $golden/flat.jsonl --per-device-train-batch-size 52 --output-dir "$work/l" --label-smoothing-factor 0.2 $more
    for key in loss grad_norm; do
        near $key smooth_${key#grad_} "$(grep -oE "\"$key\": [^,]*" <<<"$out" | head -1 | sed 's/.*: //')"
    done
    near loss smooth_loss "$(json eval_loss)"
    rm -rf "$work/l"
done

# Adapters keep the head beside them.
run "${train[@]}" --output-dir "$work/g" --max-steps 30 --lora-r 4 --target-modules all-linear --eval-data $golden/flat.jsonl
loss=$(json eval_loss)
grep -q '"task_type": "QUESTION_ANS"' "$work/g/adapter_config.json" && grep -q '"modules_to_save": \["qa_outputs"\]' "$work/g/adapter_config.json"
check $? "adapters with their head" "$out$err$(cat "$work/g/adapter_config.json")"
run eval --model "$work/base" "${task[@]}" --adapter "$work/g" --data $golden/flat.jsonl --json
[[ -n $loss && $(json loss) == "$loss" ]]
check $? "the adapter's head serves a base without one" "$out$err"

# Other encoders with such a head, whose losses tests/golden/families has; dropout in front of DistilBERT's is its own.
for kind in "distilbert DistilBert dim hidden_dim n_heads n_layers" "electra Electra hidden_size intermediate_size num_attention_heads num_hidden_layers"; do
    read -r name class width inner heads layers <<<"$kind"
    mkdir "$work/$name" && cp "$work/base/tokenizer.json" "$work/$name"
    echo "{\"model_type\": \"$name\", \"vocab_size\": 1600, \"max_position_embeddings\": 48, \"pad_token_id\": 0, \"qa_dropout\": 0.3,
        \"$width\": 16, \"embedding_size\": 16, \"$inner\": 24, \"$heads\": 2, \"$layers\": 2, \"initializer_range\": 0.2}" >"$work/$name/config.json"
    more=(train --model "$work/$name" "${task[@]}" --data $golden/flat.jsonl --quiet --json --eval-data $golden/flat.jsonl)
    run "${more[@]}" --output-dir "$work/$name-f" --max-steps 300 --learning-rate 5e-3 --dropout 0
    awk -v a="$(json eval_f1)" 'BEGIN { exit !(a > 60) }'
    check $? "$name: answers are learnt" "$(tail -1 <<<"$out")$err"
    grep -q "${class}ForQuestionAnswering" "$work/$name-f/config.json"
    check $? "$name: its class is that of transformers" "$(cat "$work/$name-f/config.json")"
    run "${more[@]}" --output-dir "$work/$name-d" --max-steps 3
    dropped=$(json state_digest)
    run "${more[@]}" --output-dir "$work/$name-e" --max-steps 3 --gradient-checkpointing full
    [[ $code -eq 0 && $(json state_digest) == "$dropped" ]]
    check $? "$name: the same bits by another policy" "$err"
    sed -i 's/"qa_dropout": 0.3/"qa_dropout": 0.0/' "$work/$name/config.json"
    run "${more[@]}" --output-dir "$work/$name-n" --max-steps 3
    [[ $(json state_digest) == "$dropped" ]] && same=electra || same=distilbert
    [[ $code -eq 0 && $same == "$name" ]]
    check $? "$name: qa_dropout is DistilBERT's" "$err"
done

# What is refused.
bad() { # FILE CONTENT PATTERN
    printf "$2" >"$work/$1"
    expect 4 "$3" train --model "$work/base" "${task[@]}" --data "$work/$1" --output-dir "$work/x"
}
flat='{"question": "q", "context": "a b", "answers": '
bad bad.jsonl "$flat"'{"text": ["a"], "answer_start": [0]}}\n'"$flat"'7}\n' 'bad.jsonl:2.*answers are an object or a list'
bad bad.jsonl "$flat"'{"text": ["a"]}}\n' ':1.*an answer lacks its text or its answer_start'
bad bad.jsonl "$flat"'{"text": "a", "answer_start": -1}}\n' 'answer_start is no whole number'
bad bad.jsonl '{"question": 7, "context": "a b"}\n' 'no string'
bad bad.jsonl '{"question": "q", "answers": []}\n' 'the object lacks `question` or `context`'
bad bad.jsonl "$flat"'[]}\n{"question": "q", "context": "a"}\n' ':2.*the question has no `answers`'
bad bad.json '{"data": [{"paragraphs": [{"qas": []}]}]}' 'the paragraph lacks `context`'
bad bad.json '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "q"}]}]}]}' 'bad.json.*the question has no `answers`'
bad bad.json '{"data": 7}' 'bad.json'
bad bad.json '{"data": [7]}' 'the array holds something else than objects'
bad bad.json '{"data": []}' 'the data holds no question'
bad bad.jsonl "{\"question\": \"$(printf 'x %.0s' {1..60})\", \"context\": \"a\", \"answers\": []}\n" ':1: the question leaves no room.*found 63, expected below 40'
bad bad.jsonl "{\"question\": \"$(printf 'x %.0s' {1..30})\", \"context\": \"$(printf 'y %.0s' {1..60})\", \"answers\": []}\n" ':1: .*--doc-stride.*found 9, expected below 7'
printf 'a\n' >"$work/bad.txt"
expect 2 '--task: bad.txt holds plain text.*found question-answering' train --model "$work/base" "${task[@]}" --data "$work/bad.txt" --output-dir "$work/x"
expect 4 'needs a WordPiece tokenizer' train --model tiny-bert --task question-answering --data $golden/flat.jsonl --output-dir "$work/x"
expect 2 'token-classification and question-answering need bert' train --model tiny --task question-answering \
    --data $golden/flat.jsonl --output-dir "$work/x"
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
finish
