#!/bin/bash
# SPDX-License-Identifier: MIT
# plan --emit-c: trainers in C end with the digest that `bedplate train` has over the same data; what
# they cannot do is refused. tests/variants/boards.sh runs them on microcontrollers.
. "$(dirname "$0")/../lib.sh"

kit=$work/kit
make -s install-library PREFIX="$kit" DESTDIR= >/dev/null 2>&1
check $? "install the library"
mkdir -p "$work"/{gpt,mlp,gru}
echo '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 128,
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}' >"$work/gpt/config.json"
echo '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' >"$work/mlp/config.json"
echo '{"model_type": "rnn", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 128,
    "max_position_embeddings": 64}' >"$work/gru/config.json"
sed -n 's/^    "\(.*\)"[;]*$/\1/p' tools/embed/poem.h | tr -d '\n' | sed 's/\\n/\n/g' >"$work/text"
awk 'BEGIN { for (j = 0; j < 16; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 64; i++) { for (j = 0; j < 16; j++) printf "%.6f,", ((i * 16 + j) * 7919 % 257 - 128) / 64
        print i % 4 } }' >"$work/rows.csv"

# verifies device-17.7fcf
# same NAME DATA OPTION..
same() {
    local name=$1 data=$2 format=bytes made
    shift 2
    [[ $data != *.csv ]] || format=auto
    rm -rf "$work/c" "$work/run"
    run plan --model "$work/$name" --max-steps 20 --emit-c "$work/c" "$@"
    [[ $code -eq 0 ]] && make -s -C "$work/c" BEDPLATE="$kit" CFLAGS='-O1 -Wall -Wextra -Werror' >"$work/made" 2>&1
    check $? "$name $*: made" "$out$err$(cat "$work/made")"
    made=$("$work/c/example" | sed -n 's/^state digest //p')
    run train --model "$work/$name" --max-steps 20 --data "$data" --data-format $format --output-dir "$work/run" \
        --quiet --json "$@"
    [[ -n $made && $(json state_digest) == "$made" ]]
    check $? "$name $*: the digest of train" "$made $out$err"
}
same mlp "$work/rows.csv" --per-device-train-batch-size 8 --optim sgd --learning-rate 1e-2
# verifies device-22.986d
same mlp "$work/rows.csv" --per-device-train-batch-size 8 --optim sgd --alignment 32 --kernels portable
! long_form || same mlp "$work/rows.csv" --per-device-train-batch-size 4 --optim adamw_8bit --lr-scheduler-type cosine
! long_form || same gpt "$work/text" --per-device-train-batch-size 4 --max-seq-length 32 --warmup-steps 3
same gpt "$work/text" --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --bf16 --max-seq-length 16 \
    --gradient-checkpointing full
same gru "$work/text" --per-device-train-batch-size 2 --max-seq-length 32 --gradient-release

# Images in bytes: the digest of `train` over their numbers, with all layers trained, and with frozen ones by lines, whose
# norms lie in flash; in fewer bytes.
mkdir -p "$work/bytes"
echo '{"model_type": "cnn", "image_height": 12, "image_width": 8, "num_channels": 3, "num_labels": 3, "layers":
    ["conv 4 3 stride 2 padding same", "basic 6", "conv 5 2", "mean-pool all"]}' >"$work/bytes/config.json"
awk 'BEGIN { for (j = 0; j < 288; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 64; i++) { for (j = 0; j < 288; j++) printf "%.17g,", (i * 288 + j) * 7919 % 251 / 255
        print i % 3 } }' >"$work/bytes.csv"
