/* SPDX-License-Identifier: MIT */
/* The counting pass: for every family and every option, under several policies, the tables of a
 * plan are full to the last row, and its memory is what was counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/plan/search/fit.h"
#include "device/cuda/cuda.h"
#include "layers/families/bert.h"
#include "layers/families/t5.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/plans/plan_checker.h"
#include "tests/fixtures/plans/spec_case.h"
#include "tests/fixtures/share.h"

static bp_plan plan;

static void equal_rows(const char *name, const char *table, uint32_t used, uint32_t reserved)
{
    if (used != reserved) {
        fail_msg("%s: %u of %u rows of %s are used", name, used, reserved, table);
    }
}

/* The checker that is proved right agrees with the program's verifier. */
static void check_places(const char *name)
{
    static plan_checked checked[8192];
    const bp_graph *graph = &plan.graph;
    uint32_t count = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *b = &graph->buffers[i];
        if (b->space == BP_SPACE_DEVICE && b->lower < b->upper) {
            assert_true(count < sizeof checked / sizeof checked[0]);
            checked[count++] = (plan_checked){b->lower, b->upper, b->offset, b->bytes};
            end = b->offset + b->bytes > end ? b->offset + b->bytes : end;
        }
    }
    if (end > plan.report.arena_bytes || !plan_checker(checked, count, end)) {
        fail_msg("%s: buffers share bytes or lie outside the arena", name);
    }
    /* Two that live together at one place are seen. */
    checked[1] = checked[0];
    assert_true(count < 2 || !plan_checker(checked, count, end));
}

static void check_plan(const bp_spec *spec, const char *name)
{
    const uint64_t scratch = bp_plan_scratch(spec);
    void *memory = malloc((size_t)scratch);
    assert_non_null(memory);
    if (bp_plan_count(&plan, spec, memory, scratch) != BP_OK) {
        fail_msg("%s: %s %s", name, plan.error.text, plan.error.name);
    }
    free(memory);
    const uint64_t bytes = plan.host_bytes;
    assert_true(bytes >= scratch);
    memory = malloc((size_t)bytes);
    assert_non_null(memory);
    if (bp_plan_make_counted(&plan, memory, bytes) != BP_OK) {
        fail_msg("%s: %s %s", name, plan.error.text, plan.error.name);
    }
    const bp_graph_limits *used = &plan.graph.used, *limit = &plan.graph.limit;
    equal_rows(name, "buffers", used->buffers, limit->buffers);
    equal_rows(name, "ops", used->ops, limit->ops);
    equal_rows(name, "refs", used->refs, limit->refs);
    equal_rows(name, "scalars", used->scalars, limit->scalars);
    equal_rows(name, "names", used->name_bytes, limit->name_bytes);
    assert_true(plan.report.host_bytes <= bytes);
    check_places(name);
    free(memory);
}

/* verifies compile-6.ea09 */
static void test_tables_are_full(void **state)
{
    (void)state;
    static const bp_policy policies[] = {
        {.kind = BP_POLICY_NONE},
        {.kind = BP_POLICY_FULL},
        {.kind = BP_POLICY_MEMORY_POOR},
        {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ACTIVATION}};
    uint32_t cases = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME];
        bp_spec spec;
        if (!spec_case(i, &spec, name)) {
            continue;
        }
        for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
            spec.policy = policies[p];
            check_plan(&spec, name);
        }
        cases++;
    }
    assert_true(cases >= 130);
}

/* Distances that a table has numbers of: rows of the host alone. */
static bool hosts_alone(const bp_spec *spec)
{
    return spec->model == &bp_model_t5 ||
           (spec->model == &bp_model_bert && bp_bert_config_of(&spec->config).buckets > 0);
}

/* A device that keeps tables of list ops in the arena has one buffer more; poison needs rows of its
 * own. */
/* verifies compile-6.ea09 */
static void test_other_forms(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < spec_case_count(); i += 3) {
        char name[SPEC_CASE_NAME];
        bp_spec spec;
        if (spec_case(i, &spec, name)) {
            spec.poison = true;
            check_plan(&spec, name);
            spec.poison = false;
            spec.device = &bp_device_cuda;
            spec.device_options = (bp_device_options){.threads = 1, .target = "sm_90a"};
            if (!hosts_alone(&spec)) {
                check_plan(&spec, name);
            }
        }
    }
}

