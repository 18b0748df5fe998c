#!/bin/bash
# SPDX-License-Identifier: MIT
# The first fine-tune of the README, line by line, for a directory of every family that takes adapters: planned,
# trained, judged, asked (decoders write; encoders fill masks, and say what these directories lack for it), merged;
# the merged model judges as the model with its adapters does. All of them with BP_TEST_LONG, else eight, whose
# blocks and files differ most; BP_TEST_SHORT takes four.
. "$(dirname "$0")/../lib.sh"

mapfile -t lines < <(sed -n '/^## A first fine-tune/,/^## Two/s/^    bedplate //p' README.md)
[[ ${#lines[@]} -eq 5 ]]
check $? "README.md has five lines of a first fine-tune"
families=$(sed -n 's/^FAMILY(\(.*\))$/\1/p' tools/formats/family/families.def | grep -vxE 'mlp|cnn|rnn|resnet|vit|mobilenet_v2|nomic_bert|m?t5')
[[ -n ${BP_TEST_LONG:-} ]] ||
    families='gpt2 llama qwen3 gemma3 phi3 gpt_neox cohere2 qwen3_moe glm4_moe gpt_oss granitemoehybrid starcoder2 bert mpnet deberta modernbert'
long_form || families='gpt2 llama gemma3 cohere2 gpt_oss granitemoehybrid bert modernbert'
[[ -z ${BP_TEST_SHORT:-} ]] || families='gpt2 gemma3 phi3 modernbert'
declare -A from=([gpt2]=tiny [llama]=tiny-llama [qwen2]=tiny-llama [qwen3]=tiny-qwen3 [mistral]=tiny-mistral
    [smollm3]=tiny-smollm3 [granite]=tiny-granite [olmo2]=tiny-olmo2 [qwen2_moe]=tiny-qwen2-moe [qwen3_moe]=tiny-qwen3-moe [olmoe]=tiny-olmoe [mixtral]=tiny-mixtral [gemma]=tiny-gemma [gemma2]=tiny-gemma2
    [gemma3]=tiny-gemma3-text [ernie4_5]=tiny-ernie4-5 [glm]=tiny-glm [glm4]=tiny-glm4 [glm4_moe]=tiny-glm4-moe [gpt_oss]=tiny-gpt-oss [seed_oss]=tiny-seed-oss
    [qwen3_next]=tiny-qwen3-next [qwen3_5]=tiny-qwen3.5 [qwen3_5_moe]=tiny-qwen3.5-moe
    [olmo3]=tiny-olmo3 [exaone4]=tiny-exaone4 [hunyuan_v1_dense]=tiny-hunyuan [cohere]=tiny-cohere [cohere2]=tiny-cohere2
    [starcoder2]=tiny-starcoder2 [arcee]=tiny-arcee [granitemoehybrid]=tiny-granite4
    [phi3]=tiny-phi3 [gpt_neox]=tiny-neox [bert]=tiny-bert [roberta]=tiny-roberta
    [xlm_roberta]=tiny-roberta [distilbert]=tiny-distilbert [electra]=tiny-electra [mpnet]=tiny-mpnet [deberta]=tiny-deberta [modernbert]=tiny-modernbert)
program=$(realpath "$program")
awk 'BEGIN { for (i = 0; i < 110; i++) print "the number", i, "of what is there: we have", 3 * i, "things." }' >"$work/my.txt"

# line N: runs a line of the README where the family's directory is.
line() {
    eval "set -- ${lines[$1]}"
    (cd "$work/$family" && exec "$program" "$@" </dev/null) >"$work/out" 2>"$work/err"
}

for family in $families; do
    mkdir -p "$work/$family/config"
    cp "$work/my.txt" "$work/$family"
    run train --model "${from[$family]:-none}" --data "$work/my.txt" --max-steps 0 --max-seq-length 32 --quiet \
        --output-dir "$work/$family/tiny"
    check $code "a small model of $family" "$err"
    # With room for the README's 512 tokens, and the name of a family that has no small model of its own.
    sed -E 's/("(max_position_embeddings|n_positions)": )[0-9]+/\1600/' "$work/$family/tiny/config.json" |
        case $family in
        qwen2) sed -E 's/"llama"/"qwen2"/; s/LlamaFor/Qwen2For/; /_bias"|"head_dim"/d' ;;
        xlm_roberta) sed -E 's/"roberta"/"xlm-roberta"/; s/"RobertaFor/"XLMRobertaFor/' ;;
        *) cat ;;
        esac >"$work/$family/config/config.json"
    run train --model "$work/$family/config" --data "$work/my.txt" --max-steps 0 --max-seq-length 32 --quiet \
        --output-dir "$work/$family/DIR"
    check $code "a directory of $family" "$err"
    for n in 0 1 2; do
        line $n
        check $? "$family: bedplate ${lines[$n]}" "$(cat "$work/err")"
        [[ $n -eq 2 ]] && with=$(grep -hoE '^ *loss +[0-9.]+' "$work/out" "$work/err" | tail -1)
    done
    line 3
    code=$?
    case $family in
    *bert* | electra | mpnet) [[ $code -eq 4 ]] && grep -q 'no tokenizer with a mask token' "$work/err" ;;
    *) [[ $code -eq 0 && -s $work/out ]] ;;
    esac
    check $? "$family: bedplate ${lines[3]}" "$(cat "$work/err")"
    line 4
    check $? "$family: bedplate ${lines[4]}" "$(cat "$work/err")"
    run eval --model "$work/$family/merged" --data "$work/my.txt" --max-seq-length 512
    merged=$(grep -hoE '^ *loss +[0-9.]+' "$work/.out" "$work/.err" | tail -1)
    awk -v a="${with##* }" -v b="${merged##* }" 'BEGIN { exit !(a > 0 && a - b < 1e-4 * a && b - a < 1e-4 * a) }'
    check $? "$family: $merged merged, $with with adapters" "$out"
done
finish
