/* SPDX-License-Identifier: MIT */
/* Closed forms: how much of everything compiling a spec can need. */
#include "core/compile/adapter.h"
#include "core/compile/compile_private.h"

#define NAME_BYTES           96 /* longest usual buffer name, for the closed form */
#define PREFILL_ROWS_DEFAULT 32
#define FIXED_BUFFERS        17 /* none, inputs, control, result, tables, logits; losses each */

uint32_t bp_compile_prefill_rows(const bp_spec *spec)
{
    uint32_t rows = spec->prefill_rows != 0 ? spec->prefill_rows : PREFILL_ROWS_DEFAULT;
    return rows < spec->generate_context ? rows : spec->generate_context;
}

uint64_t bp_compile_logits_rows(const bp_spec *spec)
{
    if (!spec->evaluate || !spec->keep_logits) {
        return 0;
    }
    const bool judges = spec->config.task >= BP_TASK_CLASSES;
    return judges ? spec->batch : (uint64_t)spec->batch * spec->sequence;
}

uint64_t bp_compile_logits_width(const bp_spec *spec)
{
    const bool judges = spec->config.task >= BP_TASK_CLASSES;
    return judges ? spec->config.classes : spec->config.vocabulary;
}

uint64_t bp_compile_input_rows(const bp_spec *spec)
{
    uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    uint64_t prefill = bp_compile_prefill_rows(spec);
    return rows > prefill ? rows : prefill;
}

uint64_t compile_ids_bytes(const bp_spec *spec)
{
    return bp_size_align(bp_compile_input_rows(spec) * sizeof(int32_t), BP_ARENA_ALIGNMENT);
}

uint64_t compile_lengths_bytes(const bp_spec *spec)
{
    if (spec->config.task == BP_TASK_CAUSAL_LM) {
        return 0;
    }
    return bp_size_align(spec->batch * sizeof(int32_t), BP_ARENA_ALIGNMENT);
}

bool bp_compile_types(const bp_spec *spec)
{
    return spec->pairs && spec->model->typed != NULL && spec->model->typed(&spec->config);
}

uint64_t bp_compile_micro_bytes(const bp_spec *spec)
{
    const uint64_t rows = bp_compile_types(spec) ? 3 : 2; /* ids, labels, types */
    return BP_STEP_ROOM + rows * compile_ids_bytes(spec) + compile_lengths_bytes(spec);
}

uint32_t bp_compile_micros(const bp_spec *spec)
{
    return spec->gradient_release != BP_RELEASE_NONE ? spec->accumulation : 1;
}

uint64_t bp_compile_input_bytes(const bp_spec *spec)
{
    return bp_size_mul(bp_compile_micro_bytes(spec), bp_compile_micros(spec));
}

/* Adds `times` times the rows of `more`, in 64 bits. */
typedef struct wide_limits {
    uint64_t buffers, ops, refs, scalars, name_bytes;
} wide_limits;

static void add_limits(wide_limits *sum, bp_graph_limits more, uint64_t times)
{
    sum->buffers = bp_size_add(sum->buffers, bp_size_mul(more.buffers, times));
    sum->ops = bp_size_add(sum->ops, bp_size_mul(more.ops, times));
    sum->refs = bp_size_add(sum->refs, bp_size_mul(more.refs, times));
    sum->scalars = bp_size_add(sum->scalars, bp_size_mul(more.scalars, times));
    sum->name_bytes = bp_size_add(sum->name_bytes, bp_size_mul(more.name_bytes, times));
}

/* What adapters add to a stage is at most three times what its dense layers emit: two products, a
 * scale and a dropout forward, twice as much backward. */
