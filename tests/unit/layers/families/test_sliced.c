/* SPDX-License-Identifier: MIT */
/* Tables of words whose gradient is formed slice by slice, tied to the head or not, where the head
 * guesses words, judges samples, or makes vectors: the verifier sees that every slice is made of
 * what is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/run/runtime.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

static bp_plan plan;

static uint64_t arena_of(const bp_spec *spec)
{
    void *memory = plan_make(&plan, spec);
    free(memory);
    return plan.report.arena_bytes;
}

static bp_spec spec_of(const bp_model *model, bp_task task, bool untied)
{
    bp_spec spec = model_fixture_spec();
    spec.model = model;
    spec.config.vocabulary = 200000;
    spec.config.task = task;
    spec.config.classes = task == BP_TASK_CLASSES ? 3 : 0;
    if (task == BP_TASK_EMBEDDING) {
        spec.config.classes = 16;
        spec.config.pooling = BP_POOLING_MEAN;
        spec.texts = 2;
        spec.similarity = 20.0;
    }
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    SET_FAMILY(&spec.config, bp_transformer, untied, untied);
    if (model == &bp_model_llama) {
        SET_FAMILY(&spec.config, bp_llama_config, kv_heads, 1);
        SET_FAMILY(&spec.config, bp_llama_config, rope_theta, 1e4);
    }
    return spec;
}

/* verifies compile-8.b061 */
static void tables_in_slices(void **state)
{
    (void)state;
    static const bp_model *const models[] = {&bp_model_gpt2, &bp_model_llama};
    static const bp_task tasks[] = {BP_TASK_CAUSAL_LM, BP_TASK_CLASSES, BP_TASK_EMBEDDING};
    for (uint32_t i = 0; i < 12; i++) {
        bp_spec spec = spec_of(models[i % 2], tasks[i / 2 % 3], i / 6 != 0);
        const uint64_t whole = arena_of(&spec);
        spec.gradient_release = BP_RELEASE_EXACT;
        assert_true(arena_of(&spec) < whole);
        spec.gradient_release = BP_RELEASE_NONE;
        spec.gradient_int8 = true;
        spec.accumulation = 3;
        const uint64_t summed = arena_of(&spec);
        spec.gradient_int8 = false;
        assert_true(summed < arena_of(&spec));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_in_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
