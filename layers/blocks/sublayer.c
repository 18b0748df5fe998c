/* SPDX-License-Identifier: MIT */
/* Sublayers as nodes. */
#include "layers/blocks/sublayer.h"

bp_block_list bp_list_begin(bp_block *block, uint64_t rows, uint64_t width)
{
    const bp_block_list list = {.block = block, .rows = rows, .width = width};
    block->values = 0;
    block->nodes = 0;
    block->ends = block->poor = false;
    (void)bp_list_value(&list, "input", "d_in", width);
    return list;
}

uint32_t bp_list_value(const bp_block_list *list, const char *name, const char *gradient,
                       uint64_t width)
{
    bp_block *block = list->block;
    block->value[block->values] =
        (bp_value){.name = name, .gradient = gradient, .shape = {list->rows, width}};
    return block->values++;
}

uint32_t bp_list_statistics(const bp_block_list *list, const char *name, uint64_t count)
{
    bp_block *block = list->block;
    block->value[block->values] =
        (bp_value){.name = name, .shape = {count, list->rows}, .statistics = true};
    return block->values++;
}

bp_node *bp_list_node(const bp_block_list *list, bp_node_kind kind, uint32_t in, uint32_t out)
{
    bp_node *node = &list->block->node[list->block->nodes++];
    *node = (bp_node){.kind = kind, .in = {in}, .out = {out}};
    return node;
}

uint32_t bp_list_norm(const bp_block_list *list, const bp_norm *norm, uint32_t in,
                      const char *const names[3])
{
    const uint32_t out = bp_list_value(list, names[0], names[1], norm->width);
    bp_node *node = bp_list_node(list, BP_NODE_NORM, in, out);
    node->out[1] = bp_list_statistics(list, names[2], bp_norm_statistics(norm));
    node->class_of = BP_RECOMPUTE_NORM;
    node->again = true;
    node->norm = *norm;
    return out;
}

uint32_t bp_list_dense(const bp_block_list *list, const bp_linear *product, uint32_t in,
                       const char *const names[2])
{
    const uint32_t out = bp_list_value(list, names[0], names[1], product->out);
    bp_node *node = bp_list_node(list, BP_NODE_DENSE, in, out);
    node->parts = 1;
    node->part[0] = *product;
    return out;
}

uint32_t bp_list_residual(const bp_block_list *list, const bp_residual *end, uint32_t in,
                          uint32_t stream, const char *const names[2])
{
    const uint32_t out = bp_list_value(list, names[0], names[1], list->width);
    bp_node *node = bp_list_node(list, BP_NODE_RESIDUAL, in, out);
    node->in[1] = stream;
    node->residual = *end;
    return out;
}

/* Queries, keys and values side by side: of one product or three. */
static uint32_t attention_products(const bp_block_list *list, uint32_t in, uint64_t pitch,
                                   const bp_attention_parts *parts, const char *const names[2])
{
    const uint32_t out = bp_list_value(list, names[0], names[1], pitch);
    bp_node *node = bp_list_node(list, BP_NODE_DENSE, in, out);
    uint64_t column = 0;
    node->parts = parts->products;
    for (uint32_t i = 0; i < parts->products; i++) {
        node->out[i] = out;
        node->column[i] = column;
        node->part[i] = parts->product[i];
        node->part[i].pitch = parts->products > 1 ? pitch : 0;
        column += parts->product[i].out;
    }
    return out;
}

/* What stands between the products and the turning, or after it. */
static uint32_t attention_heads(const bp_block_list *list, uint32_t raw, uint64_t pitch,
                                const bp_attention_parts *parts)
{
    const bp_head_norm *norm = parts->head_norm;
    if (norm != NULL) {
        const uint32_t statistics =
            bp_list_statistics(list, "heads.statistics", norm[0].heads + norm[1].heads);
        const uint32_t out = bp_list_value(list, "qkv", "d_qkv", pitch);
        bp_node *node = bp_list_node(list, BP_NODE_HEAD_NORM, raw, out);
        node->out[1] = statistics;
        node->class_of = BP_RECOMPUTE_NORM;
        node->head_norm[0] = norm[0];
        node->head_norm[1] = norm[1];
        return out;
    }
    if (parts->by_heads) {
        const uint32_t out = bp_list_value(list, "qkv", "d_qkv", pitch);
        bp_node *node = bp_list_node(list, BP_NODE_REGROUP, raw, out);
        node->heads = parts->attention.heads;
        node->parts = 3;
        return out;
    }
    return raw;
}

