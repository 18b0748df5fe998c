/* SPDX-License-Identifier: MIT */
/* What a Llama block is made of. */
#include "layers/blocks/llama_block.h"

#include "layers/blocks/sublayer.h"
#include "layers/families/llama.h"
#include "layers/nodes/activate.h"

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

/* Whether gate and up are one weight. */
static bool fuses_gate(const bp_llama_config *own)
{
    return own->fused || own->fused_gate;
}

bool bp_llama_linear(const bp_llama_config *own, uint32_t layer)
{
    return own->linear.listed > 0 && bp_layer_in(&own->linear, layer);
}

bp_delta bp_llama_delta(const bp_llama_config *own)
{
    return (bp_delta){.key_heads = own->linear_keys,
                      .value_heads = own->linear_values,
                      .key_width = own->linear_key_width,
                      .value_width = own->linear_value_width};
}

bool bp_llama_mixes(const bp_llama_config *own, uint32_t layer)
{
    const uint32_t every = own->experts_every != 0 ? own->experts_every : 1;
    return own->experts > 0 && layer >= own->perceptrons && (layer + 1) % every == 0 &&
           !bp_layer_in(&own->alone, layer);
}

/* Layers below this one that have experts. */
static uint32_t mixed_below(const bp_llama_config *own, uint32_t layer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < layer; i++) {
        count += bp_llama_mixes(own, i) ? 1 : 0;
    }
    return count;
}

bp_experts bp_llama_experts(const bp_model_config *config, uint32_t layer)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const uint32_t routers = mixed_below(&own, own.stack.layers);
    return (bp_experts){.experts = own.experts,
                        .chosen = own.experts_chosen,
                        .width = own.stack.width,
                        .inner = own.expert_inner,
                        .renormalise = own.renormalise,
                        .scored = own.scored,
                        .groups = own.groups,
                        .kept = own.groups_chosen,
                        .scale = own.routed_scale,
                        .input_major = own.experts_turned,
                        .biased = own.expert_biases,
                        .balances = own.balances && routers > 0 && own.balance > 0.0 &&
                                    config->task == BP_TASK_CAUSAL_LM,
                        .router = mixed_below(&own, layer),
                        .routers = routers};
}

/* Of those of the perceptron. */
static bool perceptron_has(const bp_llama_config *own, bool mixes, bp_llama_parameter parameter)
{
    const bool dense = !mixes || own->shared_inner > 0;
    switch (parameter) {
    case BP_LLAMA_ROUTER_WEIGHT:
    case BP_LLAMA_EXPERTS_GATE_UP:
    case BP_LLAMA_EXPERTS_DOWN:
        return mixes;
    case BP_LLAMA_ROUTER_BIAS:
    case BP_LLAMA_EXPERTS_GATE_UP_BIAS:
    case BP_LLAMA_EXPERTS_DOWN_BIAS:
        return mixes && own->expert_biases;
    case BP_LLAMA_ROUTER_CORRECTION:
        return mixes && own->scored;
    case BP_LLAMA_SHARED_GATE_WEIGHT:
        return mixes && own->shared_inner > 0 && own->shared_count == 0;
    case BP_LLAMA_GATE_UP_WEIGHT:
        return dense && fuses_gate(own);
    case BP_LLAMA_GATE_WEIGHT:
        return dense && !fuses_gate(own) && !own->ungated;
    case BP_LLAMA_UP_WEIGHT:
        return dense && !fuses_gate(own);
    case BP_LLAMA_DOWN_WEIGHT:
        return dense;
    case BP_LLAMA_GATE_BIAS:
        return !mixes && own->mlp_bias && !fuses_gate(own) && !own->ungated;
    case BP_LLAMA_UP_BIAS:
    case BP_LLAMA_DOWN_BIAS:
        return !mixes && own->mlp_bias && !fuses_gate(own);
    default: /* BP_LLAMA_SHARED_GATE_BIAS, BP_LLAMA_GATE_UP_BIAS */
        return false;
    }
}

