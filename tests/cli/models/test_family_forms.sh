#!/bin/bash
# SPDX-License-Identifier: MIT
# Every family of the table that takes adapters, on a base in 4 bits (NF4, and FP4 in blocks of 128): one state
# whatever is checkpointed and however many threads there are, in as many bytes as were planned, and resumed. All
# of them, because each has a list of nodes of its own; BP_TEST_SHORT takes four of them.
. "$(dirname "$0")/../lib.sh"

digest=''
families=$(sed -n 's/^FAMILY(\(.*\))$/\1/p' tools/formats/family/families.def | grep -vxE 'mlp|cnn|rnn|resnet|vit|mobilenet.*|nomic_bert|m?t5|whisper|(sig|c)lip.*')
[[ -z ${BP_TEST_SHORT:-} ]] || families='gpt2 gemma3 phi3 modernbert'
declare -A from=([gpt2]=tiny [llama]=tiny-llama [qwen2]=tiny-llama [qwen3]=tiny-qwen3 [mistral]=tiny-mistral
    [smollm3]=tiny-smollm3 [granite]=tiny-granite [olmo2]=tiny-olmo2 [qwen2_moe]=tiny-qwen2-moe [qwen3_moe]=tiny-qwen3-moe [olmoe]=tiny-olmoe [mixtral]=tiny-mixtral [gemma]=tiny-gemma [gemma2]=tiny-gemma2
    [gemma3]=tiny-gemma3-text [ernie4_5]=tiny-ernie4-5 [glm]=tiny-glm [glm4]=tiny-glm4 [glm4_moe]=tiny-glm4-moe [gpt_oss]=tiny-gpt-oss [seed_oss]=tiny-seed-oss
    [qwen3_next]=tiny-qwen3-next [qwen3_5]=tiny-qwen3.5 [qwen3_5_moe]=tiny-qwen3.5-moe
    [olmo3]=tiny-olmo3 [exaone4]=tiny-exaone4 [hunyuan_v1_dense]=tiny-hunyuan [cohere]=tiny-cohere [cohere2]=tiny-cohere2
    [starcoder2]=tiny-starcoder2 [arcee]=tiny-arcee [granitemoehybrid]=tiny-granite4
    [phi3]=tiny-phi3 [gpt_neox]=tiny-neox [bert]=tiny-bert [roberta]=tiny-roberta
    [xlm_roberta]=tiny-roberta [distilbert]=tiny-distilbert [electra]=tiny-electra [mpnet]=tiny-mpnet [deberta]=tiny-deberta [modernbert]=tiny-modernbert)
awk 'BEGIN { for (i = 0; i < 110; i++) print "the number", i, "of what is there: we have", 3 * i, "things." }' >"$work/my.txt"

# form NAME OPTIONS..: trains the family's small model that way; its state, and whether the plan was kept to.
form() {
    local name=$1
    shift
    [[ $name == cut ]] || rm -rf "${work:?}/$family-$name"
    run train --model "$model" --data "$work/my.txt" --max-steps 3 --max-seq-length 24 --lora-r 2 --learning-rate 1e-2 \
        --target-modules "$targets" --load-in-4bit --per-device-train-batch-size 2 --device host --json --quiet \
        --output-dir "$work/$family-$name" "$@"
}

# verifies layers-18.9fc8
for family in $families; do
    model=${from[$family]:-none} targets=all-linear
    case $family in
    qwen2 | xlm_roberta) # names of families that have no small model of their own
        run train --model "$model" --data "$work/my.txt" --max-steps 0 --max-seq-length 32 --quiet --output-dir "$work/$family"
        sed -E 's/"llama"/"qwen2"/; s/LlamaFor/Qwen2For/; s/"roberta"/"xlm-roberta"/; s/"RobertaFor/"XLMRobertaFor/' \
            "$work/$family/config.json" >"$work/config.json"
        [[ $family != qwen2 ]] || sed -i -E '/_bias"|"head_dim"/d' "$work/config.json"
        mkdir "$work/$family-config" && mv "$work/config.json" "$work/$family-config"
        model=$work/$family-config
        ;;
    esac
    kinds=("--bnb-4bit-quant-type nf4" "--bnb-4bit-quant-type fp4 --bnb-4bit-blocksize 128 --bnb-4bit-use-double-quant false")
    turn=$((1 - ${turn:-0})) # in the short form the families take turns
    long_form || kinds=("${kinds[turn]}")
    for kind in "${kinds[@]}"; do
        read -ra options <<<"$kind"
        before=$digest
        form none "${options[@]}" --gradient-checkpointing none --threads 1 --save-strategy no
        digest=$(json state_digest)
        [[ $code -eq 0 && -n $digest && $digest != "$before" && $(json arena_bytes) == "$(json device_bytes_in_use)" ]]
        check $? "$family ${options[1]}: three steps, in the bytes that were planned" "$out$err"
        form full "${options[@]}" --gradient-checkpointing full --threads 2 --save-strategy no
        [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
        check $? "$family ${options[1]}: nothing kept, two threads, the same state" "$err"
    done
    # What is saved and read again goes by names, not by nodes: every third family in the short form.
    third=$(((${third:-0} + 1) % 3))
    long_form || [[ $third -eq 1 ]] || continue
    form cut "${options[@]}" --gradient-checkpointing every:1 --stop-at-step 2
    form cut "${options[@]}" --gradient-checkpointing sqrt --resume
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$family: resumed, the same state" "$err"
done
finish
