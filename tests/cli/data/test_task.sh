#!/bin/bash
# SPDX-License-Identifier: MIT
# The task is found from the data, said in one line and in JSON, overridden by --task, and refused where the data
# contradict it: by train, plan and eval alike.
. "$(dirname "$0")/../lib.sh"

rows() { # NAME LINE..: a file in which each line stands four times, with the numbers of its rows for @
    local name=$1 i line
    shift
    for ((i = 0; i < 4; i++)); do
        for line in "$@"; do echo "${line//@/$i}"; done
    done >"$work/$name"
}
text='"text": "some text @"'
rows words.jsonl '{"tokens": ["a", "b@"], "ner_tags": ["O", "B-x"]}'
rows squad.jsonl '{"question": "q @", "context": "some a", "answers": {"text": ["a"], "answer_start": [5]}}'
rows pairs.jsonl '{"anchor": "a @", "positive": "b"}'
rows score.jsonl '{"sentence1": "a @", "sentence2": "b", "score": 0.@}'
rows nli.jsonl '{"premise": "a @", "hypothesis": "b", "label": 0}' '{"premise": "a", "hypothesis": "b", "label": 2}'
rows chat.jsonl '{"messages": [{"role": "user", "content": "q @"}, {"role": "assistant", "content": "a"}]}'
rows share.jsonl '{"conversations": [{"from": "human", "value": "q @"}, {"from": "gpt", "value": "a"}]}'
rows prefer.jsonl '{"prompt": "q @", "chosen": "a", "rejected": "b"}'
rows kto.jsonl '{"prompt": "q @", "completion": "a", "label": true}' '{"prompt": "q", "completion": "b", "label": false}'
rows prompt.jsonl '{"prompt": "q @", "completion": "a"}'
rows text.jsonl "{$text}"
rows five.jsonl "{$text, \"label\": 0}" "{$text, \"label\": 4}"
rows pandas.jsonl "{$text, \"label\": 0.0}" "{$text, \"label\": 2.0}"
rows names.jsonl "{$text, \"label\": \"good\"}" "{$text, \"label\": \"bad\"}"
rows real.jsonl "{$text, \"label\": 0.5}" "{$text, \"label\": 2}"
rows hot.jsonl "{$text, \"labels\": [1, 0, 1]}" "{$text, \"labels\": [0, 0, 0]}"
rows lists.jsonl "{$text, \"labels\": [\"red\"]}" "{$text, \"labels\": [\"red\", \"blue\"]}"
rows truth.jsonl "{$text, \"labels\": \"[True, False, True]\"}" "{$text, \"labels\": \"[ True  True False]\"}"
rows edu.jsonl "{$text, \"score\": 2.5}"
rows corpus.txt 'some text @'
(echo 'Review,Sentiment' && for i in 1 2 3 4; do echo "text $i,$([[ $((i % 2)) == 0 ]] && echo pos || echo neg)"; done) >"$work/table.csv"
for i in 1 2 3 4; do printf '%d\ttext %d\n' $((i % 2)) $i; done >"$work/bare.tsv"

small=(--max-seq-length 16 --per-device-train-batch-size 2)
line=''
# said MODEL DATA LINE [OPTIONS]: what plan says of the task on stderr, and in JSON.
said() {
    local want=$3 word=${3%%,*}
    run plan --model "$1" --data "$work/$2" "${small[@]}" --json "${@:4}"
    line=$(grep '^bedplate: task: ' <<<"$err")
    [[ $code -eq 0 && $line == "bedplate: task: $want" && $(json task) == "$word" && $(json task_from) == "${want##*from }" ]]
    check $? "$1 $2: $want" "$code $out$err"
}
# The data say what a model without a task of its own is for.
while read -r data want; do
    said tiny-bert "$data" "$want"
done <<'END'
words.jsonl token-classification, from columns tokens and ner_tags
pairs.jsonl embedding, from 2 texts a row
score.jsonl embedding, from 2 texts a row with a score
nli.jsonl classification, 3 classes, from column label
prompt.jsonl masked-lm, from columns prompt and completion
text.jsonl masked-lm, from column text
five.jsonl classification, 5 classes, from column label
pandas.jsonl classification, 3 classes, from column label
names.jsonl classification, 2 classes, from column label
real.jsonl regression, from column label
hot.jsonl multi-label-classification, 3 classes, from column labels
truth.jsonl multi-label-classification, 3 classes, from column labels
lists.jsonl multi-label-classification, 2 classes, from column labels
edu.jsonl regression, from column score
corpus.txt masked-lm, from plain text
table.csv classification, 2 classes, from column Sentiment
bare.tsv classification, 2 classes, from column 1
END
mkdir "$work/words"
cp tests/golden/answers/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/words"
said "$work/words" squad.jsonl 'question-answering, from columns question and context'
# A causal model judges labelled rows by its last token, and never leaves labels out in silence.
while read -r data want; do
    said tiny "$data" "$want"
