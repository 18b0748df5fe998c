/* SPDX-License-Identifier: MIT */
/* Buckets of gradients: when they leave, counted without a gradient in them, and the room of ranks
 * that own nothing of a window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/compile_private.h"
#include "core/run/runtime.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

static const bp_spec alone = {.ranks = 1};

/* A window of so many buckets, of which the first has left. */
static bp_compile one_window(uint32_t buckets, uint32_t pace)
{
    bp_compile compile = {.windows_opened = 1, .pace = pace};
    compile.windows[0] = (bp_window){.buckets = buckets, .sent = 1};
    return compile;
}

/* They are spread over as many acquisitions as the stage before had; what is late by then goes at
 * once, and behind the last there is none. */
static void buckets_are_spread_over_a_stage(void **state)
{
    (void)state;
    static const struct {
        uint32_t buckets, pace;
    } cases[] = {{4, 8}, {2, 8}, {9, 8}, {5, 1}, {20, 3}, {1, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t buckets = cases[i].buckets, pace = cases[i].pace;
        bp_compile compile = one_window(buckets, pace);
        bp_builder builder = {.spec = &alone, .passes = {.flying = &compile}};
        for (uint32_t point = 1; point <= 2 * pace; point++) {
            const uint32_t ready = 1 + (buckets - 1) * point / pace;
            compile_send_buckets(&builder, 0);
            assert_int_equal(compile.windows[0].sent, ready < buckets ? ready : buckets);
        }
    }
}

/* A flush sends all that is left of the newest window, were it the first; without a window there is
 * nothing to be sent. */
static void a_flush_sends_the_rest(void **state)
{
    (void)state;
    bp_compile compile = one_window(5, 8);
    bp_builder builder = {.spec = &alone, .passes = {.flying = &compile}};
    compile_flush(&compile, &builder);
    assert_int_equal(compile.windows[0].sent, 5);
    compile.windows_opened = 0;
    for (uint32_t i = 0; i < BP_WINDOWS_MOST; i++) {
        compile.windows[i] = (bp_window){.buckets = 3, .sent = 1};
    }
    compile_flush(&compile, &builder);
    for (uint32_t i = 0; i < BP_WINDOWS_MOST; i++) {
        assert_int_equal(compile.windows[i].sent, 1);
    }
}

/* Small tensors belong to one rank: the others have room for one element of what travels all the
 * same, so that their ops have an address. */
static void who_owns_nothing_has_room_for_one(void **state)
{
    (void)state;
    static bp_plan plan;
    uint32_t ones = 0;
    for (uint32_t rank = 0; rank < 4; rank++) {
        bp_spec spec = model_fixture_spec();
        spec.ranks = spec.virtual_ranks = spec.accumulation = 4;
        spec.rank = rank;
        spec.sharing = BP_SHARING_GRADIENTS;
        void *memory = plan_make(&plan, &spec);
        for (uint32_t i = 1; i < plan.graph.used.buffers; i++) {
            const bp_buffer *buffer = &plan.graph.buffers[i];
            const bool gradients = buffer->class_of == BP_CLASS_GRADIENTS;
            assert_true(!gradients || buffer->bytes > 0);
            ones += gradients && buffer->bytes == sizeof(float);
        }
        free(memory);
    }
    assert_true(ones > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_spread_over_a_stage),
        cmocka_unit_test(a_flush_sends_the_rest),
        cmocka_unit_test(who_owns_nothing_has_room_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
