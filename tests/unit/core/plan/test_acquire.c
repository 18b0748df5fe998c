/* SPDX-License-Identifier: MIT */
/* Parameters are acquired: in the programs of every family and option whatever touches a parameter
 * lies between its acquisition and its release, and each action gives back what it asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/run/runtime.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/spec_case.h"

static bp_plan plan;

static bp_status plan_of(const bp_spec *spec)
{
    const uint64_t bytes = plan_bytes(spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    bp_status status = bp_plan_make(&plan, spec, memory, bytes);
    free(memory);
    return status;
}

/* The emitter refuses an op on a parameter that is not held, so that a plan is the proof. */
/* verifies compile-10.2ede */
static void test_every_family_acquires(void **state)
{
    (void)state;
    uint32_t cases = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME];
        bp_spec spec;
        if (!spec_case(i, &spec, name)) {
            continue;
        }
        if (plan_of(&spec) != BP_OK) {
            fail_msg("%s: %s %s", name, plan.error.text, plan.error.name);
        }
        const uint32_t *acquired = plan.builder.passes.acquired;
        assert_int_equal(plan.builder.passes.held, 0);
        assert_true(acquired[BP_FOR_FORWARD] > 0);
        assert_true((acquired[BP_FOR_BACKWARD] > 0) == (spec.optimizer != NULL));
        assert_true(acquired[BP_FOR_UPDATE] > 0);
        cases++;
    }
    assert_true(cases >= 130);
}

/* A model whose second stage does something wrong with parameter 0, which is not its own. */
static bp_model wrong;
static void (*right_forward)(bp_builder *builder, bp_stage_call *call);

static void read_unheld(bp_builder *builder, bp_stage_call *call)
{
    right_forward(builder, call);
    if (call->stage == 1) {
        const bp_ref weight = {builder->parameters[0].weight, BP_F32, 0};
        const bp_copy_operands operands = {.y = call->output, .x = weight};
        bp_build_copy(builder, &operands, &(bp_copy_scalars){.count = 1});
    }
}

static void ask_unheld(bp_builder *builder, bp_stage_call *call)
{
    right_forward(builder, call);
    if (call->stage == 1) {
        const bp_copy_operands operands = {.y = call->output, .x = bp_build_weight(builder, 0)};
        bp_build_copy(builder, &operands, &(bp_copy_scalars){.count = 1});
    }
}

static void keep_held(bp_builder *builder, bp_stage_call *call)
{
    right_forward(builder, call);
    if (call->stage == 1) {
        (void)bp_build_acquire(builder, 0, BP_FOR_FORWARD);
    }
}

static void keep_second(bp_builder *builder, bp_stage_call *call)
{
    right_forward(builder, call);
    if (call->stage == 1) {
        (void)bp_build_acquire(builder, 1, BP_FOR_FORWARD);
    }
}

static void release_unheld(bp_builder *builder, bp_stage_call *call)
{
    right_forward(builder, call);
    if (call->stage == 1) {
        bp_build_release(builder, 0);
    }
}

static void behave(bp_builder *builder, bp_stage_call *call)
{
    right_forward(builder, call);
    const bp_ref weight = bp_build_acquire(builder, 0, BP_FOR_FORWARD);
    if (call->stage == 1) {
        const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 1, 1, "copy");
        const bp_copy_operands operands = {.y = y, .x = weight};
        bp_build_copy(builder, &operands, &(bp_copy_scalars){.count = 1});
    }
    bp_build_release(builder, 0);
}

/* verifies compile-10.2ede */
static void test_what_is_not_held_is_refused(void **state)
{
    (void)state;
    static const struct {
        void (*forward)(bp_builder *builder, bp_stage_call *call);
        const char *text; /* NULL: nothing is wrong */
        const char *name;
    } cases[] = {{read_unheld, "touches a parameter", "transformer.wte.weight"},
                 {ask_unheld, "touches a parameter", "transformer.wte.weight"},
                 {keep_held, "not released", "transformer.wte.weight"},
                 {keep_second, "not released", "transformer.wpe.weight"},
                 {release_unheld, "released that was not acquired", "transformer.wte.weight"},
                 {behave, NULL, NULL}};
    bp_spec spec = model_fixture_spec();
    wrong = *spec.model;
    right_forward = wrong.forward;
    spec.model = &wrong;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wrong.forward = cases[i].forward;
        const bp_status status = plan_of(&spec);
        assert_int_equal(status, cases[i].text != NULL ? BP_ERR_INTERNAL : BP_OK);
        if (cases[i].text != NULL) {
            assert_non_null(strstr(plan.error.text, cases[i].text));
            assert_non_null(strstr(plan.error.name, cases[i].name));
        }
    }
}

