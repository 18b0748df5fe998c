/* SPDX-License-Identifier: MIT */
/* What a GPT-NeoX block is made of. */
#include "layers/blocks/neox_block.h"

#include <string.h>

#include "layers/nodes/activate.h"

#include "layers/blocks/block.h"
#include "layers/families/neox.h"

/* What a block computes, in the order in which it does. */
enum {
    INPUT,
    NORM_1,
    STATISTICS_1,
    RAW,      /* query, key and value of a head side by side, head by head */
    STRAIGHT, /* all queries, all keys, all values */
    QKV,
    ATTENTION, /* before its projection */
    LSE,
    MIDDLE, /* the stream with what attention adds */
    NORM_2,
    STATISTICS_2,
    BEFORE, /* the activation */
    ACTIVE,
    OUTPUT,
    VALUES
};

bool bp_neox_has(const bp_model_config *config, bp_neox_parameter parameter)
{
    const bool bias = parameter == BP_NEOX_QKV_BIAS || parameter == BP_NEOX_O_BIAS;
    return !bias || bp_llama_config_of(config).qkv_bias;
}

uint32_t bp_neox_block_parameters(const bp_model_config *config)
{
    return BP_NEOX_BLOCK_PARAMETERS - (bp_llama_config_of(config).qkv_bias ? 0u : 2u);
}

uint32_t bp_neox_block_first(const bp_model_config *config, uint32_t index)
{
    return 1 + bp_neox_block_parameters(config) * index;
}

/* A block on its way: where its parameters are, and its sizes. */
typedef struct building {
    bp_neox_config own;
    uint32_t n[BP_NEOX_BLOCK_PARAMETERS]; /* BP_NO_PARAMETER for those it lacks */
    uint64_t width;
    uint64_t inner;
    uint64_t head_width;
    uint32_t site;
} building;

static building begin_block(const bp_builder *builder, uint32_t index)
{
    const bp_model_config *config = &builder->spec->config;
    building b = {.own = bp_neox_config_of(config), .site = 1 + 3 * index};
    uint32_t next = bp_neox_block_first(config, index);
    for (uint32_t p = 0; p < BP_NEOX_BLOCK_PARAMETERS; p++) {
        const bool there = bp_neox_has(config, (bp_neox_parameter)p);
        b.n[p] = there ? next : BP_NO_PARAMETER;
        next += there ? 1 : 0;
    }
    b.width = b.own.llama.stack.width;
    b.inner = bp_transformer_inner(&b.own.llama.stack);
    b.head_width = b.width / b.own.llama.stack.heads;
    return b;
}

static bp_linear neox_block_dense(const building *b, bp_neox_parameter weight, uint64_t in,
                                  uint64_t out)
{
    return (bp_linear){.weight = b->n[weight],
                       .bias = b->n[weight + 1],
                       .in = in,
                       .out = out,
                       .output_major = true};
}

static bp_norm norm_of(const building *b, bp_neox_parameter weight)
{
    return (bp_norm){b->n[weight], b->n[weight + 1], b->width, b->own.llama.stack.norm_epsilon,
                     false};
}

static void neox_block_describe_values(const building *b, uint64_t rows, bp_block *block)
{
    const uint64_t width = b->width, inner = b->inner;
    const bp_value values[VALUES] = {
        [INPUT] = {"input", "d_in", {rows, width}, false},
        [NORM_1] = {"norm_1", "d_input", {rows, width}, false},
        [STATISTICS_1] = {"norm_1.statistics", NULL, {2, rows}, true},
        [RAW] = {"raw", "d_raw", {rows, 3 * width}, false},
        [STRAIGHT] = {"qkv", "d_qkv", {rows, 3 * width}, false},
        [QKV] = {"qkv", "d_qkv", {rows, 3 * width}, false},
        [ATTENTION] = {"attention", "d_attention", {rows, width}, false},
        [LSE] = {"attention.lse", NULL, {b->own.llama.stack.heads, rows}, true},
        [MIDDLE] = {"middle", "d_middle", {rows, width}, false},
        [NORM_2] = {"norm_2", "d_norm", {rows, width}, false},
        [STATISTICS_2] = {"norm_2.statistics", NULL, {2, rows}, true},
        [BEFORE] = {"before", "d_before", {rows, inner}, false},
        [ACTIVE] = {"active", "d_active", {rows, inner}, false},
        [OUTPUT] = {"out", NULL, {rows, width}, false}};
    memcpy(block->value, values, sizeof values);
    block->values = VALUES;
    block->ends = false;
}

