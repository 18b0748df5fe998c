#!/bin/bash
# SPDX-License-Identifier: MIT
# Data: JSON lines, prompts with completions, tokenizers, token files made once; and bad data.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 60; i++) printf "{\"text\": \"%d bottles of %s\"}\n", i, (i * i) % 7 ? "ale" : "beer" }' \
    >"$work/docs.jsonl"
awk 'BEGIN { for (i = 0; i < 40; i++) printf "{\"prompt\": \"%d+%d=\", \"completion\": \"%d\"}\n", i, i, 2 * i }' \
    >"$work/sums.jsonl"
common=(--model tiny --max-seq-length 16 --per-device-train-batch-size 4 --learning-rate 3e-3 --threads 2)

# Documents: one stream, with an end token behind each of them.
run train "${common[@]}" --data "$work/docs.jsonl" --output-dir "$work/a" --max-steps 20 --save-steps 7 --json
check $((code != 0)) "train on JSON lines" "$err"
whole=$(json state_digest)
letters=$(sed 's/.*": "//; s/"}//' "$work/docs.jsonl" | wc -c) # a line feed for each end token
grep -q "docs.jsonl: $letters tokens of 60 documents, tokenised in $work/a/data.tokens" <<<"$err"
check $? "the token file is made, and said to be" "$err"
grep -q '"eos_token_id": 0' "$work/a/config.json"
check $? "a byte model that learns documents ends them with NUL"
sum=$(md5sum <"$work/a/data.tokens")

# Stopped and resumed, with the token file, without it, with a damaged one: the same run.
part=(train "${common[@]}" --data "$work/docs.jsonl" --output-dir "$work/b" --max-steps 20 --resume --json)
run "${part[@]}" --stop-at-step 5
run "${part[@]}" --stop-at-step 9
grep -q 'as tokenised before in' <<<"$err"
check $? "the token file is used again" "$err"
rm "$work/b/data.tokens"
run "${part[@]}" --stop-at-step 14
grep -q ', tokenised in' <<<"$err" && [[ $(md5sum <"$work/b/data.tokens") == "$sum" ]]
check $? "it is made anew when it is gone" "$err"
printf 'X' | dd of="$work/b/data.tokens" bs=1 seek=300 conv=notrunc status=none
run "${part[@]}"
[[ $(json state_digest) == "$whole" && $(md5sum <"$work/b/data.tokens") == "$sum" ]] && grep -q ', tokenised in' <<<"$err"
check $? "and when it is damaged; the run is the same, bit for bit" "$out$err"
sed '3s/ale/all/' "$work/docs.jsonl" >"$work/other.jsonl"
expect 2 'resume: data differs' "${part[@]}" --data "$work/other.jsonl"
run "${part[@]}" --quiet
[[ $code -eq 0 && $(md5sum <"$work/b/data.tokens") == "$sum" && -z $err ]]
check $? "--quiet says nothing of it" "$err"

# A token file is data, too; and patterns are expanded.
run train "${common[@]}" --data "$work/a/data.tokens" --output-dir "$work/k" --max-steps 20 --json
[[ $(json state_digest) == "$whole" ]]
check $? "the token file itself as data: the same run" "$out$err"
head -30 "$work/docs.jsonl" >"$work/half-1.jsonl"
tail -30 "$work/docs.jsonl" >"$work/half-2.jsonl"
run train "${common[@]}" --data "$work/half-*.jsonl" --output-dir "$work/l" --max-steps 20 --json
[[ $(json state_digest) == "$whole" ]]
check $? "two halves by a pattern are the whole" "$out$err"
expect 4 'two kinds' train "${common[@]}" --data "$work/docs.jsonl" "$work/a/data.tokens" --output-dir "$work/x"
expect 4 'one is read at a time' train "${common[@]}" --data "$work/a/data.tokens" "$work/a/data.tokens" --output-dir "$work/x"
head -c 700 "$work/a/data.tokens" >"$work/cut.tokens"
expect 4 "cut.tokens: the file's size differs" train "${common[@]}" --data "$work/cut.tokens" --output-dir "$work/x"

