/* SPDX-License-Identifier: MIT */
/* Adafactor and AdaLomo. */
#include "optim/matrix.h"

uint64_t bp_adafactor_state_bytes(const bp_spec *spec, const bp_parameter *parameter,
                                  uint64_t elements)
{
    const bp_matrix m = bp_matrix_of(parameter);
    (void)spec;
    (void)elements; /* it is never shared out */
    return sizeof(float) * (parameter->rank > 1 ? m.rows + m.width : m.rows);
}

void bp_adafactor_declare(bp_builder *builder)
{
    bp_clip_declare(builder);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        const bp_matrix m = bp_matrix_of(parameter);
        if (parameter->optim_bits % 32 != 0 && builder->status == BP_OK) {
            builder->status =
                bp_error_set(builder->graph->error, BP_ERR_USAGE, "adafactor",
                             "its state is a few floats of rows and columns, and has no "
                             "form of fewer bits",
                             "param-override");
        }
        if (parameter->trainable && parameter->rank > 1) {
            parameter->state[0] = bp_matrix_state(builder, i, m.rows, "exp_avg_sq_row");
            parameter->state[1] = bp_matrix_state(builder, i, m.width, "exp_avg_sq_col");
        } else if (parameter->trainable) {
            parameter->state[0] = bp_matrix_state(builder, i, m.rows, "exp_avg_sq");
        }
    }
}

static void factors(bp_builder *builder, uint32_t index, uint32_t state,
                    const bp_moment_factors_scalars *own, bp_ref sums, bp_ref to)
{
    bp_moment_factors_scalars scalars = *own;
    scalars.group = 1;
    scalars.floor = 1e-30;
    scalars.power = -builder->spec->optimizer_options.decay_rate;
    const bp_moment_factors_operands operands = {.means =
                                                     bp_matrix_state_ref(builder, index, state),
                                                 .factors = to,
                                                 .sums = sums,
                                                 .control = builder->control};
    bp_build_moment_factors(builder, &operands, &scalars);
}

/* Clips the update by its root mean square; room->scale is what the step is multiplied by. */
static void clip_update(bp_builder *builder, uint32_t index, const bp_matrix_step *step,
                        const bp_matrix_room *room)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    const bp_matrix m = bp_matrix_of(parameter);
    const bp_adamw_operands at = bp_rule_operands(builder, index);
    const bp_scaled_norms_scalars norms = {.count = (int64_t)parameter->count,
                                           .stream = (int64_t)index,
                                           .master_form = (int64_t)parameter->master_form,
                                           .rate_scale = 1.0,
                                           .rows = (int64_t)m.rows,
                                           .width = (int64_t)m.width,
                                           .chunk = BP_CLIP_CHUNK};
    const bp_scaled_norms_operands of = {.partials = room->partials,
                                         .weight = at.weight,
                                         .master = at.master,
                                         .row_factors = step->rows,
                                         .column_factors = step->columns,
                                         .gradient = step->x,
                                         .control = builder->control,
                                         .step = builder->step};
    const bp_rms_scale_scalars scalars = {
        .pairs = (int64_t)bp_size_ceil_div(parameter->count, BP_CLIP_CHUNK),
        .elements = (double)parameter->count,
        .threshold = options->clip_threshold,
        .floor = options->scale_parameter ? options->scale_floor : 0.0};
    const bp_rms_scale_operands operands = {.scale = room->scale, .partials = room->partials};
    bp_build_scaled_norms(builder, &of, &norms);
    bp_build_rms_scale(builder, &operands, &scalars);
}

static void apply_one(bp_builder *builder, uint32_t index, const bp_matrix_room *room)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_matrix m = bp_matrix_of(parameter);
    const bool matrix = parameter->rank > 1;
    const bp_matrix_step step = {.x = bp_build_ready_gradient(builder, index, 0),
                                 .rows = room->rows,
                                 .columns = matrix ? room->columns : BP_ABSENT,
                                 .scale = room->scale};
    const bp_moment_factors_scalars rows = {
        .count = (int64_t)m.rows, .pieces = 1, .kind = matrix ? 0 : 1, .divisor = (double)m.width};
    const bp_moment_factors_scalars columns = {.count = (int64_t)m.width,
                                               .pieces = (int64_t)m.pieces,
                                               .kind = 1,
                                               .divisor = (double)m.rows};
    bp_matrix_squares(builder, &m, step.x, false, room->row_sums,
                      matrix ? room->column_sums : BP_ABSENT);
    factors(builder, index, 0, &rows, room->row_sums, room->rows);
    if (matrix) {
        factors(builder, index, 1, &columns, room->column_sums, room->columns);
    }
    clip_update(builder, index, &step, room);
    bp_matrix_apply(builder, index, &step);
}

void bp_adafactor_apply(bp_builder *builder)
{
    bp_rule_hold(builder, true);
    const bp_matrix_room room = bp_matrix_make_room(builder, NULL);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (builder->parameters[i].ready) {
            apply_one(builder, i, &room);
        }
    }
    bp_rule_hold(builder, false);
}
