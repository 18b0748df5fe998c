/* SPDX-License-Identifier: MIT */
/* Attention in blocks of 32 queries, in vectors: each element's chain of operations is that of
 * attention.c, found in tiles of matrix products. Included after a vector header, once per form.
 *
 * Every product here is a matmul tile (matmul_pack.h): scores = q k^T with keys transposed into
 * panels, out = p v with v read in place. Causality cuts chains short: a tile's row r runs over r
 * more terms than its row 0 where chains end on the diagonal (`extra`), and where they begin on it,
 * they begin with products of zero, which leave the +0 that they start from. */
#include "core/number/math.h"
#include "device/host/attention/attention.h"
#include "device/host/forms.h"
#include "device/host/elements/mask_vector.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/rows/row_vector.h"

#define FORM    (&BP_FORM(bp_matmul_form))
#define QUERIES BP_ATTENTION_QUERIES

/* One head of one sample, in floats. */
typedef struct head {
    const bp_attention_shape *s;
    const float *q; /* row t of q, k, v at t * pitch */
    const float *k;
    const float *v;
    int64_t pitch;
    int64_t width;
    int64_t keys;
    uint64_t number; /* of the query head: keys dropout */
    bp_mask mask;
    int64_t score_pitch;
    int64_t panels; /* of transposed keys that are there */
    float *score;   /* (QUERIES, sequence; score_pitch) */
    float *k_panels;
} head;

