/* SPDX-License-Identifier: MIT */
/* Launches of what the update rules over whole matrices have beside their step. */
#include "device/cuda/plan.h"
#include "device/cuda/kernels/parameters.h"

#define RUN_THREADS  256
#define RUN_ELEMENTS 1024
#define RUN_ROWS     8

static void plan_rms_scale(bp_cuda_plan *plan)
{
    const bp_rms_scale_scalars *s = plan->op->scalars;
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_rms_scale, 1, 1,
                        RUN_THREADS);
    BP_CUDA_OPERAND_OF(plan, rms_scale, scale, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, rms_scale, partials, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->pairs);
    bp_cuda_double(plan, s->elements);
    bp_cuda_double(plan, s->threshold);
    bp_cuda_double(plan, s->floor);
}

static void plan_direction(bp_cuda_plan *plan)
{
    const bp_direction_scalars *s = plan->op->scalars;
    const uint32_t x = BP_CUDA_POSITION(direction, x);
    const uint32_t gradient = BP_CUDA_POSITION(direction, gradient);
    const uint32_t all = BP_CUDA_BIT(direction, x) | BP_CUDA_BIT(direction, state1) |
                         BP_CUDA_BIT(direction, state2) | BP_CUDA_BIT(direction, gradient);
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_direction,
                      bp_cuda_cut(s->count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        const bp_direction_parameters p = {.count = (uint64_t)s->count,
                                           .codec = (uint32_t)s->form,
                                           .gain = (float)(1.0 - s->beta),
                                           .nesterov = s->nesterov != 0 ? (float)s->beta : 0.0f,
                                           .keep2 = (float)s->beta2,
                                           .gain2 = (float)(1.0 - s->beta2),
                                           .epsilon = (float)s->epsilon,
                                           .form_x = bp_cuda_width_of(plan, x, all, 0),
                                           .form_gradient =
                                               bp_cuda_width_of(plan, gradient, all, 0)};
        BP_CUDA_OPERAND_OF(plan, direction, x, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, direction, state1, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, direction, state2, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, direction, gradient, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, direction, control, BP_ACCESS_READ);
        bp_cuda_value_of(plan, &p, sizeof p, sizeof(uint64_t));
    }
}

static void plan_averaged_weight(bp_cuda_plan *plan)
{
    const bp_averaged_weight_scalars *s = plan->op->scalars;
    const uint32_t x = BP_CUDA_POSITION(averaged_weight, x);
    const uint32_t weight = BP_CUDA_POSITION(averaged_weight, weight);
    const uint32_t all = BP_CUDA_BIT(averaged_weight, x) | BP_CUDA_BIT(averaged_weight, weight) |
                         BP_CUDA_BIT(averaged_weight, master) |
                         BP_CUDA_BIT(averaged_weight, state1);
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_averaged_weight,
                      bp_cuda_cut(s->count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        const bp_averaged_weight_parameters p = {.count = (uint64_t)s->count,
                                                 .codec = (uint32_t)s->form,
                                                 .master = (uint32_t)s->master_form,
                                                 .factor = (float)s->factor,
                                                 .form_x = bp_cuda_width_of(plan, x, all, 0),
                                                 .form_weight =
                                                     bp_cuda_width_of(plan, weight, all, 0)};
        BP_CUDA_OPERAND_OF(plan, averaged_weight, x, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, averaged_weight, weight, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, averaged_weight, master, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, averaged_weight, state1, BP_ACCESS_READ);
        bp_cuda_value_of(plan, &p, sizeof p, sizeof(uint64_t));
    }
}

static void plan_limited_factors(bp_cuda_plan *plan)
{
    const bp_limited_factors_scalars *s = plan->op->scalars;
    (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_limited_factors, 1, 1,
                        RUN_THREADS);
    BP_CUDA_OPERAND_OF(plan, limited_factors, norm, BP_ACCESS_READ_WRITE);
    BP_CUDA_OPERAND_OF(plan, limited_factors, factors, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, limited_factors, scale, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, limited_factors, directions, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, limited_factors, projections, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, limited_factors, squares, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, limited_factors, control, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->channels);
    bp_cuda_word64(plan, (uint64_t)s->pieces);
    bp_cuda_double(plan, s->root);
    bp_cuda_double(plan, s->limit);
    bp_cuda_word32(plan, s->whole != 0);
}

