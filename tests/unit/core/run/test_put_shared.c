/* SPDX-License-Identifier: MIT */
/* A weight of which each rank has a part, and no master: what is put into it reaches this rank's
 * part alone, by no message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/fabric.h"
#include "core/run/state.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

static uint32_t messages;

static bp_status lonely_agree(void *context, uint64_t digest, bp_error *error)
{
    (void)context;
    (void)digest;
    (void)error;
    return BP_OK;
}

static uint32_t lonely_rank(const void *context)
{
    (void)context;
    return 1;
}

static uint32_t lonely_size(const void *context)
{
    (void)context;
    return 2;
}

static uint32_t lonely_members(const void *context, uint32_t group)
{
    (void)context;
    return group == 0 ? 2 : 0;
}

static bp_status lonely_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    (void)context;
    (void)transfer;
    messages++;
    return bp_error_set(error, BP_ERR_DEVICE, "lonely", "nobody is there", NULL);
}

static bp_status lonely_wait(void *context, uint32_t request, bp_error *error)
{
    (void)context;
    (void)request;
    (void)error;
    return BP_OK;
}

static bp_status lonely_check(void *context, bp_error *error)
{
    (void)context;
    (void)error;
    return BP_OK;
}

/* A fabric whose other rank never comes. */
static const bp_fabric lonely = {.name = "lonely",
                                 .collectives = 16,
                                 .agree = lonely_agree,
                                 .rank = lonely_rank,
                                 .size = lonely_size,
                                 .members = lonely_members,
                                 .begin = lonely_begin,
                                 .wait = lonely_wait,
                                 .check = lonely_check};

/* verifies run-31.bd98 */
static void parts_of_a_weight(void **state)
{
    (void)state;
    model_fixture r;
    bp_spec spec = model_fixture_spec();
    float put[8], got[8];
    spec.config.vocabulary = 9001; /* times 16: two units of 65,536 elements and a rest */
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2;
    spec.rank = 1;
    spec.sharing = BP_SHARING_PARAMETERS;
    memset(&r, 0, sizeof r);
    const uint64_t bytes = plan_bytes(&spec);
    assert_int_equal(posix_memalign(&r.host, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&r.plan, &spec, r.host, bytes), BP_OK);
    const size_t arena = (size_t)r.plan.report.arena_bytes;
    assert_int_equal(posix_memalign(&r.arena, BP_ARENA_ALIGNMENT, arena), 0);
    bp_regions places = bp_regions_device(r.arena, arena);
    places.fabric = &lonely;
    places.rank = &r;
    if (bp_runtime_open_regions(&r.runtime, &r.plan, &places) != BP_OK) {
        fail_msg("%s %s", r.runtime.error.text, r.runtime.error.name);
    }
    const bp_parameter *p = &r.plan.builder.parameters[0];
    const bp_buffer *weight = &r.plan.graph.buffers[p->weight];
    assert_true(p->master == BP_NO_BUFFER);
    assert_true(weight->part.whole > weight->bytes && weight->bytes > 0);
    const uint64_t own = weight->part.first / sizeof(float);
    const uint64_t other = own == 0 ? weight->bytes / sizeof(float) : 0;
    for (uint32_t i = 0; i < 8; i++) {
        put[i] = (float)i / 4.0f - 1.0f;
    }
    assert_int_equal(bp_runtime_put_weight(&r.runtime, 0, own, put, 8), BP_OK);
    put[0] = 5.0f;
    assert_int_equal(bp_runtime_put_weight(&r.runtime, 0, other, put, 8), BP_OK);
    put[0] = -1.0f;
    assert_int_equal(bp_runtime_read(&r.runtime, weight, 0, got, sizeof got), BP_OK);
    assert_memory_equal(put, got, sizeof got);
    assert_int_equal(messages, 0);
    assert_int_equal(bp_runtime_get_weight(&r.runtime, 0, own, got, 8), BP_ERR_DEVICE);
    assert_true(messages > 0);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
