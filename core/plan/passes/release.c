/* SPDX-License-Identifier: MIT */
/* Gradient release: each stage is updated inside backward, as soon as its gradients are complete,
 * so that their bytes serve the next stage and no full gradient ever exists.
 *
 * The whole group is one program. Several micro-batches go stage-major: all of them forward, then
 * each action of the backward part for all of them in order, then the update of what is complete.
 * Sums over micro-batches are thus formed in the order in which they always are. Clipping and loss
 * scaling need the norm over all gradients before the first update: the backward part is written
 * twice, first for the norm alone, then for the updates (LOMO, arXiv 2306.09782, does the same for
 * one micro-batch). Without them one backward is enough: each stage is decided on with the norm so
 * far, so that what is not finite reaches no weight of its stage or of one below. That is also how
 * the clip factor of the step before is used (BP_RELEASE_PREVIOUS_NORM), known at the first
 * decision.
 *
 * AdamA (BP_RELEASE_ADAMA) folds the gradients of each micro-batch into the moments as soon as they
 * are complete, so micro-batches go one after the other and only one of them has a tape; the last
 * one's fold is joined with the update of the weights.
 *
 * A table that the first and the last stage share would have a full gradient all through backward.
 * Its gradient is formed at the end instead, slice by slice, from what both stages left; those of
 * tables that they have for themselves are formed in the same way behind each of them.
 *
 * Sums of gradients in 8 bits (core/plan/passes/sum.c) are made of a stage's gradients at the same
 * places. */
#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"
#include "core/plan/passes/token_lanes.h"
#include "core/plan/passes/virtual_ranks.h"
#include "core/plan/rows.h"
#include "core/ir/step.h"

typedef enum purpose { MEASURE, UPDATE, BOTH, SUM_FIRST, SUM_NEXT, KEEP } purpose;

/* One backward part: what for, and of which micro-batches. */
typedef struct backward_pass {
    purpose what;
    uint32_t from;
    uint32_t to;
    bool last; /* none comes after it */
} backward_pass;

static void forget_gradients(bp_builder *builder)
{
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        builder->parameters[i].gradient = BP_NO_BUFFER;
        builder->parameters[i].gradient_written = false;
    }
}

