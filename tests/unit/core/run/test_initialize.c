/* SPDX-License-Identifier: MIT */
/* First values are drawn for the parameters that nobody gives, and for no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/host.h"
#include "tests/fixtures/model_fixture.h"

static const int32_t tokens[60] = {1, 2, 3};

/* What the device was asked to run of the program that draws. */
static uint32_t whole_runs;
static uint32_t ops_run;
static bp_status refusal;

static bp_status run_counted(void *context, uint32_t program)
{
    whole_runs += program == BP_PROGRAM_INITIALIZE ? 1 : 0;
    return refusal != BP_OK ? refusal : bp_device_host.run(context, program);
}

static bp_status run_ops_counted(void *context, uint32_t program, uint32_t first, uint32_t count)
{
    assert_int_equal(program, BP_PROGRAM_INITIALIZE);
    ops_run += count;
    return refusal != BP_OK ? refusal : bp_device_host.run_ops(context, program, first, count);
}

static bp_device dry_run_device(bool reach)
{
    bp_device device = bp_device_host;
    device.run = run_counted;
    device.run_ops = run_ops_counted;
    device.address = reach ? device.address : NULL;
    return device;
}

/* Ops that draw parameters, or, with `left`, those that are not given. A magnitude has two. */
static uint32_t drawing_ops(const model_fixture *r, bool left)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->plan.builder.parameter_count; i++) {
        const bp_parameter *p = &r->plan.builder.parameters[i];
        const bool drawn = p->quantised == BP_QUANTISED_NONE && !(left && p->given);
        count += !drawn ? 0u : p->init == BP_INIT_NORMAL ? 1u : p->init == BP_INIT_NORMS ? 2u : 0u;
    }
    return count;
}

/* Fills every weight and master with bytes that no draw makes. */
static void spoil(model_fixture *r)
{
    for (uint32_t i = 0; i < r->plan.graph.used.buffers; i++) {
        const bp_buffer *buffer = &r->plan.graph.buffers[i];
        const bool kept =
            buffer->scope == BP_SCOPE_PERSISTENT || buffer->scope == BP_SCOPE_CONSTANT;
        if (kept && (buffer->class_of == BP_CLASS_WEIGHTS || buffer->class_of == BP_CLASS_MASTER)) {
            void *bytes = malloc(buffer->bytes);
            memset(bytes, 0xa5, buffer->bytes);
            model_fixture_write(r, i, bytes);
            free(bytes);
        }
    }
}

/* Whether a buffer holds what it held before; of a given parameter, what spoil wrote. */
static void assert_buffer(model_fixture *r, uint32_t index, void *const *before, bool given)
{
    const uint64_t bytes = r->plan.graph.buffers[index].bytes;
    unsigned char *now = model_fixture_read(r, index);
    for (uint64_t i = 0; i < bytes && given; i++) {
        assert_int_equal(now[i], 0xa5);
    }
    if (!given) {
        assert_memory_equal(now, before[index], bytes);
    }
    free(now);
}

static void assert_drawn(model_fixture *r, void *const *before)
{
    for (uint32_t i = 0; i < r->plan.builder.parameter_count; i++) {
        const bp_parameter *p = &r->plan.builder.parameters[i];
        if (p->init == BP_INIT_NORMS && !p->given) {
            continue; /* of a base that may be spoiled: layers/test_magnitude.c compares it */
        }
        const uint32_t buffers[] = {p->weight, p->master, p->quantised ? p->scales : BP_NO_BUFFER,
                                    p->quantised ? p->nested : BP_NO_BUFFER};
        for (int b = 0; b < 4; b++) {
            if (buffers[b] != BP_NO_BUFFER) {
                assert_buffer(r, buffers[b], before, p->given);
            }
        }
    }
}

static void some_are_given(const bp_spec *spec, uint32_t stride)
{
    model_fixture r;
    whole_runs = 0;
    ops_run = 0;
    model_fixture_open(&r, spec, tokens, 60); /* draws everything */
    const uint32_t buffers = r.plan.graph.used.buffers, count = r.plan.builder.parameter_count;
    assert_int_equal(whole_runs, 1);
    assert_int_equal(ops_run, 0);
    void **before = calloc(buffers, sizeof *before);
    for (uint32_t i = 0; i < buffers; i++) {
        const bp_scope scope = r.plan.graph.buffers[i].scope;
        const bool kept = scope == BP_SCOPE_PERSISTENT || scope == BP_SCOPE_CONSTANT;
        before[i] = kept ? model_fixture_read(&r, i) : NULL;
    }
    assert_int_equal(bp_runtime_clear(&r.runtime), BP_OK);
    spoil(&r);
    for (uint32_t i = 0; i < count; i++) {
        if (stride == 1 || i % stride != 0) {
            bp_runtime_given(&r.runtime, i);
        }
    }
    assert_int_equal(bp_runtime_draw(&r.runtime), BP_OK);
    assert_int_equal(whole_runs, 1); /* still the first */
    assert_int_equal(ops_run, drawing_ops(&r, true));
    assert_true(ops_run < drawing_ops(&r, false));
    assert_true(stride > 1 ? ops_run > 0 : ops_run == 0);
    assert_drawn(&r, before);
    for (uint32_t i = 0; i < buffers; i++) {
        free(before[i]);
    }
    free(before);
    model_fixture_close(&r);
}

