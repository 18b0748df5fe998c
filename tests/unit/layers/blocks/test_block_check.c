/* SPDX-License-Identifier: MIT */
/* Lists of nodes that are none are refused, each for what is wrong with it. */
#include "layers/blocks/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/gpt2.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

enum { INPUT, NORM, STATISTICS, BEFORE, ACTIVE, OUTPUT, VALUES };
enum { NODE_NORM, NODE_DENSE, NODE_GELU, NODE_RESIDUAL, NODES };

static const bp_linear up = {.weight = 2, .bias = 3, .in = 8, .out = 24};
static const bp_linear down = {.weight = 4, .bias = 5, .in = 24, .out = 8};

/* x + down(gelu(up(norm(x)))) */
static bp_block sound(void)
{
    return (bp_block){
        .value = {[INPUT] = {"input", "d_input", {6, 8}, false},
                  [NORM] = {"norm", "d_norm", {6, 8}, false},
                  [STATISTICS] = {"statistics", NULL, {2, 6}, true},
                  [BEFORE] = {"before", "d_before", {6, 24}, false},
                  [ACTIVE] = {"active", "d_active", {6, 24}, false},
                  [OUTPUT] = {"out", NULL, {6, 8}, false}},
        .values = VALUES,
        .node = {[NODE_NORM] = {.kind = BP_NODE_NORM,
                                .in = {INPUT},
                                .out = {NORM, STATISTICS},
                                .class_of = BP_RECOMPUTE_NORM,
                                .norm = {0, 1, 8, 1e-5, false}},
                 [NODE_DENSE] = {.kind = BP_NODE_DENSE,
                                 .in = {NORM},
                                 .out = {BEFORE},
                                 .parts = 1,
                                 .part = {up}},
                 [NODE_GELU] = {.kind = BP_NODE_GELU, .in = {BEFORE}, .out = {ACTIVE}},
                 [NODE_RESIDUAL] = {.kind = BP_NODE_RESIDUAL,
                                    .in = {ACTIVE, INPUT},
                                    .out = {OUTPUT},
                                    .residual = {down, {0, 0.0}}}},
        .nodes = NODES};
}

static void refused(const bp_block *block, const char *words)
{
    bp_error error = {0};
    assert_int_equal(bp_block_check(block, &error), BP_ERR_USAGE);
    if (strstr(error.text, words) == NULL) {
        fail_msg("refused for another reason: %s", error.text);
    }
    assert_string_equal(error.where, "block");
}

/* verifies layers-6.5ba0 */
static void test_a_sound_list_is_accepted(void **state)
{
    (void)state;
    bp_error error = {0};
    const bp_block block = sound();
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
}

/* verifies layers-6.5ba0 */
static void test_kinds_and_numbers(void **state)
{
    (void)state;
    bp_block block = sound();
    block.node[NODE_GELU].kind = BP_NODE_KIND_COUNT;
    refused(&block, "no known kind");
    block = sound();
    block.node[NODE_NORM].kind = BP_NODE_NONE;
    refused(&block, "no known kind");
    block = sound();
    block.nodes = 0;
    refused(&block, "needs nodes");
    block = sound();
    block.nodes = BP_BLOCK_NODES + 1;
    refused(&block, "needs nodes");
    block = sound();
    block.values = BP_BLOCK_VALUES + 1;
    refused(&block, "needs nodes");
    block = sound();
    block.node[NODE_DENSE].parts = 0;
    refused(&block, "one to three products");
    block = sound();
    block.node[NODE_DENSE].parts = BP_NODE_OUTPUTS + 1;
    refused(&block, "one to three products");
}

/* verifies layers-6.5ba0 */
static void test_chains(void **state)
{
    (void)state;
    bp_block block = sound();
    block.node[NODE_NORM].in[0] = OUTPUT;
    refused(&block, "no node before it makes");
    block = sound();
    block.node[NODE_RESIDUAL].in[1] = BP_BLOCK_VALUES + 9;
    refused(&block, "no node before it makes");
    block = sound();
    block.node[NODE_GELU].out[0] = BEFORE;
    refused(&block, "another node makes");
    block = sound();
    block.node[NODE_GELU].out[0] = INPUT;
    refused(&block, "another node makes");
    block = sound();
    block.node[NODE_GELU].out[0] = VALUES;
    refused(&block, "another node makes");
    block = sound();
    block.node[NODE_NORM].out[1] = NORM;
    refused(&block, "another node makes");
    block = sound();
    block.nodes = NODE_RESIDUAL;
    refused(&block, "no node makes the block's output");
    block = sound();
    block.node[NODE_RESIDUAL].out[0] = VALUES - 1;
    block.value[VALUES] = block.value[OUTPUT];
    block.values = VALUES + 1;
    refused(&block, "no node makes the block's output");
}

