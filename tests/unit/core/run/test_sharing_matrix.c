/* SPDX-License-Identifier: MIT */
/* Families by forms of sharing by checkpoint policies by precisions, on 2, 4 and 8 ranks: the state
 * of one rank, in arenas as large as planned. BP_TEST_LONG=1 takes all of these cells,
 * BP_TEST_WHOLE=1 a square, in which every family meets every form in every precision, and every
 * two of the others meet too; otherwise every other precision of a family is left out. Messages
 * that are lost, come twice or are changed are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "layers/families/llama.h"
#include "layers/families/mlp_model.h"
#include "optim/rules.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/ranks_fixture.h"
#include "tests/fixtures/share.h"
#include "tests/fixtures/plans/spec_case.h"

static const char *const families[] = {"gpt2", "llama",   "qwen3", "gemma", "neox",   "bert",
                                       "mlp",  "electra", "mpnet", "rnn",   "deberta"};
static const bp_policy policies[] = {{.kind = BP_POLICY_NONE},
                                     {.kind = BP_POLICY_FULL},
                                     {.kind = BP_POLICY_MEMORY_POOR},
                                     {.kind = BP_POLICY_SQRT},
                                     {.kind = BP_POLICY_SELECTIVE, .recompute = 7}};
enum { PLAIN, SPLIT, MASTERS, HALF, PRECISIONS };

#define COUNT(of) ((uint32_t)(sizeof(of) / sizeof((of)[0])))

/* A tensor of more than one unit in each, in some of two whole ones, and as many lanes as there can
 * be ranks. */
static bp_spec family_spec(const char *family)
{
    char name[SPEC_CASE_NAME], wanted[SPEC_CASE_NAME];
    bp_spec spec;
    uint32_t i = 0;
    snprintf(wanted, sizeof wanted, "%s plain", family);
    while (i < spec_case_count() && !(spec_case(i, &spec, name) && strcmp(name, wanted) == 0)) {
        i++;
    }
    assert_true(i < spec_case_count());
    if (spec.model == &bp_model_mlp) {
        SET_FAMILY(&spec.config, bp_mlp_config, hidden_sizes[0], 4200);
    } else {
        spec.config.vocabulary = spec.model == &bp_model_llama ? 8192 : 4099; /* equal shares */
    }
    spec.optimizer = &bp_optimizer_adamw;
    spec.optimizer_options.max_grad_norm = 0.5;
    spec.device_options = (bp_device_options){.threads = 1};
    spec.batch = 1;
    spec.accumulation = 8;
    spec.virtual_ranks = RANKS_FIXTURE_MOST;
    return spec;
}

/* Rows of numbers are read in fp32. */
static void set_precision(bp_spec *spec, int precision)
{
    if (precision == PLAIN || spec->model == &bp_model_mlp) {
        return;
    }
    spec->working = spec->gradient = precision == HALF ? BP_F16 : BP_BF16;
    spec->master = precision == SPLIT ? BP_MASTER_SPLIT : BP_MASTER_FP32;
    spec->optimizer = precision == SPLIT ? &bp_optimizer_adamw_8bit : &bp_optimizer_adamw;
    if (precision == HALF) {
        spec->scaling = (bp_scaling){BP_SCALING_DYNAMIC, 65536.0, 2.0, 0.5, 2, 1, 0.0};
    }
}

static bp_spec cell_spec(uint32_t family, uint32_t policy, int precision)
{
    bp_spec spec = family_spec(families[family]);
    set_precision(&spec, precision);
    spec.policy = policies[policy];
    spec.gradient_release = (family + policy) % 2 == 1 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
    return spec;
}

/* Every form of sharing of a cell on so many ranks. */
static void compare(bp_spec spec, uint64_t alone, int sharing, uint32_t ranks)
{
    const ranks_fixture_messages messages = {.seed = ranks == 2 ? 3 : 0, .checked = ranks == 4};
    spec.sharing = (bp_sharing)sharing;
    spec.gather_ahead = ranks / 4;
    ranks_fixture_play(&spec, ranks, &messages);
    if (ranks_fixture_digest(ranks) != alone) {
        fail_msg("%s, policy %d, form %d, type %d, %u ranks: not the state of one rank",
                 spec.model->name, (int)spec.policy.kind, sharing, (int)spec.working, ranks);
    }
}

/* verifies ranks-3.d7df */
static void families_by_forms_by_policies_by_precisions(void **state)
{
    (void)state;
    const bool all = getenv("BP_TEST_LONG") != NULL;
    const uint32_t every = !long_form() ? 3 : getenv("BP_TEST_SHORT") != NULL ? 2 : 1;
    for (uint32_t f = 0; f < COUNT(families); f++) {
        for (int t = 0; t < PRECISIONS; t++) {
            for (uint32_t p = 0; p < COUNT(policies); p++) {
                const bool square = p == (f + (uint32_t)t) % COUNT(policies);
                if (!all && (!square || (f + (uint32_t)t) % every != 0)) {
                    continue;
                }
                const bp_spec spec = cell_spec(f, p, t);
                const uint64_t alone = ranks_fixture_result(&spec, 1, 0);
                for (int s = BP_SHARING_NONE; s <= BP_SHARING_PARAMETERS; s++) {
                    const uint32_t one = 2u << (f + p + (uint32_t)(t + s)) % 3;
                    for (uint32_t ranks = 2; ranks <= RANKS_FIXTURE_MOST; ranks *= 2) {
                        if (all || ranks == one) {
                            compare(spec, alone, s, ranks);
                        }
                    }
                }
            }
        }
    }
}

/* verifies compile-1.aa19 */
static void three_ranks_are_refused(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < COUNT(families); f++) {
        bp_spec spec = cell_spec(f, 0, PLAIN);
        bp_error error = {0};
        spec.ranks = 3;
        assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
        assert_non_null(strstr(error.text, "the number of ranks has to divide"));
    }
}

/* The rank that gets such a message ends, or what it got was what it should have been: the one
 * before it was the same, or there were not so many. Nobody ends well with another state. */
/* verifies ranks-6.335d */
static void faults_are_never_used(void **state)
{
    (void)state;
    uint32_t refused = 0, played = 0;
    for (uint32_t f = 0; f < COUNT(families); f += 2) {
        bp_spec spec = cell_spec(f, f % COUNT(policies), (int)(f / 2 % PRECISIONS));
        const uint64_t alone = ranks_fixture_result(&spec, 1, 0);
        for (uint32_t k = 0; k < long_or(9, 5); k++) {
            const ranks_fixture_messages messages = {
                .checked = true,
                .fault = (bp_threads_fault)(BP_THREADS_DROPPED + k % 3),
                .fault_rank = (f + k) % 4,
                .fault_at = k * 5 + f};
            spec.sharing = (bp_sharing)(BP_SHARING_NONE + (k + f / 2) % 4);
            ranks_fixture_play(&spec, 4, &messages);
            const bool found = ranks_fixture_at(messages.fault_rank)->status == BP_ERR_FABRIC;
            for (uint32_t i = 0; i < 4; i++) {
                assert_true(ranks_fixture_at(i)->status == BP_ERR_FABRIC ||
                            ranks_fixture_at(i)->digest == alone);
                assert_true(found || ranks_fixture_at(i)->status == BP_OK);
            }
            refused += found;
            played++;
        }
    }
    assert_true(refused * 10 >= played * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_ranks_are_refused),
        cmocka_unit_test(faults_are_never_used),
        cmocka_unit_test(families_by_forms_by_policies_by_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
