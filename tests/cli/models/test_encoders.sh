#!/bin/bash
# SPDX-License-Identifier: MIT
# RoBERTa, XLM-R, DistilBERT, ELECTRA, MPNet, DeBERTa and ModernBERT as directories (losses and gradients: tests/golden/test_families_golden.c): what is saved is
# read back, the same bits by any policy, heads, adapters, what is refused.
# verifies run-1.e4fa
. "$(dirname "$0")/../lib.sh"
{ for i in $(seq 60); do echo "the number $i and the word of it"; done; } >"$work/text.txt"
awk 'BEGIN { for (i = 0; i < 40; i++) printf "%d\tthe word %d\n", i % 2, i % 2 ? i : -i }' >"$work/rows.tsv"

for name in roberta distilbert electra mpnet deberta modernbert; do
    learn=(train --model "tiny-$name" --task masked-lm --data "$work/text.txt" --max-seq-length 32 --max-steps 6 --quiet --json
        --learning-rate 1e-3)
    rm -rf "$work"/[a-e]
    # In the short form the families that only rename another's blocks are trained once.
    if ! long_form && [[ $name != distilbert && $name != deberta && $name != modernbert ]]; then
        run "${learn[@]}" --output-dir "$work/a" --per-device-train-batch-size 4 --gradient-accumulation-steps 2
        check $code "$name: a training" "$err"
    else
        same_bits --model "tiny-$name" --task masked-lm --max-seq-length 32 -- "${learn[@]}"
    fi
    run eval --model "$work/a" --data "$work/text.txt" --max-seq-length 32 --json
    loss=$(json loss)
    run export --model "$work/a" --to "$work/x-$name"
    cmp -s "$work/a/model.safetensors" "$work/x-$name/model.safetensors"
    check $? "$name: export writes the same bytes" "$err"
    grep -q "\"model_type\": \"${name/deberta/deberta-v2}\"" "$work/a/config.json"
    check $? "$name: its config.json" "$(cat "$work/a/config.json")"
    # An encoder by itself leaves the prefix out: names of the same length keep the file whole.
    run eval --model "$work/x-$name" --data "$work/text.txt" --max-seq-length 32 --json
    [[ -n $loss && $(json loss) == "$loss" ]]
    check $? "$name: read back" "$out$err"
    run train --model "$work/a" --task classification --data "$work/rows.tsv" --max-seq-length 32 --max-steps 12 --quiet --json \
        --learning-rate 2e-3 --output-dir "$work/c-$name" --validation-split 0.25
    [[ $code -eq 0 && $(json eval_accuracy) =~ ^[01] ]]
    check $? "$name: a classifier of its own" "$out$err"
    run eval --model "$work/c-$name" --data "$work/rows.tsv" --max-seq-length 32 --json
    [[ $code -eq 0 && $(json accuracy) =~ ^[01] ]]
    check $? "$name: which is read back as one" "$out$err"
    run train --model "$work/a" --task classification --data "$work/rows.tsv" --max-seq-length 32 --max-steps 4 --quiet --json \
        --lora-r 2 --dropout 0.1 --output-dir "$work/l-$name" --allow-missing
    [[ $code -eq 0 && -f $work/l-$name/adapter_model.safetensors ]]
    check $? "$name: adapters" "$out$err"
    run embed --model "$work/a" --data "$work/text.txt" --output "$work/v-$name.npy" --max-seq-length 32 --quiet
    check $code "$name: vectors" "$err"
    case $name in
        distilbert | electra) expect 0 'arena' plan --model "tiny-$name" --task question-answering ;;
        *) expect 2 'question-answering is implemented for bert, distilbert and electra' plan --model "tiny-$name" --task question-answering ;;
    esac
done
# DeBERTa's distances are as many as its positions where the file has -1, which transformers reads and null is not.
sed 's/"max_relative_positions": [0-9]*/"max_relative_positions": -1/' "$work/x-deberta/config.json" >"$work/config.json"
mkdir "$work/minus" && cp -r "$work/x-deberta/." "$work/minus" && cp "$work/config.json" "$work/minus"
run train --model "$work/minus" --task masked-lm --data "$work/text.txt" --max-seq-length 32 --max-steps 1 --quiet --output-dir "$work/y-deberta"
[[ $code -eq 0 ]] && grep -q -- '"max_relative_positions": -1' "$work/minus/config.json" &&
    ! grep -q 'max_relative_positions' "$work/y-deberta/config.json"
