/* SPDX-License-Identifier: MIT */
/* The end of a block in chunks of rows. */
#include "layers/blocks/block_chunks.h"

#include "layers/nodes/adapter.h"

static bool by_rows(bp_node_kind kind)
{
    switch (kind) {
    case BP_NODE_NORM:
    case BP_NODE_DENSE:
    case BP_NODE_RESIDUAL:
    case BP_NODE_GELU:
    case BP_NODE_ACTIVATION:
    case BP_NODE_SWIGLU:
    case BP_NODE_GATED:
    case BP_NODE_SCALE:
    case BP_NODE_ADD:
        return true;
    default:
        return false;
    }
}

/* The dimension that rows are in: statistics lie row behind row, one of each kind. */
static uint64_t *rows_of(bp_value *value)
{
    return &value->shape[value->statistics ? 1 : 0];
}

/* Whether all values have the input's rows, in the dimension where a chunk cuts them. */
static bool cuts(bp_block *block)
{
    const uint64_t rows = block->value[0].shape[0];
    bool all = true;
    for (uint32_t v = 0; v < block->values; v++) {
        const bool flat = block->value[v].shape[1] != 0 && block->value[v].shape[2] == 0;
        all = all && flat && *rows_of(&block->value[v]) == rows;
    }
    return all;
}

static uint32_t inputs_from(const block_masks *masks, uint32_t first)
{
    uint32_t ins = 0, outs = 0;
    for (uint32_t i = first; i < masks->nodes; i++) {
        ins |= masks->ins[i];
        outs |= masks->outs[i];
    }
    return ins & ~outs;
}

static uint32_t count_bits(uint32_t mask)
{
    uint32_t count = 0;
    for (; mask != 0; mask &= mask - 1) {
        count++;
    }
    return count;
}

void block_chunks_find(bp_block *block, uint64_t rows)
{
    block_masks masks;
    block->chunk_rows = 0;
    if (rows == 0 || block->ends || rows >= block->value[0].shape[0] || !cuts(block)) {
        return;
    }
    block_masks_of(block, &masks);
    uint32_t least = 2;
    for (uint32_t i = block->nodes; i-- > 0 && by_rows(block->node[i].kind);) {
        const uint32_t inputs = count_bits(inputs_from(&masks, i));
        if (inputs <= least && i + 1 < block->nodes) {
            block->chunk_first = i;
            block->chunk_rows = rows;
            least = inputs;
        }
    }
}

uint32_t block_chunks_inputs(const block_masks *masks, const bp_block *block)
{
    return block->chunk_rows > 0 ? inputs_from(masks, block->chunk_first) : 0;
}

/* What is acquired once for all chunks, so that a weight that lives elsewhere is brought once. */
static void hold_one(bp_builder *builder, uint32_t parameter, bool hold, bp_purpose purpose)
{
    if (hold) {
        (void)bp_build_acquire(builder, parameter, purpose);
    } else {
        bp_build_release(builder, parameter);
    }
}

static void hold_linear(bp_builder *builder, const bp_linear *layer, bool hold, bp_purpose purpose)
{
    hold_one(builder, layer->bias, hold, purpose);
    hold_one(builder, layer->weight, hold, purpose);
    if (bp_adapter_there(builder, layer->weight)) {
        const uint32_t first = builder->parameters[layer->weight].adapter;
        const uint32_t count = builder->spec->lora.magnitudes ? 3 : 2;
        for (uint32_t i = 0; i < count; i++) {
            hold_one(builder, first + i, hold, purpose);
        }
    }
}

static void hold_weights(const block_run *run, bool hold, bp_purpose purpose)
{
    for (uint32_t i = run->block->chunk_first; i < run->block->nodes; i++) {
        const bp_node *node = &run->block->node[i];
        for (uint32_t k = 0; node->kind == BP_NODE_DENSE && k < node->parts; k++) {
            hold_linear(run->builder, &node->part[k], hold, purpose);
        }
        if (node->kind == BP_NODE_RESIDUAL) {
            hold_linear(run->builder, &node->residual.projection, hold, purpose);
        }
        if (node->kind == BP_NODE_NORM) {
            hold_one(run->builder, node->norm.weight, hold, purpose);
            hold_one(run->builder, node->norm.bias, hold, purpose);
        }
    }
}

/* What a chunk changes of the block and the builder until it is over. */
static void set_rows(const block_run *run, uint64_t first, uint64_t rows)
{
    for (uint32_t v = 0; v < run->block->values; v++) {
        *rows_of(&run->block->value[v]) = rows;
    }
    run->builder->rows = rows;
    run->builder->row_first = first;
}

static bp_ref at_row(bp_ref ref, uint64_t row, const bp_value *value)
{
    return bp_ref_present(ref) ? bp_ref_at(ref, row * value->shape[1]) : ref;
}

