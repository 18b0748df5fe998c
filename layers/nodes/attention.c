/* SPDX-License-Identifier: MIT */
/* Attention as ops. */
#include "layers/nodes/attention.h"

#include "core/plan/passes/token_lanes.h"
#include "layers/nodes/disentangled.h"

#include <math.h>

static int64_t kv_heads(const bp_attention *attention)
{
    return attention->kv_heads != 0 ? attention->kv_heads : attention->heads;
}

/* 1 / sqrt(D) as kernels use it: a float. */
static double scale(const bp_attention *attention)
{
    if (attention->scale > 0.0) {
        return attention->scale;
    }
    return (double)(1.0f / sqrtf((float)attention->head_width));
}

/* 0 where it reaches over all positions. */
static int64_t window(const bp_attention *attention, uint64_t positions)
{
    return attention->window < positions ? (int64_t)attention->window : 0;
}

static bp_ref lengths(const bp_attention *attention)
{
    return attention->padded ? attention->lengths : BP_ABSENT;
}

/* The rows of packed documents have the scalars of the others, and operands in the same places,
 * starts in that of lengths. */
static void packed_forward(bp_builder *builder, const bp_attention_forward_operands *from,
                           const bp_attention_forward_scalars *scalars)
{
    bp_attention_forward_operands operands = *from;
    operands.lengths = builder->input[BP_INPUT_STARTS];
    bp_build_op(builder, BP_KERNEL_attention_packed_forward, 1, (const bp_ref *)&operands, scalars);
}

static void packed_backward(bp_builder *builder, const bp_attention_backward_operands *from,
                            const bp_attention_backward_scalars *scalars)
{
    bp_attention_backward_operands operands = *from;
    operands.lengths = builder->input[BP_INPUT_STARTS];
    bp_build_op(builder, BP_KERNEL_attention_packed_backward, 1, (const bp_ref *)&operands,
                scalars);
}

/* What the table has for each head and distance. */
static bp_ref bias_of(bp_builder *builder, const bp_attention *attention, uint32_t positions,
                      bp_purpose purpose)
{
    const uint64_t places = 2 * (uint64_t)positions;
    const bp_ref bias =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, attention->heads, places, "distances");
    const bp_relative_bias_scalars scalars = {.sequence = positions,
                                              .heads = attention->heads,
                                              .buckets = (int64_t)attention->buckets,
                                              .most = (int64_t)attention->distance,
                                              .causal = !attention->bidirectional};
    const bp_relative_bias_operands operands = {
        .bias = bias, .table = bp_build_acquire(builder, attention->bias, purpose)};
    bp_build_relative_bias(builder, &operands, &scalars);
    bp_build_release(builder, attention->bias);
    return bias;
}

bool bp_attention_trains(const bp_builder *builder, const bp_attention *attention)
{
    if (attention->sunk) {
        return bp_build_trainable(builder, attention->sinks);
    }
    return bp_disentangled(attention)
               ? bp_disentangled_trains(builder, attention)
               : attention->buckets > 0 && bp_build_trainable(builder, attention->bias);
}

/* Where a row's documents begin, which says how log-sum-exps lie. */
static bp_ref starts_of(const bp_builder *builder)
{
    return builder->spec->packed ? builder->input[BP_INPUT_STARTS] : BP_ABSENT;
}

/* out and lse of the rows, with their heads' sinks. */
static void sinks_forward(bp_builder *builder, const bp_attention *attention, bp_ref out,
                          bp_ref lse)
{
    const bp_attention_sinks_scalars scalars = {.batch = builder->spec->batch,
                                                .sequence = builder->spec->sequence,
                                                .heads = attention->heads,
                                                .head_width = (int64_t)attention->head_width};
    const bp_attention_sinks_operands operands = {
        .out = out,
        .lse = lse,
        .sinks = bp_build_acquire(builder, attention->sinks, BP_FOR_FORWARD),
        .starts = starts_of(builder)};
    bp_build_attention_sinks(builder, &operands, &scalars);
    bp_build_release(builder, attention->sinks);
}

