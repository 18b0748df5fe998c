/* SPDX-License-Identifier: MIT */
/* Causal attention, forward and backward, one row of scores at a time; plain form.
 *
 * Softmax attention of Vaswani et al. (arXiv 1706.03762); backward recomputes the probabilities
 * from the log-sum-exp as in Dao et al. (arXiv 2205.14135), so nothing of size T x T is kept. */
#include "device/host/attention.h"

#include "core/math.h"
#include "core/math_inline.h"
#include "device/host/lanes.h"
#include "device/host/mask.h"

/* One head of one sample. */
typedef struct head {
    const float *q; /* row t of q, k, v at t * pitch */
    const float *k;
    const float *v;
    uint64_t pitch;
    uint64_t out_pitch;
    uint64_t sequence;
    uint64_t width;
    uint64_t number; /* of the head: keys dropout */
    float scale;     /* 1 / sqrt(width) */
    double dropout;
    bp_mask mask;
} head;

static uint64_t rounded(int64_t count)
{
    return bp_size_align((uint64_t)count, BP_LANES);
}

uint64_t bp_attention_forward_workspace(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const bp_attention_forward_scalars *s = scalars;
    uint64_t width = rounded(s->head_width);
    uint64_t per_position = bp_size_add(BP_ATTENTION_QUERIES, bp_size_mul(2, width));
    uint64_t rows = bp_size_add(rounded(s->sequence), BP_ATTENTION_QUERIES);
    return bp_size_mul(sizeof(float), bp_size_mul(rows, per_position));
}

uint64_t bp_attention_backward_workspace(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const bp_attention_backward_scalars *s = scalars;
    uint64_t width = rounded(s->head_width);
    uint64_t per_position = bp_size_add(2 * BP_ATTENTION_QUERIES, bp_size_mul(4, width));
    uint64_t rows = bp_size_add(rounded(s->sequence), BP_ATTENTION_QUERIES);
    return bp_size_mul(sizeof(float), bp_size_mul(rows, per_position));
}

uint64_t bp_attention_forward_tasks(const void *scalars)
{
    const bp_attention_forward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads * bp_cut(s->sequence, BP_ATTENTION_QUERIES);
}

uint64_t bp_attention_backward_tasks(const void *scalars)
{
    const bp_attention_backward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads;
}

/* score = (q . k, fused, in order of the elements) * scale, for keys 0 .. count-1. */
static void row_scores(const head *at, const float *q, uint64_t count, float *score)
{
    for (uint64_t j = 0; j < count; j++) {
        const float *k = at->k + j * at->pitch;
        float dot = 0.0f;
        for (uint64_t d = 0; d < at->width; d++) {
            dot = fmaf(q[d], k[d], dot);
        }
        score[j] = dot * at->scale;
    }
}

/* Scores become probabilities e * (1 / sum), e = exp(score - max), the sum in lanes from key 0;
 * returns max + log(sum). */
static float row_softmax(float *score, uint64_t count)
{
    float most = bp_row_max(score, count);
    float lane[BP_LANES] = {0.0f};
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
static void row_output(const head *at, const float *p, uint64_t count, float *out)
{
    for (uint64_t d = 0; d < at->width; d++) {
        out[d] = 0.0f;
    }
    for (uint64_t j = 0; j < count; j++) {
        const float *v = at->v + j * at->pitch;
        for (uint64_t d = 0; d < at->width; d++) {
            out[d] = fmaf(p[j], v[d], out[d]);
        }
    }
}

/* Masks of row i, keys 0 .. i; the dropout element is (head * T + i) * T + j. */
static void row_mask(const head *at, uint64_t i, float *factor)
{
    uint64_t element = (at->number * at->sequence + i) * at->sequence;
    bp_mask_fill(&at->mask, element, i + 1, factor);
}

static void forward_row(const head *at, uint64_t i, float *score, float *out, float *lse)
{
    float *factor = score + at->sequence;
    row_scores(at, at->q + i * at->pitch, i + 1, score);
    float row_lse = row_softmax(score, i + 1);
    if (lse != NULL) {
        lse[i] = row_lse;
    }
    if (at->dropout > 0.0) {
        row_mask(at, i, factor);
        for (uint64_t j = 0; j <= i; j++) {
            score[j] *= factor[j];
        }
    }
    row_output(at, score, i + 1, out + i * at->out_pitch);
}

static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_forward_scalars *s = call->scalars;
    const bp_attention_forward_pointers *p = call->pointers;
    uint64_t heads = (uint64_t)s->heads, sequence = (uint64_t)s->sequence;
    uint64_t width = (uint64_t)s->head_width, blocks = bp_cut(s->sequence, BP_ATTENTION_QUERIES);
    float *score = bp_worker_part(p->work, bp_attention_forward_workspace(s, call->dtypes), worker);
    for (uint64_t task = first; task < last; task++) {
        uint64_t sample = task / blocks / heads, number = task / blocks % heads;
        const float *q =
            (const float *)p->qkv + sample * sequence * 3 * heads * width + number * width;
        head at = {.q = q,
                   .k = q + heads * width,
                   .v = q + 2 * heads * width,
                   .pitch = 3 * heads * width,
                   .out_pitch = heads * width,
                   .sequence = sequence,
                   .width = width,
                   .number = number,
                   .scale = 1.0f / sqrtf((float)width),
                   .dropout = s->dropout,
                   .mask = bp_mask_make(p->step, sample, s->site, s->dropout)};
        float *out = (float *)p->out + sample * sequence * heads * width + number * width;
        float *lse = p->lse != NULL ? (float *)p->lse + (sample * heads + number) * sequence : NULL;
        uint64_t row = task % blocks * BP_ATTENTION_QUERIES;
        uint64_t end = bp_least(sequence, row + BP_ATTENTION_QUERIES);
        for (; row < end; row++) {
            forward_row(&at, row, score, out, lse);
        }
    }
}

