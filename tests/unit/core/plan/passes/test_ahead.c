/* SPDX-License-Identifier: MIT */
/* Weights that are gathered ahead of their use: the same gathers in the same order, begun as many
 * gathers earlier as was asked for; and the verifier refuses every other order of what begins,
 * waits and is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/verify/verify.h"
#include "layers/families/gpt2.h"
#include "optim/rules.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

enum { GATHERS_MOST = 256 };

/* A plan of one rank, and where its gathers begin and end. */
typedef struct ahead_fixture {
    bp_spec spec;
    bp_plan plan;
    bp_runtime runtime;
    void *host;
    void *scratch;
    uint64_t scratch_bytes;
    uint32_t count;
    uint32_t begin[GATHERS_MOST];
    uint32_t wait[GATHERS_MOST];
    uint32_t weight[GATHERS_MOST];
} ahead_fixture;

static ahead_fixture fixture;

static bp_pending pending_of(const bp_graph *graph, uint32_t op)
{
    return bp_kernel_describe(graph->ops[op].kernel)->pending;
}

static int64_t *request_number(bp_graph *graph, uint32_t op)
{
    return &graph->scalars[graph->ops[op].scalar].integer;
}

static void find_gathers(bp_program_kind program)
{
    bp_graph *graph = &fixture.plan.graph;
    const uint32_t first = graph->program_first[program];
    const uint32_t end = first + graph->program_count[program];
    fixture.count = 0;
    for (uint32_t i = first; i < end; i++) {
        if (graph->ops[i].brings == BP_NO_BUFFER) {
            continue;
        }
        uint32_t wait = i + 1;
        while (wait < end && (pending_of(graph, wait) != BP_PENDING_WAIT ||
                              *request_number(graph, wait) != *request_number(graph, i))) {
            wait++;
        }
        assert_true(wait < end && fixture.count < GATHERS_MOST);
        fixture.begin[fixture.count] = i;
        fixture.wait[fixture.count] = wait;
        fixture.weight[fixture.count++] = graph->ops[i].brings;
    }
}

static void ahead_open(uint32_t depth, uint32_t rank, bool release)
{
    const bp_transformer sizes = {
        .width = 192, .layers = 2, .heads = 2, .norm_epsilon = 1e-5, .initializer_range = 0.02};
    fixture = (ahead_fixture){.spec = model_fixture_spec()};
    bp_spec *spec = &fixture.spec;
    spec->config.vocabulary = 2503;
    bp_family_config_set(&spec->config, &sizes, sizeof sizes);
    spec->optimizer = &bp_optimizer_adamw;
    spec->gradient_release = release ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
    spec->batch = 1;
    spec->accumulation = spec->virtual_ranks = 4;
    spec->ranks = 4;
    spec->rank = rank;
    spec->sharing = BP_SHARING_PARAMETERS;
    spec->gather_ahead = depth;
    const uint64_t bytes = plan_bytes(spec);
    assert_int_equal(posix_memalign(&fixture.host, 64, bytes), 0);
    if (bp_plan_make(&fixture.plan, spec, fixture.host, bytes) != BP_OK) {
        fail_msg("%s %s", fixture.plan.error.text, fixture.plan.error.name);
    }
    fixture.scratch_bytes = bp_verify_scratch(&fixture.plan.graph);
    assert_int_equal(posix_memalign(&fixture.scratch, 64, fixture.scratch_bytes), 0);
}

static void ahead_close(void)
{
    free(fixture.scratch);
    free(fixture.host);
}

static bp_status verify(void)
{
    fixture.plan.error = (bp_error){.code = BP_OK};
    return bp_verify(&fixture.plan.graph, fixture.spec.device, &fixture.spec.device_options,
                     fixture.scratch, fixture.scratch_bytes);
}

/* The most gathers that are under way at once. */
static uint32_t under_way(void)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < fixture.count; i++) {
        uint32_t now = 0;
        for (uint32_t k = 0; k <= i; k++) {
            now += fixture.wait[k] > fixture.begin[i] ? 1 : 0;
        }
        most = now > most ? now : most;
    }
    return most;
}

