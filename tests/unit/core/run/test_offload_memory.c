/* SPDX-License-Identifier: MIT */
/* What lives in the host's arena beside the device's: drawn by the host, trained, read and written,
 * it has the values of a run that has all in one arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/run/guard.h"
#include "core/run/state.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

enum { TOKENS = 400, STEPS = 3 };

static int32_t tokens[TOKENS];
static void *far;

static bp_spec wide_spec(void)
{
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = 80;
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    return spec;
}

/* model_fixture_open over two regions. */
static void open_two(model_fixture *r, const bp_spec *spec)
{
    memset(r, 0, sizeof *r);
    const uint64_t bytes = plan_bytes(spec);
    assert_int_equal(posix_memalign(&r->host, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&r->plan, spec, r->host, bytes), BP_OK);
    const bp_report *report = &r->plan.report;
    const size_t near = (size_t)report->arena_bytes, room = (size_t)report->host.arena_bytes;
    assert_int_equal(posix_memalign(&r->arena, BP_ARENA_ALIGNMENT, near), 0);
    assert_int_equal(posix_memalign(&far, BP_ARENA_ALIGNMENT, room + 64), 0);
    bp_regions places = bp_regions_device(r->arena, near);
    places.space[BP_SPACE_HOST] = (bp_region){far, room};
    assert_int_equal(bp_runtime_open_regions(&r->runtime, &r->plan, &places), BP_OK);
    assert_int_equal(bp_runtime_initialize(&r->runtime), BP_OK);
    model_fixture_feed(r, &r->feed, &r->source, tokens, TOKENS);
}

/* Every weight as floats, one after the other: a sum that any change changes. */
static uint64_t weights_of(model_fixture *r)
{
    uint64_t digest = 1469598103934665603ULL;
    for (uint32_t i = 0; i < r->plan.builder.parameter_count; i++) {
        const uint64_t count = r->plan.builder.parameters[i].count;
        float *values = malloc((size_t)count * sizeof *values);
        assert_non_null(values);
        assert_int_equal(bp_runtime_get_weight(&r->runtime, i, 0, values, count), BP_OK);
        for (uint64_t k = 0; k < count; k++) {
            uint32_t bits;
            memcpy(&bits, &values[k], sizeof bits);
            digest = (digest ^ bits) * 1099511628211ULL;
        }
        free(values);
    }
    return digest;
}

/* Puts other values into a weight and reads them back. */
static void put_and_get(model_fixture *r)
{
    for (uint32_t i = 0; i < r->plan.builder.parameter_count; i++) {
        const bp_parameter *p = &r->plan.builder.parameters[i];
        float put[8], got[8];
        const uint64_t count = p->count < 8 ? p->count : 8;
        for (uint64_t k = 0; k < count; k++) {
            put[k] = (float)(i + k) / 4.0f;
        }
        assert_int_equal(bp_runtime_put_weight(&r->runtime, i, 0, put, count), BP_OK);
        assert_int_equal(bp_runtime_get_weight(&r->runtime, i, 0, got, count), BP_OK);
        assert_memory_equal(put, got, (size_t)count * sizeof *put);
    }
}

static void compare(bp_spec spec, const bp_offload *offload)
{
    model_fixture one, two;
    uint64_t sums[2];
    spec.offload = (bp_offload){.bases = 0};
    model_fixture_open(&one, &spec, tokens, TOKENS);
    spec.offload = *offload;
    spec.offload.host = true;
    open_two(&two, &spec);
    assert_true(two.plan.report.host.arena_bytes > 0);
    assert_true(weights_of(&one) == weights_of(&two));
    for (uint32_t i = 0; i < STEPS; i++) {
        const bp_outcome a = model_fixture_step(&one), b = model_fixture_step(&two);
        assert_true(a.loss == b.loss && a.norm == b.norm);
    }
    assert_true(weights_of(&one) == weights_of(&two));
    assert_int_equal(bp_guard_state(&two.runtime, &sums[0]), BP_OK);
    put_and_get(&two);
    assert_int_equal(bp_guard_state(&two.runtime, &sums[1]), BP_OK);
    assert_true(sums[0] != sums[1]);
    model_fixture_close(&one);
    model_fixture_close(&two);
    free(far);
}

/* verifies run-26.fc76 */
static void weights_and_states_in_the_hosts_arena(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    bp_spec spec = wide_spec();
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL});
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .weights = BP_OFFLOAD_ALL});
    spec.working = BP_BF16;
    spec.gradient = BP_BF16;
    spec.master = BP_MASTER_FP32;
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL});
    /* What is added up of gradients: whole, in 8 bits, of one micro-batch; released ones are not.
     */
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .gradients = BP_OFFLOAD_ALL});
    spec.accumulation = 3;
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .gradients = BP_OFFLOAD_ALL, .ahead = 2});
    spec.gradient_int8 = true;
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .gradients = BP_OFFLOAD_ALL, .ahead = 2});
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .gradients = BP_OFFLOAD_ALL / 2});
    spec.gradient_int8 = false;
    spec.gradient_release = BP_RELEASE_EXACT;
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .gradients = BP_OFFLOAD_ALL});
    spec = wide_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
    compare(spec, &(bp_offload){.bases = BP_OFFLOAD_ALL});
}

/* A table whose states are brought in two parts: what is fetched ahead passes what was written to
 * the other part. */
/* verifies run-27.be75 */
static void states_in_two_parts(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = 70000; /* times 16: more than 1,048,576 */
    compare(spec, &(bp_offload){.states = BP_OFFLOAD_ALL, .ahead = 2});
}

int main(void)
{
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * i % 37;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_states_in_the_hosts_arena),
        cmocka_unit_test(states_in_two_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
