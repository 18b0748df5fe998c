/* SPDX-License-Identifier: MIT */
/* What a Llama block is made of. */
#include "layers/blocks/llama_block.h"

#include <string.h>

#include "layers/blocks/block.h"
#include "layers/families/llama.h"

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

static bool own_has(const bp_llama_config *own, bp_llama_parameter parameter)
{
    switch (parameter) {
    case BP_LLAMA_NORM_1:
    case BP_LLAMA_NORM_2:
        return own->norms != BP_LLAMA_NORMS_AFTER;
    case BP_LLAMA_AFTER_1:
    case BP_LLAMA_AFTER_2:
        return own->norms != BP_LLAMA_NORMS_BEFORE;
    case BP_LLAMA_QKV_WEIGHT:
    case BP_LLAMA_GATE_UP_WEIGHT:
        return own->fused;
    case BP_LLAMA_QKV_BIAS:
    case BP_LLAMA_GATE_UP_BIAS:
        return false;
    case BP_LLAMA_Q_WEIGHT:
    case BP_LLAMA_K_WEIGHT:
    case BP_LLAMA_V_WEIGHT:
    case BP_LLAMA_GATE_WEIGHT:
    case BP_LLAMA_UP_WEIGHT:
        return !own->fused;
    case BP_LLAMA_Q_BIAS:
    case BP_LLAMA_K_BIAS:
    case BP_LLAMA_V_BIAS:
        return own->qkv_bias && !own->fused;
    case BP_LLAMA_O_BIAS:
        return own->output_bias;
    case BP_LLAMA_Q_NORM:
    case BP_LLAMA_K_NORM:
        return own->head_norms || own->whole_norms;
    case BP_LLAMA_GATE_BIAS:
    case BP_LLAMA_UP_BIAS:
    case BP_LLAMA_DOWN_BIAS:
        return own->mlp_bias && !own->fused;
    default:
        return true;
    }
}

bool bp_llama_has(const bp_model_config *config, bp_llama_parameter parameter)
{
    const bp_llama_config own = bp_llama_config_of(config);
    return own_has(&own, parameter);
}

static uint32_t own_parameters(const bp_llama_config *own)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        count += own_has(own, (bp_llama_parameter)p) ? 1 : 0;
    }
    return count;
}

uint32_t bp_llama_block_parameters(const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    return own_parameters(&own);
}

