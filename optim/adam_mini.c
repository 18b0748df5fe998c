/* SPDX-License-Identifier: MIT */
/* Adam-mini. */
#include <string.h>

#include "optim/matrix.h"

/* How a parameter is cut into blocks of one second moment each. */
typedef struct mini_blocks {
    uint64_t count;
    uint64_t group; /* rows or columns of a block */
    bool columns;
} mini_blocks;

static bool is_bias(const char *name)
{
    const size_t length = strlen(name);
    return length >= 4 && memcmp(name + length - 4, "bias", 4) == 0;
}

/* Rows of a matrix, or columns where it is stored input-major, those of a head together; each
 * element of a bias; the whole of another vector. */
static mini_blocks blocks_of(const bp_parameter *parameter, const char *name)
{
    const bp_matrix m = bp_matrix_of(parameter);
    if (parameter->rank == 1) {
        const bool each = is_bias(name);
        return (mini_blocks){each ? m.rows : 1, each ? 1 : m.rows, false};
    }
    const uint64_t all = parameter->input_major ? m.width : m.rows;
    const uint64_t group = all % parameter->together == 0 ? parameter->together : 1;
    return (mini_blocks){all / group, group, parameter->input_major};
}

uint64_t bp_adam_mini_state_bytes(const bp_spec *spec, const bp_parameter *parameter,
                                  uint64_t elements)
{
    const uint64_t stacked = parameter->routes && parameter->rank == 3 ? parameter->shape[1] : 1;
    const uint64_t rows = parameter->rank > 1 ? parameter->shape[0] * stacked : parameter->count;
    return bp_codec_bytes(elements, bp_rule_codec(spec, parameter)) + sizeof(float) * rows;
}

void bp_adam_mini_declare(bp_builder *builder)
{
    bp_clip_declare(builder);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        if (builder->status == BP_OK && parameter->trainable) {
            const mini_blocks blocks = blocks_of(parameter, bp_build_name(builder, i));
            bp_rule_declare_one(builder, i);
            parameter->state[1] = bp_matrix_state(builder, i, blocks.count, "exp_avg_sq");
        }
    }
}

static void apply_one(bp_builder *builder, uint32_t index, const bp_matrix_room *room)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    const bp_matrix m = bp_matrix_of(parameter);
    const mini_blocks blocks = blocks_of(parameter, bp_build_name(builder, index));
    const bp_ref sums = blocks.columns ? room->column_sums : room->row_sums;
    const bp_ref to = blocks.columns ? room->columns : room->rows;
    const bp_matrix_step step = {.x = bp_build_ready_gradient(builder, index, 0),
                                 .rows = blocks.columns ? BP_ABSENT : to,
                                 .columns = blocks.columns ? to : BP_ABSENT,
                                 .scale = BP_ABSENT,
                                 .momentum = true,
                                 .beta = options->beta1};
    const bp_moment_factors_scalars scalars = {.count = (int64_t)blocks.count,
                                               .pieces = blocks.columns ? (int64_t)m.pieces : 1,
                                               .group = (int64_t)blocks.group,
                                               .kind = 2,
                                               .divisor = (double)(parameter->count / blocks.count),
                                               .beta2 = options->beta2,
                                               .epsilon = options->epsilon};
    const bp_moment_factors_operands operands = {.means = bp_matrix_state_ref(builder, index, 1),
                                                 .factors = to,
                                                 .sums = sums,
                                                 .control = builder->control};
    bp_matrix_squares(builder, &m, step.x, false, blocks.columns ? BP_ABSENT : sums,
                      blocks.columns ? sums : BP_ABSENT);
    bp_build_moment_factors(builder, &operands, &scalars);
    bp_matrix_apply(builder, index, &step);
}

void bp_adam_mini_apply(bp_builder *builder)
{
    bp_rule_hold(builder, true);
    const bp_matrix_room room = bp_matrix_make_room(builder, NULL);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (builder->status == BP_OK && builder->parameters[i].ready) {
            apply_one(builder, i, &room);
        }
    }
    bp_rule_hold(builder, false);
}
