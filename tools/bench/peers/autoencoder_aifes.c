/* SPDX-License-Identifier: MIT */
/* One row of autoencoder.py: AIfES trains MLPerf Tiny's anomaly autoencoder over made-up numbers.
 * Its two functions say the bytes; what is timed is the epochs of its own training loop. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <aifes.h>

#define NUMBERS 640
#define LAYERS  10

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One step is one batch: an epoch over that many samples. */
int main(int argc, char **argv)
{
    static const uint32_t neurons[LAYERS] = {128, 128, 128, 128, 8, 128, 128, 128, 128, NUMBERS};
    static ailayer_dense_f32_t dense[LAYERS];
    static ailayer_relu_f32_t relu[LAYERS];
    const uint32_t batch = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    const int steps = argc > 2 ? atoi(argv[2]) : 100;
    const bool adam = argc > 3 && strcmp(argv[3], "adam") == 0;
    uint16_t input_shape[] = {1, NUMBERS}, shape[] = {(uint16_t)batch, NUMBERS};
    float *numbers = malloc((size_t)batch * NUMBERS * sizeof *numbers);
    for (uint32_t i = 0; i < batch * NUMBERS; i++) {
        numbers[i] = (float)((int)(i * 7919u % 257u) - 128) / 64.0f;
    }
    aitensor_t data = AITENSOR_2D_F32(shape, numbers);
    ailayer_input_f32_t input = AILAYER_INPUT_F32_A(2, input_shape);
    ailoss_mse_t mse;
    aimodel_t model;
    ailayer_t *x = model.input_layer = ailayer_input_f32_default(&input);
    for (int i = 0; i < LAYERS; i++) {
        dense[i] = (ailayer_dense_f32_t)AILAYER_DENSE_F32_A(neurons[i]);
        relu[i] = (ailayer_relu_f32_t)AILAYER_RELU_F32_A();
        x = ailayer_dense_f32_default(&dense[i], x);
        x = i + 1 < LAYERS ? ailayer_relu_f32_default(&relu[i], x) : x;
    }
    model.output_layer = x;
    model.loss = ailoss_mse_f32_default(&mse, x);
    aialgo_compile_model(&model);
    const uint32_t parameters = aialgo_sizeof_parameter_memory(&model);
    aialgo_distribute_parameter_memory(&model, malloc(parameters), parameters);
    for (int i = 0; i < LAYERS; i++) {
        aimath_f32_default_init_glorot_uniform(&dense[i].weights);
        aimath_f32_default_init_zeros(&dense[i].bias);
    }
    aiopti_sgd_f32_t with_sgd = AIOPTI_SGD_F32(1e-4f);
    aiopti_adam_f32_t with_adam = AIOPTI_ADAM_F32(1e-4f, 0.9f, 0.999f, 1e-8f);
    aiopti_t *optimizer =
        adam ? aiopti_adam_f32_default(&with_adam) : aiopti_sgd_f32_default(&with_sgd);
    const uint32_t training = aialgo_sizeof_training_memory(&model, optimizer);
    aialgo_schedule_training_memory(&model, optimizer, malloc(training), training);
    aialgo_init_model_for_training(&model, optimizer);
    aialgo_train_model(&model, &data, &data, optimizer, batch);
    const double began = seconds();
    for (int i = 0; i < steps; i++) {
        aialgo_train_model(&model, &data, &data, optimizer, batch);
    }
    printf("{\"bytes\": %lu, \"ms\": %.4f}\n", (unsigned long)parameters + training,
           (seconds() - began) / steps * 1e3);
    return 0;
}
