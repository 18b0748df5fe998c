#!/bin/bash
# SPDX-License-Identifier: MIT
# init: six questions, and a file that trains as it is.
. "$(dirname "$0")/../lib.sh"

# init DIR ANSWER..: a line for each answer.
init() {
    local dir=$1
    shift
    printf '%s\n' "$@" | "$program" init "$dir" >"$work/.out" 2>"$work/.err"
    code=$?
    out=$(cat "$work/.out")
    err=$(cat "$work/.err")
}
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "green bottles" }' >"$work/text.txt"
cp "$work/text.txt" "$work/more text.txt"

# verifies face-27.6da5
# Every answer given: the file trains, from another place too.
init "$work/a" tiny "$work/text.txt" '' full 3 64MB
[[ $code -eq 0 && $(grep -o '[1-6]/6 ' <<<"$err" | wc -l) -eq 6 && $(grep -o '?' <<<"$err" | wc -l) -eq 6 ]]
check $? "six questions" "$out$err"
grep -q '^# ' "$work/a/train.conf" && grep -q '^arena = 64MB$' "$work/a/train.conf"
check $? "the file has comments and the budget"
run plan --config "$work/a/train.conf" --json
[[ $code -eq 0 && $(json arena_bytes) -le 64000000 && $(json fits) == true ]]
check $? "its plan fits" "$out$err"
real=$(realpath "$program")
(cd / && "$real" train --config "$work/a/train.conf" --quiet) >"$work/.out" 2>&1
check $? "it trains as it is" "$(cat "$work/.out")"
[[ -s $work/a/out/model.safetensors ]]
check $? "and leaves a model"
run train --config "$work/a/train.conf" --resume --quiet
check $code "and is resumed"

# Empty lines: the defaults, and a sample text.
init "$work/b" '' '' '' '' '' ''
[[ $code -eq 0 && -s $work/b/sample.txt ]] && grep -q '^max-steps = 200$' "$work/b/train.conf"
check $? "empty lines are the defaults" "$out$err"
run train --config "$work/b/train.conf" --max-steps 1 --max-seq-length 32 --quiet
check $code "which train" "$err"
init "$work/b2" tiny '' '' '' 2 ''
run train --config "$work/b2/train.conf" --quiet
check $code "a small model on the sample as it is" "$err"

