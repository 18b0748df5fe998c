/* SPDX-License-Identifier: MIT */
/* How an appliance trains: a small GPT inside two static arrays.
 *
 * It names one model, one optimizer and one device, and the linker takes these and nothing else.
 * The sizes of the arrays are the plan's, known before the first step; no heap is used. */
#include <bedplate.h>
#include <stdio.h>

#define STEPS 200

/* The plan needs this much; when the model changes, the program says the new numbers. */
static uint64_t host_memory[1u << 17];
static unsigned char arena_memory[1200000];

/* What it learns, as bytes: the beginning of a poem by William Blake (1794). */
static const char text[] =
    "Tyger Tyger, burning bright,\nIn the forests of the night;\nWhat immortal hand or eye,\n"
    "Could frame thy fearful symmetry?\n\nIn what distant deeps or skies,\nBurnt the fire of "
    "thine eyes?\nOn what wings dare he aspire?\nWhat the hand, dare seize the fire?\n";

static bp_status read_text(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (unsigned char)text[first + i];
    }
    return BP_OK;
}

static const bp_transformer sizes = {
    .width = 32, .layers = 2, .heads = 4, .norm_epsilon = 1e-5, .initializer_range = 0.02};

static bp_spec spec = {
    .model = &bp_model_gpt2,
    .config = {.vocabulary = 128, .positions = 32},
    .optimizer = &bp_optimizer_adamw,
    .optimizer_options =
        {.learning_rate = 3e-3, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .max_grad_norm = 1.0},
    .device = &bp_device_host,
    .device_options = {.threads = 1},
    .batch = 4,
    .sequence = 32,
    .accumulation = 1,
    .seed = 1,
};

static bp_status train(bp_runtime *runtime, const bp_feed *feed)
{
    size_t skew = (uintptr_t)arena_memory % BP_ARENA_ALIGNMENT;
    size_t start = skew > 0 ? BP_ARENA_ALIGNMENT - skew : 0;
    BP_TRY(bp_runtime_open(runtime, arena_memory + start, sizeof arena_memory - start));
    BP_TRY(bp_runtime_initialize(runtime));
    for (int step = 1; step <= STEPS; step++) {
        bp_outcome outcome;
        BP_TRY(bp_runtime_step(runtime, feed, &outcome));
        if (step == 1 || step % 50 == 0) {
            printf("step %3d  loss %.4f\n", step, outcome.loss);
        }
    }
    return BP_OK;
}

int main(void)
{
    static bp_runtime_room room;
    bp_runtime *runtime = bp_runtime_make(&room);
    bp_config_set_own(&spec.config, &sizes, sizeof sizes);
    bp_source source = {.name = "text", .count = sizeof text - 1, .read = read_text};
    bp_feed feed = {.source = &source,
                    .seed = spec.seed,
                    .sequence = spec.sequence,
                    .batch = spec.batch,
                    .group = spec.batch,
                    .vocabulary = spec.config.vocabulary,
                    .shuffle = true};
    bp_error feed_error = {.code = BP_OK};
    bp_status status = bp_feed_init(&feed, &feed_error);
    if (status == BP_OK) {
        status = bp_runtime_plan(runtime, &spec, host_memory, sizeof host_memory);
    }
    bp_footprint footprint = bp_runtime_footprint(runtime);
    printf("arena %llu of %zu bytes, host %llu of %zu bytes\n",
           (unsigned long long)footprint.arena_bytes, sizeof arena_memory,
           (unsigned long long)footprint.host_bytes, sizeof host_memory);
    if (status == BP_OK) {
        status = train(runtime, &feed);
    }
    if (status != BP_OK) {
        const bp_error *error = feed_error.code != BP_OK ? &feed_error : bp_runtime_error(runtime);
        printf("%s: %s\n", error->name, error->text);
    }
    bp_runtime_close(runtime);
    return bp_status_exit_code(status);
}