/* verifies layers-6.5ba0 */
static void test_shapes(void **state)
{
    (void)state;
    bp_block block = sound();
    block.value[BEFORE].shape[1] = 25;
    refused(&block, "shapes");
    block = sound();
    block.value[STATISTICS].shape[0] = 1;
    refused(&block, "shapes");
    block = sound();
    block.value[STATISTICS].statistics = false;
    refused(&block, "shapes");
    block = sound();
    block.value[ACTIVE].shape[0] = 7;
    refused(&block, "shapes");
    block = sound();
    block.node[NODE_DENSE].column[0] = 1;
    refused(&block, "shapes");
    block = sound();
    block.node[NODE_RESIDUAL].in[1] = ACTIVE;
    refused(&block, "shapes");
}

/* verifies layers-6.5ba0 */
static void test_nodes_with_effects(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_block block = sound();
    block.node[NODE_NORM].once = true;
    refused(&block, "runs once");
    block.node[NODE_NORM].class_of = 0;
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
    block.node[NODE_NORM].again = true;
    refused(&block, "runs once");
}

/* A layer of a GRU over three steps of two samples, and a loss. */
static bp_block piece_of_time(void)
{
    enum { BEFORE_PIECE, EMBEDDED, STATES, SAVED, AFTER_PIECE, PIECE_VALUES };
    const bp_linear input = {.in = 8, .out = 24}, state = {.in = 8, .out = 24};
    return (bp_block){.value = {[BEFORE_PIECE] = {"state", "d_state", {2, 8}, false},
                                [EMBEDDED] = {"embedded", "d_in", {6, 8}, false},
                                [STATES] = {"states", NULL, {8, 8}, false},
                                [SAVED] = {"gates", NULL, {6, 32}, false},
                                [AFTER_PIECE] = {"state", "d_state", {2, 8}, false}},
                      .values = PIECE_VALUES,
                      .node = {{.kind = BP_NODE_EMBEDDING,
                                .out = {EMBEDDED},
                                .cheap = true,
                                .embedding = {.width = 8}},
                               {.kind = BP_NODE_RECURRENT,
                                .in = {EMBEDDED, BEFORE_PIECE},
                                .out = {STATES, SAVED, AFTER_PIECE},
                                .stack = {{BP_CELL_GRU, input, state, 8, 2, 3}, 1}},
                               {.kind = BP_NODE_LOSS,
                                .in = {STATES, BEFORE_PIECE},
                                .head = {.width = 8},
                                .piece = {0, 3, 2},
                                .row = {2, 0}}},
                      .nodes = 3};
}

/* One dimension of one value wrong, or a row. */
/* verifies layers-6.5ba0 */
static void test_pieces_of_time(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_block block = piece_of_time();
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
    assert_int_equal(bp_block_kept(&block, 0), 0x0c);
    assert_int_equal(bp_block_kept(&block, BP_TAPE_SET | 0x06), 0x06);
    for (uint32_t v = 0; v < block.values; v++) {
        block = piece_of_time();
        block.value[v].shape[1]++;
        refused(&block, "shapes");
    }
    for (uint32_t i = 1; i < block.nodes; i++) {
        block = piece_of_time();
        block.node[i].row[0]++;
        refused(&block, "shapes");
    }
    block = piece_of_time();
    block.node[1].stack.layers = 2;
    refused(&block, "shapes");
    block = piece_of_time();
    block.node[0].once = true;
    refused(&block, "runs once");
}

/* A node of one kind behind a product that makes what it reads: x (6, 16) and, where it reads two,
 * a second of x's shape; y, and where the kind has them statistics. */
enum { KIND_INPUT, KIND_X, KIND_SECOND, KIND_Y, KIND_STATISTICS };