/* Numbers of a block's parameters, BP_NO_PARAMETER for those it lacks. */
static void number_parameters(const bp_llama_config *own, uint32_t index,
                              uint32_t numbers[BP_LLAMA_BLOCK_PARAMETERS])
{
    uint32_t next = 1 + index * own_parameters(own);
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        const bool there = own_has(own, (bp_llama_parameter)p);
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

static uint64_t queries_of(const bp_llama_shape *shape)
{
    return shape->heads * shape->head_width;
}

static uint64_t keys_of(const bp_llama_shape *shape)
{
    return shape->kv_heads * shape->head_width;
}

/* A block on its way: values and nodes come in the order in which they are computed. */
typedef struct building {
    const bp_stage_call *call;
    const bp_llama_config *own;
    const void *near; /* longrope's divisors, where the config has them */
    const void *far;
    bp_llama_shape shape;
    uint32_t n[BP_LLAMA_BLOCK_PARAMETERS];
    uint64_t rows;
    bp_block *block;
} building;

static uint32_t make_value(building *b, const char *name, const char *gradient, uint64_t width)
{
    b->block->value[b->block->values] = (bp_value){name, gradient, {b->rows, width}, false};
    return b->block->values++;
}

static void make_statistics(building *b, const char *name, uint64_t count)
{
    b->block->value[b->block->values++] = (bp_value){name, NULL, {count, b->rows}, true};
}

static bp_node *make_node(building *b, bp_node_kind kind, uint32_t in, uint32_t out)
{
    bp_node *node = &b->block->node[b->block->nodes++];
    *node = (bp_node){.kind = kind, .in = {in}, .out = {out}};
    return node;
}

static bp_norm norm_of(const building *b, bp_llama_parameter weight, uint64_t width)
{
    return (bp_norm){b->n[weight], BP_NO_PARAMETER, width, b->own->stack.norm_epsilon,
                     b->own->norm_offset};
}

/* names: of the value, of its gradient and of the statistics. */
static uint32_t add_norm(building *b, bp_llama_parameter weight, uint32_t in,
                         const char *const names[3])
{
    const uint32_t out = make_value(b, names[0], names[1], b->shape.width);
    bp_node *node = make_node(b, BP_NODE_NORM, in, out);
    make_statistics(b, names[2], 1);
    node->out[1] = out + 1;
    node->class_of = BP_RECOMPUTE_NORM;
    node->again = true;
    node->norm = norm_of(b, weight, b->shape.width);
    return out;
}

/* Behind those of attention, which are the stages' numbers. */
static uint32_t dropout_site(uint32_t stage, bool attention)
{
    return (attention ? 1u : 2u) * (1u << 13) + stage;
}

static bool is_scaled(const building *b)
{
    const double scale = b->own->residual_scale;
    return scale > 0.0 && (scale < 1.0 || scale > 1.0);
}

/* A value times residual_scale; the value itself where that is 1. */
static uint32_t add_scale(building *b, uint32_t in, uint64_t width)
{
    if (!is_scaled(b)) {
        return in;
    }
    const uint32_t scaled = make_value(b, "scaled", "d_scaled", width);
    make_node(b, BP_NODE_SCALE, in, scaled)->factor = b->own->residual_scale;
    return scaled;
}

/* The end of a sublayer: its last product joins the stream, normalised before where norms come
 * after. names: of the sum and its gradient, of the product and its norm. */
static uint32_t add_end(building *b, bp_llama_parameter weight, const uint32_t from[2],
                        const char *const names[2])
{
    static const char *const after[3] = {"after", "d_after", "after.statistics"};
    const bool attention = weight == BP_LLAMA_O_WEIGHT;
    const uint64_t in = attention ? queries_of(&b->shape) : b->shape.inner;
    const bp_linear product = llama_block_dense(b->n, weight, in, b->shape.width, 0);
    const bool biased = product.bias != BP_NO_PARAMETER;
    /* What enters is scaled, so that the sum is the product's own; not where a bias is scaled, too.
     */
    const uint32_t x = biased ? from[0] : add_scale(b, from[0], in);
    const bool scaled = biased && is_scaled(b);
    if (b->own->norms == BP_LLAMA_NORMS_BEFORE && !scaled) {
        const uint32_t out = make_value(b, names[0], names[1], b->shape.width);
        bp_node *node = make_node(b, BP_NODE_RESIDUAL, x, out);
        node->in[1] = from[1];
        node->residual = (bp_residual){
            product, {dropout_site(b->call->stage, attention), b->own->stack.residual_dropout}};
        return out;
    }
    const uint32_t projected = make_value(b, "projected", "d_projected", b->shape.width);
    bp_node *dense = make_node(b, BP_NODE_DENSE, x, projected);
    dense->parts = 1;
    dense->part[0] = product;
    const uint32_t added =
        b->own->norms == BP_LLAMA_NORMS_BEFORE
            ? add_scale(b, projected, b->shape.width)
            : add_norm(b, attention ? BP_LLAMA_AFTER_1 : BP_LLAMA_AFTER_2, projected, after);
    const uint32_t out = make_value(b, names[0], names[1], b->shape.width);
    make_node(b, BP_NODE_ADD, added, out)->in[1] = from[1];
    return out;
}

/* Queries, keys and values side by side: of one product or three. */
static uint32_t add_projections(building *b, uint32_t in, const char *const names[2])
{
    const uint64_t width = b->shape.width;
    const uint64_t queries = queries_of(&b->shape), keys = keys_of(&b->shape);
    const uint64_t pitch = queries + 2 * keys;
    const uint32_t out = make_value(b, names[0], names[1], pitch);
    bp_node *node = make_node(b, BP_NODE_DENSE, in, out);
    if (b->own->fused) {
        node->parts = 1;
        node->part[0] = llama_block_dense(b->n, BP_LLAMA_QKV_WEIGHT, width, pitch, 0);
        return out;
    }
    static const bp_llama_parameter weights[3] = {BP_LLAMA_Q_WEIGHT, BP_LLAMA_K_WEIGHT,
                                                  BP_LLAMA_V_WEIGHT};
    node->parts = 3;
    for (uint32_t i = 0; i < 3; i++) {
        node->out[i] = out;
        node->column[i] = i == 0 ? 0 : queries + (i - 1) * keys;
        node->part[i] = llama_block_dense(b->n, weights[i], width, i == 0 ? queries : keys, pitch);
    }
    return out;
}

/* The norms of queries and keys, between the projections and the turning. */
static uint32_t add_head_norms(building *b, uint32_t raw)
{
    const bp_llama_shape *s = &b->shape;
    const bool whole = b->own->whole_norms;
    const uint64_t pitch = queries_of(s) + 2 * keys_of(s);
    const uint64_t heads[2] = {whole ? 1 : s->heads, whole ? 1 : s->kv_heads};
    make_statistics(b, "heads.statistics", heads[0] + heads[1]);
    const uint32_t out = make_value(b, "qkv", "d_qkv", pitch);
    bp_node *node = make_node(b, BP_NODE_HEAD_NORM, raw, out);
    node->out[1] = out - 1;
    node->class_of = BP_RECOMPUTE_NORM;
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t all = i == 0 ? queries_of(s) : keys_of(s);
        const bp_llama_parameter weight = i == 0 ? BP_LLAMA_Q_NORM : BP_LLAMA_K_NORM;
        node->head_norm[i] =
            (bp_head_norm){norm_of(b, weight, whole ? all : s->head_width), heads[i], pitch};
    }
    return out;
}

/* Whether the block's attention looks through the window. */
static bool is_near(const building *b)
{
    const bp_layer_set *near = &b->own->near;
    return b->own->window != 0 && (near->listed == 0 || bp_layer_in(near, b->call->stage - 1));
}

