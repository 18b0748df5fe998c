/* SPDX-License-Identifier: MIT */
/* What a ViT block is made of. */
#include "layers/blocks/vit_block.h"

#include "layers/blocks/sublayer.h"
#include "layers/nodes/activate.h"

bp_vit_embeddings bp_vit_embeddings_of(const bp_vit_config *own)
{
    static const bp_vit_embeddings kinds[BP_VIT_KINDS] = {
        [BP_VIT_PLAIN] = {0, 1, 2, 3, BP_NO_PARAMETER, 4},
        [BP_VIT_CLIP] = {0, 1, 2, BP_NO_PARAMETER, 3, 5},
        [BP_VIT_SIGLIP] = {BP_NO_PARAMETER, 0, 1, 2, BP_NO_PARAMETER, 3},
        [BP_VIT_CLIP_TEXT] = {.count = BP_CLIP_TEXT_EMBEDDINGS},
        [BP_VIT_SIGLIP_TEXT] = {.count = BP_CLIP_TEXT_EMBEDDINGS}};
    return kinds[own->kind];
}

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
    return own->first + bp_vit_embeddings_of(own).count +
           block * (2 * BP_VIT_BLOCK_LAYERS - lacking) + within;
}

static bp_linear vit_dense(const bp_vit_config *own, uint32_t index, bp_vit_layer layer)
{
    const uint32_t weight = bp_vit_number(own, index, layer);
    const uint64_t width = own->stack.width, inner = bp_transformer_inner(&own->stack);
    return (bp_linear){.weight = weight,
                       .bias = bp_vit_biased(own, layer) ? weight + 1 : BP_NO_PARAMETER,
                       .in = layer == BP_VIT_DOWN ? inner : width,
                       .out = layer == BP_VIT_UP ? inner : width,
                       .output_major = true};
}

bp_norm bp_vit_norm(const bp_vit_config *own, uint32_t block, bp_vit_layer layer)
{
    const uint32_t weight = bp_vit_number(own, block, layer);
    return (bp_norm){weight, weight + 1, own->stack.width, own->stack.norm_epsilon, false};
}

/* Dropout sites: 0 is the embedding's; each block has three. */
void bp_vit_block_list(const bp_builder *builder, const bp_vit_config *vit, uint32_t index,
                       bp_block *block)
{
    static const char *const middle_names[2] = {"middle", "d_middle"};
    static const char *const norm_names[3] = {"norm_2", "d_norm_2", "norm_2.statistics"};
    const bp_vit_config own = *vit;
    const uint32_t site = own.site + 1 + 3 * index;
    const bp_transformer *stack = &own.stack;
    const bp_norm norms[2] = {bp_vit_norm(&own, index, BP_VIT_NORM_1),
                              bp_vit_norm(&own, index, BP_VIT_NORM_2)};
    const bp_attention_parts attention = {
        .norm = &norms[0],
        .norm_gradient = "d_norm_1",
        .products = 3,
        .product = {vit_dense(&own, index, BP_VIT_QUERY), vit_dense(&own, index, BP_VIT_KEY),
                    vit_dense(&own, index, BP_VIT_VALUE)},
        .attention = {.heads = stack->heads,
                      .head_width = stack->width / stack->heads,
                      .bidirectional = own.kind != BP_VIT_CLIP_TEXT,
                      .dropout = {site, stack->attention_dropout}}};
    const bp_residual end = {vit_dense(&own, index, BP_VIT_OUT),
                             {site + 1, stack->residual_dropout}};
    const bp_mlp_parts mlp = {
        .up = vit_dense(&own, index, BP_VIT_UP),
        .function = bp_hidden_act_node(stack->activation, 0, 0),
        .down = {vit_dense(&own, index, BP_VIT_DOWN), {site + 2, stack->residual_dropout}},
        .names = {{"up", "d_up"}, {"gelu", "d_gelu"}, {"out", NULL}}};
    const bp_block_list list = bp_list_begin(block, builder->rows, stack->width);
    const uint32_t y = bp_list_attention(&list, 0, &attention);
    const uint32_t middle = bp_list_residual(&list, &end, y, 0, middle_names);
    const uint32_t x = bp_list_norm(&list, &norms[1], middle, norm_names);
    (void)bp_list_mlp(&list, x, middle, &mlp);
}

void bp_vit_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const bp_vit_config own = bp_vit_config_of(&builder->spec->config);
    bp_vit_block_list(builder, &own, call->stage - 1, block);
}
