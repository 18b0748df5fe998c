/* SPDX-License-Identifier: MIT */
/* What the rules over whole matrices know of one: sums of squares of rows and columns, their moving
 * means, the factors that follow, and norms. Plain form. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/base/math.h"
#include "core/ir/step.h"
#include "device/host/kernel.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

static uint64_t square_sums_tasks(const void *scalars)
{
    const bp_square_sums_scalars *s = scalars;
    return bp_cut(s->rows, (uint64_t)s->chunk);
}

/* The squares of one row, in lanes, and each added to its column's sum. */
static double row_squares(const void *x, uint64_t first, uint64_t width, bp_dtype type, float clip,
                          double *columns)
{
    double lane[BP_LANES] = {0.0};
    for (uint64_t j = 0; j < width; j++) {
        const double g = (double)(bp_element_load(x, first + j, type) * clip);
        lane[j % BP_LANES] += g * g;
        if (columns != NULL) {
            columns[j] += g * g;
        }
    }
    return bp_lanes_sum_double(lane);
}

/* A task is a chunk of rows. */
static void square_sums_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_square_sums_scalars *s = call->scalars;
    const bp_square_sums_pointers *p = call->pointers;
    const bp_control_block *control = p->control;
    const bp_dtype type = bp_call_type(call, offsetof(bp_square_sums_operands, x) / sizeof(bp_ref));
    const uint64_t width = (uint64_t)s->width;
    const float clip = s->raw != 0 ? 1.0f : control->clip;
    double *row_sums = p->row_sums;
    for (uint64_t task = first; task < last; task++) {
        double *columns = p->column_sums == NULL ? NULL : (double *)p->column_sums + task * width;
        const uint64_t end = bp_least((uint64_t)s->rows, (task + 1) * (uint64_t)s->chunk);
        if (columns != NULL) {
            memset(columns, 0, width * sizeof *columns);
        }
        for (uint64_t row = task * (uint64_t)s->chunk; row < end; row++) {
            const double sum = row_squares(p->x, row * width, width, type, clip, columns);
            if (row_sums != NULL) {
                row_sums[row] = sum;
            }
        }
    }
}

const bp_host_kernel bp_host_square_sums = {square_sums_tasks, square_sums_run, NULL};

static uint64_t one_task(const void *scalars)
{
    (void)scalars;
    return 1;
}

/* Of the squares of this step. */
static double block_mean(const bp_moment_factors_scalars *s, const double *sums, uint64_t block)
{
    const uint64_t group = (uint64_t)s->group, all = (uint64_t)s->count * group;
    double sum = 0.0;
    for (uint64_t i = block * group; i < (block + 1) * group; i++) {
        for (uint64_t piece = 0; piece < (uint64_t)s->pieces; piece++) {
            sum += sums[piece * all + i];
        }
    }
    return sum / s->divisor + s->floor;
}

static double moment_beta(const bp_moment_factors_scalars *s, const bp_control_block *control)
{
    const double t = control->applied > 1 ? (double)control->applied : 1.0;
    return s->power < 0.0 ? 1.0 - bp_exp(s->power * bp_log(t)) : s->beta2;
}

static double state_factor(const bp_moment_factors_scalars *s, double state, double mean,
                           double correction)
{
    return s->kind == 0   ? 1.0 / sqrt(state / mean)
           : s->kind == 1 ? 1.0 / sqrt(state)
                          : 1.0 / (sqrt(state) / sqrt(correction) + s->epsilon);
}

static void moment_factors_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)first, (void)last, (void)worker;
    const bp_moment_factors_scalars *s = call->scalars;
    const bp_moment_factors_pointers *p = call->pointers;
    const bp_control_block *control = p->control;
    const double beta = moment_beta(s, control);
    float *state = p->means, *factors = p->factors;
    double mean = 0.0;
    for (uint64_t i = 0; i < (uint64_t)s->count; i++) {
        if (control->skip == 0) {
            state[i] = (float)(beta * (double)state[i] + (1.0 - beta) * block_mean(s, p->sums, i));
        }
        mean += (double)state[i];
    }
    mean /= (double)s->count;
    for (uint64_t i = 0; i < (uint64_t)s->count; i++) {
        const float factor = (float)state_factor(s, (double)state[i], mean, control->correction2);
        for (uint64_t k = 0; k < (uint64_t)s->group; k++) {
            factors[i * (uint64_t)s->group + k] = factor;
        }
    }
}

const bp_host_kernel bp_host_moment_factors = {one_task, moment_factors_run, NULL};

static void rms_scale_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first, (void)last, (void)worker;
    const bp_rms_scale_scalars *s = call->scalars;
    const bp_rms_scale_pointers *p = call->pointers;
    const double *partials = p->partials;
    float *scale = p->scale;
    double weight = 0.0, update = 0.0;
    for (uint64_t i = 0; i < (uint64_t)s->pairs; i++) {
        weight += partials[2 * i];
        update += partials[2 * i + 1];
    }
    weight = sqrt(weight / s->elements);
    update = sqrt(update / s->elements) / s->threshold;
    const double own = s->floor > 0.0 ? (weight > s->floor ? weight : s->floor) : 1.0;
    scale[0] = (float)(own / (update > 1.0 ? update : 1.0));
    scale[1] = (float)own;
}

const bp_host_kernel bp_host_rms_scale = {one_task, rms_scale_run, NULL};

static void limited_factors_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                uint32_t worker)
{
    (void)first, (void)last, (void)worker;
    const bp_limited_factors_scalars *s = call->scalars;
    const bp_limited_factors_pointers *p = call->pointers;
    const bp_control_block *control = p->control;
    const double *directions = p->directions, *projections = p->projections, *squares = p->squares;
    const uint64_t channels = (uint64_t)s->channels;
    float *factors = p->factors, *scale = p->scale, *before = p->norm;
    double d = 0.0, q = 0.0, sum = 0.0;
    for (uint64_t j = 0; j < channels; j++) {
        d += directions[j];
        q += projections[j];
    }
    for (uint64_t j = 0; j < channels; j++) {
        const double above = s->whole != 0 ? d : directions[j];
        const double below = s->whole != 0 ? q : projections[j];
        const double f = sqrt(above) / (sqrt(below) + 1e-8);
        double g = 0.0;
        for (uint64_t piece = 0; piece < (uint64_t)s->pieces; piece++) {
            g += squares[piece * channels + j];
        }
        factors[j] = (float)f;
        sum += f * f * g;
    }
    const double norm = sqrt(sum), ratio = norm / ((double)*before + 1e-8) / s->limit;
    const double limiter = *before > 0.0f && ratio > 1.0 ? ratio : 1.0;
    scale[0] = (float)(s->root / limiter * sqrt(control->correction2) / control->correction1);
    scale[1] = 1.0f;
    if (control->skip == 0) {
        *before = (float)(norm / limiter);
    }
}

const bp_host_kernel bp_host_limited_factors = {one_task, limited_factors_run, NULL};

static uint64_t unit_tasks(const void *scalars)
{
    const bp_unit_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* A task is a run of elements. */
static void unit_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_unit_scalars *s = call->scalars;
    const bp_unit_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, 0);
    const double *sums = p->sums;
    double sum = 0.0;
    for (uint64_t i = 0; i < (uint64_t)s->partials; i++) {
        sum += sums[i];
    }
    const float factor = (float)(1.0 / (sqrt(sum) + s->epsilon));
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        bp_element_store(p->x, i, bp_element_load(p->x, i, type) * factor, type);
    }
}

const bp_host_kernel bp_host_unit = {unit_tasks, unit_run, NULL};
