/* SPDX-License-Identifier: MIT */
/* A small training run over tokens made from a formula. */
#include "tests/support/trial.h"

#include "core/number/digest.h"
#include "device/host/host.h"
#include "layers/gpt2.h"
#include "optim/adamw.h"
#include "optim/rate.h"
#include "tests/support/config.h"

#define VOCABULARY 131
#define SEQUENCE   33
#define BATCH      3
#define MICROS     2
/* 58 windows make 9 full groups of 6 and one of 4, the last window being short of tokens. */
#define TOKENS (57 * SEQUENCE + 12)
#define PIECE  4096

/* Three of four tokens follow from their place, so there is something to learn. */
static int32_t token(uint64_t place)
{
    uint64_t mixed = (place + 1) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
    return (int32_t)((place % 4 == 3 ? mixed : (place * place) % 29) % VOCABULARY);
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    if (first > source->count || n > source->count - first) {
        return BP_ERR_DATA;
    }
    for (uint32_t i = 0; i < n; i++) {
        to[i] = token(first + i);
    }
    return BP_OK;
}

bp_spec trial_spec(void)
{
    return (bp_spec){
        .model = &bp_model_gpt2,
        .config = config_with(
            (bp_model_config){
                .vocabulary = VOCABULARY, .positions = 40, .bos_token = -1, .eos_token = -1},
            OWN(bp_transformer, .width = 48, .layers = 2, .heads = 3, .norm_epsilon = 1e-5,
                .initializer_range = 0.02, .embedding_dropout = 0.1, .residual_dropout = 0.1,
                .attention_dropout = 0.1)),
        .optimizer = &bp_optimizer_adamw,
        .optimizer_options = {.learning_rate = 3e-3,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .weight_decay = 0.1,
                              .max_grad_norm = 1.0},
        .rate = bp_rate_cosine,
        .rate_options = {.learning_rate = 3e-3,
                         .minimum = 3e-4,
                         .warmup_steps = 3,
                         .total_steps = TRIAL_STEPS},
        .device = &bp_device_host,
        .device_options = {.threads = 1, .variant = "portable"},
        .batch = BATCH,
        .sequence = SEQUENCE,
        .accumulation = MICROS,
        .loss_rows = 64,
        .seed = 42,
        .evaluate = true,
        .generate_context = 24,
        .prefill_rows = 5,
    };
}

bp_status trial_plan(trial *t, const bp_spec *spec, void *host, uint64_t bytes)
{
    *t = (trial){.source = {.name = "formula", .count = TOKENS, .read = read_tokens}};
    t->feed = (bp_feed){.source = &t->source,
                        .error = &t->error,
                        .seed = spec->seed,
                        .sequence = spec->sequence,
                        .batch = spec->batch,
                        .group = spec->batch * spec->accumulation,
                        .vocabulary = spec->config.vocabulary,
                        .shuffle = true};
    return bp_runtime_plan(&t->runtime, spec, host, bytes);
}

bp_status trial_open(trial *t, void *arena, uint64_t bytes)
{
    BP_TRY(bp_feed_init(&t->feed, &t->error));
    BP_TRY(bp_runtime_open(&t->runtime, arena, bytes));
    return bp_runtime_initialize(&t->runtime);
}

bp_status trial_train(trial *t, double *loss)
{
    bp_outcome outcome = {.loss = 0.0};
    for (int step = 0; step < TRIAL_STEPS; step++) {
        BP_TRY(bp_runtime_step(&t->runtime, &t->feed, &outcome));
    }
    *loss = outcome.loss;
    return BP_OK;
}

static bp_status add_buffer(trial *t, const bp_buffer *buffer, bp_digest *digest)
{
    unsigned char piece[PIECE];
    for (uint64_t at = 0; at < buffer->bytes; at += PIECE) {
        uint64_t left = buffer->bytes - at;
        size_t bytes = left < PIECE ? (size_t)left : PIECE;
        BP_TRY(bp_runtime_read(&t->runtime, buffer, at, piece, bytes));
        bp_digest_add(digest, piece, bytes);
    }
    return BP_OK;
}

bp_status trial_digest(trial *t, uint64_t *value)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    for (uint32_t i = 0; i < bp_runtime_state_count(&t->runtime); i++) {
        BP_TRY(add_buffer(t, bp_runtime_state(&t->runtime, i), &digest));
    }
    *value = bp_digest_end(&digest);
    return BP_OK;
}
