/* SPDX-License-Identifier: MIT */
/* Refusals that no program of the tree provokes: calls of a fabric that its group does not fit,
 * names of no buffer and no adapter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/adapter.h"
#include "core/ir/device.h"
#include "core/ir/fabric.h"

/* Groups 0 and 3 have two members, group 7 none, and there is no other. */
static uint32_t two_members(const void *context, uint32_t group)
{
    (void)context;
    return group == 0 || group == 3 ? 2 : 0;
}

static uint32_t second(const void *context)
{
    (void)context;
    return 1;
}

static const bp_fabric fabric = {.name = "two", .members = two_members, .rank = second};

static void test_calls_that_a_group_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        bool fabric;
        bp_kernel kernel;
        int64_t group, ranks, root;
        bp_status status;
    } rows[] = {
        {true, BP_KERNEL_gelu_forward, 0, 5, 0, BP_OK},
        {true, BP_KERNEL_all_gather_begin, 0, 2, 0, BP_OK},
        {true, BP_KERNEL_all_gather_begin, 0, 3, 0, BP_ERR_USAGE},
        {true, BP_KERNEL_all_gather_begin, 7, 0, 0, BP_ERR_USAGE},
        {true, BP_KERNEL_all_gather_begin, -1, 2, 0, BP_ERR_USAGE},
        {true, BP_KERNEL_all_gather_begin, (int64_t)1 << 32, 2, 0, BP_ERR_USAGE},
        {false, BP_KERNEL_all_gather_begin, 0, 1, 0, BP_OK},
        {false, BP_KERNEL_all_gather_begin, 0, 2, 0, BP_ERR_USAGE},
        {false, BP_KERNEL_all_gather_begin, 1, 1, 0, BP_ERR_USAGE},
        {true, BP_KERNEL_gather_pieces_begin, 0, 2, 1, BP_OK},
        {true, BP_KERNEL_gather_pieces_begin, 0, 2, 0, BP_ERR_USAGE}, /* of another rank */
        {true, BP_KERNEL_exchange_pieces_begin, 0, 3, 1, BP_ERR_USAGE},
        {true, BP_KERNEL_all_gather_begin, 3, 2, 0, BP_OK},
        {true, BP_KERNEL_gather_pieces_begin, 3, 2, 1, BP_ERR_USAGE}, /* not of all ranks */
        {false, BP_KERNEL_exchange_pieces_begin, 0, 1, 0, BP_OK},
        {true, BP_KERNEL_broadcast_begin, 0, 2, 1, BP_OK},
        {true, BP_KERNEL_broadcast_begin, 0, 2, 2, BP_ERR_USAGE},
        {true, BP_KERNEL_broadcast_begin, 0, 2, -1, BP_ERR_USAGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_all_gather_begin_scalars gather = {.group = rows[i].group, .ranks = rows[i].ranks};
        bp_gather_pieces_begin_scalars pieces = {
            .group = rows[i].group, .ranks = rows[i].ranks, .member = rows[i].root};
        bp_broadcast_begin_scalars broadcast = {
            .group = rows[i].group, .ranks = rows[i].ranks, .root = rows[i].root};
        bp_regions places = {.fabric = rows[i].fabric ? &fabric : NULL};
        bp_linked_op op = {.kernel = rows[i].kernel, .tuples = 1, .scalars = &gather};
        bp_error error = {.code = BP_OK};
        op.scalars = rows[i].kernel == BP_KERNEL_broadcast_begin ? (void *)&broadcast : &gather;
        op.scalars = bp_fabric_has_pieces(rows[i].kernel) ? (void *)&pieces : op.scalars;
        if (bp_fabric_check(&places, &op, &error) != rows[i].status ||
            error.code != rows[i].status) {
            fail_msg("row %zu: %s", i, error.text);
        }
    }
}

/* verifies program-15.274c */
static void test_names_of_nothing(void **state)
{
    (void)state;
    static const bp_buffer buffers[2] = {{.bytes = 0}, {.name = 3}};
    static const char names[] = "no\0one";
    bp_graph graph = {
        .names = (char *)names, .buffers = (bp_buffer *)buffers, .used = {.buffers = 2}};
    assert_string_equal(bp_graph_name(&graph, 1), "one");
    assert_string_equal(bp_graph_name(&graph, 2), "-");
    assert_string_equal(bp_graph_name(&graph, BP_NO_BUFFER), "-");
}

