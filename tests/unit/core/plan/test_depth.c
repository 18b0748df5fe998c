/* SPDX-License-Identifier: MIT */
/* Memory against depth: the exponents that the theory of checkpointing gives, from plans, and no
 * wasted byte under any policy at any depth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/run/runtime.h"
#include "device/host/host.h"
#include "layers/families/gpt2.h"
#include "optim/rules.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"

static double activations(uint32_t layers, bp_policy_kind kind)
{
    static bp_plan plan;
    const bp_spec spec = {.model = &bp_model_gpt2,
                          .config =
                              config_with((bp_model_config){.vocabulary = 256, .positions = 128},
                                          OWN(bp_transformer, .width = 128, .layers = layers,
                                              .heads = 4, .norm_epsilon = 1e-5)),
                          .optimizer = &bp_optimizer_adamw,
                          .optimizer_options = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
                          .device = &bp_device_host,
                          .device_options = {.threads = 2},
                          .batch = 32,
                          .sequence = 128,
                          .accumulation = 1,
                          .loss_rows = 256,
                          .policy = {.kind = kind}};
    uint64_t bytes = plan_bytes(&spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
    free(memory);
    assert_true(plan.report.optimal);
    return (double)plan.report.activations_most;
}

/* Slope of log bytes over log layers by least squares. */
static double exponent(bp_policy_kind kind, uint32_t deepest)
{
    double x = 0.0;
    double y = 0.0;
    double xx = 0.0;
    double xy = 0.0;
    double n = 0.0;
    for (uint32_t layers = 4; layers <= deepest; layers *= 2) {
        double u = log((double)layers);
        double v = log(activations(layers, kind));
        x += u;
        y += v;
        xx += u * u;
        xy += u * v;
        n += 1.0;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

/* verifies compile-24.8910 */
static void test_exponents(void **state)
{
    (void)state;
    assert_true(fabs(exponent(BP_POLICY_NONE, 256) - 1.0) < 0.1);
    assert_true(fabs(exponent(BP_POLICY_SQRT, 256) - 0.5) < 0.1);
    assert_true(fabs(exponent(BP_POLICY_MEMORY_POOR, 64)) < 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exponents)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
