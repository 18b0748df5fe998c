#!/bin/bash
# SPDX-License-Identifier: MIT
# Directories that sentence-transformers saved, tokenizers among them (tools/golden/sentences.py): their vectors are its own
# in float64, whatever computes them; training keeps what was there, and what is saved has the vectors of the run.
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/sentences
awk 'BEGIN { for (i = 0; i < 24; i++) printf "{\"anchor\": \"the word %c\", \"positive\": \"number %c of words\"}\n", 97 + i % 3, 97 + i % 3 }' \
    >"$work/pairs.jsonl"

awk 'BEGIN { for (i = 0; i < 16; i++) printf "%d\tthe word %c\n", i % 2, 97 + i % 3 }' >"$work/rows.tsv"

# agree NAME FILE.jsonl: its numbers are those of vectors.txt.
agree() {
    sed -E 's/.*"embedding": \[//; s/[],}]//g' "$2" | paste -d' ' - "$golden/$1/vectors.txt" | awk '
        { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); bad += d * d > 4e-10; most = $i * $i > most ? $i * $i : most } }
        END { exit !(NR == 9 && !bad && most > 0.01) }'
}
for name in mpnet gemma dense nomic t5 deberta; do
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
expect 2 'question-answering is implemented for bert, distilbert and electra' plan --model $golden/mpnet --task question-answering
for task in causal-lm masked-lm token-classification dpo; do
    expect 2 '' plan --model $golden/gemma --task $task
done
expect 2 'use_bidirectional_attention' plan --model $golden/gemma --task causal-lm
expect 2 'use_bidirectional_attention' export --model "$work/o-gemma" --to "$work/x.gguf"
grep -q '"use_bidirectional_attention": true' "$work/o-gemma/config.json" && grep -q '"sliding_window": 6' "$work/o-gemma/config.json"
check $? "gemma: both are written as they were read" "$(cat "$work/o-gemma/config.json")"
# The keys of nomic-embed-text's own code say the same; what they may ask for besides is refused by name.
cp -r $golden/nomic "$work/n"
cat >"$work/n/config.json" <<'EOF'
{"model_type": "nomic_bert", "activation_function": "swiglu", "attn_pdrop": 0.0, "causal": false, "embd_pdrop": 0.0,
 "layer_norm_epsilon": 1e-12, "mlp_fc1_bias": false, "mlp_fc2_bias": false, "n_embd": 16, "n_head": 2, "n_inner": 24,
 "n_layer": 2, "n_positions": 32, "pad_vocab_size_multiple": 64, "parallel_block": false, "prenorm": false,
 "qkv_proj_bias": false, "resid_pdrop": 0.0, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
 "rotary_emb_interleaved": false, "rotary_emb_scale_base": null, "rotary_scaling_factor": null, "type_vocab_size": 2,
 "use_rms_norm": false, "vocab_size": 24}
EOF
run embed --model "$work/n" --data $golden/texts.txt --output "$work/n.jsonl" --quiet
[[ $code -eq 0 ]] && agree nomic "$work/n.jsonl"
check $? "nomic: the keys of its own code" "$err"
for key in '"prenorm": true' '"qkv_proj_bias": true' '"rotary_emb_interleaved": true' '"rotary_scaling_factor": 2' \
    '"rotary_emb_fraction": 0.5' '"use_rms_norm": true' '"causal": true' '"hidden_act": "gelu"' \
    '"rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}'; do
    sed "s/\"model_type\"/$key, \"model_type\"/" $golden/nomic/config.json |
        awk -v key="${key%%:*}" 'index($0, key) && !/model_type/ { if (/\{/) skip = 1; next } skip { if (/\}/) skip = 0; next } 1' \
            >"$work/n/config.json"
    word=${key%%:*}
    expect 4 "${word//\"/}" plan --model "$work/n" --task embedding
done
sed 's/"rope_theta": 1000.0/"rope_theta": 500.0/' $golden/nomic/config.json >"$work/n/config.json"
run embed --model "$work/n" --data $golden/texts.txt --output "$work/n.jsonl" --quiet
[[ $code -eq 0 ]] && ! agree nomic "$work/n.jsonl"
check $? "nomic: another base turns otherwise" "$err"
run train --model "$work/n" --task embedding --data "$work/pairs.jsonl" --max-seq-length 16 --max-steps 0 --quiet \
    --output-dir "$work/on"
