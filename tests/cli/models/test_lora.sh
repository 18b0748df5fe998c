#!/bin/bash
# SPDX-License-Identifier: MIT
# Adapters through the program: trained beside a base, used, resumed, merged into every format, and
# refused where they belong to another base.
. "$(dirname "$0")/../lib.sh"

data=$work/data.txt
for ((i = 0; i < 300; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
common=(--data "$data" --max-seq-length 32 --device host --threads 2 --json)

base() {
    run train --model "$1" --output-dir "$work/$2" --max-steps 8 "${common[@]}"
    check $code "a base of $1" "$err"
}
adapt() {
    local from=$1 to=$2
    shift 2
    run train --model "$work/$from" --output-dir "$work/$to" --max-steps 12 --learning-rate 1e-2 \
        --lora-r 3 --target-modules all-linear "$@" "${common[@]}"
    check $code "adapters of $from with $*" "$err"
}
loss() { run eval "$@" "${common[@]}" && json loss; }
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && (d < 0 ? -d : d) <= 1e-6 * a) }'
    check $? "$3 ($1, $2)"
}

base tiny gpt
base tiny-llama llama
for model in gpt llama; do
    adapt $model $model-a --lora-alpha 12 --lora-dropout 0.1
    [[ -s $work/$model-a/adapter_model.safetensors && ! -e $work/$model-a/model.safetensors ]] &&
        grep -q '"peft_type": "LORA"' "$work/$model-a/adapter_config.json"
    check $? "an adapter directory holds an adapter and no model"
    plain=$(loss --model "$work/$model")
    with=$(loss --model "$work/$model" --adapter "$work/$model-a")
    awk -v a="$plain" -v b="$with" 'BEGIN { exit !(b < a) }'
    check $? "the adapter has learnt ($plain, then $with)"
    expect 0 '' export --model "$work/$model" --adapter "$work/$model-a" --merge --to "$work/$model-m"
    near "$with" "$(loss --model "$work/$model-m")" "merged weights give the same loss"
    expect 0 '' export --model "$work/$model" --adapter "$work/$model-a" --merge --format gguf \
        --to "$work/$model.gguf"
    expect 0 '' import --from "$work/$model.gguf" --to "$work/$model-g"
    near "$with" "$(loss --model "$work/$model-g")" "and so do those of the GGUF file"
done

# verifies face-30.b2d9
# An interrupted run resumes bit for bit; checkpoints do not hold the base.
adapt gpt whole --gradient-release
digest=$(json state_digest)
adapt gpt cut --gradient-release --stop-at-step 5
adapt gpt cut --gradient-release --resume
[[ $(json state_digest) == "$digest" ]]
check $? "a resumed adapter ends in the same state"
! grep -aq '"transformer.h.0.attn.c_attn.weight"' "$work/cut/checkpoint-12/state.safetensors"
check $? "a checkpoint holds the adapters and not the base's state"

# Modules by expressions, blocks and patterns of ranks: read again as written, merged, the same bits whatever
# the policy; LoRA+ is an override of what B learns at.
choice=(--exclude-modules gate_proj,k_proj --layers-to-transform 1 --rank-pattern 'down_proj=5,.*v_proj=1'
    --alpha-pattern q_proj=2)
adapt llama patterns "${choice[@]}"
digest=$(json state_digest)
for key in '"exclude_modules": \["gate_proj", "k_proj"\]' '"layers_to_transform": \[1\]' \
    '"rank_pattern": {"down_proj": 5, ".\*v_proj": 1}' '"alpha_pattern": {"q_proj": 2}' \
    '"target_modules": \["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"\]'; do
    grep -q "$key" "$work/patterns/adapter_config.json"
    check $? "the adapter's file says $key" "$(cat "$work/patterns/adapter_config.json")"
