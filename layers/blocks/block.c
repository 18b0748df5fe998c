/* SPDX-License-Identifier: MIT */
/* Forward of a block, and the making of values that backward lacks: the same pass. */
#include "layers/blocks/block_streams.h"

static uint32_t find_present(const bp_ref *refs)
{
    uint32_t mask = 0;
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        mask |= bp_ref_present(refs[v]) ? value_bit(v) : 0;
    }
    return mask;
}

void block_begin(block_run *run, bp_builder *builder, bp_block *block, const bp_stage_call *call)
{
    *run = (block_run){.builder = builder, .block = block, .deltas = BP_ABSENT};
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        run->ref[v] = call->tape[v];
        run->room[v] = BP_ABSENT;
        run->code[v] = BP_ABSENT;
        run->read[v] = BP_ABSENT;
        run->grad[v] = BP_ABSENT;
    }
    run->ref[0] = call->input;
    if (builder->status == BP_OK) {
        builder->status = bp_block_check(block, builder->graph->error);
    }
    if (builder->status == BP_OK) {
        block_masks_of(block, &run->masks);
        block_masks_pack(builder, block, &run->masks);
    }
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        const bool packed = (run->masks.packs & value_bit(v)) != 0;
        run->code[v] = packed ? run->ref[v] : BP_ABSENT;
        run->ref[v] = packed ? BP_ABSENT : run->ref[v];
    }
    run->held = find_present(run->ref);
}

/* What a buffer counts as: what backward makes again is tape, but for what it only passes on. */
static bp_class class_of(const block_run *run, uint32_t value)
{
    const bool output = value + 1 == run->block->values;
    if (output) {
        return run->back ? BP_CLASS_WORKSPACE : run->builder->output_class;
    }
    const bool passed = run->back && (run->masks.transient & value_bit(value)) != 0;
    return (run->stored & value_bit(value)) != 0 && !passed ? BP_CLASS_TAPE : BP_CLASS_WORKSPACE;
}

bp_ref block_make_buffer(const block_run *run, uint32_t first, uint32_t last)
{
    const bp_value *value = &run->block->value[last];
    const bool output = last + 1 == run->block->values;
    const bool stored = (run->stored & value_bit(last)) != 0;
    bool own = stored || output;
    for (uint32_t i = 0; i < run->block->nodes && first != last; i++) {
        const bool reads = (run->masks.ins[i] & value_bit(first)) != 0;
        own = own || (reads && !node_row_of(&run->block->node[i])->first_name);
    }
    const char *name = own ? value->name : run->block->value[first].name;
    return bp_build_buffer(run->builder, class_of(run, last), value_dtype(run->builder, value),
                           value_rows(value), value_width(value),
                           run->back && output ? "again" : name);
}

/* Gives a value its place: a new buffer, or the one that what it lies in has been given. */
static void place(block_run *run, uint32_t value, const uint32_t taker[BP_BLOCK_VALUES])
{
    const uint32_t last = taker[value];
    if (bp_ref_present(run->ref[value])) {
        return;
    }
    if (!bp_ref_present(run->room[last])) {
        run->room[last] = block_make_buffer(run, value, last);
    }
    run->ref[value] = run->room[last];
}

/* Whether the pass makes an output of a node that runs: what is wanted, the first one in any case,
 * and the others where they are read later. What backward only passes on leaves nothing behind. */
static bool makes_output(const block_run *run, const bp_node *node, uint32_t index, uint32_t target,
                         const block_need *need)
{
    const uint32_t bit = value_bit(node->out[index]);
    if (node->kind == BP_NODE_DENSE || index == 0 || (need->values & bit) != 0) {
        return node->kind != BP_NODE_DENSE || (need->values & bit) != 0;
    }
    const uint32_t outs = value_bit(node->out[0]) | bit;
    const bool passes = run->back && node->again && (outs & target) == 0;
    return !bp_ref_present(run->ref[node->out[index]]) && (run->stored & bit) != 0 && !passes;
}

/* Packs those of the values just made that the tape takes, before their place is another's. */
static void pack_made(block_run *run, uint32_t made)
{
    for (uint32_t v = 0; v < run->block->values; v++) {
        if ((run->packing & made & value_bit(v)) != 0) {
            run->code[v] = block_packed_buffer(run, v, BP_CLASS_TAPE);
            block_pack(run, v, run->code[v], run->ref[v]);
        }
    }
}

