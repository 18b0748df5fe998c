/* SPDX-License-Identifier: MIT */
/* Backward of a block, and the counted costs of its nodes. */
#include "core/ir/report.h"
#include "layers/blocks/block_streams.h"

bool block_node_works(const block_run *run, uint32_t index)
{
    const bp_node *node = &run->block->node[index];
    const node_row *row = node_row_of(node);
    return (run->masks.ins[index] & run->wanted) != 0 ||
           (row->trains != NULL && row->trains(run->builder, node));
}

/* Values that backward of a node reads. A ReLU's slope follows from its output as well: where its
 * input has to be made again it reads that, in whose place the input then lies. */
static uint32_t block_node_reads(const block_run *run, uint32_t index)
{
    const bp_node *node = &run->block->node[index];
    const uint32_t x = node->in[0], y = node->out[0];
    const bool there = bp_ref_present(run->ref[x]) || bp_ref_present(run->code[x]);
    const bool relu = node->kind == BP_NODE_ACTIVATION && (node->activation == BP_ACTIVATION_RELU ||
                                                           node->activation == BP_ACTIVATION_RELU6);
    const bool made = relu && !there && y + 1 < run->block->values && run->block->chunk_rows == 0;
    return made ? value_bit(y) : node_reads(run->builder, node);
}

/* Whether making `target` again takes, beside what is made, a value larger than the gradient that
 * node `index` reads: then it is made before the gradient that the node makes. */
static bool block_makes_more(const block_run *run, uint32_t index, uint32_t target)
{
    const uint64_t read = count_of(output_of(run->block, &run->block->node[index], 0));
    const block_need need = block_needs(&run->masks, run->held | value_bit(0), target, 0);
    bool more = false;
    for (uint32_t i = 0; i < run->block->nodes && run->block->poor; i++) {
        const bp_node *node = &run->block->node[i];
        const bool beside = (need.nodes & value_bit(i)) != 0 && node_row_of(node)->places == 0 &&
                            run->masks.maker[node->in[0]] < run->block->nodes;
        more = more || (beside && count_of(input_of(run->block, node, 0)) > read);
    }
    return more;
}

/* Sets up run->wanted and run->stored of a backward; reads[i]: values that have to be there for
 * the backward of node i, none where it has nothing to do. */
static void block_want(block_run *run, bool input_wanted, uint32_t reads[BP_BLOCK_NODES])
{
    run->wanted = input_wanted ? value_bit(0) : 0;
    run->stored = 0;
    for (uint32_t i = 0; i < run->block->nodes; i++) {
        const bool works = block_node_works(run, i);
        run->wanted |= works ? run->masks.outs[i] : 0;
        reads[i] = works ? block_node_reads(run, i) : 0;
        run->stored |= reads[i];
    }
    for (uint32_t i = run->block->nodes; i-- > 0;) {
        const bp_node *node = &run->block->node[i];
        const uint32_t maker = run->masks.maker[node->in[0]];
        const bool ahead = maker < run->block->nodes &&
                           (node_row_of(node)->ahead || block_makes_more(run, i, reads[maker]));
        reads[i] |= ahead && block_node_works(run, i) ? reads[maker] : 0;
    }
}

/* Forgets what node `index` has made and the one that goes back next does not read. */
static void block_forget(block_run *run, uint32_t index, const uint32_t reads[BP_BLOCK_NODES])
{
    const uint32_t keep = run->held | value_bit(0) | (index > 0 ? reads[index - 1] : 0);
    for (uint32_t v = 0; v < run->block->values && run->block->poor; v++) {
        run->ref[v] = (keep & value_bit(v)) != 0 ? run->ref[v] : BP_ABSENT;
    }
}

void bp_block_backward(bp_builder *builder, bp_stage_call *call, bp_block *block)
{
    block_run run;
    uint32_t reads[BP_BLOCK_NODES];
    if (call->input_away && block->chunk_until == 0 && !call->streams) {
        call->input = bp_build_bring_input(builder, call->input);
        call->input_away = false;
    }
    block_begin(&run, builder, block, call);
    run.away = call->input_away;
    call->d_input = BP_ABSENT;
    if (builder->status != BP_OK) {
        return;
    }
    run.back = true;
    block_want(&run, call->input_wanted, reads);
    if (call->streams) {
        block_streams_backward(&run, call, reads);
        return;
    }
    run.grad[block->values - 1] = call->d_output;
    if (block->chunk_rows > 0) {
        block_chunks_backward(&run, reads);
    }
    const uint32_t end = block->chunk_rows > 0 ? block->chunk_first : block->nodes;
    for (uint32_t i = end; i-- > block->chunk_until;) {
        if (block_node_works(&run, i)) {
            block_chunks_before(&run);
            block_read(&run, reads[i]);
            block_go_back(&run, i);
            block_forget(&run, i, reads);
        }
    }
    if (block->chunk_until > 0) {
        block_chunks_before_backward(&run, reads);
    }
    call->d_input = call->input_wanted ? run.grad[0] : BP_ABSENT;
}

