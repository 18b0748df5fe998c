/* SPDX-License-Identifier: MIT */
/* What a BERT block is made of. */
#include "layers/blocks/bert_block.h"

#include <math.h>

#include "layers/blocks/sublayer.h"
#include "layers/families/bert.h"
#include "layers/families/transformer.h"
#include "layers/nodes/activate.h"

uint32_t bp_bert_block_parameters(const bp_bert_config *own)
{
    return own->kind == BP_NOMIC ? (uint32_t)BP_NOMIC_BLOCK_PARAMETERS
                                 : (uint32_t)BP_BERT_BLOCK_PARAMETERS;
}

uint64_t bp_bert_head_width(const bp_bert_config *own)
{
    return own->head_width != 0 ? own->head_width : own->stack.width / own->stack.heads;
}

uint32_t bp_bert_block_first(const bp_model_config *config, uint32_t index)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return bp_bert_embeddings(config) + bp_bert_block_parameters(&own) * index;
}

uint32_t bp_bert_embeddings(const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return (own.types > 0 ? 4u : 3u) + (bp_bert_has_positions(&own) ? 1u : 0u) +
           (bp_bert_projects(&own) ? 2u : 0u) + bp_bert_distances(&own);
}

bool bp_bert_has_positions(const bp_bert_config *own)
{
    return own->kind != BP_NOMIC && own->kind != BP_DEBERTA;
}

uint32_t bp_bert_distances(const bp_bert_config *own)
{
    return own->buckets == 0 ? 0 : own->kind == BP_DEBERTA ? 3 : 1;
}

static bp_linear bert_block_dense(uint32_t weight, uint64_t in, uint64_t out)
{
    return (bp_linear){
        .weight = weight, .bias = weight + 1, .in = in, .out = out, .output_major = true};
}

static bp_linear nomic_dense(uint32_t weight, uint64_t in, uint64_t out)
{
    return (bp_linear){
        .weight = weight, .bias = BP_NO_PARAMETER, .in = in, .out = out, .output_major = true};
}

static bp_norm norm_of(const bp_transformer *own, uint32_t weight)
{
    return (bp_norm){weight, weight + 1, own->width, own->norm_epsilon, false};
}

/* A norm behind a sublayer, whose output stays: its statistics before the block's output, the last
 * value, else behind it. */
static uint32_t bert_norm(const bp_block_list *list, const bp_norm *norm, uint32_t in, bool last)
{
    uint32_t statistics =
        last ? bp_list_statistics(list, "norm_2.statistics", bp_norm_statistics(norm)) : 0;
    const uint32_t out =
        bp_list_value(list, last ? "out" : "norm_1", last ? NULL : "d_norm_1", norm->width);
    if (!last) {
        statistics = bp_list_statistics(list, "norm_1.statistics", bp_norm_statistics(norm));
    }
    bp_node *node = bp_list_node(list, BP_NODE_NORM, in, out);
    node->out[1] = statistics;
    node->class_of = BP_RECOMPUTE_NORM;
    node->norm = *norm;
    return out;
}

/* The gate's product and the other side by side, and what gates. */
static uint32_t nomic_gate(const bp_block_list *list, uint32_t x, uint32_t first, uint64_t inner)
{
    const uint64_t width = list->width;
    const uint32_t gate = bp_list_value(list, "gate", "d_gate", inner);
    const uint32_t up = bp_list_value(list, "up", "d_up", inner);
    bp_node *dense = bp_list_node(list, BP_NODE_DENSE, x, gate);
    dense->parts = 2;
    dense->part[0] = nomic_dense(first + BP_NOMIC_GATE, width, inner);
    dense->part[1] = nomic_dense(first + BP_NOMIC_UP, width, inner);
    dense->out[1] = up;
    const uint32_t active = bp_list_value(list, "active", "d_swiglu", inner);
    bp_node *node = bp_list_node(list, BP_NODE_SWIGLU, gate, active);
    node->in[1] = up;
    node->gate = BP_GATE_SILU;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    return active;
}

