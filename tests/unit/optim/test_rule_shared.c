/* SPDX-License-Identifier: MIT */
/* Rules with trust ratios on two ranks that share the state out: tensors of several units, of which
 * each rank has some, end as they do on one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "layers/families/transformer.h"
#include "optim/rules.h"
#include "tests/fixtures/ranks_fixture.h"
#include "tests/fixtures/model_fixture.h"

/* verifies ranks-3.d7df */
static void trust_ratios_of_shares(void **state)
{
    (void)state;
    static const bp_optimizer *const rules[] = {&bp_optimizer_lamb, &bp_optimizer_lars};
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        bp_spec spec = model_fixture_spec();
        SET_FAMILY(&spec.config, bp_transformer, width, 32);
        SET_FAMILY(&spec.config, bp_transformer, layers, 1);
        spec.config.vocabulary = 5003;
        spec.batch = 1;
        spec.accumulation = spec.virtual_ranks = 2;
        spec.optimizer = rules[r];
        spec.optimizer_options.trust_coefficient = 0.1;
        spec.poison = true;
        const uint64_t alone = ranks_fixture_result(&spec, 1, 0);
        spec.sharing = BP_SHARING_OPTIMIZER;
        assert_int_equal(ranks_fixture_result(&spec, 2, 0), alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trust_ratios_of_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
