/* SPDX-License-Identifier: MIT */
/* What a block packs, derives, keeps and where it lies, on lists of nodes that show one rule each;
 * and a list that is counted in tables that are too small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/search/measure.h"
#include "layers/families/gpt2.h"
#include "layers/nodes/node_kinds.h"
#include "tests/fixtures/model_fixture.h"

static uint32_t add_value(bp_block *block, bool statistics)
{
    bp_value *value = &block->value[block->values];
    *value = (bp_value){"value", "gradient", {statistics ? 2 : 4, statistics ? 4 : 8}, statistics};
    return block->values++;
}

/* A node that reads one value and makes `outputs`, the second of them statistics. */
static uint32_t add_node(bp_block *block, bp_node_kind kind, uint32_t in, uint32_t outputs)
{
    bp_node node = {.kind = kind, .in = {in, in}, .parts = kind == BP_NODE_DENSE ? outputs : 1};
    for (uint32_t k = 0; k < outputs; k++) {
        node.out[k] = add_value(block, kind == BP_NODE_NORM && k == 1);
    }
    block->node[block->nodes++] = node;
    return node.out[0];
}

/* Of what is packed activations, gates and scales are made again; of what is not, they are kept. */
static void what_is_derived(void **state)
{
    (void)state;
    static const bp_node_kind kinds[] = {BP_NODE_ACTIVATION, BP_NODE_SCALE, BP_NODE_DROPOUT};
    bp_spec spec = model_fixture_spec();
    spec.tape = BP_TAPE_FP8;
    bp_builder builder = {.spec = &spec, .mode = BP_MODE_TRAIN};
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t packed = 0; packed < 2; packed++) {
            bp_block block = {.values = 0};
            block_masks masks;
            const uint32_t input = add_value(&block, false);
            const uint32_t product = add_node(&block, BP_NODE_DENSE, input, 1);
            const uint32_t made = add_node(&block, kinds[k], packed != 0 ? product : input, 1);
            (void)add_node(&block, BP_NODE_ACTIVATION, made, 1);
            block_masks_of(&block, &masks);
            block_masks_pack(&builder, &block, &masks);
            const bool step = k == 2 && packed != 0; /* in the place of what it reads */
            assert_true(((masks.packs & value_bit(product)) != 0) == !step);
            assert_true(((masks.derives & value_bit(made)) != 0) == (packed != 0 && k < 2));
        }
    }
    bp_block block = {.values = 0};
    block_masks masks;
    (void)add_node(&block, BP_NODE_DENSE, add_value(&block, false), 1);
    (void)add_node(&block, BP_NODE_ACTIVATION, 1, 1);
    builder.mode = BP_MODE_EVAL; /* has no tape */
    block_masks_of(&block, &masks);
    block_masks_pack(&builder, &block, &masks);
    assert_int_equal(masks.packs, 0);
}

/* A value lies where its last reader's will, if that is wanted: a node may run for another reason.
 */
static void places_of_what_is_wanted(void **state)
{
    (void)state;
    bp_block block = {.values = 0};
    bp_spec spec = model_fixture_spec();
    bp_builder builder = {.spec = &spec};
    block_run run = {.builder = &builder, .block = &block};
    uint32_t taker[BP_BLOCK_VALUES];
    const uint32_t product = add_node(&block, BP_NODE_DENSE, add_value(&block, false), 1);
    const uint32_t active = add_node(&block, BP_NODE_ACTIVATION, product, 1);
    (void)add_node(&block, BP_NODE_DENSE, active, 1);
    block_masks_of(&block, &run.masks);
    block_need need = block_needs(&run.masks, value_bit(0), value_bit(active), 0);
    block_positions(&run, &need, value_bit(active), taker);
    assert_int_equal(taker[product], active);
    need = block_needs(&run.masks, value_bit(0), value_bit(product), value_bit(1));
    assert_true((need.nodes & value_bit(1)) != 0 && (need.values & value_bit(active)) == 0);
    block_positions(&run, &need, value_bit(product), taker);
    assert_int_equal(taker[product], product);
}

/* In backward a value's place is given up where it is never made again: its one reader's output
 * stays, or becomes what stays, and no backward reads the value. */
/* verifies layers-57.d913 */
static void places_of_what_is_made_again(void **state)
{
    (void)state;
    bp_block block = {.values = 0};
    bp_spec spec = model_fixture_spec();
    bp_builder builder = {.spec = &spec};
    block_run run = {.builder = &builder, .block = &block, .back = true};
    uint32_t taker[BP_BLOCK_VALUES];
    const uint32_t product = add_node(&block, BP_NODE_DENSE, add_value(&block, false), 1);
    const uint32_t norm = add_node(&block, BP_NODE_ACTIVATION, product, 1);
    const uint32_t active = add_node(&block, BP_NODE_ACTIVATION, norm, 1);
    (void)add_node(&block, BP_NODE_DENSE, active, 1);
    block.node[1].again = true;
    for (uint32_t form = 0; form < 6; form++) {
        run.stored = form == 1 ? value_bit(product) : form == 2 ? value_bit(norm) : 0;
        run.chunk = form == 3;
        block.chunk_rows = form == 4 ? 1 : 0;
        block.node[3].in[0] = form == 5 ? norm : active; /* then it has two readers */
        block_masks_of(&block, &run.masks);
        const uint32_t target = value_bit(active);
        const block_need need = block_needs(&run.masks, value_bit(0), target, 0);
        block_positions(&run, &need, target, taker);
        assert_int_equal(taker[norm], form >= 2 ? norm : active);
        assert_int_equal(taker[product], form == 0 ? active : product);
    }
    /* the norm itself is what the pass is for */
    block.node[3].in[0] = active;
    run.chunk = false;
    block.chunk_rows = 0;
    block_masks_of(&block, &run.masks);
    const block_need need = block_needs(&run.masks, value_bit(0), value_bit(norm), 0);
    block_positions(&run, &need, value_bit(norm), taker);
    assert_int_equal(taker[product], norm);
}

