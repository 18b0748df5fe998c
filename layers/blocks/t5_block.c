/* SPDX-License-Identifier: MIT */
/* What a block of T5 is made of. */
#include "layers/blocks/t5_block.h"

#include "layers/blocks/sublayer.h"
#include "layers/nodes/activate.h"

uint32_t bp_t5_block_parameters(const bp_t5_config *own)
{
    return BP_T5_BLOCK_PARAMETERS - (own->perceptron == BP_T5_RELU ? 1u : 0u);
}

uint32_t bp_t5_block_first(const bp_t5_config *own, uint32_t index)
{
    return BP_T5_EMBEDDINGS + bp_t5_block_parameters(own) * index;
}

uint32_t bp_t5_site(uint32_t block)
{
    return 1 + 4 * block;
}

uint32_t bp_t5_decoder_layers(const bp_t5_config *own)
{
    return own->decoder_layers != 0 ? own->decoder_layers : own->stack.layers;
}

uint32_t bp_t5_decoder_distances(const bp_t5_config *own)
{
    return bp_t5_block_first(own, own->stack.layers) + 1;
}

uint32_t bp_t5_decoder_first(const bp_t5_config *own, uint32_t index)
{
    return bp_t5_decoder_distances(own) + 1 +
           (bp_t5_block_parameters(own) + BP_T5_CROSS_PARAMETERS) * index;
}

uint32_t bp_t5_decoder_site(const bp_t5_config *own, uint32_t block)
{
    return bp_t5_site(own->stack.layers) + 3 + 6 * block;
}

uint32_t bp_t5_memory_stage(const bp_t5_config *own)
{
    return own->stack.layers + 1;
}

/* A block on its way. */
typedef struct building {
    bp_t5_config own;
    bool decodes; /* it is the decoder's */
    uint32_t first;
    uint32_t site;
    bp_ref lengths;
    bp_block_list list;
} building;

/* A parameter's number: those of a decoder's cross attention lie between. */
static uint32_t t5_number(const building *b, bp_t5_parameter weight)
{
    const bool behind = b->decodes && weight > BP_T5_NORM_1;
    return b->first + weight + (behind ? BP_T5_CROSS_PARAMETERS : 0);
}

static uint32_t t5_cross_number(const building *b, bp_t5_cross weight)
{
    return b->first + BP_T5_NORM_1 + 1 + weight;
}

static bp_linear t5_dense(uint32_t weight, uint64_t in, uint64_t out)
{
    return (bp_linear){
        .weight = weight, .bias = BP_NO_PARAMETER, .in = in, .out = out, .output_major = true};
}

static bp_norm t5_norm(const building *b, uint32_t weight)
{
    return (bp_norm){weight, BP_NO_PARAMETER, b->own.stack.width, b->own.stack.norm_epsilon, false};
}

static uint32_t t5_attention(const building *b)
{
    static const char *const names[2] = {"middle", "d_middle"};
    const bp_transformer *stack = &b->own.stack;
    const uint64_t width = stack->width, wide = (uint64_t)stack->heads * b->own.head_width;
    const bp_norm norm = t5_norm(b, t5_number(b, BP_T5_NORM_1));
    const bp_attention_parts parts = {
        .norm = &norm,
        .norm_gradient = "d_input",
        .products = 3,
        .product = {t5_dense(t5_number(b, BP_T5_Q), width, wide),
                    t5_dense(t5_number(b, BP_T5_K), width, wide),
                    t5_dense(t5_number(b, BP_T5_V), width, wide)},
        .attention = {.heads = stack->heads,
                      .head_width = b->own.head_width,
                      .bidirectional = !b->decodes,
                      .padded = !b->decodes,
                      .lengths = b->lengths,
                      .scale = 1.0,
                      .buckets = b->own.buckets,
                      .distance = b->own.distance,
                      .bias = b->decodes ? bp_t5_decoder_distances(&b->own) : BP_T5_DISTANCES,
                      .dropout = {b->site, stack->attention_dropout}}};
    const bp_residual end = {t5_dense(t5_number(b, BP_T5_O), wide, width),
                             {b->site + 1, stack->residual_dropout}};
    const uint32_t y = bp_list_attention(&b->list, 0, &parts);
    return bp_list_residual(&b->list, &end, y, 0, names);
}

