/* SPDX-License-Identifier: MIT */
/* Trained rows of the token embedding. */
#include "core/plan/rows.h"

#include "core/plan/adapter.h"

bool bp_rows_table(const bp_builder *builder, uint32_t index)
{
    const bp_lora *lora = &builder->spec->lora;
    if (lora->token_count == 0 || !bp_adapter_table(builder, index)) {
        return false;
    }
    for (uint32_t i = 0; i < index; i++) { /* one of positions may have as many rows */
        if (bp_adapter_table(builder, i)) {
            return false;
        }
    }
    return true;
}

bp_scope bp_rows_scope(const bp_builder *builder, const bp_parameter *parameter)
{
    const bool rows = bp_rows_table(builder, (uint32_t)(parameter - builder->parameters));
    return rows ? BP_SCOPE_RESIDENT : BP_SCOPE_CONSTANT;
}

uint32_t bp_rows_of(const bp_builder *builder, uint32_t table)
{
    const uint32_t rows =
        builder->status == BP_OK ? builder->parameters[table].rows : BP_NO_PARAMETER;
    return rows != BP_NO_PARAMETER && builder->parameters[rows].trainable ? rows : BP_NO_PARAMETER;
}

bool bp_rows_next(const bp_builder *builder, bp_rows_run *run)
{
    const bp_lora *lora = &builder->spec->lora;
    uint32_t at = (uint32_t)(run->at + run->count);
    if (at >= lora->token_count) {
        return false;
    }
    *run = (bp_rows_run){.token = lora->tokens[at], .at = at, .count = 1};
    while (++at < lora->token_count && lora->tokens[at] == run->token + run->count) {
        run->count++;
    }
    return true;
}

void bp_rows_put(bp_builder *builder)
{
    for (uint32_t i = 0; i < builder->parameter_count && builder->status == BP_OK; i++) {
        const uint32_t rows = builder->parameters[i].rows;
        bp_rows_run run = {0};
        if (rows == BP_NO_PARAMETER) {
            continue;
        }
        const uint64_t width = builder->parameters[rows].shape[1];
        const bp_ref table = bp_build_acquire_update(builder, i);
        const bp_ref from = bp_build_acquire(builder, rows, BP_FOR_FORWARD);
        while (bp_rows_next(builder, &run)) {
            bp_build_copy(builder,
                          &(bp_copy_operands){.y = bp_ref_at(table, run.token * width),
                                              .x = bp_ref_at(from, run.at * width)},
                          &(bp_copy_scalars){.count = (int64_t)(run.count * width)});
        }
        bp_build_release(builder, rows);
        bp_build_release(builder, i);
    }
}

/* The op that adds up rows makes floats of what it reads: the sum is over one. */
void bp_rows_values(bp_builder *builder, uint32_t table, bp_ref values)
{
    const uint64_t width = builder->status == BP_OK ? builder->parameters[table].shape[1] : 0;
    const bp_ref from = bp_build_acquire(builder, table, BP_FOR_FORWARD);
    bp_rows_run run = {0};
    while (builder->status == BP_OK && bp_rows_next(builder, &run)) {
        const int64_t count = (int64_t)(run.count * width);
        bp_build_bias_backward(
            builder,
            &(bp_bias_backward_operands){.d_bias = bp_ref_at(values, run.at * width),
                                         .d_y = bp_ref_at(from, run.token * width)},
            &(bp_bias_backward_scalars){.rows = 1, .n = count, .pitch = count});
    }
    bp_build_release(builder, table);
}
