/* SPDX-License-Identifier: MIT */
/* Attention, forward and backward, one row of scores at a time; plain form.
 *
 * Softmax attention of Vaswani et al. (arXiv 1706.03762), query heads in groups as in Ainslie et
 * al. (arXiv 2305.13245); backward recomputes the probabilities from the log-sum-exp as in Dao et
 * al. (arXiv 2205.14135), so nothing of size T x T is kept. */
#include "device/host/attention/attention.h"

#include "core/base/math.h"
#include "core/base/math_inline.h"

/* One head of one sample: where its rows lie, in elements. */
typedef struct head {
    const bp_attention_shape *s;
    const void *qkv;
    uint64_t q; /* in s->q, row t at t * s->q_row */
    uint64_t k; /* in qkv, row t at t * s->row, as v */
    uint64_t v;
    uint64_t number; /* of the query head: keys dropout */
    uint64_t keys;
    bp_mask mask;
} head;

static head head_make(const bp_attention_shape *s, const void *qkv, uint64_t sample,
                      uint64_t number)
{
    return (head){.s = s,
                  .qkv = qkv,
                  .q = bp_attention_q(s, sample, number),
                  .k = bp_attention_k(s, sample, number / s->group),
                  .v = bp_attention_v(s, sample, number / s->group),
                  .number = number,
                  .keys = bp_attention_keys(s, sample),
                  .mask = bp_attention_mask(s, sample)};
}

static float attention_at(const head *h, uint64_t first, uint64_t row, uint64_t d)
{
    return bp_element_load(h->qkv, first + row * h->s->row + d, h->s->type);
}

static float attention_query(const head *h, uint64_t row, uint64_t d)
{
    return bp_element_load(h->s->q, h->q + row * h->s->q_row + d, h->s->type);
}

/* score = (q . k, fused, in order of the elements) * scale, for a row's keys from its first on;
 * under a cap `slope` gets what their gradients are multiplied by; a distance's number is added
 * last. */
static void row_scores(const head *h, uint64_t i, bp_attention_span keys, float *score,
                       float *slope)
{
    for (uint64_t j = keys.first; j < keys.last; j++) {
        const uint64_t n = j - keys.first;
        float dot = 0.0f;
        for (uint64_t d = 0; d < h->s->width; d++) {
            dot = fmaf(attention_query(h, i, d), attention_at(h, h->k, j, d), dot);
        }
        score[n] = dot * h->s->scale;
        if (h->s->cap > 0.0f) {
            score[n] = bp_attention_capped(score[n], h->s->cap, &slope[n]);
        }
        if (h->s->bias != NULL) {
            score[n] += h->s->bias[bp_attention_distance(h->s, h->number, i, j)];
        }
    }
}

/* Scores become probabilities e * (1 / sum), e = exp(score - max), the sum in lanes from the first
 * key; returns max + log(sum), 0 without keys. */
static float row_softmax(float *score, uint64_t count)
{
    float most = bp_row_max(score, count);
    float lane[BP_LANES] = {0.0f};
    if (count == 0) {
        return 0.0f;
    }
    for (uint64_t j = 0; j < count; j++) {
        score[j] = bp_expf_inline(score[j] - most);
        lane[j % BP_LANES] += score[j];
    }
    float sum = bp_lanes_sum(lane);
    float inverse = 1.0f / sum;
    for (uint64_t j = 0; j < count; j++) {
        score[j] *= inverse;
    }
    return most + bp_logf(sum);
}

/* out = sum over keys, in order, of p_j v_j, fused. */
static void row_output(const head *h, const float *p, bp_attention_span keys, void *out,
                       uint64_t place)
{
    for (uint64_t d = 0; d < h->s->width; d++) {
        float sum = 0.0f;
        for (uint64_t j = keys.first; j < keys.last; j++) {
            sum = fmaf(p[j - keys.first], attention_at(h, h->v, j, d), sum);
        }
        bp_element_store(out, place + d, sum, h->s->type);
    }
}

/* Masks of row i and its keys; the dropout element is (head * T + i) * T + j. */
static void row_mask(const head *h, uint64_t i, bp_attention_span keys, float *factor)
{
    bp_mask_fill(&h->mask, bp_attention_element(h->s, h->number, i) + keys.first,
                 keys.last - keys.first, factor);
}

