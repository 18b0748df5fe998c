/* SPDX-License-Identifier: MIT */
/* Constants and linked programs are the same over a training, and one changed bit of them is found
 * a pass later at most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/run/guard.h"
#include "tests/fixtures/model_fixture.h"

enum { TOKENS = 300, SLICE = 1000 };

static int32_t tokens[TOKENS];

static void open_adapted(model_fixture *r)
{
    static const char *const targets[] = {"c_attn"};
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 1};
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * i % 37;
    }
    model_fixture_open(r, &spec, tokens, TOKENS);
}

/* Slices until another pass is whole; whether it came out otherwise. */
static bool pass(bp_guard *guard, model_fixture *r, bool trains)
{
    const uint64_t before = guard->passes;
    bool changed = false;
    while (guard->passes == before) {
        if (trains) {
            (void)model_fixture_step(r);
        }
        assert_int_equal(bp_guard_slice(guard, &r->runtime, SLICE, true, &changed), BP_OK);
    }
    return changed;
}

/* verifies run-15.8e9b */
static void training_changes_none_of_it(void **state)
{
    (void)state;
    static model_fixture r;
    bp_guard guard = {.passes = 0};
    open_adapted(&r);
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(pass(&guard, &r, true));
    }
    assert_int_equal(guard.passes, 4);
    model_fixture_close(&r);
}

/* verifies run-15.8e9b */
static void a_changed_bit_is_found(void **state)
{
    (void)state;
    static model_fixture r;
    bp_guard guard = {.passes = 0};
    open_adapted(&r);
    assert_false(pass(&guard, &r, false));
    const bp_buffer *buffer = NULL;
    for (uint32_t i = 0; i < r.plan.graph.used.buffers; i++) {
        const bp_buffer *b = &r.plan.graph.buffers[i];
        buffer = b->scope == BP_SCOPE_CONSTANT && b->class_of == BP_CLASS_WEIGHTS ? b : buffer;
    }
    assert_non_null(buffer);
    uint8_t *byte = bp_runtime_reach(&r.runtime, buffer, buffer->bytes - 1, 1, 1);
    assert_non_null(byte);
    *byte ^= 4;
    assert_true(pass(&guard, &r, false));
    *byte ^= 4;
    assert_false(pass(&guard, &r, false));
    /* The first of them is one of the first buffers of the plan. */
    for (uint32_t i = 0; i < r.plan.graph.used.buffers && buffer != NULL; i++) {
        const bp_buffer *b = &r.plan.graph.buffers[i];
        if (b->scope == BP_SCOPE_CONSTANT && b->class_of == BP_CLASS_WEIGHTS) {
            assert_true(i < BP_PROGRAM_COUNT);
            byte = bp_runtime_reach(&r.runtime, b, 0, 1, 1);
            buffer = NULL;
        }
    }
    *byte ^= 1;
    assert_true(pass(&guard, &r, false));
    *byte ^= 1;
    assert_false(pass(&guard, &r, false));
    uint8_t *places = (uint8_t *)r.runtime.link.offsets;
    places[20] ^= 1;
    assert_true(pass(&guard, &r, false));
    places[20] ^= 1;
    uint8_t *linked = r.runtime.link.device_memory[BP_PROGRAM_STEP];
    linked[33] ^= 128;
    assert_true(pass(&guard, &r, false));
    linked[33] ^= 128;
    assert_false(pass(&guard, &r, false));
    model_fixture_close(&r);
}

/* Evaluations leave the state alone; a step, or a bit that falls over, does not. */
/* verifies run-15.8e9b */
static void a_state_is_summed_up(void **state)
{
    (void)state;
    static model_fixture r;
    uint64_t before, after, targets;
    double loss;
    bp_spec spec = model_fixture_spec();
    spec.evaluate = true;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    (void)model_fixture_step(&r);
    assert_int_equal(bp_guard_state(&r.runtime, &before), BP_OK);
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 0, &loss, &targets), BP_OK);
    assert_int_equal(bp_guard_state(&r.runtime, &after), BP_OK);
    assert_true(before == after);
    for (uint32_t i = 0; i < bp_runtime_state_count(&r.runtime); i++) {
        const bp_buffer *buffer = bp_runtime_state(&r.runtime, i);
        uint8_t *byte = bp_runtime_reach(&r.runtime, buffer, buffer->bytes - 1, 1, 1);
        *byte ^= 32;
        assert_int_equal(bp_guard_state(&r.runtime, &after), BP_OK);
        assert_true(before != after);
        *byte ^= 32;
    }
    (void)model_fixture_step(&r);
    assert_int_equal(bp_guard_state(&r.runtime, &after), BP_OK);
    assert_true(before != after);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_changes_none_of_it),
        cmocka_unit_test(a_changed_bit_is_found),
        cmocka_unit_test(a_state_is_summed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