static uint32_t add_rotary(building *b, uint32_t straight)
{
    const bp_llama_config *own = b->own;
    const bp_llama_shape *s = &b->shape;
    if (bp_layer_in(&own->still, b->call->stage - 1)) {
        return straight;
    }
    const bool other = is_near(b) && own->near_theta > 0.0;
    const uint32_t qkv = make_value(b, "qkv", "d_qkv", queries_of(s) + 2 * keys_of(s));
    bp_node *node = make_node(b, BP_NODE_ROTARY, straight, qkv);
    node->rotary = (bp_rotary){.width = bp_llama_rotary_width(own, s->head_width),
                               .theta = other ? own->near_theta : own->rope_theta,
                               .apart = s->head_width,
                               .table = other ? 1 : 0,
                               .near = own->rope_pairs > 0 ? b->near : NULL,
                               .far = own->rope_pairs > 0 ? b->far : NULL};
    node->rotary.scaling = other ? (bp_rope_scaling){0} : own->rope_scaling;
    node->heads = s->heads + s->kv_heads;
    return qkv;
}

static uint32_t describe_attention(building *b)
{
    static const char *const names[3] = {"norm_1", "d_input", "norm_1.statistics"};
    static const char *const raw[2] = {"raw", "d_raw"}, *const qkv[2] = {"qkv", "d_qkv"};
    static const char *const middle[2] = {"middle", "d_middle"};
    const bp_llama_config *own = b->own;
    const bp_llama_shape *s = &b->shape;
    const bool before = own->norms != BP_LLAMA_NORMS_AFTER;
    const bool normed = own->head_norms || own->whole_norms;
    const uint32_t x = before ? add_norm(b, BP_LLAMA_NORM_1, 0, names) : 0;
    const uint32_t projected = add_projections(b, x, normed ? raw : qkv);
    const uint32_t straight = normed ? add_head_norms(b, projected) : projected;
    const uint32_t rotated = add_rotary(b, straight);
    const uint32_t y = make_value(b, "attention", "d_attention", queries_of(s));
    bp_node *node = make_node(b, BP_NODE_ATTENTION, rotated, y);
    make_statistics(b, "attention.lse", s->heads);
    node->out[1] = y + 1;
    node->class_of = BP_RECOMPUTE_ATTENTION;
    node->attention = (bp_attention){.heads = (uint32_t)s->heads,
                                     .kv_heads = (uint32_t)s->kv_heads,
                                     .head_width = s->head_width,
                                     .dropout = {b->call->stage, own->stack.attention_dropout},
                                     .window = is_near(b) ? own->window : 0,
                                     .scale = own->attention_scale,
                                     .cap = own->attention_cap};
    return add_end(b, BP_LLAMA_O_WEIGHT, (const uint32_t[]){y, 0}, middle);
}

/* Gate and up, and their product. */
static uint32_t add_gate(building *b, uint32_t x)
{
    const uint64_t width = b->shape.width, inner = b->shape.inner;
    const uint32_t gate = make_value(b, "before", "d_gate", b->own->fused ? 2 * inner : inner);
    bp_node *dense = make_node(b, BP_NODE_DENSE, x, gate);
    const bool fused = b->own->fused;
    dense->parts = fused ? 1 : 2;
    dense->part[0] = llama_block_dense(b->n, fused ? BP_LLAMA_GATE_UP_WEIGHT : BP_LLAMA_GATE_WEIGHT,
                                       width, fused ? 2 * inner : inner, 0);
    if (!fused) {
        dense->out[1] = make_value(b, "up", "d_up", inner);
        dense->part[1] = llama_block_dense(b->n, BP_LLAMA_UP_WEIGHT, width, inner, 0);
    }
    const uint32_t active = make_value(b, "active", "d_swiglu", inner);
    bp_node *node = make_node(b, fused ? BP_NODE_GATED : BP_NODE_SWIGLU, gate, active);
    node->in[1] = fused ? 0 : gate + 1;
    node->gate = b->own->gate;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    return active;
}

void bp_llama_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    static const char *const names[3] = {"norm_2", "d_norm", "norm_2.statistics"};
    static const char *const out[2] = {"out", NULL};
    const bp_model_config *config = &builder->spec->config;
    const bp_llama_config own = bp_llama_config_of(config);
    const char *bytes = (const char *)config;
    building b = {.call = call,
                  .own = &own,
                  .near = bytes + BP_FAMILY_MEMBER(bp_llama_long, near),
                  .far = bytes + BP_FAMILY_MEMBER(bp_llama_long, far),
                  .shape = bp_llama_shape_of(config),
                  .rows = builder->rows,
                  .block = block};
    number_parameters(&own, call->stage - 1, b.n);
    block->values = 0;
    block->nodes = 0;
    block->ends = false;
    make_value(&b, "input", "d_in", b.shape.width);
    const uint32_t middle = describe_attention(&b);
    const bool before = own.norms != BP_LLAMA_NORMS_AFTER;
    const uint32_t x = before ? add_norm(&b, BP_LLAMA_NORM_2, middle, names) : middle;
    const uint32_t active = add_gate(&b, x);
    add_end(&b, BP_LLAMA_DOWN_WEIGHT, (const uint32_t[]){active, middle}, out);
}