# The loss of a prompt with its completion is that of the completion alone: the sum over the whole text
# less the sum over the prompt.
printf '{"prompt": "What is it?", "completion": " Ale"}\n' >"$work/one.jsonl"
printf 'What is it? Ale\0' >"$work/all.txt"
printf 'What is it?' >"$work/question.txt"
# sum_of FILE LENGTH OPTIONS: the sum of the losses of its targets, in one row of so many inputs.
sum_of() {
    run eval --model "$work/a" --data "$work/$1" --max-seq-length "$2" --per-device-eval-batch-size 1 --json "${@:3}"
    awk -v loss="$(json loss)" -v tokens="$(json tokens)" 'BEGIN { printf "%.6f %d", loss * tokens, tokens }'
}
read -r one targets <<<"$(sum_of one.jsonl 16)"
read -r all _ <<<"$(sum_of all.txt 15 --data-format bytes)"
read -r question _ <<<"$(sum_of question.txt 10)"
awk -v one="$one" -v all="$all" -v q="$question" 'BEGIN { d = one - (all - q); exit !(d < 1e-4 && d > -1e-4 && one > 0) }'
[[ $? -eq 0 && $targets -eq 5 ]]
check $? "5 targets, whose loss is the completion's" "$targets $one $all $question"

# Learned by heart, it ends where the completion ends.
run train "${common[@]}" --data "$work/one.jsonl" --output-dir "$work/c" --max-steps 150 --per-device-train-batch-size 1 \
    --lr-scheduler-type constant --learning-rate 1e-2 --quiet
run generate --model "$work/c" --prompt 'What is it?' --temperature 0
[[ $out == " Ale" ]]
check $? "the completion, and no more" "$out"
run generate --model "$work/c" --prompt 'What is it?' --temperature 0 --json
[[ $(json tokens) -eq 5 && $(json text) == " Ale" ]]
check $? "the end token is counted but is no text" "$out"
run generate --model "$work/c" --prompt 'What is it?' --temperature 0 --ignore-eos --json
[[ $(json tokens) -eq 20 ]]
check $? "--ignore-eos goes on" "$out"

# Held-out examples.
run train "${common[@]}" --data "$work/sums.jsonl" --output-dir "$work/d" --max-steps 5 --validation-split 0.25 --json
[[ $code -eq 0 ]] && grep -q '"eval_tokens": 30' <<<"$out"
check $? "a split of examples: the last 10, of three targets each" "$out$err"
run train "${common[@]}" --data "$work/sums.jsonl" --output-dir "$work/e" --max-steps 5 --eval-data "$work/docs.jsonl" --json
[[ $code -eq 0 && -f $work/e/data.tokens && -f $work/e/eval.tokens ]] && grep -q "\"eval_tokens\": $((letters - 1))" <<<"$out"
check $? "held-out data of another form has its own token file" "$out$err"
mkdir "$work/tmp"
TMPDIR=$work/tmp run eval --model "$work/d" --data "$work/sums.jsonl" --max-seq-length 16 --json
[[ $(json tokens) -eq 115 && -z $(ls "$work/tmp") ]]
check $? "eval leaves nothing behind" "$(ls "$work/tmp")"

