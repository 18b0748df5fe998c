/* SPDX-License-Identifier: MIT */
/* Attention in blocks of 32 queries, in vectors: each element's chain of operations is that of
 * attention.c, found in tiles of matrix products. Included after a vector header, once per form.
 *
 * Every product here is a matmul tile (matmul_pack.h): scores = q k^T with keys transposed into
 * panels, out = p v with v read in place. Causality cuts chains short: a tile's row r runs over r
 * more terms than its row 0 where chains end on the diagonal (`extra`), and where they begin on it,
 * they begin with products of zero, which leave the +0 that they start from. */
#include "core/math.h"
#include "device/host/attention.h"
#include "device/host/forms.h"
#include "device/host/mask_vector.h"
#include "device/host/matmul_pack.h"
#include "device/host/row_vector.h"

#define FORM    (&BP_FORM(bp_matmul_form))
#define QUERIES BP_ATTENTION_QUERIES

static uint64_t rounded(uint64_t count)
{
    return bp_size_align(count, BP_LANES);
}

/* One head of one sample. */
typedef struct head {
    const float *q; /* row t of q, k, v at t * pitch */
    const float *k;
    const float *v;
    int64_t pitch;
    int64_t out_pitch;
    int64_t sequence;
    int64_t width;
    uint64_t number; /* of the head: keys dropout */
    float scale;     /* 1 / sqrt(width) */
    double dropout;
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

/* Makes panels first .. last-1, each (width, form's columns), of the rows of x. */
static void transpose_rows(const head *at, const float *x, float *panels, int64_t first,
                           int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        int64_t row = i * FORM->columns, left = at->sequence - row;
        FORM->transpose(panels + row * at->width, FORM->columns, x + row * at->pitch, at->pitch,
                        left < FORM->columns ? left : FORM->columns, at->width);
    }
}

static bp_matmul_tile tile_make(const float *panel, int64_t panel_pitch, int64_t depth)
{
    return (bp_matmul_tile){.depth = depth,
                            .panel = panel,
                            .panel_pitch = panel_pitch,
                            .ahead = {(const char *)panel, 1, 0}};
}

static int64_t rows_left(int64_t row, int64_t end)
{
    return end - row < FORM->rows ? end - row : FORM->rows;
}

/* score (r, j) = x_i . row j behind the panels, fused, in order of the elements, for the queries
 * i = begin + r < end and at least j <= i. */
