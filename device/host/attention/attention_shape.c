/* SPDX-License-Identifier: MIT */
/* The shape, tasks and workspace of attention. */
#include "device/host/attention/attention.h"

static uint64_t rounded(int64_t count)
{
    return bp_size_align((uint64_t)count, BP_LANES);
}

/* Rows of 16 elements or more, with 32 rows to spare, of `fixed` + `matrices` D' floats each. */
static uint64_t floats_of(int64_t sequence, int64_t head_width, uint64_t fixed, uint64_t matrices)
{
    uint64_t per_position = bp_size_add(fixed, bp_size_mul(matrices, rounded(head_width)));
    uint64_t rows = bp_size_add(rounded(sequence), BP_ATTENTION_QUERIES);
    return bp_size_mul(rows, per_position);
}

uint64_t bp_attention_forward_floats(int64_t sequence, int64_t head_width)
{
    return floats_of(sequence, head_width, BP_ATTENTION_QUERIES, 2);
}

uint64_t bp_attention_backward_floats(int64_t sequence, int64_t head_width)
{
    return floats_of(sequence, head_width, 2 * BP_ATTENTION_QUERIES, 4);
}

static bool halves(const uint8_t *dtypes)
{
    return dtypes != NULL && dtypes[0] != BP_F32;
}

uint64_t bp_attention_forward_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_forward_scalars *s = scalars;
    uint64_t sequence = (uint64_t)s->sequence, width = (uint64_t)s->head_width;
    uint64_t floats = bp_attention_forward_floats(s->sequence, s->head_width);
    if (halves(dtypes)) {
        /* q, k, v, and a block of out */
        uint64_t matrix = bp_attention_matrix(sequence, width);
        floats = bp_size_add(floats, bp_size_mul(3, matrix));
        floats = bp_size_add(floats, bp_size_mul(BP_ATTENTION_QUERIES, rounded(s->head_width)));
    }
    return bp_size_mul(sizeof(float), floats);
}

uint64_t bp_attention_backward_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_backward_scalars *s = scalars;
    uint64_t matrix = bp_attention_matrix((uint64_t)s->sequence, (uint64_t)s->head_width);
    uint64_t floats = bp_attention_backward_floats(s->sequence, s->head_width);
    if (halves(dtypes)) {
        /* q, k, v, d_out, out, d_q, and the sums of d_k, d_v */
        floats = bp_size_add(floats, bp_size_mul(8, matrix));
    }
    return bp_size_mul(sizeof(float), floats);
}

uint64_t bp_attention_decode_workspace(const void *scalars, const uint8_t *dtypes)
{
    const bp_attention_decode_scalars *s = scalars;
    uint64_t floats = rounded(s->positions);
    if (halves(dtypes)) {
        /* some rows of values, a query and its output */
        floats = bp_size_add(floats, bp_size_mul(BP_ATTENTION_CACHED + 2, rounded(s->head_width)));
    }
    return bp_size_mul(sizeof(float), floats);
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

static void complete(bp_attention_shape *shape)
{
    const bp_step_block *step = shape->step;
    const bool longer = shape->dropout > 0.0 && step->mask_span > shape->sequence;
    shape->span = longer ? step->mask_span : shape->sequence;
    shape->group = shape->heads / shape->kv_heads;
    shape->row = (shape->heads + 2 * shape->kv_heads) * shape->width;
}

bp_attention_shape bp_attention_forward_shape(const bp_host_call *call)
{
    const bp_attention_forward_scalars *s = call->scalars;
    const bp_attention_forward_pointers *p = call->pointers;
    bp_attention_shape shape = {.sequence = (uint64_t)s->sequence,
                                .heads = (uint64_t)s->heads,
                                .kv_heads = (uint64_t)s->kv_heads,
                                .width = (uint64_t)s->head_width,
                                .causal = s->causal != 0,
                                .scale = (float)s->scale,
                                .dropout = s->dropout,
                                .site = s->site,
                                .type = bp_call_type(call, 0),
                                .step = p->step,
                                .lengths = p->lengths};
    complete(&shape);
    return shape;
}

bp_attention_shape bp_attention_backward_shape(const bp_host_call *call)
{
    const bp_attention_backward_scalars *s = call->scalars;
    const bp_attention_backward_pointers *p = call->pointers;
    bp_attention_shape shape = {.sequence = (uint64_t)s->sequence,
                                .heads = (uint64_t)s->heads,
                                .kv_heads = (uint64_t)s->kv_heads,
                                .width = (uint64_t)s->head_width,
                                .causal = s->causal != 0,
                                .scale = (float)s->scale,
                                .dropout = s->dropout,
                                .site = s->site,
                                .type = bp_call_type(call, 0),
                                .step = p->step,
                                .lengths = p->lengths};
    complete(&shape);
    return shape;
}
