/* SPDX-License-Identifier: MIT */
/* Gradients on their way between ranks.
 *
 * A window (core/plan/passes/virtual_ranks.h) travels in buckets. Two are under way: while the
 * pieces of the newest one are exchanged, the sums of the one before it are gathered. So what a
 * rank needs for the exchange does not hang on the size of a stage. A window's first bucket leaves
 * when the window is complete; the others leave while the next stage goes backward, at those places
 * where it asks for a parameter, spread over as many of these as the stage before had. What is
 * whole is used at the end of a stage, in the order of windows. */
#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/plan/passes/virtual_ranks.h"

#define FLIGHT_PACE 8 /* of the first stage that goes backward */

void compile_flight_begin(bp_compile *compile)
{
    compile->windows_opened = 0;
    compile->windows_used = 0;
    compile->flight[0] = compile->flight[1] = (bp_bucket){.flies = false};
    compile->points = 0;
    compile->pace = FLIGHT_PACE;
}

bool compile_mark(const bp_compile *compile, bp_builder *builder, const bp_window *window)
{
    const bool slice = window->table != UINT32_MAX;
    bool any = false;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        const bool later = i == compile->sliced[0] || i == compile->sliced[1];
        const bool complete = !slice && bp_adapter_stage(builder, i) == window->stage;
        parameter->due = slice ? i == window->table : parameter->trainable && complete && !later;
        parameter->due_first = slice && parameter->due ? window->first : 0;
        parameter->due_count = slice && parameter->due ? window->count : parameter->count;
        any = any || parameter->due;
    }
    return any;
}

static bp_window *flight_window(bp_compile *compile, uint32_t number)
{
    return &compile->windows[number % BP_WINDOWS_MOST];
}

static void flight_advance(bp_compile *compile, bp_builder *builder, bp_bucket *bucket)
{
    if (!bucket->flies) {
        return;
    }
    bp_window *window = flight_window(compile, bucket->window);
    bp_virtual_ranks_advance(builder, window, bucket);
    if (bucket->phase == 0) {
        bucket->flies = false;
        window->done++;
    }
}

/* What has come whole is used. */
static void flight_use(bp_compile *compile, bp_builder *builder)
{
    while (compile->windows_used < compile->windows_opened && builder->status == BP_OK) {
        const bp_window *window = flight_window(compile, compile->windows_used);
        if (window->done < window->buckets) {
            return;
        }
        (void)compile_mark(compile, builder, window);
        if (window->any) {
            bp_virtual_ranks_deliver(builder, window);
        }
        compile_use(compile, builder, window);
        compile->windows_used++;
    }
}

/* A bucket has left: those before it go on. Nothing is used amid a stage. */
static void flight_push(bp_compile *compile, bp_builder *builder, const bp_bucket *bucket)
{
    flight_advance(compile, builder, &compile->flight[1]);
    if (builder->flying == NULL) {
        flight_use(compile, builder);
    }
    compile->flight[1] = compile->flight[0];
    if (compile->flight[1].phase != 2) {
        flight_advance(compile, builder, &compile->flight[1]);
    }
    compile->flight[0] = *bucket;
}

/* The next bucket of the newest window; one that has nothing due has an empty one. */
static void flight_send(bp_compile *compile, bp_builder *builder)
{
    const uint32_t number = compile->windows_opened - 1;
    bp_window *window = flight_window(compile, number);
    bp_bucket bucket = {.flies = true, .window = number, .number = window->sent};
    window->sent++;
    if (window->any) {
        (void)compile_mark(compile, builder, window);
        bp_virtual_ranks_send(builder, window, &bucket);
    }
    flight_push(compile, builder, &bucket);
}

void compile_flush(bp_compile *compile, bp_builder *builder)
{
    if (compile->windows_opened == 0) {
        return;
    }
    const bp_window *newest = flight_window(compile, compile->windows_opened - 1);
    while (newest->sent < newest->buckets && builder->status == BP_OK) {
        flight_send(compile, builder);
    }
}

/* All that is under way arrives and is used. */
static void flight_drain(bp_compile *compile, bp_builder *builder)
{
    const bp_bucket none = {.flies = false};
    compile_flush(compile, builder);
    flight_push(compile, builder, &none);
    flight_push(compile, builder, &none);
    flight_use(compile, builder);
}

void compile_dispatch(bp_compile *compile, bp_builder *builder, bp_window *window)
{
    const uint32_t row = window->table == UINT32_MAX ? window->stage : compile->stages;
    if (bp_spec_ranks(builder->spec) == 1) {
        if (window->any && compile->virtual_ranks > 0) {
            bp_virtual_ranks_root(compile, builder, row);
        }
        compile_use(compile, builder, window);
        return;
    }
    builder->flying = NULL;
    flight_use(compile, builder);
    compile_flush(compile, builder);
    window->buckets = 1;
    if (window->any) {
        (void)compile_mark(compile, builder, window);
        bp_virtual_ranks_open(compile, builder, row, window);
    }
    *flight_window(compile, compile->windows_opened++) = *window;
    flight_send(compile, builder);
    flight_use(compile, builder);
    compile->pace = compile->points > 0 ? compile->points : compile->pace;
    compile->points = 0;
    if (window->last) {
        flight_drain(compile, builder);
    } else {
        builder->flying = compile;
    }
}

void compile_pump(bp_builder *builder)
{
    bp_compile *compile = builder->flying;
    const bp_window *newest = flight_window(compile, compile->windows_opened - 1);
    compile->points++;
    const uint64_t share = (uint64_t)(newest->buckets - 1) * compile->points / compile->pace;
    while (newest->sent < newest->buckets && newest->sent < 1 + share && builder->status == BP_OK) {
        flight_send(compile, builder);
    }
}
