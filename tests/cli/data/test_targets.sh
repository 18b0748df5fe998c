#!/bin/bash
# SPDX-License-Identifier: MIT
# Rows of which nothing is learned: refused where nothing is left, counted where some is, said when a group has none,
# and an error where an evaluation has none; of every form of rows.
. "$(dirname "$0")/../lib.sh"
# verifies formats-72.c924

far=$(printf 'x%.0s' {1..80})
row() { # FORM QUESTION
    case $1 in
    messages) echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$2\"}, {\"role\": \"assistant\", \"content\": \"yes\"}]}" ;;
    sharegpt) echo "{\"conversations\": [{\"from\": \"human\", \"value\": \"$2\"}, {\"from\": \"gpt\", \"value\": \"yes\"}]}" ;;
    alpaca) echo "{\"instruction\": \"$2\", \"output\": \"yes\"}" ;;
    lists) echo "{\"prompt\": [{\"role\": \"user\", \"content\": \"$2\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"yes\"}]}" ;;
    prompts) echo "{\"prompt\": \"$2\", \"completion\": \"yes\"}" ;;
    pairs) echo "{\"prompt\": \"$2\", \"chosen\": \"yes\", \"rejected\": \"no\"}" ;;
    esac
}
nothing='(no row has a target within|every prompt is longer than) --max-seq-length'

for form in messages sharegpt alpaca lists prompts pairs; do
    { row $form "$far" && row $form "$far"; } >"$work/none.jsonl"
    { row $form "$far" && row $form "$far" && row $form "a" && row $form "b"; } >"$work/some.jsonl"
    { row $form "a" && row $form "b"; } >"$work/all.jsonl"
    common=(--model tiny --max-seq-length 64 --per-device-train-batch-size 1 --threads 1)
    [[ $form == prompts || $form == pairs ]] || common+=(--chat-template chatml)
    learn=("${common[@]}" --max-steps 4)
    [[ $form != pairs ]] || learn+=(--task orpo)
    expect 4 "none.jsonl: $nothing" train "${learn[@]}" --data "$work/none.jsonl" --output-dir "$work/x"
    [[ ! -e $work/x ]]
    check $? "$form: nothing is made" "$(ls "$work/x" 2>/dev/null)"
    run train "${learn[@]}" --data "$work/some.jsonl" --output-dir "$work/$form" --json
    lost=2
    [[ $form != pairs ]] || lost=4
    [[ $code -eq 0 ]] && grep -qE "some.jsonl: $lost of [48] examples are longer .*; of $lost (the whole completion|all that)" <<<"$err"
    check $? "$form: some are counted" "$code $err"
    [[ $(grep -c 'bedplate: step [1-4]: its group has no targets' <<<"$err") -eq 2 && $(json skipped_groups) -eq 2 ]]
    check $? "$form: groups without targets are said" "$out$err"
    for more in '' --load-best-model-at-end; do
        expect 4 "none.jsonl: $nothing" train "${learn[@]}" --data "$work/all.jsonl" --eval-data "$work/none.jsonl" --eval-steps 1 \
            $more --output-dir "$work/x"
    done
    { row $form "a" && row $form "b" && row $form "$far"; } >"$work/split.jsonl"
    expect 4 "split.jsonl: $nothing" train "${learn[@]}" --data "$work/split.jsonl" --validation-split 0.34 --output-dir "$work/x"
    tune=(--data "$work/none.jsonl" --model "$work/$form")
    [[ $form != pairs ]] || tune+=(--task simpo)
    expect 4 "none.jsonl: $nothing" eval "${common[@]:2:2}" "${common[@]:6}" "${tune[@]}"
    [[ $form != pairs ]] || continue
    expect 4 "none.jsonl: $nothing" train "${learn[@]}" --data "$work/none.jsonl" --packing --packing-strategy bfd --output-dir "$work/x"
    rm -rf "$work/x"
    run train "${learn[@]}" --data "$work/none.jsonl" --packing --packing-strategy bfd_split --output-dir "$work/split"
    [[ $code -eq 0 ]] && ! grep -q 'ends are cut' <<<"$err"
    check $? "$form: what goes on in another row is learned" "$err"
    rm -rf "$work/split" "$work/x"
done

# Classes whose weight is 0 are no targets either.
printf 'text,label\na,0\nb,1\nc,0\n' >"$work/classes.csv"
printf 'text,label\na,0\n' >"$work/weightless.csv"
expect 4 'weightless.csv: all targets of the evaluation are of classes whose weight is 0' train --model tiny-bert \
    --task classification --class-weights 0,1 --data "$work/classes.csv" --eval-data "$work/weightless.csv" --eval-steps 1 \
    --max-seq-length 8 --per-device-train-batch-size 1 --max-steps 1 --output-dir "$work/weightless"

# What is masked by chance may be nothing.
expect 4 'the evaluation has no targets' eval --model tiny-bert --task masked-lm --data <(printf 'aaaa') --data-format text \
    --max-seq-length 2
finish
