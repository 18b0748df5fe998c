/* SPDX-License-Identifier: MIT */
/* An offload tier the arena that is the test's own memory, and frozen weights in memory that ops
 * read in place: what is put there, drawn and trained has the values of a run in one arena, with
 * every buffer of a program poisoned at birth and death. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/tier.h"
#include "core/run/state.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

enum { TOKENS = 400, STEPS = 2 };

static int32_t tokens[TOKENS];

static bp_status memory_read(void *context, bp_tier_way way, uint64_t offset, void *to,
                             uint64_t bytes, bp_error *error)
{
    (void)way;
    (void)error;
    memcpy(to, (const char *)context + offset, (size_t)bytes);
    return BP_OK;
}

static bp_status memory_write(void *context, bp_tier_way way, uint64_t offset, const void *from,
                              uint64_t bytes, bp_error *error)
{
    (void)way;
    (void)error;
    memcpy((char *)context + offset, from, (size_t)bytes);
    return BP_OK;
}

static bp_status memory_resolve(void *context, bp_error *error)
{
    (void)context;
    (void)error;
    return BP_OK;
}

static const bp_tier memory_tier = {
    .name = "memory", .read = memory_read, .write = memory_write, .resolve = memory_resolve};

static void *far, *offload;

/* model_fixture_open over the arena, the host's, and the tier. */
static void open_places(model_fixture *r, const bp_spec *spec)
{
    memset(r, 0, sizeof *r);
    const uint64_t bytes = plan_bytes(spec);
    assert_int_equal(posix_memalign(&r->host, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&r->plan, spec, r->host, bytes), BP_OK);
    const bp_report *report = &r->plan.report;
    const size_t near = (size_t)report->arena_bytes, room = (size_t)report->host.arena_bytes;
    assert_int_equal(posix_memalign(&r->arena, BP_ARENA_ALIGNMENT, near), 0);
    assert_int_equal(posix_memalign(&far, BP_ARENA_ALIGNMENT, room + 64), 0);
    offload = calloc(1, (size_t)report->offload.arena_bytes + 1);
    assert_non_null(offload);
    bp_regions places = bp_regions_device(r->arena, near);
    places.space[BP_SPACE_HOST] = (bp_region){far, room};
    places.space[BP_SPACE_OFFLOAD].bytes = report->offload.arena_bytes;
    places.tier = &memory_tier;
    places.tier_context = offload;
    if (bp_runtime_open_regions(&r->runtime, &r->plan, &places) != BP_OK ||
        bp_runtime_initialize(&r->runtime) != BP_OK) {
        fail_msg("%s %s", r->runtime.error.text, r->runtime.error.name);
    }
    model_fixture_feed(r, &r->feed, &r->source, tokens, TOKENS);
}

static void same_weights(model_fixture *a, model_fixture *b)
{
    for (uint32_t i = 0; i < a->plan.builder.parameter_count; i++) {
        const uint64_t count = a->plan.builder.parameters[i].count;
        float *x = malloc((size_t)count * sizeof *x), *y = malloc((size_t)count * sizeof *y);
        assert_true(x != NULL && y != NULL);
        assert_int_equal(bp_runtime_get_weight(&a->runtime, i, 0, x, count), BP_OK);
        assert_int_equal(bp_runtime_get_weight(&b->runtime, i, 0, y, count), BP_OK);
        assert_memory_equal(x, y, (size_t)count * sizeof *x);
        free(x);
        free(y);
    }
}

/* Puts the same other values into every weight of both. */
static void put_weights(model_fixture *a, model_fixture *b)
{
    for (uint32_t i = 0; i < a->plan.builder.parameter_count; i++) {
        float put[4];
        for (uint32_t k = 0; k < 4; k++) {
            put[k] = (float)(i + k) / 64.0f;
        }
        assert_int_equal(bp_runtime_put_weight(&a->runtime, i, 0, put, 4), BP_OK);
        assert_int_equal(bp_runtime_put_weight(&b->runtime, i, 0, put, 4), BP_OK);
    }
    same_weights(a, b);
}

static void compare(bp_spec spec, const bp_offload *what)
{
    model_fixture one, two;
    spec.poison = true;
    model_fixture_open(&one, &spec, tokens, TOKENS);
    spec.offload = *what;
    open_places(&two, &spec);
    const bp_report *report = &two.plan.report;
    assert_true(what->fixed ? report->host.arena_bytes > 0 : report->offload.arena_bytes > 0);
    same_weights(&one, &two);
    put_weights(&one, &two);
    for (uint32_t i = 0; i < STEPS; i++) {
        const bp_outcome a = model_fixture_step(&one), b = model_fixture_step(&two);
        assert_true(a.loss == b.loss && a.norm == b.norm);
    }
    same_weights(&one, &two);
    model_fixture_close(&one);
    model_fixture_close(&two);
    free(far);
    free(offload);
}

static bp_spec wide_spec(void)
{
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = 80;
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    return spec;
}

/* verifies run-27.be75 */
static void masters_and_states_in_a_tier(void **state)
{
    (void)state;
    bp_spec spec = wide_spec();
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .ahead = 2});
    spec.working = BP_BF16;
    spec.gradient = BP_BF16;
    spec.master = BP_MASTER_FP32;
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .ahead = 2});
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL, .ahead = 1});
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .checkpoints = 1});
}

/* verifies run-24.0483 */
static void bases_in_a_tier_or_fixed(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    static const bp_parameter_rule frozen = {.glob = "*.h.0.*", .kind = BP_RULE_FREEZE};
    bp_spec spec = wide_spec();
    spec.rules = &frozen;
    spec.rule_count = 1;
    compare(spec, &(bp_offload){.fixed = true});
    spec = wide_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    compare(spec, &(bp_offload){.fixed = true});
    compare(spec, &(bp_offload){.bases = BP_OFFLOAD_ALL, .ahead = 2});
}

/* In rooms between that of the plan that keeps nothing and more than there is to keep. */
static void compare_rooms(bp_spec spec, bp_offload what)
{
    for (uint32_t k = 0; k < 4; k++) {
        static bp_plan plan;
        spec.offload = what;
        const uint64_t bytes = plan_bytes(&spec);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
        free(memory);
        spec.offload = (bp_offload){0};
        what.room =
            what.room == 0 ? plan.report.arena_bytes : what.room + plan.report.arena_bytes / 3;
        compare(spec, &what);
    }
}

/* verifies run-40.2495 */
static void kept_from_use_to_use(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = wide_spec();
    spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
    compare_rooms(spec, (bp_offload){.states = BP_OFFLOAD_ALL,
                                     .weights = BP_OFFLOAD_ALL,
                                     .checkpoints = 1,
                                     .ahead = 2});
    spec.accumulation = 3;
    compare_rooms(
        spec, (bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL, .gradients = 64});
    spec.gradient_release = BP_RELEASE_ADAMA;
    compare_rooms(spec,
                  (bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL, .ahead = 1});
    spec.gradient_release = BP_RELEASE_NONE;
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    compare_rooms(spec, (bp_offload){.bases = BP_OFFLOAD_ALL, .ahead = 2});
}

int main(void)
{
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * i % 37;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masters_and_states_in_a_tier),
        cmocka_unit_test(bases_in_a_tier_or_fixed),
        cmocka_unit_test(kept_from_use_to_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
