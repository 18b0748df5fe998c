/* SPDX-License-Identifier: MIT */
/* Cross attention as ops. */
#include "layers/nodes/cross.h"

#include <math.h>

void bp_source_rows_begin(bp_builder *builder, bp_source_rows *rows)
{
    rows->whole = builder->spec;
    rows->rows = builder->rows;
    rows->spec = *builder->spec;
    rows->spec.sequence = builder->spec->source;
    rows->spec.batch = builder->mode == BP_MODE_DECODE ? 1 : builder->spec->batch;
    builder->spec = &rows->spec;
    builder->rows = bp_cross_rows(builder);
}

void bp_source_rows_end(bp_builder *builder, const bp_source_rows *rows)
{
    builder->spec = rows->whole;
    builder->rows = rows->rows;
}

uint64_t bp_cross_rows(const bp_builder *builder)
{
    return (uint64_t)builder->spec->batch * builder->spec->source;
}

uint64_t bp_cross_width(const bp_cross *cross)
{
    return 2 * cross->heads * cross->head_width;
}

static double cross_scale(const bp_cross *cross)
{
    return cross->scale > 0.0 ? cross->scale : (double)(1.0f / sqrtf((float)cross->head_width));
}

/* The two layers, which write side by side. */
static bp_linear cross_layer(const bp_cross *cross, uint32_t i)
{
    bp_linear layer = i == 0 ? cross->key : cross->value;
    layer.pitch = bp_cross_width(cross);
    return layer;
}

static bp_ref cross_part(const bp_cross *cross, bp_ref kv, uint32_t i)
{
    return bp_ref_at(kv, i * cross->heads * cross->head_width);
}

static void cross_make(bp_builder *builder, const bp_cross *cross, bp_ref kv)
{
    bp_source_rows rows;
    bp_source_rows_begin(builder, &rows);
    for (uint32_t i = 0; i < 2; i++) {
        const bp_linear layer = cross_layer(cross, i);
        bp_linear_forward(builder, &layer, builder->memory, BP_ABSENT, cross_part(cross, kv, i));
    }
    bp_source_rows_end(builder, &rows);
}

/* Keys and values of the one source, which all rows look at. */
static bp_ref cross_carried(bp_builder *builder, const bp_cross *cross)
{
    const bp_ref kv =
        bp_build_carried(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                         builder->spec->source, bp_cross_width(cross), "source_cache");
    if (!builder->continues) {
        cross_make(builder, cross, kv);
    }
    return kv;
}

void bp_cross_forward(bp_builder *builder, const bp_cross *cross, bp_ref q, bp_ref out, bp_ref lse,
                      bp_ref kv)
{
    const bool decode = builder->mode == BP_MODE_DECODE;
    const bp_attention_cross_forward_scalars scalars = {
        .batch = decode ? 1 : builder->spec->batch,
        .sequence = decode ? (int64_t)builder->rows : builder->spec->sequence,
        .keys = builder->spec->source,
        .heads = cross->heads,
        .head_width = (int64_t)cross->head_width,
        .site = cross->dropout.site,
        .scale = cross_scale(cross),
        .dropout = bp_dropout_probability(builder, &cross->dropout)};
    if (decode) {
        kv = cross_carried(builder, cross);
    } else {
        kv = bp_ref_present(kv)
                 ? kv
                 : bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                   bp_cross_rows(builder), bp_cross_width(cross), "source");
        cross_make(builder, cross, kv);
    }
    const bp_attention_cross_forward_operands operands = {.out = out,
                                                          .lse = lse,
                                                          .q = q,
                                                          .kv = kv,
                                                          .lengths = cross->lengths,
                                                          .step = builder->step,
                                                          .work = BP_ABSENT};
    bp_build_attention_cross_forward(builder, &operands, &scalars);
}

/* From the gradient of keys and values those of the layers and of the encoder's output. */
static void cross_layers_backward(bp_builder *builder, const bp_cross *cross, bp_ref d_kv)
{
    bp_source_rows rows;
    bp_source_rows_begin(builder, &rows);
    for (uint32_t i = 0; i < 2; i++) {
        const bp_linear layer = cross_layer(cross, i);
        const bp_ref d = cross_part(cross, d_kv, i);
        bp_linear_backward_parameters(builder, &layer, builder->memory, d);
        if (!builder->memory_wanted) {
            continue;
        }
        if (bp_ref_present(builder->d_memory)) {
            bp_linear_backward_input_add(builder, &layer, d, builder->d_memory);
        } else {
            builder->d_memory =
                bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                builder->rows, layer.in, "d_memory");
            bp_linear_backward_input(builder, &layer, d, builder->d_memory);
        }
    }
    bp_source_rows_end(builder, &rows);
}

void bp_cross_backward(bp_builder *builder, const bp_cross *cross,
                       const bp_cross_backward_call *call)
{
    const bp_attention_cross_backward_scalars scalars = {
        .batch = builder->spec->batch,
        .sequence = builder->spec->sequence,
        .keys = builder->spec->source,
        .heads = cross->heads,
        .head_width = (int64_t)cross->head_width,
        .site = cross->dropout.site,
        .scale = cross_scale(cross),
        .dropout = bp_dropout_probability(builder, &cross->dropout)};
    const bp_attention_cross_backward_operands operands = {
        .d_q = call->d_q,
        .d_kv = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                bp_cross_rows(builder), bp_cross_width(cross), "d_source"),
        .d_out = call->d_out,
        .q = call->q,
        .kv = call->kv,
        .out = call->out,
        .lse = call->lse,
        .lengths = cross->lengths,
        .step = builder->step,
        .work = BP_ABSENT};
    bp_build_attention_cross_backward(builder, &operands, &scalars);
    if (builder->memory_wanted || bp_cross_trains(builder, cross)) {
        cross_layers_backward(builder, cross, operands.d_kv);
    }
}

bool bp_cross_trains(const bp_builder *builder, const bp_cross *cross)
{
    return bp_linear_trains(builder, &cross->key) || bp_linear_trains(builder, &cross->value);
}