check $? "deberta: no null for distances" "$err$(cat "$work/y-deberta/config.json")"
# Distances that have no bucket are the file's fault.
mkdir "$work/near" && sed 's/"max_relative_positions": [0-9]*/"max_relative_positions": 3/' "$work/x-deberta/config.json" >"$work/near/config.json"
expect 4 'max_relative_positions: a value is below its range: found 3' plan --task masked-lm --model "$work/near"
t5='{"model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4, "num_layers": 1, "vocab_size": 256'
echo "$t5, \"relative_attention_num_buckets\": 3}" >"$work/near/config.json"
expect 4 'relative_attention_num_buckets: this value is not supported: found 3' plan --task embedding --model "$work/near"
echo "$t5, \"relative_attention_max_distance\": 8}" >"$work/near/config.json"
expect 4 'relative_attention_max_distance: a value is below its range: found 8' plan --task embedding --model "$work/near"
# ModernBERT's older and newer words.
sed 's/"global_rope_theta": 1.6e+05,/"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 160000.0},/
    s/"local_rope_theta": 1e+04,/"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},/
    /"local_attention"/d; s/"mlp_bias"/"local_attention": 16, "mlp_bias"/' "$work/x-modernbert/config.json" >"$work/config.json"
awk '/"rope_parameters"/ { first = $0; next } /"sliding_attention": \{/ { print first; print; next } 1' "$work/config.json" \
    >"$work/x-modernbert/config.json"
run eval --model "$work/x-modernbert" --data "$work/text.txt" --max-seq-length 32 --json
[[ $code -eq 0 && $(json loss) == "$loss" ]]
check $? "modernbert: rope_parameters" "$out$err$(cat "$work/x-modernbert/config.json")"
run eval --model "$work/c-modernbert" --data "$work/rows.tsv" --max-seq-length 32 --json
loss=$(json loss)
sed -i 's/"classifier_pooling": "cls"/"classifier_pooling": "mean"/' "$work/c-modernbert/config.json"
run eval --model "$work/c-modernbert" --data "$work/rows.tsv" --max-seq-length 32 --json
[[ $code -eq 0 && $(json loss) =~ ^[0-9] && $(json loss) != "$loss" ]]
check $? "modernbert: a classifier of the mean" "$out$err"
# XLM-R is RoBERTa under another name.
cp -r "$work/x-roberta" "$work/xlm"
sed -i 's/"model_type": "roberta"/"model_type": "xlm-roberta"/; s/Roberta/XLMRoberta/' "$work/xlm/config.json"
run eval --model "$work/xlm" --data "$work/text.txt" --max-seq-length 32 --json
[[ $code -eq 0 ]]
check $? "xlm-roberta" "$err"
# Padding (1, a byte of these models) that is written in a text has its own position and is not counted, as in transformers
# 5.24 (torch 2.15), whose losses of four steps and logits these are.
for row in 'ab\u0001cd\u0001\u0001e 0' 'plain 1' '\u0001x 2'; do echo "{\"text\": \"${row% *}\", \"label\": ${row##* }}"; done >"$work/pads.jsonl"
run train --model tiny-roberta --task classification --num-labels 3 --data "$work/pads.jsonl" --max-seq-length 16 --max-steps 0 \
    --quiet --output-dir "$work/p0"
sed -i 's/_prob": 0.1/_prob": 0.0/' "$work/p0/config.json"
digest=
for more in "--per-device-train-batch-size 3" "--per-device-train-batch-size 1 --gradient-accumulation-steps 3 --kernels $other_kernels" \
    "--per-device-train-batch-size 3 --gradient-checkpointing full --threads 1 --length-buckets none"; do
    rm -rf "$work/p1"
    # shellcheck disable=SC2086
    run train --model "$work/p0" --data "$work/pads.jsonl" --max-seq-length 16 --max-steps 4 --optim sgd --learning-rate 0.5 \
        --lr-scheduler-type constant --max-grad-norm 0 --weight-decay 0 --logging-steps 1 --json --output-dir "$work/p1" $more
    sed -nE 's/.*"loss": ([0-9.]+), "mean.*/\1/p' <<<"$out" | paste -sd' ' - | awk '{ split("1.08532691 0.86141413 0.39009443 0.13622808", right)
        for (i = 1; i <= 4; i++) if (($i - right[i]) ^ 2 > 1e-12) exit 1 } END { exit NR != 1 }'
    check $? "padding in texts: the losses of transformers ($more)" "$out$err"
    [[ -z $digest || $(json state_digest) == "$digest" ]]
    check $? "padding in texts: the same bits ($more)" "$out$err"
    digest=$(json state_digest)
done
run eval --model "$work/p1" --data "$work/pads.jsonl" --max-seq-length 16 --predictions "$work/p.jsonl"
sed -E 's/.*"logits": \[(.*)\].*/\1/; s/,//g' "$work/p.jsonl" | paste -sd' ' - | awk '{ split("2.60670161 -1.97202575 -0.69284093 0.73021656 2.00108361 -2.91516638 -0.37869895 -2.22573590 2.77977490", right)
    for (i = 1; i <= 9; i++) if (($i - right[i]) ^ 2 > 1e-10) exit 1 } END { exit NR != 1 }'
check $? "padding in texts: the logits of transformers" "$(cat "$work/p.jsonl")"
# The table of positions has rows before the first position's.
sed 's/"max_position_embeddings": 130/"max_position_embeddings": 2/' "$work/x-roberta/config.json" >"$work/xlm/config.json"
expect 2 'n_positions' plan --model "$work/xlm"
expect 2 'max-seq-length' plan --model "$work/x-roberta" --max-seq-length 129
finish