done
with=$(loss --model "$work/llama" --adapter "$work/patterns")
expect 0 '' export --model "$work/llama" --adapter "$work/patterns" --merge --to "$work/patterns-m"
near "$with" "$(loss --model "$work/patterns-m")" "merged with their own ranks and alphas the loss is the same"
adapt llama patterns-c "${choice[@]}" --gradient-checkpointing every:1 --threads 1
[[ $(json state_digest) == "$digest" ]]
check $? "and the state under another policy"
adapt llama expression --target-modules 'model\.layers\.1\.(self_attn\.[qv]|mlp\.down)_proj'
grep -q '"target_modules": "model' "$work/expression/adapter_config.json" &&
    [[ $(grep -ao '"base_model[^"]*lora_A.weight"' "$work/expression/adapter_model.safetensors" | wc -l) -eq 3 ]]
check $? "an expression chooses three layers"
run eval --model "$work/llama" --adapter "$work/expression" "${common[@]}"
check $code "and is read again" "$err"
adapt gpt plus --loraplus-lr-ratio 4
plus=$(json state_digest)
adapt gpt plus-o --param-override '*.lora_B.weight: lr=4e-2'
[[ $(json state_digest) == "$plus" ]]
check $? "LoRA+ is B at a rate of its own"
adapt llama plus-l --loraplus-lr-ratio 4
plus=$(json state_digest)
adapt llama plus-lo --param-override '*.lora_B.weight: lr=4e-2'
[[ $(json state_digest) == "$plus" ]]
check $? "and of a model without biases"
for model in gpt llama; do
    run plan --model "$work/$model" --lora-r 3 "${common[@]}"
    arena=$(json arena_bytes)
    run plan --model "$work/$model" --lora-r 3 --loraplus-lr-ratio 4 "${common[@]}"
    [[ $code -eq 0 && $(json arena_bytes) == "$arena" ]]
    check $? "$model: a plan of LoRA+, which takes no byte more" "$err"
done

# Magnitudes: the run goes on to the same bits, PEFT's names, merged by the lengths of what is merged.
for base in gpt llama; do
    adapt $base dora-$base --use-dora --lora-dropout 0.1
    digest=$(json state_digest)
    grep -q '"use_dora": true' "$work/dora-$base/adapter_config.json" &&
        grep -aq 'lora_magnitude_vector"' "$work/dora-$base/adapter_model.safetensors"
    check $? "$base: the adapter has magnitudes" "$(cat "$work/dora-$base/adapter_config.json")"
    adapt $base dora-c-$base --use-dora --lora-dropout 0.1 --gradient-checkpointing every:1 --threads 1
    [[ $(json state_digest) == "$digest" ]]
    check $? "$base: and the same ones under another policy"
    with=$(loss --model "$work/$base" --adapter "$work/dora-$base")
    expect 0 '' export --model "$work/$base" --adapter "$work/dora-$base" --merge --to "$work/dora-m-$base"
    near "$with" "$(loss --model "$work/dora-m-$base")" "$base: merged with magnitudes the loss is the same"
done
adapt llama dora-r --use-dora --lora-dropout 0.1 --stop-at-step 5
adapt llama dora-r --use-dora --lora-dropout 0.1 --resume
[[ $(json state_digest) == "$digest" ]]
check $? "a run with magnitudes that was stopped goes on to the same bits"
expect 2 'use-dora' train --model "$work/llama" --output-dir "$work/dora-r" --max-steps 13 --learning-rate 1e-2 \
    --lora-r 3 --target-modules all-linear --lora-dropout 0.1 --resume "${common[@]}"
adapt gpt dora-plus --use-dora --loraplus-lr-ratio 4
plus=$(json state_digest)
adapt gpt dora-plus-o --use-dora --param-override '*.lora_B.weight: lr=4e-2' \
    --param-override '*.lora_magnitude_vector: lr=4e-2'
