/* SPDX-License-Identifier: MIT */
/* RMS normalisation and rotary positions, written once and compiled for every form: plain C in
 * blocks of 16 lanes, which a compiler turns into vectors without changing an operation. Included
 * once per form, which defines BP_PLAIN(name). */
#include "device/host/elements/plain.h"

/* Where head number `task` of rows of `heads` heads begins. */
static inline uint64_t head_at(uint64_t task, uint64_t heads, uint64_t width, uint64_t pitch)
{
    return heads == 1 ? task * pitch : task / heads * pitch + task % heads * width;
}

static uint64_t rmsnorm_forward_tasks(const void *scalars)
{
    const bp_rmsnorm_forward_scalars *s = scalars;
    return (uint64_t)(s->rows * s->heads);
}

/* 1 / sqrt(mean(x^2) + epsilon), the squares by fused multiply-add. */
static float row_rms(const bp_element *x, uint64_t width, float epsilon)
{
    float lane[BP_LANES] = {0.0f};
    for (uint64_t i = 0; i < width; i += BP_LANES) {
        bp_plain_block v = bp_plain_load(x + i, bp_least(width - i, BP_LANES));
        for (int l = 0; l < BP_LANES; l++) {
            lane[l] = fmaf(v.lane[l], v.lane[l], lane[l]);
        }
    }
    return 1.0f / sqrtf(bp_lanes_sum(lane) / (float)width + epsilon);
}

/* A block of a norm's weights. */
static inline bp_plain_block rms_weights(const bp_element *weight, uint64_t count, bool offset)
{
    bp_plain_block w = bp_plain_load(weight, count);
    for (int l = 0; offset && l < BP_LANES; l++) {
        w.lane[l] += 1.0f;
    }
    return w;
}

/* A task is a head of a row. y = (x * rstd) * weight. */
static void rmsnorm_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                uint32_t worker)
{
    (void)worker;
    const bp_rmsnorm_forward_scalars *s = call->scalars;
    const bp_rmsnorm_forward_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    for (uint64_t row = first; row < last; row++) {
        const uint64_t at = head_at(row, (uint64_t)s->heads, width, (uint64_t)s->pitch);
        const bp_element *x = (const bp_element *)p->x + at;
        bp_element *y = (bp_element *)p->y + at;
        float rstd = row_rms(x, width, (float)s->epsilon);
        bp_plain_block v, w;
        for (uint64_t i = 0; i < width; i += BP_LANES) {
            uint64_t count = bp_least(width - i, BP_LANES);
            v = bp_plain_load(x + i, count);
            w = rms_weights((const bp_element *)p->weight + i, count, s->offset != 0);
            for (int l = 0; l < BP_LANES; l++) {
                v.lane[l] = (v.lane[l] * rstd) * w.lane[l];
            }
            bp_plain_store(y + i, count, &v);
        }
        if (p->rstd != NULL) {
            ((float *)p->rstd)[row] = rstd;
        }
    }
}

static uint64_t rmsnorm_input_tasks(const void *scalars)
{
    const bp_rmsnorm_backward_input_scalars *s = scalars;
    return (uint64_t)(s->rows * s->heads);
}

/* One row's operands. */
typedef struct rms_row {
    const bp_element *d_y;
    const bp_element *x;
    const bp_element *weight;
    const bp_element *residual; /* or NULL */
    bp_element *d_x;
    uint64_t width;
    float rstd;
    bool offset;
} rms_row;

/* g = d_y * weight and h = x * rstd of a block; lanes beyond count are 0. */
static inline void rms_block(const rms_row *r, uint64_t i, uint64_t count, bp_plain_block *g,
                             bp_plain_block *h)
{
    *g = bp_plain_load(r->d_y + i, count);
    *h = bp_plain_load(r->x + i, count);
    bp_plain_block w = rms_weights(r->weight + i, count, r->offset);
    for (int l = 0; l < BP_LANES; l++) {
        g->lane[l] *= w.lane[l];
        h->lane[l] *= r->rstd;
    }
}

