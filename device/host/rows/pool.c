/* SPDX-License-Identifier: MIT */
/* Vectors of samples from those of their tokens. Little beside what makes the tokens': plain form
 * only. */
#include <math.h>
#include <string.h>

#include "core/ops/storage_format.h"
#include "core/ir/step.h"
#include "device/host/vector/element.h"

/* The rows of a sample that count: token t from `first` on has the weight 1, or, of a weighted
 * mean, t + 1; the sum is divided by `divisor`. */
typedef struct pool_share {
    uint64_t first, last;
    bool weighted;
    float divisor;
} pool_share;

static pool_share pool_share_of(int64_t mode, const int32_t *lengths, uint64_t b, int64_t sequence)
{
    int64_t length = lengths != NULL ? lengths[b] : sequence;
    length = length > sequence ? sequence : length < 1 ? 1 : length;
    const uint64_t n = (uint64_t)length;
    const float count = (float)n;
    switch (mode) {
    case BP_POOLING_CLS:
        return (pool_share){0, 1, false, 1.0f};
    case BP_POOLING_LAST:
        return (pool_share){n - 1, n, false, 1.0f};
    case BP_POOLING_SQRT:
        return (pool_share){0, n, false, sqrtf(count)};
    case BP_POOLING_WEIGHTED:
        return (pool_share){0, n, true, count * (count + 1.0f) * 0.5f};
    default:
        return (pool_share){0, n, false, count};
    }
}

/* A task is a row of y where all are written, else a sample. */
static uint64_t pool_tasks(const void *scalars)
{
    const bp_pool_rows_scalars *s = scalars;
    return (uint64_t)(s->later != 0 ? s->batch : s->total);
}

/* y (width), which is 0, becomes the vector of sample b. */
static void pool_one(const bp_host_call *call, uint64_t b, float *y)
{
    const bp_pool_rows_scalars *s = call->scalars;
    const bp_pool_rows_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width, first = b * (uint64_t)s->sequence;
    const pool_share share = pool_share_of(s->mode, p->lengths, b, s->sequence);
    for (uint64_t t = share.first; t < share.last; t++) {
        const bp_element *x = (const bp_element *)p->x + (first + t) * width;
        const float weight = share.weighted ? (float)(t + 1) : 1.0f;
        for (uint64_t i = 0; i < width; i++) {
            y[i] += bp_get(x, i) * weight;
        }
    }
    for (uint64_t i = 0; i < width; i++) {
        y[i] /= share.divisor;
    }
}

static void pool_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_pool_rows_scalars *s = call->scalars;
    const bp_pool_rows_pointers *p = call->pointers;
    const uint64_t sample = ((const bp_step_block *)p->step)->sample;
    for (uint64_t task = first; task < last; task++) {
        const uint64_t row = s->later != 0 ? sample + task : task;
        float *y = (float *)p->y + row * (uint64_t)s->width;
        if (row >= (uint64_t)s->total) {
            continue;
        }
        memset(y, 0, (uint64_t)s->width * sizeof *y);
        if (row >= sample && row - sample < (uint64_t)s->batch) {
            pool_one(call, row - sample, y);
        }
    }
}

static uint64_t pool_back_tasks(const void *scalars)
{
    const bp_pool_rows_backward_scalars *s = scalars;
    return (uint64_t)s->batch;
}

static void pool_back_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_pool_rows_backward_scalars *s = call->scalars;
    const bp_pool_rows_backward_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width, sequence = (uint64_t)s->sequence;
    for (uint64_t b = first; b < last; b++) {
        const pool_share share = pool_share_of(s->mode, p->lengths, b, s->sequence);
        const uint64_t place = ((const bp_step_block *)p->step)->sample + b;
        const float *d_y = (const float *)p->d_y + place * width;
        bp_element *d_x = (bp_element *)p->d_x + b * sequence * width;
        memset(d_x, 0, sequence * width * sizeof *d_x);
        for (uint64_t t = share.first; place < (uint64_t)s->total && t < share.last; t++) {
            const float weight = share.weighted ? (float)(t + 1) : 1.0f;
            for (uint64_t i = 0; i < width; i++) {
                bp_put(d_x, t * width + i, d_y[i] * weight / share.divisor);
            }
        }
    }
}

const bp_host_kernel BP_BUILT(bp_host_pool_rows) = {pool_tasks, pool_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_pool_rows_backward) = {pool_back_tasks, pool_back_run, NULL};
