/* SPDX-License-Identifier: MIT */
/* Plans of what is shared out among ranks, or below, in forms that no preset has: tensors that fill
 * several buckets, frozen ones, codes that do not divide; and with every single row of the tables
 * missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/optimizer.h"
#include "core/run/runtime.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/short_tables.h"

static bp_plan plan;

/* A plan, which the verifier has been through; its arena's bytes. */
static uint64_t plan_of(const bp_spec *spec)
{
    const uint64_t bytes = plan_bytes(spec);
    assert_true(bytes != BP_SIZE_INVALID);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    const bp_status status = bp_plan_make(&plan, spec, memory, bytes);
    free(memory);
    if (status != BP_OK) {
        fail_msg("%s %s", plan.error.text, plan.error.name);
    }
    return plan.report.arena_bytes;
}

static bp_spec spec_of(uint32_t vocabulary, uint32_t width)
{
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = vocabulary;
    SET_FAMILY(&spec.config, bp_transformer, width, width);
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    spec.ranks = 2;
    spec.virtual_ranks = 2;
    spec.accumulation = 2;
    return spec;
}

/* The token embedding of which some are trained stays whole, and what is behind a table that fills
 * buckets goes into one of its own. */
static void tables_behind_others(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    static const uint32_t chosen[] = {3, 70};
    uint64_t whole[2];
    for (uint32_t rows = 0; rows < 2; rows++) {
        bp_spec spec = spec_of(40000, 80);
        spec.model = &bp_model_llama;
        SET_FAMILY(&spec.config, bp_transformer, untied, true);
        SET_FAMILY(&spec.config, bp_llama_config, kv_heads, 2);
        SET_FAMILY(&spec.config, bp_llama_config, rope_theta, 1e4);
        spec.sharing = BP_SHARING_PARAMETERS;
        (void)plan_of(&spec);
        spec.sharing = BP_SHARING_OPTIMIZER;
        (void)plan_of(&spec);
        spec.sharing = BP_SHARING_PARAMETERS;
        spec.lora = (bp_lora){.rank = 2,
                              .alpha = 4.0,
                              .targets = all,
                              .target_count = 1,
                              .tokens = chosen,
                              .token_count = rows == 0 ? 0 : 2};
        whole[rows] = plan_of(&spec);
    }
    assert_true(whole[1] > whole[0]);
}

/* The weights of two million elements and more go round in pieces of buckets, and each rank has
 * half of the state. */
/* verifies compile-12.e069 */
static void tables_that_fill_buckets(void **state)
{
    (void)state;
    static const bp_parameter_rule frozen[] = {{.glob = "*wpe*", .kind = BP_RULE_FREEZE},
                                               {.glob = "*.h.0.ln*", .kind = BP_RULE_FREEZE}};
    for (uint32_t sharing = BP_SHARING_NONE; sharing < BP_SHARINGS; sharing++) {
        for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
            for (uint32_t rules = 0; rules <= 2; rules += 2) {
                bp_spec spec = spec_of(40000, 80);
                spec.ranks = ranks;
                spec.rank = ranks - 1;
                spec.virtual_ranks = spec.accumulation = ranks;
                spec.rules = frozen;
                spec.rule_count = rules;
                spec.sharing = (bp_sharing)sharing;
                const uint64_t one = plan_of(&spec);
                spec.sharing = BP_SHARING_NONE;
                assert_true(sharing == BP_SHARING_NONE || one < plan_of(&spec));
            }
        }
    }
}

/* Codes of an odd number of bytes move as words nowhere, so that every rank has all of them. */
/* verifies compile-12.e069 */
static void codes_that_do_not_divide(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    for (uint32_t width = 256; width <= 257; width++) {
        bp_spec spec = spec_of(37, width);
        SET_FAMILY(&spec.config, bp_transformer, heads, 1);
        spec.quantised = BP_QUANTISED_INT8;
        spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
        spec.sharing = BP_SHARING_NONE;
        const uint64_t one = plan_of(&spec);
        spec.sharing = BP_SHARING_PARAMETERS;
        const uint64_t shared = plan_of(&spec);
        assert_true(width == 257 || shared < one);
    }
}