/* Of those of attention, or of linear attention. */
static bool attention_has(const bp_llama_config *own, bool linear, bp_llama_parameter parameter)
{
    if (parameter >= BP_LLAMA_LINEAR_QKV) {
        const bool second = parameter == BP_LLAMA_LINEAR_Z || parameter == BP_LLAMA_LINEAR_A;
        return linear && !(second && own->linear_fused);
    }
    if (linear) {
        return false;
    }
    switch (parameter) {
    case BP_LLAMA_QKV_WEIGHT:
        return own->fused;
    case BP_LLAMA_QKV_BIAS:
        return false;
    case BP_LLAMA_Q_WEIGHT:
    case BP_LLAMA_K_WEIGHT:
    case BP_LLAMA_V_WEIGHT:
        return !own->fused;
    case BP_LLAMA_Q_BIAS:
    case BP_LLAMA_K_BIAS:
    case BP_LLAMA_V_BIAS:
        return own->qkv_bias && !own->fused;
    case BP_LLAMA_O_BIAS:
        return own->output_bias;
    case BP_LLAMA_SINKS:
        return own->sinks;
    case BP_LLAMA_Q_NORM:
    case BP_LLAMA_K_NORM:
        return own->head_norms || own->whole_norms;
    default:
        return true;
    }
}

static bool own_has(const bp_llama_config *own, uint32_t block, bp_llama_parameter parameter)
{
    if (parameter >= BP_LLAMA_QKV_WEIGHT && parameter <= BP_LLAMA_LINEAR_OUT) {
        return attention_has(own, bp_llama_linear(own, block), parameter);
    }
    if (parameter >= BP_LLAMA_ROUTER_WEIGHT && parameter <= BP_LLAMA_DOWN_BIAS) {
        return perceptron_has(own, bp_llama_mixes(own, block), parameter);
    }
    switch (parameter) {
    case BP_LLAMA_NORM_1:
        return own->norms != BP_LLAMA_NORMS_AFTER;
    case BP_LLAMA_NORM_2:
        return own->norms != BP_LLAMA_NORMS_AFTER && !own->parallel;
    case BP_LLAMA_NORM_1_BIAS:
    case BP_LLAMA_NORM_2_BIAS:
        return own->norm_bias;
    case BP_LLAMA_AFTER_1:
    case BP_LLAMA_AFTER_2:
        return own->norms != BP_LLAMA_NORMS_BEFORE;
    default:
        return true;
    }
}

bool bp_llama_has(const bp_model_config *config, uint32_t block, bp_llama_parameter parameter)
{
    const bp_llama_config own = bp_llama_config_of(config);
    return own_has(&own, block, parameter);
}

static uint32_t own_parameters(const bp_llama_config *own, uint32_t block)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        count += own_has(own, block, (bp_llama_parameter)p) ? 1 : 0;
    }
    return count;
}

/* Blocks are alike where none has experts or linear attention. */
static bool own_alike(const bp_llama_config *own)
{
    return own->experts == 0 && own->linear.listed == 0;
}

/* The same for one block after the other: what a block has follows from its kinds. */
static uint32_t own_known(const bp_llama_config *own, uint32_t block, uint32_t known[2][2])
{
    uint32_t *count = &known[bp_llama_linear(own, block)][bp_llama_mixes(own, block)];
    *count = *count > 0 ? *count : own_parameters(own, block);
    return *count;
}

static uint32_t own_first(const bp_llama_config *own, uint32_t block)
{
    const uint32_t blocks = block < own->stack.layers ? block : own->stack.layers;
    uint32_t first = 1, known[2][2] = {{0}};
    if (own_alike(own)) {
        return first + blocks * own_parameters(own, 0);
    }
    for (uint32_t i = 0; i < blocks; i++) {
        first += own_known(own, i, known);
    }
    return first;
}

uint32_t bp_llama_block_first(const bp_model_config *config, uint32_t block)
{
    const bp_llama_config own = bp_llama_config_of(config);
    return own_first(&own, block);
}

