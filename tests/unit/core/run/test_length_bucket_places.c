/* SPDX-License-Identifier: MIT */
/* Where the length buckets lie, planned and not run: where the padded ones lie, or
 * where there is room, or they are left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "device/host/host.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

enum { SEQUENCE = 12 };

static bp_spec plain_spec(void)
{
    bp_spec spec = model_fixture_spec();
    spec.sequence = SEQUENCE;
    spec.batch = 3;
    return spec;
}

static uint64_t excess; /* bytes that products of three samples of five want beyond the others */

static uint64_t odd_workspace(const bp_device_options *options, bp_kernel kernel,
                              const void *scalars, const uint8_t *dtypes)
{
    const bp_matmul_scalars *s = scalars;
    const uint64_t own = bp_device_host.workspace(options, kernel, scalars, dtypes);
    return own + (kernel == BP_KERNEL_matmul ? 256 : 0) +
           (kernel == BP_KERNEL_matmul && s->m == 15 ? excess : 0);
}

/* The plan of a spec with programs for five tokens: its status, and whether they are there. */
static bp_status plan_buckets(bp_spec spec, bool *there)
{
    static bp_plan plan;
    spec.lengths[0] = 5;
    spec.length_count = 1;
    const uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    const bp_status status = bp_plan_make(&plan, &spec, memory, bytes);
    *there = status == BP_OK && plan.bucket_count == 1;
    assert_true(status != BP_OK || *there == (plan.left_out == NULL));
    free(memory);
    return status;
}

/* The more room they want, the fewer fit: first those where they lie, then those that are placed
 * anew, and in the end none. */
static void test_more_and_more_room(void **state)
{
    (void)state;
    static bp_plan plan;
    bp_device odd = bp_device_host;
    bp_spec spec = plain_spec();
    uint32_t fitted = 0, left = 0;
    odd.workspace = odd_workspace;
    spec.device = &odd;
    spec.evaluate = true;
    excess = 0;
    free(plan_make(&plan, &spec));
    const uint64_t arena = plan.report.arena_bytes;
    for (uint64_t k = 0; k < 40; k++) {
        bool there = false;
        excess = arena / 32 * k;
        assert_int_equal(plan_buckets(spec, &there), BP_OK);
        assert_true(!there || left == 0);
        fitted += there;
        left += !there;
    }
    assert_true(fitted >= 3 && left >= 3);
}

static bool more; /* the shorter programs have buffers that the padded ones lack; else fewer */

static uint64_t rare_workspace(const bp_device_options *options, bp_kernel kernel,
                               const void *scalars, const uint8_t *dtypes)
{
    const bp_matmul_scalars *s = scalars;
    const bool has = kernel == BP_KERNEL_matmul && (s->m == 15) == more;
    const uint64_t products = has ? 256 : 0;
    return kernel == BP_KERNEL_matmul ? products
                                      : bp_device_host.workspace(options, kernel, scalars, dtypes);
}

/* What makes two buffers of a second stage that get larger as samples get shorter. */
typedef enum growth { GROWS_NOT, GROWS_ALWAYS, GROWS_IN_HOST, FAILS } growth;

static growth grows;
static bp_model growing;
static void (*plain_forward)(bp_builder *builder, bp_stage_call *call);

static void grow_forward(bp_builder *builder, bp_stage_call *call)
{
    plain_forward(builder, call);
    if (call->stage != 1 || builder->mode != BP_MODE_EVAL || builder->status != BP_OK) {
        return;
    }
    const bool host = grows == GROWS_IN_HOST;
    const uint32_t rows = grows == GROWS_NOT ? 1 : 2 * SEQUENCE - builder->spec->sequence;
    const bp_buffer prototype = {.class_of = BP_CLASS_WORKSPACE,
                                 .scope = host ? BP_SCOPE_PROGRAM : BP_SCOPE_RESIDENT,
                                 .space = host ? BP_SPACE_HOST : BP_SPACE_DEVICE,
                                 .dtype = BP_F32,
                                 .rank = 1,
                                 .shape = {rows * 64}};
    uint32_t buffer = BP_NO_BUFFER, second = BP_NO_BUFFER;
    if (grows == FAILS && builder->spec->sequence < SEQUENCE) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_INTERNAL, "grow", "fails", NULL);
        return;
    }
    builder->status = bp_graph_buffer(builder->graph, &prototype, "grown", &buffer);
    if (builder->status == BP_OK && !host) {
        builder->status = bp_graph_buffer(builder->graph, &prototype, "grown_too", &second);
    }
    const bp_ref grown = {buffer, BP_F32, 0}, weight = bp_build_acquire(builder, 0, BP_FOR_FORWARD);
    if (host) {
        bp_build_put_back(builder, weight, buffer, 0, sizeof(float));
    } else {
        bp_build_copy(builder, &(bp_copy_operands){.y = grown, .x = weight},
                      &(bp_copy_scalars){.count = 1});
    }
    bp_build_release(builder, 0);
}

/* Shorter programs that have other buffers than the padded ones, or larger ones that cannot go
 * elsewhere, are left out; what is wrong with them is wrong with the plan. */
/* verifies compile-13.5a54 */
static void test_programs_that_cannot_correspond(void **state)
{
    (void)state;
    bp_device rare = bp_device_host;
    bp_spec spec = plain_spec();
    bool there = false;
    spec.evaluate = true;
    assert_int_equal(plan_buckets(spec, &there), BP_OK);
    assert_true(there);
    rare.workspace = rare_workspace;
    spec.device = &rare;
    for (uint32_t i = 0; i < 2; i++) {
        more = i != 0;
        assert_int_equal(plan_buckets(spec, &there), BP_OK);
        assert_false(there);
    }

    spec = plain_spec();
    spec.evaluate = true;
    growing = *spec.model;
    plain_forward = growing.forward;
    growing.forward = grow_forward;
    spec.model = &growing;
    for (grows = GROWS_NOT; grows < FAILS; grows++) {
        assert_int_equal(plan_buckets(spec, &there), BP_OK);
        assert_true(there == (grows == GROWS_NOT));
    }
    assert_int_equal(plan_buckets(spec, &there), BP_ERR_INTERNAL);
}

/* What lives in the host's arena is in nobody's way. */
/* verifies compile-13.5a54 */
static void test_room_beside_the_hosts_arena(void **state)
{
    (void)state;
    bp_device odd = bp_device_host;
    uint32_t fitted = 0;
    odd.workspace = odd_workspace;
    bp_spec spec = plain_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    spec.device = &odd;
    spec.evaluate = true;
    spec.offload = (bp_offload){.states = BP_OFFLOAD_ALL, .host = true};
    for (excess = 0; excess < 65536; excess += 4096) {
        bool there = false;
        assert_int_equal(plan_buckets(spec, &there), BP_OK);
        fitted += there;
    }
    assert_true(fitted >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_and_more_room),
        cmocka_unit_test(test_programs_that_cannot_correspond),
        cmocka_unit_test(test_room_beside_the_hosts_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