[[ $(json state_digest) == "$plus" ]]
check $? "LoRA+ is B and magnitudes at a rate of their own"
# The token embedding: policies, resume, and what does not go with it.
adapt llama tokens --target-modules embed_tokens,v_proj
whole=$(json state_digest)
adapt llama tokens-r --target-modules embed_tokens,v_proj --gradient-checkpointing full --stop-at-step 5
adapt llama tokens-r --target-modules embed_tokens,v_proj --resume
[[ -n $whole && $(json state_digest) == "$whole" ]]
check $? "an adapter of the table goes on to the same bits" "$err"
expect 2 'token embedding is not merged' export --model "$work/llama" --adapter "$work/tokens" --merge --to "$work/x"
# A table that no head is tied to: one beside a head of its own, GPT-NeoX's, and that of a classifier.
mkdir "$work/untied-c"
sed 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' "$work/llama/config.json" >"$work/untied-c/config.json"
base "$work/untied-c" untied
base tiny-neox neox
while read -r model targets; do
    adapt $model table-$model --target-modules "$targets" --use-rslora
    plain=$(loss --model "$work/$model")
    with=$(loss --model "$work/$model" --adapter "$work/table-$model")
    awk -v a="$plain" -v b="$with" 'BEGIN { exit !(b < a) }'
    check $? "$model: an adapter of the table has learnt ($plain, then $with)"
    expect 0 '' export --model "$work/$model" --adapter "$work/table-$model" --merge --to "$work/table-m-$model"
    near "$with" "$(loss --model "$work/table-m-$model")" "$model: with its table merged the loss is the same"
    expect 0 '' export --model "$work/$model" --adapter "$work/table-$model" --merge --to "$work/table-$model.gguf"
    near "$with" "$(loss --model "$work/table-$model.gguf")" "$model: and so in a GGUF file"
done <<'E2'
untied embed_tokens
neox embed_in,query_key_value
E2
awk 'BEGIN { for (i = 0; i < 40; i++) printf "%d\tthe word %d\n", i % 2, i % 2 ? i : -i }' >"$work/rows.tsv"
judged=(--data "$work/rows.tsv" --max-seq-length 32 --json)
run train --model "$work/llama" --task classification "${judged[@]}" --max-steps 4 --output-dir "$work/judge"
run train --model "$work/judge" "${judged[@]}" --max-steps 12 --learning-rate 1e-2 --lora-r 3 --target-modules embed_tokens,v_proj \
    --output-dir "$work/judge-a"
run eval --model "$work/judge" --adapter "$work/judge-a" "${judged[@]}"
with=$(json loss)
expect 0 '' export --model "$work/judge" --adapter "$work/judge-a" --merge --to "$work/judge-m"
run eval --model "$work/judge-m" "${judged[@]}"
near "$with" "$(json loss)" "a classifier's table is tied to nothing"
expect 2 'adapters of a token embedding and of convolutions have none' plan --model tiny-llama --lora-r 2 --use-dora --target-modules embed_tokens
expect 2 'drops elements of its embedding' plan --model tiny --lora-r 2 --target-modules wte --dropout 0.1

# verifies layers-30.753f
# Rows of the token embedding beside adapters: a tied head and one of its own; policies, a resume, merging, the file.
adapt llama rows --target-modules v_proj --trainable-token-indices 3,40-42 --load-in-4bit
whole=$(json state_digest)
grep -q '"trainable_token_indices": \[3, 40, 41, 42\]' "$work/rows/adapter_config.json" &&
    grep -aq 'base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"' "$work/rows/adapter_model.safetensors"
check $? "rows of the table have PEFT's names" "$(cat "$work/rows/adapter_config.json")"
adapt llama rows-r --target-modules v_proj --trainable-token-indices 3,40-42 --load-in-4bit --gradient-checkpointing full --stop-at-step 5
adapt llama rows-r --target-modules v_proj --trainable-token-indices 3,40-42 --load-in-4bit --resume
[[ -n $whole && $(json state_digest) == "$whole" ]]
check $? "a run that trains rows goes on to the same bits" "$err"
expect 2 'trainable-token-indices' train --model "$work/llama" --output-dir "$work/rows-r" --max-steps 13 --learning-rate 1e-2 \
    --lora-r 3 --target-modules v_proj --trainable-token-indices 3 --load-in-4bit --resume "${common[@]}"