static void sinks_backward(bp_builder *builder, const bp_attention *attention,
                           const bp_attention_backward_call *call)
{
    if (!attention->sunk || !bp_build_trainable(builder, attention->sinks)) {
        return;
    }
    bp_attention_sinks_backward_scalars scalars = {.batch = builder->spec->batch,
                                                   .sequence = builder->spec->sequence,
                                                   .heads = attention->heads,
                                                   .head_width = (int64_t)attention->head_width};
    const bp_attention_sinks_backward_operands operands = {
        .d_sinks = bp_build_gradient(builder, attention->sinks, &scalars.accumulate),
        .d_out = call->d_out,
        .out = call->out,
        .lse = call->lse,
        .sinks = bp_build_acquire(builder, attention->sinks, BP_FOR_BACKWARD),
        .starts = starts_of(builder)};
    bp_build_attention_sinks_backward(builder, &operands, &scalars);
    bp_build_release(builder, attention->sinks);
}

/* The rows with a table of distances have the scalars of the others. */
static void biased_forward(bp_builder *builder, const bp_attention *attention,
                           const bp_attention_forward_operands *from,
                           const bp_attention_forward_scalars *scalars)
{
    const bp_attention_biased_forward_operands operands = {
        .out = from->out,
        .lse = from->lse,
        .qkv = from->qkv,
        .bias = bias_of(builder, attention, builder->spec->sequence, BP_FOR_FORWARD),
        .lengths = from->lengths,
        .step = from->step,
        .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_biased_forward, 1, (const bp_ref *)&operands, scalars);
}

/* The table's gradient is added up over samples from what each has for a distance. */
static void biased_backward(bp_builder *builder, const bp_attention *attention,
                            const bp_attention_backward_operands *from,
                            const bp_attention_backward_scalars *scalars)
{
    const bool trains = bp_attention_trains(builder, attention);
    const uint64_t places = 2 * (uint64_t)builder->spec->sequence;
    const uint64_t heads = (uint64_t)builder->spec->batch * attention->heads;
    const bp_attention_biased_backward_operands operands = {
        .d_qkv = from->d_qkv,
        .d_bias = trains ? bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, heads, places,
                                           "d_distances")
                         : BP_ABSENT,
        .d_out = from->d_out,
        .qkv = from->qkv,
        .out = from->out,
        .lse = from->lse,
        .bias = bias_of(builder, attention, builder->spec->sequence, BP_FOR_BACKWARD),
        .lengths = from->lengths,
        .step = from->step,
        .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_biased_backward, 1, (const bp_ref *)&operands,
                scalars);
    if (trains) {
        bp_relative_bias_backward_scalars sums = {.batch = builder->spec->batch,
                                                  .sequence = builder->spec->sequence,
                                                  .heads = attention->heads,
                                                  .buckets = (int64_t)attention->buckets,
                                                  .most = (int64_t)attention->distance,
                                                  .causal = !attention->bidirectional};
        const bp_relative_bias_backward_operands table = {
            .d_table = bp_build_gradient(builder, attention->bias, &sums.accumulate),
            .d_bias = operands.d_bias};
        bp_build_relative_bias_backward(builder, &table, &sums);
    }
}

/* Of all heads that this rank has, over all tokens. */
static void forward_heads(bp_builder *builder, const bp_attention *attention, bp_ref qkv,
                          bp_ref out, bp_ref lse)
{
    const bp_attention_forward_scalars scalars = {
        .batch = builder->spec->batch,
        .sequence = builder->spec->sequence,
        .heads = attention->heads,
        .kv_heads = kv_heads(attention),
        .head_width = (int64_t)attention->head_width,
        .causal = !attention->bidirectional,
        .site = attention->dropout.site,
        .scale = scale(attention),
        .dropout = bp_dropout_probability(builder, &attention->dropout),
        .window = window(attention, builder->spec->sequence),
        .cap = attention->cap};
    if (attention->sunk && !bp_ref_present(lse)) {
        lse = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, attention->heads,
                              (uint64_t)builder->spec->batch * (uint64_t)builder->spec->sequence,
                              "lse");
    }
    const bp_attention_forward_operands operands = {.out = out,
                                                    .lse = lse,
                                                    .qkv = qkv,
                                                    .lengths = lengths(attention),
                                                    .step = builder->step,
                                                    .work = BP_ABSENT};
    if (bp_disentangled(attention)) {
        bp_disentangled_forward(builder, attention, &operands, &scalars);
    } else if (attention->buckets > 0) {
        biased_forward(builder, attention, &operands, &scalars);
    } else if (builder->spec->packed) {
        packed_forward(builder, &operands, &scalars);
    } else {
        bp_build_attention_forward(builder, &operands, &scalars);
    }
    if (attention->sunk) {
        sinks_forward(builder, attention, out, lse);
    }
}

