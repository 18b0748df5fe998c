/* SPDX-License-Identifier: MIT */
/* Whole matrices. */
#include "optim/matrix.h"

bp_matrix bp_matrix_of(const bp_parameter *parameter)
{
    bp_matrix m = {.rows = parameter->count, .width = 1};
    if (parameter->rank > 1) {
        const bool stacked = parameter->routes && parameter->rank == 3; /* rows of all experts */
        m.rows = parameter->shape[0] * (stacked ? parameter->shape[1] : 1);
        m.width = parameter->count / m.rows;
    }
    m.pieces = bp_size_ceil_div(m.rows, BP_MATRIX_CHUNK);
    return m;
}

bool bp_matrix_hidden(const bp_builder *builder, uint32_t index)
{
    const bp_parameter *parameter = &builder->parameters[index];
    return parameter->rank == 2 && !parameter->embedding && parameter->base == BP_NO_PARAMETER &&
           parameter->shape[0] > 1 && parameter->shape[1] > 1 && parameter->head == BP_HEAD_NONE &&
           parameter->decay; /* biases of experts are no matrix */
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bp_matrix_room bp_matrix_make_room(bp_builder *builder,
                                   bool (*takes)(const bp_builder *builder, uint32_t index))
{
    uint64_t rows = 0, width = 0, columns = 0, chunks = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (builder->parameters[i].ready && (takes == NULL || takes(builder, i))) {
            const bp_matrix m = bp_matrix_of(&builder->parameters[i]);
            rows = larger(rows, m.rows);
            width = larger(width, m.width);
            columns = larger(columns, bp_size_mul(m.pieces, m.width));
            chunks = larger(chunks, bp_size_ceil_div(builder->parameters[i].count, BP_CLIP_CHUNK));
        }
    }
    if (rows == 0) {
        return (bp_matrix_room){BP_ABSENT, BP_ABSENT, BP_ABSENT, BP_ABSENT, BP_ABSENT, BP_ABSENT};
    }
    const bp_class work = BP_CLASS_WORKSPACE;
    return (bp_matrix_room){
        .row_sums = bp_build_buffer(builder, work, BP_F64, rows, 1, "row_sums"),
        .column_sums = bp_build_buffer(builder, work, BP_F64, columns, 1, "column_sums"),
        .rows = bp_build_buffer(builder, work, BP_F32, rows, 1, "row_factors"),
        .columns = bp_build_buffer(builder, work, BP_F32, width, 1, "column_factors"),
        .partials = bp_build_buffer(builder, work, BP_F64, 2 * chunks, 1, "rule_partials"),
        .scale = bp_build_buffer(builder, work, BP_F32, 2, 1, "rule_scale")};
}

uint32_t bp_matrix_state(bp_builder *builder, uint32_t index, uint64_t count, const char *name)
{
    const uint64_t bytes = bp_size_mul(count, sizeof(float));
    return bp_build_state_bytes(builder, index, bytes, bytes, name);
}

bp_ref bp_matrix_state_ref(const bp_builder *builder, uint32_t index, uint32_t state)
{
    return (bp_ref){builder->parameters[index].state[state], BP_F32, 0};
}

void bp_matrix_squares(bp_builder *builder, const bp_matrix *m, bp_ref x, bool raw, bp_ref row_sums,
                       bp_ref column_sums)
{
    const bp_square_sums_scalars scalars = {.rows = (int64_t)m->rows,
                                            .width = (int64_t)m->width,
                                            .chunk = BP_MATRIX_CHUNK,
                                            .raw = raw ? 1 : 0};
    const bp_square_sums_operands operands = {
        .row_sums = row_sums, .column_sums = column_sums, .x = x, .control = builder->control};
    bp_build_square_sums(builder, &operands, &scalars);
}

void bp_matrix_apply(bp_builder *builder, uint32_t index, const bp_matrix_step *step)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_matrix m = bp_matrix_of(parameter);
    const bp_adamw_operands at = bp_rule_operands(builder, index);
    const bp_codec form = step->momentum ? bp_rule_codec(builder->spec, parameter) : BP_CODEC_F32;
    const bp_scaled_scalars scalars = {.count = (int64_t)parameter->count,
                                       .stream = (int64_t)index,
                                       .form = (int64_t)form,
                                       .master_form = (int64_t)parameter->master_form,
                                       .decay = parameter->weight_decay,
                                       .rate_scale = parameter->rate_scale,
                                       .beta = step->beta,
                                       .rows = (int64_t)m.rows,
                                       .width = (int64_t)m.width,
                                       .raw = step->raw ? 1 : 0};
    const bp_scaled_operands operands = {.weight = at.weight,
                                         .master = at.master,
                                         .state1 = step->momentum ? at.state1 : BP_ABSENT,
                                         .row_factors = step->rows,
                                         .column_factors = step->columns,
                                         .gradient = step->x,
                                         .scale = step->scale,
                                         .control = builder->control,
                                         .step = builder->step};
    bp_build_scaled(builder, &operands, &scalars);
}

bool bp_matrix_rest(const bp_builder *builder, uint32_t index)
{
    return !bp_matrix_hidden(builder, index);
}

void bp_matrix_rest_fill(const bp_optimizer_options *options, bp_rule_scalars *scalars)
{
    scalars->adamw.beta1 = options->beta1;
    scalars->adamw.beta2 = options->beta2;
    scalars->adamw.epsilon = options->epsilon;
}