static int64_t panels_of(int64_t rows)
{
    return (rows + FORM->columns - 1) / FORM->columns;
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t higher(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Keys that query i looks at: the first so many; and those that any of a block does. */
static int64_t count_of(const head *at, int64_t i)
{
    return at->s->causal ? lower(i + 1, at->keys) : at->keys;
}

static int64_t keys_of(const head *at, const int64_t range[2])
{
    return count_of(at, range[1] - 1);
}

/* Rows of a head as floats: in place, or converted into `buffer` (sequence, width). `pitch` is that
 * of x and becomes that of the floats. */
static const float *rows_of(const bp_attention_shape *s, const void *x, uint64_t place,
                            int64_t *pitch, float *buffer)
{
    if (s->type == BP_F32) {
        return (const float *)x + place;
    }
    FORM->load(buffer, (int64_t)s->width, bp_element_at(x, (int64_t)place, s->type), *pitch,
               (int64_t)s->sequence, (int64_t)s->width, s->type);
    *pitch = (int64_t)s->width;
    return buffer;
}

/* Makes panels first .. last-1, each (width, form's columns), of the rows of x. */
static void transpose_rows(const head *at, const float *x, float *panels, int64_t first,
                           int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        int64_t row = i * FORM->columns, left = (int64_t)at->s->sequence - row;
        FORM->transpose(panels + row * at->width, FORM->columns, x + row * at->pitch, at->pitch,
                        lower(left, FORM->columns), at->width);
    }
}

static bp_matmul_tile tile_make(const float *panel, int64_t panel_pitch, int64_t depth)
{
    return (bp_matmul_tile){.depth = depth, .panel = panel, .panel_pitch = panel_pitch};
}

/* Columns of the next tile where so many are left: in even shares, for a narrow rest has too few
 * chains to keep the units busy. */
static int64_t columns_next(int64_t left)
{
    int64_t share = (left + panels_of(left) - 1) / panels_of(left);
    return lower(left, (share + BP_LANES - 1) / BP_LANES * BP_LANES);
}

static int64_t rows_left(int64_t row, int64_t end)
{
    return lower(end - row, FORM->rows);
}

/* score (r, j) = x_i . row j behind the panels, fused, in order of the elements, for the queries
 * i = begin + r < end and at least the keys that they look at. */
static void products(const head *at, const float *x, int64_t x_pitch, const float *panels,
                     const int64_t range[2], float *score)
{
    int64_t begin = range[0], end = range[1], keys = keys_of(at, range);
    for (int64_t j = 0; j < keys; j += FORM->columns) {
        bp_matmul_tile tile = tile_make(panels + j * at->width, FORM->columns, at->width);
        bool below = at->s->causal && j > begin;
        int64_t skipped = below ? (j - begin) / FORM->rows * FORM->rows : 0;
        tile.columns = lower(keys - j, FORM->columns);
        tile.a_pitch = x_pitch;
        tile.to_pitch = at->score_pitch;
        for (int64_t i = begin + skipped; i < end; i += FORM->rows) {
            tile.rows = rows_left(i, end);
            tile.a = x + i * x_pitch;
            tile.to = score + (i - begin) * at->score_pitch + j;
            FORM->tile(&tile);
        }
    }
}

/* Sums over keys for queries that all look at `keys` of them or, for keys < 0, query i at i + 1. */
static void weigh(const head *at, const float *factor, const float *x, const int64_t range[2],
                  int64_t keys, float *to, int64_t to_pitch)
{
    for (int64_t d = 0, columns; d < at->width; d += columns) {
        columns = columns_next(at->width - d);
        for (int64_t i = range[0]; i < range[1]; i += FORM->rows) {
            int64_t r = i - range[0];
            bp_matmul_tile tile = tile_make(x + d, at->pitch, keys < 0 ? i + 1 : keys);
            tile.rows = rows_left(i, range[1]);
            tile.columns = columns;
            tile.extra = keys < 0;
            tile.a = factor + r * at->score_pitch;
            tile.a_pitch = at->score_pitch;
            tile.to = to + r * to_pitch + d;
            tile.to_pitch = to_pitch;
            FORM->tile(&tile);
        }
    }
}

/* to_r = sum over the keys j of query begin + r, in order, of factor (r, j) * x_j, fused; x_j at
 * x + j * at->pitch. The diagonal cuts the sums short up to the last key. */
static void weighted_sums(const head *at, const float *factor, const float *x,
                          const int64_t range[2], float *to, int64_t to_pitch)
{
    int64_t begin = range[0], end = range[1];
    int64_t cut = at->s->causal ? lower(end, higher(begin, at->keys)) : begin, r = cut - begin;
    weigh(at, factor, x, (int64_t[]){begin, cut}, -1, to, to_pitch);
    weigh(at, factor + r * at->score_pitch, x, (int64_t[]){cut, end}, at->keys, to + r * to_pitch,
          to_pitch);
}

static inline bp_v scale_max_step(float *score, bp_v scale, bp_v most, bp_part part)
{
    bp_v scaled = bp_v_mul(bp_v_load(score, part), scale);
    bp_v_store(score, scaled, part);
    return bp_v_choose(part, bp_v_max(scaled, most), most);
}

/* score *= scale; returns the largest. */
static float scale_max(float *score, uint64_t count, float by)
{
    float lane[BP_LANES];
    bp_v most = bp_v_set(-INFINITY), scale = bp_v_set(by);
#define STEP(part) most = scale_max_step(score + i, scale, most, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    bp_v_spill(most, lane);
    return bp_row_max(lane, BP_LANES);
}

static inline void drop_step(float *score, const float *factor, bp_part part)
{
    bp_v_store(score, bp_v_mul(bp_v_load(score, part), bp_v_load(factor, part)), part);
}

/* First dropout element of query i. */
static uint64_t mask_element(const head *at, int64_t i)
{
    return bp_attention_element(at->s, at->number, (uint64_t)i);
}

static void drop_row(const head *at, int64_t query, float *score)
{
    uint64_t count = (uint64_t)count_of(at, query), element = mask_element(at, query);
    for (uint64_t j = 0; j < count; j += BP_MASK_RUN) {
        float factor[BP_MASK_RUN];
        uint64_t run = bp_least(count - j, BP_MASK_RUN);
        bp_mask_row(&at->mask, element + j, run, factor);
#define STEP(part) drop_step(score + j + i, factor + i, part);
        BP_FOR_VECTORS(i, run, STEP)
#undef STEP
    }
}

/* The scores of query i become probabilities, masked; returns the log-sum-exp, 0 without keys. */
static float softmax_row(const head *at, int64_t i, float *score)
{
    uint64_t count = (uint64_t)count_of(at, i);
    if (count == 0) {
        return 0.0f;
    }
    float most = scale_max(score, count, at->s->scale);
    float sum = bp_v_row_exp(score, count, most);
    bp_v_row_scale(score, count, 1.0f / sum);
    if (at->s->dropout > 0.0) {
        drop_row(at, i, score);
    }
    return most + bp_logf(sum);
}

static void forward_block(head *at, const int64_t range[2], float *out, int64_t out_pitch,
                          float *lse)
{
    int64_t panels = panels_of(keys_of(at, range));
    if (at->panels < panels) {
        transpose_rows(at, at->k, at->k_panels, at->panels, panels);
        at->panels = panels;
    }
    products(at, at->q, at->pitch, at->k_panels, range, at->score);
    for (int64_t i = range[0]; i < range[1]; i++) {
        float row_lse = softmax_row(at, i, at->score + (i - range[0]) * at->score_pitch);
        if (lse != NULL) {
            lse[i] = row_lse;
        }
    }
    weighted_sums(at, at->score, at->v, range, out, out_pitch);
}

/* The head `number` of a sample; its rows are in place or behind `rows`, (sequence, width) each. */
static head head_make(const bp_attention_shape *s, const void *qkv, uint64_t sample,
                      uint64_t number, float *score, float *rows)
{
    uint64_t score_pitch = bp_size_align(s->sequence, BP_LANES), kv = number / s->group;
    uint64_t matrix = bp_attention_matrix(s->sequence, s->width);
    head at = {.s = s,
               .width = (int64_t)s->width,
               .keys = (int64_t)bp_attention_keys(s, sample),
               .number = number,
               .mask = bp_attention_mask(s, sample),
               .score_pitch = (int64_t)score_pitch,
               .score = score};
    int64_t pitch = at.pitch = (int64_t)s->row;
    at.q = rows_of(s, qkv, bp_attention_q(s, sample, number), &at.pitch, rows);
    at.pitch = pitch;
    at.k = rows_of(s, qkv, bp_attention_k(s, sample, kv), &at.pitch, rows + matrix);
    at.pitch = pitch;
    at.v = rows_of(s, qkv, bp_attention_v(s, sample, kv), &at.pitch, rows + 2 * matrix);
    return at;
}

/* A block of out: found in place, or in `block` and then rounded. */
static void forward_task(head *at, const bp_attention_forward_pointers *p, uint64_t sample,
                         const int64_t range[2], float *block)
{
    const bp_attention_shape *s = at->s;
    int64_t pitch = (int64_t)(s->heads * s->width);
    int64_t place = (int64_t)bp_attention_out(s, sample, at->number) + range[0] * pitch;
    uint64_t row = (sample * s->heads + at->number) * s->sequence;
    float *lse = p->lse != NULL ? (float *)p->lse + row : NULL;
    if (s->type == BP_F32) {
        forward_block(at, range, (float *)p->out + place, pitch, lse);
        return;
    }
    forward_block(at, range, block, at->width, lse);
    FORM->store((uint16_t *)p->out + place, pitch, block, at->width, range[1] - range[0], at->width,
                s->type);
}

/* A range of tasks that stays within a head converts its rows and transposes its keys once. */
static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_forward_scalars *scalars = call->scalars;
    const bp_attention_forward_pointers *p = call->pointers;
    const bp_attention_shape s = bp_attention_forward_shape(call);
    uint64_t blocks = bp_cut(scalars->sequence, QUERIES);
    float *score =
        bp_worker_part(p->work, bp_attention_forward_workspace(scalars, call->dtypes), worker);
    float *rows = score + bp_attention_forward_floats(scalars->sequence, scalars->head_width);
    head at = {0};
    for (uint64_t task = first; task < last; task++) {
        uint64_t sample = task / blocks / s.heads, number = task / blocks % s.heads;
        uint64_t begin = task % blocks * QUERIES;
        if (task == first || begin == 0) {
            at = head_make(&s, p->qkv, sample, number, score, rows);
            at.k_panels = score + QUERIES * at.score_pitch;
        }
        const int64_t range[2] = {(int64_t)begin, (int64_t)bp_least(begin + QUERIES, s.sequence)};
        forward_task(&at, p, sample, range, rows + 3 * bp_attention_matrix(s.sequence, s.width));
    }
}