void compile_use(bp_compile *compile, bp_builder *builder, const bp_window *window)
{
    const bp_optimizer *optimizer = builder->spec->optimizer;
    const purpose what = (purpose)window->purpose;
    const bool any = window->any;
    bool sums = what == SUM_FIRST || what == SUM_NEXT;
    if (any && sums) {
        compile_sum(builder, what == SUM_NEXT);
    }
    if (any && (what == MEASURE || what == BOTH)) {
        optimizer->norms(builder);
    }
    if (what == BOTH) {
        bp_virtual_ranks_losses(compile, builder);
        optimizer->decide(builder, window->later, window->last);
    }
    if (any && (what == UPDATE || what == BOTH)) {
        compile_apply(builder);
    }
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Rows of a slice of a table that is trained; all of them where one slice holds the table. */
static uint64_t slice_rows(const bp_builder *builder, uint32_t table)
{
    const uint64_t *shape = builder->parameters[table].shape;
    uint64_t unit = COMPILE_CHUNK / common_divisor(shape[1], COMPILE_CHUNK);
    uint64_t rows = bp_size_align(bp_size_ceil_div(shape[0], COMPILE_SLICES_MOST), unit);
    return rows < shape[0] ? rows : shape[0];
}

/* Stages go one after the other through several micro-batches of a virtual rank, but the bits are
 * those of micro-batches that do: what two stages share has to be formed in that order. A rule over
 * whole tensors takes the table's gradient in one piece, as sums are kept. */
static bool order_matters(const bp_spec *spec)
{
    const bool whole = spec->gradient_release != BP_RELEASE_NONE && spec->optimizer->whole_tensors;
    return (compile_keeps_sums(spec) || whole) && spec->accumulation > bp_spec_virtual_ranks(spec);
}

/* What of a table is trained: itself, some rows of it (core/plan/rows.h), or nothing. */
static uint32_t trained_part(const bp_builder *builder, uint32_t table)
{
    if (table == UINT32_MAX || builder->parameters[table].trainable) {
        return table;
    }
    return bp_rows_of(builder, table);
}

/* A table that two stages share would stay until both are through, so that it pays to form it at
 * the end even where it is no more than one slice. It is one where sums stay. */
void compile_choose_slices(bp_compile *compile, const bp_builder *builder)
{
    const bp_spec *spec = builder->spec;
    const bool released = spec->gradient_release != BP_RELEASE_NONE && !compile_keeps_sums(spec);
    uint32_t tables[2];
    compile->sliced[0] = compile->sliced[1] = UINT32_MAX;
    compile->head_deferred = false;
    if (spec->optimizer == NULL || spec->model->sliced_tables == NULL) {
        return;
    }
    const bool ordered = order_matters(spec);
    const bool apart = released && !spec->optimizer->whole_tensors;
    if (!spec->gradient_int8 && !apart && !ordered) {
        return;
    }
    spec->model->sliced_tables(spec, tables);
    const bool shared = tables[0] == tables[1];
    for (uint32_t i = shared ? 1 : 0; i < 2; i++) {
        const uint32_t part = trained_part(builder, tables[i]);
        if (part == BP_NO_PARAMETER) {
            continue;
        }
        const bool stays = (ordered && !spec->gradient_int8) || part != tables[i];
        compile->slice_rows[i] =
            stays ? builder->parameters[part].shape[0] : slice_rows(builder, part);
        bool several = compile->slice_rows[i] < builder->parameters[part].shape[0];
        compile->sliced[i] = shared || several ? part : UINT32_MAX;
    }
    compile->head_deferred = compile->sliced[shared ? 1 : 0] != UINT32_MAX;
}

/* The gradient of trained rows of a table, which are all there at once. */
static void write_runs(bp_builder *builder, bp_slice_call *call, uint64_t width)
{
    const bp_ref gradient = call->gradient;
    bp_rows_run run = {0};
    call->table = builder->parameters[call->table].base;
    while (bp_rows_next(builder, &run)) {
        call->first = run.token;
        call->rows = run.count;
        call->gradient = bp_ref_at(gradient, run.at * width);
        builder->spec->model->slice(builder, call);
    }
}

/* The gradient of one slice of a table, from some micro-batches. */
static bp_ref write_slice(bp_compile *compile, bp_builder *builder, const bp_window *slice,
                          uint32_t from, uint32_t to)
{
    const uint64_t width = builder->parameters[slice->table].shape[1];
    const uint64_t rows = slice->count / width;
    bp_ref gradient = bp_build_buffer(builder, BP_CLASS_GRADIENTS, builder->spec->gradient, rows,
                                      width, "table.grad");
    for (uint32_t micro = from; micro < to; micro++) {
        bp_slice_call *call = &compile->slices[micro];
        compile_inputs(compile, builder, micro);
        call->table = slice->table;
        call->first = slice->first / width;
        call->rows = rows;
        call->gradient = gradient;
        call->accumulate = micro > from ? 1 : 0;
        if (builder->parameters[slice->table].base != BP_NO_PARAMETER) {
            write_runs(builder, call, width);
        } else {
            builder->spec->model->slice(builder, call);
        }
        bp_build_resolved(builder);
    }
    compile_inputs(compile, builder, 0);
    return gradient;
}

/* The same from all micro-batches of a pass, virtual rank by virtual rank where there are several.
 */
static void gather_slice(bp_compile *compile, bp_builder *builder, const bp_window *slice,
                         const backward_pass *pass)
{
    (void)compile_mark(compile, builder, slice);
    if (compile->virtual_ranks == 0) {
        const bp_ref gradient = write_slice(compile, builder, slice, pass->from, pass->to);
        builder->parameters[slice->table].gradient = gradient.buffer;
        return;
    }
    if (bp_spec_token_lanes(builder->spec) > 1) {
        bp_token_lanes_whole(builder, "the gradient of a table that the first and the last stage "
                                      "share is formed at the end, of whole samples; take --shard "
                                      "none or optimizer, or as many --virtual-ranks as "
                                      "--gradient-accumulation-steps");
        return;
    }
    for (uint32_t lane = 0; lane < compile->virtual_ranks; lane++) {
        const uint32_t first = lane * compile->virtual_rank_micros;
        const bp_ref gradient =
            write_slice(compile, builder, slice, first, first + compile->virtual_rank_micros);
        bp_virtual_ranks_put(compile, builder, lane, slice->table, gradient.buffer);
        (void)compile_mark(compile, builder, slice);
        bp_virtual_ranks_accumulate(compile, builder, compile->stages, lane);
    }
}

/* A sliced table, once its stages have gone backward; last: nothing comes after it. */
static void finish_table(bp_compile *compile, bp_builder *builder, uint32_t i, bool last,
                         const backward_pass *pass)
{
    const uint32_t table = compile->sliced[i];
    const uint64_t width = builder->parameters[table].shape[1];
    const uint64_t all = builder->parameters[table].count;
    const uint64_t most = compile->slice_rows[i] * width;
    for (uint64_t first = 0; first < all && builder->status == BP_OK; first += most) {
        bp_window slice = {.table = table,
                           .any = true,
                           .first = first,
                           .count = all - first < most ? all - first : most,
                           .purpose = pass->what,
                           .later = true};
        slice.last = last && first + slice.count == all;
        compile_flush(compile, builder); /* the leaves of the slice before it are in the way */
        gather_slice(compile, builder, &slice, pass);
        compile_dispatch(compile, builder, &slice);
    }
}

/* What follows the backward of a stage by the micro-batches of a pass. */
static void finish_stage(bp_compile *compile, bp_builder *builder, uint32_t stage,
                         const backward_pass *pass)
{
    const bool head = stage + 1 == compile->stages;
    const uint32_t i = head ? 0 : 1;
    const bool table = (head || stage == 0) && compile->sliced[i] != UINT32_MAX;
    const bool last = stage == compile->first && pass->last;
    bp_window window = {.stage = stage,
                        .table = UINT32_MAX,
                        .purpose = pass->what,
                        .later = !head || pass->from > 0,
                        .last = last && !table};
    window.any = compile_mark(compile, builder, &window);
    compile_dispatch(compile, builder, &window);
    if (table) {
        finish_table(compile, builder, i, last, pass);
    }
}

/* A virtual rank's gradients that are complete once `stage` has gone backward, after its last
 * micro-batch.
 */
static void accumulate_virtual_rank(bp_compile *compile, bp_builder *builder, uint32_t index,
                                    uint32_t micro)
{
    const bp_action *action = &compile->actions[index];
    const uint32_t micros = compile->virtual_rank_micros;
    const bp_window window = {.stage = action->stage, .table = UINT32_MAX};
    if (compile->virtual_ranks > 0 && action->kind == BP_ACTION_BACKWARD &&
        (micro + 1) % micros == 0 && compile_mark(compile, builder, &window)) {
        const uint32_t first = bp_virtual_ranks_lane(compile, micro);
        for (uint32_t lane = 0; lane < compile->token_lanes; lane++) {
            bp_virtual_ranks_accumulate(compile, builder, action->stage, first + lane);
        }
    }
}

static void write_backward_part(bp_compile *compile, bp_builder *builder, uint32_t first,
                                const backward_pass *pass)
{
    forget_gradients(builder);
    bp_virtual_ranks_forget(compile, builder);
    for (uint32_t i = first; i < compile->action_count && builder->status == BP_OK; i++) {
        for (uint32_t micro = pass->from; micro < pass->to; micro++) {
            compile_action(compile, builder, i, micro);
            accumulate_virtual_rank(compile, builder, i, micro);
        }
        if (compile->actions[i].kind == BP_ACTION_BACKWARD) {
            compile_inputs(compile, builder, 0);
            finish_stage(compile, builder, compile->actions[i].stage, pass);
        }
    }
}

/* Virtual ranks of whole gradients: one micro-batch after the other, the update at the end. */
static void write_virtual_ranks(bp_compile *compile, bp_builder *builder)
{
    const backward_pass pass = {KEEP, 0, compile->micros, true};
    for (uint32_t micro = 0; micro < compile->micros; micro++) {
        for (uint32_t i = 0; i < compile->action_count && builder->status == BP_OK; i++) {
            const bp_action *action = &compile->actions[i];
            compile_action(compile, builder, i, micro);
            accumulate_virtual_rank(compile, builder, i, micro);
            if (micro + 1 == compile->micros && action->kind == BP_ACTION_BACKWARD) {
                finish_stage(compile, builder, action->stage, &pass);
            }
        }
    }
    compile_inputs(compile, builder, 0);
    bp_virtual_ranks_losses(compile, builder);
    compile_update(builder);
}

static void write_forward_part(bp_compile *compile, bp_builder *builder, uint32_t first,
                               uint32_t from, uint32_t to)
{
    for (uint32_t micro = from; micro < to; micro++) {
        for (uint32_t i = 0; i < first && builder->status == BP_OK; i++) {
            compile_action(compile, builder, i, micro);
        }
    }
}

/* AdamA: one micro-batch after the other. */
static void write_folded(bp_compile *compile, bp_builder *builder, uint32_t first)
{
    const uint32_t micros = compile->micros;
    for (uint32_t micro = 0; micro < micros; micro++) {
        const backward_pass pass = {BOTH, micro, micro + 1, micro + 1 == micros};
        builder->fold = micros == 1 ? BP_ACCUMULATE_WHOLE
                        : pass.last ? BP_ACCUMULATE_LAST
                        : micro > 0 ? BP_ACCUMULATE_NEXT
                                    : BP_ACCUMULATE_FIRST;
        write_forward_part(compile, builder, first, micro, micro + 1);
        write_backward_part(compile, builder, first, &pass);
    }
    builder->fold = BP_ACCUMULATE_WHOLE;
}

/* The decision moves a dynamic loss scale for the next step, but the second backward is of this
 * one: it reads a copy from before. */
static bp_ref keep_control(bp_builder *builder)
{
    if (builder->spec->scaling.kind != BP_SCALING_DYNAMIC) {
        return BP_ABSENT;
    }
    const uint64_t words = sizeof(bp_control_block) / sizeof(float);
    bp_ref kept = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, words, 1, "control_before");
    bp_ref now = builder->control;
    now.dtype = BP_F32;
    bp_build_copy(builder, &(bp_copy_operands){.y = kept, .x = now},
                  &(bp_copy_scalars){.count = (int64_t)words});
    kept.dtype = BP_U8;
    return kept;
}