static void forward_row(const head *h, uint64_t i, float *score, void *out, uint64_t place,
                        float *lse)
{
    const bp_attention_span keys = bp_attention_span_of(h->s, h->keys, i);
    const uint64_t count = keys.last - keys.first;
    float *factor = score + h->s->pitch;
    row_scores(h, i, keys, score, factor);
    float row_lse = row_softmax(score, count);
    if (lse != NULL) {
        lse[i] = row_lse;
    }
    if (h->s->dropout > 0.0) {
        row_mask(h, i, keys, factor);
        for (uint64_t j = 0; j < count; j++) {
            score[j] *= factor[j];
        }
    }
    row_output(h, score, keys, out, place);
}

static void forward_over(const bp_host_call *call, const bp_attention_shape *of, uint64_t first,
                         uint64_t last, uint32_t worker)
{
    const bp_attention_forward_pointers *p = call->pointers;
    const bp_attention_shape s = *of;
    uint64_t blocks = bp_cut((int64_t)s.queries, BP_ATTENTION_QUERIES);
    float *score = bp_worker_part(p->work, bp_attention_forward_plain, call, worker);
    for (uint64_t task = first; task < last; task++) {
        uint64_t sample = task / blocks / s.heads, number = task / blocks % s.heads;
        head h = head_make(&s, p->qkv, sample, number);
        uint64_t out = bp_attention_out(&s, sample, number);
        float *lse = p->lse != NULL ? (float *)p->lse + task / blocks * s.queries : NULL;
        uint64_t row = task % blocks * BP_ATTENTION_QUERIES;
        uint64_t end = bp_least(s.queries, row + BP_ATTENTION_QUERIES);
        for (; row < end; row++) {
            forward_row(&h, row, score, p->out, out + row * s.heads * s.width, lse);
        }
    }
}

static void attention_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    const bp_attention_shape s = bp_attention_forward_shape(call);
    forward_over(call, &s, first, last, worker);
}

/* The gradients of one query head, and what they come from. */
typedef struct head_gradient {
    void *d_qkv;
    const void *d_out; /* the row's part of these at out_place */
    const void *out;
    uint64_t out_place;
    const float *lse;
    float *d_q; /* (D) */
    float *d_k; /* (T, D; key_pitch), as the next: of the key-value head */
    float *d_v;
    uint64_t key_pitch;
    float *d_bias;      /* by distance; NULL: nobody wants them */
    const float *delta; /* of row t at t * heads; NULL: it is found of out */
} head_gradient;

static float of_out(const head *h, const head_gradient *g, const void *x, uint64_t d)
{
    return bp_element_load(x, g->out_place + d, h->s->type);
}

/* Row i and key j: with p_j = exp(score_j - lse) and mask f_j,
 *   d_v_j = fma(p_j * f_j, d_out_i, d_v_j);
 *   delta = d_out_i . out_i, fused, in order;
 *   d_p_j = (d_out_i . v_j, fused, in order) * f_j;
 *   ds_j = (p_j * (d_p_j - delta)) * scale, under a cap times 1 - (score_j / cap)^2 before scale,
 *   and what comes before both is added to the distance's gradient;
 *   d_q_i = fma(ds_j, k_j, d_q_i) for j in order;  d_k_j = fma(ds_j, q_i, d_k_j).
 * Rows come in order, which orders the sums of d_k and d_v. */
static void backward_key(const head *h, const head_gradient *g, uint64_t i, uint64_t j, float delta)
{
    uint64_t width = h->s->width;
    float *d_k = g->d_k + j * g->key_pitch, *d_v = g->d_v + j * g->key_pitch;
    float score, slope = 1.0f, factor = 1.0f, d_p = 0.0f;
    row_scores(h, i, (bp_attention_span){j, j + 1}, &score, &slope);
    if (h->s->dropout > 0.0) {
        row_mask(h, i, (bp_attention_span){j, j + 1}, &factor);
    }
    float p = bp_expf_inline(score - g->lse[i]);
    float kept = p * factor;
    for (uint64_t d = 0; d < width; d++) {
        float d_out = of_out(h, g, g->d_out, d);
        d_v[d] = fmaf(kept, d_out, d_v[d]);
        d_p = fmaf(d_out, attention_at(h, h->v, j, d), d_p);
    }
    float ds = p * (d_p * factor - delta);
    if (g->d_bias != NULL) {
        g->d_bias[h->s->sequence + j - i] += ds;
    }
    ds = (h->s->cap > 0.0f ? ds * slope : ds) * h->s->scale;
    for (uint64_t d = 0; d < width; d++) {
        g->d_q[d] = fmaf(ds, attention_at(h, h->k, j, d), g->d_q[d]);
        d_k[d] = fmaf(ds, attention_query(h, i, d), d_k[d]);
    }
}

