/* SPDX-License-Identifier: MIT */
/* What a GPT-NeoX block is made of. */
#include "layers/blocks/neox_block.h"

#include "layers/blocks/sublayer.h"
#include "layers/families/neox.h"
#include "layers/nodes/activate.h"

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

/* Dropout sites: 0 is the embedding's; each block has three. */
static uint32_t neox_attention(const building *b, const bp_block_list *list)
{
    static const char *const names[2] = {"middle", "d_middle"};
    const bp_llama_config *own = &b->own.llama;
    const bp_norm norm = norm_of(b, BP_NEOX_NORM_1_WEIGHT);
    const bp_rotary rotary = {.width = bp_llama_rotary_width(own, b->head_width),
                              .theta = own->rope_theta,
                              .apart = b->head_width,
                              .scaling = own->rope_scaling};
    const bp_attention_parts parts = {
        .norm = &norm,
        .norm_gradient = "d_input",
        .products = 1,
        .product = {neox_block_dense(b, BP_NEOX_QKV_WEIGHT, b->width, 3 * b->width)},
        .by_heads = true,
        .rotary = &rotary,
        .attention = {.heads = own->stack.heads,
                      .head_width = b->head_width,
                      .dropout = {b->site, own->stack.attention_dropout}}};
    const bp_residual end = {neox_block_dense(b, BP_NEOX_O_WEIGHT, b->width, b->width),
                             {b->site + 1, own->stack.residual_dropout}};
    const uint32_t y = bp_list_attention(list, 0, &parts);
    return bp_list_residual(list, &end, y, 0, names);
}

/* The other sublayer reads the block's input too where both are parallel. */
void bp_neox_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    static const char *const names[3] = {"norm_2", "d_norm", "norm_2.statistics"};
    const building b = begin_block(builder, call->stage - 1);
    const bp_norm norm = norm_of(&b, BP_NEOX_NORM_2_WEIGHT);
    const bp_mlp_parts mlp = {
        .up = neox_block_dense(&b, BP_NEOX_UP_WEIGHT, b.width, b.inner),
        .function = bp_hidden_act_node(b.own.activation, 0, 0),
        .down = {neox_block_dense(&b, BP_NEOX_DOWN_WEIGHT, b.inner, b.width),
                 {b.site + 2, b.own.llama.stack.residual_dropout}},
        .names = {{"before", "d_before"}, {"active", "d_active"}, {"out", NULL}}};
    const bp_block_list list = bp_list_begin(block, builder->rows, b.width);
    const uint32_t middle = neox_attention(&b, &list);
    const uint32_t x = bp_list_norm(&list, &norm, b.own.parallel ? 0 : middle, names);
    (void)bp_list_mlp(&list, x, middle, &mlp);
}
