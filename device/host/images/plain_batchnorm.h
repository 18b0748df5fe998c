/* SPDX-License-Identifier: MIT */
/* Batch normalisation, written once and compiled for every form; included once per form, which
 * defines BP_PLAIN(name). Sums over rows are one chain in double for each column. */
#include <math.h>
#include <string.h>

#include "device/host/vector/element.h"

#define BATCHNORM_ROWS 64 /* of a task that goes along rows */

static inline bool batchnorm_there(const int32_t *lengths, int64_t b)
{
    return lengths == NULL || lengths[b] > 0;
}

/* Rows of the samples that are there. */
static int64_t batchnorm_count(const int32_t *lengths, int64_t batch, int64_t sequence)
{
    int64_t count = 0;
    for (int64_t b = 0; b < batch; b++) {
        count += batchnorm_there(lengths, b) ? sequence : 0;
    }
    return count;
}

static inline int64_t batchnorm_columns(int64_t width, int64_t first)
{
    return width - first < BP_LANES ? width - first : BP_LANES;
}

/* A task is a slice of columns. */
static uint64_t batchnorm_statistics_tasks(const void *scalars)
{
    const bp_batchnorm_statistics_scalars *s = scalars;
    return bp_cut(s->width, BP_LANES);
}

/* sum[i] += (x[i] - mean[i]), or its square, over rows. Here and below whole slices are called with
 * a constant count, for which a compiler makes vectors. */
static inline void batchnorm_add(double *restrict sum, const float *restrict x, int64_t pitch,
                                 int64_t rows, const double *restrict mean, int64_t count,
                                 bool square)
{
    for (int64_t t = 0; t < rows; t++) {
        for (int64_t i = 0; i < count; i++) {
            const double d = (double)x[t * pitch + i] - mean[i];
            sum[i] += square ? d * d : d;
        }
    }
}

/* The mean over rows of x - mean, or of its square, of a slice of columns. */
static void batchnorm_mean(const bp_host_call *call, int64_t column, const double *mean,
                           double mean_of[BP_LANES], bool square)
{
    const bp_batchnorm_statistics_scalars *s = call->scalars;
    const bp_batchnorm_statistics_pointers *p = call->pointers;
    const int64_t columns = batchnorm_columns(s->width, column);
    const int64_t rows = batchnorm_count(p->lengths, s->batch, s->sequence);
    for (int64_t i = 0; i < BP_LANES; i++) {
        mean_of[i] = 0.0;
    }
    for (int64_t b = 0; b < s->batch; b++) {
        const float *x = (const float *)p->x + b * s->sequence * s->width + column;
        const int64_t there = batchnorm_there(p->lengths, b) ? s->sequence : 0;
        if (columns < BP_LANES) {
            batchnorm_add(mean_of, x, s->width, there, mean, columns, square);
        } else if (square) {
            batchnorm_add(mean_of, x, s->width, there, mean, BP_LANES, true);
        } else {
            batchnorm_add(mean_of, x, s->width, there, mean, BP_LANES, false);
        }
    }
    for (int64_t i = 0; rows > 0 && i < BP_LANES; i++) {
        mean_of[i] /= (double)rows;
    }
}

static void batchnorm_statistics_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                     uint32_t worker)
{
    (void)worker;
    const bp_batchnorm_statistics_scalars *s = call->scalars;
    const bp_batchnorm_statistics_pointers *p = call->pointers;
    for (uint64_t task = first; task < last; task++) {
        const int64_t column = (int64_t)task * BP_LANES;
        const double zero[BP_LANES] = {0.0};
        double mean[BP_LANES], variance[BP_LANES];
        batchnorm_mean(call, column, zero, mean, false);
        batchnorm_mean(call, column, mean, variance, true);
        for (int64_t i = 0; i < batchnorm_columns(s->width, column); i++) {
            ((float *)p->mean)[column + i] = (float)mean[i];
            ((float *)p->variance)[column + i] = (float)variance[i];
        }
    }
}

static inline float batchnorm_rstd(float variance, double epsilon)
{
    return 1.0f / sqrtf(variance + (float)epsilon);
}

static uint64_t batchnorm_forward_tasks(const void *scalars)
{
    const bp_batchnorm_forward_scalars *s = scalars;
    return bp_cut(s->rows, BATCHNORM_ROWS);
}

static inline void batchnorm_apply(float *y, const float *x, const float *restrict mean,
                                   const float *restrict scale, const float *restrict bias,
                                   int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        y[i] = (x[i] - mean[i]) * scale[i] + bias[i];
    }
}