/* verifies compile-16.a218 */
static void as_far_ahead_as_asked_for(void **state)
{
    (void)state;
    uint32_t order[GATHERS_MOST], count = 0;
    for (uint32_t rank = 0; rank < 4; rank += 3) {
        for (uint32_t depth = 0; depth <= BP_AHEAD_MOST; depth++) {
            ahead_open(depth, rank, false);
            find_gathers(BP_PROGRAM_STEP);
            assert_true(fixture.count > 8);
            if (depth == 0) {
                count = fixture.count;
                memcpy(order, fixture.weight, sizeof order);
            }
            /* All ranks gather the same in the same order, whatever lies between. */
            assert_int_equal(fixture.count, count);
            assert_memory_equal(fixture.weight, order, count * sizeof order[0]);
            assert_int_equal(under_way(), depth > 0 ? depth : 1);
            for (uint32_t i = 1; i < count; i++) {
                assert_true(fixture.begin[i] > fixture.begin[i - 1] &&
                            fixture.wait[i] > fixture.wait[i - 1]);
                assert_true(depth > 0 || fixture.wait[i] == fixture.begin[i] + 1);
                assert_true(depth == 0 || fixture.begin[i] <= fixture.wait[i - 1] + 2);
            }
            assert_int_equal(verify(), BP_OK);
            ahead_close();
        }
    }
}

static void swap_ops(uint32_t a, uint32_t b)
{
    bp_op *ops = fixture.plan.graph.ops;
    const bp_op op = ops[a];
    ops[a] = ops[b];
    ops[b] = op;
}

/* The first op behind a wait that reads what has come. */
static uint32_t use_of(uint32_t wait)
{
    const bp_graph *graph = &fixture.plan.graph;
    const uint32_t pieces = graph->refs[graph->ops[wait].operand].buffer;
    for (uint32_t i = wait + 1;; i++) {
        const uint32_t count = bp_kernel_describe(graph->ops[i].kernel)->operand_count;
        for (uint32_t k = 0; k < graph->ops[i].tuples * count; k++) {
            if (graph->refs[graph->ops[i].operand + k].buffer == pieces) {
                return i;
            }
        }
    }
}

/* What moves to where it must not be is refused, and nothing else is. */
/* verifies compile-16.a218 */
static void another_order_is_refused(void **state)
{
    (void)state;
    bp_graph *graph = &fixture.plan.graph;
    for (int form = 0; form < 2; form++) {
        ahead_open(1 + (uint32_t)form, 3, form == 1);
        find_gathers(BP_PROGRAM_STEP);
        assert_true(fixture.count > 8);
        for (uint32_t i = 0; i < fixture.count; i++) {
            const uint32_t begin = fixture.begin[i], wait = fixture.wait[i];
            swap_ops(begin, wait);
            assert_int_equal(verify(), BP_ERR_VERIFY);
            swap_ops(begin, wait);
            const uint32_t join = use_of(wait);
            swap_ops(wait, join);
            assert_int_equal(verify(), BP_ERR_VERIFY);
            swap_ops(wait, join);
            if (i + 1 < fixture.count && fixture.begin[i + 1] < wait) {
                int64_t *a = request_number(graph, wait),
                        *b = request_number(graph, fixture.wait[i + 1]);
                const int64_t request = *a;
                *a = *b;
                *b = request;
                assert_int_equal(verify(), BP_ERR_VERIFY);
                *b = *a;
                *a = request;
            }
        }
        assert_int_equal(verify(), BP_OK);
        ahead_close();
    }
}

/* verifies compile-16.a218 */
static void too_far_ahead_is_refused(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    bp_spec spec = model_fixture_spec();
    spec.optimizer = &bp_optimizer_adamw;
    spec.batch = 1;
    spec.accumulation = spec.virtual_ranks = spec.ranks = 2;
    spec.sharing = BP_SHARING_PARAMETERS;
    spec.gather_ahead = BP_AHEAD_MOST;
    assert_int_equal(bp_spec_check(&spec, &error), BP_OK);
    spec.gather_ahead = BP_AHEAD_MOST + 1;
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "shard-ahead");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_far_ahead_as_asked_for),
                                       cmocka_unit_test(another_order_is_refused),
                                       cmocka_unit_test(too_far_ahead_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
