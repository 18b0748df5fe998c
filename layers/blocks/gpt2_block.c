/* SPDX-License-Identifier: MIT */
/* What a GPT-2 block is made of. */
#include "layers/blocks/gpt2_block.h"

#include <math.h>
#include <string.h>

#include "layers/blocks/block.h"
#include "layers/families/gpt2.h"

uint32_t bp_gpt2_block_first(uint32_t index)
{
    return 2 + BP_GPT2_BLOCK_PARAMETERS * index;
}

static bp_linear gpt2_block_dense(uint32_t weight, uint64_t in, uint64_t out)
{
    return (bp_linear){.weight = weight, .bias = weight + 1, .in = in, .out = out};
}

static bp_norm norm_of(const bp_transformer *own, uint32_t weight)
{
    return (bp_norm){weight, weight + 1, own->width, own->norm_epsilon, false};
}

/* What a block computes, in the order in which it does. */
enum {
    INPUT,
    NORM_1,
    STATISTICS_1,
    QKV,
    ATTENTION, /* before its projection */
    LSE,
    MIDDLE, /* the stream between the sublayers */
    NORM_2,
    STATISTICS_2,
    BEFORE, /* the activation */
    ACTIVE,
    OUTPUT,
    VALUES
};

static void gpt2_block_describe_values(const bp_transformer *own, uint64_t rows, bp_block *block)
{
    const uint64_t width = own->width, inner = bp_transformer_inner(own);
    const bp_value values[VALUES] = {
        [INPUT] = {"input", "d_in", {rows, width}, false},
        [NORM_1] = {"norm_1", "d_input", {rows, width}, false},
        [STATISTICS_1] = {"norm_1.statistics", NULL, {2, rows}, true},
        [QKV] = {"qkv", "d_qkv", {rows, 3 * width}, false},
        [ATTENTION] = {"attention", "d_attention", {rows, width}, false},
        [LSE] = {"attention.lse", NULL, {own->heads, rows}, true},
        [MIDDLE] = {"middle", "d_middle", {rows, width}, false},
        [NORM_2] = {"norm_2", "d_ln_2", {rows, width}, false},
        [STATISTICS_2] = {"norm_2.statistics", NULL, {2, rows}, true},
        [BEFORE] = {"before", "d_before", {rows, inner}, false},
        [ACTIVE] = {"active", "d_gelu", {rows, inner}, false},
        [OUTPUT] = {"out", NULL, {rows, width}, false}};
    memcpy(block->value, values, sizeof values);
    block->values = VALUES;
    block->ends = false;
}

/* What scores are multiplied by; 0: what attention takes by itself. */
static double scale_of(const bp_transformer *own, uint32_t block)
{
    const double head_width = (double)(own->width / own->heads);
    return own->scale_by_layer ? 1.0 / (sqrt(head_width) * block) : 0.0;
}

/* Dropout sites: 0 is the embedding's; each block has three. */
void bp_gpt2_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    const uint32_t index = call->stage - 1;
    const uint32_t first = bp_gpt2_block_first(index), site = 1 + 3 * index;
    const uint64_t width = own.width, inner = bp_transformer_inner(&own);
    const bool plain = own.activation == BP_GPT2_GELU_ERF || own.activation == BP_GPT2_RELU;
    const bp_node nodes[] = {
        {.kind = BP_NODE_NORM,
         .in = {INPUT},
         .out = {NORM_1, STATISTICS_1},
         .class_of = BP_RECOMPUTE_NORM,
         .again = true,
         .norm = norm_of(&own, first + BP_GPT2_LN_1_WEIGHT)},
        {.kind = BP_NODE_DENSE,
         .in = {NORM_1},
         .out = {QKV},
         .parts = 1,
         .part = {gpt2_block_dense(first + BP_GPT2_C_ATTN_WEIGHT, width, 3 * width)}},
        {.kind = BP_NODE_ATTENTION,
         .in = {QKV},
         .out = {ATTENTION, LSE},
         .class_of = BP_RECOMPUTE_ATTENTION,
         .attention = {.heads = own.heads,
                       .head_width = width / own.heads,
                       .dropout = {site, own.attention_dropout},
                       .scale = scale_of(&own, index + 1)}},
        {.kind = BP_NODE_RESIDUAL,
         .in = {ATTENTION, INPUT},
         .out = {MIDDLE},
         .residual = {gpt2_block_dense(first + BP_GPT2_ATTN_C_PROJ_WEIGHT, width, width),
                      {site + 1, own.residual_dropout}}},
        {.kind = BP_NODE_NORM,
         .in = {MIDDLE},
         .out = {NORM_2, STATISTICS_2},
         .class_of = BP_RECOMPUTE_NORM,
         .again = true,
         .norm = norm_of(&own, first + BP_GPT2_LN_2_WEIGHT)},
        {.kind = BP_NODE_DENSE,
         .in = {NORM_2},
         .out = {BEFORE},
         .parts = 1,
         .part = {gpt2_block_dense(first + BP_GPT2_C_FC_WEIGHT, width, inner)}},
        {.kind = plain ? BP_NODE_ACTIVATION : BP_NODE_GELU,
         .in = {BEFORE},
         .out = {ACTIVE},
         .class_of = BP_RECOMPUTE_ACTIVATION,
         .activation =
             own.activation == BP_GPT2_RELU ? BP_ACTIVATION_RELU : BP_ACTIVATION_GELU_ERF},
        {.kind = BP_NODE_RESIDUAL,
         .in = {ACTIVE, MIDDLE},
         .out = {OUTPUT},
         .residual = {gpt2_block_dense(first + BP_GPT2_MLP_C_PROJ_WEIGHT, inner, width),
                      {site + 2, own.residual_dropout}}}};
    gpt2_block_describe_values(&own, builder->rows, block);
    memcpy(block->node, nodes, sizeof nodes);
    block->nodes = sizeof nodes / sizeof nodes[0];
}