static bp_attention_backward_scalars backward_scalars(const bp_builder *builder,
                                                      const bp_attention *attention)
{
    return (bp_attention_backward_scalars){.batch = builder->spec->batch,
                                           .sequence = builder->spec->sequence,
                                           .heads = attention->heads,
                                           .kv_heads = kv_heads(attention),
                                           .head_width = (int64_t)attention->head_width,
                                           .causal = !attention->bidirectional,
                                           .site = attention->dropout.site,
                                           .scale = scale(attention),
                                           .dropout =
                                               bp_dropout_probability(builder, &attention->dropout),
                                           .window = window(attention, builder->spec->sequence),
                                           .cap = attention->cap};
}

static void backward_heads(bp_builder *builder, const bp_attention *attention,
                           const bp_attention_backward_call *call)
{
    const bp_attention_backward_scalars scalars = backward_scalars(builder, attention);
    const bp_attention_backward_operands operands = {.d_qkv = call->d_qkv,
                                                     .d_out = call->d_out,
                                                     .qkv = call->qkv,
                                                     .out = call->out,
                                                     .lse = call->lse,
                                                     .lengths = lengths(attention),
                                                     .step = builder->step,
                                                     .work = BP_ABSENT};
    if (bp_disentangled(attention)) {
        bp_disentangled_backward(builder, attention, &operands, &scalars);
    } else if (attention->buckets > 0) {
        biased_backward(builder, attention, &operands, &scalars);
    } else if (builder->spec->packed) {
        packed_backward(builder, &operands, &scalars);
    } else {
        bp_build_attention_backward(builder, &operands, &scalars);
    }
    sinks_backward(builder, attention, call);
}

/* What is parameters' of heads, or drawn by their numbers, is not split. */
static void refuse_lanes(bp_builder *builder, const bp_attention *attention)
{
    if (bp_dropout_probability(builder, &attention->dropout) > 0.0) {
        bp_token_lanes_whole(builder, BP_TOKEN_LANES_DROPOUT);
    }
    if (attention->sunk || attention->buckets > 0 || bp_disentangled(attention)) {
        bp_token_lanes_whole(builder, "sinks and tables of distances are those of all heads, which "
                                      "are split among ranks");
    }
    if (attention->bidirectional) {
        bp_token_lanes_whole(builder, "attention that looks both ways is that of encoders, whose "
                                      "losses are not split by tokens");
    }
}

void bp_attention_forward(bp_builder *builder, const bp_attention *attention, bp_ref qkv,
                          bp_ref out, bp_ref lse)
{
    refuse_lanes(builder, attention);
    if (bp_spec_sequence_ranks(builder->spec) == 1) {
        forward_heads(builder, attention, qkv, out, lse);
        return;
    }
    const bp_attention own = bp_attention_ranks_own(builder, attention);
    const uint64_t width = own.heads * own.head_width;
    const bp_ref of_heads = bp_attention_ranks_take(builder, attention, qkv);
    const bp_ref out_of_heads =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                        builder->spec->sequence, width, "attention_of_heads");
    forward_heads(builder, &own, of_heads, out_of_heads, lse);
    bp_attention_ranks_give_out(builder, attention, out_of_heads, out);
}

void bp_attention_backward(bp_builder *builder, const bp_attention *attention,
                           const bp_attention_backward_call *call)
{
    refuse_lanes(builder, attention);
    if (bp_spec_sequence_ranks(builder->spec) == 1) {
        backward_heads(builder, attention, call);
        return;
    }
    const bp_attention own = bp_attention_ranks_own(builder, attention);
    const uint64_t width = (own.heads + 2 * (uint64_t)own.kv_heads) * own.head_width;
    const bp_attention_backward_call of_heads = {
        .qkv = bp_attention_ranks_take(builder, attention, call->qkv),
        .out = bp_attention_ranks_take_out(builder, attention, call->out),
        .lse = call->lse,
        .d_out = bp_attention_ranks_take_out(builder, attention, call->d_out),
        .d_qkv = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                 builder->spec->sequence, width, "d_qkv_of_heads")};
    backward_heads(builder, &own, &of_heads);
    bp_attention_ranks_give(builder, attention, of_heads.d_qkv, call->d_qkv);
}

