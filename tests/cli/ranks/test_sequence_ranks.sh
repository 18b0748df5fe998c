#!/bin/bash
# SPDX-License-Identifier: MIT
# Ranks that share the tokens of one sample give the state, the losses and the files of one rank with as many parts: over
# families, precision, policies, adapters, packed rows, evaluations, forms of --shard, and over threads and TCP. What
# cannot be split is refused by name. The plan has each rank's bytes.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
for i in {1..12}; do
    echo "{\"text\": \"number $i has some words of its own, and its square is $((i * i))\"}"
done >"$work/rows.jsonl"
train=(train --per-device-train-batch-size 1 --max-steps 2 --threads 1 --json --save-steps 1 --output-dir "$work/run")

# trained NAME OPTIONS..: the state digest, and each step's loss and norm; the files are in $work/NAME.
trained() {
    local name=$1
    shift
    rm -rf "$work/run" "$work/$name"
    run "${train[@]}" "$@"
    digest=$(sed -nE 's/.*"state_digest": *"([0-9a-f]+)".*/\1/p' <<<"$out" | tail -1)
    losses=$(sed -nE 's/.*"loss": *([^,}]+).*"grad_norm": *([^,}]+).*/\1 \2/p; s/.*"eval_loss": *([^,}]+).*/\1/p' <<<"$out")
    mv "$work/run" "$work/$name" 2>/dev/null
}

# same PARTS RANKS VIRTUAL OPTIONS..: one rank with so many parts and virtual ranks; RANKS for each virtual rank. RANKS over
# 1 are threads.
# verifies ranks-22.2f7b
same() {
    local parts=$1 ranks=$2 virtual=$3
    shift 3
    trained one --virtual-sequence-ranks "$parts" --virtual-ranks "$virtual" "$@"
    local right=$digest numbers=$losses
    [[ $code -eq 0 && -n $right && -n $numbers ]]
    check $? "$parts parts on one rank: $*" "$err"
    trained several --virtual-sequence-ranks "$parts" --sequence-ranks "$ranks" --fabric threads:$((ranks * virtual)) "$@"
    [[ $code -eq 0 && $digest == "$right" && $losses == "$numbers" ]]
    check $? "$parts parts on $ranks ranks, $virtual times: $*" "$digest, right would be $right; $err"
    diff -r -x events.jsonl "$work/one" "$work/several" >/dev/null
    check $? "$ranks ranks write the same files: $*" "$(diff -rq "$work/one" "$work/several")"
}

text=(--data "$work/text" --max-seq-length 16)
same 2 2 1 --model tiny-llama "${text[@]}" --gradient-accumulation-steps 2
same 4 2 2 --model tiny-llama "${text[@]}" --gradient-accumulation-steps 2 --bf16 --gradient-checkpointing full \
    --validation-split 0.2 --eval-steps 1
same 2 2 1 --model tiny-qwen3 "${text[@]}" --optim adamw_8bit --gradient-checkpointing sqrt --poison
same 2 2 1 --model tiny-llama "${text[@]}" --bf16 --lora-r 4 --lora-dropout 0.1 --load-in-4bit --fabric-check
same 2 2 1 --model tiny-gemma3-text --data "$work/rows.jsonl" --max-seq-length 128 --packing --bf16
same 2 2 1 --model tiny-neox "${text[@]}" --fp16 --label-smoothing-factor 0.1
same 2 2 2 --model tiny-llama "${text[@]}" --gradient-accumulation-steps 2 --shard parameters
mkdir "$work/four"
cat >"$work/four/config.json" <<'END'
{"model_type": "llama", "vocab_size": 256, "max_position_embeddings": 64, "hidden_size": 32, "intermediate_size": 48,
 "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": false,
 "rms_norm_eps": 1e-5, "attention_bias": true, "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
 "original_max_position_embeddings": 16, "rope_theta": 10000.0}}