static void products(const head *at, const float *x, int64_t x_pitch, const float *panels,
                     const int64_t range[2], float *score)
{
    int64_t begin = range[0], end = range[1];
    for (int64_t j = 0; j < end; j += FORM->columns) {
        bp_matmul_tile tile = tile_make(panels + j * at->width, FORM->columns, at->width);
        int64_t skipped = j > begin ? (j - begin) / FORM->rows * FORM->rows : 0;
        tile.columns = end - j < FORM->columns ? end - j : FORM->columns;
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

/* to_i = sum over j = 0 .. i, in order, of factor (r, j) * x_j, fused; x_j at x + j * at->pitch. */
static void weighted_sums(const head *at, const float *factor, const float *x,
                          const int64_t range[2], float *to, int64_t to_pitch)
{
    int64_t begin = range[0], end = range[1];
    for (int64_t d = 0; d < at->width; d += FORM->columns) {
        int64_t left = at->width - d;
        for (int64_t i = begin; i < end; i += FORM->rows) {
            bp_matmul_tile tile = tile_make(x + d, at->pitch, i + 1);
            tile.rows = rows_left(i, end);
            tile.columns = left < FORM->columns ? left : FORM->columns;
            tile.extra = 1;
            tile.a = factor + (i - begin) * at->score_pitch;
            tile.a_pitch = at->score_pitch;
            tile.to = to + i * to_pitch + d;
            tile.to_pitch = to_pitch;
            FORM->tile(&tile);
        }
    }
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
    uint64_t sequence = (uint64_t)at->sequence;
    return (at->number * sequence + (uint64_t)i) * sequence;
}

static void drop_row(const head *at, int64_t query, float *score)
{
    uint64_t count = (uint64_t)query + 1, element = mask_element(at, query);
    for (uint64_t j = 0; j < count; j += BP_MASK_RUN) {
        float factor[BP_MASK_RUN];
        uint64_t run = bp_least(count - j, BP_MASK_RUN);
        bp_mask_row(&at->mask, element + j, run, factor);
#define STEP(part) drop_step(score + j + i, factor + i, part);
        BP_FOR_VECTORS(i, run, STEP)
#undef STEP
    }
}

/* The scores of query i become probabilities, masked; returns the log-sum-exp. */
static float softmax_row(const head *at, int64_t i, float *score)
{
    uint64_t count = (uint64_t)i + 1;
    float most = scale_max(score, count, at->scale);
    float sum = bp_v_row_exp(score, count, most);
    bp_v_row_scale(score, count, 1.0f / sum);
    if (at->dropout > 0.0) {
        drop_row(at, i, score);
    }
    return most + bp_logf(sum);
}

static void forward_block(head *at, const int64_t range[2], float *out, float *lse)
{
    int64_t panels = panels_of(range[1]);
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
    weighted_sums(at, at->score, at->v, range, out, at->out_pitch);
}

static head head_make(const float *qkv, uint64_t heads, uint64_t width, uint64_t sequence,
                      float *work)
{
    uint64_t score_pitch = rounded(sequence);
    return (head){.q = qkv,
                  .k = qkv + heads * width,
                  .v = qkv + 2 * heads * width,
                  .pitch = (int64_t)(3 * heads * width),
                  .out_pitch = (int64_t)(heads * width),
                  .sequence = (int64_t)sequence,
                  .width = (int64_t)width,
                  .scale = 1.0f / sqrtf((float)width),
                  .score_pitch = (int64_t)score_pitch,
                  .score = work,
                  .k_panels = work + QUERIES * score_pitch};
}

/* A range of tasks that stays within a head transposes its keys once. */
static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_forward_scalars *s = call->scalars;
    const bp_attention_forward_pointers *p = call->pointers;
    uint64_t heads = (uint64_t)s->heads, sequence = (uint64_t)s->sequence;
    uint64_t width = (uint64_t)s->head_width, blocks = bp_cut(s->sequence, QUERIES);
    float *work = bp_worker_part(p->work, bp_attention_forward_workspace(s, call->dtypes), worker);
    head at = {0};
    for (uint64_t task = first; task < last; task++) {
        uint64_t sample = task / blocks / heads, number = task / blocks % heads;
        uint64_t begin = task % blocks * QUERIES;
        if (task == first || begin == 0) {
            at = head_make((const float *)p->qkv + sample * sequence * 3 * heads * width +
                               number * width,
                           heads, width, sequence, work);
            at.number = number;
            at.dropout = s->dropout;
            at.mask = bp_mask_make(p->step, sample, s->site, s->dropout);
        }
        const int64_t range[2] = {(int64_t)begin, (int64_t)bp_least(begin + QUERIES, sequence)};
        float *lse = p->lse != NULL ? (float *)p->lse + task / blocks * sequence : NULL;
        forward_block(&at, range,
                      (float *)p->out + sample * sequence * heads * width + number * width, lse);
    }
}

/* A head's gradients, laid out like it, and what they need. */
typedef struct head_gradient {
    float *d_q;
    float *d_k;
    float *d_v;
    const float *d_out;
    const float *out;
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
        int64_t place = (r < rows ? row + r : row) * at->out_pitch;
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
    uint64_t count = (uint64_t)query + 1, element = mask_element(at, query);
    for (uint64_t j = 0; j < count; j += BP_MASK_RUN) {
        float factor[BP_MASK_RUN];
        uint64_t run = bp_least(count - j, BP_MASK_RUN);
        if (at->dropout > 0.0) {
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
                                 .scale = bp_v_set(at->scale),
                                 .lse = bp_v_set(to->lse[i]),
                                 .delta = bp_v_set(delta[r % 8])});
        for (int64_t j = i + 1; j < range[1]; j++) {
            score[j] = 0.0f;
            gradient[j] = 0.0f;
        }
    }
}