bool bp_attention_may_be_over(const bp_builder *builder, const bp_attention *attention)
{
    return builder->spec->device->attention_over && !attention->bidirectional &&
           !attention->padded && !attention->sunk && attention->buckets == 0 &&
           bp_spec_sequence_ranks(builder->spec) == 1;
}

void bp_attention_deltas(bp_builder *builder, const bp_attention *attention, uint64_t rows,
                         bp_ref d_out, bp_ref out, bp_ref deltas)
{
    const bp_attention_deltas_scalars scalars = {.rows = (int64_t)rows,
                                                 .heads = attention->heads,
                                                 .head_width = (int64_t)attention->head_width};
    const bp_attention_deltas_operands operands = {.delta = deltas, .d_out = d_out, .out = out};
    bp_build_attention_deltas(builder, &operands, &scalars);
}

void bp_attention_backward_over(bp_builder *builder, const bp_attention *attention, bp_ref qkv,
                                bp_ref d_out, bp_ref deltas, bp_ref lse)
{
    const bp_attention_backward_scalars scalars = backward_scalars(builder, attention);
    const bp_attention_backward_over_operands operands = {.qkv = qkv,
                                                          .d_out = d_out,
                                                          .delta = deltas,
                                                          .lse = lse,
                                                          .starts = starts_of(builder),
                                                          .step = builder->step,
                                                          .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_backward_over, 1, (const bp_ref *)&operands, &scalars);
}

void bp_attention_strip_make(bp_builder *builder, const bp_attention *attention,
                             const bp_attention_strip *strip)
{
    const bp_attention_strip_forward_scalars scalars = {
        .batch = builder->spec->batch,
        .sequence = builder->spec->sequence,
        .first = (int64_t)strip->first,
        .rows = (int64_t)strip->rows,
        .head_width = (int64_t)attention->head_width,
        .window = window(attention, builder->spec->sequence),
        .scale = scale(attention),
        .cap = attention->cap};
    const bp_attention_strip_forward_operands operands = {.out = strip->out,
                                                          .lse = strip->lse,
                                                          .q = strip->q,
                                                          .kv = strip->kv,
                                                          .starts = starts_of(builder),
                                                          .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_strip_forward, 1, (const bp_ref *)&operands, &scalars);
}

void bp_attention_strip_go_back(bp_builder *builder, const bp_attention *attention,
                                const bp_attention_strip *strip)
{
    const bp_attention_strip_backward_scalars scalars = {
        .batch = builder->spec->batch,
        .sequence = builder->spec->sequence,
        .first = (int64_t)strip->first,
        .rows = (int64_t)strip->rows,
        .head_width = (int64_t)attention->head_width,
        .window = window(attention, builder->spec->sequence),
        .scale = scale(attention),
        .cap = attention->cap,
        .more = strip->more};
    const bp_attention_strip_backward_operands operands = {
        .q = strip->q,
        .d_kv = strip->d_kv,
        .sums = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, strip->rows,
                                attention->head_width, "d_q_sums"),
        .d_out = strip->d_out,
        .delta = strip->deltas,
        .lse = strip->lse,
        .kv = strip->kv,
        .starts = starts_of(builder),
        .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_strip_backward, 1, (const bp_ref *)&operands,
                &scalars);
}

/* The rows with sinks have the scalars of the others. */
static void decode_with_sinks(bp_builder *builder, const bp_attention *attention,
                              const bp_attention_decode_operands *from,
                              const bp_attention_decode_scalars *scalars)
{
    const bp_attention_sinks_decode_operands operands = {
        .out = from->out,
        .k_cache = from->k_cache,
        .v_cache = from->v_cache,
        .qkv = from->qkv,
        .sinks = bp_build_acquire(builder, attention->sinks, BP_FOR_FORWARD),
        .step = from->step,
        .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_sinks_decode, 1, (const bp_ref *)&operands, scalars);
    bp_build_release(builder, attention->sinks);
}

/* And those with a table of distances. */
static void decode_with_bias(bp_builder *builder, const bp_attention *attention,
                             const bp_attention_decode_operands *from,
                             const bp_attention_decode_scalars *scalars)
{
    const bp_attention_biased_decode_operands operands = {
        .out = from->out,
        .k_cache = from->k_cache,
        .v_cache = from->v_cache,
        .qkv = from->qkv,
        .bias = bias_of(builder, attention, builder->spec->generate_context, BP_FOR_FORWARD),
        .step = from->step,
        .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_biased_decode, 1, (const bp_ref *)&operands, scalars);
}

