/* SPDX-License-Identifier: MIT */
/* What ranks compare before they begin: of programs that share out the state the tensors and the
 * calls of the fabric, and not which rank it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "layers/families/transformer.h"
#include "tests/fixtures/plans/plan_made.h"
#include "tests/fixtures/model_fixture.h"

static uint64_t digest_of(uint32_t rank, uint64_t bucket_bytes)
{
    static bp_plan plan;
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2;
    spec.rank = rank;
    spec.sharing = BP_SHARING_GRADIENTS;
    spec.bucket_bytes = bucket_bytes;
    void *memory = plan_make(&plan, &spec);
    const uint64_t digest = bp_graph_digest(&plan.graph);
    free(memory);
    return digest;
}

/* Buckets of another size are other calls of the same tensors. */
static void calls_have_to_be_the_same(void **state)
{
    (void)state;
    const uint64_t digest = digest_of(0, 512);
    assert_true(digest_of(1, 512) == digest);
    assert_true(digest_of(0, 2048) != digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_have_to_be_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
