#!/bin/bash
# SPDX-License-Identifier: MIT
# A CLIP and a SigLIP over images and their texts: loss and recalls are transformers' own, training is the same bits with every checkpoint
# policy, number of threads and after a stop, what it writes is read again, and what is no pair is refused by its name.
# verifies layers-58.44d1
. "$(dirname "$0")/../lib.sh"

golden=tests/golden/image_text
data=$golden/metadata.jsonl
read -r loss r1 r3 r5 r10 i1 _ i5 i10 <"$golden/values"

# near KEY VALUE: the number of the last JSON line is the value to six digits.
near() { awk -v a="$(json "$1")" -v b="$2" 'BEGIN { d = a - b; exit !(a != "" && d * d < 1e-11) }'; }

run eval --model $golden --data $data --per-device-eval-batch-size 12 --quiet --json
near loss "$loss" && near recall_at_1 "$r1" && near recall_at_3 "$r3" && near recall_at_5 "$r5" && near recall_at_10 "$r10" &&
    near image_recall_at_1 "$i1" && near image_recall_at_5 "$i5" && near image_recall_at_10 "$i10"
check $? "loss and recalls of transformers" "$out$err$(cat $golden/values)"
sed "s#pictures/#$PWD/$golden/pictures/#; s/file_name/image/; s/\"text\"/\"caption\"/" $data >"$work/rows.jsonl"
run eval --model $golden --data "$work/rows.jsonl" --per-device-eval-batch-size 12 --quiet --json
near loss "$loss"
check $? "the same of rows of image and caption" "$out$err"
run eval --model $golden --data $golden --per-device-eval-batch-size 12 --quiet --json
near loss "$loss"
check $? "the same of the directory" "$out$err"