static void slots_with_sinks(bp_builder *builder, const bp_attention *attention,
                             const bp_attention_slots_operands *from,
                             const bp_attention_slots_scalars *scalars)
{
    const bp_attention_sinks_slots_operands operands = {
        .out = from->out,
        .k_cache = from->k_cache,
        .v_cache = from->v_cache,
        .qkv = from->qkv,
        .sinks = bp_build_acquire(builder, attention->sinks, BP_FOR_FORWARD),
        .positions = from->positions,
        .places = from->places,
        .work = BP_ABSENT};
    bp_build_op(builder, BP_KERNEL_attention_sinks_slots, 1, (const bp_ref *)&operands, scalars);
    bp_build_release(builder, attention->sinks);
}

/* Rows at positions of their own: of one prompt, or each in a slot of its own. */
static void decode_slots(bp_builder *builder, const bp_attention *attention, bp_ref qkv, bp_ref out)
{
    const bp_spec *spec = builder->spec;
    const uint64_t slots = bp_spec_decode_rows(spec), prompt = spec->generate_prompt;
    const uint64_t most = spec->generate_context - prompt;
    const uint64_t rows = bp_size_add(bp_size_mul(spec->generate_regions, prompt), slots * most);
    const uint64_t width = (uint64_t)kv_heads(attention) * attention->head_width;
    const bp_attention_slots_scalars scalars = {.rows = (int64_t)builder->rows,
                                                .heads = attention->heads,
                                                .kv_heads = kv_heads(attention),
                                                .head_width = (int64_t)attention->head_width,
                                                .scale = scale(attention),
                                                .window = window(attention, spec->generate_context),
                                                .cap = attention->cap,
                                                .regions = spec->generate_regions,
                                                .prompt = (int64_t)prompt,
                                                .slots = (int64_t)slots,
                                                .most = (int64_t)most,
                                                .together = builder->sequences == 1};
    const bp_attention_slots_operands operands = {
        .out = out,
        .k_cache = bp_build_carried(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), rows,
                                    width, "key_cache"),
        .v_cache = bp_build_carried(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), rows,
                                    width, "value_cache"),
        .qkv = qkv,
        .positions = builder->input[BP_INPUT_SLOT_POSITIONS],
        .places = builder->input[BP_INPUT_SLOTS],
        .work = BP_ABSENT};
    if (attention->sunk) {
        slots_with_sinks(builder, attention, &operands, &scalars);
    } else {
        bp_build_attention_slots(builder, &operands, &scalars);
    }
}

void bp_attention_decode(bp_builder *builder, const bp_attention *attention, bp_ref qkv, bp_ref out)
{
    if (builder->spec->generate_regions > 0) {
        decode_slots(builder, attention, qkv, out);
        return;
    }
    const uint64_t positions = builder->spec->generate_context;
    const uint64_t caches = bp_spec_decode_rows(builder->spec);
    const uint64_t width = (uint64_t)kv_heads(attention) * attention->head_width;
    const bp_attention_decode_scalars scalars = {.rows = (int64_t)builder->rows,
                                                 .positions = (int64_t)positions,
                                                 .heads = attention->heads,
                                                 .kv_heads = kv_heads(attention),
                                                 .head_width = (int64_t)attention->head_width,
                                                 .scale = scale(attention),
                                                 .window = window(attention, positions),
                                                 .cap = attention->cap,
                                                 .others = (int64_t)caches - 1,
                                                 .apart = builder->sequences > 1};
    const bp_attention_decode_operands operands = {
        .out = out,
        .k_cache = bp_build_carried(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                    caches * positions, width, "key_cache"),
        .v_cache = bp_build_carried(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                    caches * positions, width, "value_cache"),
        .qkv = qkv,
        .step = builder->step,
        .work = BP_ABSENT};
    if (attention->sunk) {
        decode_with_sinks(builder, attention, &operands, &scalars);
    } else if (attention->buckets > 0) {
        decode_with_bias(builder, attention, &operands, &scalars);
    } else {
        bp_build_attention_decode(builder, &operands, &scalars);
    }
}
