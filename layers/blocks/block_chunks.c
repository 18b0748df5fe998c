/* SPDX-License-Identifier: MIT */
/* The end of a block in chunks of rows. */
#include "layers/blocks/chunk_run.h"

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

/* Where chunks begin among the last nodes alone. */
static void chunks_find_last(bp_block *block, const block_masks *masks, uint64_t rows)
{
    uint32_t least = 2;
    for (uint32_t i = block->nodes; i-- > 0 && by_rows(block->node[i].kind);) {
        const uint32_t inputs = count_bits(inputs_from(masks, i));
        if (inputs <= least && i + 1 < block->nodes) {
            block->chunk_first = i;
            block->chunk_rows = rows;
            least = inputs;
        }
    }
}

/* Whether a node before attention may run over chunks of the builder's rows. Texts turned by two
 * tables (longrope) are looked up by sample. */
static bool before_by_rows(const bp_builder *builder, const bp_node *node)
{
    return by_rows(node->kind) || node->kind == BP_NODE_HEAD_NORM ||
           node->kind == BP_NODE_REGROUP ||
           (node->kind == BP_NODE_ROTARY && !bp_rotary_has_far(builder, &node->rotary));
}

/* The attention node between two runs of nodes that work row by row, the latter of which reads what
 * it makes and the block's input alone, and so begins right behind it; 0: there is none. Values
 * packed in 8 bits are read as they were packed, all rows at once. */
static uint32_t chunks_find_between(const bp_builder *builder, const bp_block *block,
                                    const block_masks *masks)
{
    uint32_t at = 0;
    while (at < block->nodes && before_by_rows(builder, &block->node[at])) {
        at++;
    }
    if (at == 0 || at + 1 >= block->nodes || block->node[at].kind != BP_NODE_ATTENTION ||
        builder->mode == BP_MODE_DECODE || builder->spec->tape == BP_TAPE_FP8) {
        return 0;
    }
    uint32_t before = 0;
    for (uint32_t i = 0; i < at; i++) {
        before |= masks->outs[i];
    }
    for (uint32_t i = at + 1; i < block->nodes; i++) {
        if (!by_rows(block->node[i].kind) || (masks->ins[i] & before) != 0) {
            return 0;
        }
    }
    const uint32_t joins = value_bit(0) | value_bit(block->node[at].out[0]);
    return inputs_from(masks, at + 1) == joins ? at : 0;
}

void block_chunks_find(const bp_builder *builder, bp_block *block)
{
    block_masks masks;
    const uint64_t rows = builder->spec->sequence_chunk;
    block->chunk_rows = 0;
    block->chunk_until = 0;
    if (rows == 0 || block->ends || rows >= block->value[0].shape[0] || !cuts(block)) {
        return;
    }
    block_masks_of(block, &masks);
    chunks_find_last(block, &masks, rows);
    block->chunk_until = chunks_find_between(builder, block, &masks);
    if (block->chunk_until > 0) {
        block->chunk_first = block->chunk_until + 1;
        block->chunk_rows = rows;
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

void chunk_hold(const block_run *run, const uint32_t range[2], bool hold, bp_purpose purpose)
{
    for (uint32_t i = range[0]; i < range[1]; i++) {
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
        for (uint32_t k = 0; node->kind == BP_NODE_HEAD_NORM && k < 2; k++) {
            hold_one(run->builder, node->head_norm[k].norm.weight, hold, purpose);
        }
    }
}

void chunk_rows_set(const block_run *run, uint64_t first, uint64_t rows)
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

uint64_t block_chunk_rows(const bp_block *block, uint64_t first, uint64_t all)
{
    return all - first < block->chunk_rows ? all - first : block->chunk_rows;
}

void chunk_begin(const block_run *run, block_run *part, uint32_t inputs, uint64_t first,
                 uint64_t rows)
{
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
    if (run->away && (inputs & value_bit(0)) != 0) {
        part->ref[0] = bp_build_bring_rows_of(run->builder, run->ref[0], first, rows,
                                              value_width(&run->block->value[0]));
    }
    chunk_rows_set(run, first, rows);
}

/* Makes `target`, whose place is made here, from the values of `inputs` by the nodes of a range. */
static void make_by_chunks(block_run *run, uint32_t target, uint32_t inputs,
                           const uint32_t range[2])
{
    block_run part;
    const bp_block *block = run->block;
    const uint64_t all = run->builder->rows;
    const bp_purpose purpose = run->back ? BP_FOR_BACKWARD : BP_FOR_FORWARD;
    run->ref[target] = block_make_buffer(run, target, target);
    chunk_hold(run, range, true, purpose);
    for (uint64_t first = 0; first < all; first += block->chunk_rows) {
        chunk_begin(run, &part, inputs, first, block_chunk_rows(block, first, all));
        part.room[target] = at_row(run->ref[target], first, &block->value[target]);
        block_make(&part, value_bit(target));
    }
    chunk_rows_set(run, 0, all);
    chunk_hold(run, range, false, purpose);
}

void block_chunks_forward(block_run *run)
{
    const bp_block *block = run->block;
    const uint32_t range[2] = {block->chunk_first, block->nodes};
    make_by_chunks(run, block->values - 1, block_chunks_inputs(&run->masks, block), range);
}

void block_chunks_before(block_run *run)
{
    const bp_block *block = run->block;
    const uint32_t range[2] = {0, block->chunk_until};
    const uint32_t target = block->node[block->chunk_until].in[0];
    if (block->chunk_until > 0 && !bp_ref_present(run->ref[target])) {
        make_by_chunks(run, target, value_bit(0), range);
    }
}

/* Where the gradients of the chunks' inputs will lie whole, from those of the first chunk: one that
 * is as wide lies over the output's. Attention's output may have another width than the block's. */
static void place_gradients(block_run *run, const block_run *part, uint32_t inputs)
{
    const bp_ref over = run->grad[run->block->values - 1];
    const uint64_t width = value_width(&run->block->value[run->block->values - 1]);
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
            const bool fits = value_width(&run->block->value[v]) == width;
            run->grad[v] = taken || !fits ? node_make_gradient(run, v) : over;
            taken = taken || fits;
        }
    }
}

