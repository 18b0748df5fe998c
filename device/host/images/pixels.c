/* SPDX-License-Identifier: MIT */
/* Bytes of images become numbers. */
#include "device/host/kernel.h"

#define PIXELS_EACH 4096 /* of a task */

static uint64_t pixels_tasks(const void *scalars)
{
    const bp_pixels_scalars *s = scalars;
    return bp_size_ceil_div((uint64_t)s->count, PIXELS_EACH);
}

static void pixels_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_pixels_scalars *s = call->scalars;
    const bp_pixels_pointers *p = call->pointers;
    const float mean[] = {(float)s->mean0, (float)s->mean1, (float)s->mean2, (float)s->mean3};
    const float std[] = {(float)s->std0, (float)s->std1, (float)s->std2, (float)s->std3};
    const uint8_t *x = (const uint8_t *)p->x + s->first;
    float *y = p->y;
    uint64_t end = last * PIXELS_EACH;
    end = end < (uint64_t)s->count ? end : (uint64_t)s->count;
    for (uint64_t i = first * PIXELS_EACH; i < end; i++) {
        const uint64_t c = ((uint64_t)s->first + i) % (uint64_t)s->channels;
        y[i] = ((float)((double)x[i] * s->factor) - mean[c]) / std[c];
    }
}

const bp_host_kernel bp_host_pixels = {pixels_tasks, pixels_run, NULL};