static void batchnorm_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    (void)worker;
    const bp_batchnorm_forward_scalars *s = call->scalars;
    const bp_batchnorm_forward_pointers *p = call->pointers;
    const int64_t end = (int64_t)bp_least((uint64_t)s->rows, last * BATCHNORM_ROWS);
    for (int64_t column = 0; column < s->width; column += BP_LANES) {
        const int64_t columns = batchnorm_columns(s->width, column);
        float scale[BP_LANES];
        for (int64_t i = 0; i < columns; i++) {
            scale[i] = batchnorm_rstd(((const float *)p->variance)[column + i], s->epsilon) *
                       ((const float *)p->weight)[column + i];
        }
        for (int64_t row = (int64_t)first * BATCHNORM_ROWS; row < end; row++) {
            const int64_t at = row * s->width + column;
            batchnorm_apply((float *)p->y + at, (const float *)p->x + at,
                            (const float *)p->mean + column, scale, (const float *)p->bias + column,
                            columns);
        }
    }
}

static uint64_t batchnorm_sums_tasks(const void *scalars)
{
    const bp_batchnorm_sums_scalars *s = scalars;
    return bp_cut(s->width, BP_LANES);
}

/* What the two sums of a slice of columns go on from. */
typedef struct batchnorm_slice {
    double d_weight[BP_LANES];
    double d_bias[BP_LANES];
    float mean[BP_LANES];
    float rstd[BP_LANES];
} batchnorm_slice;

static inline void batchnorm_gather(batchnorm_slice *restrict slice, const float *restrict d_y,
                                    const float *restrict x, int64_t pitch, int64_t rows,
                                    int64_t count)
{
    for (int64_t t = 0; t < rows; t++) {
        for (int64_t i = 0; i < count; i++) {
            const float normal = (x[t * pitch + i] - slice->mean[i]) * slice->rstd[i];
            slice->d_weight[i] += (double)d_y[t * pitch + i] * (double)normal;
            slice->d_bias[i] += (double)d_y[t * pitch + i];
        }
    }
}

static void batchnorm_sums_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_batchnorm_sums_scalars *s = call->scalars;
    const bp_batchnorm_sums_pointers *p = call->pointers;
    for (uint64_t task = first; task < last; task++) {
        const int64_t column = (int64_t)task * BP_LANES;
        const int64_t columns = batchnorm_columns(s->width, column);
        batchnorm_slice slice = {{0.0}, {0.0}, {0.0f}, {0.0f}};
        for (int64_t i = 0; i < columns; i++) {
            slice.mean[i] = ((const float *)p->mean)[column + i];
            slice.rstd[i] = batchnorm_rstd(((const float *)p->variance)[column + i], s->epsilon);
        }
        for (int64_t b = 0; b < s->batch; b++) {
            const int64_t at = b * s->sequence * s->width + column;
            const int64_t there = batchnorm_there(p->lengths, b) ? s->sequence : 0;
            const float *d_y = (const float *)p->d_y + at, *x = (const float *)p->x + at;
            if (columns == BP_LANES) {
                batchnorm_gather(&slice, d_y, x, s->width, there, BP_LANES);
            } else {
                batchnorm_gather(&slice, d_y, x, s->width, there, columns);
            }
        }
        for (int64_t i = 0; i < columns; i++) {
            ((float *)p->d_weight)[column + i] = (float)slice.d_weight[i];
            ((float *)p->d_bias)[column + i] = (float)slice.d_bias[i];
        }
    }
}

static uint64_t batchnorm_backward_tasks(const void *scalars)
{
    const bp_batchnorm_backward_scalars *s = scalars;
    return bp_cut(s->batch * s->sequence, BATCHNORM_ROWS);
}

/* A slice of columns of what backward takes from every row. */
typedef struct batchnorm_back {
    float mean[BP_LANES];
    float rstd[BP_LANES];
    float scale[BP_LANES];
    float d_weight[BP_LANES]; /* by the number of rows */
    float d_bias[BP_LANES];
} batchnorm_back;