uint32_t bp_llama_block_of(const bp_llama_config *own, uint32_t parameter)
{
    uint32_t first = own_first(own, 0);
    if (own_alike(own)) {
        const uint32_t block = parameter > first ? (parameter - first) / own_parameters(own, 0) : 0;
        return block < own->stack.layers ? block : own->stack.layers;
    }
    uint32_t block = 0, known[2][2] = {{0}};
    for (; block < own->stack.layers; block++) {
        first += own_known(own, block, known);
        if (parameter < first) {
            break;
        }
    }
    return block;
}

/* Numbers of a block's parameters, BP_NO_PARAMETER for those it lacks. */
static void number_parameters(const bp_llama_config *own, uint32_t index,
                              uint32_t numbers[BP_LLAMA_BLOCK_PARAMETERS])
{
    uint32_t next = own_first(own, index);
    for (uint32_t p = 0; p < BP_LLAMA_BLOCK_PARAMETERS; p++) {
        const bool there = own_has(own, index, (bp_llama_parameter)p);
        numbers[p] = there ? next : BP_NO_PARAMETER;
        next += there ? 1 : 0;
    }
}

static bp_linear llama_block_dense(const uint32_t *numbers, bp_llama_parameter weight, uint64_t in,
                                   uint64_t out)
{
    return (bp_linear){.weight = numbers[weight],
                       .bias = numbers[weight + 1],
                       .in = in,
                       .out = out,
                       .output_major = true};
}

static uint64_t queries_of(const bp_llama_shape *shape)
{
    return shape->heads * shape->head_width;
}

static uint64_t keys_of(const bp_llama_shape *shape)
{
    return shape->kv_heads * shape->head_width;
}

/* A block on its way. */
typedef struct building {
    const bp_stage_call *call;
    const bp_model_config *config;
    const bp_llama_config *own;
    bp_ref lengths;   /* of samples, where the model declares them */
    const void *near; /* longrope's divisors, where the config has them */
    const void *far;
    bp_llama_shape shape;
    uint32_t n[BP_LLAMA_BLOCK_PARAMETERS];
    bp_block_list list;
} building;

static bp_norm norm_of(const building *b, bp_llama_parameter weight, uint64_t width)
{
    const bp_llama_config *own = b->own;
    const uint32_t bias = !own->centred    ? BP_NO_PARAMETER
                          : own->norm_bias ? b->n[weight + 1]
                                           : BP_NORM_NO_BIAS;
    return (bp_norm){b->n[weight], bias, width, own->stack.norm_epsilon, own->norm_offset};
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
static uint32_t add_scale(const building *b, uint32_t in, uint64_t width)
{
    if (!is_scaled(b)) {
        return in;
    }
    const uint32_t scaled = bp_list_value(&b->list, "scaled", "d_scaled", width);
    bp_list_node(&b->list, BP_NODE_SCALE, in, scaled)->factor = b->own->residual_scale;
    return scaled;
}

/* The end of a sublayer: its last product joins the stream, normalised before where norms come
 * after. names: of the sum and its gradient, of the product and its norm. */
static uint32_t add_end(const building *b, bp_llama_parameter weight, const uint32_t from[2],
                        const char *const names[2])
{
    static const char *const after[3] = {"after", "d_after", "after.statistics"};
    static const char *const alone[2] = {"projected", "d_projected"};
    const bool attention = weight == BP_LLAMA_O_WEIGHT;
    const uint64_t in = attention ? queries_of(&b->shape) : b->shape.inner;
    const bp_linear product = llama_block_dense(b->n, weight, in, b->shape.width);
    const bool biased = product.bias != BP_NO_PARAMETER;
    /* What enters is scaled, so that the sum is the product's own; not where a bias is scaled, too.
     */
    const uint32_t x = biased ? from[0] : add_scale(b, from[0], in);
    const bool scaled = biased && is_scaled(b);
    if (b->own->norms == BP_LLAMA_NORMS_BEFORE && !scaled) {
        const bp_residual end = {
            product, {dropout_site(b->call->stage, attention), b->own->stack.residual_dropout}};
        return bp_list_residual(&b->list, &end, x, from[1], names);
    }
    const uint32_t projected = bp_list_dense(&b->list, &product, x, alone);
    const bp_norm norm =
        norm_of(b, attention ? BP_LLAMA_AFTER_1 : BP_LLAMA_AFTER_2, b->shape.width);
    const uint32_t added = b->own->norms == BP_LLAMA_NORMS_BEFORE
                               ? add_scale(b, projected, b->shape.width)
                               : bp_list_norm(&b->list, &norm, projected, after);
    const uint32_t out = bp_list_value(&b->list, names[0], names[1], b->shape.width);
    bp_list_node(&b->list, BP_NODE_ADD, added, out)->in[1] = from[1];
    return out;
}

/* The norms of queries and keys, between the projections and the turning. */
static void find_head_norms(const building *b, bp_head_norm norms[2])
{
    const bp_llama_shape *s = &b->shape;
    const bool whole = b->own->whole_norms;
    const uint64_t heads[2] = {whole ? 1 : s->heads, whole ? 1 : s->kv_heads};
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t all = i == 0 ? queries_of(s) : keys_of(s);
        const bp_llama_parameter weight = i == 0 ? BP_LLAMA_Q_NORM : BP_LLAMA_K_NORM;
        norms[i] = (bp_head_norm){norm_of(b, weight, whole ? all : s->head_width), heads[i],
                                  queries_of(s) + 2 * keys_of(s)};
    }
}