static void plan_unit(bp_cuda_plan *plan)
{
    const bp_unit_scalars *s = plan->op->scalars;
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_unit,
                      bp_cuda_cut(s->count, RUN_ELEMENTS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, unit, x, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, unit, sums, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->count);
        bp_cuda_word64(plan, (uint64_t)s->partials);
        bp_cuda_double(plan, s->epsilon);
        bp_cuda_word32(plan, bp_cuda_width(plan, BP_CUDA_BIT(unit, x), 0));
    }
}

static bool absent(const bp_cuda_plan *plan, uint32_t operand)
{
    return plan->op->offsets[operand] == BP_OFFSET_ABSENT;
}

static void plan_square_sums(bp_cuda_plan *plan)
{
    const bp_square_sums_scalars *s = plan->op->scalars;
    const uint32_t x = BP_CUDA_POSITION(square_sums, x);
    if (!absent(plan, BP_CUDA_POSITION(square_sums, row_sums)) &&
        bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_row_squares,
                      bp_cuda_cut(s->rows, RUN_ROWS), 1, RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, square_sums, row_sums, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, square_sums, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, square_sums, control, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word32(plan, s->raw != 0);
        bp_cuda_word32(plan, bp_cuda_width_of(plan, x, 0, 0));
    }
    if (!absent(plan, BP_CUDA_POSITION(square_sums, column_sums)) &&
        bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_column_squares,
                      bp_cuda_cut(s->width, RUN_THREADS), bp_cuda_cut(s->rows, (uint64_t)s->chunk),
                      RUN_THREADS)) {
        BP_CUDA_OPERAND_OF(plan, square_sums, column_sums, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, square_sums, x, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, square_sums, control, BP_ACCESS_READ);
        bp_cuda_word64(plan, (uint64_t)s->rows);
        bp_cuda_word64(plan, (uint64_t)s->width);
        bp_cuda_word64(plan, (uint64_t)s->chunk);
        bp_cuda_word32(plan, s->raw != 0);
        bp_cuda_word32(plan, bp_cuda_width_of(plan, x, 0, 0));
    }
}

static void plan_moment_factors(bp_cuda_plan *plan)
{
    const bp_moment_factors_scalars *s = plan->op->scalars;
    const uint64_t blocks = bp_cuda_cut(s->count, RUN_THREADS);
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_optimizer, BP_CUDA_FUNCTION_moment_factors,
                      s->kind == 0 && blocks > 1 ? 1 : blocks, 1, RUN_THREADS)) {
        const bp_moment_factors_parameters p = {.count = (uint64_t)s->count,
                                                .pieces = (uint64_t)s->pieces,
                                                .group = (uint64_t)s->group,
                                                .kind = (uint64_t)s->kind,
                                                .divisor = s->divisor,
                                                .floor = s->floor,
                                                .beta2 = s->beta2,
                                                .power = s->power,
                                                .epsilon = s->epsilon};
        BP_CUDA_OPERAND_OF(plan, moment_factors, means, BP_ACCESS_READ_WRITE);
        BP_CUDA_OPERAND_OF(plan, moment_factors, factors, BP_ACCESS_WRITE);
        BP_CUDA_OPERAND_OF(plan, moment_factors, sums, BP_ACCESS_READ);
        BP_CUDA_OPERAND_OF(plan, moment_factors, control, BP_ACCESS_READ);
        bp_cuda_value_of(plan, &p, sizeof p, sizeof(double));
    }
}

bool bp_cuda_plan_matrix(bp_cuda_plan *plan)
{
    switch (plan->op->kernel) {
    case BP_KERNEL_rms_scale:
        plan_rms_scale(plan);
        break;
    case BP_KERNEL_direction:
        plan_direction(plan);
        break;
    case BP_KERNEL_averaged_weight:
        plan_averaged_weight(plan);
        break;
    case BP_KERNEL_limited_factors:
        plan_limited_factors(plan);
        break;
    case BP_KERNEL_unit:
        plan_unit(plan);
        break;
    case BP_KERNEL_square_sums:
        plan_square_sums(plan);
        break;
    default:
        plan_moment_factors(plan);
        break;
    }
    return true;
}
