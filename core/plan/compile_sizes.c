/* SPDX-License-Identifier: MIT */
/* How much of everything compiling a spec needs: closed forms for what follows from the spec, a
 * counted emission for the tables of its programs. */
#include "core/plan/adapter.h"
#include "core/plan/compile_private.h"

#include "core/plan/passes/lanes.h"
#include "core/ir/step.h"

#define PREFILL_ROWS_DEFAULT 32

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
    const bp_task task = spec->config.task;
    const bool single = bp_task_judges_samples(task) || task == BP_TASK_EMBEDDING ||
                        spec->preference.kind != BP_PREFERENCE_NONE;
    const uint32_t per_sample = single ? 1 : task == BP_TASK_ANSWERS ? 2 : spec->sequence;
    return (uint64_t)bp_spec_eval_batch(spec) * per_sample;
}

uint64_t bp_compile_logits_width(const bp_spec *spec)
{
    const bp_task task = spec->config.task;
    if (spec->preference.kind != BP_PREFERENCE_NONE) {
        return 1;
    }
    if (spec->distill.teaches) {
        return 2 * (uint64_t)spec->distill.top_k;
    }
    return task < BP_TASK_CLASSES    ? spec->config.vocabulary
           : task == BP_TASK_ANSWERS ? spec->sequence
                                     : spec->config.classes;
}

bp_dtype bp_compile_logits_type(const bp_spec *spec)
{
    const bool numbers = spec->preference.kind != BP_PREFERENCE_NONE || spec->distill.teaches;
    return numbers || spec->config.task == BP_TASK_EMBEDDING ? BP_F32 : spec->working;
}

uint64_t bp_compile_step_room(const bp_spec *spec)
{
    return bp_size_align(sizeof(bp_step_block), bp_device_alignment(&spec->device_options));
}

uint64_t bp_compile_micro_bytes(const bp_spec *spec)
{
    bp_input rows[BP_INPUTS_MAX];
    const uint32_t count = bp_input_declare(spec, rows);
    uint64_t bytes = bp_compile_step_room(spec);
    for (uint32_t i = 0; i < count; i++) {
        bytes = bp_size_add(bytes, bp_input_bytes(spec, &rows[i]));
    }
    return bytes;
}

uint32_t bp_compile_micros(const bp_spec *spec)
{
    return bp_spec_whole_group(spec) ? spec->accumulation / bp_spec_ranks(spec) : 1;
}

uint32_t bp_compile_runs(const bp_spec *spec, bp_program_kind program)
{
    switch (program) {
    case BP_PROGRAM_STEP:
    case BP_PROGRAM_VECTORS_FIRST:
    case BP_PROGRAM_MICRO_FIRST:
    case BP_PROGRAM_UPDATE:
        return 1;
    case BP_PROGRAM_VECTORS_NEXT:
    case BP_PROGRAM_MICRO_NEXT:
        return spec->accumulation - 1;
    default:
        return 0;
    }
}

uint64_t bp_compile_input_bytes(const bp_spec *spec)
{
    return bp_size_mul(bp_compile_micro_bytes(spec), bp_compile_micros(spec));
}

uint64_t bp_compile_bytes(const bp_spec *spec)
{
    uint64_t stages = spec->model->stages(&spec->config);
    uint64_t refs = stages * BP_TAPE_MAX + 2 * (stages + 1); /* of one micro-batch */
    uint64_t bytes = bp_size_mul(bp_size_mul(refs, sizeof(bp_ref)), bp_compile_micros(spec));
    bytes += bp_compile_micros(spec) * (uint64_t)sizeof(bp_slice_call);
    bytes += bp_compile_micros(spec) * (stages + 1) * (uint64_t)sizeof(bp_left);
    bytes += stages * sizeof(uint32_t);
    bytes += (uint64_t)bp_schedule_count(&spec->policy, (uint32_t)stages) * sizeof(bp_action);
    bytes += bp_adapter_parameters(spec) * (uint64_t)sizeof(bp_parameter);
    bytes = bp_size_add(bytes, compile_sharing_bytes(spec, bp_adapter_parameters(spec)));
    bytes = bp_size_add(bytes, bp_lanes_bytes(spec));
    bytes = bp_size_add(bytes, spec->model->scratch);
    return bytes + 11 * TABLE_ALIGNMENT;
}

uint64_t bp_compile_scratch(const bp_spec *spec)
{
    const uint64_t names = bp_size_mul(bp_adapter_parameters(spec), BP_BUFFER_NAME_MAX);
    return bp_size_add(bp_compile_bytes(spec), bp_size_add(names, TABLE_ALIGNMENT));
}

bp_status compile_emission(bp_emit *emit, bp_graph *graph, const bp_spec *spec, bp_arena *memory)
{
    const uint32_t count = bp_adapter_parameters(spec);
    const size_t names = (size_t)count * BP_BUFFER_NAME_MAX;
    void *parameters = NULL;
    void *text = NULL;
    void *scratch = NULL;
    bp_status status =
        bp_arena_carve(memory, count * sizeof(bp_parameter), TABLE_ALIGNMENT, &parameters);
    if (status == BP_OK && bp_graph_counts(graph)) {
        status = bp_arena_carve(memory, names, TABLE_ALIGNMENT, &text);
    }
    if (status == BP_OK && spec->model->scratch > 0) {
        status = bp_arena_carve(memory, spec->model->scratch, TABLE_ALIGNMENT, &scratch);
    }
    if (status != BP_OK) {
        return bp_error_set(graph->error, BP_ERR_FIT, "compile", "the plan's memory is too small",
                            NULL);
    }
    bp_emit_init(emit, graph, spec, parameters, count);
    graph->alignment = spec->device_options.alignment;
    emit->scratch = scratch;
    emit->names = text;
    emit->names_limit = text != NULL ? (uint32_t)names : 0;
    return BP_OK;
}

bp_status bp_compile_count(const bp_spec *spec, bp_arena *memory, bp_graph_limits *tables,
                           bp_graph_limits *forward, bp_error *error)
{
    const size_t mark = memory->used;
    bp_graph graph;
    bp_compile compile = {0};
    bp_emit emit;
    bp_graph_count(&graph, error);
    BP_TRY(bp_compile_run(&compile, &emit, &graph, spec, memory));
    *tables = graph.used;
    if (forward != NULL) {
        *forward = compile.forward;
    }
    return bp_arena_rewind(memory, mark);
}