END
same 8 4 1 --model "$work/four" "${text[@]}" --gradient-accumulation-steps 2 --shard gradients --bf16
same 4 4 1 --model "$work/four" "${text[@]}" --lora-r 4 --trainable-token-indices 40,41,50 --lora-bias all
if long_form; then
    for model in tiny-mistral tiny-phi3 tiny-gemma tiny-gemma2 tiny-smollm3 tiny-granite tiny-olmo2 tiny-olmo3 tiny-glm \
        tiny-glm4 tiny-exaone4 tiny-hunyuan tiny-cohere tiny-cohere2 tiny-starcoder2 tiny-arcee tiny-granite4 tiny-seed-oss \
        tiny-ernie4-5; do
        same 4 2 1 --model $model "${text[@]}" --bf16
    done
    same 2 2 1 --model tiny-llama "${text[@]}" --lora-r 4 --use-dora
    for form in optimizer gradients; do
        same 2 2 2 --model tiny-llama "${text[@]}" --gradient-accumulation-steps 2 --shard $form
    done
fi

# Parts change nothing but the rounding of sums: the loss of a step, which is the same numbers in another tree, and the norm
# of its gradient are those of one part, as far as fp32 goes.
trained whole --model tiny-llama "${text[@]}"
whole=$losses
trained parted --model tiny-llama "${text[@]}" --virtual-sequence-ranks 8
paste <(tr ' ' '\n' <<<"$whole") <(tr ' ' '\n' <<<"$losses") |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 2e-6 * $1) bad = 1; n++ } END { exit bad || n < 2 }'
check $? "8 parts have the losses and norms of one" "$whole; $losses"

# A run goes on with another number of ranks, and parts need not be said again.
four=(--model tiny-llama "${text[@]}" --gradient-accumulation-steps 2)
trained whole "${four[@]}" --virtual-sequence-ranks 4
right=$digest
rm -rf "$work/run"
run "${train[@]}" "${four[@]}" --virtual-sequence-ranks 4 --sequence-ranks 2 --fabric threads:2 --stop-at-step 1
run "${train[@]}" "${four[@]}" --resume
digest=$(sed -nE 's/.*"state_digest": *"([0-9a-f]+)".*/\1/p' <<<"$out" | tail -1)
[[ $code -eq 0 && $digest == "$right" ]]
check $? "2 ranks of a sample, then 1" "$digest, right would be $right; $err"

# Processes that meet over TCP.
trained one "${four[@]}" --virtual-sequence-ranks 2 --virtual-ranks 2
right=$digest
port=$((10000 + $$ % 400 * 40))
export TORCHELASTIC_RUN_ID=$$.$RANDOM # others who test beside this one may come to the same port
rm -rf "$work/run"
for rank in 0 1 2 3; do
    MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$rank timeout -s KILL 1200 "$program" \
        "${train[@]}" "${four[@]}" --sequence-ranks 2 >"$work/.out.$rank" 2>"$work/.err.$rank" </dev/null &
done
wait
digest=$(sed -nE 's/.*"state_digest": *"([0-9a-f]+)".*/\1/p' "$work/.out.0" | tail -1)
[[ -n $digest && $digest == "$right" ]]
check $? "2 x 2 ranks over TCP" "$digest, right would be $right; $(cat "$work"/.err.*)"