# A directory, its tokenizer, adapters, several files, a name with spaces.
mkdir -p "$work/base"
cp tests/golden/tokenizers/gpt2_small/* "$work/base"
cp tests/golden/readback/gpt2.json "$work/base/config.json"
init "$work/c" "$work/base" "$work/t*t.txt $work/text.txt" '' lora 2 ''
check $code "a directory with a tokenizer" "$err"
[[ $(grep -c '^data = /' "$work/c/train.conf") -eq 2 ]] && grep -q '^lora-r' "$work/c/train.conf"
check $? "has two files and adapters" "$(cat "$work/c/train.conf")"
run train --config "$work/c/train.conf" --quiet
check $code "and trains" "$err"
run train --model "$work/base" --data "$work/text.txt" --max-seq-length 8 --max-steps 0 --output-dir "$work/full" --quiet
run export --model "$work/full" --to "$work/full.gguf"
init "$work/d" "$work/full.gguf" "$work/more text.txt" '' qlora 2 1GiB
check $code "a GGUF file and a name with a space" "$err"
run train --config "$work/d/train.conf" --quiet
check $code "train" "$err"
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 2 "\t" (i % 2 ? "good film" : "bad film") }' >"$work/films.tsv"
init "$work/e" tiny-bert "$work/films.tsv" '' full 2 ''
grep -q '3/6 .*\[classification\]' <<<"$err" && grep -q '^task = classification$' "$work/e/train.conf"
check $? "the data's task is proposed, and written" "$err"
run train --config "$work/e/train.conf" --quiet
check $code "labelled rows are classified" "$err"

# Wrong answers are explained and asked again.
init "$work/f" nothing-like-it tiny "$work/none.txt" "$work" "$work/text.txt" talking classification causal-lm maybe full many 0 4 lots 1000 64MB
[[ $code -eq 0 ]]
check $? "the right answers count" "$err"
for why in 'unknown model' 'none.txt: there is no such file' 'this is no file' 'the task: .*talking' \
    'the data contradict the task.*found classification' 'none of the three: found "maybe"' \
    'the steps: the value is not a whole number: found "many"' 'the steps: the value is out of range' \
    'the memory: the value is not a size: found "lots"' 'the plan does not fit'; do
    grep -qE "$why" <<<"$err"
    check $? "what is wrong is said: $why" "$err"
done
[[ $(grep -o '1/6' <<<"$err" | wc -l) -eq 2 && $(grep -o '2/6' <<<"$err" | wc -l) -eq 3 && $(grep -o '3/6' <<<"$err" | wc -l) -eq 3 && $(grep -o '6/6' <<<"$err" | wc -l) -eq 3 ]]
check $? "and asked again" "$err"
run train --config "$work/f/train.conf" --quiet
check $code "that trains, too" "$err"
init "$work/g" tiny-mlp '' "$work/text.txt"
grep -q 'takes rows of numbers' <<<"$err"
check $? "a model of rows needs a file of them" "$err"

# The input ends: exit 2, and nothing is written.
init "$work/h" tiny "$work/text.txt" ''
[[ $code -eq 2 && ! -e $work/h ]] && grep -q 'what is trained: the answers end before this question' <<<"$err"
check $? "an input that ends is an error" "$code $err"
expect 2 'model: the answers end' init "$work/h"
expect 2 'an argument is missing' init

# What is there is left as it is.
before=$(md5sum <"$work/a/train.conf")
init "$work/a" '' '' '' '' ''
[[ $code -eq 2 && $(md5sum <"$work/a/train.conf") == "$before" ]] && grep -q 'is there already' <<<"$err"
check $? "an earlier file is not written over" "$code $err"
init "$work/none/where" '' '' '' '' '' ''
[[ $code -eq 6 ]] && grep -q 'none/where: the directory cannot be made' <<<"$err"
check $? "a directory that cannot be made" "$code $err"
printf '\n\n\n\n\n\n' | "$program" init "$work/j" --json >"$work/.out" 2>/dev/null
[[ $(cat "$work/.out") == "{\"config\": \"$work/j/train.conf\", \"arena_bytes\": "* ]]
check $? "as JSON" "$(cat "$work/.out")"
# Every kind of model with every form of data: the file trains as it is, or the data is refused where it is asked for.
# verifies formats-74.9d87
printf 'anchor,positive\n' >"$work/two.csv"
printf 'text,label\n' >"$work/classes.csv"
printf 'sentence1\tsentence2\tscore\n' >"$work/scores.tsv"
for ((i = 0; i < 12; i++)); do
    echo "a $i,b $i" >>"$work/two.csv"
    echo "some text $i,$((i % 5)).0" >>"$work/classes.csv"
    printf 'a %d\tb %d\t0.%d\n' $i $i $((i + 10)) >>"$work/scores.tsv"
    echo "{\"text\": \"some text $i\", \"label\": \"$([[ $((i % 2)) -eq 0 ]] && echo good || echo bad)\"}" >>"$work/names.jsonl"
    echo "{\"text\": \"some text $i\", \"label\": [\"red\", \"blue\"]}" >>"$work/lists.jsonl"
    echo "{\"text\": \"a longer text that a language model learns, number $i\"}" >>"$work/texts.jsonl"
    echo "{\"prompt\": \"q $i\", \"completion\": \"a\"}" >>"$work/prompts.jsonl"
    echo "{\"prompt\": \"q $i\", \"chosen\": \"a\", \"rejected\": \"b\"}" >>"$work/pairs.jsonl"
    echo "{\"prompt\": \"q $i\", \"completion\": \"a\", \"label\": $([[ $((i % 2)) -eq 0 ]] && echo true || echo false)}" >>"$work/kto.jsonl"
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"q $i\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}" >>"$work/chat.jsonl"
    echo "{\"tokens\": [\"a\", \"b$i\"], \"ner_tags\": [\"O\", \"B-x\"]}" >>"$work/words.jsonl"
    echo "$i,2,$((i % 2))" >>"$work/numbers.csv"
done
head -3 "$work/classes.csv" >"$work/few.csv"
printf 'foo,bar\nx,y\n' >"$work/unknown.csv"
run train --model tiny-bert --task embedding --data "$work/two.csv" --max-seq-length 16 --per-device-train-batch-size 2 \
    --max-steps 1 --output-dir "$work/embedder" --quiet
check $code "a model that makes vectors" "$err"
mkdir "$work/net"
printf '{"model_type": "mlp", "input_size": 2, "hidden_sizes": [3], "num_labels": 2}\n' >"$work/net/config.json"
mkdir -p "$work/answers" "$work/pets/cat" "$work/pets/dog" "$work/net-images"
cp tests/golden/answers/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/answers"
for ((i = 0; i < 4; i++)); do
    echo '{"question": "what", "context": "some words", "answers": {"text": ["words"], "answer_start": [5]}}' >>"$work/asks.jsonl"
    for class in cat dog; do cp tests/golden/pictures/colour.ppm "$work/pets/$class/$i.ppm"; done
done
echo '{"model_type": "cnn", "image_height": 8, "image_width": 10, "num_channels": 3, "layers": ["conv 4 3", "mean-pool all"]}' \
    >"$work/net-images/config.json"
# try MODEL DATA: whether init writes a file; that is planned and trained as it is.
try() {
    local name=${1##*/}:$2
    rm -rf "$work/try"
    init "$work/try" "$1" "$data" '' full 1 ''
    written=0
    [[ -e $work/try/train.conf ]] || return
    written=1
    run plan --config "$work/try/train.conf" --json
    check $code "$name: what init writes is planned" "$(grep -E '^(task|num|chat)' "$work/try/train.conf")$err"
    run train --config "$work/try/train.conf" --quiet
    check $code "$name: what init writes trains" "$(grep -E '^(task|num|chat)' "$work/try/train.conf")$err"
}
every='two classes few names lists scores words texts prompts pairs kto chat text sample unknown numbers asks pets'
# Each family, with what it accepts of this; all other data are refused where they are asked for.
accepted() {
    case ${1##*/} in
    embedder) echo two classes few names lists scores words ;; # it has no head that fills gaps
    tiny-bert) echo two classes few names lists scores words texts prompts text sample ;;
    answers) echo asks text ;;
    net) echo numbers ;;
    net-images) echo pets ;;
    tiny-qwen3) echo classes few names lists scores two texts prompts pairs kto chat text sample ;;
    tiny-gru) echo texts text sample ;;
    *bert* | tiny-electra | tiny-mpnet) echo names words text ;;
    *) echo names pairs text ;;
    esac
}
models=("$work/embedder" tiny-bert tiny-qwen3 tiny-gru tiny tiny-llama tiny-gemma3-text tiny-phi3 tiny-neox tiny-roberta
    tiny-distilbert tiny-electra tiny-mpnet tiny-modernbert "$work/answers" "$work/net" "$work/net-images")