/* Where the gradients of one head go, and what they come from. */
typedef struct head_gradient {
    float *d_q;
    float *d_k;
    float *d_v;
    const float *d_out;
    const float *out;
    const float *lse;
} head_gradient;

/* Row i: with p_j = exp(score_j - lse) and mask f_j,
 *   d_v_j = fma(p_j * f_j, d_out_i, d_v_j);
 *   delta = d_out_i . out_i, fused, in order;
 *   d_p_j = (d_out_i . v_j, fused, in order) * f_j;
 *   ds_j = (p_j * (d_p_j - delta)) * scale;
 *   d_q_i = fma(ds_j, k_j, d_q_i) for j in order;  d_k_j = fma(ds_j, q_i, d_k_j).
 * Rows come in order, which orders the sums of d_k and d_v. */
static void backward_row(const head *at, const head_gradient *to, uint64_t i, float *score)
{
    float *factor = score + at->sequence;
    const float *q = at->q + i * at->pitch;
    const float *d_out = to->d_out + i * at->out_pitch, *out = to->out + i * at->out_pitch;
    float *d_q = to->d_q + i * at->pitch;
    bool dropped = at->dropout > 0.0;
    float delta = 0.0f;
    for (uint64_t d = 0; d < at->width; d++) {
        delta = fmaf(d_out[d], out[d], delta);
    }
    row_scores(at, q, i + 1, score);
    if (dropped) {
        row_mask(at, i, factor);
    }
    for (uint64_t j = 0; j <= i; j++) {
        const float *k = at->k + j * at->pitch, *v = at->v + j * at->pitch;
        float *d_k = to->d_k + j * at->pitch, *d_v = to->d_v + j * at->pitch;
        float p = bp_expf_inline(score[j] - to->lse[i]);
        float kept = dropped ? p * factor[j] : p;
        float d_p = 0.0f;
        for (uint64_t d = 0; d < at->width; d++) {
            d_v[d] = fmaf(kept, d_out[d], d_v[d]);
            d_p = fmaf(d_out[d], v[d], d_p);
        }
        d_p = dropped ? d_p * factor[j] : d_p;
        float ds = (p * (d_p - delta)) * at->scale;
        for (uint64_t d = 0; d < at->width; d++) {
            d_q[d] = fmaf(ds, k[d], d_q[d]);
            d_k[d] = fmaf(ds, q[d], d_k[d]);
        }
    }
}

static void clear_gradients(const head *at, const head_gradient *to)
{
    for (uint64_t i = 0; i < at->sequence; i++) {
        for (uint64_t d = 0; d < at->width; d++) {
            to->d_q[i * at->pitch + d] = 0.0f;
            to->d_k[i * at->pitch + d] = 0.0f;
            to->d_v[i * at->pitch + d] = 0.0f;
        }
    }
}

static void backward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_backward_scalars *s = call->scalars;
    const bp_attention_backward_pointers *p = call->pointers;
    uint64_t heads = (uint64_t)s->heads, sequence = (uint64_t)s->sequence;
    uint64_t width = (uint64_t)s->head_width;
    float *score =
        bp_worker_part(p->work, bp_attention_backward_workspace(s, call->dtypes), worker);
    for (uint64_t task = first; task < last; task++) {
        uint64_t sample = task / heads, number = task % heads;
        uint64_t place = sample * sequence * 3 * heads * width + number * width;
        uint64_t out_place = sample * sequence * heads * width + number * width;
        const float *q = (const float *)p->qkv + place;
        float *d_q = (float *)p->d_qkv + place;
        head at = {.q = q,
                   .k = q + heads * width,
                   .v = q + 2 * heads * width,
                   .pitch = 3 * heads * width,
                   .out_pitch = heads * width,
                   .sequence = sequence,
                   .width = width,
                   .number = number,
                   .scale = 1.0f / sqrtf((float)width),
                   .dropout = s->dropout,
                   .mask = bp_mask_make(p->step, sample, s->site, s->dropout)};
        head_gradient to = {.d_q = d_q,
                            .d_k = d_q + heads * width,
                            .d_v = d_q + 2 * heads * width,
                            .d_out = (const float *)p->d_out + out_place,
                            .out = (const float *)p->out + out_place,
                            .lse = (const float *)p->lse + task * sequence};
        clear_gradients(&at, &to);
        for (uint64_t i = 0; i < sequence; i++) {
            backward_row(&at, &to, i, score);
        }
    }
}

const bp_host_kernel bp_host_attention_forward = {bp_attention_forward_tasks, forward_run,
                                                  bp_attention_forward_workspace};
const bp_host_kernel bp_host_attention_backward = {bp_attention_backward_tasks, backward_run,
                                                   bp_attention_backward_workspace};
