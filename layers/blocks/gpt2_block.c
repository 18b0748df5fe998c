/* SPDX-License-Identifier: MIT */
/* What a GPT-2 block is made of. */
#include "layers/blocks/gpt2_block.h"

#include <math.h>

#include "layers/blocks/sublayer.h"
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

/* What scores are multiplied by; 0: what attention takes by itself. */
static double scale_of(const bp_transformer *own, uint32_t block)
{
    const double head_width = (double)(own->width / own->heads);
    return own->scale_by_layer ? 1.0 / (sqrt(head_width) * block) : 0.0;
}

/* Dropout sites: 0 is the embedding's; each block has three. */
void bp_gpt2_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    static const char *const middle_names[2] = {"middle", "d_middle"};
    static const char *const norm_names[3] = {"norm_2", "d_ln_2", "norm_2.statistics"};
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    const uint32_t index = call->stage - 1;
    const uint32_t first = bp_gpt2_block_first(index), site = 1 + 3 * index;
    const uint64_t width = own.width, inner = bp_transformer_inner(&own);
    const bool plain = own.activation == BP_GPT2_GELU_ERF || own.activation == BP_GPT2_RELU;
    const bp_norm norms[2] = {norm_of(&own, first + BP_GPT2_LN_1_WEIGHT),
                              norm_of(&own, first + BP_GPT2_LN_2_WEIGHT)};
    const bp_attention_parts attention = {
        .norm = &norms[0],
        .norm_gradient = "d_input",
        .products = 1,
        .product = {gpt2_block_dense(first + BP_GPT2_C_ATTN_WEIGHT, width, 3 * width)},
        .attention = {.heads = own.heads,
                      .head_width = width / own.heads,
                      .dropout = {site, own.attention_dropout},
                      .scale = scale_of(&own, index + 1)}};
    const bp_residual end = {gpt2_block_dense(first + BP_GPT2_ATTN_C_PROJ_WEIGHT, width, width),
                             {site + 1, own.residual_dropout}};
    const bp_mlp_parts mlp = {
        .up = gpt2_block_dense(first + BP_GPT2_C_FC_WEIGHT, width, inner),
        .function = {.kind = plain ? BP_NODE_ACTIVATION : BP_NODE_GELU,
                     .activation = own.activation == BP_GPT2_RELU ? BP_ACTIVATION_RELU
                                                                  : BP_ACTIVATION_GELU_ERF},
        .down = {gpt2_block_dense(first + BP_GPT2_MLP_C_PROJ_WEIGHT, inner, width),
                 {site + 2, own.residual_dropout}},
        .names = {{"before", "d_before"}, {"active", "d_gelu"}, {"out", NULL}}};
    const bp_block_list list = bp_list_begin(block, builder->rows, width);
    const uint32_t y = bp_list_attention(&list, 0, &attention);
    const uint32_t middle = bp_list_residual(&list, &end, y, 0, middle_names);
    const uint32_t x = bp_list_norm(&list, &norms[1], middle, norm_names);
    (void)bp_list_mlp(&list, x, middle, &mlp);
}
