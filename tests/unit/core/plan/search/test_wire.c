/* SPDX-License-Identifier: MIT */
/* What ranks send in a step, counted of one rank's plan, is the mean of what the plans of all send;
 * its seconds are those of the bytes where nothing else takes time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <math.h>

#include "core/plan/search/wire.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/plan_made.h"

enum { RANKS = 4 };

static bp_wire_clocks clocks;

/* The wire of a rank's plan, with so many ranks to a host. */
static bp_wire wire_of(bp_sharing sharing, uint32_t rank, uint32_t host, double bandwidth,
                       double latency)
{
    bp_plan plan = {.made = false};
    bp_spec spec = model_fixture_spec();
    bp_wire wire = {.ranks = RANKS,
                    .host = host,
                    .link = {{.peers = host - 1, .bandwidth = bandwidth, .latency = latency},
                             {.peers = RANKS - host, .bandwidth = bandwidth, .latency = latency}}};
    spec.ranks = spec.virtual_ranks = spec.accumulation = RANKS;
    spec.rank = rank;
    spec.sharing = sharing;
    void *memory = plan_make(&plan, &spec);
    bp_wire_count(&plan, &wire);
    bp_wire_time(&plan, &wire, &clocks);
    free(memory);
    return wire;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* verifies ranks-21.60c4 */
static void bytes_of_links_are_the_mean_of_all_ranks(void **state)
{
    (void)state;
    for (uint32_t sharing = 0; sharing < BP_SHARINGS; sharing++) {
        double sent = 0.0;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            sent += wire_of((bp_sharing)sharing, rank, 2, 1.0, 0.0).sent / RANKS;
        }
        const bp_wire one = wire_of((bp_sharing)sharing, 0, 2, 1.0, 0.0);
        assert_true(one.calls > 0 && one.computing > 0.0 && sent > 0.0);
        assert_true(near(one.link[BP_WIRE_INSIDE].bytes + one.link[BP_WIRE_BETWEEN].bytes, sent));
        assert_true(near(one.link[BP_WIRE_BETWEEN].bytes, 2.0 * one.link[BP_WIRE_INSIDE].bytes));
    }
}

/* Nothing shared, one host: all pieces are alike, so that seconds are bytes by bandwidth, and a
 * latency adds at most itself for each call. */
/* verifies ranks-21.60c4 */
static void seconds_are_bytes_by_bandwidth(void **state)
{
    (void)state;
    const bp_wire at_once = wire_of(BP_SHARING_NONE, 0, RANKS, 1000.0, 0.0);
    const bp_wire later = wire_of(BP_SHARING_NONE, 0, RANKS, 1000.0, 0.5);
    assert_true(near(at_once.exchange, at_once.sent / 1000.0));
    assert_true(later.exchange > at_once.exchange);
    assert_true(later.exchange <= at_once.exchange + 0.5 * (double)later.calls + 1e-9);
    assert_true(
        near(wire_of(BP_SHARING_NONE, 0, RANKS, 2000.0, 0.0).exchange, at_once.exchange / 2.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_links_are_the_mean_of_all_ranks),
        cmocka_unit_test(seconds_are_bytes_by_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