for base in gpt llama; do
    adapt $base rows-$base --target-modules all-linear --trainable-token-indices 3,7-9
    with=$(loss --model "$work/$base" --adapter "$work/rows-$base")
    expect 0 '' export --model "$work/$base" --adapter "$work/rows-$base" --merge --to "$work/rows-m-$base"
    near "$with" "$(loss --model "$work/rows-m-$base")" "$base: with its rows merged the loss is the same"
done
# {"embed_tokens": ..} is the same; another module's rows are refused.
sed -i 's/"trainable_token_indices": \(\[[^]]*\]\)/"trainable_token_indices": {"embed_tokens": \1}/' "$work/rows-llama/adapter_config.json"
near "$with" "$(loss --model "$work/llama" --adapter "$work/rows-llama")" "and so of a file that names the table"
sed -i 's/{"embed_tokens"/{"lm_head"/' "$work/rows-llama/adapter_config.json"
expect 4 'another module than the token embedding' eval --model "$work/llama" --adapter "$work/rows-llama" "${common[@]}"
sed -i 's/{"lm_head": \(\[[^]]*\]\)}/null/' "$work/rows-llama/adapter_config.json"
expect 4 'trainable_token' eval --model "$work/llama" --adapter "$work/rows-llama" "${common[@]}"
expect 4 'a module that this model has not' export --model "$work/llama" --adapter "$work/rows-llama" --merge --to "$work/x"
sed -i 's/"trainable_token_indices": null/"trainable_token_indices": [3, 7, 8, 900000]/' "$work/rows-llama/adapter_config.json"
expect 4 'a token that the table has not' export --model "$work/llama" --adapter "$work/rows-llama" --merge --to "$work/x"
expect 4 'no token of this number' eval --model "$work/llama" --adapter "$work/rows-llama" "${common[@]}"
expect 2 'no token of this number' plan --model tiny-llama --lora-r 2 --trainable-token-indices 999999
expect 2 'a token is there twice' plan --model tiny-llama --lora-r 2 --trainable-token-indices 5,4-6
expect 2 'not a list of numbers' plan --model tiny-llama --lora-r 2 --trainable-token-indices 5,x
expect 2 'not a list of numbers' plan --model tiny-llama --lora-r 2 --trainable-token-indices 7-5
expect 2 'more than 4096' plan --model tiny-llama --lora-r 2 --trainable-token-indices 0-9999
expect 2 'no adapter' plan --model tiny-llama --trainable-token-indices 5
expect 2 'adapter.s file gives it' plan --model "$work/gpt" --adapter "$work/rows-gpt" --trainable-token-indices 5

# Biases beside adapters: all, or the adapted layers', whose names are PEFT's base_layer; 4 bits; merged.
for kind in all lora_only; do
    adapt gpt bias-$kind --target-modules c_attn --lora-bias $kind --load-in-4bit
    digest=$(json state_digest)
    names=$(grep -ao '"base_model[^"]*bias"' "$work/bias-$kind/adapter_model.safetensors" | wc -l)
    layers=$(grep -ao '"base_model[^"]*c_attn.base_layer.bias"' "$work/bias-$kind/adapter_model.safetensors" | wc -l)
    [[ $layers -gt 0 ]] && { [[ $kind == all ]] && ((names > 4 * layers)) || ((names == layers)); } &&
        grep -q "\"bias\": \"$kind\"" "$work/bias-$kind/adapter_config.json" &&
        grep -q '"modules_to_save": null' "$work/bias-$kind/adapter_config.json"
    check $? "--lora-bias $kind trains $names biases, $layers of them of adapted layers"
    adapt gpt bias-r --target-modules c_attn --lora-bias $kind --load-in-4bit --gradient-checkpointing every:1 --stop-at-step 5
    adapt gpt bias-r --target-modules c_attn --lora-bias $kind --load-in-4bit --resume
    [[ $(json state_digest) == "$digest" ]]
    check $? "--lora-bias $kind: stopped and resumed, under another policy, the bits are the same"
    rm -r "$work/bias-r"
    with=$(loss --model "$work/gpt" --adapter "$work/bias-$kind")
    expect 0 '' export --model "$work/gpt" --adapter "$work/bias-$kind" --merge --to "$work/bias-m-$kind"
    near "$with" "$(loss --model "$work/bias-m-$kind")" "--lora-bias $kind: merged the loss is the same"
