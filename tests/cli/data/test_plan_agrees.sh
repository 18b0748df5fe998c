#!/bin/bash
# SPDX-License-Identifier: MIT
# plan refuses what train refuses for the model and the kind of its data, with the same exit code and in the same words: a
# table of models and data. What only reading all rows finds is train's alone.
. "$(dirname "$0")/../lib.sh"

rows() { # NAME LINE: eight times, with the number for @
    local i
    for i in 0 1 2 3 4 5 6 7; do echo "${2//@/$i}"; done >"$work/$1"
}
rows text.txt 'some text @ of a corpus'
rows text.jsonl '{"text": "some text @"}'
rows labels.jsonl '{"text": "some text @", "label": 1}'
rows tags.jsonl '{"tokens": ["a", "b@"], "ner_tags": ["O", "B-x"]}'
rows answers.jsonl '{"question": "q @", "context": "some a", "answers": {"text": ["a"], "answer_start": [5]}}'
rows pairs.jsonl '{"anchor": "a @", "positive": "b"}'
rows prefer.jsonl '{"prompt": "q @", "chosen": "a", "rejected": "b"}'
rows kto.jsonl '{"prompt": "q @", "completion": "a", "label": true}'
rows chat.jsonl '{"messages": [{"role": "user", "content": "q @"}, {"role": "assistant", "content": "a"}]}'
rows named.jsonl '{"text": "some text @", "label": "n@"}'
rows prompt.jsonl '{"prompt": "q @", "completion": "a"}'
rows alpaca.jsonl '{"instruction": "do @", "output": "a"}'
rows share.jsonl '{"conversations": [{"from": "human", "value": "q @"}, {"from": "gpt", "value": "a"}]}'
rows other.jsonl '{"body": "some text @"}'
for i in 1 2 3 4; do printf '1\tdog%d\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n' $i; done >"$work/words.conllu"
(echo 'text,label' && for i in 1 2 3 4; do echo "text $i,$((i % 2))"; done) >"$work/table.csv"
for i in 1 2 3 4; do echo "0.$i,0.2,0.3,0.4,$((i % 2))"; done >"$work/numbers.csv"
mkdir -p "$work/photos/a" "$work/photos/b" "$work/empty" "$work/net"
for class in a b; do for i in 1 2 3 4; do { printf 'P6 8 8 255\n' && head -c 192 /dev/zero | tr '\0' "$i"; } >"$work/photos/$class/$i.ppm"; done; done
echo '{"model_type": "mlp", "input_size": 4, "hidden_sizes": [8], "num_labels": 2}' >"$work/net/config.json"
mkdir "$work/cnn"
echo '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 3, "num_labels": 2, "layers": ["conv 4 3", "mean-pool all"]}' >"$work/cnn/config.json"

