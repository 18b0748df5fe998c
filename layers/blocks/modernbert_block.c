/* SPDX-License-Identifier: MIT */
/* What a ModernBERT block is made of. */
#include "layers/blocks/modernbert_block.h"

#include "layers/blocks/sublayer.h"
#include "layers/families/modernbert.h"

uint32_t bp_modernbert_number(uint32_t index, bp_modernbert_parameter parameter)
{
    const uint32_t lacking = 1; /* the first block has one parameter less */
    return BP_MODERNBERT_EMBEDDINGS + index * BP_MODERNBERT_BLOCK_PARAMETERS + (uint32_t)parameter -
           lacking;
}

/* A block on its way. */
typedef struct building {
    const bp_builder *builder;
    bp_modernbert_config own;
    uint32_t index;
    bp_block_list list;
} building;

static bp_linear modernbert_block_dense(const building *b, bp_modernbert_parameter weight,
                                        uint64_t in, uint64_t out)
{
    return (bp_linear){.weight = bp_modernbert_number(b->index, weight),
                       .bias = BP_NO_PARAMETER,
                       .in = in,
                       .out = out,
                       .output_major = true};
}

static bp_norm norm_of(const building *b, bp_modernbert_parameter weight)
{
    const bp_transformer *stack = &b->own.llama.stack;
    return (bp_norm){bp_modernbert_number(b->index, weight), BP_NORM_NO_BIAS, stack->width,
                     stack->norm_epsilon, false};
}

/* Dropout sites: 0 is the embedding's; each block has three. */
static uint32_t site_of(const building *b, uint32_t place)
{
    return 1 + 3 * b->index + place;
}

static uint32_t describe_attention(const building *b)
{
    static const char *const names[2] = {"middle", "d_middle"};
    const bp_llama_config *own = &b->own.llama;
    const uint64_t width = own->stack.width, head_width = width / own->stack.heads;
    const bool near = bp_layer_in(&own->near, b->index);
    const bp_norm norm = norm_of(b, BP_MODERNBERT_NORM_1);
    const bp_rotary rotary = {.width = head_width,
                              .theta = near ? own->near_theta : own->rope_theta,
                              .apart = head_width,
                              .table = near ? 1 : 0};
    const bp_attention_parts parts = {
        .norm = b->index > 0 ? &norm : NULL,
        .norm_gradient = "d_input",
        .products = 1,
        .product = {modernbert_block_dense(b, BP_MODERNBERT_QKV, width, 3 * width)},
        .rotary = &rotary,
        .attention = {.heads = own->stack.heads,
                      .head_width = head_width,
                      .bidirectional = true,
                      .padded = true,
                      .lengths = b->builder->input[BP_INPUT_LENGTHS],
                      .dropout = {site_of(b, 0), own->stack.attention_dropout},
                      .window = near ? own->window / 2 + 1 : 0}};
    const bp_residual end = {modernbert_block_dense(b, BP_MODERNBERT_O, width, width),
                             {site_of(b, 1), own->stack.residual_dropout}};
    const uint32_t y = bp_list_attention(&b->list, 0, &parts);
    return bp_list_residual(&b->list, &end, y, 0, names);
}

static void describe_mlp(const building *b, uint32_t middle)
{
    static const char *const names[3] = {"norm_2", "d_norm", "norm_2.statistics"};
    static const char *const before[2] = {"before", "d_before"}, *const out[2] = {"out", NULL};
    const uint64_t width = b->own.llama.stack.width;
    const uint64_t inner = bp_transformer_inner(&b->own.llama.stack);
    const bp_norm norm = norm_of(b, BP_MODERNBERT_NORM_2);
    const bp_linear up = modernbert_block_dense(b, BP_MODERNBERT_GATE_UP, width, 2 * inner);
    const bp_residual end = {modernbert_block_dense(b, BP_MODERNBERT_DOWN, inner, width), {0, 0.0}};
    const uint32_t x = bp_list_norm(&b->list, &norm, middle, names);
    const uint32_t both = bp_list_dense(&b->list, &up, x, before);
    uint32_t active = bp_list_value(&b->list, "active", "d_active", inner);
    bp_node *node = bp_list_node(&b->list, BP_NODE_GATED, both, active);
    node->gate = BP_GATE_GELU_ERF;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    if (b->own.mlp_dropout > 0.0) {
        const uint32_t dropped = bp_list_value(&b->list, "dropped", "d_dropped", inner);
        bp_list_node(&b->list, BP_NODE_DROPOUT, active, dropped)->dropout =
            (bp_dropout){site_of(b, 2), b->own.mlp_dropout};
        active = dropped;
    }
    (void)bp_list_residual(&b->list, &end, active, middle, out);
}

void bp_modernbert_block_describe(const bp_builder *builder, const bp_stage_call *call,
                                  bp_block *block)
{
    building b = {.builder = builder,
                  .own = bp_modernbert_config_of(&builder->spec->config),
                  .index = call->stage - 1};
    b.list = bp_list_begin(block, builder->rows, b.own.llama.stack.width);
    describe_mlp(&b, describe_attention(&b));
}