/* The same sites of dropout as of the others. */
static void nomic_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    static const char *const names[2] = {"sum_1", "d_sum_1"}, *const ends[2] = {"sum_2", "d_sum_2"};
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config bert = bp_bert_config_of(config);
    const bp_transformer own = bert.stack;
    const uint32_t index = call->stage - 1, site = 1 + 3 * index;
    const uint32_t first = bp_bert_block_first(config, index);
    const uint64_t width = own.width, inner = bp_transformer_inner(&own);
    const uint64_t head_width = bp_bert_head_width(&bert), wide = own.heads * head_width;
    const bp_norm norms[2] = {norm_of(&own, first + BP_NOMIC_NORM_1_WEIGHT),
                              norm_of(&own, first + BP_NOMIC_NORM_2_WEIGHT)};
    const bp_rotary rotary = {.width = head_width, .theta = bert.rope_theta, .apart = head_width};
    const bp_attention_parts attention = {
        .products = 1,
        .product = {nomic_dense(first + BP_NOMIC_QKV, width, 3 * wide)},
        .rotary = &rotary,
        .attention = {.heads = own.heads,
                      .head_width = head_width,
                      .bidirectional = true,
                      .padded = true,
                      .lengths = builder->input[BP_INPUT_LENGTHS],
                      .dropout = {site, own.attention_dropout}}};
    const bp_residual end = {nomic_dense(first + BP_NOMIC_O, wide, width),
                             {site + 1, own.residual_dropout}};
    const bp_residual down = {nomic_dense(first + BP_NOMIC_DOWN, inner, width),
                              {site + 2, own.residual_dropout}};
    const bp_block_list list = bp_list_begin(block, builder->rows, width);
    const uint32_t y = bp_list_attention(&list, 0, &attention);
    const uint32_t middle =
        bert_norm(&list, &norms[0], bp_list_residual(&list, &end, y, 0, names), false);
    const uint32_t active = nomic_gate(&list, middle, first, inner);
    (void)bert_norm(&list, &norms[1], bp_list_residual(&list, &down, active, middle, ends), true);
}

/* Distances in attention: a number for each head, or rows as queries and keys. */
static void bert_distances(const bp_model_config *config, uint32_t index, bp_attention *attention,
                           const bp_linear product[3])
{
    const bp_bert_config own = bp_bert_config_of(config);
    const uint32_t first = bp_bert_embeddings(config) - bp_bert_distances(&own);
    attention->buckets = own.buckets;
    attention->distance = BP_BERT_DISTANCE;
    attention->bias = first;
    if (own.kind == BP_DEBERTA) {
        attention->distance = own.distance > 0 ? (uint64_t)own.distance : config->positions;
        attention->scale = (double)(1.0f / sqrtf(3.0f * (float)attention->head_width));
        attention->positions = (bp_positions){
            .table = first,
            .query = product[0].weight,
            .key = product[1].weight,
            .width = own.stack.width,
            .epsilon = own.stack.norm_epsilon,
            .dropout = {3 + 3 * own.stack.layers + index, own.stack.residual_dropout}};
    }
}

/* Dropout sites: 0 is the embedding's; each block has three. */
static void bert_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    static const char *const names[2] = {"sum_1", "d_sum_1"};
    const bp_model_config *config = &builder->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    const uint32_t index = call->stage - 1, site = 1 + 3 * index;
    const uint32_t first = bp_bert_block_first(config, index);
    const bool drops = bp_bert_config_of(config).kind != BP_DISTILBERT;
    const uint64_t width = own.width, inner = bp_transformer_inner(&own);
    const bp_norm norms[2] = {norm_of(&own, first + BP_BERT_NORM_1_WEIGHT),
                              norm_of(&own, first + BP_BERT_NORM_2_WEIGHT)};
    bp_attention_parts attention = {
        .products = 3,
        .product = {bert_block_dense(first + BP_BERT_Q_WEIGHT, width, width),
                    bert_block_dense(first + BP_BERT_K_WEIGHT, width, width),
                    bert_block_dense(first + BP_BERT_V_WEIGHT, width, width)},
        .attention = {.heads = own.heads,
                      .head_width = width / own.heads,
                      .bidirectional = true,
                      .padded = true,
                      .lengths = builder->input[BP_INPUT_LENGTHS],
                      .dropout = {site, own.attention_dropout}}};
    bert_distances(config, index, &attention.attention, attention.product);
    const bp_residual end = {bert_block_dense(first + BP_BERT_O_WEIGHT, width, width),
                             {site + 1, drops ? own.residual_dropout : 0.0}};
    const bp_mlp_parts mlp = {.up = bert_block_dense(first + BP_BERT_UP_WEIGHT, width, inner),
                              .function = bp_hidden_act_node(own.activation, 0, 0),
                              .down = {bert_block_dense(first + BP_BERT_DOWN_WEIGHT, inner, width),
                                       {site + 2, own.residual_dropout}},
                              .names = {{"up", "d_up"}, {"gelu", "d_gelu"}, {"sum_2", "d_sum_2"}}};
    const bp_block_list list = bp_list_begin(block, builder->rows, width);
    const uint32_t y = bp_list_attention(&list, 0, &attention);
    const uint32_t sum = bp_list_residual(&list, &end, y, 0, names);
    const uint32_t middle = bert_norm(&list, &norms[0], sum, false);
    (void)bert_norm(&list, &norms[1], bp_list_mlp(&list, middle, middle, &mlp), true);
}

void bp_bert_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    if (bp_bert_config_of(&builder->spec->config).kind == BP_NOMIC) {
        nomic_describe(builder, call, block);
    } else {
        bert_describe(builder, call, block);
    }
}