/* A head's gradients, laid out like its rows, and what they need. */
typedef struct head_gradient {
    float *d_q;
    float *d_k;
    float *d_v;
    int64_t pitch;      /* of d_q */
    int64_t key_pitch;  /* of d_k and d_v */
    bool first;         /* of the group: d_k and d_v begin at 0 */
    const float *d_out; /* row t at t * out_pitch, as of out */
    const float *out;
    int64_t out_pitch;
    const float *lse;
    float *gradient; /* of the scores (QUERIES, sequence; score_pitch) */
    float *v_panels;
    float *turned; /* (sequence, QUERIES) */
} head_gradient;

/* delta_r = d_out_i . out_i, fused, in order, for `rows` <= 8 rows side by side. */
static void row_deltas(const head *at, const head_gradient *to, int64_t row, int64_t rows,
                       float delta[8])
{
    const float *x[8], *y[8];
    for (int64_t r = 0; r < 8; r++) {
        int64_t place = (r < rows ? row + r : row) * to->out_pitch;
        x[r] = to->d_out + place;
        y[r] = to->out + place;
        delta[r] = 0.0f;
    }
    for (int64_t d = 0; d < at->width; d++) {
        for (int r = 0; r < 8; r++) {
            delta[r] = fmaf(x[r][d], y[r][d], delta[r]);
        }
    }
}

