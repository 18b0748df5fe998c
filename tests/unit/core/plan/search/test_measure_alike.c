/* SPDX-License-Identifier: MIT */
/* Stages that differ from their neighbours in one thing alone are measured for themselves, and a
 * model that fails in the middle ends the measurement, wherever that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/search/measure.h"
#include "layers/families/gpt2.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

enum { LAYERS = 5, STAGES = LAYERS + 2, ODD = 3, LARGE = 1 << 20 };

/* What the odd stage does beside the others' work. */
typedef enum oddity {
    NOTHING,
    FORWARD_OP,
    BACKWARD_OP,
    LONGER_TAPE,
    FORWARD_ROOM,
    BACKWARD_ROOM,
    UNUSED_GRADIENT,
    WEIGHT_ON_TAPE,
    ODDITIES,
    LARGER_OUTPUT = ODDITIES
} oddity;

static oddity odd;
static bp_ref kept;
static uint32_t calls, fail_at;
static uint32_t tapes_most = UINT32_MAX; /* sets of kept values that are asked for */
static uint32_t found_most;

static void fails(bp_builder *builder)
{
    if (++calls == fail_at && builder->status == BP_OK) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_USAGE, "test", "made to fail", "model");
    }
}

/* y = x, so many floats; none: it takes no time, but has its operands. */
static void copy_of(bp_builder *builder, bp_ref y, bp_ref x, int64_t count)
{
    const bp_copy_operands operands = {.y = y, .x = x};
    const bp_copy_scalars scalars = {.count = count};
    bp_build_copy(builder, &operands, &scalars);
}

static bp_ref room(bp_builder *builder, bp_class class_of, uint64_t rows)
{
    return bp_build_buffer(builder, class_of, BP_F32, rows, 1, "odd");
}

static void odd_forward(bp_builder *builder, bp_stage_call *call)
{
    bp_model_gpt2.forward(builder, call);
    if (call->stage == ODD && odd == FORWARD_OP) {
        copy_of(builder, room(builder, BP_CLASS_WORKSPACE, 8), room(builder, BP_CLASS_WORKSPACE, 8),
                8);
    } else if (call->stage == ODD && odd == FORWARD_ROOM) {
        copy_of(builder, room(builder, BP_CLASS_WORKSPACE, LARGE),
                room(builder, BP_CLASS_WORKSPACE, 8), 0);
    } else if (call->stage == ODD && odd == LONGER_TAPE) {
        kept = room(builder, BP_CLASS_TAPE, 8);
        copy_of(builder, kept, room(builder, BP_CLASS_WORKSPACE, 8), 0);
    } else if (call->stage == ODD && odd == UNUSED_GRADIENT) {
        (void)room(builder, BP_CLASS_GRADIENTS, 8);
    } else if (call->stage == ODD && odd == WEIGHT_ON_TAPE) {
        call->tape[BP_TAPE_MAX - 1] = (bp_ref){builder->parameters[0].weight, BP_F32, 0};
    } else if (call->stage == ODD && odd == LARGER_OUTPUT) {
        const bp_ref out = room(builder, BP_CLASS_CHECKPOINT, LARGE);
        copy_of(builder, out, call->output, 0);
        call->output = out;
    }
    fails(builder);
}

static void odd_backward(bp_builder *builder, bp_stage_call *call)
{
    bp_model_gpt2.backward(builder, call);
    if (call->stage == ODD && odd == BACKWARD_OP) {
        copy_of(builder, room(builder, BP_CLASS_WORKSPACE, 8), room(builder, BP_CLASS_WORKSPACE, 8),
                8);
    } else if (call->stage == ODD && odd == BACKWARD_ROOM) {
        copy_of(builder, room(builder, BP_CLASS_WORKSPACE, LARGE),
                room(builder, BP_CLASS_WORKSPACE, 8), 0);
    } else if (call->stage == ODD && odd == LONGER_TAPE) {
        copy_of(builder, room(builder, BP_CLASS_WORKSPACE, 8), kept, 0);
    }
    fails(builder);
}

static uint32_t odd_tapes(bp_builder *builder, const bp_stage_call *call,
                          const bp_tape_request *request, uint32_t *variants)
{
    bp_tape_request fewer = *request;
    fails(builder);
    fewer.limit = fewer.limit < tapes_most ? fewer.limit : tapes_most;
    found_most = bp_model_gpt2.tapes(builder, call, &fewer, variants);
    assert_true(found_most <= fewer.limit);
    return found_most;
}

static void watch_all(void *user, const bp_measured *trial)
{
    assert_non_null(trial->graph);
    ++*(uint32_t *)user;
}