/* From the block's input to the stream with what attention adds. Dropout sites: 0 is the
 * embedding's; each block has three. */
static uint32_t describe_attention(const building *b, bp_node *to)
{
    const bp_llama_config *own = &b->own.llama;
    const uint32_t heads = own->stack.heads;
    const bp_node nodes[] = {
        {.kind = BP_NODE_NORM,
         .in = {INPUT},
         .out = {NORM_1, STATISTICS_1},
         .class_of = BP_RECOMPUTE_NORM,
         .again = true,
         .norm = norm_of(b, BP_NEOX_NORM_1_WEIGHT)},
        {.kind = BP_NODE_DENSE,
         .in = {NORM_1},
         .out = {RAW},
         .parts = 1,
         .part = {neox_block_dense(b, BP_NEOX_QKV_WEIGHT, b->width, 3 * b->width)}},
        {.kind = BP_NODE_REGROUP, .in = {RAW}, .out = {STRAIGHT}, .heads = heads, .parts = 3},
        {.kind = BP_NODE_ROTARY,
         .in = {STRAIGHT},
         .out = {QKV},
         .rotary = {.width = bp_llama_rotary_width(own, b->head_width),
                    .theta = own->rope_theta,
                    .apart = b->head_width,
                    .scaling = own->rope_scaling},
         .heads = 2 * (uint64_t)heads},
        {.kind = BP_NODE_ATTENTION,
         .in = {QKV},
         .out = {ATTENTION, LSE},
         .class_of = BP_RECOMPUTE_ATTENTION,
         .attention = {.heads = heads,
                       .head_width = b->head_width,
                       .dropout = {b->site, own->stack.attention_dropout}}},
        {.kind = BP_NODE_RESIDUAL,
         .in = {ATTENTION, INPUT},
         .out = {MIDDLE},
         .residual = {neox_block_dense(b, BP_NEOX_O_WEIGHT, b->width, b->width),
                      {b->site + 1, own->stack.residual_dropout}}}};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

/* The other sublayer, which reads the block's input too where both are parallel. */
static uint32_t describe_mlp(const building *b, bp_node *to)
{
    const bp_node nodes[] = {
        {.kind = BP_NODE_NORM,
         .in = {b->own.parallel ? INPUT : MIDDLE},
         .out = {NORM_2, STATISTICS_2},
         .class_of = BP_RECOMPUTE_NORM,
         .again = true,
         .norm = norm_of(b, BP_NEOX_NORM_2_WEIGHT)},
        {.kind = BP_NODE_DENSE,
         .in = {NORM_2},
         .out = {BEFORE},
         .parts = 1,
         .part = {neox_block_dense(b, BP_NEOX_UP_WEIGHT, b->width, b->inner)}},
        bp_hidden_act_node(b->own.activation, BEFORE, ACTIVE),
        {.kind = BP_NODE_RESIDUAL,
         .in = {ACTIVE, MIDDLE},
         .out = {OUTPUT},
         .residual = {neox_block_dense(b, BP_NEOX_DOWN_WEIGHT, b->inner, b->width),
                      {b->site + 2, b->own.llama.stack.residual_dropout}}}};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

void bp_neox_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const building b = begin_block(builder, call->stage - 1);
    neox_block_describe_values(&b, builder->rows, block);
    block->nodes = describe_attention(&b, block->node);
    block->nodes += describe_mlp(&b, block->node + block->nodes);
}
