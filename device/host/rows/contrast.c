/* SPDX-License-Identifier: MIT */
/* Vectors of length 1, and the loss that compares them. Products make most of the work, so that
 * there is the plain form only. */
#include <math.h>

#include "core/base/math.h"
#include "core/ir/step.h"
#include "device/host/kernel.h"

#define UNIT_LEAST 1e-12

/* Where sample r of x lies in y, and whether it is there. */
typedef struct unit_place {
    uint64_t row;
    bool there;
} unit_place;

static unit_place unit_place_of(const bp_unit_rows_scalars *s, const bp_step_block *step,
                                uint64_t r)
{
    const uint64_t texts = (uint64_t)s->texts;
    return (unit_place){r % texts * (uint64_t)s->pairs + r / texts, r < step->samples};
}

/* A task is a sample; both rows have the same scalars. */
static uint64_t unit_tasks(const void *scalars)
{
    const bp_unit_rows_scalars *s = scalars;
    return (uint64_t)(s->pairs * s->texts);
}

static void unit_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_unit_rows_scalars *s = call->scalars;
    const bp_unit_rows_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        const unit_place at = unit_place_of(s, p->step, r);
        const float *x = (const float *)p->x + r * width;
        float *y = (float *)p->y + at.row * width;
        double square = 0.0;
        for (uint64_t i = 0; at.there && i < width; i++) {
            square += (double)x[i] * (double)x[i];
        }
        const double root = sqrt(square);
        const float norm = !at.there ? 1.0f : (float)(root > UNIT_LEAST ? root : UNIT_LEAST);
        ((float *)p->norms)[at.row] = norm;
        for (uint64_t i = 0; i < width; i++) {
            y[i] = at.there ? x[i] / norm : 0.0f;
        }
    }
}

static void unit_back_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_unit_rows_scalars *s = call->scalars;
    const bp_unit_rows_backward_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width;
    for (uint64_t r = first; r < last; r++) {
        const unit_place at = unit_place_of(s, p->step, r);
        const float *y = (const float *)p->y + at.row * width;
        const float *d_y = (const float *)p->d_y + at.row * width;
        const float norm = ((const float *)p->norms)[at.row];
        float *d_x = (float *)p->d_x + r * width;
        double along = 0.0;
        for (uint64_t i = 0; at.there && i < width; i++) {
            along += (double)y[i] * (double)d_y[i];
        }
        for (uint64_t i = 0; i < width; i++) {
            d_x[i] = at.there ? (d_y[i] - y[i] * (float)along) / norm : 0.0f;
        }
    }
}

static uint64_t contrast_tasks(const void *scalars)
{
    const bp_contrast_loss_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* One anchor. x (kinds, pairs) are its cosines, of which the first `there` of each kind count; they
 * become their gradient. */
static float contrast_one(const bp_contrast_loss_scalars *s, float *x, uint64_t there, uint64_t own,
                          float weight)
{
    const uint64_t pairs = (uint64_t)s->pairs, all = pairs * (uint64_t)s->kinds;
    const float scale = (float)s->scale;
    float most = -INFINITY;
    double sum = 0.0;
    for (uint64_t c = 0; c < all; c++) {
        const float value = x[c] * scale;
        most = c % pairs < there && value > most ? value : most;
    }
    const float target = x[own] * scale;
    for (uint64_t c = 0; c < all; c++) {
        x[c] = c % pairs < there ? bp_expf(x[c] * scale - most) : 0.0f;
        sum += (double)x[c];
    }
    /* In double: where the own one is by far the likeliest, 1 - softmax is what counts. */
    const double inverse = 1.0 / sum;
    for (uint64_t c = 0; c < all; c++) {
        const double part = c == own ? (double)x[c] - sum : (double)x[c];
        x[c] = (float)(part * inverse) * scale * weight;
    }
    return (float)((double)most - (double)target + bp_log(sum));
}

static void contrast_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_contrast_loss_scalars *s = call->scalars;
    const bp_contrast_loss_pointers *p = call->pointers;
    const uint64_t columns = (uint64_t)(s->pairs * s->kinds);
    const uint64_t there = ((const bp_step_block *)p->step)->samples / (uint64_t)(s->kinds + 1);
    const float weight = bp_loss_weight(p->step, p->control, s->scaled);
    for (uint64_t r = first; r < last; r++) {
        const uint64_t own = (uint64_t)s->first + r;
        float *x = (float *)p->scores + r * columns;
        float *loss = (float *)p->losses + r;
        *loss = 0.0f;
        if (own < there) {
            *loss = contrast_one(s, x, there, own, weight);
        }
        for (uint64_t c = 0; own >= there && c < columns; c++) {
            x[c] = 0.0f;
        }
    }
}

const bp_host_kernel bp_host_unit_rows = {unit_tasks, unit_run, NULL};
const bp_host_kernel bp_host_unit_rows_backward = {unit_tasks, unit_back_run, NULL};
const bp_host_kernel bp_host_contrast_loss = {contrast_tasks, contrast_run, NULL};
