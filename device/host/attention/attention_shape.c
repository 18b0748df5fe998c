/* SPDX-License-Identifier: MIT */
/* The shape, tasks and workspace of attention. */
#include "device/host/attention/attention.h"

static uint64_t rounded(int64_t count)
{
    return bp_size_align((uint64_t)count, BP_LANES);
}

#define PANEL_MOST 64 /* columns of a panel, which rows of scores begin at a multiple of */

uint64_t bp_attention_pitch(uint64_t sequence, uint64_t window, bool causal, uint64_t queries)
{
    const uint64_t most = bp_size_align(sequence, BP_LANES);
    if (window == 0 || window > most) {
        return most;
    }
    const uint64_t near = causal ? window : 2 * window;
    return bp_least(most, bp_size_align(near + queries + PANEL_MOST, BP_LANES));
}

static uint64_t attention_score_pitch(int64_t sequence, int64_t window, bool causal)
{
    return bp_attention_pitch((uint64_t)sequence, window > 0 ? (uint64_t)window : 0, causal,
                              BP_ATTENTION_QUERIES);
}

/* Rows of 16 elements or more, with 32 rows to spare, of `matrices` D' floats each, and a block's
 * scores `fixed` times. */
static uint64_t floats_of(const bp_attention_forward_scalars *s, uint64_t fixed, uint64_t matrices)
{
    const uint64_t pitch = attention_score_pitch(s->sequence, s->window, s->causal != 0);
    const uint64_t rows = rounded(s->sequence) + BP_ATTENTION_QUERIES;
    const uint64_t scores = bp_size_mul(pitch + BP_ATTENTION_QUERIES, fixed);
    return bp_size_add(scores, bp_size_mul(rows, bp_size_mul(matrices, rounded(s->head_width))));
}

/* Scores, gradients and one of them transposed; keys and values in panels; a number per query. */
uint64_t bp_attention_backward_floats(const bp_attention_forward_scalars *s)
{
    const uint64_t width = rounded(s->head_width), rows = rounded(s->sequence);
    const uint64_t pitch =
        bp_least(attention_score_pitch(s->sequence, s->window, s->causal != 0), BP_ATTENTION_KEYS);
    const uint64_t keys = bp_least(BP_ATTENTION_KEYS, rows + PANEL_MOST - BP_LANES);
    return bp_size_add(3 * BP_ATTENTION_QUERIES * pitch + bp_least(BP_ATTENTION_ROWS, rows),
                       bp_size_mul(2 * keys, width));
}

static bool halves(const uint8_t *dtypes)
{
    return dtypes != NULL && dtypes[0] != BP_F32;
}

/* All keys of a head at once: a block's scores; keys in panels, and as much again. */
static uint64_t forward_whole(const bp_attention_forward_scalars *s, bool converted)
{
    uint64_t floats = floats_of(s, BP_ATTENTION_QUERIES, 2);
    if (converted) {
        /* q, k, v, and a block of out */
        uint64_t matrix = bp_attention_matrix((uint64_t)s->sequence, (uint64_t)s->head_width);
        floats = bp_size_add(floats, bp_size_mul(3, matrix));
        floats = bp_size_add(floats, bp_size_mul(BP_ATTENTION_QUERIES, rounded(s->head_width)));
    }
    return floats;
}

/* A strip's scores; keys of a block in panels. */
static uint64_t forward_strips(const bp_attention_forward_scalars *s, bool converted)
{
    const uint64_t width = (uint64_t)s->head_width, queries = bp_attention_strip(width);
    const uint64_t pitch = bp_attention_pitch(
        (uint64_t)s->sequence, s->window > 0 ? (uint64_t)s->window : 0, s->causal != 0, queries);
    uint64_t floats =
        bp_size_add(bp_size_mul(queries, pitch), bp_attention_panels(BP_ATTENTION_KEYS, width));
    if (converted) {
        /* q and out of the strip, k and v of the block */
        floats = bp_size_add(floats, 2 * bp_attention_matrix(queries, width));
        floats = bp_size_add(floats, 2 * bp_attention_matrix(BP_ATTENTION_KEYS, width));
    }
    return floats;
}

/* Documents that are whole may lie in a longer row. */
uint64_t bp_attention_forward_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars *s = scalars;
    bp_attention_forward_scalars most = *s;
    most.sequence = s->sequence < BP_ATTENTION_WHOLE ? s->sequence : BP_ATTENTION_WHOLE;
    uint64_t floats = forward_whole(&most, halves(dtypes));
    if (s->sequence > BP_ATTENTION_WHOLE) {
        const uint64_t strips = forward_strips(s, halves(dtypes));
        floats = strips > floats ? strips : floats;
    }
    return bp_size_mul(sizeof(float), floats);
}

