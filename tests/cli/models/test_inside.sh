#!/bin/bash
# SPDX-License-Identifier: MIT
# A Gemma 3 beside an image model, as transformers saves it (tools/golden/inside.py): its text has transformers' loss, is
# trained by itself and saved as a model of text.
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/inside
run eval --model "$golden/gemma3" --data "$golden/text.txt" --max-seq-length 16 --json
awk -v a="$(json loss)" -v b="$(cat "$golden/loss")" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-10) }'
check $? "transformers' loss, $(cat "$golden/loss")" "$out$err"
train=(train --model "$golden/gemma3" --data "$golden/text.txt" --max-seq-length 16 --max-steps 3 --quiet --json)
run "${train[@]}" --output-dir "$work/a"
check $code "trained" "$err"
grep -q '"model_type": "gemma3_text"' "$work/a/config.json" && ! grep -q 'vision' "$work/a/config.json" &&
    ! strings "$work/a/model.safetensors" | grep -q 'vision\|language_model'
check $? "saved as a model of text" "$(cat "$work/a/config.json")"
loss=$(json eval_loss)
run eval --model "$work/a" --data "$golden/text.txt" --max-seq-length 16 --json
[[ $code -eq 0 && $(json loss) != "$loss" ]]
check $? "and read back" "$out$err"
run "${train[@]}" --lora-r 2 --load-in-4bit --output-dir "$work/l"
check $code "adapters on four bits" "$err"
cp -r "$golden/gemma3" "$work/bad"
sed -i 's/"text_config": {/"text_config": 3, "other": {/' "$work/bad/config.json"
expect 4 'text_config' plan --model "$work/bad"

# A Mistral beside another: the same, with a head of its own under the longer prefix; another family inside is named.
run eval --model "$golden/mistral3" --data "$golden/text.txt" --max-seq-length 16 --json
awk -v a="$(json loss)" -v b="$(cat "$golden/loss_mistral3")" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-10) }'
check $? "transformers' loss, $(cat "$golden/loss_mistral3")" "$out$err"
run train --model "$golden/mistral3" --data "$golden/text.txt" --max-seq-length 16 --max-steps 3 --quiet --output-dir "$work/m"
grep -q '"model_type": "mistral"' "$work/m/config.json" && ! strings "$work/m/model.safetensors" | grep -q 'vision\|language_model'
check $? "saved as a model of text" "$(cat "$work/m/config.json")$err"
cp -r "$golden/mistral3" "$work/other"
sed -i 's/"model_type": "mistral",/"model_type": "ministral3",/' "$work/other/config.json"
expect 4 'model_type' plan --model "$work/other"
finish