/* The beginning of an update of the parameters "a" and "b". */
typedef struct acquire_fixture {
    uint64_t memory[1 << 12];
    bp_spec spec;
    bp_parameter parameters[2];
    bp_arena arena;
    bp_graph graph;
    bp_error error;
    bp_builder builder;
} acquire_fixture;

static void acquire_begin(acquire_fixture *d)
{
    const bp_graph_limits rows = {8, 4, 64, 64, 512};
    d->spec = model_fixture_spec();
    d->error = (bp_error){0};
    bp_arena_init(&d->arena, d->memory, sizeof d->memory);
    assert_int_equal(bp_graph_init(&d->graph, &rows, &d->arena, &d->error), BP_OK);
    bp_build_init(&d->builder, &d->graph, &d->spec, d->parameters, 2);
    d->builder.label = "update";
    for (uint32_t i = 0; i < 2; i++) {
        const bp_parameter_info info = {.name = i == 0 ? "a" : "b", .rank = 1, .shape = {8}};
        bp_build_parameter(&d->builder, &info);
    }
    bp_graph_begin(&d->graph, BP_PROGRAM_UPDATE);
}

/* A list op's further tuples are looked at too. */
/* verifies compile-10.2ede */
static void test_tuples_need_it_too(void **state)
{
    (void)state;
    acquire_fixture d;
    acquire_begin(&d);
    bp_ref norms = bp_build_buffer(&d.builder, BP_CLASS_WORKSPACE, BP_F64, 2, 1, "norms");
    const bp_norm_partial_operands first = {.partials = norms,
                                            .x = bp_build_acquire(&d.builder, 0, BP_FOR_UPDATE)};
    const bp_norm_partial_operands second = {.partials = norms,
                                             .x = {d.parameters[1].weight, BP_F32, 0}};
    const bp_norm_partial_scalars scalars = {.count = 8};
    bp_build_norm_partial(&d.builder, &first, &scalars);
    assert_int_equal(d.builder.status, BP_OK);
    bp_build_tuple(&d.builder, (const bp_ref *)&second, &scalars);
    assert_int_equal(d.builder.status, BP_ERR_INTERNAL);
    assert_string_equal(d.error.name, "update: op 1, norm_partial: b");
    /* Nothing is held after an error, and nothing where there is no parameter. */
    const uint32_t held = d.builder.passes.held;
    assert_true(bp_build_acquire_update(&d.builder, 1).buffer == BP_ABSENT.buffer);
    assert_true(bp_build_acquire(&d.builder, 1, BP_FOR_FORWARD).buffer == BP_ABSENT.buffer);
    d.builder.status = BP_OK;
    assert_true(bp_build_acquire_update(&d.builder, BP_NO_PARAMETER).buffer == BP_ABSENT.buffer);
    assert_true(bp_build_acquire(&d.builder, BP_NO_PARAMETER, BP_FOR_BACKWARD).buffer ==
                BP_ABSENT.buffer);
    assert_int_equal(d.builder.passes.held, held);
    /* Gradients are counted as such: maps and reports go by the class. */
    int64_t accumulate = 1;
    const bp_ref gradient = bp_build_gradient(&d.builder, 0, &accumulate);
    assert_int_equal(d.builder.status, BP_OK);
    assert_int_equal(d.graph.buffers[gradient.buffer].class_of, BP_CLASS_GRADIENTS);
    assert_int_equal(d.graph.buffers[d.parameters[0].weight].class_of, BP_CLASS_WEIGHTS);
    assert_int_equal(accumulate, 0);
}

/* What was brought of a weight is there for as long as somebody holds it, and for no longer. */
/* verifies compile-10.2ede */
static void test_what_was_brought_stays_while_it_is_held(void **state)
{
    (void)state;
    acquire_fixture d;
    acquire_begin(&d);
    (void)bp_build_acquire(&d.builder, 0, BP_FOR_UPDATE);
    (void)bp_build_acquire(&d.builder, 0, BP_FOR_UPDATE);
    bp_acquired *acquired = &d.parameters[0].acquired;
    acquired->weight = acquired->scales = acquired->nested = 3;
    bp_build_release(&d.builder, 0);
    assert_true(acquired->held == 1 && acquired->weight == 3);
    assert_true(acquired->scales == 3 && acquired->nested == 3);
    bp_build_release(&d.builder, 0);
    assert_true(acquired->held == 0 && acquired->weight == BP_NO_BUFFER);
    assert_true(acquired->scales == BP_NO_BUFFER && acquired->nested == BP_NO_BUFFER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family_acquires),
        cmocka_unit_test(test_what_is_not_held_is_refused),
        cmocka_unit_test(test_tuples_need_it_too),
        cmocka_unit_test(test_what_was_brought_stays_while_it_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
