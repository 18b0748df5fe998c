/* SPDX-License-Identifier: MIT */
/* Staging, a group's columns, logits, results of an evaluation. */
#include "core/plan/working.h"

#include "core/ir/device.h"
#include "core/plan/buckets.h"
#include "core/plan/compile.h"

#define SORTED_BYTES  ((uint64_t)1 << 20) /* kept results, at most */
#define SORTED_GROUPS 64

static uint64_t working_logits(const bp_spec *spec)
{
    uint64_t made = spec->generate_context > 0
                        ? bp_size_mul(bp_spec_decode_rows(spec), spec->config.vocabulary)
                        : 0;
    uint64_t kept = bp_size_mul(bp_compile_logits_rows(spec), bp_compile_logits_width(spec));
    return made > kept ? made : kept;
}

static uint64_t working_column(const bp_spec *spec, const bp_input *input)
{
    const uint64_t group = bp_size_mul(spec->batch, spec->accumulation);
    const uint64_t evaluated = spec->evaluate ? bp_spec_eval_batch(spec) : 0;
    const uint64_t samples = evaluated > group ? evaluated : group;
    const uint64_t elements = bp_size_mul(samples, bp_input_elements(input));
    return bp_size_mul(elements, bp_dtype_bytes(input->dtype));
}

uint64_t bp_working_sample_logits(const bp_spec *spec)
{
    const uint64_t rows = bp_compile_logits_rows(spec) / bp_spec_eval_batch(spec);
    return bp_size_mul(rows, bp_compile_logits_width(spec));
}

static uint64_t working_sample(const bp_spec *spec)
{
    const uint64_t floats = bp_size_add(spec->sequence, bp_working_sample_logits(spec));
    return bp_size_add(bp_size_mul(floats, sizeof(float)), 2 * sizeof(uint32_t));
}

uint32_t bp_working_sorted_groups(const bp_spec *spec)
{
    const uint64_t bytes = bp_size_mul(working_sample(spec), bp_spec_eval_batch(spec));
    const uint64_t groups = SORTED_BYTES / bytes;
    const bool pairs = spec->preference.kind != BP_PREFERENCE_NONE; /* which stay together */
    const bool wanted = spec->evaluate && spec->length_count > 0 && groups >= 2 && !pairs;
    return !wanted ? 0 : groups < SORTED_GROUPS ? (uint32_t)groups : SORTED_GROUPS;
}

uint64_t bp_working_losses(const bp_spec *spec)
{
    const uint64_t tokens = bp_size_mul(bp_spec_eval_batch(spec), spec->sequence);
    return bp_size_align(bp_size_mul(tokens, sizeof(float)), sizeof(uint64_t));
}

/* One rank's logits are read where they stay. */
uint64_t bp_working_piece(const bp_spec *spec, bool losses)
{
    const bool several = bp_spec_ranks(spec) > 1;
    const uint64_t floats =
        bp_size_mul(bp_compile_logits_rows(spec), bp_compile_logits_width(spec));
    const uint64_t logits = several ? bp_size_mul(floats, sizeof(float)) : 0;
    const uint64_t head = sizeof(bp_evaluate_found) + (losses ? bp_working_losses(spec) : 0);
    return bp_size_add(head, bp_size_align(logits, sizeof(uint64_t)));
}

uint64_t bp_working_round(const bp_spec *spec, bool losses)
{
    const uint32_t ranks = bp_spec_ranks(spec);
    const uint64_t pieces = ranks > 1 ? (uint64_t)ranks + 1 : 1;
    return spec->evaluate ? bp_size_mul(pieces, bp_working_piece(spec, losses)) : 0;
}

bp_status bp_working_allocate(bp_working *working, const bp_spec *spec, uint32_t buffers,
                              bp_arena *memory)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows), groups = bp_working_sorted_groups(spec);
    const uint64_t batch = bp_spec_eval_batch(spec), samples = groups * batch;
    const uint64_t micro = bp_compile_micro_bytes(spec);
    const uint64_t logits = groups > 0 ? bp_working_sample_logits(spec) : 0;
    const struct {
        void **to;
        uint64_t rows;
        size_t row_bytes;
    } piece[] = {
        {&working->state, buffers, sizeof(uint32_t)},
        {&working->staging[0], micro, 1},
        {&working->staging[1], micro, 1},
        {&working->window, BP_FEED_SCRATCH(spec->sequence), sizeof(int32_t)},
        {&working->logits, working_logits(spec), sizeof(float)},
        {&working->transfer, BP_TRANSFER_BYTES, 1},
        {&working->device, spec->device->context_bytes, 1},
        {&working->longest, spec->length_count > 0 ? spec->accumulation : 0, sizeof(uint32_t)},
        {&working->lengths, spec->length_count, sizeof(bp_length_run)},
        {&working->round, bp_working_round(spec, groups > 0), 1},
        {&working->order, samples, sizeof(uint32_t)},
        {&working->tokens, samples, sizeof(uint32_t)},
        {&working->losses, bp_size_mul(samples, spec->sequence), sizeof(float)},
        {&working->kept, bp_size_mul(samples, logits), sizeof(float)},
        {&working->windows, groups > 0 ? batch : 0, sizeof(uint64_t)},
    };
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        BP_TRY(bp_arena_rows(memory, piece[i].rows, piece[i].row_bytes, BP_WORKING_ALIGNMENT,
                             piece[i].to));
    }
    for (uint32_t i = 0; i < count; i++) {
        BP_TRY(bp_arena_rows(memory, working_column(spec, &rows[i]), 1, BP_WORKING_ALIGNMENT,
                             &working->column[i]));
    }
    return BP_OK;
}

uint64_t bp_working_bytes(const bp_spec *spec, uint32_t buffers)
{
    bp_arena count;
    bp_working working;
    bp_arena_count(&count);
    const bp_status status = bp_working_allocate(&working, spec, buffers, &count);
    (void)status; /* what is too much for it is BP_SIZE_INVALID */
    return bp_arena_counted(&count);
}