# A tokenizer: ids of words, and its files beside the model.
small=tests/golden/tokenizers/gpt2_small
mkdir "$work/words"
sed 's/"vocab_size": 256/"vocab_size": 1100/; s/"eos_token_id": 0/"eos_token_id": null/' "$work/a/config.json" >"$work/words/config.json"
cp $small/* "$work/words"
run train "${common[@]}" --model "$work/words" --data "$work/docs.jsonl" --output-dir "$work/f" --max-steps 12 --json
words=$(json state_digest)
[[ $code -eq 0 ]] && cmp -s $small/vocab.json "$work/f/vocab.json" && cmp -s $small/merges.txt "$work/f/merges.txt"
check $? "train with the model's tokenizer, whose files come along" "$out$err"
count=$(grep -oE '[0-9]+ tokens of 60' <<<"$err" | cut -d' ' -f1)
[[ $count -gt 120 && $count -lt $letters ]]
check $? "fewer tokens than bytes" "$err"
mkdir "$work/bare"
cp "$work/words/config.json" "$work/bare"
run train "${common[@]}" --model "$work/bare" --tokenizer $small --data "$work/docs.jsonl" --output-dir "$work/g" --max-steps 12 --json
[[ $code -eq 0 && $(json state_digest) == "$words" ]] && cmp -s $small/vocab.json "$work/g/vocab.json"
check $? "--tokenizer gives the same" "$out$err"
run generate --model "$work/f" --prompt '3 bottles' --max-new-tokens 8 --temperature 0
text=$out
run generate --model "$work/f/checkpoint-12" --prompt '3 bottles' --max-new-tokens 8 --temperature 0 --json
[[ $code -eq 0 && -n $text && $(json text) == "$text" ]]
check $? "a checkpoint uses the tokenizer of the directory around it" "$out$err"
printf 'one text' >"$work/1.txt"
printf 'another' >"$work/2.txt"
run train "${common[@]}" --model "$work/words" --data "$work"/{1,2}.txt --max-seq-length 2 --per-device-train-batch-size 1 \
    --output-dir "$work/h" --max-steps 1
grep -q 'tokens of 2 documents' <<<"$err"
check $? "text files are documents for a tokenizer" "$err"
sed 's/"vocab_size": 1100/"vocab_size": 500/' "$work/words/config.json" >"$work/bare/config.json"
expect 4 'gpt2_small: the tokenizer has more tokens than the model.s vocabulary: found [0-9]+, expected at most 500' \
    train "${common[@]}" --model "$work/bare" --tokenizer $small --data "$work/docs.jsonl" --output-dir "$work/x"
expect 4 'words/none: the directory holds no tokenizer' \
    train "${common[@]}" --model "$work/bare" --tokenizer "$work/words/none" --data "$work/docs.jsonl" --output-dir "$work/x"
expect 0 '^host' plan --model "$work/words" --max-seq-length 16

# verifies formats-16.301b
# Bad data: the file and the line, and nothing is left.
bad() {
    printf "$2" >"$work/$1"
    expect 4 "$3" train "${common[@]}" --data "$work/$1" --output-dir "$work/x" "${@:4}"
}
bad bad.jsonl '{"text": "a"}\n\n{"text": "b"\n' 'bad.jsonl:3: byte [0-9]+: '
bad bad.jsonl '{"text": "a"}\n{"txt": "b"}\n' 'bad.jsonl:2: the line has neither'
bad bad.jsonl '{"text": "a"}\n{"prompt": "b", "completion": "c"}\n' 'bad.jsonl:2: the lines before have other fields'
bad bad.jsonl '{"text": "a\xff"}\n' 'bad.jsonl:1: byte [0-9]+: '
bad bad.jsonl '{"text": "a\\u0000b"}\n' 'bad.jsonl:1: the document holds the byte that ends documents'
bad bad.jsonl '{"prompt": "b", "completion": ""}\n' 'bad.jsonl:1: the completion is empty'
bad empty.jsonl '' 'empty.jsonl: the data holds no document'
bad blank.jsonl '\n \r\n\t\n' 'blank.jsonl: the data holds no document'
bad good.csv '1,good\n' 'good.csv: a table holds labels, which this task does not learn' --task causal-lm
bad good.tsv '1\tgood\n' 'good.tsv: a table holds labels' --task causal-lm
bad rows.f32 'abcd' 'rows.f32: rows of numbers are no data for a language model'
bad long.jsonl '{"prompt": "a prompt that is far too long", "completion": "c"}\n' \
    'long.jsonl: every prompt is longer than --max-seq-length,.*expected at least'
bad few.jsonl '{"prompt": "a", "completion": "c"}\n' 'few.jsonl: the data has too few examples' --validation-split 0.5
[[ ! -e $work/x ]]
check $? "none of these made the output directory" "$(ls "$work/x" 2>/dev/null)"
printf '\xef\xbb\xbf{"prompt": "a", "completion": "b"}\r\n\r\n{"prompt": "much too long a prompt", "completion": "c"}\r\n' \
    >"$work/mixed.jsonl"
expect 0 'mixed.jsonl: 1 of 2 examples are longer than --max-seq-length 16: their ends are cut; of 1 the whole completion' \
    train "${common[@]}" --data "$work/mixed.jsonl" --output-dir "$work/y" --max-steps 2 --quiet
# verifies face-34.a5d9
expect 4 'mixed.jsonl: row 2: it has more tokens than --max-seq-length.*expected at most 17' \
    train "${common[@]}" --data "$work/mixed.jsonl" --output-dir "$work/y2" --max-steps 2 --long-rows refuse
expect 0 'tokens' train "${common[@]}" --data "$work/good.csv" --data-format text --max-seq-length 2 \
    --per-device-train-batch-size 1 --output-dir "$work/z" --max-steps 1
finish