/* Adds the block's queries, in order, to rows first .. last-1 of a gradient by key:
 * to_j = fma(factor (r, j), x_i, to_j). Rows on the diagonal start at 0 and at their own query. */
static void add_by_key(const head *at, const head_gradient *g, const int64_t range[2],
                       const float *x, int64_t x_pitch, float *to)
{
    int64_t begin = range[0], queries = range[1] - begin;
    for (int64_t j = 0; j < range[1];) {
        bool diagonal = j >= begin;
        int64_t skipped = diagonal ? j - begin : 0;
        int64_t rows = rows_left(j, diagonal ? range[1] : begin);
        for (int64_t d = 0; d < at->width; d += FORM->columns) {
            int64_t left = at->width - d;
            bp_matmul_tile tile =
                tile_make(x + (begin + skipped) * x_pitch + d, x_pitch, queries - skipped);
            tile.rows = rows;
            tile.columns = left < FORM->columns ? left : FORM->columns;
            tile.a = g->turned + j * QUERIES + skipped;
            tile.a_pitch = QUERIES;
            tile.to = to + j * at->pitch + d;
            tile.to_pitch = at->pitch;
            tile.from = diagonal ? NULL : tile.to;
            tile.from_pitch = at->pitch;
            FORM->tile(&tile);
        }
        j += rows;
    }
}

static void backward_block(const head *at, const head_gradient *to, const int64_t range[2])
{
    int64_t queries = range[1] - range[0];
    products(at, at->q, at->pitch, at->k_panels, range, at->score);
    products(at, to->d_out, at->out_pitch, to->v_panels, range, to->gradient);
    gradient_rows(at, to, range);
    weighted_sums(at, to->gradient, at->k, range, to->d_q, at->pitch);
    FORM->transpose(to->turned, QUERIES, at->score, at->score_pitch, queries, range[1]);
    add_by_key(at, to, range, to->d_out, at->out_pitch, to->d_v);
    FORM->transpose(to->turned, QUERIES, to->gradient, at->score_pitch, queries, range[1]);
    add_by_key(at, to, range, at->q, at->pitch, to->d_k);
}

static void backward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_backward_scalars *s = call->scalars;
    const bp_attention_backward_pointers *p = call->pointers;
    uint64_t heads = (uint64_t)s->heads, sequence = (uint64_t)s->sequence;
    uint64_t width = (uint64_t)s->head_width, blocks = bp_cut(s->sequence, QUERIES);
    float *work = bp_worker_part(p->work, bp_attention_backward_workspace(s, call->dtypes), worker);
    for (uint64_t task = first; task < last; task++) {
        uint64_t sample = task / heads, number = task % heads;
        uint64_t place = sample * sequence * 3 * heads * width + number * width;
        uint64_t out_place = sample * sequence * heads * width + number * width;
        head at = head_make((const float *)p->qkv + place, heads, width, sequence, work);
        int64_t scores = QUERIES * at.score_pitch;
        int64_t panels = panels_of(at.sequence), panel_count = FORM->columns * at.width;
        float *d_q = (float *)p->d_qkv + place;
        head_gradient to = {.d_q = d_q,
                            .d_k = d_q + heads * width,
                            .d_v = d_q + 2 * heads * width,
                            .d_out = (const float *)p->d_out + out_place,
                            .out = (const float *)p->out + out_place,
                            .lse = (const float *)p->lse + task * sequence,
                            .gradient = work + scores,
                            .turned = work + 2 * scores};
        at.number = number;
        at.dropout = s->dropout;
        at.mask = bp_mask_make(p->step, sample, s->site, s->dropout);
        at.k_panels = work + 3 * scores;
        to.v_panels = at.k_panels + panels * panel_count;
        transpose_rows(&at, at.k, at.k_panels, 0, panels);
        transpose_rows(&at, at.v, to.v_panels, 0, panels);
        for (uint64_t i = 0; i < blocks; i++) {
            const int64_t range[2] = {(int64_t)(i * QUERIES),
                                      (int64_t)bp_least((i + 1) * QUERIES, sequence)};
            backward_block(&at, &to, range);
        }
    }
}

