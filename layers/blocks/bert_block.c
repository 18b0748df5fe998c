/* SPDX-License-Identifier: MIT */
/* What a BERT block is made of. */
#include "layers/blocks/bert_block.h"

#include <string.h>

#include "layers/nodes/activate.h"

#include "layers/families/bert.h"
#include "layers/blocks/block.h"
#include "layers/families/transformer.h"

/* What a block computes, in the order in which it does. */
enum {
    INPUT,
    QKV,
    ATTENTION, /* before its projection */
    LSE,
    SUM_1,  /* what the first norm reads */
    NORM_1, /* the stream between the sublayers */
    STATISTICS_1,
    BEFORE, /* GELU */
    ACTIVE,
    SUM_2, /* what the second norm reads */
    STATISTICS_2,
    OUTPUT,
    VALUES
};

uint32_t bp_bert_block_first(uint32_t before, uint32_t index)
{
    return before + BP_BERT_BLOCK_PARAMETERS * index;
}

uint32_t bp_bert_embeddings(const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return (own.types > 0 ? 5u : 4u) + (bp_bert_projects(&own) ? 2u : 0u);
}

static bp_linear bert_block_dense(uint32_t weight, uint64_t in, uint64_t out, uint64_t pitch)
{
    return (bp_linear){.weight = weight,
                       .bias = weight + 1,
                       .in = in,
                       .out = out,
                       .output_major = true,
                       .pitch = pitch};
}

static bp_norm norm_of(const bp_transformer *own, uint32_t weight)
{
    return (bp_norm){weight, weight + 1, own->width, own->norm_epsilon, false};
}

static void bert_block_describe_values(const bp_transformer *own, uint64_t rows, bp_block *block)
{
    const uint64_t width = own->width, inner = bp_transformer_inner(own);
    const bp_value values[VALUES] = {
        [INPUT] = {"input", "d_in", {rows, width}, false},
        [QKV] = {"qkv", "d_qkv", {rows, 3 * width}, false},
        [ATTENTION] = {"attention", "d_attention", {rows, width}, false},
        [LSE] = {"attention.lse", NULL, {own->heads, rows}, true},
        [SUM_1] = {"sum_1", "d_sum_1", {rows, width}, false},
        [NORM_1] = {"norm_1", "d_norm_1", {rows, width}, false},
        [STATISTICS_1] = {"norm_1.statistics", NULL, {2, rows}, true},
        [BEFORE] = {"up", "d_up", {rows, inner}, false},
        [ACTIVE] = {"gelu", "d_gelu", {rows, inner}, false},
        [SUM_2] = {"sum_2", "d_sum_2", {rows, width}, false},
        [STATISTICS_2] = {"norm_2.statistics", NULL, {2, rows}, true},
        [OUTPUT] = {"out", NULL, {rows, width}, false}};
    memcpy(block->value, values, sizeof values);
    block->values = VALUES;
    block->ends = false;
}

/* From the block's input to the first norm's output. Dropout sites: 0 is the
 * embedding's; each block has three. */
static uint32_t describe_attention(const bp_builder *builder, const bp_transformer *own,
                                   uint32_t index, bp_node *to)
{
    const uint32_t before = bp_bert_embeddings(&builder->spec->config);
    const uint32_t first = bp_bert_block_first(before, index), site = 1 + 3 * index;
    const bool drops = bp_bert_config_of(&builder->spec->config).kind != BP_DISTILBERT;
    const uint64_t width = own->width;
    const bp_node nodes[] = {
        {.kind = BP_NODE_DENSE,
         .in = {INPUT},
         .out = {QKV, QKV, QKV},
         .parts = 3,
         .part = {bert_block_dense(first + BP_BERT_Q_WEIGHT, width, width, 3 * width),
                  bert_block_dense(first + BP_BERT_K_WEIGHT, width, width, 3 * width),
                  bert_block_dense(first + BP_BERT_V_WEIGHT, width, width, 3 * width)},
         .column = {0, width, 2 * width}},
        {.kind = BP_NODE_ATTENTION,
         .in = {QKV},
         .out = {ATTENTION, LSE},
         .class_of = BP_RECOMPUTE_ATTENTION,
         .attention = {.heads = own->heads,
                       .head_width = width / own->heads,
                       .bidirectional = true,
                       .padded = true,
                       .lengths = builder->input[BP_INPUT_LENGTHS],
                       .dropout = {site, own->attention_dropout}}},
        {.kind = BP_NODE_RESIDUAL,
         .in = {ATTENTION, INPUT},
         .out = {SUM_1},
         .residual = {bert_block_dense(first + BP_BERT_O_WEIGHT, width, width, 0),
                      {site + 1, drops ? own->residual_dropout : 0.0}}},
        {.kind = BP_NODE_NORM,
         .in = {SUM_1},
         .out = {NORM_1, STATISTICS_1},
         .class_of = BP_RECOMPUTE_NORM,
         .norm = norm_of(own, first + BP_BERT_NORM_1_WEIGHT)}};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

/* From there to the block's output. */
static uint32_t describe_mlp(const bp_builder *builder, const bp_transformer *own, uint32_t index,
                             bp_node *to)
{
    const uint32_t before = bp_bert_embeddings(&builder->spec->config);
    const uint32_t first = bp_bert_block_first(before, index), site = 1 + 3 * index;
    const uint64_t width = own->width, inner = bp_transformer_inner(own);
    const bp_node nodes[] = {
        {.kind = BP_NODE_DENSE,
         .in = {NORM_1},
         .out = {BEFORE},
         .parts = 1,
         .part = {bert_block_dense(first + BP_BERT_UP_WEIGHT, width, inner, 0)}},
        bp_hidden_act_node(own->activation, BEFORE, ACTIVE),
        {.kind = BP_NODE_RESIDUAL,
         .in = {ACTIVE, NORM_1},
         .out = {SUM_2},
         .residual = {bert_block_dense(first + BP_BERT_DOWN_WEIGHT, inner, width, 0),
                      {site + 2, own->residual_dropout}}},
        {.kind = BP_NODE_NORM,
         .in = {SUM_2},
         .out = {OUTPUT, STATISTICS_2},
         .class_of = BP_RECOMPUTE_NORM,
         .norm = norm_of(own, first + BP_BERT_NORM_2_WEIGHT)}};
    memcpy(to, nodes, sizeof nodes);
    return sizeof nodes / sizeof nodes[0];
}

void bp_bert_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    bert_block_describe_values(&own, builder->rows, block);
    block->nodes = describe_attention(builder, &own, call->stage - 1, block->node);
    block->nodes += describe_mlp(builder, &own, call->stage - 1, block->node + block->nodes);
}
