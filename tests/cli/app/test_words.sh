#!/bin/bash
# SPDX-License-Identifier: MIT
# What the program says to a reader rather than to a program: progress on a terminal, the report at the
# end, what a fit chose, how far long work is; and what is said of inputs that are too many or too long.
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 300; i++)); do echo "line $i of ale"; done >"$work/text"
common=(train --model tiny --data "$work/text" --max-seq-length 16 --threads 2)

# Progress: a bar that is redrawn, and lines that do not mix with it. script(1) gives a terminal.
terminal() { script -qec "$(printf '%q ' "$program" "$@")" /dev/null </dev/null 2>&1 | tr '\r' '\n'; }
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    out=$(terminal "${common[@]}" --output-dir "$work/a" --max-steps 6 --logging-steps 2 \
        --validation-split 0.25 --eval-steps 3)
    grep -qE '\[#{24}\] 6/6  loss [0-9.]+  [0-9]+ tokens/s  0:00 left' <<<"$out"
    check $? "a bar, full at the last step" "$out"
    [[ $(grep -cE 'step [246]/6  loss' <<<"$out") -eq 3 && $(grep -cE 'eval loss [0-9.]+' <<<"$out") -ge 2 ]]
    check $? "lines of steps and evaluations beside it" "$out"
    ! grep -E 'step [246]/6' <<<"$out" | grep -q '#'
    check $? "each on a line of its own" "$out"
    out=$(terminal "${common[@]}" --output-dir "$work/b" --max-steps 6 --quiet)
    ! grep -q '#' <<<"$out"
    check $? "--quiet draws none" "$out"
else
    echo "skipped: script(1) gives no terminal here"
fi
run "${common[@]}" --output-dir "$work/c" --max-steps 6
! grep -q '#' <<<"$err$out"
check $? "and none where there is no terminal" "$err"

# What a fit chose is said in the options that ask for it, and they fit.
run "${common[@]}" --output-dir "$work/d" --max-steps 1 --arena 6MB
chosen=$(sed -n 's/^fit: \(.*\): [0-9,]* bytes, .* s a step estimated$/\1/p' <<<"$out")
bytes=$(sed -n 's/^fit: .*: \([0-9,]*\) bytes.*/\1/p' <<<"$out" | tr -d ,)
# shellcheck disable=SC2086
run plan --model tiny --max-seq-length 16 --json $chosen
[[ -n $chosen && $(json arena_bytes) == "$bytes" ]]
check $? "the fit's words are options that give its plan ($chosen, $bytes)" "$out$err"

# The report in words says what the JSON says.
report=(train --model tiny --data "$work/text" --eval-data "$work/held" --max-seq-length 16 --max-steps 40
    --learning-rate 3e-2 --lr-scheduler-type constant --eval-steps 2 --save-total-limit 1 --threads 2
    --early-stopping-patience 2 --load-best-model-at-end --quiet)
for ((i = 0; i < 100; i++)); do echo "$((i * 37)) ships came by"; done >"$work/held"
run "${report[@]}" --output-dir "$work/e" --json
best=$(json best_step) loss=$(json best_eval_loss) steps=$(json steps)
run "${report[@]}" --output-dir "$work/f"
[[ $code -eq 0 ]] && grep -qxE "best step +$best" <<<"$out" && grep -qxE "steps +$steps" <<<"$out" &&
    grep -qxE "best eval loss +$(printf '%.4f' "$loss")" <<<"$out" && grep -q '^stopped early' <<<"$out"
check $? "best step $best with $loss, stopped early at $steps" "$out$err"

# Documents without a token, words without an end, and long work.
printf '{"text": ""}\n{"text": "ale"}\n{"text": ""}\n{"text": "and some more bottles of ale"}\n' >"$work/e.jsonl"
expect 0 'e.jsonl: 2 documents without a token are left out' train --model tiny --data "$work/e.jsonl" \
    --max-seq-length 4 --per-device-train-batch-size 1 --max-steps 1 --output-dir "$work/g"
tokenizers=$PWD/tests/golden/tokenizers
{ head -c 70000 /dev/zero | tr '\0' a && echo; } >"$work/word"
expect 0 'word: 1 words longer than 65536 bytes were cut' tokenize --model "$tokenizers/gpt2_small" \
    --data "$work/word" --output "$work/word.bin"
printf '{"text": "%s"}\n' "$(tr -d '\n' <"$work/word")" >"$work/w.jsonl"
mkdir "$work/words"
echo '{"model_type": "gpt2", "vocab_size": 1100, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}' \
    >"$work/words/config.json"
cp "$tokenizers"/gpt2_small/* "$work/words"
expect 0 'w.jsonl: 1 words longer than 65536 bytes were cut' train --model "$work/words" --data "$work/w.jsonl" \
    --max-seq-length 4 --per-device-train-batch-size 1 --max-steps 1 --output-dir "$work/h"

# Many files.
mkdir "$work/many"
(cd "$work/many" && for ((i = 0; i < 1030; i++)); do echo x >"$i"; done)
expect 4 'the pattern matches too many files.*found 1030, expected at most 1024' "${common[@]}" \
    --output-dir "$work/x" --data "$work/many/*"
mapfile -t paths < <(ls "$work/many")
expect 2 'the option is given too often' "${common[@]}" --output-dir "$work/x" --data "${paths[@]}"
run plan --print-options "${common[@]:1:2}" --max-seq-length 16
run "${common[@]}" --output-dir "$work/x" --eval-data a b c --print-options
[[ $(grep -cxE 'eval-data = [abc]' <<<"$out") -eq 3 && $(grep -cx "data = $work/text" <<<"$out") -eq 1 ]]
check $? "--print-options has a line for each file" "$out"

# The planner alone on a long list, and with too little room.
{ echo id,lower,upper,size && for ((i = 0; i < 9000; i++)); do echo "$i,$i,$((i + 2)),64"; done; } >"$work/long.csv"
run arena "$work/long.csv" --json
[[ $(stat -c %s "$work/long.csv") -gt 131072 && $code -eq 0 && $out == '{"arena_bytes":128,'* ]]
check $? "9,000 buffers, two at a time, take twice one's bytes" "$err"
expect 3 'no layout was found that fits: found 127, the best needs 128, none needs less than 128' \
    arena "$work/long.csv" --capacity 127
echo 1,5,x,64 >>"$work/long.csv"
expect 4 'long.csv:9002: upper: not a whole number' arena "$work/long.csv"
expect 4 'none.csv: the file cannot be read' arena "$work/none.csv"
finish
