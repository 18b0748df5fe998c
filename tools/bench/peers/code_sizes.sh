#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/bench/peers/code_sizes.sh [CLONE]: code, constants and memory of trainers on a Cortex-M7 beside AIfES' of the same nets:
# MLP 16-32-32-4 (batch 8) and MLPerf Tiny's anomaly autoencoder (batch 1), SGD in fp32, -Os, arm-none-eabi-gcc. CLONE: a copy
# of https://github.com/Fraunhofer-IMS/AIfES_for_Arduino; without it the script clones it into its own folder, which it removes.
# AIfES' memory is what its two functions ask for, which a program of this machine prints. Needs build/cortex-m7/kit
# (make VARIANT=cortex-m7 board-kit).
cd "$(dirname "$0")/../../.." || exit 1
kit=$PWD/build/cortex-m7/kit
for tool in arm-none-eabi-gcc arm-none-eabi-size git; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not here: make deps" >&2; exit 2; }
done
[[ -f $kit/kit.mk ]] || { echo "$kit is not there: make VARIANT=cortex-m7 board-kit" >&2; exit 2; }
missing=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clone=${1:-$work/aifes}
if [[ ! -d $clone/src ]]; then
    git clone -q --depth 1 https://github.com/Fraunhofer-IMS/AIfES_for_Arduino "$clone" 2>/dev/null ||
        echo "AIfES is not here and cannot be cloned: give a copy of its repository; its rows are left out" >&2
fi
flags=$(sed -n 's/^CFLAGS = //p' "$kit/kit.mk")
link=$(sed -n 's/^LDFLAGS = //p' "$kit/kit.mk")
start=$(sed -n 's/^BOARD = //p' "$kit/kit.mk")

# ours NAME CONFIG OPTION..: a row of an emitted trainer without its digest.
ours() {
    local name=$1 config=$2
    shift 2
    mkdir -p "$work/$name-model"
    echo "$config" >"$work/$name-model/config.json"
    build/release/bedplate plan --model "$work/$name-model" --max-steps 20 --optim sgd --alignment 32 --kernels portable "$@" \
        --emit-c "$work/$name" >/dev/null || exit 1
    mv "$work/$name/Makefile" "$work/$name/emitted"
    cat "$kit/kit.mk" "$work/$name/emitted" >"$work/$name/Makefile"
    make -s -C "$work/$name" CFLAGS="$flags -DNO_DIGEST" example || exit 1
    arm-none-eabi-size "$work/$name/example" |
        awk -v name="$name" 'NR == 2 { printf "| %s | Bedplate | %d | %d |\n", name, $1 + $2, $2 + $3 }'
}

# theirs NAME BATCH WIDTHS..: a row of AIfES: input, hidden layers with ReLU, output.
theirs() {
    local name=$1 batch=$2 inputs=$3 bytes sources
    shift 3
    [[ -d $clone/src ]] || { missing=2 && return; }
    cat >"$work/$name.c" <<END
#include <stdint.h>
#include <aifes.h>
static const uint32_t neurons[] = {$(printf '%s, ' "$@")};
enum { LAYERS = sizeof neurons / sizeof neurons[0] };
#ifndef MEMORY
#include <stdio.h>
#include <stdlib.h>
#endif
int main(void)
{
    static ailayer_dense_f32_t dense[LAYERS];
    static ailayer_relu_f32_t relu[LAYERS];
    static float numbers[$batch * $inputs], targets[$batch * ${!#}];
    uint16_t in[] = {1, $inputs}, shape[] = {$batch, $inputs}, out[] = {$batch, ${!#}};
    aitensor_t x = AITENSOR_2D_F32(shape, numbers), y = AITENSOR_2D_F32(out, targets);
    ailayer_input_f32_t input = AILAYER_INPUT_F32_A(2, in);
    ailoss_mse_t mse;
    aimodel_t model;
    ailayer_t *at = model.input_layer = ailayer_input_f32_default(&input);
    for (int i = 0; i < LAYERS; i++) {
        dense[i] = (ailayer_dense_f32_t)AILAYER_DENSE_F32_A(neurons[i]);
        relu[i] = (ailayer_relu_f32_t)AILAYER_RELU_F32_A();
        at = ailayer_dense_f32_default(&dense[i], at);
        at = i + 1 < LAYERS ? ailayer_relu_f32_default(&relu[i], at) : at;
    }
    model.output_layer = at;
    model.loss = ailoss_mse_f32_default(&mse, at);
    aialgo_compile_model(&model);
    aiopti_sgd_f32_t sgd = AIOPTI_SGD_F32(1e-2f);
    aiopti_t *rule = aiopti_sgd_f32_default(&sgd);
    const uint32_t parameters = aialgo_sizeof_parameter_memory(&model);
    const uint32_t training = aialgo_sizeof_training_memory(&model, rule);
#ifdef MEMORY
    static uint64_t memory[MEMORY / 8 + 16];
    uint8_t *all = (uint8_t *)memory;
#else
    printf("%u\\n", (unsigned)(parameters + training));
    uint8_t *all = malloc(parameters + training);
#endif
    aialgo_distribute_parameter_memory(&model, all, parameters);
    for (int i = 0; i < LAYERS; i++) {
        aimath_f32_default_init_glorot_uniform(&dense[i].weights);
        aimath_f32_default_init_zeros(&dense[i].bias);
    }
    aialgo_schedule_training_memory(&model, rule, all + parameters, training);
    aialgo_init_model_for_training(&model, rule);
    for (int step = 0; step < 20; step++) {
        aialgo_train_model(&model, &x, &y, rule, $batch);
    }
    return 0;
}
END
    mapfile -t sources < <(find "$clone/src" -name '*.c')
    cc -O1 -w -I"$clone/src" "$work/$name.c" "${sources[@]}" -lm -o "$work/$name.here" || exit 1
    bytes=$("$work/$name.here")
    # shellcheck disable=SC2086
    arm-none-eabi-gcc $flags -w -ffunction-sections -fdata-sections -DMEMORY="$bytes" -I"$clone/src" "$work/$name.c" "${sources[@]}" \
        $start $link -specs=nosys.specs -lm -o "$work/$name.there" || exit 1
    arm-none-eabi-size "$work/$name.there" |
        awk -v name="$name" 'NR == 2 { printf "| %s | AIfES | %d | %d |\n", name, $1 + $2, $2 + $3 }'
}

echo "| net | trainer | code and constants | static memory |"
echo "|---|---|---|---|"
ours mlp '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' --per-device-train-batch-size 8
theirs mlp 8 16 32 32 4
dense='"dense 128", "dense 128", "dense 128", "dense 128"'
ours autoencoder '{"model_type": "cnn", "problem_type": "reconstruction", "image_height": 1, "image_width": 1, "num_channels": 640,
    "layers": ['"$dense"', "dense 8", '"$dense"']}' --per-device-train-batch-size 1 --gradient-release \
    --gradient-checkpointing memory-poor --max-grad-norm 0
theirs autoencoder 1 640 128 128 128 128 8 128 128 128 128 640
exit $missing
