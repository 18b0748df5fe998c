/* SPDX-License-Identifier: MIT */
/* A runtime over tokens in memory. */
#include "tests/support/plan_bytes.h"
#include "tests/support/rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/host.h"
#include "layers/gpt2.h"
#include "optim/adamw.h"
#include "tests/support/config.h"

bp_spec rig_spec(void)
{
    return (bp_spec){.model = &bp_model_gpt2,
                     .config = config_with((bp_model_config){.vocabulary = 37, .positions = 12},
                                           OWN(bp_transformer, .width = 16, .layers = 2, .heads = 2,
                                               .norm_epsilon = 1e-5, .initializer_range = 0.1)),
                     .optimizer = &bp_optimizer_adamw,
                     .optimizer_options = {.learning_rate = 1e-2,
                                           .beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .epsilon = 1e-8,
                                           .weight_decay = 0.1},
                     .device = &bp_device_host,
                     .device_options = {.threads = 1, .variant = "portable"},
                     .batch = 2,
                     .sequence = 10,
                     .accumulation = 1,
                     .seed = 7};
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    memcpy(to, (const int32_t *)source->context + first, n * sizeof *to);
    return BP_OK;
}

static void require_ok(bp_status status, const bp_error *error)
{
    if (status != BP_OK) {
        fail_msg("%s: %s: %s %s (%lld, %lld)", bp_status_text(status), error->where, error->text,
                 error->name, (long long)error->found, (long long)error->wanted);
    }
}

void rig_feed(rig *r, bp_feed *feed, bp_source *source, const int32_t *tokens, uint32_t count)
{
    const bp_spec *spec = &r->runtime.spec;
    *source = (bp_source){.context = (void *)(uintptr_t)tokens,
                          .name = "tokens",
                          .count = count,
                          .read = read_tokens};
    *feed = (bp_feed){.source = source,
                      .error = &r->error,
                      .seed = spec->seed,
                      .sequence = spec->sequence,
                      .batch = spec->batch,
                      .group = spec->batch * spec->accumulation,
                      .vocabulary = spec->config.vocabulary};
    require_ok(bp_feed_init(feed, &r->error), &r->error);
}

void rig_open(rig *r, const bp_spec *spec, const int32_t *tokens, uint32_t count)
{
    memset(r, 0, sizeof *r);
    uint64_t host_bytes = plan_bytes(spec);
    assert_true(host_bytes != BP_SIZE_INVALID);
    assert_int_equal(posix_memalign(&r->host, 64, (size_t)host_bytes), 0);
    require_ok(bp_runtime_plan(&r->runtime, spec, r->host, host_bytes), &r->runtime.error);
    size_t arena_bytes = (size_t)r->runtime.report.arena_bytes;
    assert_int_equal(posix_memalign(&r->arena, BP_ARENA_ALIGNMENT, arena_bytes), 0);
    memset(r->arena, 0, arena_bytes);
    require_ok(bp_runtime_open(&r->runtime, r->arena, arena_bytes), &r->runtime.error);
    require_ok(bp_runtime_initialize(&r->runtime), &r->runtime.error);
    r->tokens = tokens;
    rig_feed(r, &r->feed, &r->source, tokens, count);
}

void rig_close(rig *r)
{
    bp_runtime_close(&r->runtime);
    free(r->arena);
    free(r->host);
}

bp_outcome rig_step(rig *r)
{
    bp_outcome outcome;
    require_ok(bp_runtime_step(&r->runtime, &r->feed, &outcome), &r->runtime.error);
    return outcome;
}

void *rig_read(rig *r, uint32_t buffer)
{
    const bp_buffer *b = &r->runtime.graph.buffers[buffer];
    void *bytes = malloc((size_t)b->bytes);
    assert_non_null(bytes);
    require_ok(bp_runtime_read(&r->runtime, b, 0, bytes, (size_t)b->bytes), &r->runtime.error);
    return bytes;
}

void rig_write(rig *r, uint32_t buffer, const void *bytes)
{
    const bp_buffer *b = &r->runtime.graph.buffers[buffer];
    require_ok(bp_runtime_write(&r->runtime, b, 0, bytes, (size_t)b->bytes), &r->runtime.error);
}

uint32_t rig_find(const rig *r, const char *name)
{
    for (uint32_t i = 0; i < r->runtime.graph.used.buffers; i++) {
        if (strcmp(bp_graph_name(&r->runtime.graph, i), name) == 0) {
            return i;
        }
    }
    fail_msg("there is no buffer %s", name);
    return BP_NO_BUFFER;
}

uint64_t rig_digest(rig *r)
{
    uint64_t digest = 1469598103934665603ULL;
    for (uint32_t i = 0; i < bp_runtime_state_count(&r->runtime); i++) {
        const bp_buffer *b = bp_runtime_state(&r->runtime, i);
        uint8_t *bytes = rig_read(r, (uint32_t)(b - r->runtime.graph.buffers));
        for (uint64_t k = 0; k < b->bytes; k++) {
            digest = (digest ^ bytes[k]) * 1099511628211ULL;
        }
        free(bytes);
    }
    return digest;
}

static double first_loss(rig *r)
{
    r->runtime.steps = 0;
    return rig_step(r).loss;
}

void rig_differ(rig *r, const bp_parameter *parameter, double step, double *difference,
                double *norm)
{
    (void)first_loss(r);
    float *gradient = rig_read(r, parameter->gradient);
    float *weight = rig_read(r, parameter->weight), *moved = rig_read(r, parameter->weight);
    double square = 0.0;
    for (uint64_t i = 0; i < parameter->count; i++) {
        square += (double)gradient[i] * (double)gradient[i];
    }
    *norm = sqrt(square);
    *difference = 0.0;
    for (int side = -1; side <= 1; side += 2) {
        for (uint64_t i = 0; i < parameter->count; i++) {
            moved[i] = (float)((double)weight[i] + side * step * (double)gradient[i] / *norm);
        }
        rig_write(r, parameter->weight, moved);
        *difference += side * first_loss(r) / (2.0 * step);
    }
    rig_write(r, parameter->weight, weight);
    free(gradient);
    free(weight);
    free(moved);
}