done <<'END'
five.jsonl classification, 5 classes, from column label
names.jsonl classification, 2 classes, from column label
real.jsonl regression, from column label
prefer.jsonl dpo, from columns chosen and rejected
kto.jsonl kto, from columns completion and label
prompt.jsonl causal-lm, from columns prompt and completion
edu.jsonl causal-lm, from column text
corpus.txt causal-lm, from plain text
table.csv classification, 2 classes, from column Sentiment
END
said tiny chat.jsonl 'causal-lm, from column messages' --chat-template chatml
said tiny share.jsonl 'causal-lm, from column conversations' --chat-template chatml
run train --model tiny --data "$work/five.jsonl" "${small[@]}" --max-steps 2 --output-dir "$work/m" --json
[[ $code -eq 0 && $(json task) == classification && $(json num_labels) == 5 ]] && grep -q '^bedplate: task: classification, 5 classes, from column label$' <<<"$err"
check $? "and is trained so" "$code $out$err"
printf '%s\n' "$out" >"$work/five.out"
grep -q '"num_labels": *5\|"4"' "$work/m/config.json"
check $? "with as many classes as there are" "$(cat "$work/m/config.json")"
run plan --model tiny --data "$work/five.jsonl" "${small[@]}" --json
[[ $(grep -o '"classes": ' <<<"$out" | wc -l) -eq 1 && $(json num_labels) == 5 ]]
check $? "plan has the number of classes beside its classes of bytes" "$out"
run eval --model "$work/m" --data "$work/five.jsonl" --max-seq-length 16 --json
[[ $code -eq 0 && $(json task) == classification && $out == *'"accuracy": '* ]]
check $? "eval takes the model's task, which is the data's" "$code $out$err"
# The record names the task that was found, so that its card and its replay have it.
run train --model tiny --data "$work/prefer.jsonl" "${small[@]}" --max-steps 2 --output-dir "$work/dpo" --quiet --json
[[ $code -eq 0 && $(json task) == dpo && $err != *'task: '* ]] && grep -q '"task": *"dpo"' "$work/dpo/record.jsonl"
check $? "preferences are found, --quiet says nothing" "$code $out$err"
run replay "$work/dpo"
check $code "and replayed" "$out$err"

# --task goes before what was found.
run plan --model tiny --task regression --data "$work/five.jsonl" "${small[@]}" --json
[[ $code -eq 0 && $(json task) == regression && -z $(json task_from) && -z $err ]]
check $? "--task is not guessed at" "$code $out$err"

# What the data contradict is refused, with both names.
while read -r task data holds right; do
    for command in plan train eval; do
        run $command --model tiny-bert --task "$task" --data "$work/$data" --max-seq-length 16 $([[ $command == train ]] && echo --output-dir "$work/x")
        [[ $code -eq 2 && $err == *"--task: $data holds ${holds//_/ } "*"found $task, expected $right"* ]]
        check $? "$command --task $task of $data" "$code $out$err"
    done
