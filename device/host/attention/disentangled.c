/* SPDX-License-Identifier: MIT */
/* Disentangled attention, a head of a sample at a time: rows are read into floats once, and a
 * pair's score is one sum in lanes over the head's width. Backward takes a head through all
 * samples, whose gradients of positions it adds up. Plain form only. */
#include "core/base/math.h"
#include "device/host/attention/attention.h"

/* The scalars of both rows, and a head's floats in the workspace. */
typedef struct disentangled {
    bp_attention_shape s;
    uint64_t batch;
    uint64_t rows; /* of positions */
    bp_mask mask;
    uint64_t head;
    uint64_t keys;    /* of the sample */
    uint32_t *bucket; /* of place T + i - j */
    float *q;         /* (T, D), as the next */
    float *k;
    float *v;
    float *to_keys;    /* (rows, D): s_b */
    float *to_queries; /* (rows, D): r_b */
    float *score;      /* (T) */
    float *factor;     /* (T) */
} disentangled;

/* The bucket of query - key, a row of positions. */
static uint32_t bucket_row(const bp_attention_disentangled_forward_scalars *s, int64_t distance)
{
    const int64_t half = s->buckets / 2, far = distance < 0 ? -distance : distance;
    int64_t bucket = far;
    if (far > half) {
        const double grown = bp_log((double)far / (double)half) /
                             bp_log((double)(s->most - 1) / (double)half) * (double)(half - 1);
        const double less = grown - 0x1p-16;
        const int64_t down = (int64_t)less;
        bucket = half + down + ((double)down < less ? 1 : 0);
        bucket = bucket < s->buckets ? bucket : s->buckets;
    }
    const int64_t row = s->buckets + (distance < 0 ? -bucket : bucket);
    return (uint32_t)(row < 2 * s->buckets ? row : 2 * s->buckets - 1);
}

static uint64_t disentangled_rounded(uint64_t count)
{
    return bp_size_align(count, BP_LANES);
}

/* Floats of a workspace: `matrices` of (T, D), `tables` of (rows, D), four rows of T, one of D. */
static uint64_t disentangled_floats(const bp_attention_disentangled_forward_scalars *s,
                                    uint64_t matrices, uint64_t tables)
{
    const uint64_t width = (uint64_t)s->head_width, sequence = (uint64_t)s->sequence;
    const uint64_t matrix = bp_attention_matrix(sequence, width);
    const uint64_t table = bp_attention_matrix(2 * (uint64_t)s->buckets, width);
    const uint64_t rows = 4 * disentangled_rounded(sequence);
    return bp_size_add(bp_size_add(bp_size_mul(matrices, matrix), bp_size_mul(tables, table)),
                       bp_size_add(rows, disentangled_rounded(width)));
}

static uint64_t disentangled_forward_bytes(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    return bp_size_mul(disentangled_floats(scalars, 3, 2), sizeof(float));
}

static uint64_t disentangled_backward_bytes(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    return bp_size_mul(disentangled_floats(scalars, 7, 4), sizeof(float));
}

static float *disentangled_take(float **work, uint64_t count)
{
    float *at = *work;
    *work += disentangled_rounded(count);
    return at;
}

/* What both directions have, taken from the front of *work. */
static disentangled disentangled_make(const bp_host_call *call, const int32_t *lengths,
                                      const void *step, float **work)
{
    const bp_attention_disentangled_forward_scalars *s = call->scalars;
    const uint64_t sequence = (uint64_t)s->sequence, width = (uint64_t)s->head_width;
    const bp_attention_forward_scalars plain = {.batch = s->batch,
                                                .sequence = s->sequence,
                                                .heads = s->heads,
                                                .kv_heads = s->heads,
                                                .head_width = s->head_width,
                                                .site = s->site,
                                                .scale = s->scale,
                                                .dropout = s->dropout};
    const bp_attention_forward_pointers pointers = {.lengths = lengths, .step = step};
    const bp_host_call of = {&pointers, &plain, call->dtypes, NULL, NULL};
    disentangled d = {.s = bp_attention_forward_shape(&of),
                      .batch = (uint64_t)s->batch,
                      .rows = 2 * (uint64_t)s->buckets};
    d.bucket = (uint32_t *)(void *)disentangled_take(work, 2 * sequence);
    for (uint64_t c = 1; c < 2 * sequence; c++) {
        d.bucket[c] = bucket_row(s, (int64_t)c - s->sequence);
    }
    d.score = disentangled_take(work, sequence);
    d.factor = disentangled_take(work, sequence);
    d.q = disentangled_take(work, sequence * width);
    d.k = disentangled_take(work, sequence * width);
    d.v = disentangled_take(work, sequence * width);
    d.to_keys = disentangled_take(work, d.rows * width);
    d.to_queries = disentangled_take(work, d.rows * width);
    return d;
}