for ((i = 0; i < 200; i++)); do printf '\1\0\2\0'; done >"$work/tokens.bin"
echo ab >"$work/few.txt"
printf '\1\0\2\0' >"$work/few.bin"
refused=0 cell=0
# The short form takes every other cell of the table, a chessboard: each model with half of the data, each data with half of the
# models.
dark() { long_form || [[ $(((cell++ + row) % 2)) -eq 0 ]]; }
words() { grep '^bedplate: ' <<<"$1" | grep -v '^bedplate: task: \|the weights are random\|rows have labels\|each token is a byte' | tail -1; }
# agrees MODEL DATA OPTION..: train of no steps, and plan.
agrees() {
    local model=$1 data=$2 trained
    shift 2
    local all=(--model "$model" --data "$work/$data" --per-device-train-batch-size 2 "$@")
    run train "${all[@]}" --max-steps 0 --output-dir "$work/out" --overwrite-output-dir --quiet --json
    trained=$code
    why=$(words "$err")
    local arena=$(json arena_bytes) host=$(json host_bytes)
    run plan "${all[@]}" --json
    [[ $code -eq $trained && (! $trained -eq 4 || $(words "$err") == "$why") ]]
    check $? "$model $data $*: plan $code, train $trained" "$(words "$err"); $why"
    if [[ $code -ne 0 ]]; then
        refused=$((refused + 1))
    else
        # Host bytes are a bound where only reading all rows would tell.
        [[ $(json arena_bytes) -eq $arena && $(json host_bytes) -ge $host ]]
        check $? "$model $data $*: plan and train have the same bytes" "$(json arena_bytes) $(json host_bytes), train $arena $host"
    fi
}
kinds=(text.txt text.jsonl labels.jsonl tags.jsonl answers.jsonl pairs.jsonl prefer.jsonl kto.jsonl chat.jsonl table.csv numbers.csv photos empty)
kinds+=(named.jsonl prompt.jsonl alpaca.jsonl share.jsonl other.jsonl words.conllu)
# Directories of a causal classifier, and of a model that tags words; both have names of classes.
run train --model tiny-llama --task classification --data "$work/labels.jsonl" --max-seq-length 16 --max-steps 0 --num-labels 2 --output-dir "$work/judge" --quiet
check $code "a causal classifier" "$err"
mkdir "$work/tagger"
cp tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/tagger"
sed 's/"BertForMaskedLM"/"BertForTokenClassification"/; s/^{/{"id2label": {"0": "O", "1": "B-x"},/' tests/golden/answers/config.json >"$work/tagger/config.json"
row=0
for data in "${kinds[@]}"; do
    row=$((row + 1)) cell=0
    for model in tiny tiny-bert; do ! dark || agrees "$model" "$data" --max-seq-length 16; done
    for model in judge tagger; do ! dark || agrees "$work/$model" "$data" --max-seq-length 16; done
    for model in net cnn; do ! dark || agrees "$work/$model" "$data"; done
    for task in classification embedding token-classification question-answering; do
        ! dark || agrees tiny-bert "$data" --max-seq-length 16 --task "$task"
    done
    [[ $data == other.jsonl ]] && continue # the sides of each row are read in training alone
    for task in dpo kto; do ! dark || agrees tiny-llama "$data" --max-seq-length 16 --task "$task"; done
done
for format in csv npy idx cifar10 imagefolder jsonl text; do
    agrees tiny photos --max-seq-length 16 --data-format "$format"
    agrees "$work/net" numbers.csv --data-format "$format"
done
# Options that contradict each other, the data, or the files that they name.
# settled CODE DATA OPTION..: both end so, with the same words.
settled() {
    local want=$1 data=$2
    shift 2
    agrees tiny-llama "$data" --max-seq-length 16 "$@"
    [[ $code -eq $want && ($want -eq 0 || $(words "$err") == "$why") ]]
    check $? "$data $*: both exit $want" "$(words "$err"); $why"
}
eval=(--eval-data "$work/text.txt")
for option in --load-best-model-at-end --keep-best "--early-stopping-patience 2" "--save-strategy best" "--eval-strategy epoch"; do
    # shellcheck disable=SC2086
    settled 2 text.txt $option
    # shellcheck disable=SC2086
    settled 0 text.txt $option "${eval[@]}"
    # shellcheck disable=SC2086
    settled 0 text.txt $option --validation-split 0.5
done
settled 2 text.txt "${eval[@]}" --early-stopping-patience 2 --eval-strategy no
settled 2 text.txt "${eval[@]}" --load-best-model-at-end --metric-for-best-model nosuch
settled 0 text.txt "${eval[@]}" --load-best-model-at-end --metric-for-best-model perplexity
settled 2 text.txt "${eval[@]}" --validation-split 0.5
for weights in 1,2 0 -1 x; do settled 2 text.txt --data-weights "$weights"; done
settled 0 text.txt --data "$work/text.jsonl" --data-weights 1,2
settled 2 text.txt --data "$work/text.jsonl" --data-weights 1,2,3
settled 2 text.txt --data "$work/text.jsonl" --data-weights 1,2 --group-by-length
settled 2 text.txt --data "$work/text.jsonl" --data-weights 1,2 --validation-split 0.5
settled 2 text.txt --group-by-length
settled 2 text.jsonl --group-by-length
settled 0 text.jsonl --group-by-length --packing
settled 2 prompt.jsonl --group-by-length --packing --packing-strategy wrapped
settled 0 prompt.jsonl --group-by-length
settled 4 text.txt --packing
settled 0 text.txt --packing --packing-strategy wrapped
settled 2 tokens.bin --group-by-length
settled 4 tokens.bin --packing
for kind in few.txt few.bin; do
    settled 4 $kind
    settled 4 text.txt --eval-data "$work/$kind"
