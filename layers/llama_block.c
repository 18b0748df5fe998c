/* SPDX-License-Identifier: MIT */
/* What a Llama block is made of. */
#include "layers/llama_block.h"

#include <string.h>

#include "layers/block.h"
#include "layers/llama.h"

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
    case BP_LLAMA_Q_NORM:
    case BP_LLAMA_K_NORM:
        return own.head_norms;
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

static bp_linear llama_block_dense(const uint32_t *numbers, bp_llama_parameter weight, uint64_t in,
                                   uint64_t out, uint64_t pitch)
{
    return (bp_linear){.weight = numbers[weight],
                       .bias = numbers[weight + 1],
                       .in = in,
                       .out = out,
                       .output_major = true,
                       .pitch = pitch};
}

/* What a block computes, in the order in which it does. */
enum {
    INPUT,
    NORM_1,
    STATISTICS_1,
    STRAIGHT, /* queries, keys and values before the first two are turned */
    QKV,
    ATTENTION, /* before its projection */
    LSE,
    MIDDLE, /* the stream between the sublayers */
    NORM_2,
    STATISTICS_2,
    GATE,
    UP,
    ACTIVE,
    OUTPUT,
    VALUES
};

static uint64_t queries_of(const bp_llama_shape *shape)
{
    return shape->heads * shape->head_width;
}

static uint64_t keys_of(const bp_llama_shape *shape)
{
    return shape->kv_heads * shape->head_width;
}

static void llama_block_describe_values(const bp_llama_shape *shape, uint64_t rows, bp_block *block)
{
    const uint64_t width = shape->width, inner = shape->inner;
    const uint64_t pitch = queries_of(shape) + 2 * keys_of(shape);
    const bp_value values[VALUES] = {
        [INPUT] = {"input", "d_in", {rows, width}, false},
        [NORM_1] = {"norm_1", "d_input", {rows, width}, false},
        [STATISTICS_1] = {"norm_1.statistics", NULL, {1, rows}, true},
        [STRAIGHT] = {"qkv", "d_qkv", {rows, pitch}, false},
        [QKV] = {"qkv", "d_qkv", {rows, pitch}, false},
        [ATTENTION] = {"attention", "d_attention", {rows, queries_of(shape)}, false},
        [LSE] = {"attention.lse", NULL, {shape->heads, rows}, true},
        [MIDDLE] = {"middle", "d_middle", {rows, width}, false},
        [NORM_2] = {"norm_2", "d_norm", {rows, width}, false},
        [STATISTICS_2] = {"norm_2.statistics", NULL, {1, rows}, true},
        [GATE] = {"before", "d_gate", {rows, inner}, false},
        [UP] = {"up", "d_up", {rows, inner}, false},
        [ACTIVE] = {"active", "d_swiglu", {rows, inner}, false},
        [OUTPUT] = {"out", NULL, {rows, width}, false}};
    memcpy(block->value, values, sizeof values);
    block->values = VALUES;
    block->ends = false;
}

static bp_node norm_node(const bp_llama_config *own, uint32_t weight, uint32_t in, uint32_t out)
{
    return (bp_node){.kind = BP_NODE_NORM,
                     .in = {in},
                     .out = {out, out + 1},
                     .class_of = BP_RECOMPUTE_NORM,
                     .again = true,
                     .norm = {weight, BP_NO_PARAMETER, own->stack.width, own->stack.norm_epsilon}};
}

/* The last product of a sublayer, which joins the stream. */
static bp_node residual_node(bp_linear product, uint32_t in, uint32_t stream, uint32_t out)
{
    return (bp_node){.kind = BP_NODE_RESIDUAL,
                     .in = {in, stream},
                     .out = {out},
                     .residual = {product, {0, 0.0}}};
}