# verifies ranks-24.5a74
# refused WORDS OPTIONS..: exit 2 and one line that says why, when it is planned.
refused() {
    local words=$1
    shift
    run plan --max-seq-length 16 --per-device-train-batch-size 1 --sequence-ranks 2 "$@"
    [[ $code -eq 2 && $err == *"$words"* && $(messages <<<"$err" | wc -l) -eq 1 ]]
    check $? "$*: refused (exit $code)" "$err"
}
llama=(--model tiny-llama)
refused "whole key-value heads each: found 4, expected a divisor of 2" "${llama[@]}" --sequence-ranks 4
refused "shared equally: found 3, expected a divisor of 4" "${llama[@]}" --sequence-ranks 3
refused "shared equally: found 2, expected a divisor of 1" "${llama[@]}" --virtual-sequence-ranks 1
refused "a power of two" "${llama[@]}" --virtual-sequence-ranks 6
refused "groups of so many" "${llama[@]}" --ranks 1
refused "one virtual rank in each group of them: found 2, expected 1" "${llama[@]}" --virtual-ranks 2 --gradient-accumulation-steps 2
refused "--max-seq-length: a sample's tokens are split into parts of equal length: found 15, expected 16" "${llama[@]}" --max-seq-length 15
refused "--per-device-train-batch-size: where tokens are split a micro-batch is one sample" "${llama[@]}" --per-device-train-batch-size 2
refused "--per-device-eval-batch-size: where tokens are split a micro-batch is one sample" "${llama[@]}" --per-device-eval-batch-size 2 --validation-split 0.1
refused "for decoders of the LLaMA and GPT-NeoX families" --model tiny
refused "for decoders of the LLaMA and GPT-NeoX families" --model tiny-bert --task masked-lm
refused "experts take their tokens out of a whole micro-batch" --model tiny-mixtral
refused "linear attention goes through a sample from its first token on" --model tiny-qwen3.5
refused "sinks and tables of distances are those of all heads" --model tiny-gpt-oss --lora-r 4 --target-modules q_proj
refused "--task: " "${llama[@]}" --task classification --num-labels 2
refused "a loss over pairs of rows needs the whole row" "${llama[@]}" --task dpo
refused "--sequence-chunk: " "${llama[@]}" --sequence-chunk 4
refused "--length-buckets: " "${llama[@]}" --length-buckets 8,12
refused "--gradient-release: " "${llama[@]}" --gradient-release
refused "--product-dtype: " "${llama[@]}" --device cuda:sm_90a --bf16 --product-dtype fp8
refused "--tape-dtype: " "${llama[@]}" --bf16 --tape-dtype fp8
refused "--neftune-noise-alpha: " "${llama[@]}" --neftune-noise-alpha 5
refused "--token-accuracy: " "${llama[@]}" --token-accuracy
refused "--device: " "${llama[@]}" --device cuda:sm_90a
refused "--offload" "${llama[@]}" --offload-what weights,states --offload file:x
refused "what dropout leaves out here is drawn by places" "${llama[@]}" --dropout 0.1
refused "no tree of fp32 additions" "${llama[@]}" --bf16 --gradient-dtype int8
refused "as many --virtual-ranks as --gradient-accumulation-steps" "${llama[@]}" --shard gradients --gradient-accumulation-steps 2
run train --max-seq-length 16 --per-device-train-batch-size 1 --sequence-ranks 2 --model tiny-llama --data "$work/text" --output-dir "$work/x"
[[ $code -eq 2 && $err == *"--sequence-ranks: all ranks are groups of so many, each of one sample: found 2, expected a divisor of 1"* ]]
check $? "train without ranks (exit $code)" "$err"

# verifies ranks-23.7882
# Each rank's bytes: a half of the tokens takes a half of what lives for each, and all ranks take the same.
bytes() {
    run plan "${llama[@]}" --per-device-train-batch-size 1 --max-seq-length 128 --json "$@"
    arena=$(sed -nE 's/.*"arena_bytes": *([0-9]+).*/\1/p' <<<"$out" | head -1)
}
bytes
whole=$arena
bytes --sequence-ranks 2
ranks=$(grep -oE '"rank": *[0-9]+, *"arena_bytes": *[0-9]+' <<<"$out" | sed -E 's/.*: *//' | sort | uniq -c | awk '{ print $1, $2 }')
[[ $code -eq 0 && $out == *'"sequence_ranks": 2'* && $out == *'"tokens_of_a_rank": 64'* && $arena -lt $whole && $ranks == "2 $arena" ]]
check $? "the plan of 2 ranks of a sample" "$arena of $whole; $ranks; $err"

finish
