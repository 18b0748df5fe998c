/* SPDX-License-Identifier: MIT */
/* Attention in blocks of 32 queries, in vectors: each element's chain of operations is that of
 * attention.c, found in tiles of matrix products. Included after a vector header, once per form.
 *
 * Every product here is a matmul tile (matmul_pack.h): scores = q k^T with keys transposed into
 * panels, out = p v with v read in place. Causality cuts chains short: a tile's row r runs over r
 * more terms than its row 0 where chains end on the diagonal (`extra`), and where they begin on it,
 * they begin with products of zero, which leave the +0 that they start from. */
#include "core/base/math.h"
#include "device/host/attention/attention.h"
#include "device/host/isa.h"
#include "device/host/elements/mask_vector.h"
#include "device/host/matmul/matmul_pack.h"
#include "device/host/rows/row_vector.h"

#define FORM    (&BP_ISA(bp_matmul_isa))
#define QUERIES BP_ATTENTION_QUERIES

/* One head of one sample, in floats. */
typedef struct head {
    const bp_attention_shape *s;
    const float *q; /* row t of k, v at t * pitch, in backward from a block's first on */
    const float *k;
    const float *v;
    int64_t pitch;
    int64_t q_pitch; /* of q */
    int64_t width;
    int64_t keys;
    int64_t low; /* keys low .. high - 1 are looked at, and k and v begin with row `low` */
    int64_t high;
    uint64_t number; /* of the query head: keys dropout */
    bp_mask mask;
    int64_t score_pitch;
    int64_t base;   /* the key of a block's first column of scores: the first of a panel */
    int64_t panels; /* of transposed keys that are there */
    float *score;   /* (QUERIES, keys from base on; score_pitch) */
    float *k_panels;
} head;

#define ASKED_MOST 256 /* rows of a head that may be asked for at once */

/* Asks for the rows of a head in a tensor whose rows are `pitch` elements apart: a row's few lines
 * are no stream that a processor would follow. */
static void head_ask(const bp_attention_shape *s, const void *x, uint64_t place, uint64_t pitch,
                     uint64_t count)
{
    const char *row = bp_element_at(x, (int64_t)place, s->type);
    const size_t element = bp_dtype_bytes(s->type);
    const uint64_t rows = count <= ASKED_MOST ? count : 0;
    for (uint64_t i = 0; i < rows; i++, row += pitch * element) {
        for (uint64_t at = 0; at < s->width * element; at += BP_MATMUL_LINE) {
            __builtin_prefetch(row + at);
        }
    }
}

/* All that forward reads of a head. */
static void head_ask_rows(const bp_attention_shape *s, const void *qkv, uint64_t sample,
                          uint64_t number)
{
    const uint64_t kv = number / s->group;
    head_ask(s, s->q, bp_attention_q(s, sample, number), s->q_row, s->queries);
    head_ask(s, qkv, bp_attention_k(s, sample, kv), s->row, s->sequence);
    head_ask(s, qkv, bp_attention_v(s, sample, kv), s->row, s->sequence);
}

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

/* Of those that are looked at. */
static int64_t within(const head *at, uint64_t key)
{
    return higher(at->low, lower(at->high, (int64_t)key));
}

/* Keys that query i looks at: from the first to before the end; and the end of a block's. */
static int64_t first_of(const head *at, int64_t i)
{
    return within(at, bp_attention_span_of(at->s, (uint64_t)at->keys, (uint64_t)i).first);
}

static int64_t end_of(const head *at, int64_t i)
{
    return within(at, bp_attention_span_of(at->s, (uint64_t)at->keys, (uint64_t)i).last);
}

static int64_t keys_of(const head *at, const int64_t range[2])
{
    return end_of(at, range[1] - 1);
}

/* The first panel that a block looks at. */
static int64_t base_of(const head *at, const int64_t range[2])
{
    return first_of(at, range[0]) / FORM->columns * FORM->columns;
}

/* `rows` rows of a head as floats: in place, or converted into `buffer` (rows, width). `pitch` is
 * that of x and becomes that of the floats. */
static const float *rows_of(const bp_attention_shape *s, const void *x, uint64_t place,
                            int64_t rows, int64_t *pitch, float *buffer)
{
    if (s->type == BP_F32) {
        return (const float *)x + place;
    }
    FORM->load(buffer, (int64_t)s->width, bp_element_at(x, (int64_t)place, s->type), *pitch, rows,
               (int64_t)s->width, s->type);
    *pitch = (int64_t)s->width;
    return buffer;
}