/* Seconds of the ops emitted since the first `before` of them. */
static double seconds_since(const bp_builder *builder, uint32_t before, const bp_rates *rates)
{
    double seconds = 0.0;
    const uint32_t end = bp_graph_counts(builder->graph) ? before : builder->graph->used.ops;
    for (uint32_t i = before; i < end; i++) {
        seconds += bp_cost_seconds(bp_cost_op(builder->graph, &builder->graph->ops[i]), rates);
    }
    return seconds;
}

static double count_node(block_run *run, uint32_t index, uint32_t making, uint32_t fused,
                         const bp_rates *rates)
{
    const uint32_t before = run->builder->graph->used.ops;
    run->making = making;
    run->fused = fused;
    node_row_of(&run->block->node[index])->forward(run, &run->block->node[index]);
    return seconds_since(run->builder, before, rates);
}

/* Each node by itself; every value has a buffer. */
static void count_nodes(block_run *run, const bp_rates *rates, block_costs *costs)
{
    const bp_block *block = run->block;
    for (uint32_t i = 0; i < block->nodes; i++) {
        const bp_node *node = &block->node[i];
        costs->parts[i] = node->kind == BP_NODE_DENSE ? node->parts : 0;
        if (node->kind == BP_NODE_ROTARY) {
            /* the first one makes what all share */
            (void)count_node(run, i, run->masks.outs[i], 0, rates);
        }
        costs->seconds[i][0] = count_node(run, i, run->masks.outs[i], 0, rates);
        if (run->masks.fuses[i] < block->nodes) {
            costs->fused[i] = count_node(run, i, run->masks.outs[i], value_bit(i), rates);
        }
        for (uint32_t k = 0; k < costs->parts[i]; k++) {
            const uint32_t before = run->builder->graph->used.ops;
            costs->part_out[i][k] = node->out[k];
            bp_linear_forward(run->builder, &node->part[k], run->ref[node->in[0]], BP_ABSENT,
                              bp_ref_at(run->ref[node->out[k]], node->column[k]));
            costs->seconds[i][k] = seconds_since(run->builder, before, rates);
        }
    }
}

static void count_values(block_run *run, block_costs *costs)
{
    for (uint32_t v = 1; v < run->block->values; v++) {
        const bp_value *value = &run->block->value[v];
        run->ref[v] =
            bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, value_dtype(run->builder, value),
                            value_rows(value), value_width(value), value->name);
        if (run->builder->status == BP_OK && !bp_graph_counts(run->builder->graph)) {
            const bp_buffer *buffer = &run->builder->graph->buffers[run->ref[v].buffer];
            costs->bytes[v] = bp_report_rounded(run->builder->graph, buffer);
        }
    }
}

/* A packed value's bytes, and what packing takes beside the rest. */
static void count_packed(block_run *run, const bp_rates *rates, block_costs *costs)
{
    for (uint32_t v = 1; v < run->block->values; v++) {
        if ((run->masks.packs & value_bit(v)) == 0) {
            continue;
        }
        const bp_ref packed = block_packed_buffer(run, v, BP_CLASS_WORKSPACE);
        const uint32_t before = run->builder->graph->used.ops;
        block_pack(run, v, packed, run->ref[v]);
        block_unpack(run, v, run->ref[v], packed);
        costs->packed[v] = seconds_since(run->builder, before, rates);
        const uint32_t then = run->builder->graph->used.ops;
        block_round(run, v, run->ref[v]);
        costs->rounded[v] = seconds_since(run->builder, then, rates);
        if (run->builder->status == BP_OK && !bp_graph_counts(run->builder->graph)) {
            costs->bytes[v] = bp_report_rounded(run->builder->graph,
                                                &run->builder->graph->buffers[packed.buffer]);
        }
    }
}

/* Counts them by emitting each node once, for a call whose tape is empty; what is emitted is to be
 * forgotten by the caller. */
static void block_count(bp_builder *builder, const bp_stage_call *call, bp_block *block,
                        const bp_rates *rates, block_costs *costs)
{
    block_run run;
    *costs = (block_costs){.bytes = {0}};
    block_begin(&run, builder, block, call);
    if (builder->status != BP_OK) {
        return;
    }
    block_want(&run, call->input_wanted, costs->reads);
    costs->masks = run.masks;
    costs->once = bp_block_kept(block, BP_TAPE_SET);
    count_values(&run, costs);
    count_packed(&run, rates, costs);
    count_nodes(&run, rates, costs);
}

uint32_t bp_block_tapes(bp_builder *builder, const bp_stage_call *call, bp_block *block,
                        const bp_tape_request *request, uint32_t *variants)
{
    block_costs costs;
    block_kept sets[BLOCK_SETS_MOST];
    block_count(builder, call, block, &request->rates, &costs);
    if (builder->status != BP_OK || bp_graph_counts(builder->graph)) {
        return 0;
    }
    const uint32_t limit = request->limit < BLOCK_SETS_MOST ? request->limit : BLOCK_SETS_MOST;
    const uint32_t count = block_frontier(&costs, sets, limit);
    for (uint32_t i = 0; i < count; i++) {
        variants[i] = BP_TAPE_SET | sets[i].kept;
    }
    return count;
}

const char *bp_block_slot_name(const bp_block *block, uint32_t slot)
{
    return slot < block->values ? block->value[slot].name : "?";
}