static void run_node(block_run *run, uint32_t index, uint32_t target, const block_need *need,
                     const uint32_t taker[BP_BLOCK_VALUES])
{
    const bp_node *node = &run->block->node[index];
    run->making = 0;
    for (uint32_t k = 0; k < node_outputs(node); k++) {
        if (makes_output(run, node, k, target, need)) {
            run->making |= value_bit(node->out[k]);
            place(run, node->out[k], taker);
        }
    }
    const uint32_t x = node->in[0];
    const bool fused = (run->fused & value_bit(index)) != 0;
    if (fused && ((run->stored | run->packing) & value_bit(x)) != 0) {
        place(run, x, taker);
    }
    node_row_of(node)->forward(run, node);
    pack_made(run, run->making | (fused ? value_bit(x) : 0));
}

void block_make(block_run *run, uint32_t target)
{
    const uint32_t have = find_present(run->ref);
    const uint32_t acts = run->back ? 0 : run->masks.acts;
    const block_need need = block_needs(&run->masks, have, target, acts);
    uint32_t taker[BP_BLOCK_VALUES], made = 0;
    block_positions(run, &need, target, taker);
    run->fused = block_fusions(&run->masks, &need);
    for (uint32_t i = 0; i < run->block->nodes; i++) {
        bool waits = false;
        for (uint32_t k = i + 1; k < run->block->nodes; k++) {
            waits = waits || ((run->fused & value_bit(k)) != 0 && run->masks.fuses[k] == i);
        }
        if ((need.nodes & value_bit(i)) != 0 && !waits) {
            run_node(run, i, target, &need, taker);
            made |= run->masks.outs[i];
        }
    }
    for (uint32_t v = 0; v < run->block->values; v++) {
        const uint32_t bit = value_bit(v);
        const bool passed = (run->masks.transient & bit) != 0 && (have & bit) == 0 &&
                            (run->masks.outs[run->masks.maker[v]] & target) == 0;
        const bool overwritten = (made & bit) != 0 && taker[v] != v;
        const bool gone = run->back && (passed || overwritten);
        run->ref[v] = gone ? BP_ABSENT : run->ref[v];
        run->room[v] = BP_ABSENT;
    }
}

/* Leaves the values of `keep` in the call's tape. */
static void block_leave(const block_run *run, bp_stage_call *call)
{
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        const bool kept = (run->stored & value_bit(v)) != 0;
        call->tape[v] = kept ? run->ref[v] : run->code[v];
    }
}

static void run_forward(bp_builder *builder, bp_stage_call *call, bp_block *block, uint32_t variant)
{
    block_run run;
    for (uint32_t v = 0; v < BP_TAPE_MAX; v++) {
        call->tape[v] = BP_ABSENT;
    }
    block_begin(&run, builder, block, call);
    if (builder->status != BP_OK) {
        return;
    }
    if (call->streams) {
        block_streams_forward(&run, call);
        return;
    }
    const uint32_t kept =
        builder->mode == BP_MODE_TRAIN ? block_kept_of(block, &run.masks, variant) : 0;
    run.stored = kept & ~run.masks.packs;
    run.packing = kept & run.masks.packs;
    const uint32_t inputs = block_chunks_inputs(&run.masks, block);
    block_chunks_before(&run);
    block_make(&run, inputs != 0 ? inputs : block->ends ? 0 : value_bit(block->values - 1));
    if (inputs != 0) {
        block_chunks_forward(&run);
    }
    call->output = run.ref[block->values - 1];
    block_leave(&run, call);
}

void bp_block_forward(bp_builder *builder, bp_stage_call *call, bp_block *block)
{
    run_forward(builder, call, block, call->variant);
}

void bp_block_decode(bp_builder *builder, bp_stage_call *call, bp_block *block)
{
    run_forward(builder, call, block, BP_TAPE_SET);
}

bp_block *bp_block_family_list(bp_builder *builder, const bp_stage_call *call)
{
    const bp_block_family *family = builder->spec->model->self;
    bp_block *block = bp_block_room(builder);
    family->list(builder, call, block);
    block_chunks_find(builder, block);
    return block;
}

uint32_t bp_block_family_tapes(bp_builder *builder, const bp_stage_call *call,
                               const bp_tape_request *request, uint32_t *variants)
{
    return bp_block_tapes(builder, call, bp_block_family_list(builder, call), request, variants);
}

const char *bp_block_family_slot_name(const bp_spec *spec, uint32_t stage, uint32_t slot)
{
    const bp_block_family *family = spec->model->self;
    const bp_builder builder = {.spec = spec, .rows = 1};
    const bp_stage_call call = {.stage = stage > 0 ? stage : 1}; /* a run may begin before them */
    bp_block block;
    family->list(&builder, &call, &block);
    return bp_block_slot_name(&block, slot);
}