static uint64_t backward_bytes(const void *scalars, bool apart)
{
    const bp_attention_forward_scalars *s = scalars; /* all rows have the same */
    const uint64_t sequence = (uint64_t)s->sequence, width = (uint64_t)s->head_width;
    const bool whole = sequence <= BP_ATTENTION_WHOLE;
    uint64_t floats =
        whole ? floats_of(s, 2 * BP_ATTENTION_QUERIES, 4) : bp_attention_backward_floats(s);
    if (apart) {
        /* In blocks: q, d_out, out, d_q of some queries, v or k of some keys, and the sums of d_k,
         * d_v. */
        const uint64_t block = whole ? 0 : 4 * BP_ATTENTION_ROWS + BP_ATTENTION_KEYS;
        floats = bp_size_add(floats, bp_size_mul(block, width));
        floats =
            bp_size_add(floats, bp_size_mul(whole ? 8 : 2, bp_attention_matrix(sequence, width)));
    }
    return bp_size_mul(sizeof(float), floats);
}

uint64_t bp_attention_backward_workspace(const void *scalars, const uint8_t *dtypes)
{
    return backward_bytes(scalars, halves(dtypes));
}

/* Floats too have a place of their own until nobody reads what theirs is over. */
uint64_t bp_attention_backward_over_workspace(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    return backward_bytes(scalars, true);
}

/* Scores of a task's rows; keys of a block in panels, and as floats q and out of the task, k and v
 * of the block. */
uint64_t bp_attention_strip_forward_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_strip_forward_scalars *s = scalars;
    const uint64_t width = (uint64_t)s->head_width;
    const uint64_t queries = bp_attention_strip_queries(s->head_width);
    const uint64_t pitch =
        bp_attention_pitch((uint64_t)s->sequence, (uint64_t)s->window, true, queries);
    uint64_t floats =
        bp_size_add(bp_size_mul(queries, pitch), bp_attention_panels(BP_ATTENTION_KEYS, width));
    if (halves(dtypes)) {
        floats = bp_size_add(floats, 2 * bp_attention_matrix(queries, width));
        floats = bp_size_add(floats, 2 * bp_attention_matrix(BP_ATTENTION_KEYS, width));
    }
    return bp_size_mul(sizeof(float), floats);
}

static bp_attention_forward_scalars strip_sample(const bp_attention_strip_forward_scalars *s)
{
    return (bp_attention_forward_scalars){.batch = 1,
                                          .sequence = s->sequence,
                                          .heads = 1,
                                          .kv_heads = 1,
                                          .head_width = s->head_width,
                                          .causal = 1,
                                          .window = s->window};
}

uint64_t bp_attention_strip_blocks(const void *scalars)
{
    const bp_attention_strip_backward_scalars *s = scalars;
    return bp_cut(s->rows, BP_STRIP_ROWS);
}

uint64_t bp_attention_strip_floats(const bp_attention_strip_forward_scalars *s)
{
    const bp_attention_forward_scalars own = strip_sample(s);
    return bp_attention_backward_floats(&own);
}

/* As backward in blocks, without the sums of d_k, d_v, which have a tensor. */
uint64_t bp_attention_strip_backward_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_strip_forward_scalars *s = scalars; /* backward's begin like these */
    const uint64_t width = (uint64_t)s->head_width;
    uint64_t floats = bp_attention_strip_floats(s);
    if (halves(dtypes)) {
        floats = bp_size_add(floats, 4 * bp_attention_matrix(BP_STRIP_ROWS, width));
        floats = bp_size_add(floats, bp_attention_matrix(BP_ATTENTION_KEYS, width));
    }
    return bp_size_mul(sizeof(float), floats);
}

uint64_t bp_attention_strip_forward_plain(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars own = strip_sample(scalars);
    return bp_attention_forward_plain(&own, dtypes);
}

/* A row of d_q. */
uint64_t bp_attention_strip_backward_plain(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_strip_forward_scalars *s = scalars;
    (void)dtypes;
    return bp_size_mul(sizeof(float), (uint64_t)s->head_width);
}

uint64_t bp_attention_forward_plain(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars *s = scalars;
    (void)dtypes;
    return bp_size_mul(2 * sizeof(float),
                       attention_score_pitch(s->sequence, s->window, s->causal != 0));
}

static uint64_t plain_bytes(const void *scalars, bool apart)
{
    const bp_attention_backward_scalars *s = scalars;
    const uint64_t rows = apart ? 2 * (uint64_t)s->sequence + 1 : 1;
    return bp_size_mul(rows, bp_size_mul(sizeof(float), (uint64_t)s->head_width));
}

uint64_t bp_attention_backward_plain(const void *scalars, const uint8_t *dtypes)
{
    return plain_bytes(scalars, halves(dtypes));
}

