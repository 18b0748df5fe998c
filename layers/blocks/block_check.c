/* SPDX-License-Identifier: MIT */
/* Whether a list of nodes is one. */
#include "layers/nodes/node_kinds.h"

static const char where[] = "block";

static bp_status node_refuse(const bp_block *block, uint32_t index, bp_error *error,
                             const char *text)
{
    const bp_node *node = &block->node[index];
    const bool known = node->kind > BP_NODE_NONE && node->kind < BP_NODE_KIND_COUNT;
    return bp_error_numbers(error, BP_ERR_USAGE, where, text,
                            known ? node_row_of(node)->name : "node", index, block->nodes);
}

static bool inputs_made(const bp_node *node, uint32_t made)
{
    bool all = true;
    for (uint32_t k = 0; k < node_row_of(node)->inputs; k++) {
        all = all && node->in[k] < BP_BLOCK_VALUES && (made & value_bit(node->in[k])) != 0;
    }
    return all;
}

/* Outputs that no other node makes; *outs is what the node makes. Products may share one. */
static bool outputs_new(const bp_block *block, const bp_node *node, uint32_t made, uint32_t *outs)
{
    bool all = true;
    *outs = 0;
    for (uint32_t k = 0; k < node_outputs(node); k++) {
        const uint32_t v = node->out[k];
        const bool inside = v > 0 && v < block->values;
        const uint32_t bit = inside ? value_bit(v) : 0;
        const bool twice = node->kind != BP_NODE_DENSE && (*outs & bit) != 0;
        all = all && inside && (made & bit) == 0 && !twice;
        *outs |= bit;
    }
    return all;
}

static bp_status node_check(const bp_block *block, uint32_t index, uint32_t *made, bp_error *error)
{
    const bp_node *node = &block->node[index];
    uint32_t outs = 0;
    if (node->kind <= BP_NODE_NONE || node->kind >= BP_NODE_KIND_COUNT) {
        return node_refuse(block, index, error, "a node of a block is of no known kind");
    }
    if (node->kind == BP_NODE_DENSE && (node->parts == 0 || node->parts > BP_NODE_OUTPUTS)) {
        return node_refuse(block, index, error, "a dense node has one to three products");
    }
    if (node->kind == BP_NODE_SPLIT && (node->parts == 0 || node->parts > BP_ROW_PARTS_OUTPUTS)) {
        return node_refuse(block, index, error, "a node of parts of rows has one or two outputs");
    }
    if (!inputs_made(node, *made)) {
        return node_refuse(block, index, error,
                           "a node reads a value that no node before it makes");
    }
    if (!outputs_new(block, node, *made, &outs)) {
        return node_refuse(block, index, error,
                           "a node makes a value that the block lacks or another node makes");
    }
    if (!node_row_of(node)->fits(block, node)) {
        return node_refuse(block, index, error, "the shapes of a node's values do not go with it");
    }
    if (node->once && (node->again || node->cheap || node->class_of != 0)) {
        return node_refuse(block, index, error, "a node that runs once cannot be recomputed");
    }
    *made |= outs;
    return BP_OK;
}

/* What an op turns in place can have no other reader. */
static bp_status steps_check(const bp_block *block, bp_error *error)
{
    block_masks masks;
    block_masks_of(block, &masks);
    for (uint32_t i = 0; i < block->nodes; i++) {
        const bp_node *node = &block->node[i];
        const bool step = node_row_of(node)->must;
        if (step && (node->in[0] == 0 || masks.readers[node->in[0]] != value_bit(i))) {
            return node_refuse(block, i, error,
                               "a value that is changed in its place is read by others");
        }
    }
    return BP_OK;
}

bp_status bp_block_check(const bp_block *block, bp_error *error)
{
    if (block->values < 2 || block->values > BP_BLOCK_VALUES || block->nodes == 0 ||
        block->nodes > BP_BLOCK_NODES) {
        return bp_error_numbers(error, BP_ERR_USAGE, where, "a block needs nodes and an output",
                                "nodes", block->nodes, 1);
    }
    uint32_t made = value_bit(0);
    for (uint32_t i = 0; i < block->nodes; i++) {
        BP_TRY(node_check(block, i, &made, error));
    }
    for (uint32_t v = 1; v < block->values; v++) {
        if ((made & value_bit(v)) == 0) {
            const char *name = block->value[v].name;
            return bp_error_numbers(error, BP_ERR_USAGE, where,
                                    v + 1 == block->values ? "no node makes the block's output"
                                                           : "no node makes a value of the block",
                                    name != NULL ? name : "value", v, block->values);
        }
    }
    return steps_check(block, error);
}