done
expect 2 'lora-bias' plan --model tiny --lora-r 2 --lora-bias some
expect 2 'no adapter' plan --model tiny --lora-bias all
expect 2 'adapter.s file gives it' plan --model "$work/gpt" --adapter "$work/bias-all" --lora-bias all
expect 2 'no adapter' plan --model tiny-llama --use-dora
expect 2 'adapter.s file gives it' plan --model "$work/llama" --adapter "$work/dora-llama" --use-dora
sed -i 's/"use_dora": true/"use_dora": false/' "$work/dora-llama/adapter_config.json"
expect 4 'magnitude_vector' eval --model "$work/llama" --adapter "$work/dora-llama" "${common[@]}"
expect 4 'magnitude_vector' export --model "$work/llama" --adapter "$work/dora-llama" --merge --to "$work/x"
cp -r "$work/expression" "$work/lacking"
sed -i 's/"use_rslora"/"use_dora": true, "use_rslora"/' "$work/lacking/adapter_config.json"
expect 4 'magnitude_vector' eval --model "$work/llama" --adapter "$work/lacking" "${common[@]}"
expect 4 'lacks its magnitudes' export --model "$work/llama" --adapter "$work/lacking" --merge --to "$work/x"
expect 2 'look-around' plan --model tiny-llama --lora-r 2 --target-modules '(?!a)q_proj'
expect 2 'no dense layer' plan --model tiny-llama --lora-r 2 --layers-to-transform 77
expect 2 'needs layers_to_transform' plan --model tiny-llama --lora-r 2 --layers-pattern h
expect 2 'not an expression' plan --model tiny-llama --lora-r 2 --target-modules '.*' --layers-to-transform 1
expect 2 'list of numbers' plan --model tiny-llama --lora-r 2 --layers-to-transform a
expect 2 'from 0 on' plan --model tiny-llama --lora-r 2 --layers-to-transform 1.5
expect 2 'patterns and numbers' plan --model tiny-llama --lora-r 2 --rank-pattern q_proj
expect 2 'not closed' plan --model tiny-llama --lora-r 2 --alpha-pattern '(=2'
expect 2 'name is empty' plan --model tiny-llama --lora-r 2 --exclude-modules a,,b
expect 2 'no adapter' plan --model tiny-llama --rank-pattern q_proj=2
expect 2 'adapter.s file gives it' plan --model "$work/llama" --adapter "$work/patterns" --rank-pattern q_proj=2

# What is trained beside adapters goes with them: norms by --trainable, and a classifier always.
adapt gpt norms --trainable '*ln_f*' --trainable '*.wpe.*'
grep -aq '"base_model.model.transformer.ln_f.bias"' "$work/norms/adapter_model.safetensors" &&
    grep -q '"modules_to_save": \["wpe", "ln_f"\]' "$work/norms/adapter_config.json"
check $? "trained norms are in the adapter's file" "$(cat "$work/norms/adapter_config.json")"
with=$(loss --model "$work/gpt" --adapter "$work/norms")
for format in hf gguf; do
    expect 0 '' export --model "$work/gpt" --adapter "$work/norms" --merge --format $format --to "$work/norms-$format"
done
expect 0 '' import --from "$work/norms-gguf" --to "$work/norms-back"
near "$with" "$(loss --model "$work/norms-hf")" "merged with the norms"
near "$with" "$(loss --model "$work/norms-back")" "and in the GGUF file"
expect 2 'wpe.weight: the adapter brings this parameter with it' train --model "$work/gpt" --adapter "$work/norms" \
    --max-steps 1 --output-dir "$work/x" "${common[@]}"