done
settled 4 text.txt --chat-template nosuch
settled 0 text.txt --chat-template chatml
settled 2 prefer.jsonl --group-by-length --task dpo
settled 2 prefer.jsonl --packing --task dpo
settled 3 text.txt --offload "file:$work/tier:1KB"
settled 0 text.txt --offload "file:$work/tier:64MB"
settled 2 text.txt --offload "file:$work/text.txt:64MB"
# A plan may be made for another machine: where only this one lacks a directory, plan says what train will.
for path in nodir/tier empty; do
    run train --model tiny-llama --data "$work/text.txt" --max-seq-length 16 --max-steps 0 --output-dir "$work/out" --overwrite-output-dir --quiet \
        --offload "file:$work/$path:64MB"
    why=$(words "$err")
    [[ $code -eq 6 ]]
    check $? "train: an offload file in $path" "$err"
    run plan --model tiny-llama --data "$work/text.txt" --max-seq-length 16 --offload "file:$work/$path:64MB"
    [[ $code -eq 0 && $(words "$err") == "$why: train refuses the file on this machine" ]]
    check $? "plan: an offload file in $path" "$err; $why"
done
run plan --model tiny-llama --max-seq-length 16 --offload "file:$work/tier:1KB" --json
[[ $code -eq 3 && $(json fits) == false ]]
check $? "a plan whose offload file is too small does not fit" "$out$err"
echo '{"prompt": "q", "chosen": "a"}' >"$work/half.jsonl"
echo '{"prompt": "q", "chosen": "a", "rejected": ""}' >"$work/odd.jsonl"
for file in half odd; do for task in dpo kto; do settled 4 $file.jsonl --task $task; done; done
for file in empty.txt empty.jsonl; do
    : >"$work/$file"
    settled 4 $file
    settled 4 text.txt --eval-data "$work/$file"
done
for task in dpo kto classification; do settled 4 empty.jsonl --task $task; done
for task in embedding token-classification masked-lm reranking; do agrees tiny-bert empty.jsonl --max-seq-length 16 --task $task; done
settled 4 text.txt --resume-from-checkpoint "$work/nosuch"
settled 4 text.txt --resume-from-checkpoint "$work/net"
run train --model tiny-llama --data "$work/text.txt" --max-seq-length 16 --per-device-train-batch-size 3 --max-steps 2 --save-steps 1 --output-dir "$work/run" --quiet
check $code "a run with checkpoints" "$err"
expect 0 'batch 3 x 16' plan --model tiny-llama --data "$work/text.txt" --max-seq-length 16 --resume-from-checkpoint "$work/run"
# Adapters are planned as each of them would be alone.
for more in '"load_best_model_at_end": true' '"early_stopping_patience": 2' '"data_weights": "1,2"' '"group_by_length": true'; do
    echo "{\"name\": \"a\", \"lora_r\": 2, $more}" >"$work/jobs.jsonl"
    settled 2 text.txt --adapters "$work/jobs.jsonl"
done
# A plan may be made before its data are there, and without any.
expect 0 . plan --model tiny --data "$work/later.jsonl"
expect 0 . plan --model tiny --load-best-model-at-end
[[ $refused -gt 60 ]]
check $? "much is refused: $refused"
finish
