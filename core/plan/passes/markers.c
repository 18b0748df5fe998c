/* SPDX-License-Identifier: MIT */
/* Markers: how programs go through the passes that see one op at a time, and what is no program for
 * them. */
#include "core/plan/passes/passes.h"

#include "arena/text.h"
#include "core/plan/builder.h"

/* "update: op 3: b" */
static void passes_refuse(bp_builder *builder, uint32_t index, bp_kernel kernel, const char *text)
{
    char op[64];
    bp_text number;
    const bp_graph *graph = builder->graph;
    bp_text_init(&number, NULL, NULL, op, sizeof op);
    bp_text_string(&number, "op ");
    bp_text_u64(&number, graph->used.ops - graph->program_first[graph->program]);
    bp_text_string(&number, ", ");
    bp_text_string(&number, bp_kernel_describe(kernel)->name);
    builder->status = bp_text_flush(&number);
    builder->status =
        bp_error_set(graph->error, BP_ERR_INTERNAL, "passes", text, bp_build_name(builder, index));
    bp_error_prefix(graph->error, op);
    bp_error_prefix(graph->error, builder->label);
}

void bp_passes_marker(bp_builder *builder, bp_kernel marker, uint32_t index, bp_purpose purpose)
{
    bp_acquired *acquired = &builder->parameters[index].acquired;
    if (marker == BP_OP_RELEASE) {
        if (acquired->held == 0) {
            passes_refuse(builder, index, marker, "a parameter is released that was not acquired");
            return;
        }
        builder->passes.held--;
        if (--acquired->held == 0) {
            acquired->weight = acquired->scales = acquired->nested = BP_NO_BUFFER;
        }
        return;
    }
    acquired->held++;
    builder->passes.held++;
    builder->passes.acquired[purpose]++;
    const bool brings = purpose != BP_FOR_UPDATE;
    const bp_pass *pass = brings ? builder->passes.order : NULL;
    for (; pass != NULL && pass->acquire != NULL; pass++) {
        if (builder->status == BP_OK) {
            pass->acquire(builder, index);
        }
    }
}

/* The parameter that a buffer of theirs belongs to: they lie in the order of publication. */
static uint32_t owner_of(const bp_builder *builder, uint32_t buffer)
{
    uint32_t low = 0;
    uint32_t high = builder->parameter_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const bool before = builder->parameters[middle].weight <= buffer;
        low = before ? middle : low;
        high = before ? high : middle;
    }
    return low;
}

/* Where a buffer of a parameter is now. */
static uint32_t brought_to(const bp_parameter *parameter, uint32_t buffer)
{
    const bp_acquired *a = &parameter->acquired;
    const uint32_t to = buffer == parameter->weight   ? a->weight
                        : buffer == parameter->scales ? a->scales
                        : buffer == parameter->nested ? a->nested
                                                      : BP_NO_BUFFER;
    return to != BP_NO_BUFFER ? to : buffer;
}

void bp_passes_operands(bp_builder *builder, bp_kernel kernel, uint32_t count, bp_ref *refs)
{
    const uint32_t end = builder->weights_end;
    const uint32_t first = end > 0 ? builder->parameters[0].weight : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (refs[i].buffer < first || refs[i].buffer >= end) {
            continue;
        }
        const uint32_t owner = owner_of(builder, refs[i].buffer);
        if (builder->status == BP_OK && builder->parameters[owner].acquired.held == 0) {
            passes_refuse(builder, owner, kernel, "an op touches a parameter that is not acquired");
        }
        refs[i].buffer = brought_to(&builder->parameters[owner], refs[i].buffer);
    }
}

void bp_build_resolved(bp_builder *builder)
{
    for (uint32_t i = 0; builder->passes.held > 0 && i < builder->parameter_count; i++) {
        if (builder->status == BP_OK && builder->parameters[i].acquired.held > 0) {
            passes_refuse(builder, i, BP_OP_ACQUIRE, "a parameter was acquired and not released");
        }
    }
}
