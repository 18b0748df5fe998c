/* SPDX-License-Identifier: MIT */
/* Attention as ops. */
#include "layers/attention.h"

#include <math.h>

static int64_t kv_heads(const bp_attention *attention)
{
    return attention->kv_heads != 0 ? attention->kv_heads : attention->heads;
}

/* 1 / sqrt(D) as kernels use it: a float. */
static double scale(const bp_attention *attention)
{
    return (double)(1.0f / sqrtf((float)attention->head_width));
}

static bp_ref lengths(const bp_attention *attention)
{
    return attention->padded ? attention->lengths : BP_ABSENT;
}

void bp_attention_forward(bp_emit *emit, const bp_attention *attention, bp_ref qkv, bp_ref out,
                          bp_ref lse)
{
    const bp_attention_forward_scalars scalars = {
        .batch = emit->spec->batch,
        .sequence = emit->spec->sequence,
        .heads = attention->heads,
        .kv_heads = kv_heads(attention),
        .head_width = (int64_t)attention->head_width,
        .causal = !attention->bidirectional,
        .site = attention->dropout.site,
        .scale = scale(attention),
        .dropout = bp_dropout_probability(emit, &attention->dropout)};
    const bp_attention_forward_operands operands = {.out = out,
                                                    .lse = lse,
                                                    .qkv = qkv,
                                                    .lengths = lengths(attention),
                                                    .step = emit->step,
                                                    .work = BP_ABSENT};
    bp_emit_attention_forward(emit, &operands, &scalars);
}

void bp_attention_backward(bp_emit *emit, const bp_attention *attention,
                           const bp_attention_backward_call *call)
{
    const bp_attention_backward_scalars scalars = {
        .batch = emit->spec->batch,
        .sequence = emit->spec->sequence,
        .heads = attention->heads,
        .kv_heads = kv_heads(attention),
        .head_width = (int64_t)attention->head_width,
        .causal = !attention->bidirectional,
        .site = attention->dropout.site,
        .scale = scale(attention),
        .dropout = bp_dropout_probability(emit, &attention->dropout)};
    const bp_attention_backward_operands operands = {.d_qkv = call->d_qkv,
                                                     .d_out = call->d_out,
                                                     .qkv = call->qkv,
                                                     .out = call->out,
                                                     .lse = call->lse,
                                                     .lengths = lengths(attention),
                                                     .step = emit->step,
                                                     .work = BP_ABSENT};
    bp_emit_attention_backward(emit, &operands, &scalars);
}

void bp_attention_decode(bp_emit *emit, const bp_attention *attention, bp_ref qkv, bp_ref out)
{
    const uint64_t positions = emit->spec->generate_context;
    const uint64_t width = (uint64_t)kv_heads(attention) * attention->head_width;
    const bp_attention_decode_scalars scalars = {.rows = (int64_t)emit->rows,
                                                 .positions = (int64_t)positions,
                                                 .heads = attention->heads,
                                                 .kv_heads = kv_heads(attention),
                                                 .head_width = (int64_t)attention->head_width,
                                                 .scale = scale(attention)};
    const bp_attention_decode_operands operands = {
        .out = out,
        .k_cache = bp_emit_carried(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), positions,
                                   width, "key_cache"),
        .v_cache = bp_emit_carried(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), positions,
                                   width, "value_cache"),
        .qkv = qkv,
        .step = emit->step,
        .work = BP_ABSENT};
    bp_emit_attention_decode(emit, &operands, &scalars);
}
