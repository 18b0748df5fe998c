#!/bin/bash
# SPDX-License-Identifier: MIT
# T5 with its decoder as a directory: the loss and the likeliest tokens of transformers (tools/golden/t5_whole.py), the same bits
# by any policy, what is saved is read back, adapters, names of the two texts, what is refused. Losses, gradients and steps:
# tests/golden/test_families_golden.c.
# verifies run-1.e4fa
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/seq2seq
lengths=(--max-seq-length 8 --max-source-length 12)

run eval --model $golden --data $golden/held.jsonl "${lengths[@]}" --json
read -r loss targets <$golden/loss
awk -v a="$(json loss)" -v b="$loss" 'BEGIN { d = a - b; exit !(a != "" && d * d < 1e-12 * b * b) }'
check $? "the loss is that of transformers ($loss)" "$out$err"
[[ $(json tokens) -eq $targets ]]
check $? "of as many targets ($targets)" "$out$err"
same=0
row=0
while IFS= read -r line; do
    row=$((row + 1))
    prompt=$(sed -n "${row}s/.*\"source\": \"\([^\"]*\)\".*/\1/p" $golden/held.jsonl)
    run generate --model $golden --prompt "$prompt" --max-new-tokens 10 --temperature 0 --output-ids
    [[ $code -eq 0 && ${out##*$'\n'} == "$line" ]] && same=$((same + 1))
done <$golden/greedy
[[ $same -eq 10 && $row -eq 10 ]]
check $? "the likeliest tokens are those of transformers" "$same of $row: $out$err"
run generate --model $golden --prompt "the cat sleeps" --max-new-tokens 6 --num-return-sequences 3 --seed 4 --output-ids
many=$out
run generate --model $golden --prompt "the cat sleeps" --max-new-tokens 6 --num-return-sequences 1 --seed 4 --output-ids
[[ $code -eq 0 && -n $out && $(grep -c . <<<"$many") -ge 3 && $(head -1 <<<"$many") == "$(head -1 <<<"$out")" ]]
check $? "several sequences of one source" "$many / $out$err"

learn=(train --model $golden --data $golden/rows.jsonl "${lengths[@]}" --max-steps 6 --quiet --json --learning-rate 1e-2 --dropout 0.1)
same_bits --model $golden "${lengths[@]}" -- "${learn[@]}"
run eval --model "$work/a" --data $golden/held.jsonl "${lengths[@]}" --json
trained=$(json loss)
awk -v a="$trained" -v b="$loss" 'BEGIN { exit !(a != "" && a < b) }'
check $? "training lowers it" "$out$err"
grep -q '"T5ForConditionalGeneration"' "$work/a/config.json"
check $? "its class" "$(cat "$work/a/config.json")"
run export --model "$work/a" --to "$work/x"
cmp -s "$work/a/model.safetensors" "$work/x/model.safetensors"
check $? "export writes the same bytes" "$err"
run embed --model "$work/a" --data $golden/held.jsonl --output "$work/v.npy" --text-column source --quiet
check $code "its encoder makes vectors" "$err"
for more in "--lora-r 2" "--lora-r 2 --load-in-4bit --bnb-4bit-blocksize 32 --target-modules q,v,wi_0"; do
    rm -rf "$work/l"
    # shellcheck disable=SC2086
    run "${learn[@]}" --output-dir "$work/l" $more
    [[ $code -eq 0 ]] && grep -aq 'base_model.model.decoder.block.1.layer.1.EncDecAttention.v.lora_B' "$work/l/adapter_model.safetensors" &&
        grep -q '"SEQ_2_SEQ_LM"' "$work/l/adapter_config.json"
    check $? "adapters $more" "$out$err"
done
# Every dense layer, by the names that this model has: what is written is read.
rm -rf "$work/d"
run "${learn[@]}" --output-dir "$work/d" --lora-r 2 --target-modules all-linear
run eval --model $golden --adapter "$work/d" --data $golden/held.jsonl "${lengths[@]}"
check $code "adapters of every dense layer are read" "$out$err"
# PEFT would wrap a module that transformers' model does not call.
for more in "--target-modules shared" "--target-modules q --modules-to-save shared"; do
    # shellcheck disable=SC2086
    expect 2 'PEFT wraps a module that this model does not call' "${learn[@]}" --output-dir "$work/no" --lora-r 2 $more
done
expect 2 'makes no texts of texts' plan --model $golden --max-steps 2 --emit-c "$work/c"
run generate --model $golden --adapter "$work/l" --load-in-4bit --bnb-4bit-blocksize 32 --prompt "the dog" --max-new-tokens 4
check $code "which generate" "$err"
# A frozen encoder gets no gradient, a frozen decoder passes one on.
for more in 'encoder.*' 'decoder.*'; do
    rm -rf "$work/f"
    run "${learn[@]}" --output-dir "$work/f" --freeze "$more" --freeze 'shared.weight'
    [[ $code -eq 0 && -n $(json state_digest) ]]
    check $? "$more frozen" "$out$err"
done

run bench step --model $golden --max-seq-length 8 --per-device-train-batch-size 2 --repeat 2
check $code "a step is timed over made-up sources" "$out$err"

# The two texts by the names that data sets have, in any order.
digest=
for names in "source target" "input target" "text summary" "prompt completion" "article highlights" "inputs targets"; do
    read -r first second <<<"$names"
    sed "s/{\"source\": \(\"[^\"]*\"\), \"target\": \(\"[^\"]*\"\)}/{\"id\": 1, \"$second\": \2, \"$first\": \1}/" $golden/rows.jsonl >"$work/named.jsonl"
    rm -rf "$work/n"
    run train --model $golden --data "$work/named.jsonl" "${lengths[@]}" --max-steps 1 --quiet --json --output-dir "$work/n"
    [[ $code -eq 0 && -n $(json state_digest) && $(json state_digest) == "${digest:-$(json state_digest)}" ]]
    check $? "$names" "$out$err"
    digest=$(json state_digest)
done
echo '{"source": "the cat", "text": "the dog", "target": "a"}' >"$work/bad.jsonl"
expect 4 'two fields that name the same text' train --model $golden --data "$work/bad.jsonl" --max-steps 1 --output-dir "$work/r"
echo '{"source": "the cat"}' >"$work/bad.jsonl"
expect 4 'lacks one of its two texts' train --model $golden --data "$work/bad.jsonl" --max-steps 1 --output-dir "$work/r"
echo '{"source": "", "target": "a"}' >"$work/bad.jsonl"
expect 4 'the source is empty' train --model $golden --data "$work/bad.jsonl" --max-steps 1 --output-dir "$work/r"
echo 'the cat' >"$work/bad.txt"
expect 4 'JSON lines of .source. and .target.' train --model $golden --data "$work/bad.txt" --max-steps 1 --output-dir "$work/r"
# What such a model does not do, by name.
expect 2 'packed' train --model $golden --data $golden/rows.jsonl --packing --max-steps 1 --output-dir "$work/r"
expect 2 'neftune' train --model $golden --data $golden/rows.jsonl --neftune-noise-alpha 5 --max-steps 1 --output-dir "$work/r"
expect 2 'pairs' plan --model $golden --task dpo
# No task is named that this family has not.
for label in '"x"' 0.5 '["x", "y"]' '[1, 0]'; do
    printf '{"text": "a", "label": %s}\n{"text": "b", "label": %s}\n' "$label" "$label" >"$work/labelled.jsonl"
    expect 2 'found token-classification, expected rows for that task, or causal-lm with source and target' plan --model $golden \
        --data "$work/labelled.jsonl" "${lengths[@]}" --task token-classification
done
expect 2 'no conversations' generate --chat --model $golden
expect 2 'max-source-length: this model reads one text' plan --model tiny --max-source-length 8
sed 's/"relative_attention_max_distance": [0-9]*/"relative_attention_max_distance": 12/' $golden/config.json >"$work/config.json"
mkdir "$work/near" && cp "$work/config.json" "$work/near"
expect 2 'relative_attention_max_distance' plan --model "$work/near"
finish