static void backward_row(const head *h, const head_gradient *g, uint64_t i)
{
    const bp_attention_span keys = bp_attention_span_of(h->s, h->keys, i);
    uint64_t width = h->s->width;
    float delta = g->delta != NULL ? g->delta[i * h->s->heads] : 0.0f;
    for (uint64_t d = 0; d < width; d++) {
        if (g->delta == NULL) {
            delta = fmaf(of_out(h, g, g->d_out, d), of_out(h, g, g->out, d), delta);
        }
        g->d_q[d] = 0.0f;
    }
    for (uint64_t j = keys.first; j < keys.last; j++) {
        backward_key(h, g, i, j, delta);
    }
    for (uint64_t d = 0; d < width; d++) {
        bp_element_store(h->s->d_q, h->q + i * h->s->q_row + d, g->d_q[d], h->s->type);
    }
}

/* What a head's gradients by key go on from: 0, or those of the heads before plus 0. */
static void begin_head(const head *h, const head_gradient *g, bool first)
{
    if (g->d_bias != NULL) {
        memset(g->d_bias, 0, 2 * h->s->sequence * sizeof(float));
    }
    for (uint64_t t = 0; t < h->s->sequence; t++) {
        for (uint64_t i = t * g->key_pitch; i < t * g->key_pitch + h->s->width; i++) {
            g->d_k[i] = first ? 0.0f : g->d_k[i] + 0.0f;
            g->d_v[i] = first ? 0.0f : g->d_v[i] + 0.0f;
        }
    }
}

/* Gradients by key that are not apart were formed where they belong. */
static void store_keys(const head *h, const head_gradient *g)
{
    uint64_t width = h->s->width;
    for (uint64_t t = 0; t < h->s->sequence && bp_attention_apart(h->s); t++) {
        for (uint64_t d = 0; d < width; d++) {
            uint64_t place = t * h->s->row + d;
            bp_element_store(g->d_qkv, h->k + place, g->d_k[t * width + d], h->s->type);
            bp_element_store(g->d_qkv, h->v + place, g->d_v[t * width + d], h->s->type);
        }
    }
}

/* A task is a key-value head with its group of query heads. */
static void backward_over(const bp_host_call *call, const bp_attention_shape *of, uint64_t first,
                          uint64_t last, uint32_t worker)
{
    const bp_attention_backward_pointers *p = call->pointers;
    const bp_attention_shape s = *of;
    float *work = bp_worker_part(p->work, bp_attention_backward_plain, call, worker);
    float *d_k = work + s.width;
    head_gradient g = {.d_qkv = p->d_qkv,
                       .d_out = p->d_out,
                       .out = p->out,
                       .d_q = work,
                       .d_k = d_k,
                       .d_v = d_k + s.sequence * s.width,
                       .key_pitch = bp_attention_apart(&s) ? s.width : s.row};
    for (uint64_t task = first; task < last; task++) {
        uint64_t sample = task / s.kv_heads, number = task % s.kv_heads * s.group;
        for (uint64_t i = 0; i < s.group; i++) {
            const head h = head_make(&s, p->qkv, sample, number + i);
            if (!bp_attention_apart(&s)) {
                g.d_k = (float *)p->d_qkv + h.k;
                g.d_v = (float *)p->d_qkv + h.v;
            }
            g.out_place = bp_attention_out(&s, sample, number + i);
            g.lse = (const float *)p->lse + (sample * s.heads + number + i) * s.queries;
            g.d_bias = bp_attention_d_bias(&s, sample, number + i);
            g.delta = bp_attention_deltas_of(&s, sample, number + i);
            begin_head(&h, &g, i == 0);
            for (uint64_t row = 0; row < s.queries; row++) {
                backward_row(&h, &g, row);
                g.out_place += s.heads * s.width;
            }
            if (i + 1 == s.group) {
                store_keys(&h, &g);
            }
        }
    }
}