/* With b = sum g h / width (fused lanes): t = fma(-h, b, g); d_x = fma(rstd, t, residual), or rstd
 * * t without a residual. d_x may be d_y or residual: a row is summed before it is written. */
static void rms_input_row(const rms_row *r)
{
    float lane[BP_LANES] = {0.0f};
    bp_plain_block g, h;
    for (uint64_t i = 0; i < r->width; i += BP_LANES) {
        rms_block(r, i, bp_least(r->width - i, BP_LANES), &g, &h);
        for (int l = 0; l < BP_LANES; l++) {
            lane[l] = fmaf(g.lane[l], h.lane[l], lane[l]);
        }
    }
    float b = bp_lanes_sum(lane) / (float)r->width;
    for (uint64_t i = 0; i < r->width; i += BP_LANES) {
        uint64_t count = bp_least(r->width - i, BP_LANES);
        rms_block(r, i, count, &g, &h);
        for (int l = 0; l < BP_LANES; l++) {
            g.lane[l] = fmaf(-h.lane[l], b, g.lane[l]);
        }
        if (r->residual != NULL) {
            h = bp_plain_load(r->residual + i, count);
            for (int l = 0; l < BP_LANES; l++) {
                g.lane[l] = fmaf(r->rstd, g.lane[l], h.lane[l]);
            }
        } else {
            for (int l = 0; l < BP_LANES; l++) {
                g.lane[l] = r->rstd * g.lane[l];
            }
        }
        bp_plain_store(r->d_x + i, count, &g);
    }
}

static void rmsnorm_input_run(const bp_host_call *call, uint64_t first, uint64_t last,
                              uint32_t worker)
{
    (void)worker;
    const bp_rmsnorm_backward_input_scalars *s = call->scalars;
    const bp_rmsnorm_backward_input_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    for (uint64_t row = first; row < last; row++) {
        const uint64_t at = head_at(row, (uint64_t)s->heads, width, (uint64_t)s->pitch);
        rms_row r = {.d_y = (const bp_element *)p->d_y + at,
                     .x = (const bp_element *)p->x + at,
                     .weight = p->weight,
                     .residual = p->residual != NULL ? (const bp_element *)p->residual + at : NULL,
                     .d_x = (bp_element *)p->d_x + at,
                     .width = width,
                     .rstd = ((const float *)p->rstd)[row],
                     .offset = s->offset != 0};
        rms_input_row(&r);
    }
}

static uint64_t rmsnorm_weight_tasks(const void *scalars)
{
    const bp_rmsnorm_backward_weight_scalars *s = scalars;
    return bp_cut(s->width, BP_LANES);
}

/* A task is a block of columns: d_weight = fma(d_y, x * rstd, d_weight), row after row. */
static void rmsnorm_weight_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_rmsnorm_backward_weight_scalars *s = call->scalars;
    const bp_rmsnorm_backward_weight_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width;
    const float *rstd = p->rstd;
    bp_dtype type = bp_call_type(call, BP_OPERAND(rmsnorm_backward_weight, d_weight));
    for (uint64_t task = first; task < last; task++) {
        uint64_t column = task * BP_LANES;
        uint64_t count = bp_least(width - column, BP_LANES);
        bp_plain_block sum = {{0.0f}};
        for (uint64_t l = 0; l < count && s->accumulate != 0; l++) {
            sum.lane[l] = bp_element_load(p->d_weight, column + l, type);
        }
        for (uint64_t row = 0; row < (uint64_t)(s->rows * s->heads); row++) {
            const uint64_t at =
                head_at(row, (uint64_t)s->heads, width, (uint64_t)s->pitch) + column;
            bp_plain_block d = bp_plain_load((const bp_element *)p->d_y + at, count);
            bp_plain_block x = bp_plain_load((const bp_element *)p->x + at, count);
            for (int l = 0; l < BP_LANES; l++) {
                sum.lane[l] = fmaf(d.lane[l], x.lane[l] * rstd[row], sum.lane[l]);
            }
        }
        for (uint64_t l = 0; l < count; l++) {
            bp_element_store(p->d_weight, column + l, sum.lane[l], type);
        }
    }
}