/* From the block's input to attention's output. */
static uint32_t describe_attention(const bp_llama_config *own, const bp_stage_call *call,
                                   const bp_llama_shape *shape, const uint32_t *n, bp_node *to)
{
    const uint64_t queries = queries_of(shape), keys = keys_of(shape);
    const uint64_t pitch = queries + 2 * keys;
    const bp_node nodes[] = {
        norm_node(own, n[BP_LLAMA_NORM_1], INPUT, NORM_1),
        {.kind = BP_NODE_DENSE,
         .in = {NORM_1},
         .out = {STRAIGHT, STRAIGHT, STRAIGHT},
         .parts = 3,
         .part = {llama_block_dense(n, BP_LLAMA_Q_WEIGHT, shape->width, queries, pitch),
                  llama_block_dense(n, BP_LLAMA_K_WEIGHT, shape->width, keys, pitch),
                  llama_block_dense(n, BP_LLAMA_V_WEIGHT, shape->width, keys, pitch)},
         .column = {0, queries, queries + keys}},
        {.kind = BP_NODE_ROTARY,
         .in = {STRAIGHT},
         .out = {QKV},
         .rotary = {shape->head_width, own->rope_theta, own->rope_scaling},
         .heads = shape->heads + shape->kv_heads},
        {.kind = BP_NODE_ATTENTION,
         .in = {QKV},
         .out = {ATTENTION, LSE},
         .class_of = BP_RECOMPUTE_ATTENTION,
         .attention = {.heads = (uint32_t)shape->heads,
                       .kv_heads = (uint32_t)shape->kv_heads,
                       .head_width = shape->head_width,
                       .dropout = {call->stage, own->stack.attention_dropout}}},
        residual_node(llama_block_dense(n, BP_LLAMA_O_WEIGHT, queries, shape->width, 0), ATTENTION,
                      INPUT, MIDDLE)};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

/* From there to the block's output. */
static uint32_t describe_mlp(const bp_llama_config *own, const bp_llama_shape *shape,
                             const uint32_t *n, bp_node *to)
{
    const bp_node nodes[] = {
        norm_node(own, n[BP_LLAMA_NORM_2], MIDDLE, NORM_2),
        {.kind = BP_NODE_DENSE,
         .in = {NORM_2},
         .out = {GATE, UP},
         .parts = 2,
         .part = {llama_block_dense(n, BP_LLAMA_GATE_WEIGHT, shape->width, shape->inner, 0),
                  llama_block_dense(n, BP_LLAMA_UP_WEIGHT, shape->width, shape->inner, 0)}},
        {.kind = BP_NODE_SWIGLU,
         .in = {GATE, UP},
         .out = {ACTIVE},
         .class_of = BP_RECOMPUTE_ACTIVATION},
        residual_node(llama_block_dense(n, BP_LLAMA_DOWN_WEIGHT, shape->inner, shape->width, 0),
                      ACTIVE, MIDDLE, OUTPUT)};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

/* Values number `from` and above, and what names them, move up by `places`. */
static void move_values(bp_block *block, uint32_t from, uint32_t places)
{
    memmove(&block->value[from + places], &block->value[from],
            (block->values - from) * sizeof block->value[0]);
    block->values += places;
    for (uint32_t i = 0; i < block->nodes; i++) {
        bp_node *node = &block->node[i];
        for (uint32_t k = 0; k < BP_NODE_INPUTS; k++) {
            node->in[k] += node->in[k] >= from ? places : 0;
        }
        for (uint32_t k = 0; k < BP_NODE_OUTPUTS; k++) {
            node->out[k] += node->out[k] >= from ? places : 0;
        }
    }
}

/* Between the projections, which then write a value of their own, and the turning. */
static void add_head_norms(const bp_llama_config *own, const bp_llama_shape *shape,
                           const uint32_t *n, bp_block *block)
{
    enum { RAW = STRAIGHT, STATISTICS, MORE = 2, PROJECTIONS = 1 };
    const uint64_t rows = block->value[STRAIGHT].shape[0];
    const uint64_t pitch = block->value[STRAIGHT].shape[1];
    const double epsilon = own->stack.norm_epsilon;
    const bp_norm queries = {n[BP_LLAMA_Q_NORM], BP_NO_PARAMETER, shape->head_width, epsilon};
    const bp_norm keys = {n[BP_LLAMA_K_NORM], BP_NO_PARAMETER, shape->head_width, epsilon};
    move_values(block, STRAIGHT, MORE);
    block->value[RAW] = (bp_value){"raw", "d_raw", {rows, pitch}, false};
    block->value[STATISTICS] =
        (bp_value){"heads.statistics", NULL, {shape->heads + shape->kv_heads, rows}, true};
    memmove(&block->node[PROJECTIONS + 2], &block->node[PROJECTIONS + 1],
            (block->nodes - PROJECTIONS - 1) * sizeof block->node[0]);
    block->nodes++;
    for (uint32_t i = 0; i < 3; i++) {
        block->node[PROJECTIONS].out[i] = RAW;
    }
    block->node[PROJECTIONS + 1] =
        (bp_node){.kind = BP_NODE_HEAD_NORM,
                  .in = {RAW},
                  .out = {STRAIGHT + MORE, STATISTICS},
                  .class_of = BP_RECOMPUTE_NORM,
                  .head_norm = {{queries, shape->heads, pitch}, {keys, shape->kv_heads, pitch}}};
}

void bp_llama_block_describe(const bp_emit *emit, const bp_stage_call *call, bp_block *block)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_llama_shape shape = bp_llama_shape_of(config);
    uint32_t n[BP_LLAMA_BLOCK_PARAMETERS];
    number_parameters(config, call->stage - 1, n);
    llama_block_describe_values(&shape, emit->rows, block);
    block->nodes = describe_attention(&own, call, &shape, n, block->node);
    block->nodes += describe_mlp(&own, &shape, n, block->node + block->nodes);
    if (own.head_norms) {
        add_head_norms(&own, &shape, n, block);
    }
}