static bp_block of_kind(bp_node node, uint64_t y_width, uint64_t statistics)
{
    const bp_linear make = {.in = 8, .out = 16};
    const uint32_t outputs = statistics != 0 ? 2 : 1;
    bp_block block = {.value = {[KIND_INPUT] = {"input", "d_input", {6, 8}, false},
                                [KIND_X] = {"x", "d_x", {6, 16}, false},
                                [KIND_SECOND] = {"second", "d_second", {6, 16}, false},
                                [KIND_Y] = {"y", "d_y", {6, y_width}, false},
                                [KIND_STATISTICS] = {"statistics", NULL, {statistics, 6}, true}},
                      .values = KIND_Y + outputs,
                      .node = {{.kind = BP_NODE_DENSE,
                                .out = {KIND_X, KIND_SECOND},
                                .parts = 2,
                                .part = {make, make}}},
                      .nodes = 2};
    node.in[0] = KIND_X;
    node.in[1] = KIND_SECOND;
    node.out[0] = KIND_Y;
    node.out[1] = KIND_STATISTICS;
    block.node[1] = node;
    return block;
}

typedef struct kind_case {
    bp_node node;
    uint64_t y_width, statistics;
    bool any_width; /* of x and y together */
} kind_case;

static void one_value_wrong(const bp_block *good, const kind_case *k)
{
    bp_block block = *good;
    block.value[KIND_Y].shape[0]++;
    refused(&block, "shapes");
    block = *good;
    block.value[KIND_Y].shape[1]++;
    refused(&block, "shapes");
    /* x alone, with the product that makes it. */
    block = *good;
    block.value[KIND_X].shape[1]++;
    block.node[0].part[0].out++;
    refused(&block, "shapes");
    if (k->statistics != 0) {
        block = *good;
        block.value[KIND_STATISTICS].shape[0]++;
        refused(&block, "shapes");
        block = *good;
        block.value[KIND_STATISTICS].statistics = false;
        refused(&block, "shapes");
    }
}

/* More rows of the product's input and outputs, and at last of y and its statistics. */
static void more_rows(const bp_block *good, const kind_case *k)
{
    bp_error error = {0};
    bp_block block = *good;
    block.value[KIND_INPUT].shape[0]++;
    block.value[KIND_X].shape[0]++;
    block.value[KIND_SECOND].shape[0]++;
    refused(&block, "shapes");
    block.value[KIND_Y].shape[0]++;
    if (k->statistics != 0) {
        refused(&block, "shapes");
        block.value[KIND_STATISTICS].shape[1]++;
    }
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
}

/* x and y wider together, which the kind's own numbers may not allow. */
static void more_columns(const bp_block *good, const kind_case *k)
{
    bp_error error = {0};
    bp_block block = *good;
    block.value[KIND_X].shape[1] += 2;
    block.value[KIND_SECOND].shape[1] += 2;
    block.value[KIND_Y].shape[1] += k->y_width == 16 ? 2 : 1;
    block.node[0].part[0].out += 2;
    block.node[0].part[1].out += 2;
    assert_int_equal(bp_block_check(&block, &error), k->any_width ? BP_OK : BP_ERR_USAGE);
}

