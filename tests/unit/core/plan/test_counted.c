/* SPDX-License-Identifier: MIT */
/* What is counted is what is allocated: the tables of the compiler and of the graph, over all
 * families and options, from an arena that counts and from one with memory of so many bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/compile.h"
#include "core/plan/working.h"
#include "core/run/runtime.h"
#include "tests/fixtures/plans/option_pairs.h"
#include "tests/fixtures/plans/plan_case.h"
#include "tests/fixtures/plans/spec_case.h"

enum { ALIGNMENT = 16 }; /* of every table; it is counted once, for the block's start */

/* The graph's tables fit what was counted without its alignment, and not one byte less. */
static void graph_is_counted(const bp_graph_limits *rows)
{
    bp_arena arena;
    bp_graph graph;
    const size_t exact = (size_t)bp_graph_bytes(rows) - ALIGNMENT;
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, ALIGNMENT, exact), 0);
    bp_arena_init(&arena, memory, exact - 1);
    assert_int_equal(bp_graph_init(&graph, rows, &arena, NULL), BP_ERR_FIT);
    bp_arena_init(&arena, memory, exact);
    assert_int_equal(bp_graph_init(&graph, rows, &arena, NULL), BP_OK);
    assert_int_equal(arena.used, exact);
    free(memory);
}

/* So do the pieces that a run works in. */
static void working_is_counted(const bp_spec *spec, uint32_t buffers)
{
    bp_arena arena;
    bp_working working;
    const size_t exact = (size_t)bp_working_bytes(spec, buffers) - BP_WORKING_ALIGNMENT;
    unsigned char *memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, BP_WORKING_ALIGNMENT, exact), 0);
    bp_arena_init(&arena, memory, exact - 1);
    assert_int_equal(bp_working_allocate(&working, spec, buffers, &arena), BP_ERR_FIT);
    bp_arena_init(&arena, memory, exact);
    assert_int_equal(bp_working_allocate(&working, spec, buffers, &arena), BP_OK);
    assert_int_equal(arena.used, exact);
    assert_ptr_equal(working.state, memory);
    free(memory);
}

/* Returns whether the compiler takes the combination. Its memory is given at any address: `off`
 * bytes behind an aligned one. */
static bool compile_is_counted(const bp_spec *spec, const char *name, size_t off)
{
    bp_arena arena;
    bp_graph_limits rows;
    bp_error error = {.code = BP_OK};
    const size_t bytes = (size_t)bp_compile_scratch(spec);
    unsigned char *memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, ALIGNMENT, bytes + off), 0);
    bp_arena_init(&arena, memory + off, bytes);
    const bp_status status = bp_compile_count(spec, &arena, &rows, NULL, &error);
    const size_t used = arena.peak - (ALIGNMENT - off) % ALIGNMENT;
    if (status == BP_OK && used + ALIGNMENT != bytes) {
        fail_msg("%s: %zu bytes allocated, %zu counted", name, used, bytes - ALIGNMENT);
    }
    assert_true(status == BP_OK || status == BP_ERR_USAGE);
    if (status == BP_OK && off == 0) {
        graph_is_counted(&rows);
        working_is_counted(spec, rows.buffers);
    }
    free(memory);
    return status == BP_OK;
}

/* verifies compile-6.ea09 */
static void tables_of_every_family_and_option(void **state)
{
    (void)state;
    uint32_t cases = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME];
        bp_spec spec;
        cases += spec_case(i, &spec, name) && compile_is_counted(&spec, name, 0) ? 1 : 0;
    }
    for (uint32_t i = 0; i < plan_case_count(); i++) {
        char name[PLAN_CASE_NAME];
        bp_spec spec;
        cases += plan_case(i, &spec, name) && compile_is_counted(&spec, name, 0) ? 1 : 0;
    }
    for (uint32_t i = 0; i < option_pairs_count(); i += 5) {
        char row[OPTION_PAIRS_NAME], name[OPTION_PAIRS_NAME];
        bp_spec spec;
        cases += option_pairs(i, &spec, row, name) && compile_is_counted(&spec, name, 0) ? 1 : 0;
    }
    assert_true(cases >= 400);
}

/* verifies compile-6.ea09 */
static void memory_begins_at_any_address(void **state)
{
    (void)state;
    char name[SPEC_CASE_NAME];
    bp_spec spec;
    assert_true(spec_case(0, &spec, name));
    for (size_t off = 0; off < ALIGNMENT; off++) {
        assert_true(compile_is_counted(&spec, name, off));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_every_family_and_option),
        cmocka_unit_test(memory_begins_at_any_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