uint64_t bp_attention_backward_over_plain(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    return plain_bytes(scalars, true);
}

static uint64_t decode_bytes(int64_t positions, int64_t width, const uint8_t *dtypes)
{
    uint64_t floats = rounded(positions);
    if (halves(dtypes)) {
        /* some rows of values, a query and its output */
        floats = bp_size_add(floats, bp_size_mul(BP_ATTENTION_CACHED + 2, rounded(width)));
    }
    return bp_size_mul(sizeof(float), floats);
}

uint64_t bp_attention_decode_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_decode_scalars *s = scalars;
    return decode_bytes(s->positions, s->head_width, dtypes);
}

uint64_t bp_attention_slots_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_slots_scalars *s = scalars;
    return decode_bytes(s->prompt + s->most, s->head_width, dtypes);
}

uint64_t bp_attention_forward_tasks(const void *scalars)
{
    const bp_attention_forward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads * bp_cut(s->sequence, BP_ATTENTION_QUERIES);
}

uint64_t bp_attention_backward_tasks(const void *scalars)
{
    const bp_attention_backward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->kv_heads;
}

/* Forward and backward have the same scalars. */
static bp_attention_shape shape_of(const bp_host_call *call, const void *step, const void *lengths)
{
    const bp_attention_forward_scalars *s = call->scalars;
    bp_attention_shape shape = {.sequence = (uint64_t)s->sequence,
                                .heads = (uint64_t)s->heads,
                                .kv_heads = (uint64_t)s->kv_heads,
                                .width = (uint64_t)s->head_width,
                                .causal = s->causal != 0,
                                .window = (uint64_t)s->window,
                                .scale = (float)s->scale,
                                .cap = (float)s->cap,
                                .dropout = s->dropout,
                                .site = s->site,
                                .type = bp_call_type(call, 0),
                                .step = step,
                                .lengths = lengths};
    const bp_step_block *block = step;
    const uint64_t span = shape.dropout > 0.0 ? block->mask_span : 0;
    shape.span = span > shape.sequence ? span : shape.sequence;
    shape.first = shape.dropout > 0.0 ? block->mask_first : 0;
    shape.group = shape.heads / shape.kv_heads;
    shape.pitch = attention_score_pitch(s->sequence, s->window, shape.causal);
    shape.row = (shape.heads + 2 * shape.kv_heads) * shape.width;
    shape.q_row = shape.row;
    shape.queries = shape.sequence;
    shape.first_key = shape.heads;
    return shape;
}

bp_attention_shape bp_attention_forward_shape(const bp_host_call *call)
{
    const bp_attention_forward_pointers *p = call->pointers;
    bp_attention_shape shape = shape_of(call, p->step, p->lengths);
    shape.q = p->qkv;
    return shape;
}

bp_attention_shape bp_attention_backward_shape(const bp_host_call *call)
{
    const bp_attention_backward_pointers *p = call->pointers;
    bp_attention_shape shape = shape_of(call, p->step, p->lengths);
    shape.q = p->qkv;
    shape.d_q = p->d_qkv;
    return shape;
}

bp_attention_forward_scalars bp_attention_cross_scalars(const bp_attention_cross_forward_scalars *s)
{
    return (bp_attention_forward_scalars){.batch = s->batch,
                                          .sequence = s->sequence > s->keys ? s->sequence : s->keys,
                                          .heads = s->heads,
                                          .kv_heads = s->heads,
                                          .head_width = s->head_width,
                                          .site = s->site,
                                          .scale = s->scale,
                                          .dropout = s->dropout};
}

void bp_attention_cross_shape(bp_attention_shape *shape,
                              const bp_attention_cross_forward_scalars *s)
{
    shape->sequence = (uint64_t)s->keys;
    shape->queries = (uint64_t)s->sequence;
    shape->q_row = shape->heads * shape->width;
    shape->row = 2 * shape->q_row;
    shape->first_key = 0;
}

uint64_t bp_attention_cross_forward_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars own = bp_attention_cross_scalars(scalars);
    return bp_attention_forward_workspace(&own, dtypes);
}

uint64_t bp_attention_cross_backward_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars own = bp_attention_cross_scalars(scalars);
    return bp_attention_backward_workspace(&own, dtypes);
}

uint64_t bp_attention_cross_forward_tasks(const void *scalars)
{
    const bp_attention_cross_forward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads * bp_cut(s->sequence, BP_ATTENTION_QUERIES);
}

uint64_t bp_attention_cross_backward_tasks(const void *scalars)
{
    const bp_attention_cross_backward_scalars *s = scalars;
    return (uint64_t)s->batch * (uint64_t)s->heads;
}