/* Counting needs the memory that the closed form says, and planning what was counted. */
/* verifies compile-7.7394 */
static void test_small_memories(void **state)
{
    (void)state;
    char name[SPEC_CASE_NAME];
    bp_spec spec;
    assert_true(spec_case(0, &spec, name));
    const uint64_t scratch = bp_plan_scratch(&spec);
    const uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    for (uint64_t size = 0; size < scratch; size += scratch / 7) {
        assert_int_equal(bp_plan_count(&plan, &spec, memory, size), BP_ERR_FIT);
        assert_true(plan.error.wanted == (int64_t)scratch);
    }
    assert_int_equal(bp_plan_count(&plan, &spec, memory, scratch), BP_OK);
    assert_true(plan.host_bytes == bytes);
    assert_int_equal(bp_plan_make_counted(&plan, memory, bytes / 2), BP_ERR_FIT);
    assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
    const uint64_t used = plan.report.host_bytes;
    assert_int_equal(bp_plan_make(&plan, &spec, memory, used), BP_OK);
    assert_int_equal(bp_plan_make(&plan, &spec, memory, used - 64), BP_ERR_FIT);
    assert_true(plan.error.wanted == (int64_t)bytes);
    free(memory);
}

/* More ops than a plan may have are refused while they are counted. */
/* verifies compile-6.ea09 */
static void test_too_many_ops(void **state)
{
    (void)state;
    char name[SPEC_CASE_NAME];
    bp_spec spec;
    assert_true(spec_case(0, &spec, name));
    spec.batch = 1u << 20;
    spec.sequence = 12;
    spec.config.positions = 12;
    spec.loss_rows = 1;
    const uint64_t scratch = bp_plan_scratch(&spec);
    void *memory = malloc((size_t)scratch);
    assert_non_null(memory);
    assert_int_equal(bp_plan_count(&plan, &spec, memory, scratch), BP_ERR_OVERFLOW);
    assert_non_null(strstr(plan.error.text, "too many ops"));
    free(memory);
}

static bp_status run_fit(const bp_fit_request *request, uint64_t bytes, bp_fit *fit,
                         bp_error *error)
{
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    *error = (bp_error){0};
    bp_status status = bp_fit_run(request, memory, bytes, fit, error);
    free(memory);
    return status;
}

/* The memory that is counted for the fit serves every candidate that it plans. */
/* verifies compile-6.ea09 */
static void test_the_fits_memory(void **state)
{
    (void)state;
    uint32_t fits = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME];
        bp_fit_request request = {.free_policy = true, .rates = BP_RATES_DEFAULT};
        bp_fit fit;
        bp_error error;
        if (!spec_case(i, &request.spec, name) || request.spec.optimizer == NULL) {
            continue;
        }
        for (uint32_t free_shape = 0; free_shape < 2; free_shape++) {
            if (share_of(1, 2, 2) == 2 && i % 2 == free_shape) {
                continue; /* a share has one of both */
            }
            if (share_of(1, 2, 2) == 2 && i % 8 > 1) {
                continue;
            }
            request.free_batch = request.free_chunk = free_shape == 1;
            request.budget = 0;
            assert_int_equal(run_fit(&request, fit_bytes(&request), &fit, &error), BP_OK);
            for (uint64_t part = 5; part <= 9; part += 2) {
                request.budget = fit.best.arena_bytes * part / 10;
                bp_fit tight;
                bp_status status = run_fit(&request, fit_bytes(&request), &tight, &error);
                if (status != BP_OK && (status != BP_ERR_FIT || tight.best.batch == 0)) {
                    fail_msg("%s: %s %s", name, error.text, error.name);
                }
                fits += status == BP_OK ? 1 : 0;
            }
        }
    }
    print_message("%u of the budgets can be met\n", fits);
    assert_true(fits > share_of(100, 25, 25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_full), cmocka_unit_test(test_other_forms),
        cmocka_unit_test(test_small_memories),  cmocka_unit_test(test_too_many_ops),
        cmocka_unit_test(test_the_fits_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
