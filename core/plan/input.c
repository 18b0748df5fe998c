/* SPDX-License-Identifier: MIT */
/* Declared inputs and their bytes. */
#include "core/plan/compile.h"

uint32_t bp_input_declare(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    uint32_t count = spec->model->inputs(spec, rows);
    if (spec->generate_regions > 0) {
        rows[count++] = (bp_input){.name = "slot_positions",
                                   .from = BP_INPUT_SLOT_POSITIONS,
                                   .dtype = BP_I32,
                                   .rank = 1,
                                   .below = spec->generate_context,
                                   .decodes = true};
        rows[count++] = (bp_input){.name = "slots",
                                   .from = BP_INPUT_SLOTS,
                                   .dtype = BP_I32,
                                   .rank = 1,
                                   .negative = true,
                                   .decodes = true,
                                   .each = 2};
    }
    return count;
}

uint64_t bp_input_bytes(const bp_spec *spec, const bp_input *input)
{
    const uint32_t evaluated = spec->evaluate ? bp_spec_eval_batch(spec) : 0;
    const uint32_t batch = evaluated > spec->batch ? evaluated : spec->batch;
    uint64_t elements = bp_size_mul(batch, bp_input_elements(input));
    const uint64_t prompt = input->decodes ? bp_compile_prefill_rows(spec) : 0;
    const uint64_t written = input->decodes && prompt > 0 ? bp_spec_decode_rows(spec) : 0;
    const uint64_t decoded = bp_size_mul(prompt > written ? prompt : written, bp_input_each(input));
    elements = elements > decoded || input->whole ? elements : decoded;
    return bp_size_align(bp_size_mul(elements, bp_dtype_bytes(input->dtype)),
                         bp_device_alignment(&spec->device_options));
}

uint64_t bp_input_labels(const bp_spec *spec)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].from == BP_INPUT_LABELS) {
            return rows[i].rank == 0 ? 1 : bp_spec_rank_tokens(spec);
        }
    }
    return bp_spec_rank_tokens(spec);
}

bool bp_input_declared(const bp_spec *spec, bp_input_from from)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].from == from) {
            return true;
        }
    }
    return false;
}