/* The gradient of attention's output takes the place of that, of which only its products with it
 * are read later, where attention's backward can have them. What forward kept stays as it is: with
 * gradients that are released a second backward may read it. */
static void place_over(block_run *run)
{
    const bp_node *node = &run->block->node[run->block->chunk_until];
    const bool kept = (run->held & (value_bit(node->in[0]) | value_bit(node->out[0]))) != 0;
    if (run->block->chunk_until > 0 && block_node_works(run, run->block->chunk_until) && !kept &&
        bp_attention_may_be_over(run->builder, &node->attention)) {
        run->deltas = bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, BP_F32, run->builder->rows,
                                      node->attention.heads, "deltas");
        run->grad[node->out[0]] = run->ref[node->out[0]];
    }
}

static void chunk_deltas(const block_run *run, const block_run *part, uint64_t first)
{
    const bp_node *node = &run->block->node[run->block->chunk_until];
    const bp_attention *attention = &node->attention;
    bp_attention_deltas(run->builder, attention, run->builder->rows, part->grad[node->out[0]],
                        part->ref[node->out[0]], bp_ref_at(run->deltas, first * attention->heads));
}

/* Copies the gradients of a chunk's inputs to where they lie whole, unless they were formed there.
 */
static void chunk_leave(const block_run *run, const block_run *part, uint32_t inputs,
                        uint64_t first)
{
    for (uint32_t v = 0; v < run->block->values; v++) {
        const bp_value *value = &run->block->value[v];
        if ((inputs & value_bit(v)) == 0 || !bp_ref_present(part->grad[v]) ||
            !bp_ref_present(run->grad[v]) || part->grad[v].buffer == run->grad[v].buffer) {
            continue;
        }
        const bp_copy_scalars count = {.count = (int64_t)count_of(value)};
        const bp_copy_operands copied = {.y = at_row(run->grad[v], first, value),
                                         .x = part->grad[v]};
        bp_build_copy(run->builder, &copied, &count);
    }
}

void chunk_go_back(block_run *part, const uint32_t range[2], uint32_t inner,
                   const uint32_t reads[BP_BLOCK_NODES])
{
    for (uint32_t i = range[1]; i-- > range[0];) {
        if (block_node_works(part, i)) {
            block_read(part, reads[i] & inner);
            block_go_back(part, i);
        }
    }
}

uint32_t chunk_made_by(const block_run *run, const uint32_t range[2])
{
    uint32_t made = 0;
    for (uint32_t i = range[0]; i < range[1]; i++) {
        made |= run->masks.outs[i];
    }
    return made;
}

void block_chunks_backward(block_run *run, const uint32_t reads[BP_BLOCK_NODES])
{
    block_run part;
    const bp_block *block = run->block;
    const uint32_t out = block->values - 1, range[2] = {block->chunk_first, block->nodes};
    const uint64_t all = run->builder->rows;
    const uint32_t inputs = block_chunks_inputs(&run->masks, block);
    if (block->chunk_until > 0 &&
        !bp_ref_present(run->ref[block->node[block->chunk_until].out[0]])) {
        block_chunks_before(run);
    }
    block_read(run, inputs);
    place_over(run);
    chunk_hold(run, range, true, BP_FOR_BACKWARD);
    bp_build_chunks_begin(run->builder);
    for (uint64_t first = 0; first < all; first += block->chunk_rows) {
        const uint64_t rows = block_chunk_rows(block, first, all);
        chunk_begin(run, &part, inputs, first, rows);
        part.grad[out] = at_row(run->grad[out], first, &block->value[out]);
        chunk_go_back(&part, range, inputs | chunk_made_by(run, range), reads);
        if (first == 0) {
            chunk_rows_set(run, 0, all);
            place_gradients(run, &part, inputs);
            chunk_rows_set(run, first, rows);
        }
        if (bp_ref_present(run->deltas)) {
            chunk_deltas(run, &part, first);
        }
        chunk_leave(run, &part, inputs, first);
    }
    chunk_rows_set(run, 0, all);
    bp_build_chunks_end(run->builder);
    chunk_hold(run, range, false, BP_FOR_BACKWARD);
}

void block_chunks_before_backward(block_run *run, const uint32_t reads[BP_BLOCK_NODES])
{
    block_run part;
    const bp_block *block = run->block;
    const uint32_t range[2] = {0, block->chunk_until}, x = block->node[block->chunk_until].in[0];
    const uint64_t all = run->builder->rows;
    if (!bp_ref_present(run->grad[x])) {
        return;
    }
    chunk_hold(run, range, true, BP_FOR_BACKWARD);
    bp_build_chunks_begin(run->builder);
    for (uint64_t first = 0; first < all; first += block->chunk_rows) {
        chunk_begin(run, &part, value_bit(0), first, block_chunk_rows(block, first, all));
        part.grad[x] = at_row(run->grad[x], first, &block->value[x]);
        part.grad[0] = at_row(run->grad[0], first, &block->value[0]);
        chunk_go_back(&part, range, value_bit(0) | chunk_made_by(run, range), reads);
        chunk_leave(run, &part, value_bit(0), first);
    }
    chunk_rows_set(run, 0, all);
    bp_build_chunks_end(run->builder);
    chunk_hold(run, range, false, BP_FOR_BACKWARD);
}