/* Whether the block's attention looks through the window. */
static bool is_near(const building *b)
{
    const bp_layer_set *near = &b->own->near;
    return b->own->window != 0 && (near->listed == 0 || bp_layer_in(near, b->call->stage - 1));
}

/* Half a window to each side, itself among both, as transformers has it. */
static uint64_t window_of(const bp_llama_config *own)
{
    return own->both_ways ? own->window / 2 + 1 : own->window;
}

static bp_rotary find_rotary(const building *b)
{
    const bp_llama_config *own = b->own;
    const bool other = is_near(b) && own->near_theta > 0.0;
    return (bp_rotary){.width = bp_llama_rotary_width(own, b->shape.head_width),
                       .theta = other ? own->near_theta : own->rope_theta,
                       .apart = b->shape.head_width,
                       .neighbours = own->neighbours,
                       .table = other ? 1 : 0,
                       .near = own->rope_pairs > 0 ? b->near : NULL,
                       .far = own->rope_pairs > 0 ? b->far : NULL,
                       .scaling = other ? (bp_rope_scaling){0} : own->rope_scaling};
}

/* Attention of x, joined to the stream; x is the block's input, or with `parallel` its norm. */
static uint32_t describe_attention(const building *b, uint32_t x)
{
    static const char *const middle[2] = {"middle", "d_middle"};
    const bp_llama_config *own = b->own;
    const bp_llama_shape *s = &b->shape;
    const uint64_t queries = queries_of(s), keys = keys_of(s);
    const bool normed = own->head_norms || own->whole_norms;
    const bp_norm norm = norm_of(b, BP_LLAMA_NORM_1, s->width);
    const bp_rotary rotary = find_rotary(b);
    bp_head_norm head_norms[2];
    find_head_norms(b, head_norms);
    bp_attention_parts parts = {
        .norm = own->norms != BP_LLAMA_NORMS_AFTER && !own->parallel ? &norm : NULL,
        .norm_gradient = "d_input",
        .products = own->fused ? 1 : 3,
        .product = {llama_block_dense(b->n, BP_LLAMA_Q_WEIGHT, s->width,
                                      own->gated ? 2 * queries : queries),
                    llama_block_dense(b->n, BP_LLAMA_K_WEIGHT, s->width, keys),
                    llama_block_dense(b->n, BP_LLAMA_V_WEIGHT, s->width, keys)},
        .gated = own->gated,
        .head_norm = normed ? head_norms : NULL,
        .norms_late = own->norms_late,
        .rotary = bp_layer_in(&own->still, b->call->stage - 1) ? NULL : &rotary,
        .attention = {.heads = (uint32_t)s->heads,
                      .kv_heads = (uint32_t)s->kv_heads,
                      .head_width = s->head_width,
                      .dropout = {b->call->stage, own->stack.attention_dropout},
                      .bidirectional = own->both_ways,
                      .padded = own->both_ways,
                      .lengths = b->lengths,
                      .window = is_near(b) ? window_of(own) : 0,
                      .scale = own->attention_scale,
                      .cap = own->attention_cap,
                      .sunk = own->sinks,
                      .sinks = b->n[BP_LLAMA_SINKS]}};
    if (own->fused) {
        parts.product[0] =
            llama_block_dense(b->n, BP_LLAMA_QKV_WEIGHT, s->width, queries + 2 * keys);
    }
    const uint32_t y = bp_list_attention(&b->list, x, &parts);
    return add_end(b, BP_LLAMA_O_WEIGHT, (const uint32_t[]){y, 0}, middle);
}