static void attention_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                   uint32_t worker)
{
    const bp_attention_shape s = bp_attention_backward_shape(call);
    backward_over(call, &s, first, last, worker);
}

const bp_host_kernel bp_host_attention_forward = {bp_attention_forward_tasks, attention_forward_run,
                                                  bp_attention_forward_plain};
const bp_host_kernel bp_host_attention_backward = {
    bp_attention_backward_tasks, attention_backward_run, bp_attention_backward_plain};

#define BP_PACKED(name)       bp_host_##name
#define BP_PACKED_BYTES(name) bp_##name##_plain
#include "device/host/attention/attention_packed.h"

#define BP_CROSS(name)       bp_host_##name
#define BP_CROSS_BYTES(name) bp_##name##_plain
#include "device/host/attention/attention_cross.h"

#define BP_BIASED(name)       bp_host_##name
#define BP_BIASED_BYTES(name) bp_##name##_plain
#include "device/host/attention/attention_biased.h"

#define BP_OVER(name)       bp_host_##name
#define BP_OVER_BYTES(name) bp_##name##_plain
#include "device/host/attention/attention_over.h"

#define BP_STRIPS(name)       bp_host_##name
#define BP_STRIPS_BYTES(name) bp_##name##_plain
#define BP_STRIPS_WHOLE       true
#include "device/host/attention/attention_strips.h"

static void strip_forward(const bp_host_call *call, const strip_segment *segment, float *work)
{
    const strip_scalars *s = call->scalars;
    const bp_attention_strip_forward_pointers *p = call->pointers;
    const uint64_t element = bp_dtype_bytes(bp_call_type(call, 0));
    const uint64_t width = (uint64_t)s->head_width, row = width * element;
    const bp_step_block step = {0};
    bp_attention_shape shape = strip_shape(call, segment, strip_from(p->q, segment, row), &step);
    shape.pitch =
        bp_attention_pitch((uint64_t)s->sequence, (uint64_t)s->window, true, BP_ATTENTION_QUERIES);
    const head h = head_make(&shape, strip_keys(p->kv, segment, 2 * row), 0, 0);
    void *out = strip_from(p->out, segment, row);
    float *lse = strip_from(p->lse, segment, sizeof(float));
    for (uint64_t i = segment->begin; i < segment->end; i++) {
        forward_row(&h, i, work, out, i * width, lse);
    }
}

static void strip_backward(const bp_host_call *call, const strip_segment *segment, uint64_t range,
                           float *work)
{
    const bp_attention_strip_backward_pointers *p = call->pointers;
    const uint64_t element = bp_dtype_bytes(bp_call_type(call, 0));
    const uint64_t width = (uint64_t)((const strip_scalars *)call->scalars)->head_width;
    const bp_step_block step = {0};
    void *q = strip_from(p->q, segment, width * element);
    bp_attention_shape shape = strip_shape(call, segment, q, &step);
    shape.d_q = q;
    shape.delta = strip_from(p->delta, segment, sizeof(float));
    const head h = head_make(&shape, strip_keys(p->kv, segment, 2 * width * element), 0, 0);
    float *d_k = strip_keys(p->d_kv, segment, 2 * width * sizeof(float));
    head_gradient g = {.d_out = strip_from(p->d_out, segment, width * element),
                       .lse = strip_from(p->lse, segment, sizeof(float)),
                       .d_k = d_k,
                       .d_v = d_k + width,
                       .key_pitch = 2 * width,
                       .delta = shape.delta};
    (void)range;
    (void)work;
    for (uint64_t i = segment->begin; i < segment->end; i++) {
        for (uint64_t d = i * g.key_pitch; d < (i + 1) * g.key_pitch; d++) {
            d_k[d] += 0.0f; /* what the head before left, as in begin_head */
        }
    }
    for (uint64_t i = segment->begin; i < segment->end; i++) {
        g.out_place = i * width;
        g.d_q = (float *)p->sums + (segment->row + i - segment->begin) * width;
        backward_row(&h, &g, i);
    }
}