/* Makes panels first .. last-1, each (width, form's columns), of the `rows` rows of x. */
static void transpose_rows(const head *at, const float *x, int64_t rows, float *panels,
                           int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        int64_t row = i * FORM->columns, left = rows - row;
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

/* score (r, j - base) = x_r . row j behind the panels, fused, in order of the elements, for the
 * queries i = begin + r < end and at least the keys that they look at. */
static void products(const head *at, const float *x, int64_t x_pitch, const float *panels,
                     const int64_t range[2], float *score)
{
    int64_t begin = range[0], end = range[1], keys = keys_of(at, range);
    for (int64_t j = at->base; j < keys; j += FORM->columns) {
        bp_matmul_tile tile =
            tile_make(panels + (j - at->low) * at->width, FORM->columns, at->width);
        bool below = at->s->causal && j > begin;
        int64_t skipped = below ? (j - begin) / FORM->rows * FORM->rows : 0;
        tile.columns = lower(keys - j, FORM->columns);
        tile.a_pitch = x_pitch;
        tile.to_pitch = at->score_pitch;
        for (int64_t i = begin + skipped; i < end; i += FORM->rows) {
            tile.rows = rows_left(i, end);
            tile.a = x + (i - begin) * x_pitch;
            tile.to = score + (i - begin) * at->score_pitch + j - at->base;
            FORM->tile(&tile);
        }
    }
}

/* Sums over keys for queries that all look at those below their tile's last end or, with
 * `diagonal`, query i at those up to i, all of them or none in the block of keys. Factors of keys
 * outside of a window are 0. `more`: the sums go on from those that are there. */
static void weigh(const head *at, const float *factor, const float *x, const int64_t range[2],
                  bool diagonal, bool more, float *to, int64_t to_pitch)
{
    for (int64_t d = 0, columns; d < at->width; d += columns) {
        columns = columns_next(at->width - d);
        for (int64_t i = range[0]; i < range[1]; i += FORM->rows) {
            int64_t r = i - range[0];
            const int64_t first = first_of(at, i);
            bp_matmul_tile tile =
                tile_make(x + (first - at->low) * at->pitch + d, at->pitch, i + 1 - first);
            tile.rows = rows_left(i, range[1]);
            tile.extra = diagonal && end_of(at, i) == i + 1;
            tile.depth = tile.extra ? tile.depth : end_of(at, i + tile.rows - 1) - first;
            tile.columns = columns;
            tile.a = factor + r * at->score_pitch + first - at->base;
            tile.a_pitch = at->score_pitch;
            tile.to = to + r * to_pitch + d;
            tile.to_pitch = to_pitch;
            tile.from = more ? tile.to : NULL;
            tile.from_pitch = to_pitch;
            FORM->tile(&tile);
        }
    }
}

/* to_r = sum over the keys j of query begin + r, in order, of factor (r, j) * x_j, fused, `more`
 * than what is there; x_j at x + (j - low) * at->pitch. The diagonal cuts the sums short up to the
 * last key. */
static void weighted_sums(const head *at, const float *factor, const float *x,
                          const int64_t range[2], bool more, float *to, int64_t to_pitch)
{
    int64_t begin = range[0], end = range[1];
    int64_t cut = at->s->causal ? lower(end, higher(begin, at->keys)) : begin, r = cut - begin;
    weigh(at, factor, x, (int64_t[]){begin, cut}, true, more, to, to_pitch);
    weigh(at, factor + r * at->score_pitch, x, (int64_t[]){cut, end}, false, more,
          to + r * to_pitch, to_pitch);
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
    bp_v most = bp_v_set(-INFINITY), scale = bp_v_set(by);
#define STEP(part) most = scale_max_step(score + i, scale, most, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    return bp_v_most(most);
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
    const int64_t first = first_of(at, query);
    uint64_t count = (uint64_t)(end_of(at, query) - first);
    uint64_t element = mask_element(at, query) + (uint64_t)first;
    for (uint64_t j = 0; j < count; j += BP_MASK_RUN) {
        float factor[BP_MASK_RUN];
        uint64_t run = bp_least(count - j, BP_MASK_RUN);
        bp_mask_row(&at->mask, element + j, run, factor);
#define STEP(part) drop_step(score + j + i, factor + i, part);
        BP_FOR_VECTORS(i, run, STEP)
#undef STEP
    }
}

/* The same under a cap. */
static float cap_max(float *score, uint64_t count, float cap)
{
    float slope;
    for (uint64_t j = 0; j < count; j++) {
        score[j] = bp_attention_capped(score[j], cap, &slope);
    }
    return bp_row_max(score, count);
}

static inline bp_v bias_max_step(float *score, const float *bias, bp_v most, bp_part part)
{
    bp_v sum = bp_v_add(bp_v_load(score, part), bp_v_load(bias, part));
    bp_v_store(score, sum, part);
    return bp_v_choose(part, bp_v_max(sum, most), most);
}

/* score += bias; returns the largest. */
static float bias_max(float *score, const float *bias, uint64_t count)
{
    bp_v most = bp_v_set(-INFINITY);
#define STEP(part) most = bias_max_step(score + i, bias + i, most, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    return bp_v_most(most);
}

/* Place of query i and its first key among the distances of all heads. */
static uint64_t distance_of(const head *at, int64_t i)
{
    return bp_attention_distance(at->s, at->number, (uint64_t)i, (uint64_t)first_of(at, i));
}

/* A row of a block where its query's keys are; what the block has before and after them is 0. */
static float *row_keys(const head *at, int64_t query, int64_t keys, float *row)
{
    const int64_t first = first_of(at, query) - at->base, end = end_of(at, query) - at->base;
    for (int64_t j = 0; j < first; j++) {
        row[j] = 0.0f;
    }
    for (int64_t j = end; j < keys - at->base; j++) {
        row[j] = 0.0f;
    }
    return row + first;
}

/* The scores of query i become probabilities, masked; returns the log-sum-exp, 0 without keys. */
static float softmax_row(const head *at, int64_t i, int64_t keys, float *score)
{
    uint64_t count = (uint64_t)(end_of(at, i) - first_of(at, i));
    score = at->s->window != 0 ? row_keys(at, i, keys, score) : score;
    if (count == 0) {
        return 0.0f;
    }
    float most = scale_max(score, count, at->s->scale);
    most = at->s->cap > 0.0f ? cap_max(score, count, at->s->cap) : most;
    if (at->s->bias != NULL) {
        most = bias_max(score, at->s->bias + distance_of(at, i), count);
    }
    float sum = bp_v_row_exp(score, count, most);
    bp_v_row_scale(score, count, 1.0f / sum);
    if (at->s->dropout > 0.0) {
        drop_row(at, i, score);
    }
    return most + bp_logf(sum);
}

/* The head `number` of a sample, without its rows. */
static head head_make(const bp_attention_shape *s, uint64_t sample, uint64_t number, float *score)
{
    return (head){.s = s,
                  .width = (int64_t)s->width,
                  .keys = (int64_t)bp_attention_keys(s, sample),
                  .high = (int64_t)s->sequence,
                  .number = number,
                  .mask = bp_attention_mask(s, sample),
                  .score_pitch = (int64_t)s->pitch,
                  .score = score};
}

/* A call of forward as its worker sees it. A strip of queries passes over one block of keys after
 * the other, which makes their scores, and then over the blocks' values. */
typedef struct forward_work {
    const bp_attention_forward_pointers *p;
    bp_attention_shape s;
    bool whole;      /* one block has all keys of a head, whose rows stay from strip to strip */
    int64_t keys;    /* of a block */
    int64_t queries; /* of a strip */
    float *rows;     /* 16-bit elements as floats: q and out of a strip; k, then v of a block */
} forward_work;

/* What follows sees the block of keys that begins with `low` alone, of those before `end`. */
static void see_block(const forward_work *w, head *at, int64_t low, int64_t end)
{
    at->low = low;
    at->high = w->whole ? (int64_t)w->s.sequence : lower(low + w->keys, end);
}

static void see_all(const forward_work *w, head *at)
{
    at->low = 0;
    at->high = (int64_t)w->s.sequence;
}

/* Rows at->low .. at->high - 1 of keys or values in place, or converted into `buffer`. */
static const float *block_of(const forward_work *w, head *at, uint64_t place, float *buffer)
{
    at->pitch = (int64_t)w->s.row;
    return rows_of(&w->s, w->p->qkv, place + (uint64_t)at->low * w->s.row, at->high - at->low,
                   &at->pitch, buffer);
}

/* The block's keys as panels, as far as queries before `end` look at them. */
static void block_keys(const forward_work *w, head *at, uint64_t sample, const int64_t range[2])
{
    const uint64_t kv = at->number / w->s.group;
    const int64_t panels = panels_of(keys_of(at, range) - at->low);
    float *rows = w->rows + 2 * bp_attention_matrix((uint64_t)w->queries, w->s.width);
    if (!w->whole || at->k == NULL) {
        at->k = block_of(w, at, bp_attention_k(&w->s, sample, kv), rows);
        at->panels = 0;
    }
    if (at->panels < panels) {
        at->panels = higher(at->panels, (base_of(at, range) - at->low) / FORM->columns);
        transpose_rows(at, at->k, at->high - at->low, at->k_panels, at->panels, panels);
        at->panels = panels;
    }
}

static void block_values(const forward_work *w, head *at, uint64_t sample)
{
    const uint64_t kv = at->number / w->s.group;
    float *rows = w->rows + 2 * bp_attention_matrix((uint64_t)w->queries, w->s.width) +
                  bp_attention_matrix((uint64_t)w->keys, w->s.width);
    if (!w->whole || at->v == NULL) {
        at->v = block_of(w, at, bp_attention_v(&w->s, sample, kv), rows);
    }
}

/* Where the scores of query i of a strip begin that have those of key `base` first. */
static float *scores_of(const head *at, const int64_t strip[2], int64_t base, int64_t i)
{
    return at->score + (i - strip[0]) * at->score_pitch + at->base - base;
}

/* The strip's scores with a block of keys, or what its values add to out. */
static void strip_block(head *at, const int64_t strip[2], int64_t base, float *out,
                        int64_t out_pitch)
{
    for (int64_t i = strip[0]; i < strip[1]; i += QUERIES) {
        const int64_t range[2] = {i, lower(i + QUERIES, strip[1])}, r = i - strip[0];
        at->base = base_of(at, range);
        float *score = scores_of(at, strip, base, i);
        if (keys_of(at, range) <= at->base) {
            continue;
        }
        if (out == NULL) {
            products(at, at->q + r * at->q_pitch, at->q_pitch, at->k_panels, range, score);
        } else {
            weighted_sums(at, score, at->v, range, true, out + r * out_pitch, out_pitch);
        }
    }
}

/* Its scores become probabilities. */
static void strip_softmax(head *at, const int64_t strip[2], int64_t base, float *lse)
{
    for (int64_t i = strip[0]; i < strip[1]; i++) {
        const int64_t first = strip[0] + (i - strip[0]) / QUERIES * QUERIES;
        const int64_t range[2] = {first, lower(first + QUERIES, strip[1])};
        at->base = base_of(at, range);
        const float row = softmax_row(at, i, keys_of(at, range), scores_of(at, strip, base, i));
        if (lse != NULL) {
            lse[i] = row;
        }
    }
}

/* Queries strip[0] .. strip[1] - 1 of a head. */
static void forward_strip(const forward_work *w, head *at, uint64_t sample, const int64_t strip[2],
                          float *out, int64_t out_pitch, float *lse)
{
    const bp_attention_shape *s = &w->s;
    const int64_t rows = strip[1] - strip[0];
    see_all(w, at);
    const int64_t end = keys_of(at, strip), base = base_of(at, strip);
    const int64_t first = base / w->keys * w->keys;
    at->q_pitch = (int64_t)s->q_row;
    at->q = rows_of(s, s->q, bp_attention_q(s, sample, at->number) + (uint64_t)strip[0] * s->q_row,
                    rows, &at->q_pitch, w->rows);
    for (int64_t low = first; low < end; low += w->keys) {
        see_block(w, at, low, end);
        block_keys(w, at, sample, strip);
        strip_block(at, strip, base, NULL, 0);
    }
    see_all(w, at);
    strip_softmax(at, strip, base, lse);
    for (int64_t i = 0; i < rows; i++) {
        memset(out + i * out_pitch, 0, s->width * sizeof(float));
    }
    for (int64_t low = first; low < end; low += w->keys) {
        see_block(w, at, low, end);
        block_values(w, at, sample);
        strip_block(at, strip, base, out, out_pitch);
    }
}

/* A strip of out: found in place, or beside and then rounded. */
static void forward_task(const forward_work *w, head *at, uint64_t sample, const int64_t strip[2])
{
    const bp_attention_shape *s = &w->s;
    const int64_t pitch = (int64_t)(s->heads * s->width);
    const int64_t place = (int64_t)bp_attention_out(s, sample, at->number) + strip[0] * pitch;
    const uint64_t row = (sample * s->heads + at->number) * s->queries;
    float *lse = w->p->lse != NULL ? (float *)w->p->lse + row : NULL;
    float *beside = w->rows + bp_attention_matrix((uint64_t)w->queries, s->width);
    if (s->type == BP_F32) {
        forward_strip(w, at, sample, strip, (float *)w->p->out + place, pitch, lse);
        return;
    }
    forward_strip(w, at, sample, strip, beside, at->width, lse);
    FORM->store((uint16_t *)w->p->out + place, pitch, beside, at->width, strip[1] - strip[0],
                at->width, s->type);
}

/* A worker's part of a call: what it works in, and how. Packed documents are shorter than what the
 * workspace is for. */
static forward_work forward_work_make(const bp_host_call *call, const bp_attention_shape *of,
                                      head *at, uint32_t worker)
{
    forward_work w = {.p = call->pointers, .s = *of};
    const uint64_t rows = bp_attention_rows(&w.s);
    w.whole = rows <= BP_ATTENTION_WHOLE;
    w.keys = w.whole ? (int64_t)rows : BP_ATTENTION_KEYS;
    w.queries = w.whole ? QUERIES : (int64_t)bp_attention_strip(w.s.width);
    w.s.pitch = bp_attention_pitch(rows, w.s.window, w.s.causal, (uint64_t)w.queries);
    at->score = bp_worker_part(w.p->work, bp_attention_forward_workspace, call, worker);
    at->k_panels = at->score + (uint64_t)w.queries * w.s.pitch;
    w.rows = at->k_panels + bp_attention_panels((uint64_t)w.keys, w.s.width);
    return w;
}

/* A range of tasks that stays within a head converts its rows and transposes its keys once where it
 * is whole, and else once for the tasks of a strip. */
static void forward_over(const bp_host_call *call, const bp_attention_shape *of, uint64_t first,
                         uint64_t last, uint32_t worker)
{
    head at = {0}, room = {0};
    const forward_work w = forward_work_make(call, of, &room, worker);
    const uint64_t blocks = bp_cut((int64_t)w.s.queries, QUERIES);
    const uint64_t each = (uint64_t)w.queries / QUERIES;
    for (uint64_t task = first, count; task < last; task += count) {
        const uint64_t row = task / blocks, in_head = task % blocks;
        const uint64_t sample = row / w.s.heads, number = row % w.s.heads;
        count = bp_least(bp_least(each - in_head % each, blocks - in_head), last - task);
        if (task == first || in_head == 0) {
            at = head_make(&w.s, sample, number, room.score);
            at.k_panels = room.k_panels;
            if ((row + 1) * blocks < last) {
                head_ask_rows(&w.s, w.p->qkv, (row + 1) / w.s.heads, (row + 1) % w.s.heads);
            }
        }
        const int64_t strip[2] = {(int64_t)(in_head * QUERIES),
                                  (int64_t)bp_least((in_head + count) * QUERIES, w.s.queries)};
        forward_task(&w, &at, sample, strip);
    }
}

static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const bp_attention_shape s = bp_attention_forward_shape(call);
    forward_over(call, &s, first, last, worker);
}