/* `rows` rows of a head in a tensor whose rows are `pitch` elements apart, and back. */
static void read_rows(const disentangled *d, const void *x, uint64_t place, uint64_t pitch,
                      uint64_t rows, float *to)
{
    for (uint64_t t = 0; t < rows; t++) {
        for (uint64_t i = 0; i < d->s.width; i++) {
            to[t * d->s.width + i] = bp_element_load(x, place + t * pitch + i, d->s.type);
        }
    }
}

static void write_rows(const disentangled *d, const float *from, uint64_t rows, void *x,
                       uint64_t place, uint64_t pitch)
{
    for (uint64_t t = 0; t < rows; t++) {
        for (uint64_t i = 0; i < d->s.width; i++) {
            bp_element_store(x, place + t * pitch + i, from[t * d->s.width + i], d->s.type);
        }
    }
}

static void read_positions(disentangled *d, const void *positions, uint64_t head)
{
    const uint64_t wide = d->s.heads * d->s.width, place = head * d->s.width;
    d->head = head;
    read_rows(d, positions, place, 2 * wide, d->rows, d->to_keys);
    read_rows(d, positions, wide + place, 2 * wide, d->rows, d->to_queries);
}

static void read_head(disentangled *d, const void *qkv, uint64_t sample)
{
    const uint64_t sequence = d->s.sequence;
    d->keys = bp_attention_keys(&d->s, sample);
    d->mask = bp_attention_mask(&d->s, sample);
    read_rows(d, qkv, bp_attention_q(&d->s, sample, d->head), d->s.row, sequence, d->q);
    read_rows(d, qkv, bp_attention_k(&d->s, sample, d->head), d->s.row, sequence, d->k);
    read_rows(d, qkv, bp_attention_v(&d->s, sample, d->head), d->s.row, sequence, d->v);
}

static const float *disentangled_table_row(const disentangled *d, const float *table, uint64_t i,
                                           uint64_t j)
{
    return table + d->bucket[d->s.sequence + i - j] * d->s.width;
}

static float disentangled_score(const disentangled *d, uint64_t i, uint64_t j)
{
    const float *q = d->q + i * d->s.width, *k = d->k + j * d->s.width;
    const float *r = disentangled_table_row(d, d->to_queries, i, j),
                *s = disentangled_table_row(d, d->to_keys, i, j);
    float lane[BP_LANES] = {0.0f};
    uint64_t n = 0;
    for (; n + BP_LANES <= d->s.width; n += BP_LANES) {
        for (uint64_t l = 0; l < BP_LANES; l++) {
            lane[l] += q[n + l] * (k[n + l] + r[n + l]) + s[n + l] * k[n + l];
        }
    }
    for (uint64_t l = 0; n < d->s.width; n++, l++) {
        lane[l] += q[n] * (k[n] + r[n]) + s[n] * k[n];
    }
    return bp_lanes_sum(lane) * d->s.scale;
}

static float lanes_dot(const float *a, const float *b, uint64_t width)
{
    float lane[BP_LANES] = {0.0f};
    uint64_t n = 0;
    for (; n + BP_LANES <= width; n += BP_LANES) {
        for (uint64_t l = 0; l < BP_LANES; l++) {
            lane[l] += a[n + l] * b[n + l];
        }
    }
    for (uint64_t l = 0; n < width; n++, l++) {
        lane[l] += a[n] * b[n];
    }
    return bp_lanes_sum(lane);
}

