/* SPDX-License-Identifier: MIT */
/* What a GPT-2 block is made of. */
#include "layers/gpt2_block.h"

#include "layers/prenorm_block.h"
#include "layers/transformer.h"

uint32_t bp_gpt2_block_first(uint32_t index)
{
    return 2 + BP_GPT2_BLOCK_PARAMETERS * index;
}

static bp_linear dense(uint32_t weight, uint64_t in, uint64_t out)
{
    return (bp_linear){.weight = weight, .bias = weight + 1, .in = in, .out = out};
}

/* Dropout sites: 0 is the embedding's; each block has three. */
static bp_prenorm_block describe(const bp_emit *emit, const bp_stage_call *call)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    const uint32_t index = call->stage - 1;
    const uint32_t first = bp_gpt2_block_first(index);
    const uint32_t site = 1 + 3 * index;
    const uint64_t width = own.width;
    const uint64_t inner = bp_transformer_inner(&own);
    return (bp_prenorm_block){
        .width = width,
        .norm_1 = {first + BP_GPT2_LN_1_WEIGHT, first + BP_GPT2_LN_1_BIAS, width, own.norm_epsilon},
        .parts = 1,
        .part = {dense(first + BP_GPT2_C_ATTN_WEIGHT, width, 3 * width)},
        .qkv_width = 3 * width,
        .attention = {.heads = own.heads,
                      .head_width = width / own.heads,
                      .dropout = {site, own.attention_dropout}},
        .attention_end = {dense(first + BP_GPT2_ATTN_C_PROJ_WEIGHT, width, width),
                          {site + 1, own.residual_dropout}},
        .norm_2 = {first + BP_GPT2_LN_2_WEIGHT, first + BP_GPT2_LN_2_BIAS, width, own.norm_epsilon},
        .mlp = {dense(first + BP_GPT2_C_FC_WEIGHT, width, inner),
                {dense(first + BP_GPT2_MLP_C_PROJ_WEIGHT, inner, width),
                 {site + 2, own.residual_dropout}}}};
}

void bp_gpt2_block_forward(bp_emit *emit, bp_stage_call *call)
{
    const bp_prenorm_block block = describe(emit, call);
    bp_prenorm_block_forward(emit, call, &block);
}

void bp_gpt2_block_backward(bp_emit *emit, bp_stage_call *call)
{
    const bp_prenorm_block block = describe(emit, call);
    bp_prenorm_block_backward(emit, call, &block);
}

void bp_gpt2_block_decode(bp_emit *emit, bp_stage_call *call)
{
    const bp_prenorm_block block = describe(emit, call);
    bp_prenorm_block_decode(emit, call, &block);
}

bp_graph_limits bp_gpt2_block_limits(bool backward)
{
    /* Forward with dropout: 9 ops, 8 buffers of the tape, 3 of dropout and output, 5 workspaces.
     * Backward with dropout and an empty tape: 7 ops and 8 buffers of recomputation, 23 ops and 11
     * buffers of gradients, 14 workspaces and 12 weight gradients. A name is at most the stage's (8
     * characters) and a word of 20, a gradient's a little more. */
    const uint32_t ops = backward ? 30 : 9;
    const uint32_t buffers = backward ? 8 + 11 + 14 : 10 + 3 + 5;
    const uint32_t gradients = backward ? BP_GPT2_BLOCK_PARAMETERS : 0;
    return (bp_graph_limits){.buffers = buffers + gradients,
                             .ops = ops,
                             .refs = 6 * ops,
                             .scalars = 8 * ops,
                             .name_bytes = 32 * buffers + 64 * gradients};
}