/* Rows of the chunk that begins with row `first`: the last one may have fewer. */
static uint64_t block_chunk_rows(const bp_block *block, uint64_t first, uint64_t all)
{
    return all - first < block->chunk_rows ? all - first : block->chunk_rows;
}

/* A run over `rows` rows from `first` on, which finds of all values the chunks' inputs alone. */
static void chunk_begin(const block_run *run, block_run *part, uint64_t first, uint64_t rows)
{
    const uint32_t inputs = block_chunks_inputs(&run->masks, run->block);
    *part = *run;
    part->held = inputs;
    part->chunk = true;
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        const bool read = (inputs & value_bit(v)) != 0;
        const bp_value *value = &run->block->value[v];
        part->ref[v] = read ? at_row(run->ref[v], first, value) : BP_ABSENT;
        part->read[v] = read ? at_row(run->read[v], first, value) : BP_ABSENT;
        part->room[v] = part->code[v] = part->grad[v] = BP_ABSENT;
    }
    set_rows(run, first, rows);
}

void block_chunks_forward(block_run *run)
{
    block_run part;
    const bp_block *block = run->block;
    const uint32_t out = block->values - 1;
    const uint64_t all = run->builder->rows;
    run->ref[out] = block_make_buffer(run, out, out);
    hold_weights(run, true, BP_FOR_FORWARD);
    for (uint64_t first = 0; first < all; first += block->chunk_rows) {
        chunk_begin(run, &part, first, block_chunk_rows(block, first, all));
        part.room[out] = at_row(run->ref[out], first, &block->value[out]);
        block_make(&part, value_bit(out));
    }
    set_rows(run, 0, all);
    hold_weights(run, false, BP_FOR_FORWARD);
}

/* Where the gradients of the chunks' inputs will lie whole, from those of the first chunk: one lies
 * over the output's. */
static void place_gradients(block_run *run, const block_run *part, uint32_t inputs)
{
    const bp_ref over = run->grad[run->block->values - 1];
    bool taken = false;
    for (uint32_t v = 0; v < run->block->values; v++) {
        const bool there = (inputs & value_bit(v)) != 0 && bp_ref_present(part->grad[v]);
        if (there && part->grad[v].buffer == over.buffer) {
            run->grad[v] = over;
            taken = true;
        }
    }
    for (uint32_t v = 0; v < run->block->values; v++) {
        const bool there = (inputs & value_bit(v)) != 0 && bp_ref_present(part->grad[v]);
        if (there && !bp_ref_present(run->grad[v])) {
            run->grad[v] = taken ? node_make_gradient(run, v) : over;
            taken = true;
        }
    }
}

/* Copies the gradients of a chunk's inputs to where they lie whole, unless they were formed there.
 */
static void chunk_leave(const block_run *run, const block_run *part, uint32_t inputs,
                        uint64_t first)
{
    for (uint32_t v = 0; v < run->block->values; v++) {
        const bp_value *value = &run->block->value[v];
        if ((inputs & value_bit(v)) == 0 || !bp_ref_present(part->grad[v]) ||
            part->grad[v].buffer == run->grad[v].buffer) {
            continue;
        }
        const bp_copy_scalars count = {.count = (int64_t)count_of(value)};
        const bp_copy_operands copied = {.y = at_row(run->grad[v], first, value),
                                         .x = part->grad[v]};
        bp_build_copy(run->builder, &copied, &count);
    }
}

void block_chunks_backward(block_run *run, const uint32_t reads[BP_BLOCK_NODES])
{
    block_run part;
    const bp_block *block = run->block;
    const uint32_t out = block->values - 1;
    const uint64_t all = run->builder->rows;
    const uint32_t inputs = block_chunks_inputs(&run->masks, block);
    uint32_t inner = inputs;
    for (uint32_t i = block->chunk_first; i < block->nodes; i++) {
        inner |= run->masks.outs[i];
    }
    block_read(run, inputs);
    hold_weights(run, true, BP_FOR_BACKWARD);
    bp_build_chunks_begin(run->builder);
    for (uint64_t first = 0; first < all; first += block->chunk_rows) {
        const uint64_t rows = block_chunk_rows(block, first, all);
        chunk_begin(run, &part, first, rows);
        part.grad[out] = at_row(run->grad[out], first, &block->value[out]);
        for (uint32_t i = block->nodes; i-- > block->chunk_first;) {
            if (block_node_works(&part, i)) {
                block_read(&part, reads[i] & inner);
                block_go_back(&part, i);
            }
        }
        if (first == 0) {
            set_rows(run, 0, all);
            place_gradients(run, &part, inputs);
            set_rows(run, first, rows);
        }
        chunk_leave(run, &part, inputs, first);
    }
    set_rows(run, 0, all);
    bp_build_chunks_end(run->builder);
    hold_weights(run, false, BP_FOR_BACKWARD);
}