/* Where choices would be too many, a norm's statistics go with its output, and the outputs of
 * several products stay apart. */
/* verifies layers-50.eba0 */
static void choices_that_go_together(void **state)
{
    (void)state;
    static block_costs costs;
    static block_kept sets[BLOCK_SETS_MOST];
    bp_block block = {.values = 0};
    uint32_t norms = 0, apart = 0, at = add_value(&block, false);
    for (uint32_t i = 0; i < 5; i++) {
        at = add_node(&block, BP_NODE_NORM, at, 2);
        norms |= value_bit(at);
    }
    const uint32_t first = add_node(&block, BP_NODE_DENSE, at, 2);
    const uint32_t second = add_node(&block, BP_NODE_DENSE, first, 2);
    (void)add_node(&block, BP_NODE_ACTIVATION, second, 1);
    costs = (block_costs){.once = 0};
    block_masks_of(&block, &costs.masks);
    for (uint32_t i = 0; i < block.nodes; i++) {
        costs.reads[i] = costs.masks.ins[i] | costs.masks.outs[i];
        costs.reads[i] &= ~value_bit(block.values - 1);
        costs.parts[i] = block.node[i].kind == BP_NODE_DENSE ? 2 : 0;
        for (uint32_t k = 0; k < BP_NODE_OUTPUTS; k++) {
            costs.part_out[i][k] = block.node[i].out[k];
            costs.seconds[i][k] = 1.0 + (double)((i * 5 + k * 3) % 7);
        }
    }
    for (uint32_t v = 1; v < block.values; v++) {
        costs.bytes[v] = 64 * (1 + v * 7 % 5);
    }
    const uint32_t count = block_frontier(&costs, sets, BLOCK_SETS_MOST);
    assert_true(count > 2);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t kept = sets[i].kept;
        assert_int_equal(kept & norms, (kept >> 1) & norms); /* statistics come behind */
        for (uint32_t p = first; p <= second; p += 2) {
            apart += (kept >> p & 1) != (kept >> (p + 1) & 1);
        }
    }
    assert_true(apart > 0);
}

static uint32_t too_few; /* tables that were too small */

/* The sets of a block, counted in tables with room for fewer and fewer buffers. */
static uint32_t tapes_in_few_rows(bp_builder *builder, const bp_stage_call *call,
                                  const bp_tape_request *request, uint32_t *variants)
{
    bp_graph *graph = builder->graph;
    const bp_graph_limits limit = graph->limit, used = graph->used;
    for (uint32_t room = 0; !bp_graph_counts(graph) && room < 64; room++) {
        graph->limit.buffers =
            used.buffers + room < limit.buffers ? used.buffers + room : limit.buffers;
        const uint32_t found = bp_model_gpt2.tapes(builder, call, request, variants);
        assert_true((found == 0) == (builder->status != BP_OK));
        too_few += found == 0 ? 1 : 0;
        builder->status = BP_OK;
        graph->used = used;
    }
    graph->limit = limit;
    return bp_model_gpt2.tapes(builder, call, request, variants);
}

static void blocks_counted_in_few_rows(void **state)
{
    (void)state;
    static const bp_tape_storage tapes[] = {BP_TAPE_WORKING, BP_TAPE_FP8};
    const bp_rates rates = BP_RATES_DEFAULT;
    bp_model model = bp_model_gpt2;
    model.tapes = tapes_in_few_rows;
    for (uint32_t i = 0; i < 2; i++) {
        bp_chain_stage stages[8];
        bp_spec spec = model_fixture_spec();
        bp_arena arena;
        bp_error error = {.code = BP_OK};
        spec.model = &model;
        spec.tape = tapes[i];
        uint64_t bytes = bp_measure_scratch(&spec);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        bp_arena_init(&arena, memory, (size_t)bytes);
        assert_int_equal(bp_measure_count(&spec, &arena, stages, &bytes, &error), BP_OK);
        free(memory);
        memory = malloc((size_t)bytes);
        assert_non_null(memory);
        bp_arena_init(&arena, memory, (size_t)bytes);
        too_few = 0;
        assert_int_equal(bp_measure_stages(&spec, &rates, &arena, stages, &error), BP_OK);
        assert_true(too_few > 10);
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_derived),
        cmocka_unit_test(places_of_what_is_wanted),
        cmocka_unit_test(places_of_what_is_made_again),
        cmocka_unit_test(choices_that_go_together),
        cmocka_unit_test(blocks_counted_in_few_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