/* score_j = q . k_j, fused, in order of the elements: sixteen keys side by side, their elements
 * turned sixteen at a time. */
static void decode_products(const float *q, const float *k, int64_t count, const head *at)
{
    for (int64_t j = 0; j < count; j += BP_V) {
        float turned[BP_V * BP_V];
        int64_t keys = count - j < BP_V ? count - j : BP_V;
        bp_v dot = bp_v_set(0.0f);
        for (int64_t d = 0; d < at->width; d += BP_V) {
            int64_t run = at->width - d < BP_V ? at->width - d : BP_V;
            FORM->transpose(turned, BP_V, k + j * at->pitch + d, at->pitch, keys, run);
            for (int64_t i = 0; i < run; i++) {
                bp_v x = bp_v_load(turned + i * BP_V, bp_part_whole());
                dot = bp_v_fma(bp_v_set(q[d + i]), x, dot);
            }
        }
        if (keys == BP_V) {
            bp_v_store(at->score + j, dot, bp_part_whole());
        } else {
            bp_v_store(at->score + j, dot, bp_part_first((uint64_t)keys));
        }
    }
}

static void decode_row(const head *at, const float *q, int64_t count, float *out)
{
    decode_products(q, at->k, count, at);
    float most = scale_max(at->score, (uint64_t)count, at->scale);
    float sum = bp_v_row_exp(at->score, (uint64_t)count, most);
    bp_v_row_scale(at->score, (uint64_t)count, 1.0f / sum);
    for (int64_t d = 0; d < at->width; d += FORM->columns) {
        int64_t left = at->width - d;
        bp_matmul_tile tile = tile_make(at->v + d, at->pitch, count);
        tile.rows = 1;
        tile.columns = left < FORM->columns ? left : FORM->columns;
        tile.a = at->score;
        tile.to = out + d;
        FORM->tile(&tile);
    }
}

static uint64_t decode_tasks(const void *scalars)
{
    const bp_attention_decode_scalars *s = scalars;
    return (uint64_t)s->heads;
}

/* A task is a head: its keys and values enter the caches before its rows look at them. */
static void decode_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_decode_scalars *s = call->scalars;
    const bp_attention_decode_pointers *p = call->pointers;
    uint64_t width = (uint64_t)s->head_width, pitch = (uint64_t)s->heads * width;
    uint64_t position = ((const bp_step_block *)p->step)->position;
    uint64_t positions = (uint64_t)s->positions;
    uint64_t rows = position < positions ? bp_least((uint64_t)s->rows, positions - position) : 0;
    float *work = bp_worker_part(p->work, bp_attention_decode_workspace(s, call->dtypes), worker);
    for (uint64_t number = first; number < last; number++) {
        const float *q = (const float *)p->qkv + number * width;
        float *k_cache = (float *)p->k_cache + number * width;
        float *v_cache = (float *)p->v_cache + number * width;
        head at = {.k = k_cache,
                   .v = v_cache,
                   .pitch = (int64_t)pitch,
                   .width = (int64_t)width,
                   .scale = 1.0f / sqrtf((float)width),
                   .score = work};
        for (uint64_t r = 0; r < rows; r++) {
            const float *row = q + r * 3 * pitch;
            memcpy(k_cache + (position + r) * pitch, row + pitch, width * sizeof(float));
            memcpy(v_cache + (position + r) * pitch, row + 2 * pitch, width * sizeof(float));
        }
        for (uint64_t r = 0; r < rows; r++) {
            decode_row(&at, q + r * 3 * pitch, (int64_t)(position + r + 1),
                       (float *)p->out + number * width + r * pitch);
        }
    }
}

const bp_host_kernel BP_FORM(bp_attention_forward) = {bp_attention_forward_tasks, forward_run,
                                                      bp_attention_forward_workspace};
const bp_host_kernel BP_FORM(bp_attention_backward) = {bp_attention_backward_tasks, backward_run,
                                                       bp_attention_backward_workspace};
const bp_host_kernel BP_FORM(bp_attention_decode) = {decode_tasks, decode_run,
                                                     bp_attention_decode_workspace};
