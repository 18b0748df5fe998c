#!/bin/bash
# SPDX-License-Identifier: MIT
# Directories that sentence-transformers saved, tokenizers among them (tools/golden/sentences.py): their vectors are its own
# in float64, whatever computes them; training keeps what was there, and what is saved has the vectors of the run.
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/sentences
awk 'BEGIN { for (i = 0; i < 24; i++) printf "{\"anchor\": \"the word %c\", \"positive\": \"number %c of words\"}\n", 97 + i % 3, 97 + i % 3 }' \
    >"$work/pairs.jsonl"

# agree NAME FILE.jsonl: its numbers are those of vectors.txt.
agree() {
    sed -E 's/.*"embedding": \[//; s/[],}]//g' "$2" | paste -d' ' - "$golden/$1/vectors.txt" | awk '
        { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); bad += d * d > 4e-10; most = $i * $i > most ? $i * $i : most } }
        END { exit !(NR == 9 && !bad && most > 0.01) }'
}
for name in mpnet gemma; do
    vectors=
    for more in "--per-device-eval-batch-size 1" "--per-device-eval-batch-size 9 --threads 1" "--kernels portable" \
        "--length-buckets none"; do
        # shellcheck disable=SC2086
        run embed --model $golden/$name --data $golden/texts.txt --output "$work/v.jsonl" --quiet $more
        [[ $code -eq 0 ]] && agree $name "$work/v.jsonl"
        check $? "$name $more: the vectors of sentence-transformers" "$err$(head -2 "$work/v.jsonl")"
        [[ -z $vectors ]] || cmp -s "$work/v.jsonl" "$work/first.jsonl"
        check $? "$name $more: the same bits"
        cp "$work/v.jsonl" "$work/first.jsonl"
        vectors=1
    done
    learn=(train --model $golden/$name --task embedding --data "$work/pairs.jsonl" --max-seq-length 16 --max-steps 8 --quiet --json
        --per-device-train-batch-size 6 --learning-rate 1e-3)
    same_bits --model $golden/$name --task embedding --max-seq-length 16 -- "${learn[@]}"
    run embed --model "$work/a" --data $golden/texts.txt --output "$work/t.jsonl" --quiet
    [[ $code -eq 0 && $(wc -l <"$work/t.jsonl") -eq 9 ]] && ! cmp -s "$work/t.jsonl" "$work/first.jsonl"
    check $? "$name: what was trained has other vectors" "$err"
    run train --model $golden/$name --task embedding --data "$work/pairs.jsonl" --max-seq-length 16 --max-steps 0 --quiet \
        --output-dir "$work/o-$name"
    run embed --model "$work/o-$name" --data $golden/texts.txt --output "$work/o.jsonl" --quiet --max-seq-length 20
    [[ $code -eq 0 ]] && agree $name "$work/o.jsonl"
    check $? "$name: what is saved without a step has the same vectors" "$err"
    rm -rf "$work"/[a-e]
done
# Names, shapes and switches that are not these models'.
cp -r $golden/mpnet "$work/x"
sed -i 's/"relative_attention_num_buckets": 32/"relative_attention_num_buckets": 64/' "$work/x/config.json"
expect 4 'relative_attention_num_buckets' plan --model "$work/x"
sed 's/"pad_token_id": 1/"pad_token_id": 0/' $golden/mpnet/config.json >"$work/x/config.json"
expect 2 'pad_token_id has to be 1' plan --model "$work/x"
sed 's/"hidden_act": "gelu"/"hidden_act": "silu"/' $golden/mpnet/config.json >"$work/x/config.json"
expect 4 'hidden_act' plan --model "$work/x"
expect 2 'question-answering is implemented for bert alone' plan --model $golden/mpnet --task question-answering
for task in causal-lm masked-lm token-classification dpo; do
    expect 2 '' plan --model $golden/gemma --task $task
done
expect 2 'use_bidirectional_attention' plan --model $golden/gemma --task causal-lm
expect 2 'use_bidirectional_attention' export --model "$work/o-gemma" --to "$work/x.gguf"
grep -q '"use_bidirectional_attention": true' "$work/o-gemma/config.json" && grep -q '"sliding_window": 6' "$work/o-gemma/config.json"
check $? "gemma: both are written as they were read" "$(cat "$work/o-gemma/config.json")"
cp -r $golden/gemma "$work/y"
sed -i 's/"use_bidirectional_attention": true/"use_bidirectional_attention": null/' "$work/y/config.json"
expect 0 '' plan --model "$work/y" --task causal-lm
sed -i 's/\.normalize\.Normalize/.dense.Dense/; s/2_Normalize/2_Dense/' "$work/y/modules.json"
expect 4 'Dense: the module is not implemented' plan --model "$work/y" --task embedding
finish
