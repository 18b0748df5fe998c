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

/* ---- Images and texts ---- */

/* Of a line of l, `stride` apart: the largest, and the sum of exp(l - largest). */
typedef struct pair_line {
    double most, sum;
} pair_line;

static pair_line pair_line_of(const float *x, uint64_t there, uint64_t stride, double scale)
{
    pair_line line = {-(double)INFINITY, 0.0};
    for (uint64_t c = 0; c < there; c++) {
        const float kept = (float)(scale * (double)x[c * stride]);
        const double value = (double)kept;
        line.most = value > line.most ? value : line.most;
    }
    for (uint64_t c = 0; c < there; c++) {
        line.sum += bp_exp(scale * (double)x[c * stride] - line.most);
    }
    return line;
}

static void pair_line_keep(float *to, pair_line line)
{
    to[0] = (float)line.most;
    to[1] = (float)line.sum;
    to[2] = (float)(line.sum - (double)to[1]);
}

static double pair_share(const float *line, double value)
{
    return bp_exp(value - (double)line[0]) / ((double)line[1] + (double)line[2]);
}

static double pair_log(const float *line)
{
    return (double)line[0] + bp_log((double)line[1] + (double)line[2]);
}

/* What l[r, c] adds to the loss of row r, and *d, the loss's derivative by it. */
static double pair_sigmoid(double value, bool own, double *d)
{
    const double z = own ? 1.0 : -1.0, u = -z * value;
    const double e = bp_exp(u > 0.0 ? -u : u);
    *d = -z * (u > 0.0 ? 1.0 : e) / (1.0 + e);
    return (u > 0.0 ? u : 0.0) + bp_log(1.0 + e);
}

/* Row r, whose scores become derivatives by l; returns its loss. */
static double pair_loss_row(const bp_pair_loss_scalars *s, const bp_pair_loss_pointers *p,
                            uint64_t r, uint64_t there, const double linear[2], double sums[2])
{
    const uint64_t pairs = (uint64_t)s->pairs;
    const float *lines = p->lines;
    float *x = (float *)p->scores + r * pairs;
    double loss = 0.0;
    for (uint64_t c = 0; c < there; c++) {
        const double inner = linear[0] * (double)x[c];
        double d;
        if (s->sigmoid) {
            loss += pair_sigmoid(inner + linear[1], c == r, &d);
        } else {
            d = 0.5 * (pair_share(lines + 3 * r, inner) +
                       pair_share(lines + 3 * (pairs + c), inner)) -
                (c == r ? 1.0 : 0.0);
            loss +=
                c == r ? 0.5 * (pair_log(lines + 3 * r) + pair_log(lines + 3 * (pairs + r))) - inner
                       : 0.0;
        }
        sums[0] += d * inner;
        sums[1] += d;
        x[c] = (float)d;
    }
    return loss;
}

static uint64_t pair_tasks(const void *scalars)
{
    (void)scalars;
    return 1; /* products before it are nearly all of the work */
}

static void pair_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_pair_loss_scalars *s = call->scalars;
    const bp_pair_loss_pointers *p = call->pointers;
    const bp_step_block *step = p->step;
    const uint64_t pairs = (uint64_t)s->pairs;
    const uint64_t left = step->samples > step->sample ? step->samples - step->sample : 0;
    const uint64_t there = left < pairs ? left : pairs;
    const double linear[2] = {bp_exp((double)((const float *)p->scale)[0]),
                              p->bias != NULL ? (double)((const float *)p->bias)[0] : 0.0};
    const double weight = (double)bp_loss_weight(p->step, p->control, s->scaled);
    float *x = p->scores, *lines = p->lines, *losses = p->losses, *total = p->sums;
    double sums[2] = {0.0, 0.0};
    (void)first;
    (void)last;
    (void)worker;
    for (uint64_t r = 0; r < pairs; r++) {
        const uint64_t count = r < there ? there : 0;
        pair_line_keep(lines + 3 * r, pair_line_of(x + r * pairs, count, 1, linear[0]));
        pair_line_keep(lines + 3 * (pairs + r), pair_line_of(x + r, count, pairs, linear[0]));
    }
    for (uint64_t r = 0; r < pairs; r++) {
        const uint64_t count = r < there ? there : 0;
        losses[r] = (float)pair_loss_row(s, p, r, count, linear, sums);
        for (uint64_t c = 0; c < pairs; c++) {
            float *d = x + r * pairs + c;
            *d = c < count ? (float)((double)*d * linear[0] * weight) : 0.0f;
        }
    }
    total[0] = (float)(sums[0] * weight);
    total[1] = (float)(sums[1] * weight);
}

const bp_host_kernel bp_host_pair_loss = {pair_tasks, pair_run, NULL};
const bp_host_kernel bp_host_unit_rows = {unit_tasks, unit_run, NULL};
const bp_host_kernel bp_host_unit_rows_backward = {unit_tasks, unit_back_run, NULL};
const bp_host_kernel bp_host_contrast_loss = {contrast_tasks, contrast_run, NULL};
