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

#define PENDING_PACE 8 /* of the first stage that goes backward */

void compile_pending_begin(bp_compile *compile)
{
    compile->windows_opened = 0;
    compile->windows_used = 0;
    compile->pending[0] = compile->pending[1] = (bp_bucket){.pending = false};
    compile->points = 0;
    compile->pace = PENDING_PACE;
}

/* A model may walk through its blocks to tell a parameter's stage: once it is known which
 * parameters a window has, the others are not asked for. */
static bool window_reaches(const bp_window *window, uint32_t parameter)
{
    return window->high == 0 || (parameter >= window->low && parameter < window->high);
}

bool compile_mark(const bp_compile *compile, bp_builder *builder, const bp_window *window)
{
    const bool slice = window->table != UINT32_MAX;
    bool any = false;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        const bool later = i == compile->sliced[0] || i == compile->sliced[1];
        const bool may = !slice && parameter->trainable && !later && window_reaches(window, i);
        const bool complete = may && bp_adapter_stage(builder, i) == window->stage;
        parameter->ready = slice ? i == window->table : complete;
        const bp_share trained = bp_build_trained(parameter);
        const bool part = slice && parameter->ready;
        parameter->ready_first = part ? window->first : trained.first;
        parameter->ready_count = part ? window->count : trained.count;
        any = any || parameter->ready;
    }
    return any;
}

static bp_window *pending_window(bp_compile *compile, uint32_t number)
{
    return &compile->windows[number % BP_WINDOWS_MOST];
}

static void pending_advance(bp_compile *compile, bp_builder *builder, bp_bucket *bucket)
{
    if (!bucket->pending) {
        return;
    }
    bp_window *window = pending_window(compile, bucket->window);
    bp_virtual_ranks_advance(builder, window, bucket);
    if (bucket->phase == 0) {
        bucket->pending = false;
        window->done++;
    }
}

/* What has come whole is used. */
static void pending_use(bp_compile *compile, bp_builder *builder)
{
    while (compile->windows_used < compile->windows_opened && builder->status == BP_OK) {
        const bp_window *window = pending_window(compile, compile->windows_used);
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
static void pending_push(bp_compile *compile, bp_builder *builder, const bp_bucket *bucket)
{
    pending_advance(compile, builder, &compile->pending[1]);
    if (builder->passes.flying == NULL) {
        pending_use(compile, builder);
    }
    compile->pending[1] = compile->pending[0];
    if (compile->pending[1].phase != 2) {
        pending_advance(compile, builder, &compile->pending[1]);
    }
    compile->pending[0] = *bucket;
}

/* The next bucket of the newest window; one that has nothing ready has an empty one. */
static void pending_send(bp_compile *compile, bp_builder *builder)
{
    const uint32_t number = compile->windows_opened - 1;
    bp_window *window = pending_window(compile, number);
    bp_bucket bucket = {.pending = true, .window = number, .number = window->sent};
    window->sent++;
    if (window->any) {
        (void)compile_mark(compile, builder, window);
        bp_virtual_ranks_send(builder, window, &bucket);
    }
    pending_push(compile, builder, &bucket);
}

void compile_flush(bp_compile *compile, bp_builder *builder)
{
    if (compile->windows_opened == 0) {
        return;
    }
    const bp_window *newest = pending_window(compile, compile->windows_opened - 1);
    while (newest->sent < newest->buckets && builder->status == BP_OK) {
        pending_send(compile, builder);
    }
}

/* All that is under way arrives and is used. */
static void pending_drain(bp_compile *compile, bp_builder *builder)
{
    const bp_bucket none = {.pending = false};
    compile_flush(compile, builder);
    pending_push(compile, builder, &none);
    pending_push(compile, builder, &none);
    pending_use(compile, builder);
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
    builder->passes.flying = NULL;
    pending_use(compile, builder);
    compile_flush(compile, builder);
    window->buckets = 1;
    if (window->any) {
        (void)compile_mark(compile, builder, window);
        bp_virtual_ranks_open(compile, builder, row, window);
    }
    *pending_window(compile, compile->windows_opened++) = *window;
    pending_send(compile, builder);
    pending_use(compile, builder);
    compile->pace = compile->points > 0 ? compile->points : compile->pace;
    compile->points = 0;
    if (window->last) {
        pending_drain(compile, builder);
    } else {
        builder->passes.flying = compile;
    }
}

void compile_send_buckets(bp_builder *builder, uint32_t index)
{
    bp_compile *compile = builder->passes.flying;
    (void)index;
    if (compile == NULL) {
        return;
    }
    const bp_window *newest = pending_window(compile, compile->windows_opened - 1);
    compile->points++;
    const uint64_t share = (uint64_t)(newest->buckets - 1) * compile->points / compile->pace;
    while (newest->sent < newest->buckets && newest->sent < 1 + share && builder->status == BP_OK) {
        pending_send(compile, builder);
    }
}
