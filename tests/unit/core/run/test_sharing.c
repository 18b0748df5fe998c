/* SPDX-License-Identifier: MIT */
/* Ranks that share out the state: after some steps it is that of one rank, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "layers/families/gpt2.h"
#include "optim/rules.h"
#include "tests/fixtures/ranks_fixture.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/share.h"

#define RANKS_MOST RANKS_FIXTURE_MOST
#define SMALL      65536 /* bytes of buckets of which a stage has many */

/* Trains on so many ranks and gives the digest, which they have to agree on. Two and four are held
 * up, and their messages cut and permuted: most of the time of eight would be that. */
static uint64_t play(const bp_spec *spec, uint32_t ranks)
{
    return ranks_fixture_result(spec, ranks, ranks < RANKS_MOST ? 5 : 0);
}

/* A model with tensors of several units, of which the last is short, and many small ones. */
static bp_spec large_spec(void)
{
    bp_spec spec = model_fixture_spec();
    bp_transformer sizes = {
        .width = 64, .layers = 2, .heads = 2, .norm_epsilon = 1e-5, .initializer_range = 0.02};
    spec.config.vocabulary = 2503;
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    spec.device_options = (bp_device_options){.threads = 1};
    spec.poison = true;
    return spec;
}

/* verifies ranks-3.d7df */
static void test_forms(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_adamw, &bp_optimizer_adamw_8bit};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        for (int form = 0; form < 4; form++) {
            bp_spec spec = large_spec();
            uint32_t cell = (uint32_t)form + (uint32_t)r;
            spec.optimizer = rules[r];
            spec.optimizer_options.max_grad_norm = form % 2 == 0 ? 0.0 : 0.5;
            spec.gradient_release = form >= 2 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
            if (form == 3) {
                spec.working = BP_BF16;
                spec.gradient = BP_BF16;
                spec.master = BP_MASTER_SPLIT;
            }
            const uint64_t alone = play(&spec, 1);
            for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
                for (int s = BP_SHARING_OPTIMIZER; s <= BP_SHARING_PARAMETERS; s++) {
                    if (cell++ % share_of(1, 8, 8) != 0) {
                        continue;
                    }
                    spec.sharing = (bp_sharing)s;
                    spec.gather_ahead = (uint32_t)form % 3;
                    spec.bucket_bytes = (form + s) % 2 == 0 ? SMALL : 0;
                    assert_int_equal(play(&spec, ranks), alone);
                }
            }
        }
    }
}

/* Trust ratios over shares of tensors are those of whole ones. */
/* verifies ranks-3.d7df */
static void trust_ratios(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_lamb, &bp_optimizer_lars_8bit};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        bp_spec spec = large_spec();
        spec.optimizer = rules[r];
        spec.optimizer_options.trust_coefficient = 0.1;
        spec.batch = 1;
        spec.accumulation = 8;
        spec.virtual_ranks = 8;
        spec.optimizer_options.max_grad_norm = r == 0 ? 0.5 : 0.0;
        spec.gradient_release = r == 0 ? BP_RELEASE_NONE : BP_RELEASE_EXACT;
        if (r == 1) {
            spec.working = BP_BF16;
            spec.gradient = BP_BF16;
            spec.master = BP_MASTER_SPLIT;
        }
        const uint64_t alone = play(&spec, 1);
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 4) {
            for (int s = BP_SHARING_OPTIMIZER; s <= BP_SHARING_PARAMETERS; s++) {
                if (!long_form() && ((ranks == 2) ^ ((size_t)s % 2 == r)) != 0) {
                    continue; /* each rule has each form on one number of ranks */
                }
                spec.sharing = (bp_sharing)s;
                assert_int_equal(play(&spec, ranks), alone);
            }
        }
    }
}

/* Lanes that ranks share, whatever else they share: the state of all lanes on one rank; arenas are
 * alike on every rank where nothing is shared out. */