done <<'END'
classification chat.jsonl conversations causal-lm
classification text.jsonl plain_text causal-lm
classification words.jsonl words_with_tags token-classification
classification real.jsonl labelled_texts regression
classification lists.jsonl labelled_texts multi-label-classification
classification pairs.jsonl texts_that_are_compared embedding
regression names.jsonl labelled_texts classification
token-classification five.jsonl labelled_texts classification
question-answering corpus.txt plain_text causal-lm
embedding prefer.jsonl preferences dpo
masked-lm squad.jsonl questions_about_texts question-answering
dpo prompt.jsonl prompts_with_completions causal-lm
kto five.jsonl labelled_texts classification
END
[[ ! -e $work/x ]]
check $? "and nothing is made"
# What a model cannot learn is refused as well; a model without the head is not asked to judge.
expect 2 'chat.jsonl holds conversations .*cannot learn them.*found masked-lm' train --model tiny-bert --data "$work/chat.jsonl" --output-dir "$work/x"
expect 2 'kto.jsonl holds judged completions .*cannot learn from judgements: found masked-lm, expected a causal model, or --task masked-lm to learn the texts without labels$' train --model tiny-bert --data "$work/kto.jsonl" --output-dir "$work/x"
expect 0 '^arena ' plan --model tiny-bert --task masked-lm --data "$work/kto.jsonl" "${small[@]}"
printf '"text";label\nI loved it, really.;good\nbad;bad\n' >"$work/semicolons.csv"
for model in tiny tiny-bert; do
    expect 4 'semicolons.csv: the columns are separated by semicolons: expected commas, or tabs' plan --model $model --data "$work/semicolons.csv"
    expect 4 'semicolons.csv: the columns are separated by semicolons: expected commas, or tabs' plan --model $model --data "$work/table.csv" --data "$work/semicolons.csv"
done
# A list in one text is refused as such; a name with a semicolon is one.
for label in 1,0,1 '1|2' 10,000; do
    printf 'text,label\nx,"%s"\ny,"%s"\n' "$label" "$label" >"$work/listed.csv"
    for model in tiny tiny-bert; do
        expect 4 'listed.csv:2: the label is a list written as one text' train --model $model --data "$work/listed.csv" "${small[@]}" --output-dir "$work/x"
    done
done
for i in 1 2; do printf 'x,[INST]\ny,[SYS]\n'; done | sed '1i text,label' >"$work/bracket.csv"
said tiny-bert bracket.csv 'classification, 2 classes, from column label'
run train --model tiny-bert --data "$work/bracket.csv" "${small[@]}" --max-steps 1 --output-dir "$work/bracket"
[[ $code -eq 0 && $err == *'bracket.csv: 2 classes: [INST], [SYS]'* ]]
check $? "names in brackets are classes, which are printed" "$code $err"
run train --model tiny-bert --task multi-label-classification --data "$work/bracket.csv" "${small[@]}" --max-steps 1 --output-dir "$work/asked"
[[ $code -eq 0 && $err == *'bracket.csv: 2 classes: INST, SYS'* ]]
check $? "and lists of one member if --task is of several" "$code $err"
echo 'z,"[INST, SYS]"' >>"$work/bracket.csv"
said tiny-bert bracket.csv 'multi-label-classification, 2 classes, from column label'
for i in 1 2; do printf "x,['a']\ny,['b']\n"; done | sed '1i text,label' >"$work/quoted.csv"
said tiny-bert quoted.csv 'multi-label-classification, 2 classes, from column label'
for i in 1 2; do printf 'x,a;b\ny,c\n'; done | sed '1i text,label' >"$work/semicolon.csv"
said tiny-bert semicolon.csv 'classification, 2 classes, from column label'
echo '{"prompt": "2+2=", "answer": "4"}' >"$work/asked.jsonl"
expect 2 'asked.jsonl holds prompts with answers .*columns prompt and answer.*found causal-lm, expected grpo' plan --model tiny --data "$work/asked.jsonl"
columns=(--text-column prompt --label-column answer "${small[@]}")
sed 's/"4"/"four"/; p; s/four/five/' "$work/asked.jsonl" >"$work/answers.jsonl"
for model in tiny tiny-bert; do
    expect 0 '^arena ' plan --model $model --task classification --data "$work/answers.jsonl" "${columns[@]}"
