#!/bin/bash
# SPDX-License-Identifier: MIT
# Recurrent language models: training under every policy, pieces of time, generation, round trips, bad input.
# verifies run-1.e4fa
. "$(dirname "$0")/../lib.sh"

for i in {1..400}; do printf 'the cat sat on mat %d. ' $((i % 10)); done >"$work/text.txt"
common=(--max-seq-length 60 --per-device-train-batch-size 4 --learning-rate 1e-2 --threads 2)

# The memory of none grows with the length, that of sqrt over single steps with its root.
arena() {
    run plan --model tiny-lstm --time-chunk 1 --per-device-train-batch-size 8 --json "$@"
    tail -n 1 <<<"$out" | grep -oE '"arena_bytes": [0-9]+' | head -1 | grep -oE '[0-9]+'
}
none=$(arena --max-seq-length 256)
none4=$(arena --max-seq-length 1024)
root=$(arena --max-seq-length 256 --gradient-checkpointing sqrt)
root4=$(arena --max-seq-length 1024 --gradient-checkpointing sqrt)
((none4 - none > 10 * (root4 - root) && root4 < none4 / 3))
check $? "the plan of sqrt grows as the root" "$none $none4 $root $root4"

for model in tiny-gru tiny-lstm; do
    run train --model $model "${common[@]}" --data "$work/text.txt" --output-dir "$work/$model" --max-steps 30 --json
    check $((code != 0)) "train $model" "$out$err"
    digest=$(json state_digest)
    for policy in full memory-poor sqrt every:3 auto; do
        run train --model $model "${common[@]}" --data "$work/text.txt" --output-dir "$work/p" --max-steps 30 --quiet \
            --json --gradient-checkpointing $policy --threads 1
        [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
        check $? "$model $policy: the same bits" "$out$err"
        rm -rf "$work/p"
    done
    run train --model $model "${common[@]}" --data "$work/text.txt" --output-dir "$work/r" --max-steps 30 --stop-at-step 11
    run train --model $model "${common[@]}" --data "$work/text.txt" --output-dir "$work/r" --max-steps 30 --resume --json
    [[ $(json state_digest) == "$digest" ]]
    check $? "$model stopped and resumed: the same bits" "$out$err"
    expect 2 'time-chunk' train --model $model "${common[@]}" --data "$work/text.txt" --output-dir "$work/r" \
        --max-steps 31 --resume --time-chunk 7
    rm -rf "$work/r"

    # What training leaves is a model: unchanged by no step, evaluated alike in one piece or in sixty.
    run train --model "$work/$model" "${common[@]}" --data "$work/text.txt" --output-dir "$work/same" --max-steps 0
    [[ $code -eq 0 ]] && cmp -s "$work/$model/model.safetensors" "$work/same/model.safetensors" &&
        cmp -s "$work/$model/config.json" "$work/same/config.json"
    check $? "$model, no step: the same files" "$err"
    rm -rf "$work/same"
    run eval --model "$work/$model" --data "$work/text.txt" --max-seq-length 60 --json
    loss=$(json loss)
    run eval --model "$work/$model" --data "$work/text.txt" --max-seq-length 60 --time-chunk 1 --json
    awk -v a="$loss" -v b="$(json loss)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-8) }'
    check $? "$model: the same loss in other pieces" "$loss $out$err"
    run generate --model "$work/$model" --prompt 'the cat sat on mat 5. the cat s' --max-new-tokens 20 --temperature 0 --json
    [[ $code -eq 0 && $(json tokens) -eq 20 ]]
    check $? "$model generates" "$out$err"
    ids=$(grep -o '"ids": [^]]*' <<<"$out")
    run generate --model "$work/$model" --prompt 'the cat sat on mat 5. the cat s' --max-new-tokens 20 --temperature 0 --json
    [[ $(grep -o '"ids": [^]]*' <<<"$out") == "$ids" ]]
    check $? "$model generates the same again" "$out$err"
done

# Learned long enough, it goes on with the text.
run train --model tiny-gru "${common[@]}" --data "$work/text.txt" --output-dir "$work/learned" --max-steps 300 \
    --learning-rate 3e-2 --quiet
run generate --model "$work/learned" --prompt 'the cat sat on mat 5. the cat s' --max-new-tokens 10 --temperature 0
grep -q 'at on mat' <<<"$out"
check $? "a learned text goes on" "$out$err"
expect 0 'tensors' export --model "$work/learned" --format hf --dtype bf16 --to "$work/hf"
expect 0 'nats per token' eval --model "$work/hf" --data "$work/text.txt" --max-seq-length 60
expect 0 '"steps": 3' train --model tiny-lstm "${common[@]}" --data "$work/text.txt" --output-dir "$work/half" --max-steps 3 \
    --bf16 --optim adamw_8bit --gradient-release --json

# A directory of one's own; weights that do not fit it are told by name.
mkdir "$work/own"
own() {
    printf '{"model_type": "rnn", "hidden_size": 32, "num_hidden_layers": 2, %s}\n' "$1" >"$work/own/config.json"
}
own '"cell": "gru", "embedding_size": 24'
expect 0 'batch 8 x 60' plan --model "$work/own" --max-seq-length 60
own '"cell": "gru", "tie_word_embeddings": true'
expect 0 '"steps": 2' train --model "$work/own" "${common[@]}" --data "$work/text.txt" --output-dir "$work/tied" --max-steps 2 --json
! grep -qa 'decoder.weight' "$work/tied/model.safetensors"
check $? "a tied model has one table"
cp "$work/tiny-gru/model.safetensors" "$work/own"
expect 4 'decoder.weight: ' eval --model "$work/own" --data "$work/text.txt" --max-seq-length 60
own '"cell": "lstm"'
expect 4 'rnn.weight_ih_l0: .*shape' eval --model "$work/own" --data "$work/text.txt" --max-seq-length 60
own '"cell": "gru", "embedding_size": 24'
expect 4 'encoder.weight: .*shape' eval --model "$work/own" --data "$work/text.txt" --max-seq-length 60
sed -i 's/layers": 2/layers": 3/; s/"embedding_size": 24/"bidirectional": false/' "$work/own/config.json"
expect 4 'rnn.weight_hh_l2: .*' eval --model "$work/own" --data "$work/text.txt" --max-seq-length 60
rm "$work/own/model.safetensors"
own '"cell": "rnn_tanh"'
expect 4 'cell: this value is not supported' plan --model "$work/own"
own '"bidirectional": true'
expect 4 'bidirectional' plan --model "$work/own"
own '"dropout": 0.2'
expect 2 'dropout' plan --model "$work/own" --max-seq-length 60
expect 0 'arena' plan --model "$work/own" --max-seq-length 60 --dropout 0
own '"tie_word_embeddings": true, "embedding_size": 24'
expect 2 'embedding_size' plan --model "$work/own" --max-seq-length 60

# What is not for this model.
expect 2 'causal-lm' train --model tiny-gru "${common[@]}" --task classification --data "$work/text.txt" --output-dir "$work/x"
expect 2 'adapters' train --model tiny-gru "${common[@]}" --lora-r 4 --target-modules weight_ih_l0 --data "$work/text.txt" \
    --output-dir "$work/x"
printf 'abc' >"$work/short.txt"
expect 4 'fewer tokens' train --model tiny-gru "${common[@]}" --data "$work/short.txt" --output-dir "$work/x" --max-steps 1
[[ ! -e $work/x ]]
check $? "none of these made the output directory"
finish
