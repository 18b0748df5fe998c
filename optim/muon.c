/* SPDX-License-Identifier: MIT */
/* Muon. */
#include <math.h>

#include "optim/matrix.h"

#define STEPS 5 /* of Newton and Schulz */

uint64_t bp_muon_state_bytes(const bp_spec *spec, const bp_parameter *parameter, uint64_t elements)
{
    return 2 * bp_codec_bytes(elements, bp_rule_codec(spec, parameter)); /* at most */
}

void bp_muon_declare(bp_builder *builder)
{
    bp_clip_declare(builder);
    for (uint32_t i = 0; i < builder->parameter_count && builder->status == BP_OK; i++) {
        bp_parameter *parameter = &builder->parameters[i];
        if (!bp_matrix_hidden(builder, i)) {
            bp_rule_declare_one(builder, i);
        } else if (parameter->trainable) {
            const bp_codec form = bp_rule_codec(builder->spec, parameter);
            parameter->state[0] =
                bp_build_state_bytes(builder, i, bp_codec_bytes(parameter->count, form),
                                     bp_codec_bytes(BP_SHARD_UNIT, form), "momentum_buffer");
        }
    }
}

/* Room for the largest matrix that is ready: x and the next x, and three squares of its shorter
 * side.
 */
typedef struct muon_room {
    bp_ref x[2];
    bp_ref a, b, d;
    bp_ref partials;
} muon_room;

static bool make_room(bp_builder *builder, muon_room *room)
{
    uint64_t count = 0, side = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        if (parameter->ready && bp_matrix_hidden(builder, i)) {
            const bp_matrix m = bp_matrix_of(parameter);
            const uint64_t shorter = m.rows < m.width ? m.rows : m.width;
            count = parameter->count > count ? parameter->count : count;
            side = shorter > side ? shorter : side;
        }
    }
    if (count == 0) {
        return false;
    }
    const bp_dtype type = bp_build_working(builder);
    const bp_class work = BP_CLASS_WORKSPACE;
    room->x[0] = bp_build_buffer(builder, work, type, count, 1, "muon_x");
    room->x[1] = bp_build_buffer(builder, work, type, count, 1, "muon_next");
    room->a = bp_build_buffer(builder, work, type, side, side, "muon_a");
    room->b = bp_build_buffer(builder, work, type, side, side, "muon_b");
    room->d = bp_build_buffer(builder, work, type, side, side, "muon_d");
    room->partials = bp_build_buffer(builder, work, BP_F64, bp_size_ceil_div(count, BP_CLIP_CHUNK),
                                     1, "muon_partials");
    return true;
}

/* c (m, n) (+)= a b, of matrices without gaps; transposed: 1 a, 2 b. */
static void product(bp_builder *builder, bp_ref c, bp_ref a, bp_ref b, const uint64_t shape[3],
                    uint32_t transposed, bool adds)
{
    const int64_t m = (int64_t)shape[0], n = (int64_t)shape[1], k = (int64_t)shape[2];
    const bp_matmul_scalars scalars = {.m = m,
                                       .n = n,
                                       .k = k,
                                       .lda = (transposed & 1) != 0 ? m : k,
                                       .ldb = (transposed & 2) != 0 ? k : n,
                                       .ldc = n,
                                       .transpose_a = transposed & 1,
                                       .transpose_b = (transposed & 2) != 0,
                                       .accumulate = adds ? 1 : 0};
    bp_build_product(builder, c, a, b, &scalars);
}

static void times(bp_builder *builder, bp_ref y, bp_ref x, uint64_t count, double factor)
{
    const bp_scale_scalars scalars = {.count = (int64_t)count, .factor = factor};
    bp_build_scale(builder, &(bp_scale_operands){.y = y, .x = x}, &scalars);
}

/* x becomes a x + (b A + c A^2) x, A = x x^T; of a tall matrix a x + x (b A + c A^2), A = x^T x,
 * which is the same transposed. */
static void orthogonalise(bp_builder *builder, const bp_matrix *m, muon_room *room)
{
    static const double a = 3.4445, b = -4.7750, c = 2.0315;
    const bool tall = m->rows > m->width;
    const uint64_t side = tall ? m->width : m->rows, length = tall ? m->rows : m->width;
    for (uint32_t step = 0; step < STEPS; step++) {
        const bp_ref x = room->x[step % 2], next = room->x[1 - step % 2];
        product(builder, room->a, x, x, (uint64_t[3]){side, side, length}, tall ? 1 : 2, false);
        times(builder, room->d, room->a, side * side, c);
        times(builder, room->b, room->a, side * side, b);
        product(builder, room->b, room->d, room->a, (uint64_t[3]){side, side, side}, 0, true);
        times(builder, next, x, m->rows * m->width, a);
        product(builder, next, tall ? x : room->b, tall ? room->b : x,
                (uint64_t[3]){m->rows, m->width, side}, 0, true);
    }
}

static void find_direction(bp_builder *builder, uint32_t index, const muon_room *room)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    const int64_t count = (int64_t)parameter->count;
    const bp_direction_scalars scalars = {.count = count,
                                          .form = (int64_t)bp_rule_codec(builder->spec, parameter),
                                          .beta = options->momentum,
                                          .nesterov = options->nesterov ? 1 : 0};
    const bp_direction_operands operands = {.x = room->x[0],
                                            .state1 = bp_rule_operands(builder, index).state1,
                                            .state2 = BP_ABSENT,
                                            .gradient = bp_build_ready_gradient(builder, index, 0),
                                            .control = builder->control};
    const bp_norm_partial_scalars norm = {.count = count, .chunk = BP_CLIP_CHUNK};
    const bp_unit_scalars unit = {.count = count,
                                  .partials =
                                      (int64_t)bp_size_ceil_div(parameter->count, BP_CLIP_CHUNK),
                                  .epsilon = 1e-7};
    bp_build_direction(builder, &operands, &scalars);
    bp_build_norm_partial(
        builder, &(bp_norm_partial_operands){.partials = room->partials, .x = room->x[0]}, &norm);
    bp_build_unit(builder, &(bp_unit_operands){.x = room->x[0], .sums = room->partials}, &unit);
}

static void apply_one(bp_builder *builder, uint32_t index, muon_room *room)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    const bp_matrix m = bp_matrix_of(parameter);
    const uint64_t out = parameter->input_major ? m.width : m.rows, in = parameter->count / out;
    const double longer = (double)(out > in ? out : in), ratio = (double)out / (double)in;
    const double size = options->match_rms ? 0.2 * sqrt(longer) : ratio > 1.0 ? sqrt(ratio) : 1.0;
    const bp_ref x = room->x[STEPS % 2];
    find_direction(builder, index, room);
    orthogonalise(builder, &m, room);
    times(builder, x, x, parameter->count, size);
    bp_matrix_apply(
        builder, index,
        &(bp_matrix_step){
            .x = x, .rows = BP_ABSENT, .columns = BP_ABSENT, .scale = BP_ABSENT, .raw = true});
}

void bp_muon_apply(bp_builder *builder)
{
    muon_room room;
    bp_rule_hold(builder, true);
    bp_rule_apply_where(builder, bp_matrix_rest);
    const bool any = make_room(builder, &room);
    for (uint32_t i = 0; any && builder->status == BP_OK && i < builder->parameter_count; i++) {
        if (builder->parameters[i].ready && bp_matrix_hidden(builder, i)) {
            apply_one(builder, i, &room);
        }
    }
    bp_rule_hold(builder, false);
}