static bp_status measure(bp_tape_storage tape, uint32_t *watched, bp_chain_stage *stages)
{
    bp_model model = bp_model_gpt2;
    bp_spec spec = model_fixture_spec();
    const bp_rates rates = BP_RATES_DEFAULT;
    bp_error error = {0};
    bp_arena arena;
    model.forward = odd_forward;
    model.backward = odd_backward;
    model.tapes = odd_tapes;
    spec.model = &model;
    spec.tape = tape;
    SET_FAMILY(&spec.config, bp_transformer, layers, LAYERS);
    uint64_t bytes = bp_measure_scratch(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    bp_arena_init(&arena, memory, (size_t)bytes);
    const uint32_t wanted = fail_at;
    fail_at = 0;
    assert_int_equal(bp_measure_count(&spec, &arena, stages, &bytes, &error), BP_OK);
    fail_at = wanted;
    free(memory);
    memory = malloc((size_t)bytes);
    assert_non_null(memory);
    bp_arena_init(&arena, memory, (size_t)bytes);
    calls = 0;
    const bp_status status =
        watched != NULL ? bp_measure_each(&spec, &rates, &arena, stages, watch_all, watched, &error)
                        : bp_measure_stages(&spec, &rates, &arena, stages, &error);
    assert_int_equal(error.code, status);
    free(memory);
    return status;
}

/* The named variant that keeps all. */
static const bp_chain_variant *first_of(const bp_chain_stage *stages, uint32_t stage)
{
    return &stages[stage].variant[0];
}

/* verifies compile-4.ecdd */
static void stages_that_differ_in_one_thing(void **state)
{
    (void)state;
    fail_at = 0;
    for (uint32_t kind = 0; kind < ODDITIES; kind++) {
        bp_chain_stage stages[STAGES];
        odd = (oddity)kind;
        assert_int_equal(measure(BP_TAPE_WORKING, NULL, stages), BP_OK);
        const bp_chain_variant *a = first_of(stages, ODD), *b = first_of(stages, ODD - 1),
                               *c = first_of(stages, ODD + 1);
        assert_true(b->forward == c->forward && b->backward == c->backward);
        assert_true(b->tape == c->tape && b->forward_peak == c->forward_peak);
        assert_true(b->backward_peak == c->backward_peak);
        assert_int_equal(stages[ODD - 1].variants, stages[ODD + 1].variants);
        assert_true((a->forward > b->forward) == (kind == FORWARD_OP));
        assert_true((a->backward > b->backward) == (kind == BACKWARD_OP));
        assert_true((a->tape > b->tape) == (kind == LONGER_TAPE));
        /* its room lives beside the tape and the output, which stays though nobody reads it here */
        assert_true(kind != FORWARD_ROOM ||
                    a->forward_peak >= 4 * LARGE + b->tape + stages[ODD + 1].input);
        assert_true(kind != BACKWARD_ROOM ||
                    (a->backward_peak > b->backward_peak && a->backward_peak >= 4 * LARGE));
        assert_true(kind > NOTHING || a->forward_peak == b->forward_peak);
        assert_int_equal(stages[ODD].gradients, stages[ODD - 1].gradients);
        assert_true(a->forward >= b->forward && a->backward >= b->backward);
    }
}

/* A stage before one whose output is larger is not that one: what comes back to it is smaller. */
/* verifies compile-4.ecdd */
static void a_stage_with_a_larger_output(void **state)
{
    (void)state;
    bp_chain_stage plain[STAGES], stages[STAGES];
    fail_at = 0;
    odd = NOTHING;
    assert_int_equal(measure(BP_TAPE_WORKING, NULL, plain), BP_OK);
    odd = LARGER_OUTPUT;
    assert_int_equal(measure(BP_TAPE_WORKING, NULL, stages), BP_OK);
    assert_true(stages[ODD + 1].input >= 4 * LARGE && stages[ODD].d_output >= 4 * LARGE);
    for (uint32_t s = 0; s < ODD; s++) {
        const bp_chain_variant *a = first_of(plain, s), *b = first_of(stages, s);
        assert_int_equal(stages[s].variants, plain[s].variants);
        assert_true(a->forward == b->forward && a->backward == b->backward);
        assert_true(a->tape == b->tape && a->backward_peak == b->backward_peak);
    }
}

/* verifies compile-4.ecdd */
static void a_model_that_fails_ends_it(void **state)
{
    (void)state;
    static const bp_tape_storage tapes[] = {BP_TAPE_WORKING, BP_TAPE_FP8};
    odd = NOTHING;
    for (uint32_t way = 0; way < 4; way++) {
        bp_chain_stage stages[STAGES];
        uint32_t watched = 0, all = 0;
        fail_at = 0;
        assert_int_equal(measure(tapes[way % 2], way < 2 ? NULL : &all, stages), BP_OK);
        const uint32_t most = calls;
        assert_true(most > 2 * STAGES);
        for (fail_at = 1; fail_at <= most; fail_at++) {
            watched = 0;
            assert_int_equal(measure(tapes[way % 2], way < 2 ? NULL : &watched, stages),
                             BP_ERR_USAGE);
            assert_true(watched < all || way < 2);
        }
    }
    fail_at = 0;
}

/* As many sets are chosen as are wanted, one alone as well. */
/* verifies compile-4.ecdd */
static void as_many_sets_as_are_wanted(void **state)
{
    (void)state;
    odd = NOTHING;
    for (tapes_most = 0; tapes_most < 5; tapes_most++) {
        bp_chain_stage stages[STAGES];
        assert_int_equal(measure(BP_TAPE_WORKING, NULL, stages), BP_OK);
        assert_int_equal(found_most, tapes_most);
    }
    tapes_most = UINT32_MAX;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_that_differ_in_one_thing),
        cmocka_unit_test(a_stage_with_a_larger_output),
        cmocka_unit_test(a_model_that_fails_ends_it),
        cmocka_unit_test(as_many_sets_as_are_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