awk 'BEGIN { for (i = 0; i < 60; i++) printf "%d\t%s %d\n", i % 2, i % 2 ? "good film" : "bad film", i * i }' >"$work/films.tsv"
judge=(--task classification --data "$work/films.tsv" --max-seq-length 16 --threads 2 --json --quiet)
run train --model tiny-bert --max-steps 0 --output-dir "$work/judge" "${judge[@]}"
for more in "" "--load-in-4bit"; do
    rm -rf "$work/judge-a" "$work/judge-m"
    run train --model "$work/judge" --max-steps 40 --learning-rate 1e-2 --lora-r 2 $more --output-dir "$work/judge-a" \
        "${judge[@]}"
    check $code "adapters and a classifier $more" "$err"
    run eval --model "$work/judge" --adapter "$work/judge-a" $more --predictions "$work/p.jsonl" "${judge[@]}"
    [[ $code -eq 0 && $(json accuracy) == 1 ]]
    check $? "both have learnt, and are used by eval $more" "$out$err"
done
run train --model "$work/judge" --max-steps 40 --learning-rate 1e-2 --lora-r 2 --output-dir "$work/judge-b" "${judge[@]}"
run eval --model "$work/judge" --adapter "$work/judge-b" --predictions "$work/p.jsonl" "${judge[@]}"
with=$(json loss)
expect 0 '' export --model "$work/judge" --adapter "$work/judge-b" --merge --to "$work/judge-m"
run eval --model "$work/judge-m" --predictions "$work/q.jsonl" "${judge[@]}"
near "$with" "$(json loss)" "merged with the classifier"
cmp -s <(sed 's/"score".*//' "$work/p.jsonl") <(sed 's/"score".*//' "$work/q.jsonl")
check $? "the same predictions"
run train --model "$work/judge" --adapter "$work/judge-b" --max-steps 5 --logging-steps 1 \
    --output-dir "$work/judge-c" "${judge[@]}"
out=$(head -1 <<<"$out")
awk -v a="$(json loss)" 'BEGIN { exit !(a > 0 && a < 0.2) }'
check $? "training goes on where they stand" "$out$err"
run eval --model "$work/judge" --adapter "$work/judge-c" "${judge[@]}"
[[ $(json accuracy) == 1 ]]
check $? "and they are better for it" "$out$err"

# verifies face-30.b2d9
# Nor would adapters go on beside a base that is not theirs, of the same shapes.
run train --model tiny --seed 7 --output-dir "$work/other" --max-steps 1 "${common[@]}"
expect 2 'base-digest differs from the checkpoint' train --model "$work/other" --output-dir "$work/cut" \
    --max-steps 12 --learning-rate 1e-2 --lora-r 3 --target-modules all-linear --gradient-release \
    --resume "${common[@]}"

# The fit holds a budget when the lowest stages are frozen, the chain's own schedules among its choices.
run plan --model tiny-llama --lora-r 3 --max-seq-length 64 --json
most=$(json arena_bytes)
run plan --model tiny-llama --lora-r 3 --max-seq-length 64 --gradient-checkpointing memory-poor \
    --per-device-train-batch-size 1 --gradient-accumulation-steps 8 --json
least=$(json arena_bytes)
for tenth in 0 1 3 5 7 9; do
    budget=$((least + (most - least) * tenth / 10))
    run plan --model tiny-llama --lora-r 3 --max-seq-length 64 --arena $budget --json
    [[ $code -eq 0 && $(json arena_bytes) -le $budget ]]
    check $? "a plan of adapters inside $budget bytes" "$err"
done

# A table that the head is tied to goes in the file as itself, not as PEFT's copy.
adapt gpt table --trainable '*.wte.*'
grep -aq '"base_model.model.transformer.wte.weight"' "$work/table/adapter_model.safetensors" &&
    grep -q '"modules_to_save": null' "$work/table/adapter_config.json"
check $? "a trained table is in the adapter's file" "$(cat "$work/table/adapter_config.json")"

