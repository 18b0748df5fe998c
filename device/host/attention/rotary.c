/* SPDX-License-Identifier: MIT */
/* The table of rotary positions. */
#include "core/base/math.h"
#include "core/ir/step.h"
#include "device/host/kernel.h"
#include "device/host/vector/lanes.h"

#define TURN 0x1.921fb54442d18p+2 /* 2 pi */

static uint64_t table_tasks(const void *scalars)
{
    const bp_rotary_table_scalars *s = scalars;
    return (uint64_t)s->width / 2;
}

/* Frequency i as kernels.def says, in f32: the reference code's float is what models were trained
 * with. */
static float frequency(const bp_rotary_table_scalars *s, uint64_t i)
{
    float power = (float)bp_pow(s->theta, 2.0 * (double)i / (double)s->width);
    float f = 1.0f / power;
    if (s->factor <= 0.0) {
        return f;
    }
    double wavelength = TURN / (double)f;
    if (wavelength > s->original / s->low) {
        return (float)((double)f / s->factor);
    }
    if (wavelength < s->original / s->high) {
        return f;
    }
    double smooth = (s->original / wavelength - s->low) / (s->high - s->low);
    return (float)((1.0 - smooth) * (double)f / s->factor + smooth * (double)f);
}

/* A task is a frequency: a column of cosines and one of sines. */
static void table_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_rotary_table_scalars *s = call->scalars;
    const bp_rotary_table_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    uint64_t start = (uint64_t)s->first;
    start += s->decode != 0 ? ((const bp_step_block *)p->step)->position : 0;
    for (uint64_t i = first; i < last; i++) {
        float f = frequency(s, i);
        float *cosine = (float *)p->table + i, *sine = cosine + width / 2;
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            float angle = (float)(start + row) * f;
            cosine[row * width] = (float)bp_cos((double)angle);
            sine[row * width] = (float)bp_sin((double)angle);
        }
    }
}

const bp_host_kernel bp_host_rotary_table = {table_tasks, table_run, NULL};

static uint64_t angles_tasks(const void *scalars)
{
    const bp_rotary_angles_scalars *s = scalars;
    return (uint64_t)s->count;
}

/* A task is a frequency, as above. */
static void angles_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_rotary_angles_scalars *s = call->scalars;
    const bp_rotary_angles_pointers *p = call->pointers;
    const double frequencies[] = {s->f0, s->f1, s->f2, s->f3, s->f4, s->f5, s->f6, s->f7};
    uint64_t start = (uint64_t)s->first;
    start += s->decode != 0 ? ((const bp_step_block *)p->step)->position : 0;
    for (uint64_t i = first; i < last; i++) {
        const float f = (float)frequencies[i], magnitude = (float)s->magnitude;
        float *cosine = (float *)p->cosines + i, *sine = (float *)p->sines + i;
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            float angle = (float)(start + row) * f;
            cosine[row * (uint64_t)s->width] = (float)bp_cos((double)angle) * magnitude;
            sine[row * (uint64_t)s->width] = (float)bp_sin((double)angle) * magnitude;
        }
    }
}

const bp_host_kernel bp_host_rotary_angles = {angles_tasks, angles_run, NULL};