/* The stream with what attention to the encoder's output adds. */
static uint32_t t5_cross(const building *b, const bp_builder *builder, uint32_t middle)
{
    static const char *const names[3] = {"norm_x", "d_norm_x", "norm_x.statistics"};
    static const char *const queries[2] = {"query", "d_query"}, *const ends[2] = {"crossed", NULL};
    const bp_transformer *stack = &b->own.stack;
    const uint64_t width = stack->width, wide = (uint64_t)stack->heads * b->own.head_width;
    const bp_norm norm = t5_norm(b, t5_cross_number(b, BP_T5_CROSS_NORM));
    const bp_linear query = t5_dense(t5_cross_number(b, BP_T5_CROSS_Q), width, wide);
    const bp_residual end = {t5_dense(t5_cross_number(b, BP_T5_CROSS_O), wide, width),
                             {b->site + 3, stack->residual_dropout}};
    const bp_cross cross = {.heads = stack->heads,
                            .head_width = b->own.head_width,
                            .key = t5_dense(t5_cross_number(b, BP_T5_CROSS_K), width, wide),
                            .value = t5_dense(t5_cross_number(b, BP_T5_CROSS_V), width, wide),
                            .lengths = b->lengths,
                            .scale = 1.0,
                            .dropout = {b->site + 2, stack->attention_dropout}};
    const uint32_t x = bp_list_norm(&b->list, &norm, middle, names);
    const uint32_t q = bp_list_dense(&b->list, &query, x, queries);
    const uint32_t y = bp_list_cross(&b->list, &cross, q, bp_cross_rows(builder));
    return bp_list_residual(&b->list, &end, y, middle, ends);
}

/* f(gate) * up, or relu of up. */
static uint32_t t5_activate(const building *b, uint32_t x, uint64_t inner)
{
    static const char *const names[2] = {"up", "d_up"};
    const uint64_t width = b->own.stack.width;
    if (b->own.perceptron == BP_T5_RELU) {
        const bp_linear up = t5_dense(t5_number(b, BP_T5_UP), width, inner);
        const uint32_t before = bp_list_dense(&b->list, &up, x, names);
        const uint32_t active = bp_list_value(&b->list, "active", "d_active", inner);
        const bp_node function = bp_hidden_act_node(BP_HIDDEN_RELU, before, active);
        bp_node *node = bp_list_node(&b->list, function.kind, before, active);
        node->class_of = BP_RECOMPUTE_ACTIVATION;
        node->activation = function.activation;
        return active;
    }
    const uint32_t gate = bp_list_value(&b->list, "gate", "d_gate", inner);
    const uint32_t up = bp_list_value(&b->list, names[0], names[1], inner);
    bp_node *dense = bp_list_node(&b->list, BP_NODE_DENSE, x, gate);
    dense->parts = 2;
    dense->part[0] = t5_dense(t5_number(b, BP_T5_GATE), width, inner);
    dense->part[1] = t5_dense(t5_number(b, BP_T5_UP), width, inner);
    dense->out[1] = up;
    const uint32_t active = bp_list_value(&b->list, "active", "d_active", inner);
    bp_node *node = bp_list_node(&b->list, BP_NODE_SWIGLU, gate, active);
    node->in[1] = up;
    node->gate = b->own.perceptron == BP_T5_GATED_GELU ? BP_GATE_GELU_TANH : BP_GATE_SILU;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    return active;
}

static void t5_perceptron(const building *b, uint32_t middle)
{
    static const char *const names[3] = {"norm_2", "d_norm", "norm_2.statistics"};
    static const char *const out[2] = {"out", NULL};
    const bp_transformer *stack = &b->own.stack;
    const uint64_t inner = bp_transformer_inner(stack);
    const bp_norm norm = t5_norm(b, t5_number(b, BP_T5_NORM_2));
    const uint32_t site = b->site + (b->decodes ? 4 : 2);
    const bp_residual end = {t5_dense(t5_number(b, BP_T5_DOWN), inner, stack->width),
                             {site + 1, stack->residual_dropout}};
    const uint32_t x = bp_list_norm(&b->list, &norm, middle, names);
    uint32_t active = t5_activate(b, x, inner);
    if (stack->residual_dropout > 0.0) {
        const uint32_t dropped = bp_list_value(&b->list, "dropped", "d_dropped", inner);
        bp_list_node(&b->list, BP_NODE_DROPOUT, active, dropped)->dropout =
            (bp_dropout){site, stack->residual_dropout};
        active = dropped;
    }
    (void)bp_list_residual(&b->list, &end, active, middle, out);
}

void bp_t5_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const bp_model_config *config = &builder->spec->config;
    const bool whole = config->task == BP_TASK_CAUSAL_LM;
    building b = {.own = bp_t5_config_of(config),
                  .lengths = builder->input[whole ? BP_INPUT_SOURCE_LENGTHS : BP_INPUT_LENGTHS]};
    const uint32_t memory = bp_t5_memory_stage(&b.own);
    b.decodes = whole && call->stage > memory;
    const uint32_t index = call->stage - (b.decodes ? memory + 2 : 1);
    b.site = b.decodes ? bp_t5_decoder_site(&b.own, index) : bp_t5_site(index);
    b.first = b.decodes ? bp_t5_decoder_first(&b.own, index) : bp_t5_block_first(&b.own, index);
    b.list = bp_list_begin(block, builder->rows, b.own.stack.width);
    const uint32_t middle = t5_attention(&b);
    t5_perceptron(&b, b.decodes ? t5_cross(&b, builder, middle) : middle);
}