tr -d ' \n' <"$work/on/config.json" | grep -q '"rope_parameters":{"rope_theta":5e+02,"rope_type":"default"}'
check $? "nomic: and is written" "$(cat "$work/on/config.json")"
expect 2 'masked-lm is not implemented' plan --model $golden/nomic --task masked-lm
for more in "" "--gradient-checkpointing full --threads 1"; do
    rm -rf "$work/l"
    # shellcheck disable=SC2086
    run train --model $golden/nomic --task classification --num-labels 2 --data "$work/rows.tsv" --max-seq-length 16 --max-steps 3 \
        --load-in-4bit --bnb-4bit-blocksize 32 --lora-r 2 --target-modules all-linear --quiet --json --allow-missing \
        --output-dir "$work/l" $more
    [[ $code -eq 0 && -f $work/l/adapter_model.safetensors ]]
    check $? "nomic: adapters on a base in 4 bits $more" "$out$err"
    [[ -z ${digest:-} || $(json state_digest) == "$digest" ]]
    check $? "nomic: the same bits $more"
    digest=$(json state_digest)
done
cp -r $golden/gemma "$work/y"
sed -i 's/"use_bidirectional_attention": true/"use_bidirectional_attention": null/' "$work/y/config.json"
expect 0 '' plan --model "$work/y" --task causal-lm
# Dense modules: trained and written back (the loop above); beside adapters they stay as they are.
grep -q '"path": "3_Dense"' "$work/o-dense/modules.json" && grep -q '"path": "4_Normalize"' "$work/o-dense/modules.json" &&
    grep -q '"activation_function": "torch.nn.modules.activation.Tanh"' "$work/o-dense/3_Dense/config.json" &&
    grep -q '"bias": false' "$work/o-dense/2_Dense/config.json"
check $? "dense: its modules are written" "$(cat "$work/o-dense/modules.json")"
# weights DIR: the numbers of the first Dense module, 24 rows of 16.
weights() { tail -c 1536 "$1/2_Dense/model.safetensors"; }
cmp -s <(weights "$work/o-dense") <(weights $golden/dense)
check $? "dense: its weights are written as they were read"
for more in "" "--lora-r 2"; do
    rm -rf "$work/l"
    # shellcheck disable=SC2086
    run train --model $golden/dense --task embedding --data "$work/pairs.jsonl" --max-seq-length 16 --max-steps 2 --quiet \
        --learning-rate 1e-2 --output-dir "$work/l" $more
    [[ $code -eq 0 ]] && if cmp -s <(weights "$work/l") <(weights $golden/dense); then [[ -n $more ]]; else [[ -z $more ]]; fi
    check $? "dense: trained, and beside adapters not ($more)" "$err"
done
run export --model $golden/dense --to "$work/e" --format hf --dtype bf16
[[ $code -eq 0 ]] && cmp -s "$work/e/3_Dense/model.safetensors" $golden/dense/3_Dense/model.safetensors &&
    cmp -s "$work/e/modules.json" $golden/dense/modules.json
check $? "dense: an exported directory has them too" "$err"
expect 2 'Dense modules are exported into directories alone' export --model $golden/dense --to "$work/d.gguf"
expect 2 'Dense modules are implemented behind the mean' plan --model $golden/dense --task embedding --pooling weightedmean
cp -r $golden/dense "$work/z"
sed -i 's/"in_features": 16/"in_features": 8/' "$work/z/2_Dense/config.json"
expect 4 'in_features' plan --model "$work/z" --task embedding
cp $golden/dense/2_Dense/config.json "$work/z/2_Dense"
sed -i 's/"out_features": 12/"out_features": 13/' "$work/z/3_Dense/config.json"
expect 4 '3_Dense.linear.weight' embed --model "$work/z" --data $golden/texts.txt --output "$work/z.jsonl"
rm "$work/z/3_Dense/model.safetensors"
expect 4 'a module.s weights is missing' embed --model "$work/z" --data $golden/texts.txt --output "$work/z.jsonl"
sed -i 's/\.dense\.Dense/.x.LayerNorm/' "$work/z/modules.json"
expect 4 'LayerNorm: the module is not implemented' plan --model "$work/z" --task embedding
# Encoders of T5: classes of tokens with every dropout, the same bits; what has a decoder is refused, and a whole model's is
# passed over.
for i in $(seq 12); do printf 'the\tA\nword\tB\n\nof\tA\nworld\tB\nhello\tA\n\n'; done >"$work/tags.txt"
digest=
for more in "" "--kernels $other_kernels" "--gradient-checkpointing full --threads 1" "--gradient-checkpointing memory-poor --gradient-release"; do
    rm -rf "$work/k"
    # shellcheck disable=SC2086
    run train --model $golden/t5 --task token-classification --data "$work/tags.txt" --max-seq-length 16 --max-steps 4 --quiet \
        --json --output-dir "$work/k" --max-grad-norm 0 --per-device-train-batch-size 4 $more
    [[ $code -eq 0 && -n $(json state_digest) && ( -z $digest || $(json state_digest) == "$digest" ) ]]
    check $? "t5: tokens, the same bits ($more)" "$out$err"
    digest=$(json state_digest)