/* Names are whole in memory that was used before, and the next one begins behind the last one's
 * end. */
/* verifies program-15.274c */
static void test_names_in_used_memory(void **state)
{
    (void)state;
    static uint64_t memory[512];
    const bp_graph_limits limit = {3, 1, 1, 1, 64};
    bp_error error = {.code = BP_OK};
    bp_graph graph;
    bp_arena arena;
    uint32_t index[3] = {0};
    const bp_buffer prototype = {.dtype = BP_F32, .rank = 1, .shape = {1}};
    memset(memory, 0xa5, sizeof memory);
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&graph, &limit, &arena, &error), BP_OK);
    const uint32_t before = graph.used.name_bytes;
    bp_graph_begin(&graph, BP_PROGRAM_STEP);
    assert_int_equal(bp_graph_buffer_of(&graph, &prototype, "h", "weight", &index[0]), BP_OK);
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "x", &index[1]), BP_OK);
    assert_int_equal(graph.used.name_bytes - before, sizeof "h.weight" + sizeof "x");
    assert_string_equal(bp_graph_name(&graph, index[0]), "h.weight");
    assert_string_equal(bp_graph_name(&graph, index[1]), "x");
}

/* Of two parts each keeps room for the other; a name of one part is taken as it is. */
/* verifies program-15.274c */
static void test_names_of_long_parts(void **state)
{
    (void)state;
    static uint64_t memory[1024];
    enum { HALF = BP_BUFFER_NAME_MAX / 2 };
    const bp_graph_limits limit = {3, 1, 1, 1, 4 * BP_BUFFER_NAME_MAX};
    char first[BP_BUFFER_NAME_MAX], second[2 * BP_BUFFER_NAME_MAX];
    bp_error error = {.code = BP_OK};
    bp_graph graph;
    bp_arena arena;
    uint32_t index[2] = {0};
    const bp_buffer prototype = {.dtype = BP_F32, .rank = 1, .shape = {1}};
    memset(first, 'a', sizeof first);
    memset(second, 'b', sizeof second);
    first[sizeof first - 1] = second[sizeof second - 1] = '\0';
    bp_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&graph, &limit, &arena, &error), BP_OK);
    bp_graph_begin(&graph, BP_PROGRAM_STEP);
    assert_int_equal(bp_graph_buffer(&graph, &prototype, first, &index[0]), BP_OK);
    assert_int_equal(bp_graph_buffer_of(&graph, &prototype, first, second, &index[1]), BP_OK);
    assert_string_equal(bp_graph_name(&graph, index[0]), first);
    const char *name = bp_graph_name(&graph, index[1]);
    assert_int_equal(strlen(name), BP_BUFFER_NAME_MAX - 1);
    assert_int_equal(strspn(name, "a"), HALF);
    assert_true(name[HALF] == '.' && name[HALF + 1] == 'b');
}

static void test_ends_of_names(void **state)
{
    (void)state;
    assert_true(bp_adapter_ends_with("h.0.attn", 8, "attn"));
    assert_true(bp_adapter_ends_with("attn", 4, "attn"));
    assert_false(bp_adapter_ends_with("h.0.xattn", 9, "attn"));
    assert_false(bp_adapter_ends_with("tn", 2, "attn")); /* longer than the name */
    assert_false(bp_adapter_ends_with("h.0.attp", 8, "attn"));
    assert_true(bp_adapter_module_length("h.0.attn.weight") == 8);
    assert_true(bp_adapter_module_length("h.0.attn.bias.more") == 0);
    assert_true(bp_adapter_module_length("weight") == 0); /* no longer than the ending */
    static const bp_builder none = {.parameter_count = 1};
    assert_false(bp_adapter_wraps_bias(&none, "bias"));
    assert_false(bp_adapter_wraps_bias(&none, ".bias"));
    assert_false(bp_adapter_wraps_bias(&none, "h.0.attn.bias")); /* there is no such module */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_that_a_group_does_not_fit),
        cmocka_unit_test(test_names_of_nothing),
        cmocka_unit_test(test_names_in_used_memory),
        cmocka_unit_test(test_names_of_long_parts),
        cmocka_unit_test(test_ends_of_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