static uint64_t rotary_tasks(const void *scalars)
{
    const bp_rotary_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* a' = fma(a, cos, -(b sin)), b' = fma(b, cos, a sin) for `count` pairs (a[i], b[i]); back with the
 * sines' signs changed. */
static void rotate(bp_element *a, bp_element *b, const float *cosine, const float *sine,
                   uint64_t half, float sign)
{
    for (uint64_t i = 0; i < half; i += BP_LANES) {
        uint64_t count = bp_least(half - i, BP_LANES);
        bp_plain_block x = bp_plain_load(a + i, count), y = bp_plain_load(b + i, count);
        bp_plain_block c = {{0.0f}}, s = c, u, v;
        memcpy(c.lane, cosine + i, count * sizeof(float));
        memcpy(s.lane, sine + i, count * sizeof(float));
        for (int l = 0; l < BP_LANES; l++) {
            float turned = s.lane[l] * sign;
            u.lane[l] = fmaf(x.lane[l], c.lane[l], -(y.lane[l] * turned));
            v.lane[l] = fmaf(y.lane[l], c.lane[l], x.lane[l] * turned);
        }
        bp_plain_store(a + i, count, &u);
        bp_plain_store(b + i, count, &v);
    }
}

/* The same for `half` pairs that lie side by side: a[i] is x[2 * i], b[i] is behind it. */
static void rotate_neighbours(bp_element *x, const float *cosine, const float *sine, uint64_t half,
                              float sign)
{
    for (uint64_t i = 0; i < half; i += BP_LANES / 2) {
        uint64_t count = bp_least(half - i, BP_LANES / 2);
        bp_plain_block v = bp_plain_load(x + 2 * i, 2 * count);
        for (uint64_t l = 0; l < count; l++) {
            float a = v.lane[2 * l], b = v.lane[2 * l + 1], turned = sine[i + l] * sign;
            v.lane[2 * l] = fmaf(a, cosine[i + l], -(b * turned));
            v.lane[2 * l + 1] = fmaf(b, cosine[i + l], a * turned);
        }
        bp_plain_store(x + 2 * i, 2 * count, &v);
    }
}

/* A task is a row. */
static void rotary_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_rotary_scalars *s = call->scalars;
    const bp_rotary_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->width, half = width / 2;
    float sign = s->inverse != 0 ? -1.0f : 1.0f;
    for (uint64_t row = first; row < last; row++) {
        bp_element *x = (bp_element *)p->x + row * (uint64_t)s->pitch;
        const bool far = s->second != 0 && p->extents != NULL &&
                         ((const int32_t *)p->extents)[row] > s->original;
        const uint64_t place = row % (uint64_t)s->sequence + (far ? (uint64_t)s->sequence : 0);
        const float *angles = (const float *)p->table + place * width;
        for (uint64_t head = 0; head < (uint64_t)s->heads; head++, x += s->apart) {
            if (s->neighbours != 0) {
                rotate_neighbours(x, angles, angles + half, half, sign);
            } else {
                rotate(x, x + half, angles, angles + half, half, sign);
            }
        }
    }
}

const bp_host_kernel BP_PLAIN(rmsnorm_forward) = {rmsnorm_forward_tasks, rmsnorm_forward_run, NULL};
const bp_host_kernel BP_PLAIN(rmsnorm_backward_input) = {rmsnorm_input_tasks, rmsnorm_input_run,
                                                         NULL};
const bp_host_kernel BP_PLAIN(rmsnorm_backward_weight) = {rmsnorm_weight_tasks, rmsnorm_weight_run,
                                                          NULL};
const bp_host_kernel BP_PLAIN(rotary) = {rotary_tasks, rotary_run, NULL};