long_form || models=("$work/embedder" tiny-bert tiny-qwen3 tiny-gru tiny tiny-modernbert "$work/answers" "$work/net" "$work/net-images")
[[ -z ${BP_TEST_SHORT:-} ]] || models=(tiny-bert tiny-qwen3 "$work/answers" "$work/net-images")
for model in "${models[@]}"; do
    wanted=" $(accepted "$model") "
    for kind in $every; do
        data=$(ls -d "$work/$kind".* "$work/$kind" 2>/dev/null | head -1)
        [[ $kind != sample ]] || data=''
        case ${model##*/}$wanted in # the least families: all data; the others: what is named
        embedder* | tiny-bert* | "tiny "* | net* | answers*) ;;
        *) [[ $wanted == *" $kind "* ]] || continue ;;
        esac
        try "$model" "$kind"
        if [[ $wanted == *" $kind "* || $written == 1 ]]; then
            [[ $written == 1 ]]
            check $? "${model##*/}:$kind: init finds a way to train it" "$err"
        else
            grep -q '^bedplate: .*' <<<"$err"
            check $? "${model##*/}:$kind: or says why there is none" "$err"
        fi
    done
done

# Labels that a language model is told to leave out are said.
lm=(train --model tiny --task causal-lm --max-seq-length 16 --per-device-train-batch-size 2 --max-steps 1)
run "${lm[@]}" --data "$work/names.jsonl" --output-dir "$work/lm"
[[ $code -eq 0 ]] && grep -q 'names.jsonl: rows have labels, which a language model does not learn' <<<"$err"
check $? "labelled rows of a language model" "$err"
run "${lm[@]}" --data "$work/kto.jsonl" --output-dir "$work/lm2" --quiet
[[ $code -eq 0 ]] && grep -q 'kto.jsonl: rows have labels' <<<"$err"
check $? "and rows of kto" "$err"

