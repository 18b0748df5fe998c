#!/bin/bash
# SPDX-License-Identifier: MIT
# The directory of a run: names that neither checkpoints nor the record can keep, and a directory that another one
# replaces while the run is on.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
common=(train --model tiny --max-seq-length 16 --per-device-train-batch-size 2 --threads 1 --quiet)

# verifies alone-15.6706
# A byte that is not UTF-8 is refused at the start; characters of any script are not.
odd=$'t\xffxt' cut=$'t\xe4\xb8' right=$'t\xe4\xb8\xad\xc3\xa4'
for name in "$odd" "$cut" "$right"; do cp "$work/text" "$work/$name"; done
mkdir "$work/model"
run "${common[@]}" --data "$work/text" --max-steps 0 --output-dir "$work/made"
for name in "$odd" "$cut"; do
    expect 2 '--data: a byte of the value is not UTF-8' "${common[@]}" --data "$work/$name" --max-steps 2 --output-dir "$work/no"
    expect 2 '--data: a byte of the value is not UTF-8' "${common[@]}" --data "$work/text" "$work/$name" --max-steps 2 --output-dir "$work/no"
    expect 2 '--eval-data: a byte of the value' "${common[@]}" --data "$work/text" --eval-data "$work/$name" --max-steps 2 --output-dir "$work/no"
    expect 2 '--output-dir: a byte of the value is not UTF-8' "${common[@]}" --data "$work/text" --max-steps 2 --output-dir "$work/$name-run"
    expect 2 '--offload: a byte of the value is not UTF-8' "${common[@]}" --data "$work/text" --max-steps 2 --output-dir "$work/no" \
        --offload "file:$work/$name-tier:64MB"
    [[ ! -e $work/$name-tier ]]
    check $? "and no file of that name is made" "$(ls "$work")"
    mkdir "$work/$name-tokens" && cp "$work"/made/tokenizer* "$work/$name-tokens"
    expect 2 '--tokenizer: a byte of the value' "${common[@]}" --data "$work/text" --max-steps 2 --output-dir "$work/no" --tokenizer "$work/$name-tokens"
    cp -r "$work/made" "$work/$name-model"
    expect 2 '--model: a byte of the value' train --model "$work/$name-model" --max-seq-length 16 --threads 1 --quiet --data "$work/text" --max-steps 2 --output-dir "$work/no"
done
[[ ! -e $work/no && ! -e $work/$odd-run && ! -e $work/$cut-run ]]
check $? "nothing was begun" "$(ls "$work")"
expect 0 '' "${common[@]}" --data "$work/$right" --max-steps 2 --save-steps 1 --output-dir "$work/$right-run"
expect 0 'agrees with 2 checkpoints' verify "$work/$right-run"

# verifies alone-14.7d19
# The directory is removed, or replaced by that of a second start, while the first runs: that one ends with 6, and what the
# second one has there is its own.
start() { # DIRECTORY OPTIONS..
    "$program" "${common[@]}" --data "$work/text" --max-steps 1000000 --output-dir "$@" >"$work/first.out" 2>"$work/first.err" </dev/null &
    job=$!
    wait_for 120 "compgen -G '$1/checkpoint-*' >/dev/null" $job
}
ended() { # CODE NAME
    wait $job
    local got=$?
    [[ $got -eq $1 ]]
    check $? "$2 ends with $1, not $got" "$(tail -3 "$work/first.err")"
}
for how in rm mv; do
    start "$work/r" --save-steps 200 --save-total-limit 3
    kill -STOP $job # or what is removed would be written meanwhile
    if [[ $how == rm ]]; then rm -rf "$work/r"; else mv "$work/r" "$work/away"; fi
    expect 0 '' "${common[@]}" --data "$work/text" --max-steps 3 --save-steps 1 --output-dir "$work/r"
    kill -CONT $job
    ended 6 "$how: the first"
    grep -q 'another directory has taken the place' "$work/first.err"
    check $? "$how: it says why" "$(tail -3 "$work/first.err")"
    expect 0 'agrees with 3 checkpoints' verify "$work/r"
    [[ $(cd "$work/r" && echo checkpoint-*) == 'checkpoint-1 checkpoint-2 checkpoint-3' ]]
    check $? "$how: there are no checkpoints but the second's" "$(ls "$work/r")"
    rm -rf "$work/r"
done
[[ ! -d $work/away ]] || expect 0 '' verify "$work/away"
start "$work/r" --save-steps 200 --save-total-limit 3 --storage-patience 1s # limit: it ends by it
kill -STOP $job
rm -rf "$work/r"
kill -CONT $job
ended 6 "a run whose directory is gone"
[[ ! -e $work/r ]]
check $? "and makes no other one" "$(ls "$work/r" 2>&1)"

# verifies record-15.6041
# Damage anywhere is exit 4, whether or not it is the newest, with or without a record; --newest asks less.
run "${common[@]}" --data "$work/text" --max-steps 6 --save-steps 2 --output-dir "$work/v"
expect 0 'agrees with 3 checkpoints' verify "$work/v"
for step in 2 4 6; do
    for file in model.safetensors state.safetensors config.json tokenizer.json; do
        for record in '' gone; do
            cp -r "$work/v" "$work/d"
            printf X | dd of="$work/d/checkpoint-$step/$file" bs=1 seek=90 conv=notrunc status=none
            python3 tools/record_check.py "$work/d" >"$work/.out" 2>"$work/.err"
            [[ $? -eq 4 ]]
            check $? "the second checker finds a damaged $file of step $step" "$(cat "$work/.out")"
            [[ -z $record ]] || rm "$work/d/record.jsonl"
            expect 4 "checkpoint-$step: damaged" verify "$work/d"
            expect 0 "checkpoint-$step: damaged" verify "$work/d" --newest
            [[ -z $record || $out == *'record: there is none'* ]]
            check $? "what is not there is said" "$out"
            rm -r "$work/d"
        done
    done
done
finish