/* What one row's scores and their gradients are made with. */
typedef struct score_row {
    float *score;
    float *gradient;
    const float *factor; /* masks; NULL: nothing is dropped */
    bp_v scale;
    bp_v lse;
    bp_v delta;
} score_row;

/* p = exp(score - lse); score becomes p * f, gradient ((p * (gradient * f - delta)) * scale). */
static inline void gradient_step(const score_row *row, uint64_t i, bp_part part)
{
    bp_v scaled = bp_v_mul(bp_v_load(row->score + i, part), row->scale);
    bp_v p = bp_v_exp(bp_v_sub(scaled, row->lse));
    bp_v d_p = bp_v_load(row->gradient + i, part), kept = p;
    if (row->factor != NULL) {
        bp_v factor = bp_v_load(row->factor + i, part);
        kept = bp_v_mul(p, factor);
        d_p = bp_v_mul(d_p, factor);
    }
    d_p = bp_v_mul(bp_v_mul(p, bp_v_sub(d_p, row->delta)), row->scale);
    bp_v_store(row->score + i, kept, part);
    bp_v_store(row->gradient + i, d_p, part);
}

static void gradient_row(const head *at, int64_t query, score_row row)
{
    uint64_t count = (uint64_t)count_of(at, query), element = mask_element(at, query);
    for (uint64_t j = 0; j < count; j += BP_MASK_RUN) {
        float factor[BP_MASK_RUN];
        uint64_t run = bp_least(count - j, BP_MASK_RUN);
        if (at->s->dropout > 0.0) {
            bp_mask_row(&at->mask, element + j, run, factor);
            row.factor = factor;
        }
#define STEP(part) gradient_step(&row, i, part);
        BP_FOR_VECTORS(i, run, STEP)
#undef STEP
        row.score += BP_MASK_RUN;
        row.gradient += BP_MASK_RUN;
    }
}

/* The probabilities and score gradients of a block, 0 beyond the diagonal. */
static void gradient_rows(const head *at, const head_gradient *to, const int64_t range[2])
{
    float delta[8];
    int64_t keys = keys_of(at, range);
    for (int64_t i = range[0]; i < range[1]; i++) {
        int64_t r = i - range[0];
        float *score = at->score + r * at->score_pitch;
        float *gradient = to->gradient + r * at->score_pitch;
        if (r % 8 == 0) {
            row_deltas(at, to, i, range[1] - i, delta);
        }
        gradient_row(at, i,
                     (score_row){.score = score,
                                 .gradient = gradient,
                                 .scale = bp_v_set(at->s->scale),
                                 .lse = bp_v_set(to->lse[i]),
                                 .delta = bp_v_set(delta[r % 8])});
        for (int64_t j = count_of(at, i); j < keys; j++) {
            score[j] = 0.0f;
            gradient[j] = 0.0f;
        }
    }
}

