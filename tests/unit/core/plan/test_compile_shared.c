/* SPDX-License-Identifier: MIT */
/* What is drawn whole and kept in part: two ranks that share out 16-bit weights and their masters
 * begin, and go on, as one does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "layers/families/transformer.h"
#include "tests/fixtures/ranks_fixture.h"
#include "tests/fixtures/model_fixture.h"

/* verifies ranks-3.d7df */
static void parts_of_what_is_drawn(void **state)
{
    (void)state;
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 32);
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    spec.config.vocabulary = 5003;
    spec.batch = 1;
    spec.accumulation = spec.virtual_ranks = 2;
    spec.working = spec.gradient = BP_BF16;
    spec.master = BP_MASTER_SPLIT;
    spec.poison = true;
    const uint64_t alone = ranks_fixture_result(&spec, 1, 0);
    for (int s = BP_SHARING_OPTIMIZER; s <= BP_SHARING_PARAMETERS; s++) {
        spec.sharing = (bp_sharing)s;
        spec.bucket_bytes = s == BP_SHARING_GRADIENTS ? 2048 : 0;
        assert_int_equal(ranks_fixture_result(&spec, 2, 0), alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_what_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