bp_graph_limits bp_compile_stage_limits(const bp_spec *spec, uint32_t stage, bool backward)
{
    bp_graph_limits limits = spec->model->limits(spec, stage, backward);
    const uint32_t codes =
        spec->quantised != BP_QUANTISED_NONE ? 2 : 1; /* their products' operands */
    const uint32_t times = spec->lora.rank > 0 ? 4 : codes;
    limits.buffers *= times;
    limits.ops *= times;
    limits.refs *= times;
    limits.scalars *= times;
    limits.name_bytes *= times;
    return limits;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static bp_graph_limits largest(bp_graph_limits a, bp_graph_limits b)
{
    return (bp_graph_limits){.buffers = larger(a.buffers, b.buffers),
                             .ops = larger(a.ops, b.ops),
                             .refs = larger(a.refs, b.refs),
                             .scalars = larger(a.scalars, b.scalars),
                             .name_bytes = larger(a.name_bytes, b.name_bytes)};
}

/* Every schedule has one backward of each stage; the rest of its actions are forwards of stages
 * before the last. */
static void add_micro(wide_limits *sum, const bp_spec *spec, uint64_t times)
{
    uint32_t stages = spec->model->stages(&spec->config);
    uint64_t actions = bp_schedule_count(&spec->policy, stages);
    bp_graph_limits forward = {0};
    for (uint32_t s = 0; s < stages; s++) {
        add_limits(sum, bp_compile_stage_limits(spec, s, true), times);
        if (s + 1 < stages) {
            forward = largest(forward, bp_compile_stage_limits(spec, s, false));
        }
    }
    uint64_t forwards = actions > stages ? actions - stages : 0;
    add_limits(sum, forward, bp_size_mul(forwards, times));
}

static void add_chain(wide_limits *sum, const bp_spec *spec, uint64_t times)
{
    uint32_t stages = spec->model->stages(&spec->config);
    for (uint32_t s = 0; s < stages && times > 0; s++) {
        add_limits(sum, bp_compile_stage_limits(spec, s, false), times);
    }
}

/* With gradient release one program holds the whole group, its backward once or twice, and the
 * norms, decisions and updates of the stages one by one, for each backward or each micro-batch. */
static void add_released(wide_limits *sum, const bp_spec *spec, uint32_t parameters)
{
    uint64_t micros = spec->accumulation;
    uint32_t stages = spec->model->stages(&spec->config);
    bp_graph_limits end = spec->optimizer->limits(spec, parameters);
    add_micro(sum, spec, bp_size_mul(2, micros));
    uint64_t passes = spec->gradient_release == BP_RELEASE_ADAMA ? micros : 2;
    add_limits(sum, end, spec->gradient_release == BP_RELEASE_ADAMA ? micros : 1);
    uint64_t ends = bp_size_mul(passes, stages);
    if (spec->model->sliced_tables != NULL) {
        const uint64_t slices = COMPILE_TABLES * COMPILE_SLICES_MOST;
        ends += passes * slices;
        add_limits(sum, spec->model->slice_limits(spec), bp_size_mul(2 * slices, micros));
    }
    sum->buffers += passes * (uint64_t)parameters + ends * (end.ops + 1);
    sum->name_bytes += (passes * (uint64_t)parameters + ends * (end.ops + 1)) * NAME_BYTES;
    sum->ops += ends * end.ops;
    sum->refs += ends * end.ops * BP_OPERANDS_MAX;
    sum->scalars += ends * end.ops * BP_SCALARS_MAX;
}

/* With sums in 8 bits every program of a micro-batch has its own gradients, which are added up
 * stage by stage and slice by slice; the update goes through the sums twice, in slices of which a
 * tensor has one more than COMPILE_SLICES_MOST at most, or is one. */
static void add_summed(wide_limits *sum, const bp_spec *spec, uint64_t parameters)
{
    const uint64_t programs = spec->accumulation > 1 ? 2 : 1;
    const uint64_t stages = spec->model->stages(&spec->config);
    const uint64_t parts = COMPILE_TABLES * COMPILE_SLICES_MOST;
    const uint64_t added = parameters + parts;
    const bool whole = spec->optimizer->whole_tensors;
    const uint64_t slices = parameters * (whole ? 1 : COMPILE_SLICES_MOST + 1);
    const uint64_t times = whole ? 3 : 1; /* rows of trust ratios come before the rule's own */
    const uint64_t buffers = programs * added + parameters + 2 * (1 + times) * slices;
    add_micro(sum, spec, programs);
    add_limits(sum, spec->optimizer->limits(spec, (uint32_t)parameters), 1);
    if (spec->model->sliced_tables != NULL) {
        add_limits(sum, spec->model->slice_limits(spec), programs * parts);
    }
    sum->buffers += buffers;
    sum->name_bytes += buffers * NAME_BYTES;
    sum->ops += programs * (stages + parts) + (3 + times) * slices;
    sum->refs += 3 * programs * added + (6 + times * BP_OPERANDS_MAX) * slices;
    sum->scalars += 4 * programs * added + (4 + times * BP_SCALARS_MAX) * slices;
}

static uint32_t narrow(uint64_t value, bool *fits)
{
    *fits = *fits && value < UINT32_MAX;
    return (uint32_t)value;
}

bool bp_compile_limits(const bp_spec *spec, bp_graph_limits *limits)
{
    uint32_t parameters = bp_adapter_parameters(spec);
    /* a weight, its master and its gradient */
    uint64_t fixed = FIXED_BUFFERS + 3 * (uint64_t)parameters;
    wide_limits sum = {.buffers = fixed, .name_bytes = fixed * NAME_BYTES};
    const bp_graph_limits initialize = {.ops = 1, .refs = 3, .scalars = 4};
    add_limits(&sum, initialize, parameters);
    add_chain(&sum, spec, (spec->evaluate ? 1u : 0u) + (spec->generate_context > 0 ? 2u : 0u));
    if (spec->optimizer != NULL) {
        if (spec->gradient_release != BP_RELEASE_NONE) {
            add_released(&sum, spec, parameters);
        } else if (spec->gradient_int8) {
            add_summed(&sum, spec, parameters);
        } else {
            add_micro(&sum, spec, spec->accumulation > 1 ? 2 : 1);
            add_limits(&sum, spec->optimizer->limits(spec, parameters), 1);
        }
    }
    bool fits = true;
    *limits = (bp_graph_limits){.buffers = narrow(sum.buffers, &fits),
                                .ops = narrow(sum.ops, &fits),
                                .refs = narrow(sum.refs, &fits),
                                .scalars = narrow(sum.scalars, &fits),
                                .name_bytes = narrow(sum.name_bytes, &fits)};
    return fits;
}

uint64_t bp_compile_bytes(const bp_spec *spec)
{
    uint64_t stages = spec->model->stages(&spec->config);
    uint64_t refs = stages * BP_TAPE_MAX + 2 * (stages + 1); /* of one micro-batch */
    uint64_t bytes = bp_size_mul(bp_size_mul(refs, sizeof(bp_ref)), bp_compile_micros(spec));
    bytes += bp_compile_micros(spec) * (uint64_t)sizeof(bp_slice_call);
    bytes += stages * sizeof(uint32_t);
    bytes += (uint64_t)bp_schedule_count(&spec->policy, (uint32_t)stages) * sizeof(bp_action);
    return bytes + 6 * TABLE_ALIGNMENT;
}