# Bad input: what the adapter's files say is the adapter's fault, and named there.
broken() {
    rm -rf "$work/broken"
    cp -r "$work/gpt-a" "$work/broken"
    sed -i "$1" "$work/broken/adapter_config.json"
    expect 4 "broken/adapter_config.json: $2" eval --model "$work/gpt" --adapter "$work/broken" "${common[@]}"
    ! grep -q 'found 0' <<<"$err"
    check $? "no numbers that say nothing" "$err"
}
broken 's/"init_lora_weights": true/"init_lora_weights": "pissa"/' 'init_lora_weights: .*changes the base'
broken 's/"modules_to_save": null/"modules_to_save": ["transformer.wte"]/' 'modules_to_save: .*tied to'
broken 's/"all-linear"/["c_attn", "c_fck"]/' 'target-modules: c_fck: the target names no dense layer'
broken 's/"peft_type": "LORA"/"peft_type": "IA3"/' 'peft_type: only LORA'
rm -rf "$work/broken"
cp -r "$work/gpt-a" "$work/broken"
mv "$work/broken/adapter_model.safetensors" "$work/broken/adapter_model.bin"
expect 4 'broken: the adapter.s weights are not in adapter_model.safetensors' eval --model "$work/gpt" \
    --adapter "$work/broken" "${common[@]}"
rm "$work/broken/adapter_model.bin"
expect 4 'broken: the adapter has no adapter_model.safetensors' eval --model "$work/gpt" --adapter "$work/broken" "${common[@]}"
cp "$work/gpt-a/adapter_model.safetensors" "$work/broken"
sed -i 's/"r": 3/"r": 2/' "$work/broken/adapter_config.json"
expect 4 'lora_A.weight: a tensor.s shape differs from the model.s: found \[3, 64\], expected \[2, 64\]' \
    eval --model "$work/gpt" --adapter "$work/broken" "${common[@]}"
[[ $(grep -c 'c_attn.lora_A' <<<"$err") -eq 2 ]] && grep -q 'broken/adapter_model.safetensors: the tensors named above' <<<"$err"
check $? "each tensor is named once" "$err"
expect 4 'gpt-a/adapter_model.safetensors: base_model.model.transformer.h.*lora_.*: the adapter is of another base: a tensor' \
    export --model "$work/llama" --adapter "$work/gpt-a" --merge --to "$work/x"
expect 4 'q_proj.lora_A.weight: a tensor of the model is missing' eval --model "$work/llama" \
    --adapter "$work/gpt-a" "${common[@]}"
expect 2 'exported merged, by --adapter DIR and --merge together' export --model "$work/gpt" \
    --adapter "$work/gpt-a" --to "$work/x"
expect 2 'names no dense layer' plan --model tiny --lora-r 2 --target-modules q_proj
expect 2 '^bedplate: --lora-alpha: there is no adapter' plan --model tiny --lora-alpha 4
sed 's/LORA/IA3/' "$work/gpt-a/adapter_config.json" >"$work/gpt-a/new"
mv "$work/gpt-a/new" "$work/gpt-a/adapter_config.json"
expect 4 'only LORA is implemented' eval --model "$work/gpt" --adapter "$work/gpt-a" "${common[@]}"
expect 4 'adapter_config.json' eval --model "$work/gpt" --adapter "$work/nowhere" "${common[@]}"

# Lists of targets, and what an adapter's own file says.
expect 2 'target-modules: a name, or all names together, are too long' plan --model tiny --lora-r 2 --target-modules "$(printf 'c%01100d' 0)"
expect 2 'target-modules: there are more than 192 names' plan --model tiny --lora-r 2 \
    --target-modules "$(for ((i = 0; i < 193; i++)); do printf 'c%d,' $i; done)c"
expect 2 'target-modules: a name is empty' plan --model tiny --lora-r 2 --target-modules 'c_attn,,c_proj'
adapter=$(dirname "$(find "$work" -name adapter_config.json | sort | head -1)")
for option in '--lora-r 3' '--lora-alpha 4' '--target-modules c_attn' '--use-rslora'; do
    # shellcheck disable=SC2086
    expect 2 "${option%% *}: the adapter.s file gives it" train --model "$work/gpt" --adapter "$adapter" \
        $option --output-dir "$work/x" --max-steps 1 "${common[@]}"
done
finish