/* Adds the block's queries, in order, to the rows of a gradient by key:
 * to_j = fma(factor (r, j), x_i, to_j). Rows begin, at 0 in the group's first head, at their own
 * query on the diagonal or else with the first block. */
static void add_by_key(const head *at, const head_gradient *g, const int64_t range[2],
                       const float *x, int64_t x_pitch, float *to)
{
    int64_t begin = range[0], queries = range[1] - begin, keys = keys_of(at, range);
    for (int64_t j = 0; j < keys;) {
        bool diagonal = at->s->causal && j >= begin;
        int64_t skipped = diagonal ? j - begin : 0;
        int64_t rows = rows_left(j, at->s->causal && !diagonal ? lower(begin, keys) : keys);
        for (int64_t d = 0, columns; d < at->width; d += columns) {
            bp_matmul_tile tile =
                tile_make(x + (begin + skipped) * x_pitch + d, x_pitch, queries - skipped);
            columns = columns_next(at->width - d);
            tile.rows = rows;
            tile.columns = columns;
            tile.a = g->turned + j * QUERIES + skipped;
            tile.a_pitch = QUERIES;
            tile.to = to + j * g->key_pitch + d;
            tile.to_pitch = g->key_pitch;
            tile.from = g->first && (diagonal || begin == 0) ? NULL : tile.to;
            tile.from_pitch = g->key_pitch;
            FORM->tile(&tile);
        }
        j += rows;
    }
}

static void backward_block(const head *at, const head_gradient *to, const int64_t range[2])
{
    int64_t queries = range[1] - range[0], keys = keys_of(at, range);
    products(at, at->q, at->pitch, at->k_panels, range, at->score);
    products(at, to->d_out, to->out_pitch, to->v_panels, range, to->gradient);
    gradient_rows(at, to, range);
    weighted_sums(at, to->gradient, at->k, range, to->d_q + range[0] * to->pitch, to->pitch);
    FORM->transpose(to->turned, QUERIES, at->score, at->score_pitch, queries, keys);
    add_by_key(at, to, range, to->d_out, to->out_pitch, to->d_v);
    FORM->transpose(to->turned, QUERIES, to->gradient, at->score_pitch, queries, keys);
    add_by_key(at, to, range, at->q, at->pitch, to->d_k);
}

/* A call of backward as its worker sees it. */
typedef struct backward_work {
    const bp_attention_backward_pointers *p;
    bp_attention_shape s;
    float *score;
    float *rows; /* 16-bit elements: q, k, v, d_out, out, d_q, d_k and d_v as floats */
    uint64_t matrix;
} backward_work;

static void backward_head(const backward_work *w, head *at, head_gradient *to, uint64_t sample)
{
    const bp_attention_shape *s = &w->s;
    int64_t scores = QUERIES * at->score_pitch, panels = panels_of((int64_t)s->sequence);
    uint64_t out = bp_attention_out(s, sample, at->number);
    int64_t out_pitch = to->out_pitch = (int64_t)(s->heads * s->width);
    to->d_out = rows_of(s, w->p->d_out, out, &to->out_pitch, w->rows + 3 * w->matrix);
    to->out_pitch = out_pitch;
    to->out = rows_of(s, w->p->out, out, &to->out_pitch, w->rows + 4 * w->matrix);
    to->lse = (const float *)w->p->lse + (sample * s->heads + at->number) * s->sequence;
    to->gradient = w->score + scores;
    to->turned = w->score + 2 * scores;
    at->k_panels = w->score + 3 * scores;
    to->v_panels = at->k_panels + panels * FORM->columns * at->width;
    transpose_rows(at, at->k, at->k_panels, 0, panels);
    transpose_rows(at, at->v, to->v_panels, 0, panels);
    for (uint64_t i = 0; i < s->sequence; i += QUERIES) {
        const int64_t range[2] = {(int64_t)i, (int64_t)bp_least(i + QUERIES, s->sequence)};
        backward_block(at, to, range);
    }
    if (s->type != BP_F32) {
        FORM->store((uint16_t *)w->p->d_qkv + bp_attention_q(s, sample, at->number),
                    (int64_t)s->row, to->d_q, to->pitch, (int64_t)s->sequence, at->width, s->type);
    }
}