done
run eval --model "$work/k" --data "$work/tags.txt" --max-seq-length 16 --json
[[ $code -eq 0 && $(json loss) =~ ^[0-9] ]] && grep -q '"T5ForTokenClassification"' "$work/k/config.json"
check $? "t5: a classifier of tokens is read back" "$out$err"
run embed --model "$work/k" --data $golden/texts.txt --output "$work/k.jsonl" --quiet
[[ $code -eq 0 && $(wc -l <"$work/k.jsonl") -eq 9 ]]
check $? "t5: and is an encoder below its prefix" "$err"
run train --model $golden/t5 --task token-classification --data "$work/tags.txt" --max-seq-length 16 --max-steps 2 --lora-r 2 \
    --load-in-4bit --bnb-4bit-blocksize 32 --target-modules all-linear --quiet --output-dir "$work/kl"
[[ $code -eq 0 ]] && grep -aq 'base_model.model.transformer.encoder.block.1.layer.0.SelfAttention.q.lora_A' "$work/kl/adapter_model.safetensors"
check $? "t5: adapters with PEFT's names" "$err"
run plan --model $golden/t5 --data "$work/pairs.jsonl" --json
[[ $code -eq 0 && $(json task) == embedding ]]
check $? "t5: its task is that of an encoder" "$out$err"
run train --model $golden/t5 --task embedding --data "$work/pairs.jsonl" --max-seq-length 16 --max-steps 1 --quiet --output-dir "$work/ke"
[[ $code -eq 0 ]] && grep -A1 '"architectures"' "$work/ke/config.json" | grep -q '"T5EncoderModel"'
check $? "t5: and so is its class" "$err$(grep -A1 architectures "$work/ke/config.json")"
expect 2 'T5ForSequenceClassification. has a decoder' plan --model $golden/t5 --task classification
echo '{"source": "hello world", "target": "hello"}' >"$work/two.jsonl"
expect 4 'decoder.block.0' train --model $golden/t5 --task causal-lm --data "$work/two.jsonl" --max-seq-length 8 --max-steps 1 --output-dir "$work/kd"
cp -r $golden/t5 "$work/u"
sed 's/"model_type": "t5"/"model_type": "umt5"/' $golden/t5/config.json >"$work/u/config.json"
expect 4 'umt5' plan --model "$work/u" --task embedding
sed 's/"gated-gelu"/"gated-relu"/' $golden/t5/config.json >"$work/u/config.json"
expect 4 'feed_forward_proj' plan --model "$work/u" --task embedding
sed 's/"T5EncoderModel"/"T5ForConditionalGeneration"/; s/"is_encoder_decoder": false/"is_encoder_decoder": true/' $golden/t5/config.json \
    >"$work/u/config.json"
sed -i 's/encoder.block.1.layer.0.layer_norm.weight/decoder.block.1.layer.0.layer_norm.weight/' "$work/u/model.safetensors"
expect 4 'encoder.block.1.layer.0.layer_norm.weight' embed --model "$work/u" --data $golden/texts.txt --output "$work/u.jsonl"
run embed --model "$work/u" --data $golden/texts.txt --output "$work/u.jsonl" --quiet --allow-missing
check $code "t5: tensors of a decoder are passed over" "$err"
finish
