/* SPDX-License-Identifier: MIT */
/* The tape in 8 bits (core/ops/tape.h): which values of a block are packed, and what backward
 * reads instead of them. */
#include "core/ops/tape.h"
#include "layers/nodes/node_kinds.h"

/* Kinds whose outputs are packed, and those that backward makes of what it has unpacked. */
static bool packs_kind(bp_node_kind kind)
{
    return kind == BP_NODE_NORM || kind == BP_NODE_DENSE || kind == BP_NODE_HEAD_NORM ||
           kind == BP_NODE_ROTARY || kind == BP_NODE_ATTENTION;
}

static bool derives_kind(bp_node_kind kind)
{
    return kind == BP_NODE_GELU || kind == BP_NODE_ACTIVATION || kind == BP_NODE_SWIGLU ||
           kind == BP_NODE_GATED || kind == BP_NODE_SCALE || kind == BP_NODE_ROW_GATE;
}

void block_masks_pack(const bp_builder *builder, const bp_block *block, block_masks *masks)
{
    const uint32_t inner = value_bit(block->values - 1) - 1;
    uint32_t exact = ~inner | value_bit(0) | masks->steps;
    if (builder->spec->tape != BP_TAPE_FP8 || builder->mode != BP_MODE_TRAIN) {
        return;
    }
    for (uint32_t v = 0; v < block->values; v++) {
        exact |= block->value[v].statistics ? value_bit(v) : 0;
    }
    for (uint32_t i = 0; i < block->nodes; i++) {
        const bp_node_kind kind = block->node[i].kind;
        const bool norm = kind == BP_NODE_NORM || kind == BP_NODE_HEAD_NORM;
        exact |= norm || kind == BP_NODE_ROUTE ? masks->ins[i] : 0;
        exact |= block->node[i].once ? masks->outs[i] : 0;
    }
    for (uint32_t i = 0; i < block->nodes; i++) {
        const uint32_t outs = masks->outs[i] & ~exact;
        const bool reduced = (masks->ins[i] & (masks->packs | masks->derives)) != 0;
        masks->packs |= packs_kind(block->node[i].kind) ? outs : 0;
        masks->derives |= derives_kind(block->node[i].kind) && reduced ? outs : 0;
    }
    masks->keepable &= ~masks->derives;
}

bp_ref block_packed_buffer(const block_run *run, uint32_t value, bp_class class_of)
{
    const bp_value *v = &run->block->value[value];
    const uint64_t rows = value_rows(v), width = value_width(v);
    return bp_build_buffer(run->builder, class_of, BP_U8, rows, bp_tape_bytes(1, width), v->name);
}

static bp_ref make_working(const block_run *run, uint32_t value)
{
    const bp_value *v = &run->block->value[value];
    return bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, bp_build_working(run->builder),
                           value_rows(v), value_width(v), v->name);
}

void block_pack(const block_run *run, uint32_t value, bp_ref packed, bp_ref x)
{
    const bp_value *v = &run->block->value[value];
    const bp_tape_pack_scalars scalars = {.rows = (int64_t)value_rows(v),
                                          .width = (int64_t)value_width(v)};
    const bp_tape_pack_operands operands = {.packed = packed, .x = x};
    bp_build_tape_pack(run->builder, &operands, &scalars);
}

void block_unpack(const block_run *run, uint32_t value, bp_ref x, bp_ref packed)
{
    const bp_value *v = &run->block->value[value];
    const bp_tape_unpack_scalars scalars = {.rows = (int64_t)value_rows(v),
                                            .width = (int64_t)value_width(v)};
    const bp_tape_unpack_operands operands = {.x = x, .packed = packed};
    bp_build_tape_unpack(run->builder, &operands, &scalars);
}

void block_round(const block_run *run, uint32_t value, bp_ref x)
{
    const bp_value *v = &run->block->value[value];
    const bp_tape_round_scalars scalars = {.rows = (int64_t)value_rows(v),
                                           .width = (int64_t)value_width(v)};
    const bp_tape_round_operands operands = {.x = x};
    bp_build_tape_round(run->builder, &operands, &scalars);
}

/* Puts what backward reads in the place of the values; `own` keeps what was there. */
static void exchange(block_run *run, bp_ref own[BP_BLOCK_VALUES])
{
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        own[v] = run->ref[v];
        run->ref[v] = bp_ref_present(run->read[v]) ? run->read[v] : run->ref[v];
    }
}

static void exchange_back(block_run *run, const bp_ref own[BP_BLOCK_VALUES])
{
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        run->ref[v] = own[v];
    }
}

/* Of a packed value: from its codes, or from itself, which is then no longer there. */
static void read_packed(block_run *run, uint32_t value)
{
    if (bp_ref_present(run->code[value])) {
        run->read[value] = make_working(run, value);
        block_unpack(run, value, run->read[value], run->code[value]);
        return;
    }
    run->read[value] = run->ref[value];
    run->ref[value] = BP_ABSENT;
    block_round(run, value, run->read[value]);
}

/* By the node's forward, of what backward reads of its inputs. */
static void read_derived(block_run *run, uint32_t index)
{
    bp_ref own[BP_BLOCK_VALUES];
    const bp_node *node = &run->block->node[index];
    run->read[node->out[0]] = make_working(run, node->out[0]);
    run->making = run->masks.outs[index];
    run->fused = 0;
    exchange(run, own);
    node_row_of(node)->forward(run, node);
    exchange_back(run, own);
}

void block_read(block_run *run, uint32_t target)
{
    uint32_t there = 0, coded = 0, exact = 0;
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        there |= bp_ref_present(run->read[v]) ? value_bit(v) : 0;
        coded |= bp_ref_present(run->code[v]) ? value_bit(v) : 0;
    }
    const uint32_t want = block_reduced(&run->masks, target, there, &exact);
    block_make(run, exact | (want & run->masks.packs & ~coded));
    run->builder->reduced = run->builder->reduced || (want & run->masks.packs) != 0;
    for (uint32_t v = 0; v < run->block->values; v++) {
        if ((want & run->masks.packs & value_bit(v)) != 0) {
            read_packed(run, v);
        }
    }
    for (uint32_t i = 0; i < run->block->nodes; i++) {
        if ((want & run->masks.derives & run->masks.outs[i]) != 0) {
            read_derived(run, i);
        }
    }
}

void block_go_back(block_run *run, uint32_t index)
{
    bp_ref own[BP_BLOCK_VALUES];
    const bp_node *node = &run->block->node[index];
    exchange(run, own);
    node_row_of(node)->backward(run, node);
    exchange_back(run, own);
}