/* A product without a bias. */
static bp_linear linear_product(const building *b, bp_llama_parameter weight, uint64_t in,
                                uint64_t out)
{
    return (bp_linear){.weight = b->n[weight],
                       .bias = BP_NO_PARAMETER,
                       .in = in,
                       .out = out,
                       .output_major = true};
}

/* What a fused product of x makes of the key heads in turn, in their parts. */
static uint32_t linear_parts(const building *b, uint32_t x, bp_llama_parameter weight,
                             const bp_row_parts *split, const char *const names[4])
{
    const uint64_t row = bp_row_parts_width(split);
    const bp_linear product = linear_product(b, weight, b->shape.width, row);
    const uint32_t raw = bp_list_dense(&b->list, &product, x, names);
    const uint32_t out = bp_list_value(&b->list, names[2], names[3], row);
    bp_node *node = bp_list_node(&b->list, BP_NODE_SPLIT, raw, out);
    node->parts = 1;
    node->split = *split;
    return out;
}

/* Two products of x, as a value each or side by side. */
static bp_node *linear_pair(const building *b, uint32_t x, const bp_llama_parameter weight[2],
                            const uint64_t width[2], const uint32_t out[2])
{
    bp_node *node = bp_list_node(&b->list, BP_NODE_DENSE, x, out[0]);
    node->parts = 2;
    for (uint32_t i = 0; i < 2; i++) {
        node->out[i] = out[i];
        node->part[i] = linear_product(b, weight[i], b->shape.width, width[i]);
    }
    return node;
}

/* Queries, keys and values before the convolution in value[0], z in value[1], both gates in
 * value[2]. */
static void linear_products(const building *b, const bp_delta *delta, uint32_t x, uint32_t value[3])
{
    static const char *const ba[4] = {"raw_gates", "d_raw_gates", "gates", "d_gates"};
    static const bp_llama_parameter first[2] = {BP_LLAMA_LINEAR_QKV, BP_LLAMA_LINEAR_Z};
    static const bp_llama_parameter second[2] = {BP_LLAMA_LINEAR_B, BP_LLAMA_LINEAR_A};
    const uint64_t heads = delta->value_heads, row = bp_delta_row(delta);
    const uint64_t values = bp_delta_values(delta), each = heads / delta->key_heads;
    const uint64_t keys = delta->key_heads * delta->key_width, of = each * delta->value_width;
    uint32_t raw = 0;
    if (b->own->linear_fused) {
        const bp_linear product =
            linear_product(b, BP_LLAMA_LINEAR_QKV, b->shape.width, row + values);
        static const char *const names[2] = {"raw", "d_raw"};
        raw = bp_list_dense(&b->list, &product, x, names);
    }
    value[0] = bp_list_value(&b->list, "mixed", "d_mixed", row);
    value[1] = bp_list_value(&b->list, "z", "d_z", values);
    if (b->own->linear_fused) {
        bp_node *node = bp_list_node(&b->list, BP_NODE_SPLIT, raw, value[0]);
        node->out[1] = value[1];
        node->parts = 2;
        node->split = (bp_row_parts){.groups = delta->key_heads,
                                     .width = {delta->key_width, delta->key_width, of, of},
                                     .to = {0, 0, 0, 1},
                                     .column = {0, keys, 2 * keys, 0}};
        const bp_row_parts gates = {
            .groups = delta->key_heads, .width = {each, each}, .column = {0, heads}};
        value[2] = linear_parts(b, x, BP_LLAMA_LINEAR_B, &gates, ba);
        return;
    }
    (void)linear_pair(b, x, first, (const uint64_t[]){row, values}, value);
    value[2] = bp_list_value(&b->list, ba[2], ba[3], 2 * heads);
    bp_node *node = linear_pair(b, x, second, (const uint64_t[]){heads, heads},
                                (const uint32_t[]){value[2], value[2]});
    node->column[1] = heads;
    node->part[0].pitch = 2 * heads;
    node->part[1].pitch = 2 * heads;
}