read -r loss r1 r3 r5 r10 i1 _ i5 i10 <"$golden/siglip/values"
run eval --model $golden/siglip --data $data --per-device-eval-batch-size 12 --quiet --json
near loss "$loss" && near recall_at_1 "$r1" && near recall_at_10 "$r10" && near image_recall_at_5 "$i5"
check $? "SigLIP: loss and recalls of transformers" "$out$err$(cat $golden/siglip/values)"
digest=
for policy in none full; do
    run train --model $golden/siglip --data $data --per-device-train-batch-size 4 --learning-rate 1e-3 --max-steps 6 --quiet \
        --json --output-dir "$work/siglip-$policy" --gradient-checkpointing $policy --threads $((1 + ${#policy} % 2))
    digest=${digest:-$(json state_digest)}
    [[ $code -eq 0 && -n $digest && $(json state_digest) == "$digest" ]]
    check $? "SigLIP: $policy: the same bits" "$out$err"
done
run eval --model "$work/siglip-none" --data $data --per-device-eval-batch-size 12 --quiet --json
[[ $code -eq 0 ]] && awk -v a="$(json loss)" -v b="$loss" 'BEGIN { exit !(a < b) }' &&
    grep -q '"SiglipModel"' "$work/siglip-none/config.json"
check $? "SigLIP: it learns, and is read again" "$out$err"
read -r loss r1 r3 r5 r10 i1 _ i5 i10 <"$golden/values"
common=(train --model $golden --data $data --per-device-train-batch-size 4 --learning-rate 1e-2 --max-steps 6 --quiet --json)
digest=
for policy in none full memory-poor sqrt selective:norm; do
    run "${common[@]}" --output-dir "$work/$policy" --gradient-checkpointing $policy --threads $((1 + ${#policy} % 2))
    digest=${digest:-$(json state_digest)}
    [[ $code -eq 0 && -n $digest && $(json state_digest) == "$digest" ]]
    check $? "$policy: the same bits" "$out$err"
done
run "${common[@]}" --output-dir "$work/stopped" --stop-at-step 2
run "${common[@]}" --output-dir "$work/stopped" --resume
[[ $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"
run eval --model "$work/none" --data $data --per-device-eval-batch-size 12 --quiet --json
[[ $code -eq 0 ]] && awk -v a="$(json loss)" -v b="$loss" 'BEGIN { exit !(a < b) }' &&
    grep -q '"CLIPModel"' "$work/none/config.json" && [[ -e $work/none/preprocessor_config.json ]]
check $? "it learns, and is read again" "$out$err"
run train --model $golden --data $data --per-device-train-batch-size 4 --max-steps 0 --quiet --output-dir "$work/same"
run eval --model "$work/same" --data $data --per-device-eval-batch-size 12 --quiet --json
near loss "$loss" && grep -aq '"logit_scale":{[^}]*"shape":\[\]' "$work/same/model.safetensors"
check $? "written as it was read" "$out$err"

run "${common[@]}" --output-dir "$work/frozen" --freeze 'vision_model.*'
[[ $code -eq 0 && $(json state_digest) != "$digest" ]]
check $? "one tower is frozen" "$out$err"
run "${common[@]}" --output-dir "$work/lora" --lora-r 2 --target-modules all-linear
grep -aq 'base_model.model.vision_model.encoder.layers.1.mlp.fc2.lora_B.weight' "$work/lora/adapter_model.safetensors" &&
    grep -aq 'base_model.model.text_model.encoder.layers.0.self_attn.q_proj.lora_A.weight' "$work/lora/adapter_model.safetensors"
check $? "adapters of both towers" "$out$err"

sed '3s#pictures/#nowhere/#' "$work/rows.jsonl" >"$work/missing.jsonl"
expect 4 'nowhere/2.ppm' eval --model $golden --data "$work/missing.jsonl"
sed '2s/"caption": "[^"]*"/"caption": ""/' "$work/rows.jsonl" >"$work/empty.jsonl"
expect 4 'is empty' eval --model $golden --data "$work/empty.jsonl"
sed '2s/"caption": "[^"]*"/"label": 1/' "$work/rows.jsonl" >"$work/lacks.jsonl"
expect 4 'an image or its text' eval --model $golden --data "$work/lacks.jsonl"
head -1 "$work/rows.jsonl" >"$work/one.jsonl"
expect 4 'two rows at least' train --model $golden --data "$work/one.jsonl" --output-dir "$work/one"
expect 4 '--validation-split: .*a part has one row|a part has one row' train --model $golden --data $data --validation-split 0.1 --output-dir "$work/one"
expect 2 '--per-device-eval-batch-size: .*at least two|at least two' eval --model $golden --data $data --per-device-eval-batch-size 1
sed 's/"text"/"title"/; s/}/, "text": "of another"}/' $data >"$work/titles.jsonl"
cp -r $golden/pictures "$work/pictures"
run eval --model $golden --data $data --json
right=$(json loss)
run eval --model $golden --data "$work/titles.jsonl" --text-column title --json
[[ $code -eq 0 && -n $right && $(json loss) == "$right" ]]
check $? "--text-column names the texts" "$out$err"
run eval --model $golden --data "$work/titles.jsonl" --json
[[ $(json loss) != "$right" ]]
check $? "which others would be without it" "$out$err"
# A budget never makes micro-batches smaller, which would leave negatives out.
run plan --model $golden --data $data --json
least=$(json arena_bytes)
run plan --model $golden --data $data --arena $((least * 2)) --json
[[ $code -eq 0 && $(json arena_bytes) -le $((least * 2)) ]] && grep -q '"per_device_train_batch_size": *8\|"batch": *8' <<<"$out"
check $? "a budget keeps the micro-batch" "$out$err"
run plan --model $golden --data $data --arena $((least * 4)) --max-batch --json
check $code "the largest micro-batch" "$out$err"
expect 2 'at least two' train --model $golden --data $data --per-device-train-batch-size 1 --output-dir "$work/one"
run eval --model $golden --data $data --max-seq-length 5
[[ $code -eq 0 && $err == *'12 of 12 examples are longer'* ]]
check $? "long texts are cut and counted" "$out$err"
finish