/* Where the sums of a stage travel in several buckets, those of the stage before it amid the stage.
 */
/* verifies compile-6.ea09 */
static void rows_of_buckets_may_be_missing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        bp_spec spec = spec_of(37, i == 0 ? 32 : 16);
        SET_FAMILY(&spec.config, bp_transformer, layers, 2);
        spec.sharing = i == 0 ? BP_SHARING_NONE : BP_SHARING_GRADIENTS;
        spec.bucket_bytes = i == 0 ? 512 : 2048;
        assert_true(short_tables_refused(&spec, "buckets", 0, UINT32_MAX / 8));
    }
}

/* Of one lane each rank computes all, and only the state is shared: each folds its gradients into
 * its shares of the moments, and weights go round once, when they are updated. */
static void shares_that_are_folded_into(void **state)
{
    (void)state;
    uint32_t gathered[2] = {0, 0};
    for (uint32_t folds = 0; folds < 2; folds++) {
        bp_spec spec = spec_of(4099, 16);
        spec.virtual_ranks = 1;
        spec.sharing = BP_SHARING_OPTIMIZER;
        spec.accumulation = 4;
        spec.gradient_release = folds != 0 ? BP_RELEASE_ADAMA : BP_RELEASE_EXACT;
        const uint64_t bytes = plan_bytes(&spec);
        void *memory = malloc((size_t)bytes);
        assert_non_null(memory);
        assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
        for (uint32_t i = 0; i < plan.graph.used.ops; i++) {
            gathered[folds] += plan.graph.ops[i].kernel == BP_KERNEL_gather_pieces_begin;
        }
        free(memory);
    }
    assert_true(gathered[0] > 0 && gathered[1] == gathered[0]);
}

/* Every row of the tables may be the one that is missing. */
/* verifies compile-6.ea09 */
static void every_single_row_may_be_missing(void **state)
{
    (void)state;
    static const char *const all[] = {"all-linear"};
    for (uint32_t i = 0; i < 10; i++) {
        bp_spec spec = spec_of(i < 6 ? 4099 : 37, 16);
        bp_error error = {0};
        if (i < 6) {
            spec.sharing = i % 3 == 0 ? BP_SHARING_GRADIENTS : BP_SHARING_PARAMETERS;
            spec.gather_ahead = i % 2 == 0 ? 0 : 2;
            spec.rank = i % 2;
            spec.evaluate = true;
            spec.gradient_release = i == 4 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
            spec.optimizer_options.max_grad_norm = i > 2 ? 1.0 : 0.0;
        } else {
            spec.ranks = spec.virtual_ranks = spec.accumulation = 1;
            SET_FAMILY(&spec.config, bp_transformer, width, 64);
            spec.offload = (bp_offload){.bases = i % 2 == 0 ? BP_OFFLOAD_ALL : 0,
                                        .states = i % 2 == 0 ? 0 : BP_OFFLOAD_ALL,
                                        .weights = i == 9 ? BP_OFFLOAD_ALL : 0,
                                        .ahead = 2};
            if (i % 2 == 0) {
                spec.lora = (bp_lora){.rank = 2, .alpha = 4.0, .targets = all, .target_count = 1};
            }
            spec.generate_context = i == 8 ? 8 : 0;
            spec.evaluate = true;
        }
        if (bp_spec_check(&spec, &error) != BP_OK) {
            fail_msg("%u: %s %s", i, error.text, error.name);
        }
        assert_true(short_tables_refused(&spec, "every row", 0, UINT32_MAX / 8));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_that_fill_buckets),
        cmocka_unit_test(tables_behind_others),
        cmocka_unit_test(codes_that_do_not_divide),
        cmocka_unit_test(every_single_row_may_be_missing),
        cmocka_unit_test(rows_of_buckets_may_be_missing),
        cmocka_unit_test(shares_that_are_folded_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
