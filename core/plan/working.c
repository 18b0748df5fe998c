/* SPDX-License-Identifier: MIT */
/* Staging, a group's columns, logits, results of an evaluation. */
#include "core/plan/working.h"

#include "core/ir/device.h"
#include "core/plan/compile.h"

#define WORKING_PIECES 16                  /* separate pieces, each of which may be padded */
#define SORTED_BYTES   ((uint64_t)1 << 20) /* kept results, at most */
#define SORTED_GROUPS  64

uint64_t bp_working_logits(const bp_spec *spec)
{
    uint64_t made = spec->generate_context > 0
                        ? bp_size_mul(bp_spec_decode_rows(spec), spec->config.vocabulary)
                        : 0;
    uint64_t kept = bp_size_mul(bp_compile_logits_rows(spec), bp_compile_logits_width(spec));
    return bp_size_mul(made > kept ? made : kept, sizeof(float));
}

uint64_t bp_working_column(const bp_spec *spec, const bp_input *input)
{
    const uint64_t group = bp_size_mul(spec->batch, spec->accumulation);
    const uint64_t evaluated = spec->evaluate ? bp_spec_eval_batch(spec) : 0;
    const uint64_t samples = evaluated > group ? evaluated : group;
    const uint64_t elements = bp_size_mul(samples, bp_input_elements(input));
    return bp_size_mul(elements, bp_dtype_bytes(input->dtype));
}

uint64_t bp_working_longest(const bp_spec *spec)
{
    return spec->length_count > 0 ? bp_size_mul(spec->accumulation, sizeof(uint32_t)) : 0;
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

static uint64_t working_sorted(const bp_spec *spec)
{
    const uint64_t groups = bp_working_sorted_groups(spec);
    const uint64_t kept =
        bp_size_mul(bp_size_mul(working_sample(spec), bp_spec_eval_batch(spec)), groups);
    const uint64_t windows = (uint64_t)bp_spec_eval_batch(spec) * sizeof(uint64_t);
    const uint64_t sorted = groups > 0 ? bp_size_add(kept, windows + 5 * BP_WORKING_ALIGNMENT) : 0;
    const uint64_t round = spec->evaluate ? BP_WORKING_ALIGNMENT : 0;
    return bp_size_add(sorted, bp_size_add(bp_working_round(spec, groups > 0), round));
}

uint64_t bp_working_bytes(const bp_spec *spec)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    uint64_t bytes = 2 * bp_compile_micro_bytes(spec) + BP_TRANSFER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        bytes = bp_size_add(bytes, bp_working_column(spec, &rows[i]));
    }
    bytes = bp_size_add(bytes, bp_working_logits(spec));
    bytes = bp_size_add(bytes, BP_FEED_SCRATCH(spec->sequence) * sizeof(int32_t));
    bytes = bp_size_add(bytes, bp_working_longest(spec));
    bytes = bp_size_add(bytes, working_sorted(spec));
    bytes = bp_size_add(bytes, spec->device->context_bytes);
    return bp_size_add(bytes, WORKING_PIECES * BP_WORKING_ALIGNMENT);
}
