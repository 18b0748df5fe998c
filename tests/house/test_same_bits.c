/* SPDX-License-Identifier: MIT */
/* What must not change a result does not: poison mode and every checkpoint policy leave the state
 * of the same 20 steps as it is, while another seed, batch or learning rate does change it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/bare_fixture.h"
#include "tests/fixtures/share.h"

static void *aligned(uint64_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, BP_ARENA_ALIGNMENT, (size_t)bytes), 0);
    return memory;
}

static uint64_t digest_of(const bp_spec *spec)
{
    static trial t;
    uint64_t bytes = plan_bytes(spec);
    void *host = aligned(bytes);
    assert_int_equal(bare_fixture_plan(&t, spec, host, bytes), BP_OK);
    void *arena = aligned(t.plan.report.arena_bytes);
    assert_int_equal(bare_fixture_open(&t, arena, t.plan.report.arena_bytes), BP_OK);
    double loss = 0.0;
    uint64_t digest = 0;
    assert_int_equal(bare_fixture_train(&t, &loss), BP_OK);
    assert_int_equal(bare_fixture_digest(&t, &digest), BP_OK);
    bp_runtime_close(&t.runtime);
    free(arena);
    free(host);
    return digest;
}

static bp_spec fast_spec(void)
{
    bp_spec spec = bare_fixture_spec();
    spec.device_options.variant = NULL;
    spec.device_options.threads = 2;
    return spec;
}

/* verifies run-1.e4fa */
static void neither_poison_nor_policy_matters(void **state)
{
    (void)state;
    for (uint32_t accumulation = 1; accumulation <= 2; accumulation++) {
        bp_spec spec = fast_spec();
        spec.accumulation = accumulation;
        spec.batch = 6 / accumulation;
        uint64_t wanted = digest_of(&spec);
        for (int kind = BP_POLICY_NONE; kind <= BP_POLICY_EVERY; kind++) {
            spec.policy = (bp_policy){.kind = (bp_policy_kind)kind, .every = 2};
            spec.poison = false;
            assert_true(!long_form() || digest_of(&spec) == wanted);
            spec.poison = true;
            assert_true(digest_of(&spec) == wanted);
        }
        spec.device_options.variant = "portable";
        assert_true((!long_form() && accumulation == 1) || digest_of(&spec) == wanted);
    }
}

static void results_depend_on_what_they_should(void **state)
{
    (void)state;
    bp_spec spec = fast_spec();
    uint64_t wanted = digest_of(&spec);
    assert_true(digest_of(&spec) == wanted);
    spec.seed++;
    assert_true(digest_of(&spec) != wanted);
    spec = fast_spec();
    spec.rate_options.warmup_steps++;
    assert_true(digest_of(&spec) != wanted);
    spec = fast_spec();
    SET_FAMILY(&spec.config, bp_transformer, residual_dropout, 0.2);
    assert_true(digest_of(&spec) != wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_poison_nor_policy_matters),
        cmocka_unit_test(results_depend_on_what_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
