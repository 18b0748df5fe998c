#!/bin/bash
# SPDX-License-Identifier: MIT
# Masks of a text, filled by a masked language model: tokens and probabilities are those of transformers
# (tools/golden/masks.py).
# verifies face-31.0716
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/masks

mkdir "$work/base"
cp $golden/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/base"
run train --model "$work/base" --data $golden/prompts.txt --max-seq-length 4 --per-device-train-batch-size 1 --max-steps 0 \
    --quiet --output-dir "$work/m"
check $code "a model of random weights" "$err"
number=0
while read -r prompt; do
    run generate --model "$work/m" --prompt "$prompt" --top-k 7 --json
    check $code "$prompt" "$err"
    sed -E 's/"token_str": ("[^"\\]*(\\.[^"\\]*)*")//g; s/"[a-z_]+"://g; s/[^0-9.e-]+/ /g' <<<"$out" |
        sed "s/^/$number/" >>"$work/found"
    number=$((number + 1))
done <$golden/prompts.txt
paste -d' ' "$work/found" $golden/candidates.txt | awk '
    { for (i = 0; i < 7; i++) { d = $(3 + 2 * i) - $(20 + 2 * i); bad += $(4 + 2 * i) != $(19 + 2 * i) || d * d > 1e-10 } }
    { bad += $1 != $17 || $2 != $18 }
    END { exit !(NR == 3 && NF == 32 && !bad) }'
check $? "the likeliest tokens of each mask" "$(paste "$work/found" $golden/candidates.txt)"
run generate --model "$work/m" --prompt 'the [MASK] of what is [MASK].'
[[ $code -eq 0 && $(grep -cE '^0\.[0-9]{6}  ' <<<"$out") -eq 10 && $(grep -c '^$' <<<"$out") -eq 1 ]]
check $? "five candidates for each, as text" "$out$err"
expect 0 '"token": [0-9]' generate --model "$work/m" --prompt '[MASK]' --top-k 0 --json --bf16
[[ $(grep -o '"token":' <<<"$out" | wc -l) -eq 1600 ]]
check $? "all of them"

expect 2 'fills the \[MASK\]s of a text' generate --model "$work/m"
expect 2 'has no mask token' generate --model "$work/m" --prompt 'the end'
expect 2 "longer than the model's positions" generate --model "$work/m" --prompt "[MASK] $(printf 'and %.0s' {1..40})"
expect 4 'has no tokenizer with a mask token' generate --model tiny-bert --prompt '[MASK]'
expect 2 'does not generate' generate --model "$work/m" --task classification --prompt '[MASK]'
finish