# --yes: every proposal, no question; what an option answers is not asked, with --yes or without.
run init "$work/y1" --yes
[[ $code -eq 0 && -s $work/y1/sample.txt && $err != *'?'* ]] && grep -qx 'model = demo' "$work/y1/train.conf" && grep -qx 'max-steps = 200' "$work/y1/train.conf"
check $? "--yes takes every proposal" "$err"
run train --config "$work/y1/train.conf" --max-steps 1 --max-seq-length 32 --quiet
check $code "which train" "$err"
for kind in two classes names lists scores words texts prompts pairs kto chat text numbers asks pets; do
    case $kind in
    numbers) model=$work/net ;;
    pets) model=$work/net-images ;;
    asks) model=$work/answers ;;
    pairs | chat | kto) model=tiny-qwen3 ;;
    *) model=tiny-bert ;;
    esac
    data=$(ls -d "$work/$kind".* "$work/$kind" 2>/dev/null | head -1)
    rm -rf "$work/y2"
    run init "$work/y2" --yes --model "$model" --data "$data" --max-steps 1 --json
    [[ $code -eq 0 && $(json arena_bytes) -gt 0 && $(grep -c '^[1-6]/6 ' <<<"$err") -eq 6 ]]
    check $? "$kind: --yes with a model and data" "$err"
    run train --config "$work/y2/train.conf" --quiet
    check $code "$kind: what it writes trains" "$(cat "$work/y2/train.conf")$err"
done
run init "$work/y3" --yes --model tiny --data "$work/names.jsonl" "$work/texts.jsonl" --task causal-lm --max-steps 2 --arena 64MB
[[ $code -eq 0 && $(grep -c '^data = ' "$work/y3/train.conf") -eq 2 ]] && grep -qx 'task = causal-lm' "$work/y3/train.conf" &&
    grep -qx 'arena = 64000000' "$work/y3/train.conf" && grep -qx 'max-steps = 2' "$work/y3/train.conf"
check $? "options answer, several files and a budget too" "$err$(cat "$work/y3/train.conf")"
printf '%s\n' full 2 | "$program" init "$work/y4" --model tiny --data "$work/more text.txt" --task auto --arena 64MB >"$work/.out" 2>"$work/.err"
[[ $? -eq 2 && ! -e $work/y4 ]] && grep -q '3/6 Which task' "$work/.err"
check $? "without --yes the others are asked" "$(cat "$work/.err")"
printf '%s\n' '' full 2 | "$program" init "$work/y4" --model tiny --data "$work/more text.txt" --arena 64MB >"$work/.out" 2>"$work/.err"
[[ $? -eq 0 && $(grep -c '?' "$work/.err") -eq 3 ]]
check $? "and no more than these" "$(cat "$work/.err")"
for wrong in '--model nothing-like-it' '--model tiny-mlp' "--data $work/none.txt" "--data $work/unknown.csv" "--task classification --data $work/text.txt" \
    '--max-steps 0' '--arena 1000'; do
    # shellcheck disable=SC2086
    run init "$work/y5" --yes $wrong
    [[ $code -eq 2 && ! -e $work/y5 ]] && grep -qE 'the answer cannot be used, and nothing is written' <<<"$err"
    check $? "$wrong: refused, and nothing is written" "$code $err"
done

# A line end in a name cannot stand in the file.
odd="$work/a"$'\n'"b.txt"
cp "$work/text.txt" "$odd"
init "$work/k" tiny "$work/a*b.txt"
[[ $code -eq 2 && ! -e $work/k ]] && grep -q 'a configuration file cannot hold a name with a line end' <<<"$err"
check $? "a name of two lines is refused" "$err"
finish
