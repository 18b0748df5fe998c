/* SPDX-License-Identifier: MIT */
/* Ranks of one lane compute all and share the state: sums in 8 bits of a table that two stages have
 * are made slice by slice there too, where sums in floats wait for the order of micro-batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/plan/compile.h"
#include "core/run/runtime.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

static bp_plan plan;

static void sums_of_one_lane(void **state)
{
    (void)state;
    for (uint32_t codes = 0; codes < 2; codes++) {
        bp_spec spec = model_fixture_spec();
        spec.config.vocabulary = 300000;
        SET_FAMILY(&spec.config, bp_transformer, layers, 1);
        spec.ranks = 2;
        spec.virtual_ranks = 1;
        spec.accumulation = 4;
        spec.sharing = BP_SHARING_GRADIENTS;
        spec.gradient_int8 = codes != 0;
        void *memory = plan_make(&plan, &spec);
        const uint64_t rows = plan.compile.slice_rows[1];
        free(memory);
        assert_true(codes != 0 ? rows < spec.config.vocabulary : rows == spec.config.vocabulary);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_one_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