/* verifies run-19.df56 */
static void only_what_is_not_given_is_drawn(void **state)
{
    (void)state;
    static const char *const targets[] = {"c_attn", "c_fc"};
    for (int reach = 0; reach < 2; reach++) {
        const bp_device device = dry_run_device(reach != 0);
        for (uint32_t stride = 1; stride < 6; stride++) {
            bp_spec spec = model_fixture_spec();
            spec.device = &device;
            some_are_given(&spec, stride);
            spec.working = BP_BF16;
            spec.master = BP_MASTER_SPLIT;
            some_are_given(&spec, stride);
            spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 2};
            spec.quantised = BP_QUANTISED_NF4_DOUBLE;
            some_are_given(&spec, stride);
            spec.quantised = BP_QUANTISED_INT8;
            some_are_given(&spec, stride);
            spec.lora.magnitudes = true;
            some_are_given(&spec, stride);
        }
    }
}

/* What a checkpoint will hold is the state; a frozen base is not in it. */
/* verifies run-19.df56 */
static void the_state_alone_is_given(void **state)
{
    (void)state;
    static const char *const targets[] = {"c_attn"};
    model_fixture r;
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = targets, .target_count = 1};
    model_fixture_open(&r, &spec, tokens, 60);
    bp_runtime_state_given(&r.runtime);
    for (uint32_t i = 0; i < r.plan.builder.parameter_count; i++) {
        const bp_parameter *p = &r.plan.builder.parameters[i];
        assert_true(p->given == p->trainable);
        assert_true(bp_runtime_in_state(&r.runtime, i) == p->trainable);
    }
    assert_int_equal(bp_runtime_clear(&r.runtime), BP_OK);
    for (uint32_t i = 0; i < r.plan.builder.parameter_count; i++) {
        assert_false(r.plan.builder.parameters[i].given);
    }
    model_fixture_close(&r);
}

/* Memory that is said to be zero is not written again until something was written to it. */
/* verifies run-19.df56 */
static void zero_memory_is_left_alone(void **state)
{
    (void)state;
    model_fixture r;
    const bp_spec spec = model_fixture_spec();
    model_fixture_open(&r, &spec, tokens, 60);
    const uint64_t fresh = model_fixture_digest(&r);
    model_fixture_step(&r);
    assert_true(model_fixture_digest(&r) != fresh);
    assert_int_equal(bp_runtime_initialize(&r.runtime), BP_OK);
    assert_true(model_fixture_digest(&r) == fresh);
    bp_runtime_close(&r.runtime);
    const uint64_t bytes = r.plan.report.arena_bytes;
    memset(r.arena, 0, bytes);
    bp_regions places = bp_regions_device(r.arena, bytes);
    places.zeroed = true;
    assert_int_equal(bp_runtime_open_regions(&r.runtime, &r.plan, &places), BP_OK);
    assert_true(r.runtime.zeroed);
    assert_int_equal(bp_runtime_initialize(&r.runtime), BP_OK);
    assert_true(model_fixture_digest(&r) == fresh);
    model_fixture_step(&r);
    assert_false(r.runtime.zeroed);
    assert_int_equal(bp_runtime_initialize(&r.runtime), BP_OK);
    assert_true(model_fixture_digest(&r) == fresh);
    model_fixture_close(&r);
}

/* Opens with memory of its own where it was given none, as CUDA's does. */
static void *own_memory;

static bp_status open_own(void *context, const bp_device_options *options, const bp_regions *places,
                          bp_error *error)
{
    bp_regions own = *places;
    if (own_memory != NULL) {
        own.space[BP_SPACE_DEVICE].address = own_memory;
    }
    return bp_device_host.open(context, options, &own, error);
}

/* Of the device's own memory nobody knows that it is zero. */
/* verifies run-19.df56 */
static void memory_of_the_device_is_not_taken_for_zero(void **state)
{
    (void)state;
    model_fixture r;
    bp_device device = bp_device_host;
    bp_spec spec = model_fixture_spec();
    device.open = open_own;
    spec.device = &device;
    own_memory = NULL;
    model_fixture_open(&r, &spec, tokens, 60);
    bp_runtime_close(&r.runtime);
    bp_regions places = bp_regions_device(NULL, r.plan.report.arena_bytes);
    places.zeroed = true;
    own_memory = r.arena;
    assert_int_equal(bp_runtime_open_regions(&r.runtime, &r.plan, &places), BP_OK);
    assert_false(r.runtime.zeroed);
    model_fixture_close(&r);
}

/* verifies run-7.0da2 */
static void a_device_that_refuses_is_said_so(void **state)
{
    (void)state;
    const bp_device device = dry_run_device(true);
    bp_spec spec = model_fixture_spec();
    model_fixture r;
    spec.device = &device;
    model_fixture_open(&r, &spec, tokens, 60);
    bp_runtime_given(&r.runtime, 0);
    refusal = BP_ERR_DEVICE;
    assert_int_equal(bp_runtime_draw(&r.runtime), BP_ERR_DEVICE);
    assert_int_equal(r.runtime.error.code, BP_ERR_DEVICE);
    refusal = BP_OK;
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_not_given_is_drawn),
        cmocka_unit_test(the_state_alone_is_given),
        cmocka_unit_test(zero_memory_is_left_alone),
        cmocka_unit_test(memory_of_the_device_is_not_taken_for_zero),
        cmocka_unit_test(a_device_that_refuses_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