static void disentangled_add_row(float *to, float factor, const float *x, uint64_t width)
{
    for (uint64_t n = 0; n < width; n++) {
        to[n] += factor * x[n];
    }
}

/* 1 or what dropout makes of it, for the row's pairs. */
static void row_factors(const disentangled *d, uint64_t i)
{
    if (d->s.dropout > 0.0) {
        bp_mask_fill(&d->mask, bp_attention_element(&d->s, d->head, i), d->keys, d->factor);
        return;
    }
    for (uint64_t j = 0; j < d->keys; j++) {
        d->factor[j] = 1.0f;
    }
}

/* The row's output, in the place of its query; its log-sum-exp. */
static float disentangled_forward_row(const disentangled *d, uint64_t i)
{
    float lane[BP_LANES] = {0.0f}, *out = d->q + i * d->s.width;
    for (uint64_t j = 0; j < d->keys; j++) {
        d->score[j] = disentangled_score(d, i, j);
    }
    const float most = bp_row_max(d->score, d->keys);
    for (uint64_t j = 0; j < d->keys; j++) {
        d->score[j] = bp_expf_inline(d->score[j] - most);
        lane[j % BP_LANES] += d->score[j];
    }
    const float sum = bp_lanes_sum(lane);
    row_factors(d, i);
    memset(out, 0, d->s.width * sizeof *out);
    for (uint64_t j = 0; j < d->keys; j++) {
        disentangled_add_row(out, d->score[j] / sum * d->factor[j], d->v + j * d->s.width,
                             d->s.width);
    }
    return d->keys > 0 ? most + bp_logf(sum) : 0.0f;
}

static uint64_t disentangled_forward_tasks(const void *scalars)
{
    const bp_attention_disentangled_forward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads;
}

/* A task is a head of a sample. */
static void disentangled_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                     uint32_t worker)
{
    const bp_attention_disentangled_forward_pointers *p = call->pointers;
    float *work = bp_worker_part(p->work, disentangled_forward_bytes, call, worker);
    disentangled d = disentangled_make(call, p->lengths, p->step, &work);
    const uint64_t wide = d.s.heads * d.s.width;
    for (uint64_t task = first; task < last; task++) {
        const uint64_t sample = task / d.s.heads;
        float *lse = p->lse != NULL ? (float *)p->lse + task * d.s.sequence : NULL;
        read_positions(&d, p->positions, task % d.s.heads);
        read_head(&d, p->qkv, sample);
        for (uint64_t i = 0; i < d.s.sequence; i++) {
            const float row = disentangled_forward_row(&d, i);
            if (lse != NULL) {
                lse[i] = row;
            }
        }
        write_rows(&d, d.q, d.s.sequence, p->out, bp_attention_out(&d.s, sample, d.head), wide);
    }
}

/* The gradients of a head, and what they come from. */
typedef struct disentangled_gradient {
    float *d_out; /* (T, D), as the next three */
    float *d_q;
    float *d_k;
    float *d_v;
    float *d_to_keys; /* (rows, D) */
    float *d_to_queries;
    float *out; /* (D) */
    const float *lse;
} disentangled_gradient;

/* Row i: p_j = exp(score_j - lse), ds_j = p_j (f_j d_out_i v_j - d_out_i out_i) scale. */
static void disentangled_backward_row(const disentangled *d, const disentangled_gradient *g,
                                      uint64_t i)
{
    const uint64_t width = d->s.width;
    const float *d_out = g->d_out + i * width, *q = d->q + i * width;
    const float delta = lanes_dot(d_out, g->out, width);
    float *d_q = g->d_q + i * width;
    row_factors(d, i);
    for (uint64_t j = 0; j < d->keys; j++) {
        const float *k = d->k + j * width, *v = d->v + j * width;
        const float *r = disentangled_table_row(d, d->to_queries, i, j),
                    *s = disentangled_table_row(d, d->to_keys, i, j);
        const uint64_t row = d->bucket[d->s.sequence + i - j] * width;
        const float p = bp_expf_inline(disentangled_score(d, i, j) - g->lse[i]);
        const float ds = p * (lanes_dot(d_out, v, width) * d->factor[j] - delta) * d->s.scale;
        disentangled_add_row(g->d_v + j * width, p * d->factor[j], d_out, width);
        disentangled_add_row(g->d_to_keys + row, ds, k, width);
        disentangled_add_row(g->d_to_queries + row, ds, q, width);
        for (uint64_t n = 0; n < width; n++) {
            d_q[n] += ds * (k[n] + r[n]);
            g->d_k[j * width + n] += ds * (q[n] + s[n]);
        }
    }
}

