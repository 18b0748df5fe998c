/* SPDX-License-Identifier: MIT */
/* What a ViT block is made of. */
#include "layers/blocks/vit_block.h"

#include <string.h>

#include "layers/nodes/activate.h"

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
    BEFORE, /* GELU */
    ACTIVE,
    OUTPUT,
    VALUES
};

bool bp_vit_biased(const bp_vit_config *own, bp_vit_layer layer)
{
    return !own->unbiased || layer < BP_VIT_QUERY || layer > BP_VIT_VALUE;
}

uint32_t bp_vit_number(const bp_vit_config *own, uint32_t block, bp_vit_layer layer)
{
    uint32_t within = 0;
    const uint32_t lacking = own->unbiased ? 3 : 0;
    for (uint32_t i = 0; i < (uint32_t)layer; i++) {
        within += bp_vit_biased(own, (bp_vit_layer)i) ? 2 : 1;
    }
    return BP_VIT_EMBEDDINGS + block * (2 * BP_VIT_BLOCK_LAYERS - lacking) + within;
}

static bp_linear vit_dense(const bp_vit_config *own, uint32_t index, bp_vit_layer layer,
                           uint64_t pitch)
{
    const uint32_t weight = bp_vit_number(own, index, layer);
    const uint64_t width = own->stack.width, inner = bp_transformer_inner(&own->stack);
    return (bp_linear){.weight = weight,
                       .bias = bp_vit_biased(own, layer) ? weight + 1 : BP_NO_PARAMETER,
                       .in = layer == BP_VIT_DOWN ? inner : width,
                       .out = layer == BP_VIT_UP ? inner : width,
                       .output_major = true,
                       .pitch = pitch};
}

static bp_node vit_norm(const bp_vit_config *own, uint32_t index, bp_vit_layer layer, uint32_t in,
                        uint32_t out)
{
    const uint32_t weight = bp_vit_number(own, index, layer);
    return (bp_node){
        .kind = BP_NODE_NORM,
        .in = {in},
        .out = {out, out + 1},
        .class_of = BP_RECOMPUTE_NORM,
        .again = true,
        .norm = {weight, weight + 1, own->stack.width, own->stack.norm_epsilon, false}};
}

static void vit_block_values(const bp_transformer *own, uint64_t rows, bp_block *block)
{
    const uint64_t width = own->width, inner = bp_transformer_inner(own);
    const bp_value values[VALUES] = {
        [INPUT] = {"input", "d_in", {rows, width}, false},
        [NORM_1] = {"norm_1", "d_norm_1", {rows, width}, false},
        [STATISTICS_1] = {"norm_1.statistics", NULL, {2, rows}, true},
        [QKV] = {"qkv", "d_qkv", {rows, 3 * width}, false},
        [ATTENTION] = {"attention", "d_attention", {rows, width}, false},
        [LSE] = {"attention.lse", NULL, {own->heads, rows}, true},
        [MIDDLE] = {"middle", "d_middle", {rows, width}, false},
        [NORM_2] = {"norm_2", "d_norm_2", {rows, width}, false},
        [STATISTICS_2] = {"norm_2.statistics", NULL, {2, rows}, true},
        [BEFORE] = {"up", "d_up", {rows, inner}, false},
        [ACTIVE] = {"gelu", "d_gelu", {rows, inner}, false},
        [OUTPUT] = {"out", NULL, {rows, width}, false}};
    memcpy(block->value, values, sizeof values);
    block->values = VALUES;
    block->ends = false;
}

/* Dropout sites: 0 is the embedding's; each block has three. */
static uint32_t vit_attention(const bp_vit_config *own, uint32_t index, bp_node *to)
{
    const uint64_t width = own->stack.width;
    const uint32_t site = 1 + 3 * index;
    const bp_node nodes[] = {vit_norm(own, index, BP_VIT_NORM_1, INPUT, NORM_1),
                             {.kind = BP_NODE_DENSE,
                              .in = {NORM_1},
                              .out = {QKV, QKV, QKV},
                              .parts = 3,
                              .part = {vit_dense(own, index, BP_VIT_QUERY, 3 * width),
                                       vit_dense(own, index, BP_VIT_KEY, 3 * width),
                                       vit_dense(own, index, BP_VIT_VALUE, 3 * width)},
                              .column = {0, width, 2 * width}},
                             {.kind = BP_NODE_ATTENTION,
                              .in = {QKV},
                              .out = {ATTENTION, LSE},
                              .class_of = BP_RECOMPUTE_ATTENTION,
                              .attention = {.heads = own->stack.heads,
                                            .head_width = width / own->stack.heads,
                                            .bidirectional = true,
                                            .dropout = {site, own->stack.attention_dropout}}},
                             {.kind = BP_NODE_RESIDUAL,
                              .in = {ATTENTION, INPUT},
                              .out = {MIDDLE},
                              .residual = {vit_dense(own, index, BP_VIT_OUT, 0),
                                           {site + 1, own->stack.residual_dropout}}}};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

static uint32_t vit_mlp(const bp_vit_config *own, uint32_t index, bp_node *to)
{
    const bp_node nodes[] = {vit_norm(own, index, BP_VIT_NORM_2, MIDDLE, NORM_2),
                             {.kind = BP_NODE_DENSE,
                              .in = {NORM_2},
                              .out = {BEFORE},
                              .parts = 1,
                              .part = {vit_dense(own, index, BP_VIT_UP, 0)}},
                             bp_hidden_act_node(own->stack.activation, BEFORE, ACTIVE),
                             {.kind = BP_NODE_RESIDUAL,
                              .in = {ACTIVE, MIDDLE},
                              .out = {OUTPUT},
                              .residual = {vit_dense(own, index, BP_VIT_DOWN, 0),
                                           {3 + 3 * index, own->stack.residual_dropout}}}};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

void bp_vit_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    const uint32_t index = call->stage - 1;
    vit_block_values(&own.stack, builder->rows, block);
    block->nodes = vit_attention(&own, index, block->node);
    block->nodes += vit_mlp(&own, index, block->node + block->nodes);
}