const bp_host_kernel BP_ISA(bp_attention_forward) = {bp_attention_forward_tasks, forward_run,
                                                     bp_attention_forward_workspace};

#include "device/host/attention/attention_backward_vector.h"

#define BP_PACKED(name)       BP_ISA(bp_##name)
#define BP_PACKED_BYTES(name) bp_##name##_workspace
#include "device/host/attention/attention_packed.h"

#define BP_CROSS(name)       BP_ISA(bp_##name)
#define BP_CROSS_BYTES(name) bp_##name##_workspace
#include "device/host/attention/attention_cross.h"

#define BP_BIASED(name)       BP_ISA(bp_##name)
#define BP_BIASED_BYTES(name) bp_##name##_workspace
#include "device/host/attention/attention_biased.h"

#define BP_OVER(name)       BP_ISA(bp_##name)
#define BP_OVER_BYTES(name) bp_##name##_workspace
#include "device/host/attention/attention_over.h"

#define BP_STRIPS(name)       BP_ISA(bp_##name)
#define BP_STRIPS_BYTES(name) bp_##name##_workspace
#define BP_STRIPS_WHOLE       false
#include "device/host/attention/attention_strips.h"

static void strip_forward(const bp_host_call *call, const strip_segment *segment, float *work)
{
    const strip_scalars *s = call->scalars;
    const bp_attention_strip_forward_pointers *p = call->pointers;
    const uint64_t row = (uint64_t)s->head_width * bp_dtype_bytes(bp_call_type(call, 0));
    const bp_step_block step = {0};
    const bp_attention_forward_pointers own = {.out = strip_from(p->out, segment, row),
                                               .lse = strip_from(p->lse, segment, sizeof(float)),
                                               .qkv = strip_keys(p->kv, segment, 2 * row)};
    forward_work w = {.p = &own,
                      .s = strip_shape(call, segment, strip_from(p->q, segment, row), &step),
                      .keys = BP_ATTENTION_KEYS,
                      .queries = (int64_t)bp_attention_strip_queries(s->head_width)};
    w.s.pitch = bp_attention_pitch((uint64_t)s->sequence, w.s.window, true, (uint64_t)w.queries);
    head at = head_make(&w.s, 0, 0, work);
    at.k_panels = work + (uint64_t)w.queries * w.s.pitch;
    w.rows = at.k_panels + bp_attention_panels(BP_ATTENTION_KEYS, w.s.width);
    const int64_t end = (int64_t)segment->end;
    for (int64_t i = (int64_t)segment->begin, next; i < end; i = next) {
        next = lower(i % QUERIES == 0 ? i + w.queries : i - i % QUERIES + QUERIES, end);
        forward_task(&w, &at, 0, (int64_t[]){i, next});
    }
}