pixels=(--model "$work/bytes" --per-device-train-batch-size 1 --optim sgd --max-steps 20 --learning-rate 1e-2)
for form in '' "--freeze layers.[01].* --gradient-checkpointing memory-poor --offload flash:1MB"; do
    rm -rf "$work/c" "$work/run"
    read -ra frozen <<<"$form"
    run train "${pixels[@]}" "${frozen[@]}" --data "$work/bytes.csv" --output-dir "$work/run" --quiet --json
    digest=$(json state_digest)
    run plan "${pixels[@]}" "${frozen[@]}" --emit-c "$work/c" --json
    floats=$(json arena_bytes)
    rm -rf "$work/c"
    run plan "${pixels[@]}" "${frozen[@]}" --emit-c "$work/c" --byte-images --json
    [[ $code -eq 0 ]] && make -s -C "$work/c" BEDPLATE="$kit" CFLAGS='-O1 -Wall -Wextra -Werror' >"$work/made" 2>&1
    check $? "images in bytes $form: made" "$out$err$(cat "$work/made")"
    made=$("$work/c/example" | sed -n 's/^state digest //p')
    [[ -n $made && $made == "$digest" && ($(json arena_bytes) -lt $floats || ${#frozen[@]} -eq 0) ]]
    check $? "images in bytes $form: the digest of train, in fewer bytes" "$made $digest $floats $(json arena_bytes)"
done
expect 2 '--byte-images: .*--emit-c' plan "${pixels[@]}" --byte-images
expect 2 'gradient-accumulation-steps: .*one micro-batch' plan "${pixels[@]}" --byte-images --emit-c "$work/c" \
    --gradient-accumulation-steps 2
expect 2 'pixels: images in bytes are for convolutional nets' plan --model "$work/mlp" --max-steps 20 --emit-c "$work/c" \
    --byte-images

# Frozen weights in read-only memory, as they are and as codes beside adapters: the digest of `train` with and without.
# verifies device-25.d3df
for form in '' --load-in-8bit '--load-in-4bit --bf16'; do
    lora=(--per-device-train-batch-size 2 --max-seq-length 32 --lora-r 4 --target-modules all-linear)
    [[ -z $form ]] || read -ra more <<<"$form"
    lora+=("${more[@]}")
    more=()
    same gpt "$work/text" "${lora[@]}" --offload flash:1MB
    there=$(json state_digest)
    rm -rf "$work/run"
    run train --model "$work/gpt" --max-steps 20 --data "$work/text" --data-format bytes --output-dir "$work/run" --quiet \
        --json "${lora[@]}"
    [[ -n $there && $(json state_digest) == "$there" ]]
    check $? "gpt $form: the digest of one arena" "$there $out$err"
done

# So are a GGUF file's blocks, the token embedding among them: 8 bits and a scale for 32 elements.
mkdir "$work/llama"
echo '{"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 256,
    "intermediate_size": 64, "tie_word_embeddings": true, "max_position_embeddings": 64}' >"$work/llama/config.json"
run train --model "$work/llama" --max-steps 1 --data "$work/text" --data-format bytes --output-dir "$work/first" --quiet \
    --per-device-train-batch-size 1 --max-seq-length 16
run export --model "$work/first" --to "$work/llama.gguf" --save-quant q8_0
check "$code" "a GGUF file" "$err"
lora=(--per-device-train-batch-size 2 --max-seq-length 32 --lora-r 4 --kernels portable)
same llama.gguf "$work/text" "${lora[@]}" --offload flash:1MB
[[ $(stat -c %s "$work/c/frozen.bin") -lt 22000 ]] # 18,432 elements in 34 bytes for 32, and norms
check $? "packed in flash" "$(stat -c %s "$work/c/frozen.bin")"
low=(--per-device-train-batch-size 8 --optim sgd --learning-rate 1e-2 --freeze 'layers.0.*')
same mlp "$work/rows.csv" "${low[@]}" --offload flash:1MB
whole=$(json state_digest)
run plan --model "$work/mlp" --max-steps 20 "${low[@]}" --offload flash:1MB --json
taken=$(json arena_bytes)
[[ $out == *'"flash": {'* && $(wc -c <"$work/c/frozen.bin") -gt 0 ]]
check $? "the plan says what is in flash" "$out$err"
run plan --model "$work/mlp" --max-steps 20 "${low[@]}" --json
[[ $(json arena_bytes) -gt $taken ]]
check $? "and the arena is smaller" "$out$err"
# The frozen bytes put into the program by somebody else, by the symbol plan_frozen.
rm -f "$work/c/"*.o "$work/c/example"
printf '.globl plan_frozen\n.section .rodata\n.balign 8\nplan_frozen: .incbin "frozen.bin"\n.section .note.GNU-stack,"",%%progbits\n' \
    >"$work/c/mine.s"
(cd "$work/c" && as mine.s -o mine.o)
make -s -C "$work/c" BEDPLATE="$kit" FROZEN=mine.o CFLAGS=-O1 >"$work/made" 2>&1
[[ -n $whole && $("$work/c/example" | sed -n 's/^state digest //p') == "$whole" ]]
check $? "frozen.bin by itself: the same bits" "$(cat "$work/made")"
# A state goes there and comes back; that of a model with other frozen weights is refused.
low+=(--max-steps 20)
run train --model "$work/mlp" "${low[@]}" --data "$work/rows.csv" --output-dir "$work/lowrun" --quiet --stop-at-step 7
run train --model "$work/mlp" "${low[@]}" --offload flash:1MB --data "$work/rows.csv" --output-dir "$work/lowrun" --quiet \
    --json --resume
[[ $(json state_digest) == "$whole" ]]
check $? "a checkpoint of one arena goes on beside flash" "$out$err"
expect 3 'offload.*found 100, expected at least' plan --model "$work/mlp" "${low[@]}" --offload flash:100 --emit-c "$work/x"
expect 2 'flash' plan --model "$work/gpt" --lora-r 4 --offload flash:1MB --device cuda:sm_80
expect 2 'flash only' plan --model "$work/gpt" --max-steps 5 --lora-r 4 --load-in-8bit --emit-c "$work/x"

# The state in a flash: goes on where it was, and is refused by another plan.
# verifies device-21.354b
flashed() { make -s -C "$1" BEDPLATE="$kit" CFLAGS=-O1 FLASH=1 STEPS="$2" >"$work/made" 2>&1 && (cd "$1" && ./example); }
sgd=(--per-device-train-batch-size 8 --max-steps 20 --optim sgd --learning-rate 1e-2)
run plan --model "$work/mlp" "${sgd[@]}" --emit-c "$work/f"
out=$(flashed "$work/f" 9)
[[ $(grep -c '^loss' <<<"$out") -eq 9 && -s $work/f/flash.img ]]
check $? "nine steps and a flash" "$out$(cat "$work/made")"
rm "$work/f/example"* && cp -r "$work/f" "$work/g"
run plan --model "$work/mlp" "${sgd[@]}" --emit-c "$work/f"
went=$(flashed "$work/f" 20)
run train --model "$work/mlp" "${sgd[@]}" --data "$work/rows.csv" --output-dir "$work/flashed" --quiet --json
[[ $(grep -c '^loss' <<<"$went") -eq 11 && $(sed -n 's/^state digest //p' <<<"$went") == "$(json state_digest)" ]]
check $? "eleven more: the digest of train" "$went$out"
sed 's/32, 32/32, 31/' "$work/mlp/config.json" >"$work/gru/config.json"
run plan --model "$work/gru" "${sgd[@]}" --emit-c "$work/g"
out=$(flashed "$work/g" 20)
[[ $? -ne 0 && $out == *weight* ]]
check $? "the flash of another plan: refused by the tensor's name" "$out"
sgd+=(--freeze 'layers.0.*' --offload flash:1MB)
for seed in 1 2; do
    rm -rf "$work/f/"*.o "$work/f/example"
    run plan --model "$work/mlp" "${sgd[@]}" --seed $seed --emit-c "$work/f"
    [[ $seed -eq 2 ]] || rm -f "$work/f/flash.img"
    out=$(flashed "$work/f" 9)
    [[ $? -eq 0 ]]
    check $((seed == 1 ? $? : 1 - $?)) "frozen weights of seed $seed in the program, a state of seed 1" "$out"
done

# Tokens that the model does not have are refused, as is an evaluation that the plan lacks.
# verifies device-36.d469
cat >"$work/beyond.c" <<'END'
#include "trainer.h"
#include <stdio.h>
int main(void)
{
    static int32_t ids[PLAN_BATCH * PLAN_SEQUENCE], labels[PLAN_BATCH * PLAN_SEQUENCE];
    const bp_trainer_batch batch = {{ids, labels}, 1, PLAN_BATCH};
    bp_trainer_outcome outcome;
    double loss = -1;
    int said = trainer_step(&batch, &outcome);
    printf("before %d", said);
    said = trainer_init() == BP_OK ? (int)trainer_step(&batch, &outcome) : -1;
    printf(", inside %d", said);
    ids[3] = PLAN_VOCABULARY;
    said = trainer_step(&batch, &outcome);
    printf(", beyond %d", said);
    ids[3] = 0;
    labels[5] = 1000000000;
    said = trainer_step(&batch, &outcome);
    printf(", label %d", said);
    labels[5] = 0;
#if PLAN_EVALUATES
    said = trainer_evaluate(&batch, &loss);
#else
    said = 1; /* the linker's matter: test_emit_answers.sh */
#endif
    printf(", evaluated %d %d, steps %d\n", said, loss > 0, (int)trainer_steps());
    return 0;
}
END
for evaluates in '' "--eval-data $work/text --data-format bytes"; do
    rm -rf "$work/c"
    read -ra more <<<"$evaluates"
    run plan --model "$work/gpt" --max-steps 20 --per-device-train-batch-size 2 --max-seq-length 16 --emit-c "$work/c" \
        "${more[@]}"
    make -s -C "$work/c" BEDPLATE="$kit" CFLAGS=-O1 plan.o trainer.o >"$work/made" 2>&1
    cc -std=c99 -I"$kit/include" -I"$work/c" "$work/beyond.c" "$work/c/"{plan,trainer}.o -L"$kit/lib" -lbedplate -lm \
        -o "$work/beyond" 2>>"$work/made"
    said=$("$work/beyond")
    wanted='1 0'
    [[ -z $evaluates ]] || wanted='0 1'
    [[ $said == "before 1, inside 0, beyond 3, label 3, evaluated $wanted, steps 1" ]]
    check $? "tokens beyond the vocabulary, evaluation: ${evaluates:-none}" "$said$err$(cat "$work/made")"
done
more=()

expect 2 '--emit-c: .*needs --max-steps' plan --model "$work/gpt" --emit-c "$work/x"
expect 2 'alignment' plan --model "$work/gpt" --alignment 32 --kernels auto --device host
expect 2 'alignment' plan --model "$work/gpt" --alignment 64 --device cuda:sm_80
expect 2 'without virtual ranks' plan --model "$work/gpt" --max-steps 5 --gradient-accumulation-steps 2 --virtual-ranks 2 --emit-c "$work/x"
expect 2 'no --group-by-length' plan --model "$work/gpt" --max-steps 5 --group-by-length --emit-c "$work/x"
expect 6 'x.*' plan --model "$work/mlp" --max-steps 5 --emit-c "$work/no/x"
finish