static void batchnorm_back_begin(const bp_host_call *call, int64_t column, batchnorm_back *back)
{
    const bp_batchnorm_backward_scalars *s = call->scalars;
    const bp_batchnorm_backward_pointers *p = call->pointers;
    const int64_t rows = batchnorm_count(p->lengths, s->batch, s->sequence);
    const float count = rows > 0 ? (float)rows : 1.0f;
    for (int64_t i = 0; i < batchnorm_columns(s->width, column); i++) {
        back->mean[i] = ((const float *)p->mean)[column + i];
        back->rstd[i] = batchnorm_rstd(((const float *)p->variance)[column + i], s->epsilon);
        back->scale[i] = back->rstd[i] * ((const float *)p->weight)[column + i];
        if (s->frozen == 0) {
            back->d_weight[i] = ((const float *)p->d_weight)[column + i] / count;
            back->d_bias[i] = ((const float *)p->d_bias)[column + i] / count;
        }
    }
}

/* d_x may be d_y: what is made waits until all is read. */
static inline void batchnorm_back_row(float *d_x, const float *d_y, const float *x,
                                      const batchnorm_back *back, int64_t count)
{
    float made[BP_LANES];
    for (int64_t i = 0; i < count; i++) {
        const float normal = (x[i] - back->mean[i]) * back->rstd[i];
        made[i] = back->scale[i] * (d_y[i] - (back->d_bias[i] + normal * back->d_weight[i]));
    }
    memcpy(d_x, made, (size_t)count * sizeof made[0]);
}

static inline void batchnorm_back_frozen(float *d_x, const float *d_y,
                                         const batchnorm_back *restrict back, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        d_x[i] = back->scale[i] * d_y[i];
    }
}

static void batchnorm_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                   uint32_t worker)
{
    (void)worker;
    const bp_batchnorm_backward_scalars *s = call->scalars;
    const bp_batchnorm_backward_pointers *p = call->pointers;
    const int64_t rows = s->batch * s->sequence;
    const int64_t end = (int64_t)bp_least((uint64_t)rows, last * BATCHNORM_ROWS);
    for (int64_t column = 0; column < s->width; column += BP_LANES) {
        const int64_t columns = batchnorm_columns(s->width, column);
        batchnorm_back back;
        batchnorm_back_begin(call, column, &back);
        for (int64_t row = (int64_t)first * BATCHNORM_ROWS; row < end; row++) {
            const int64_t at = row * s->width + column;
            float *d_x = (float *)p->d_x + at;
            const float *d_y = (const float *)p->d_y + at;
            if (!batchnorm_there(p->lengths, row / s->sequence)) {
                memset(d_x, 0, (size_t)columns * sizeof *d_x);
            } else if (s->frozen != 0) {
                batchnorm_back_frozen(d_x, d_y, &back, columns);
            } else if (columns == BP_LANES) {
                batchnorm_back_row(d_x, d_y, (const float *)p->x + at, &back, BP_LANES);
            } else {
                batchnorm_back_row(d_x, d_y, (const float *)p->x + at, &back, columns);
            }
        }
    }
}

static uint64_t batchnorm_running_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

/* A few numbers: one task. A count that has reached its greatest value stays there. */
static void batchnorm_running_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_batchnorm_running_scalars *s = call->scalars;
    const bp_batchnorm_running_pointers *p = call->pointers;
    const int64_t rows = batchnorm_count(p->lengths, s->batch, s->sequence);
    const float take = (float)s->momentum, keep = 1.0f - take;
    const float unbiased = rows > 1 ? (float)rows / (float)(rows - 1) : 1.0f;
    float *mean = p->running_mean, *variance = p->running_variance;
    int32_t *batches = p->batches;
    *batches += rows > 0 && *batches < INT32_MAX ? 1 : 0;
    for (int64_t i = 0; rows > 0 && i < s->width; i++) {
        mean[i] = keep * mean[i] + take * ((const float *)p->mean)[i];
        variance[i] = keep * variance[i] + take * (((const float *)p->variance)[i] * unbiased);
    }
}

const bp_host_kernel BP_PLAIN(batchnorm_statistics) = {batchnorm_statistics_tasks,
                                                       batchnorm_statistics_run, NULL};
const bp_host_kernel BP_PLAIN(batchnorm_forward) = {batchnorm_forward_tasks, batchnorm_forward_run,
                                                    NULL};
const bp_host_kernel BP_PLAIN(batchnorm_sums) = {batchnorm_sums_tasks, batchnorm_sums_run, NULL};
const bp_host_kernel BP_PLAIN(batchnorm_backward) = {batchnorm_backward_tasks,
                                                     batchnorm_backward_run, NULL};
const bp_host_kernel BP_PLAIN(batchnorm_running) = {batchnorm_running_tasks, batchnorm_running_run,
                                                    NULL};
