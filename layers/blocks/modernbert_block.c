/* SPDX-License-Identifier: MIT */
/* What a ModernBERT block is made of. */
#include "layers/blocks/modernbert_block.h"

#include "layers/blocks/block.h"
#include "layers/families/modernbert.h"

uint32_t bp_modernbert_number(uint32_t index, bp_modernbert_parameter parameter)
{
    const uint32_t lacking = 1; /* the first block has one parameter less */
    return BP_MODERNBERT_EMBEDDINGS + index * BP_MODERNBERT_BLOCK_PARAMETERS + (uint32_t)parameter -
           lacking;
}

/* A block on its way: values and nodes come in the order in which they are computed. */
typedef struct building {
    const bp_builder *builder;
    bp_modernbert_config own;
    uint32_t index;
    bp_block *block;
} building;

static uint32_t make_value(building *b, const char *name, const char *gradient, uint64_t width)
{
    b->block->value[b->block->values] =
        (bp_value){name, gradient, {b->builder->rows, width}, false};
    return b->block->values++;
}

static void make_statistics(building *b, const char *name, uint64_t count)
{
    b->block->value[b->block->values++] = (bp_value){name, NULL, {count, b->builder->rows}, true};
}

static bp_node *make_node(building *b, bp_node_kind kind, uint32_t in, uint32_t out)
{
    bp_node *node = &b->block->node[b->block->nodes++];
    *node = (bp_node){.kind = kind, .in = {in}, .out = {out}};
    return node;
}

static bp_linear modernbert_block_dense(const building *b, bp_modernbert_parameter weight,
                                        uint64_t in, uint64_t out)
{
    return (bp_linear){.weight = bp_modernbert_number(b->index, weight),
                       .bias = BP_NO_PARAMETER,
                       .in = in,
                       .out = out,
                       .output_major = true};
}

/* names: of the value, of its gradient and of the statistics. */
static uint32_t add_norm(building *b, bp_modernbert_parameter weight, uint32_t in,
                         const char *const names[3])
{
    const bp_transformer *stack = &b->own.llama.stack;
    const uint32_t out = make_value(b, names[0], names[1], stack->width);
    bp_node *node = make_node(b, BP_NODE_NORM, in, out);
    make_statistics(b, names[2], 2);
    node->out[1] = out + 1;
    node->class_of = BP_RECOMPUTE_NORM;
    node->again = true;
    node->norm = (bp_norm){bp_modernbert_number(b->index, weight), BP_NORM_NO_BIAS, stack->width,
                           stack->norm_epsilon, false};
    return out;
}

static uint32_t add_dense(building *b, bp_modernbert_parameter weight, uint32_t in, uint64_t out,
                          const char *const names[2])
{
    const uint32_t y = make_value(b, names[0], names[1], out);
    bp_node *node = make_node(b, BP_NODE_DENSE, in, y);
    node->parts = 1;
    node->part[0] = modernbert_block_dense(b, weight, b->own.llama.stack.width, out);
    return y;
}

/* A sublayer's last product joins the stream. names: of the sum and its gradient. */
static uint32_t add_end(building *b, bp_modernbert_parameter weight, const uint32_t from[2],
                        bp_dropout dropout, const char *const names[2])
{
    const bp_transformer *stack = &b->own.llama.stack;
    const bool attention = weight == BP_MODERNBERT_O;
    const uint64_t in = attention ? stack->width : bp_transformer_inner(stack);
    const uint32_t out = make_value(b, names[0], names[1], stack->width);
    bp_node *node = make_node(b, BP_NODE_RESIDUAL, from[0], out);
    node->in[1] = from[1];
    node->residual = (bp_residual){modernbert_block_dense(b, weight, in, stack->width), dropout};
    return out;
}

/* Dropout sites: 0 is the embedding's; each block has three. */
static uint32_t site_of(const building *b, uint32_t place)
{
    return 1 + 3 * b->index + place;
}

static uint32_t describe_attention(building *b)
{
    static const char *const norm[3] = {"norm_1", "d_input", "norm_1.statistics"};
    static const char *const qkv[2] = {"qkv", "d_qkv"}, *const middle[2] = {"middle", "d_middle"};
    const bp_llama_config *own = &b->own.llama;
    const uint64_t width = own->stack.width, head_width = width / own->stack.heads;
    const bool near = bp_layer_in(&own->near, b->index);
    const uint32_t x = b->index > 0 ? add_norm(b, BP_MODERNBERT_NORM_1, 0, norm) : 0;
    const uint32_t straight = add_dense(b, BP_MODERNBERT_QKV, x, 3 * width, qkv);
    const uint32_t rotated = make_value(b, qkv[0], qkv[1], 3 * width);
    bp_node *rotary = make_node(b, BP_NODE_ROTARY, straight, rotated);
    rotary->rotary = (bp_rotary){.width = head_width,
                                 .theta = near ? own->near_theta : own->rope_theta,
                                 .apart = head_width,
                                 .table = near ? 1 : 0};
    rotary->heads = 2 * (uint64_t)own->stack.heads;
    const uint32_t y = make_value(b, "attention", "d_attention", width);
    bp_node *node = make_node(b, BP_NODE_ATTENTION, rotated, y);
    make_statistics(b, "attention.lse", own->stack.heads);
    node->out[1] = y + 1;
    node->class_of = BP_RECOMPUTE_ATTENTION;
    node->attention = (bp_attention){.heads = own->stack.heads,
                                     .head_width = head_width,
                                     .bidirectional = true,
                                     .padded = true,
                                     .lengths = b->builder->input[BP_INPUT_LENGTHS],
                                     .dropout = {site_of(b, 0), own->stack.attention_dropout},
                                     .window = near ? own->window / 2 + 1 : 0};
    return add_end(b, BP_MODERNBERT_O, (const uint32_t[]){y, 0},
                   (bp_dropout){site_of(b, 1), own->stack.residual_dropout}, middle);
}

static void describe_mlp(building *b, uint32_t middle)
{
    static const char *const norm[3] = {"norm_2", "d_norm", "norm_2.statistics"};
    static const char *const before[2] = {"before", "d_before"}, *const out[2] = {"out", NULL};
    const uint64_t inner = bp_transformer_inner(&b->own.llama.stack);
    const uint32_t x = add_norm(b, BP_MODERNBERT_NORM_2, middle, norm);
    const uint32_t both = add_dense(b, BP_MODERNBERT_GATE_UP, x, 2 * inner, before);
    uint32_t active = make_value(b, "active", "d_active", inner);
    bp_node *node = make_node(b, BP_NODE_GATED, both, active);
    node->gate = BP_GATE_GELU_ERF;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    if (b->own.mlp_dropout > 0.0) {
        const uint32_t dropped = make_value(b, "dropped", "d_dropped", inner);
        make_node(b, BP_NODE_DROPOUT, active, dropped)->dropout =
            (bp_dropout){site_of(b, 2), b->own.mlp_dropout};
        active = dropped;
    }
    add_end(b, BP_MODERNBERT_DOWN, (const uint32_t[]){active, middle}, (bp_dropout){0, 0.0}, out);
}

void bp_modernbert_block_describe(const bp_builder *builder, const bp_stage_call *call,
                                  bp_block *block)
{
    building b = {.builder = builder,
                  .own = bp_modernbert_config_of(&builder->spec->config),
                  .index = call->stage - 1,
                  .block = block};
    block->values = 0;
    block->nodes = 0;
    block->ends = false;
    make_value(&b, "input", "d_in", b.own.llama.stack.width);
    describe_mlp(&b, describe_attention(&b));
}
