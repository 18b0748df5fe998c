/* SPDX-License-Identifier: MIT */
/* APOLLO and APOLLO-Mini. */
#include <math.h>

#include "optim/matrix.h"

#define LIMIT  1.01       /* most that the norm of an update grows by */
#define STREAM 0x40000000 /* of the projections' numbers: behind all of the weights' */

/* The longer side's channels, each of as many numbers as the rank; the shorter side is projected.
 */
typedef struct apollo_shape {
    uint64_t channels;
    uint64_t side;
    uint64_t rank;
    bool tall; /* channels are rows */
} apollo_shape;

static apollo_shape shape_of(const bp_spec *spec, const bp_parameter *parameter)
{
    const bp_matrix m = bp_matrix_of(parameter);
    const bool tall = m.rows >= m.width;
    apollo_shape shape = {tall ? m.rows : m.width, tall ? m.width : m.rows, 1, tall};
    const double rank = spec->optimizer_options.rank;
    shape.rank = rank >= (double)shape.side ? shape.side : rank >= 1.0 ? (uint64_t)rank : 1;
    return shape;
}

/* Blocks of codes where there are enough of them. */
static bp_codec form_of(const bp_spec *spec, const bp_parameter *parameter)
{
    const apollo_shape shape = shape_of(spec, parameter);
    const bool small = shape.channels * shape.rank < BP_RULE_LEAST_STATE;
    return small && parameter->optim_bits == 0 ? BP_CODEC_F32 : bp_rule_codec(spec, parameter);
}

uint64_t bp_apollo_state_bytes(const bp_spec *spec, const bp_parameter *parameter,
                               uint64_t elements)
{
    return 2 * bp_codec_bytes(elements, bp_rule_codec(spec, parameter)); /* at most */
}

void bp_apollo_declare(bp_builder *builder)
{
    bp_clip_declare(builder);
    for (uint32_t i = 0; i < builder->parameter_count && builder->status == BP_OK; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        if (!bp_matrix_hidden(builder, i)) {
            bp_rule_declare_one(builder, i);
        } else if (parameter->trainable) {
            const apollo_shape shape = shape_of(builder->spec, parameter);
            const uint64_t bytes =
                bp_codec_bytes(shape.channels * shape.rank, form_of(builder->spec, parameter));
            parameter->state[0] = bp_build_state_bytes(builder, i, bytes, bytes, "exp_avg");
            parameter->state[1] = bp_build_state_bytes(builder, i, bytes, bytes, "exp_avg_sq");
            parameter->state[2] = bp_matrix_state(builder, i, 1, "norm");
        }
    }
}

/* Room for the largest projection that is ready. */
typedef struct apollo_room {
    bp_ref projection; /* (rank, side), of the gradient's type */
    bp_ref projected;  /* F32 (channels, rank) */
    bp_ref direction;
    bp_ref squares[2]; /* F64 (channels): of the direction's rows, and the projected gradient's */
} apollo_room;

static bool apollo_make_room(bp_builder *builder, apollo_room *room)
{
    uint64_t projection = 0, projected = 0, channels = 0;
    bp_dtype type = BP_F32;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (builder->parameters[i].ready && bp_matrix_hidden(builder, i)) {
            const apollo_shape shape = shape_of(builder->spec, &builder->parameters[i]);
            const uint64_t here = shape.rank * shape.side, there = shape.rank * shape.channels;
            projection = here > projection ? here : projection;
            projected = there > projected ? there : projected;
            channels = shape.channels > channels ? shape.channels : channels;
            type = bp_build_ready_gradient(builder, i, 0).dtype;
        }
    }
    if (channels == 0) {
        return false;
    }
    const bp_class work = BP_CLASS_WORKSPACE;
    room->projection = bp_build_buffer(builder, work, type, projection, 1, "projection");
    room->projected = bp_build_buffer(builder, work, BP_F32, projected, 1, "projected");
    room->direction = bp_build_buffer(builder, work, BP_F32, projected, 1, "direction");
    room->squares[0] = bp_build_buffer(builder, work, BP_F64, channels, 1, "direction_squares");
    room->squares[1] = bp_build_buffer(builder, work, BP_F64, channels, 1, "projected_squares");
    return true;
}

/* projected (channels, rank) = g P^T, or g^T P^T of a wide matrix; P has normal numbers of variance
 * 1 / rank. */
