/* SPDX-License-Identifier: MIT */
/* What a Llama block is made of. */
#include "layers/llama_block.h"

#include "layers/llama.h"
#include "layers/prenorm_block.h"

bp_llama_shape bp_llama_shape_of(const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_llama_shape shape = {.width = own.stack.width,
                            .inner = bp_transformer_inner(&own.stack),
                            .heads = own.stack.heads};
    shape.kv_heads = own.kv_heads != 0 ? own.kv_heads : shape.heads;
    shape.head_width = own.head_width != 0 ? own.head_width : shape.width / shape.heads;
    return shape;
}

bool bp_llama_has(const bp_model_config *config, bp_llama_parameter parameter)
{
    const bp_llama_config own = bp_llama_config_of(config);
    switch (parameter) {
    case BP_LLAMA_Q_BIAS:
    case BP_LLAMA_K_BIAS:
    case BP_LLAMA_V_BIAS:
        return own.qkv_bias;
    case BP_LLAMA_O_BIAS:
        return own.output_bias;
    case BP_LLAMA_GATE_BIAS:
    case BP_LLAMA_UP_BIAS:
    case BP_LLAMA_DOWN_BIAS:
        return own.mlp_bias;
    default:
        return true;
    }
}

uint32_t bp_llama_block_parameters(const bp_model_config *config)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        count += bp_llama_has(config, (bp_llama_parameter)p) ? 1 : 0;
    }
    return count;
}

/* Numbers of a block's parameters, BP_NO_PARAMETER for those it lacks. */
static void number_parameters(const bp_model_config *config, uint32_t index,
                              uint32_t numbers[BP_LLAMA_BLOCK_PARAMETERS])
{
    uint32_t next = 1 + index * bp_llama_block_parameters(config);
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        const bool there = bp_llama_has(config, (bp_llama_parameter)p);
        numbers[p] = there ? next : BP_NO_PARAMETER;
        next += there ? 1 : 0;
    }
}

static bp_linear dense(const uint32_t *numbers, bp_llama_parameter weight, uint64_t in,
                       uint64_t out, uint64_t pitch)
{
    return (bp_linear){.weight = numbers[weight],
                       .bias = numbers[weight + 1],
                       .in = in,
                       .out = out,
                       .output_major = true,
                       .pitch = pitch};
}

static bp_prenorm_block describe(const bp_emit *emit, const bp_stage_call *call)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_llama_shape shape = bp_llama_shape_of(config);
    const uint64_t queries = shape.heads * shape.head_width;
    const uint64_t keys = shape.kv_heads * shape.head_width;
    const uint64_t pitch = queries + 2 * keys;
    uint32_t n[BP_LLAMA_BLOCK_PARAMETERS];
    number_parameters(config, call->stage - 1, n);
    return (bp_prenorm_block){
        .width = shape.width,
        .norm_1 = {n[BP_LLAMA_NORM_1], BP_NO_PARAMETER, shape.width, own.stack.norm_epsilon},
        .parts = 3,
        .part = {dense(n, BP_LLAMA_Q_WEIGHT, shape.width, queries, pitch),
                 dense(n, BP_LLAMA_K_WEIGHT, shape.width, keys, pitch),
                 dense(n, BP_LLAMA_V_WEIGHT, shape.width, keys, pitch)},
        .qkv_width = pitch,
        .rotates = true,
        .rotary = {shape.head_width, own.rope_theta, own.rope_scaling},
        .attention = {.heads = (uint32_t)shape.heads,
                      .kv_heads = (uint32_t)shape.kv_heads,
                      .head_width = shape.head_width,
                      .dropout = {call->stage, own.stack.attention_dropout}},
        .attention_end = {dense(n, BP_LLAMA_O_WEIGHT, queries, shape.width, 0), {0, 0.0}},
        .norm_2 = {n[BP_LLAMA_NORM_2], BP_NO_PARAMETER, shape.width, own.stack.norm_epsilon},
        .gated = true,
        .swiglu = {dense(n, BP_LLAMA_GATE_WEIGHT, shape.width, shape.inner, 0),
                   dense(n, BP_LLAMA_UP_WEIGHT, shape.width, shape.inner, 0),
                   {dense(n, BP_LLAMA_DOWN_WEIGHT, shape.inner, shape.width, 0), {0, 0.0}}}};
}

void bp_llama_block_forward(bp_emit *emit, bp_stage_call *call)
{
    const bp_prenorm_block block = describe(emit, call);
    bp_prenorm_block_forward(emit, call, &block);
}

void bp_llama_block_backward(bp_emit *emit, bp_stage_call *call)
{
    const bp_prenorm_block block = describe(emit, call);
    bp_prenorm_block_backward(emit, call, &block);
}

void bp_llama_block_decode(bp_emit *emit, bp_stage_call *call)
{
    const bp_prenorm_block block = describe(emit, call);
    bp_prenorm_block_decode(emit, call, &block);
}

bp_graph_limits bp_llama_block_limits(bool backward)
{
    /* Forward: 13 ops with the table of angles, 11 buffers of the tape, the output, the table and 8
     * workspaces. Backward with an empty tape: 12 ops of recomputation, 31 of gradients; 11 buffers
     * of the tape, the table, 6 of gradients, 24 workspaces and the weight gradients. A name is at
     * most the stage's (12 characters) and a word of 20, a gradient's a little more. */
    const uint32_t ops = backward ? 44 : 13;
    const uint32_t buffers = backward ? 11 + 1 + 6 + 24 : 11 + 2 + 8;
    const uint32_t gradients = backward ? BP_LLAMA_BLOCK_PARAMETERS : 0;
    return (bp_graph_limits){.buffers = buffers + gradients,
                             .ops = ops,
                             .refs = 7 * ops,
                             .scalars = 10 * ops,
                             .name_bytes = 36 * buffers + 72 * gradients};
}