/* A value whose rows are heads, by a norm of each. */
static uint32_t linear_norm(const building *b, const bp_delta *delta, uint32_t heads)
{
    const uint64_t rows = b->list.rows * delta->value_heads;
    const uint32_t out = bp_list_value(&b->list, "normed", "d_normed", delta->value_width);
    bp_node *node = bp_list_node(&b->list, BP_NODE_NORM, heads, out);
    node->out[1] = bp_list_statistics(&b->list, "normed.statistics", 1);
    b->list.block->value[out].shape[0] = rows;
    b->list.block->value[node->out[1]].shape[1] = rows;
    node->class_of = BP_RECOMPUTE_NORM;
    node->norm = (bp_norm){.weight = b->n[BP_LLAMA_LINEAR_NORM],
                           .bias = BP_NO_PARAMETER,
                           .width = delta->value_width,
                           .epsilon = b->own->stack.norm_epsilon};
    return out;
}

/* Linear attention of the block's input, joined to it. */
static uint32_t describe_linear(const building *b)
{
    static const char *const middle[2] = {"middle", "d_middle"};
    static const char *const before[3] = {"norm_1", "d_input", "norm_1.statistics"};
    const bp_norm norm = norm_of(b, BP_LLAMA_NORM_1, b->shape.width);
    bp_delta delta = bp_llama_delta(b->own);
    delta.a_log = b->n[BP_LLAMA_LINEAR_A_LOG];
    delta.dt_bias = b->n[BP_LLAMA_LINEAR_DT_BIAS];
    const uint64_t row = bp_delta_row(&delta), values = bp_delta_values(&delta);
    uint32_t value[3];
    linear_products(b, &delta, bp_list_norm(&b->list, &norm, 0, before), value);
    const uint32_t convolved = bp_list_value(&b->list, "convolved", "d_convolved", row);
    bp_node *conv = bp_list_node(&b->list, BP_NODE_SHORT_CONV, value[0], convolved);
    conv->class_of = BP_RECOMPUTE_ACTIVATION;
    conv->short_conv = (bp_short_conv){b->n[BP_LLAMA_LINEAR_CONV], row, b->own->linear_taps};
    const uint32_t heads = bp_list_value(&b->list, "heads", "d_heads", delta.value_width);
    b->list.block->value[heads].shape[0] *= delta.value_heads;
    bp_node *rule = bp_list_node(&b->list, BP_NODE_DELTA, convolved, heads);
    rule->in[1] = value[2];
    rule->class_of = BP_RECOMPUTE_ATTENTION;
    rule->delta = delta;
    const uint32_t normed = linear_norm(b, &delta, heads);
    const uint32_t active = bp_list_value(&b->list, "gated", "d_gated", values);
    bp_node *gate = bp_list_node(&b->list, BP_NODE_SWIGLU, value[1], active);
    gate->in[1] = normed;
    gate->gate = BP_GATE_SILU;
    gate->class_of = BP_RECOMPUTE_ACTIVATION;
    const bp_residual end = {linear_product(b, BP_LLAMA_LINEAR_OUT, values, b->shape.width),
                             {dropout_site(b->call->stage, true), b->own->stack.residual_dropout}};
    return bp_list_residual(&b->list, &end, active, 0, middle);
}

/* Up alone, and hidden_act of it. */
static uint32_t add_ungated(const building *b, uint32_t x)
{
    static const char *const names[2] = {"before", "d_before"};
    const bp_linear up =
        llama_block_dense(b->n, BP_LLAMA_UP_WEIGHT, b->shape.width, b->shape.inner);
    const uint32_t before = bp_list_dense(&b->list, &up, x, names);
    const uint32_t active = bp_list_value(&b->list, "active", "d_active", b->shape.inner);
    const bp_node act = bp_hidden_act_node(b->own->stack.activation, before, active);
    *bp_list_node(&b->list, act.kind, before, active) = act;
    return active;
}