static void backward_sample(disentangled *d, const disentangled_gradient *of,
                            const bp_attention_disentangled_backward_pointers *p, uint64_t sample)
{
    const uint64_t width = d->s.width, sequence = d->s.sequence, wide = d->s.heads * width;
    const uint64_t out = bp_attention_out(&d->s, sample, d->head);
    disentangled_gradient g = *of;
    g.lse = (const float *)p->lse + (sample * d->s.heads + d->head) * sequence;
    read_head(d, p->qkv, sample);
    read_rows(d, p->d_out, out, wide, sequence, g.d_out);
    memset(g.d_q, 0, sequence * width * sizeof *g.d_q);
    memset(g.d_k, 0, sequence * width * sizeof *g.d_k);
    memset(g.d_v, 0, sequence * width * sizeof *g.d_v);
    for (uint64_t i = 0; i < sequence; i++) {
        read_rows(d, p->out, out + i * wide, wide, 1, g.out);
        disentangled_backward_row(d, &g, i);
    }
    write_rows(d, g.d_q, sequence, p->d_qkv, bp_attention_q(&d->s, sample, d->head), d->s.row);
    write_rows(d, g.d_k, sequence, p->d_qkv, bp_attention_k(&d->s, sample, d->head), d->s.row);
    write_rows(d, g.d_v, sequence, p->d_qkv, bp_attention_v(&d->s, sample, d->head), d->s.row);
}

static uint64_t disentangled_backward_tasks(const void *scalars)
{
    const bp_attention_disentangled_backward_scalars *s = scalars;
    return (uint64_t)s->heads;
}

/* A task is a head of all samples. */
static void disentangled_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                      uint32_t worker)
{
    const bp_attention_disentangled_backward_pointers *p = call->pointers;
    float *work = bp_worker_part(p->work, disentangled_backward_bytes, call, worker);
    disentangled d = disentangled_make(call, p->lengths, p->step, &work);
    const uint64_t matrix = d.s.sequence * d.s.width, table = d.rows * d.s.width;
    const uint64_t wide = d.s.heads * d.s.width;
    disentangled_gradient g = {.d_out = disentangled_take(&work, matrix)};
    g.d_q = disentangled_take(&work, matrix);
    g.d_k = disentangled_take(&work, matrix);
    g.d_v = disentangled_take(&work, matrix);
    g.d_to_keys = disentangled_take(&work, table);
    g.d_to_queries = disentangled_take(&work, table);
    g.out = disentangled_take(&work, d.s.width);
    for (uint64_t head = first; head < last; head++) {
        read_positions(&d, p->positions, head);
        memset(g.d_to_keys, 0, table * sizeof *g.d_to_keys);
        memset(g.d_to_queries, 0, table * sizeof *g.d_to_queries);
        for (uint64_t sample = 0; sample < d.batch; sample++) {
            backward_sample(&d, &g, p, sample);
        }
        write_rows(&d, g.d_to_keys, d.rows, p->d_positions, head * d.s.width, 2 * wide);
        write_rows(&d, g.d_to_queries, d.rows, p->d_positions, wide + head * d.s.width, 2 * wide);
    }
}

const bp_host_kernel bp_host_attention_disentangled_forward = {
    disentangled_forward_tasks, disentangled_forward_run, disentangled_forward_bytes};
const bp_host_kernel bp_host_attention_disentangled_backward = {
    disentangled_backward_tasks, disentangled_backward_run, disentangled_backward_bytes};