/* Each relation of shapes that a kind asks for, broken alone. */
/* verifies layers-6.5ba0 */
static void test_shapes_of_each_kind(void **state)
{
    (void)state;
    const bp_norm four = {0, 1, 4, 1e-5, false}, sixteen = {0, 1, 16, 1e-5, false};
    const kind_case kinds[] = {
        {{.kind = BP_NODE_NORM, .norm = sixteen}, 16, 2, false},
        {{.kind = BP_NODE_HEAD_NORM, .head_norm = {{four, 2, 16}, {four, 1, 16}}}, 16, 3, false},
        {{.kind = BP_NODE_ROTARY, .heads = 4, .rotary = {.width = 4}}, 16, 0, true},
        {{.kind = BP_NODE_ROTARY, .heads = 4, .rotary = {.width = 2, .apart = 4}}, 16, 0, true},
        {{.kind = BP_NODE_ATTENTION, .attention = {.heads = 2, .kv_heads = 1, .head_width = 4}},
         8,
         2,
         false},
        {{.kind = BP_NODE_SWIGLU}, 16, 0, true},
        {{.kind = BP_NODE_ADD}, 16, 0, true},
        {{.kind = BP_NODE_GATED}, 8, 0, true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bp_error error = {0};
        const bp_block good = of_kind(kinds[i].node, kinds[i].y_width, kinds[i].statistics);
        if (bp_block_check(&good, &error) != BP_OK) {
            fail_msg("kind %zu: %s", i, error.text);
        }
        one_value_wrong(&good, &kinds[i]);
        more_rows(&good, &kinds[i]);
        more_columns(&good, &kinds[i]);
    }
}

/* Numbers of a kind's own that do not go with its values. */
/* verifies layers-6.5ba0 */
static void test_numbers_of_a_kind(void **state)
{
    (void)state;
    const bp_norm four = {0, 1, 4, 1e-5, false};
    bp_block block =
        of_kind((bp_node){.kind = BP_NODE_ROTARY, .heads = 5, .rotary = {.width = 4}}, 16, 0);
    refused(&block, "shapes");
    block = of_kind(
        (bp_node){.kind = BP_NODE_HEAD_NORM, .head_norm = {{four, 2, 17}, {four, 1, 16}}}, 16, 3);
    refused(&block, "shapes");
    block = of_kind(
        (bp_node){.kind = BP_NODE_HEAD_NORM, .head_norm = {{four, 2, 16}, {four, 1, 17}}}, 16, 3);
    refused(&block, "shapes");
    block = of_kind((bp_node){.kind = BP_NODE_SWIGLU}, 16, 0);
    block.value[KIND_SECOND].shape[1]--;
    block.node[0].part[1].out--;
    refused(&block, "shapes");
    block = of_kind((bp_node){.kind = BP_NODE_ADD}, 16, 0);
    block.value[KIND_SECOND].shape[1]--;
    block.node[0].part[1].out--;
    refused(&block, "shapes");
    block = sound();
    block.value[INPUT].shape[0] = block.value[NORM].shape[0] = block.value[STATISTICS].shape[1] = 7;
    refused(&block, "shapes"); /* the product's rows are not its input's */
    block = sound();
    block.node[NODE_DENSE].part[0].in = 7;
    refused(&block, "shapes");
    block = sound();
    block.node[NODE_RESIDUAL].residual.projection.in = 23;
    refused(&block, "shapes");
    block = sound();
    block.node[NODE_RESIDUAL].residual.projection.out = 7;
    refused(&block, "shapes");
    block = sound();
    block.node[NODE_NORM].norm.width = 7;
    refused(&block, "shapes");
    block = sound();
    block.values = 1;
    refused(&block, "needs nodes");
}

/* Kinds that take pieces of time or parts of heads: a number of their own that does not go. */
/* verifies layers-6.5ba0 */
static void test_numbers_of_pieces_and_parts(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_block block = piece_of_time();
    block.node[1].stack.layers = 0;
    refused(&block, "shapes");
    block = piece_of_time();
    block.node[1].stack.first.input.in = 9;
    refused(&block, "shapes");
    block = piece_of_time();
    block.node[1].row[1] = 1;
    refused(&block, "shapes");
    block = piece_of_time();
    block.value[3].shape[0]++;
    refused(&block, "shapes");
    block = piece_of_time();
    block.value[0].shape[0]++;
    block.value[4].shape[0]++;
    refused(&block, "shapes");
    block = piece_of_time();
    block.node[2].head.width = 9;
    refused(&block, "shapes");
    block = of_kind((bp_node){.kind = BP_NODE_REGROUP, .heads = 4, .parts = 2}, 16, 0);
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
    block.node[1].parts = 0;
    refused(&block, "shapes");
    block.node[1].parts = 5;
    refused(&block, "shapes");
    block.node[1].parts = 2;
    block.value[KIND_Y].shape[0]++;
    refused(&block, "shapes");
}

/* The boundary of a loss, where nothing else reads it. */
/* verifies layers-6.5ba0 */
static void test_a_loss_reads_its_boundary(void **state)
{
    (void)state;
    bp_error error = {0};
    const bp_block good = {
        .value = {{"state", "d_state", {2, 8}, false}, {"embedded", "d_in", {6, 8}, false}},
        .values = 2,
        .node = {{.kind = BP_NODE_EMBEDDING, .out = {1}, .cheap = true, .embedding = {.width = 8}},
                 {.kind = BP_NODE_LOSS, .in = {1, 0}, .head = {.width = 8}, .piece = {0, 3, 2}}},
        .nodes = 2};
    bp_block block = good;
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
    block.value[0].shape[1] = 9;
    refused(&block, "shapes");
    block = good;
    block.node[1].row[1] = 1;
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
    block.node[1].row[1] = 2;
    refused(&block, "shapes");
    block = good;
    block.node[1].row[0] = 1;
    refused(&block, "shapes");
}

/* The first of two is wrong, the second is not; a stream of other rows than what joins it. */
/* verifies layers-6.5ba0 */
static void test_the_first_of_two(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_block block = sound();
    block.node[NODE_RESIDUAL].in[0] = OUTPUT;
    refused(&block, "no node before it makes");
    block = of_kind((bp_node){.kind = BP_NODE_ADD}, 16, 0);
    block.node[0].out[0] = KIND_INPUT;
    refused(&block, "another node makes");
    block = (bp_block){
        .value = {{"x", "d_x", {6, 24}, false},
                  {"in", "d_in", {6, 8}, false},
                  {"out", NULL, {6, 8}, false}},
        .values = 3,
        .node =
            {{.kind = BP_NODE_EMBEDDING, .out = {1}, .cheap = true, .embedding = {.width = 8}},
             {.kind = BP_NODE_RESIDUAL, .in = {0, 1}, .out = {2}, .residual = {down, {0, 0.0}}}},
        .nodes = 2};
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
    block.value[0].shape[0]++;
    refused(&block, "shapes");
    block = sound();
    block.value[BEFORE].shape[1] = 8;
    block.node[NODE_GELU] = (bp_node){.kind = BP_NODE_DROPOUT, .in = {INPUT}, .out = {ACTIVE}};
    block.value[ACTIVE].shape[1] = 8;
    block.node[NODE_DENSE].part[0].out = 8;
    block.node[NODE_RESIDUAL].residual.projection = (bp_linear){.in = 8, .out = 8};
    refused(&block, "changed in its place");
}

/* A node with effects is never computed again: every tape variant keeps what it made. */
/* verifies layers-5.febc */
static void test_effects_are_kept(void **state)
{
    (void)state;
    bp_block block = sound();
    assert_int_equal(bp_block_kept(&block, 0), 0x1e);
    assert_int_equal(bp_block_kept(&block, BP_RECOMPUTE_NORM), 0x1c);
    block.node[NODE_NORM].again = true;
    assert_int_equal(bp_block_kept(&block, BP_RECOMPUTE_NORM), 0x18);
    block.node[NODE_NORM].again = false;
    assert_int_equal(bp_block_kept(&block, BP_RECOMPUTE_ALL + 1), 0);
    assert_int_equal(bp_block_kept(&block, BP_TAPE_SET | 0x31), 0x10);
    block.node[NODE_NORM].class_of = 0;
    block.node[NODE_NORM].once = true;
    assert_int_equal(bp_block_kept(&block, BP_RECOMPUTE_NORM), 0x1e);
    assert_int_equal(bp_block_kept(&block, BP_RECOMPUTE_ALL + 1), 0x06);
    assert_int_equal(bp_block_kept(&block, BP_TAPE_SET | 0x10), 0x16);
}

/* What an op turns in its place cannot be read by another node. */
/* verifies layers-6.5ba0 */
static void test_steps_have_one_reader(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_block block = sound();
    block.node[NODE_GELU] = (bp_node){.kind = BP_NODE_DROPOUT, .in = {BEFORE}, .out = {ACTIVE}};
    assert_int_equal(bp_block_check(&block, &error), BP_OK);
    assert_int_equal(bp_block_kept(&block, 0), 0x16);
    block.node[NODE_RESIDUAL].in[0] = BEFORE;
    refused(&block, "read by others");
}

/* A model whose first stage is a list that is none. */
static void forward_unsound(bp_builder *builder, bp_stage_call *call)
{
    bp_block block = sound();
    block.node[NODE_GELU].in[0] = OUTPUT;
    bp_block_forward(builder, call, &block);
}

/* The plan fails with what is wrong with the list, so nothing of it ever runs. */
/* verifies layers-6.5ba0 */
static void test_a_plan_with_such_a_list_is_refused(void **state)
{
    (void)state;
    static bp_plan plan;
    bp_model model = bp_model_gpt2;
    bp_spec spec = model_fixture_spec();
    model.forward = forward_unsound;
    const uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
    spec.model = &model;
    assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_ERR_USAGE);
    assert_string_equal(plan.error.where, "block");
    assert_string_equal(plan.error.text, "a node reads a value that no node before it makes");
    assert_string_equal(plan.error.name, "gelu");
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_list_is_accepted),
        cmocka_unit_test(test_kinds_and_numbers),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_shapes_of_each_kind),
        cmocka_unit_test(test_numbers_of_a_kind),
        cmocka_unit_test(test_nodes_with_effects),
        cmocka_unit_test(test_pieces_of_time),
        cmocka_unit_test(test_numbers_of_pieces_and_parts),
        cmocka_unit_test(test_a_loss_reads_its_boundary),
        cmocka_unit_test(test_the_first_of_two),
        cmocka_unit_test(test_effects_are_kept),
        cmocka_unit_test(test_steps_have_one_reader),
        cmocka_unit_test(test_a_plan_with_such_a_list_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