done
run plan --model tiny-bert --data "$work/asked.jsonl" "${small[@]}"
[[ $err != *grpo* ]]
check $? "an encoder is not sent to rewards" "$code $err"
expect 0 'arena' plan --model tiny --task grpo --max-completion-length 4 --data "$work/asked.jsonl" --reward exact
expect 2 'words.jsonl holds words with tags .*found causal-lm, expected an encoder' plan --model tiny --data "$work/words.jsonl"
expect 2 'need bert' train --model tiny --data "$work/words.jsonl" "${small[@]}" --output-dir "$work/x"
run train --model tiny --data "$work/corpus.txt" "${small[@]}" --max-steps 0 --output-dir "$work/base" --quiet
expect 2 'five.jsonl holds labelled texts .*no head for this task.*expected causal-lm' eval --model "$work/base" --data "$work/five.jsonl" --max-seq-length 16
expect 0 'loss' eval --model "$work/base" --task causal-lm --data "$work/five.jsonl" --max-seq-length 16
# What comes through a pipe is looked at like a file, packed or not, and read once.
gzip -c "$work/five.jsonl" >"$work/five.gz"
for kind in standard named packed; do
    case $kind in
    standard) "$program" train --model tiny --data - "${small[@]}" --max-steps 2 --output-dir "$work/pipe" --json <"$work/five.jsonl" >"$work/.out" 2>"$work/.err" ;;
    named) "$program" train --model tiny --data <(cat "$work/five.jsonl") "${small[@]}" --max-steps 2 --output-dir "$work/pipe" --json >"$work/.out" 2>"$work/.err" ;;
    packed) cat "$work/five.gz" | "$program" train --model tiny --data - "${small[@]}" --max-steps 2 --output-dir "$work/pipe" --json >"$work/.out" 2>"$work/.err" ;;
    esac
    [[ $? -eq 0 && $(grep -c '^bedplate: task: classification, 5 classes, from column label$' "$work/.err") -eq 1 ]] &&
        [[ $(tail -1 "$work/.out" | grep -o '"state_digest": "[^"]*"') == "$(tail -1 "$work/five.out" | grep -o '"state_digest": "[^"]*"')" ]]
    check $? "$kind pipe" "$(cat "$work/.err" "$work/.out")"
    rm -rf "$work/pipe"
done
out=$("$program" plan --model tiny-bert --task dpo --data - "${small[@]}" <"$work/prompt.jsonl" 2>&1)
[[ $? -eq 2 && $out == *'--task: standard input holds prompts with completions '*'found dpo, expected causal-lm'* ]]
check $? "a pipe contradicts a task" "$out"
out=$(cat "$work/five.jsonl" "$work/five.jsonl" | "$program" plan --model tiny-bert --data - --unpack-limit 10 "${small[@]}" 2>&1)
[[ $? -eq 6 && $(wc -l <<<"$out") -eq 1 && $out == *'more than --unpack-limit'* ]]
check $? "a pipe that gives too much ends before the rest is taken for the data" "$out"
[[ -z $(ls "${TMPDIR:-/tmp}" | grep '^bedplate-data') ]]
check $? "nothing of it is left"

# CoNLL's columns; token files of a text, of labels, and of what they were made.
conll='-DOCSTART- -X- O O\n\nEU NNP B-ORG\nrejects VBZ O\n\nPeter NNP B-PER\n\n'
for _ in 1 2 3 4; do printf -- "${conll/-DOCSTART- -X- O O/}"; done >"$work/conll.txt"
{ printf -- '-DOCSTART- -X- O\n\n' && tr ' ' '\t' <"$work/conll.txt"; } >"$work/conll.tsv"
said tiny-bert conll.txt 'token-classification, from columns of words and tags'
said tiny-bert conll.tsv 'token-classification, from columns of words and tags'
sed 's/ [OB][^ ]*$/ noun/' "$work/conll.txt" >"$work/other.txt"
said tiny-bert other.txt 'masked-lm, from plain text'
expect 2 'conll.txt holds words with tags .columns of words and tags.*expected token-classification' plan --model tiny-bert --task regression --data "$work/conll.txt" "${small[@]}"
run train --model tiny-bert --data "$work/conll.txt" "${small[@]}" --max-steps 1 --output-dir "$work/tagged" --json
[[ $code -eq 0 && $(json task) == token-classification ]] && grep -q "tags of 3 classes" <<<"$err"
check $? "and is trained so" "$err$out"
# Classes without prefixes: few of them, in capitals or behind tabs, in several sentences. Nothing else is taken for them.
sentence='The DT\ndog NN\nbarks VBZ\n. .\n\nDogs NN\nbark VBZ\nat DT\nthe DT\ncat NN\n. .\n\n'
for _ in 1 2 3 4; do printf -- "$sentence"; done >"$work/pos.txt"
tr ' A-Z' '\ta-z' <"$work/pos.txt" >"$work/pos.tsv"
awk 'NF { $1 = $1 " x_" NR % 9 } 1' "$work/pos.txt" >"$work/three.txt"
for data in pos.txt pos.tsv three.txt; do said tiny-bert $data 'token-classification, from columns of words and tags'; done
run train --model tiny-bert --data "$work/pos.txt" "${small[@]}" --max-steps 1 --output-dir "$work/pos" --json
[[ $code -eq 0 && $(json task) == token-classification ]] && grep -q "tags of 4 classes" <<<"$err"
check $? "classes of words are trained" "$err$out"
run eval --model "$work/pos" --data "$work/pos.txt" --max-seq-length 16 --json
[[ $code -eq 0 && $out == *'"accuracy": '* ]]
check $? "and evaluated" "$err$out"
tr 'A-Z' 'a-z' <"$work/pos.txt" >"$work/verse1.txt"                                    # words in two columns
grep . "$work/pos.txt" >"$work/verse2.txt"                                             # no sentence ends
sed 's/[A-Z.]*$/1/' "$work/pos.txt" >"$work/verse3.txt"                                # numbers
sed 's/VBZ/a VBZ/' "$work/pos.txt" >"$work/verse4.txt"                                 # lines of other lengths
awk 'NF { $2 = "W" NR } 1' "$work/pos.txt" >"$work/verse5.txt"                     # as many classes as words
{ cat "$work/pos.txt" && printf 'some text\n\n'; } >"$work/verse6.txt"                # text behind them
for data in verse{1..6}.txt; do said tiny-bert $data 'masked-lm, from plain text'; done
expect 0 '^arena ' plan --model tiny-bert --task masked-lm --data "$work/pos.txt" "${small[@]}"
run tokenize --tokenizer tests/golden/tokenizers/bert_uncased --data "$work/corpus.txt" "$work/corpus.txt" "$work/corpus.txt" --output "$work/corpus.bin"
said tiny-bert corpus.bin 'masked-lm, from a token file'
said tiny corpus.bin 'causal-lm, from a token file'
expect 2 'corpus.bin holds tokens .a token file.*found classification, expected causal-lm' plan --model tiny-bert --task classification --data "$work/corpus.bin" "${small[@]}"
cp "$work/m/data.tokens" "$work/five.tokens"
cp "$work/tagged/data.tokens" "$work/tagged.tokens"
cp "$work/dpo/data.tokens" "$work/dpo.tokens"
expect 2 'five.tokens holds labelled texts .*does not say whether its labels.*found auto, expected classification, multi' plan --model tiny --data "$work/five.tokens" "${small[@]}"
expect 0 'task: classification, 5 classes, from a token file' plan --model "$work/m" --data "$work/five.tokens" "${small[@]}"
expect 0 '' plan --model tiny --task classification --num-labels 5 --data "$work/five.tokens" "${small[@]}"
said tiny-bert tagged.tokens 'token-classification, from a token file'
said tiny dpo.tokens 'dpo, from a token file'
expect 2 'dpo.tokens holds preferences.*expected dpo' plan --model tiny --task causal-lm --data "$work/dpo.tokens" "${small[@]}"

# A task that is named has as many classes as labels that are numbers need.
for data in five hot; do
    task=classification classes=5
    [[ $data == five ]] || task=multi-label-classification classes=3
    for model in tiny tiny-bert; do
        rm -rf "$work/named-$model"
        run plan --model $model --task $task --data "$work/$data.jsonl" "${small[@]}" --json
        [[ $code -eq 0 && $(json num_labels) -eq $classes ]]
        check $? "$model --task $task of $data: $classes classes are planned" "$code $err$out"
        run train --model $model --task $task --data "$work/$data.jsonl" "${small[@]}" --max-steps 1 --output-dir "$work/named-$model" --quiet --json
        [[ $code -eq 0 && $(json num_labels) -eq $classes ]]
        check $? "and trained" "$code $err$out"
    done
done
run train --model "$work/m" --task classification --data "$work/pandas.jsonl" "${small[@]}" --max-steps 1 --output-dir "$work/again" --quiet --json
[[ $code -eq 0 && $(json num_labels) -eq 5 ]]
check $? "a model with classes keeps its own" "$err$out"
expect 4 'five.jsonl' train --model tiny --task classification --num-labels 2 --data "$work/five.jsonl" "${small[@]}" --max-steps 1 --output-dir "$work/x"
expect 4 'there is no such file' train --model tiny --data "$work/none.jsonl" --output-dir "$work/x"
: >"$work/empty.jsonl"
expect 4 'the data holds no' train --model tiny-bert --data "$work/empty.jsonl" --output-dir "$work/x"
finish