/* Gate and up, and their product. */
static uint32_t add_gate(const building *b, uint32_t x)
{
    const uint64_t width = b->shape.width, inner = b->shape.inner;
    const bool fused = fuses_gate(b->own);
    const uint32_t gate = bp_list_value(&b->list, "before", "d_gate", fused ? 2 * inner : inner);
    bp_node *dense = bp_list_node(&b->list, BP_NODE_DENSE, x, gate);
    dense->parts = fused ? 1 : 2;
    dense->part[0] = llama_block_dense(b->n, fused ? BP_LLAMA_GATE_UP_WEIGHT : BP_LLAMA_GATE_WEIGHT,
                                       width, fused ? 2 * inner : inner);
    if (!fused) {
        dense->out[1] = bp_list_value(&b->list, "up", "d_up", inner);
        dense->part[1] = llama_block_dense(b->n, BP_LLAMA_UP_WEIGHT, width, inner);
    }
    const uint32_t active = bp_list_value(&b->list, "active", "d_swiglu", inner);
    bp_node *node = bp_list_node(&b->list, fused ? BP_NODE_GATED : BP_NODE_SWIGLU, gate, active);
    node->in[1] = fused ? 0 : gate + 1;
    node->gate = b->own->gate;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    return active;
}

/* A value with a row for each choice of a token. */
static uint32_t add_choices(const building *b, const char *const names[2], uint64_t width)
{
    const uint32_t value = bp_list_value(&b->list, names[0], names[1], width);
    b->list.block->value[value].shape[0] = b->list.rows * b->own->experts_chosen;
    return value;
}

/* The expert that all tokens have, joined to the stream. It may have a gate: before its last
 * product, which a factor of a row goes through. */
static uint32_t add_shared(const building *b, uint32_t x, uint32_t stream)
{
    static const char *const names[4][2] = {{"shared_before", "d_shared_gate"},
                                            {"shared_up", "d_shared_up"},
                                            {"shared_gate", "d_gate"},
                                            {"shared", "d_shared"}};
    const uint64_t width = b->shape.width, inner = b->own->shared_inner;
    const uint32_t before = bp_list_value(&b->list, names[0][0], names[0][1], inner);
    bp_node *dense = bp_list_node(&b->list, BP_NODE_DENSE, x, before);
    dense->parts = 2;
    dense->part[0] = llama_block_dense(b->n, BP_LLAMA_GATE_WEIGHT, width, inner);
    dense->out[1] = bp_list_value(&b->list, names[1][0], names[1][1], inner);
    dense->part[1] = llama_block_dense(b->n, BP_LLAMA_UP_WEIGHT, width, inner);
    const uint32_t active = bp_list_value(&b->list, "shared_active", "d_shared_active", inner);
    bp_node *node = bp_list_node(&b->list, BP_NODE_SWIGLU, before, active);
    node->in[1] = before + 1;
    node->gate = b->own->gate;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    const bp_residual end = {llama_block_dense(b->n, BP_LLAMA_DOWN_WEIGHT, inner, width), {0, 0.0}};
    if (b->own->shared_count > 0) {
        return bp_list_residual(&b->list, &end, active, stream, names[3]);
    }
    const bp_linear gate = llama_block_dense(b->n, BP_LLAMA_SHARED_GATE_WEIGHT, width, 1);
    const uint32_t logit = bp_list_dense(&b->list, &gate, x, names[2]);
    const uint32_t gated = bp_list_value(&b->list, "shared_gated", "d_shared_gated", inner);
    bp_node *times = bp_list_node(&b->list, BP_NODE_ROW_GATE, active, gated);
    times->in[1] = logit;
    times->class_of = BP_RECOMPUTE_ACTIVATION;
    return bp_list_residual(&b->list, &end, gated, stream, names[3]);
}