/* Queries, keys and values without the gates, which are another value, behind it. */
static uint32_t attention_gates(const bp_block_list *list, uint32_t raw, uint64_t pitch,
                                const bp_attention_parts *parts, const char *const names[2])
{
    const uint64_t width = parts->attention.head_width, heads = parts->attention.heads;
    const uint32_t out = bp_list_value(list, names[0], names[1], pitch);
    bp_node *node = bp_list_node(list, BP_NODE_SPLIT, raw, out);
    node->out[1] = bp_list_value(list, "gate", "d_gate", heads * width);
    node->parts = 2;
    node->split = (bp_row_parts){
        .groups = heads, .width = {width, width}, .to = {0, 1}, .tail = pitch - heads * width};
    return out;
}

/* What attention gives, by its gates. */
static uint32_t attention_gated(const bp_block_list *list, uint32_t y, uint32_t gate,
                                uint64_t width)
{
    const uint32_t out = bp_list_value(list, "gated", "d_gated", width);
    bp_node *node = bp_list_node(list, BP_NODE_ROW_GATE, y, out);
    node->in[1] = gate;
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    return out;
}

uint32_t bp_list_attention(const bp_block_list *list, uint32_t in, const bp_attention_parts *parts)
{
    static const char *const raw[2] = {"raw", "d_raw"}, *const qkv[2] = {"qkv", "d_qkv"};
    const char *const norm[3] = {"norm_1", parts->norm_gradient, "norm_1.statistics"};
    const bp_attention *attention = &parts->attention;
    const uint32_t kv_heads = attention->kv_heads != 0 ? attention->kv_heads : attention->heads;
    const uint64_t pitch = (attention->heads + 2 * (uint64_t)kv_heads) * attention->head_width;
    const uint64_t width = attention->heads * attention->head_width;
    const bool between = parts->by_heads || parts->head_norm != NULL;
    const uint32_t x = parts->norm != NULL ? bp_list_norm(list, parts->norm, in, norm) : in;
    uint32_t gate = 0, made;
    if (parts->gated) {
        static const char *const all[2] = {"qkv_gates", "d_qkv_gates"};
        made = attention_products(list, x, pitch + width, parts, all);
        made = attention_gates(list, made, pitch, parts, between ? raw : qkv);
        gate = made + 1;
    } else {
        made = attention_products(list, x, pitch, parts, between ? raw : qkv);
    }
    made = parts->norms_late ? made : attention_heads(list, made, pitch, parts);
    if (parts->rotary != NULL) {
        const uint32_t turned = bp_list_value(list, qkv[0], qkv[1], pitch);
        bp_node *node = bp_list_node(list, BP_NODE_ROTARY, made, turned);
        node->rotary = *parts->rotary;
        node->heads = (uint64_t)attention->heads + kv_heads;
        made = turned;
    }
    made = parts->norms_late ? attention_heads(list, made, pitch, parts) : made;
    const uint32_t y = bp_list_value(list, "attention", "d_attention", width);
    bp_node *node = bp_list_node(list, BP_NODE_ATTENTION, made, y);
    node->out[1] = bp_list_statistics(list, "attention.lse", attention->heads);
    node->class_of = BP_RECOMPUTE_ATTENTION;
    node->attention = *attention;
    return parts->gated ? attention_gated(list, y, gate, width) : y;
}

uint32_t bp_list_cross(const bp_block_list *list, const bp_cross *cross, uint32_t queries,
                       uint64_t rows)
{
    bp_block_list source = *list;
    source.rows = rows;
    const uint32_t y = bp_list_value(list, "cross", "d_cross", cross->heads * cross->head_width);
    bp_node *node = bp_list_node(list, BP_NODE_CROSS, queries, y);
    node->out[1] = bp_list_statistics(list, "cross.lse", cross->heads);
    node->out[2] = bp_list_value(&source, "source", NULL, bp_cross_width(cross));
    node->class_of = BP_RECOMPUTE_ATTENTION;
    node->cross = *cross;
    return y;
}

uint32_t bp_list_mlp(const bp_block_list *list, uint32_t in, uint32_t stream,
                     const bp_mlp_parts *parts)
{
    const uint32_t before = bp_list_dense(list, &parts->up, in, parts->names[0]);
    const uint32_t active =
        bp_list_value(list, parts->names[1][0], parts->names[1][1], parts->up.out);
    bp_node *node = bp_list_node(list, parts->function.kind, before, active);
    node->class_of = BP_RECOMPUTE_ACTIVATION;
    node->activation = parts->function.activation;
    return bp_list_residual(list, &parts->down, active, stream, parts->names[2]);
}