/* verifies ranks-1.6186 */
static void virtual_ranks_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        bp_spec spec = large_spec();
        spec.batch = 1;
        spec.accumulation = 16;
        spec.virtual_ranks = 8;
        spec.optimizer = form < 2 ? &bp_optimizer_adamw : &bp_optimizer_adamw_8bit;
        spec.optimizer_options.max_grad_norm = form % 2 == 0 ? 0.0 : 0.5;
        spec.gradient_release = form == 1 || form == 2 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
        spec.policy.kind = form == 3 ? BP_POLICY_FULL : BP_POLICY_NONE;
        const uint64_t alone = play(&spec, 1);
        uint32_t cell = (uint32_t)form;
        for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
            const int most = ranks > 2 ? BP_SHARING_PARAMETERS : BP_SHARING_OPTIMIZER;
            for (int s = BP_SHARING_NONE; s <= most; s++) {
                if (cell++ % share_of(1, 8, 8) != 0) {
                    continue;
                }
                spec.sharing = (bp_sharing)s;
                spec.gather_ahead = (uint32_t)form;
                spec.bucket_bytes = (form + s + (int)ranks / 2) % 2 == 0 ? SMALL : 0;
                assert_int_equal(play(&spec, ranks), alone);
                for (uint32_t i = 1; s == BP_SHARING_NONE && i < ranks; i++) {
                    assert_int_equal(ranks_fixture_at(i)->plan.report.arena_bytes,
                                     ranks_fixture_at(0)->plan.report.arena_bytes);
                }
            }
            spec.sharing = BP_SHARING_NONE;
        }
        spec.virtual_ranks = 1;
        assert_int_not_equal(play(&spec, 1), alone); /* they are another sum */
    }
}

/* The base of adapters as codes, of which each rank has its units; scales are whole. */
/* verifies ranks-3.d7df */
static void codes_of_a_base(void **state)
{
    (void)state;
    static const bp_quantised codes[] = {BP_QUANTISED_NF4, BP_QUANTISED_NF4_DOUBLE,
                                         BP_QUANTISED_INT8};
    static const char *const all[] = {"all-linear"};
    for (uint32_t form = 0; form < 3; form++) {
        bp_spec spec = large_spec();
        const bp_transformer sizes = {
            .width = 192, .layers = 2, .heads = 2, .norm_epsilon = 1e-5, .initializer_range = 0.02};
        bp_family_config_set(&spec.config, &sizes, sizeof sizes);
        spec.lora = (bp_lora){.rank = 4, .alpha = 8, .targets = all, .target_count = 1};
        spec.quantised = codes[form];
        spec.optimizer = &bp_optimizer_adamw;
        spec.policy.kind = form == 1 ? BP_POLICY_FULL : BP_POLICY_NONE;
        spec.lora.magnitudes = form != 0;
        const uint64_t alone = play(&spec, 1);
        const uint32_t ranks = form == 1 ? 4 : 2;
        uint64_t weights[2] = {0};
        for (uint32_t shares = 0; shares < 2; shares++) {
            spec.sharing = shares == 1 ? BP_SHARING_PARAMETERS : BP_SHARING_GRADIENTS;
            spec.gather_ahead = form;
            assert_int_equal(play(&spec, ranks), alone);
            weights[shares] = ranks_fixture_at(0)->plan.report.class_most[BP_CLASS_WEIGHTS];
        }
        assert_true(weights[1] < weights[0]);
    }
}

/* A weight is gathered where it is used, whether its shares are equal or not. */
/* verifies ranks-3.d7df */
static void shares_need_no_second_place(void **state)
{
    (void)state;
    uint64_t arena[2];
    for (uint32_t i = 0; i < 2; i++) {
        bp_spec spec = model_fixture_spec();
        spec.config.vocabulary = 8192 - i; /* of width 16: two units, or some elements less */
        spec.batch = 1;
        spec.accumulation = spec.virtual_ranks = 2;
        const uint64_t alone = play(&spec, 1);
        spec.sharing = BP_SHARING_PARAMETERS;
        assert_int_equal(play(&spec, 2), alone);
        arena[i] = ranks_fixture_at(0)->plan.report.arena_bytes;
    }
    assert_true(arena[1] < arena[0] + (uint64_t)BP_SHARD_UNIT);
}

/* A run of a tensor that is longer than a bucket of 8 MiB goes round in two, of which the second
 * has something of one rank alone: 33 units of fp32, on two ranks. */
/* verifies ranks-3.d7df */
static void long_runs_go_round_in_buckets(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = 33 * BP_SHARD_UNIT / 16; /* of width 16 */
    spec.batch = 1;
    spec.accumulation = spec.virtual_ranks = 2;
    const uint64_t alone = play(&spec, 1);
    for (int s = BP_SHARING_OPTIMIZER; s <= BP_SHARING_GRADIENTS; s++) {
        spec.sharing = (bp_sharing)s;
        assert_int_equal(play(&spec, 2), alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes_of_a_base),
                                       cmocka_unit_test(shares_need_no_second_place),
                                       cmocka_unit_test(long_runs_go_round_in_buckets),
                                       cmocka_unit_test(test_forms),
                                       cmocka_unit_test(trust_ratios),
                                       cmocka_unit_test(virtual_ranks_on_any_number_of_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