void compile_summed(bp_compile *compile, bp_builder *builder, bool later)
{
    const backward_pass pass = {later ? SUM_NEXT : SUM_FIRST, 0, 1, true};
    write_backward_part(compile, builder, 0, &pass);
}

void compile_released(bp_compile *compile, bp_builder *builder)
{
    uint32_t first = 0;
    compile_begin(compile, builder, BP_PROGRAM_STEP, BP_MODE_TRAIN);
    builder->loss_written = false;
    builder->norms = BP_ABSENT;
    bp_virtual_ranks_begin(compile, builder);
    if (builder->spec->gradient_release == BP_RELEASE_NONE && !compile_keeps_sums(builder->spec)) {
        write_virtual_ranks(compile, builder);
        return;
    }
    while (compile->actions[first].kind == BP_ACTION_FORWARD) {
        first++; /* the head's backward is in every schedule */
    }
    if (builder->spec->gradient_release == BP_RELEASE_ADAMA) {
        write_folded(compile, builder, first);
        return;
    }
    write_forward_part(compile, builder, first, 0, compile->micros);
    if (compile_keeps_sums(builder->spec)) {
        const backward_pass keep = {KEEP, 0, compile->micros, true};
        write_backward_part(compile, builder, first, &keep);
        bp_virtual_ranks_losses(compile, builder);
        compile_update(builder);
        return;
    }
    if (!bp_spec_needs_norm(builder->spec)) {
        const backward_pass pass = {BOTH, 0, compile->micros, true};
        write_backward_part(compile, builder, first, &pass);
        return;
    }
    const backward_pass measure = {MEASURE, 0, compile->micros, true};
    const backward_pass update = {UPDATE, 0, compile->micros, true};
    write_backward_part(compile, builder, first, &measure);
    bp_virtual_ranks_losses(compile, builder);
    builder->passes.control_before = keep_control(builder);
    builder->spec->optimizer->decide(builder, false, true);
    builder->loss_counted = true;
    write_backward_part(compile, builder, first, &update);
    builder->loss_counted = false;
    builder->passes.control_before = BP_ABSENT;
}
