/* SPDX-License-Identifier: MIT */
/* What rows of nodes ask of values: their shapes, and where gradients of theirs go. */
#include "layers/nodes/node_kinds.h"

uint64_t value_rows(const bp_value *value)
{
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < BP_RANK_MAX && value->shape[i + 1] != 0; i++) {
        rows *= value->shape[i];
    }
    return rows;
}

uint64_t value_width(const bp_value *value)
{
    uint64_t width = value->shape[0];
    for (uint32_t i = 1; i < BP_RANK_MAX && value->shape[i] != 0; i++) {
        width = value->shape[i];
    }
    return width;
}

bool value_same_shape(const bp_value *a, const bp_value *b)
{
    bool same = a->statistics == b->statistics;
    for (uint32_t i = 0; i < BP_RANK_MAX; i++) {
        same = same && a->shape[i] == b->shape[i];
    }
    return same;
}

bp_ref node_make_gradient(const block_run *run, uint32_t value)
{
    const bp_value *v = &run->block->value[value];
    return bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, bp_build_working(run->builder),
                           value_rows(v), value_width(v), v->gradient);
}

void node_add_gradient(block_run *run, uint32_t value, bp_ref d, uint64_t numbers)
{
    if (!bp_ref_present(run->grad[value])) {
        run->grad[value] = d;
        return;
    }
    const int64_t count = (int64_t)numbers;
    const bp_dropout_scalars sum = {.count = count, .per_sample = count};
    const bp_dropout_operands parts = {
        .y = run->grad[value], .x = d, .residual = run->grad[value], .step = run->builder->step};
    bp_build_dropout(run->builder, &parts, &sum);
}