static void project(bp_builder *builder, uint32_t index, const apollo_shape *shape,
                    const apollo_room *room)
{
    const bp_random_normal_scalars normal = {
        .count = (int64_t)(shape->rank * shape->side),
        .stream = STREAM + (int64_t)index,
        .form = BP_MASTER_STOCHASTIC,
        .deviation = 1.0 / sqrt((double)shape->rank),
        .interval = (int64_t)builder->spec->optimizer_options.interval};
    const bp_matmul_scalars product = {.m = (int64_t)shape->channels,
                                       .n = (int64_t)shape->rank,
                                       .k = (int64_t)shape->side,
                                       .lda =
                                           (int64_t)(shape->tall ? shape->side : shape->channels),
                                       .ldb = (int64_t)shape->side,
                                       .ldc = (int64_t)shape->rank,
                                       .transpose_a = shape->tall ? 0 : 1,
                                       .transpose_b = 1};
    const bp_random_normal_operands of = {.y = room->projection,
                                          .master = BP_ABSENT,
                                          .step = builder->step,
                                          .control = builder->control};
    const bp_ref gradient = bp_build_ready_gradient(builder, index, 0);
    bp_build_random_normal(builder, &of, &normal);
    bp_build_product(builder, room->projected, gradient, room->projection, &product);
}

/* Adam's direction of the projected gradient, and the squares of both. */
static void direct(bp_builder *builder, uint32_t index, const apollo_shape *shape,
                   const apollo_room *room)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    const bp_matrix rows = {shape->channels, shape->rank, 1};
    const bp_direction_scalars scalars = {.count = (int64_t)(shape->channels * shape->rank),
                                          .form = (int64_t)form_of(builder->spec, parameter),
                                          .beta = options->beta1,
                                          .beta2 = options->beta2,
                                          .epsilon = options->epsilon};
    const bp_direction_operands operands = {.x = room->direction,
                                            .state1 = {parameter->state[0], BP_U8, 0},
                                            .state2 = {parameter->state[1], BP_U8, 0},
                                            .gradient = room->projected,
                                            .control = builder->control};
    bp_build_direction(builder, &operands, &scalars);
    bp_matrix_squares(builder, &rows, room->direction, true, room->squares[0], BP_ABSENT);
    bp_matrix_squares(builder, &rows, room->projected, false, room->squares[1], BP_ABSENT);
}

static void apply_one(bp_builder *builder, uint32_t index, const apollo_room *room,
                      const bp_matrix_room *own)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    const apollo_shape shape = shape_of(builder->spec, parameter);
    const bp_matrix m = bp_matrix_of(parameter);
    const bp_ref sums = shape.tall ? own->row_sums : own->column_sums;
    const bp_ref to = shape.tall ? own->rows : own->columns;
    const bp_matrix_step step = {.x = bp_build_ready_gradient(builder, index, 0),
                                 .rows = shape.tall ? to : BP_ABSENT,
                                 .columns = shape.tall ? BP_ABSENT : to,
                                 .scale = own->scale};
    const bp_limited_factors_scalars scalars = {.channels = (int64_t)shape.channels,
                                                .pieces = shape.tall ? 1 : (int64_t)m.pieces,
                                                .whole = shape.rank == 1 ? 1 : 0,
                                                .root = sqrt(options->projection_scale),
                                                .limit = LIMIT};
    const bp_limited_factors_operands operands = {.norm = bp_matrix_state_ref(builder, index, 2),
                                                  .factors = to,
                                                  .scale = own->scale,
                                                  .directions = room->squares[0],
                                                  .projections = room->squares[1],
                                                  .squares = sums,
                                                  .control = builder->control};
    project(builder, index, &shape, room);
    direct(builder, index, &shape, room);
    bp_matrix_squares(builder, &m, step.x, false, shape.tall ? sums : BP_ABSENT,
                      shape.tall ? BP_ABSENT : sums);
    bp_build_limited_factors(builder, &operands, &scalars);
    bp_matrix_apply(builder, index, &step);
}

void bp_apollo_apply(bp_builder *builder)
{
    apollo_room room;
    bp_rule_hold(builder, true);
    bp_rule_apply_where(builder, bp_matrix_rest);
    const bool any = apollo_make_room(builder, &room);
    const bp_matrix_room own = bp_matrix_make_room(builder, bp_matrix_hidden);
    for (uint32_t i = 0; any && builder->status == BP_OK && i < builder->parameter_count; i++) {
        if (builder->parameters[i].ready && bp_matrix_hidden(builder, i)) {
            apply_one(builder, i, &room, &own);
        }
    }
    bp_rule_hold(builder, false);
}