/* x += 0 over the rows of keys. */
static void add_zero(const head *at, float *x, int64_t pitch)
{
    for (int64_t j = 0; j < at->keys; j++) {
        for (int64_t d = 0; d < at->width; d++) {
            x[j * pitch + d] += 0.0f;
        }
    }
}

static void clear_rows(const head *at, float *x, int64_t pitch)
{
    for (int64_t j = at->keys; j < (int64_t)at->s->sequence; j++) {
        memset(x + j * pitch, 0, at->s->width * sizeof(float));
    }
}

/* Where the gradients of a head go: in place, or to be rounded. */
static head_gradient gradient_make(const backward_work *w, uint64_t sample, uint64_t kv)
{
    const bp_attention_shape *s = &w->s;
    int64_t width = (int64_t)s->width, row = (int64_t)s->row;
    if (s->type != BP_F32) {
        return (head_gradient){.d_q = w->rows + 5 * w->matrix,
                               .d_k = w->rows + 6 * w->matrix,
                               .d_v = w->rows + 7 * w->matrix,
                               .pitch = width,
                               .key_pitch = width};
    }
    float *d_qkv = w->p->d_qkv;
    return (head_gradient){.d_k = d_qkv + bp_attention_k(s, sample, kv),
                           .d_v = d_qkv + bp_attention_v(s, sample, kv),
                           .pitch = row,
                           .key_pitch = row};
}

static void backward_group(const backward_work *w, uint64_t sample, uint64_t kv)
{
    const bp_attention_shape *s = &w->s;
    head_gradient to = gradient_make(w, sample, kv);
    head at = {0};
    for (uint64_t i = 0; i < s->group; i++) {
        at = head_make(s, w->p->qkv, sample, kv * s->group + i, w->score, w->rows);
        to.first = i == 0;
        if (s->type == BP_F32) {
            to.d_q = (float *)w->p->d_qkv + bp_attention_q(s, sample, at.number);
        }
        if (i > 0) {
            add_zero(&at, to.d_k, to.key_pitch);
            add_zero(&at, to.d_v, to.key_pitch);
        }
        backward_head(w, &at, &to, sample);
    }
    clear_rows(&at, to.d_k, to.key_pitch);
    clear_rows(&at, to.d_v, to.key_pitch);
    if (s->type != BP_F32) {
        uint16_t *d_qkv = w->p->d_qkv;
        int64_t row = (int64_t)s->row, rows = (int64_t)s->sequence;
        FORM->store(d_qkv + bp_attention_k(s, sample, kv), row, to.d_k, to.key_pitch, rows,
                    at.width, s->type);
        FORM->store(d_qkv + bp_attention_v(s, sample, kv), row, to.d_v, to.key_pitch, rows,
                    at.width, s->type);
    }
}

static void backward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_backward_scalars *s = call->scalars;
    const bp_attention_backward_pointers *p = call->pointers;
    backward_work w = {.p = p, .s = bp_attention_backward_shape(call)};
    w.score = bp_worker_part(p->work, bp_attention_backward_workspace(s, call->dtypes), worker);
    w.matrix = bp_attention_matrix(w.s.sequence, w.s.width);
    w.rows = w.score + bp_attention_backward_floats(s->sequence, s->head_width);
    for (uint64_t task = first; task < last; task++) {
        backward_group(&w, task / w.s.kv_heads, task % w.s.kv_heads);
    }
}

const bp_host_kernel BP_FORM(bp_attention_forward) = {bp_attention_forward_tasks, forward_run,
                                                      bp_attention_forward_workspace};
const bp_host_kernel BP_FORM(bp_attention_backward) = {bp_attention_backward_tasks, backward_run,
                                                       bp_attention_backward_workspace};