/* A cell of queries and keys; with the last of their keys the queries' gradients are rounded. */
static void strip_backward(const bp_host_call *call, const strip_segment *segment, uint64_t range,
                           float *work)
{
    const strip_scalars *s = call->scalars;
    const bp_attention_strip_backward_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->head_width;
    const uint64_t row = width * bp_dtype_bytes(bp_call_type(call, 0));
    const int64_t queries[2] = {(int64_t)segment->begin, (int64_t)segment->end};
    const int64_t low = (int64_t)(range * BP_STRIP_KEYS);
    const int64_t keys[2] = {low, lower(low + BP_STRIP_KEYS, queries[1])};
    const bp_step_block step = {0};
    void *q = strip_from(p->q, segment, row);
    const bp_attention_backward_pointers own = {.d_out = strip_from(p->d_out, segment, row),
                                                .qkv = strip_keys(p->kv, segment, 2 * row)};
    backward_work w = {.p = &own, .s = strip_shape(call, segment, q, &step), .score = work};
    w.s.delta = strip_from(p->delta, segment, sizeof(float));
    w.s.pitch = bp_least(bp_attention_pitch((uint64_t)s->sequence, w.s.window, true, QUERIES),
                         BP_ATTENTION_KEYS);
    w.strip = bp_attention_matrix(BP_STRIP_ROWS, width);
    w.rows = work + bp_attention_strip_floats(s);
    head at = head_make(&w.s, 0, 0, work);
    const int64_t first = first_of(&at, queries[0]) / BP_STRIP_KEYS * BP_STRIP_KEYS;
    if (low < first || low >= queries[1]) {
        return;
    }
    float *d_kv = strip_keys(p->d_kv, segment, 2 * width * sizeof(float));
    head_gradient to = {.d_q = (float *)p->sums + segment->row * width,
                        .d_k = d_kv,
                        .d_v = d_kv + width,
                        .pitch = (int64_t)width,
                        .key_pitch = 2 * (int64_t)width,
                        .lse = strip_from(p->lse, segment, sizeof(float))};
    backward_places(&w, &at, &to);
    strip_rows(&w, &at, &to, 0, queries);
    if (low == first) {
        strip_clear_rows(&at, &to, queries[1] - queries[0]);
    }
    for (int64_t j = higher(queries[0], low) * to.key_pitch; j < keys[1] * to.key_pitch; j++) {
        d_kv[j] += 0.0f; /* what the head before left, as in add_zero */
    }
    strip_keys_range(&w, &at, &to, 0, queries, keys);
    if (keys[1] == queries[1]) {
        store_rows(&w.s, q, segment->begin * width, width, to.d_q, queries[1] - queries[0]);
    }
}