/* A router, and the experts that it chooses, joined to the stream. */
static void add_experts(const building *b, uint32_t x, uint32_t stream, const char *const out[2])
{
    static const char *const names[3][2] = {
        {"logits", "d_logits"}, {"before", "d_before"}, {"active", "d_active"}};
    bp_experts experts = bp_llama_experts(b->config, b->call->stage - 1);
    experts.gate_up = b->n[BP_LLAMA_EXPERTS_GATE_UP];
    experts.down = b->n[BP_LLAMA_EXPERTS_DOWN];
    experts.correction = b->n[BP_LLAMA_ROUTER_CORRECTION];
    const bp_linear router =
        llama_block_dense(b->n, BP_LLAMA_ROUTER_WEIGHT, experts.width, experts.experts);
    const uint32_t logits = bp_list_dense(&b->list, &router, x, names[0]);
    const uint32_t routing =
        bp_list_value(&b->list, "routing", NULL, bp_experts_words(&experts, b->list.rows));
    b->list.block->value[routing].shape[0] = 1;
    b->list.block->value[routing].statistics = BP_VALUE_I32;
    bp_list_node(&b->list, BP_NODE_ROUTE, logits, routing)->experts = experts;
    const uint32_t before = add_choices(b, names[1], 2 * experts.inner);
    bp_node *enter = bp_list_node(&b->list, BP_NODE_EXPERTS_ENTER, x, before);
    enter->in[1] = routing;
    enter->experts = experts;
    const uint32_t active = add_choices(b, names[2], experts.inner);
    bp_node *gated = bp_list_node(&b->list, BP_NODE_GATED, before, active);
    gated->gate = b->own->gate;
    gated->clamp = (bp_clamp){b->own->gate_alpha, b->own->gate_limit};
    gated->class_of = BP_RECOMPUTE_ACTIVATION;
    const uint32_t sum = bp_list_value(&b->list, out[0], out[1], experts.width);
    bp_node *leave = bp_list_node(&b->list, BP_NODE_EXPERTS_LEAVE, active, sum);
    leave->in[1] = routing;
    leave->in[2] = stream;
    leave->experts = experts;
}

void bp_llama_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    static const char *const first[3] = {"norm_1", "d_norm", "norm_1.statistics"};
    static const char *const names[3] = {"norm_2", "d_norm", "norm_2.statistics"};
    static const char *const out[2] = {"out", NULL};
    const bp_model_config *config = &builder->spec->config;
    const bp_llama_config own = bp_llama_config_of(config);
    const char *bytes = (const char *)config;
    building b = {.call = call,
                  .config = config,
                  .own = &own,
                  .lengths = builder->input[BP_INPUT_LENGTHS],
                  .near = bytes + BP_FAMILY_MEMBER(bp_llama_long, near),
                  .far = bytes + BP_FAMILY_MEMBER(bp_llama_long, far),
                  .shape = bp_llama_shape_of(config)};
    number_parameters(&own, call->stage - 1, b.n);
    b.list = bp_list_begin(block, builder->rows, b.shape.width);
    const bp_norm both = norm_of(&b, BP_LLAMA_NORM_1, b.shape.width);
    const uint32_t shared = own.parallel ? bp_list_norm(&b.list, &both, 0, first) : 0;
    const uint32_t middle = bp_llama_linear(&own, call->stage - 1) ? describe_linear(&b)
                                                                   : describe_attention(&b, shared);
    const bp_norm norm = norm_of(&b, BP_LLAMA_NORM_2, b.shape.width);
    const bool before = own.norms != BP_LLAMA_NORMS_AFTER && !own.parallel;
    const uint32_t x = before         ? bp_list_norm(&b.list, &norm, middle, names)
                       : own.parallel ? shared
                                      : middle;
    if (bp_llama_mixes(&own, call->stage - 1)) {
        const uint32_t stream = own.shared_inner > 0 ? add_shared(&b, x, middle) : middle;
        add_experts(&b, x, stream, out);
        return;
    }
    const uint32_t active = own.ungated ? add_ungated(&b, x) : add_gate(&b, x);
    add_end(&b, BP_LLAMA_DOWN_WEIGHT, (const uint32_t[]){active, middle}, out);
}
