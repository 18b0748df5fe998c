/* SPDX-License-Identifier: MIT */
/* No wasted byte: plans of presets under every policy, with and without dropout, accumulation,
 * evaluation and gradient release, meet their lower bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/run/runtime.h"
#include "core/plan/schedule.h"
#include "device/host/host.h"
#include "layers/families/bert.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "layers/families/rnn.h"
#include "optim/rules.h"
#include "tests/fixtures/config.h"
#include "tools/formats/family/family.h"
#include "tools/formats/family/preset.h"
#include "tests/fixtures/plans/plan_bytes.h"

#define NODES 200000 /* of exact search, as the program asks for */

static const uint32_t list[] = {3, 5, 11};

static const bp_policy policies[] = {
    {.kind = BP_POLICY_NONE, .every = 0},
    {.kind = BP_POLICY_FULL, .every = 0},
    {.kind = BP_POLICY_SQRT, .every = 0},
    {.kind = BP_POLICY_EVERY, .every = 3},
    {.kind = BP_POLICY_LIST, .list = list, .list_count = 3},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_NORM},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ACTIVATION | BP_RECOMPUTE_ATTENTION},
    {.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_ALL},
    {.kind = BP_POLICY_MEMORY_POOR, .every = 0},
};
#define POLICIES (sizeof policies / sizeof policies[0])

static bp_spec spec_of(const bp_preset *preset)
{
    return (bp_spec){.model = preset->config.family->model,
                     .config = bp_preset_config(preset),
                     .optimizer = &bp_optimizer_adamw,
                     .optimizer_options = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
                     .device = &bp_device_host,
                     .device_options = {.threads = 2},
                     .sequence = preset->config.positions,
                     .plan_nodes = NODES,
                     .evaluate = true};
}

static void require_no_waste(const bp_spec *spec, const char *name)
{
    static bp_plan plan;
    uint64_t bytes = plan_bytes(spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    assert_int_equal(bp_plan_make(&plan, spec, memory, bytes), BP_OK);
    free(memory);
    uint64_t waste = plan.report.arena_bytes - plan.report.lower_bound_bytes;
    if (waste > 0) {
        fail_msg("%s %s batch %u x %u: %llu bytes above the bound", name,
                 bp_policy_name(spec->policy.kind), spec->batch, spec->accumulation,
                 (unsigned long long)waste);
    }
}

/* Bit 0 of a shape: dropout; bit 1: accumulation; bit 2: several sequences. */
static void check_plan(const char *name, bp_policy policy, uint32_t shape)
{
    bp_spec spec = spec_of(bp_preset_find(name));
    double dropout = (shape & 1) != 0 ? 0.1 : 0.0;
    spec.accumulation = (shape & 2) != 0 ? 3 : 1;
    spec.batch = (shape & 4) != 0 ? 4 : 1;
    SET_FAMILY(&spec.config, bp_transformer, embedding_dropout, dropout);
    SET_FAMILY(&spec.config, bp_transformer, residual_dropout, dropout);
    SET_FAMILY(&spec.config, bp_transformer, attention_dropout, dropout);
    spec.policy = policy;
    require_no_waste(&spec, name);
}

/* The long form takes every preset at every combination; the short one leaves out the deepest and
 * memory-poor of what is deep. */
static void check_preset(const char *name, bool everything)
{
    for (size_t p = 0; p < POLICIES; p++) {
        if (!everything && policies[p].kind == BP_POLICY_MEMORY_POOR) {
            continue;
        }
        for (uint32_t shape = 0; shape < 8; shape++) {
            check_plan(name, policies[p], shape);
        }
    }
}

/* verifies arena-11.fcf3 */
static void test_gpt2(void **state)
{
    (void)state;
    check_preset("gpt2", true);
}

/* verifies arena-11.fcf3 */
static void test_gpt2_medium(void **state)
{
    (void)state;
    check_preset("gpt2-medium", getenv("BP_TEST_LONG") != NULL);
}

/* verifies arena-11.fcf3 */
static void test_gpt2_deep(void **state)
{
    (void)state;
    if (getenv("BP_TEST_LONG") == NULL) {
        return;
    }
    check_preset("gpt2-large", true);
    check_preset("gpt2-xl", true);
}

/* Plans of one sequence whose gradients are as large as the tape that they replace: the hardest of
 * all, since nearly every section is nearly full. */
/* verifies arena-11.fcf3 */
static void test_gpt2_large_of_one_sequence(void **state)
{
    (void)state;
    for (uint32_t shape = 0; shape < 2; shape++) {
        check_plan("gpt2-large", (bp_policy){.kind = BP_POLICY_SQRT}, shape);
        check_plan("gpt2-large",
                   (bp_policy){.kind = BP_POLICY_SELECTIVE, .recompute = BP_RECOMPUTE_NORM}, shape);
    }
}

/* Short sequences with the gradients of a large vocabulary: full at the loss and again in the
 * backward of the lowest block, and what lives at both times must fit at both. */
/* verifies arena-11.fcf3 */
static void test_bert(void **state)
{
    (void)state;
    for (size_t p = 0; p < POLICIES; p++) {
        for (uint32_t batch = 1; batch <= 4; batch *= 4) {
            bp_spec spec = spec_of(bp_preset_find("bert-base"));
            spec.policy = policies[p];
            spec.batch = batch;
            spec.accumulation = 1;
            spec.sequence /= batch;
            require_no_waste(&spec, "bert-base");
        }
    }
}

/* Released gradients die at once, so that nothing hangs. */
/* verifies arena-11.fcf3 */
static void test_release(void **state)
{
    (void)state;
    for (size_t p = 0; p < POLICIES; p++) {
        for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
            bp_spec spec = spec_of(bp_preset_find("gpt2"));
            spec.policy = policies[p];
            spec.batch = 4;
            spec.accumulation = accumulation;
            spec.gradient_release = BP_RELEASE_EXACT;
            require_no_waste(&spec, "gpt2 released");
        }
    }
}

/* Chains of equal stages with few sizes, computed again and again. */
/* verifies arena-11.fcf3 */
static void test_recurrent(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny-gru", "tiny-lstm"};
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
            bp_spec spec = spec_of(bp_preset_find(names[i]));
            spec.policy = (bp_policy){.kind = BP_POLICY_MEMORY_POOR};
            spec.sequence = 256;
            SET_FAMILY(&spec.config, bp_rnn_config, chunks, 16);
            spec.batch = 4;
            spec.accumulation = accumulation;
            require_no_waste(&spec, names[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),      cmocka_unit_test(test_gpt2_medium),
        cmocka_unit_test(test_gpt2_deep), cmocka_unit_test(test_gpt2_large_of_one_sequence),
        cmocka_unit_test(test_bert),      cmocka_unit_test(test_release),
        cmocka_unit_test(test_recurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
