/* SPDX-License-Identifier: MIT */
/* Sharing over ranks: rows of ranks are those of each rank's own plan, the form that is chosen is
 * what a comparison of all four gives, weights are gathered as far ahead as fits, and everything is
 * given back, also where memory is refused on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "core/plan/search/share.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/lender.h"
#include "tests/fixtures/plans/plan_made.h"

enum { RANKS = 4 };

static bp_wire_clocks clocks;

static bp_spec spec_of(bp_sharing sharing)
{
    bp_spec spec = model_fixture_spec();
    spec.ranks = spec.virtual_ranks = spec.accumulation = RANKS;
    spec.sharing = sharing;
    return spec;
}

/* Bytes of all tensors of which ranks have parts. */
static double shared_bytes(const bp_graph *graph)
{
    double bytes = 0.0;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        bytes += (double)graph->buffers[i].part.whole;
    }
    return bytes;
}

/* verifies ranks-20.c1b8 */
static void rows_are_the_plans_of_each_rank(void **state)
{
    (void)state;
    for (uint32_t sharing = 0; sharing < BP_SHARINGS; sharing++) {
        bp_share_rank rank[RANKS], again[RANKS];
        bp_error error = {.code = BP_OK};
        double owned = 0.0, all = 0.0;
        for (uint32_t from = 0; from < RANKS; from += RANKS - 1) {
            bp_plan made = {.made = false};
            bp_spec spec = spec_of((bp_sharing)sharing);
            spec.rank = from;
            void *memory = plan_make(&made, &spec);
            memset(from == 0 ? rank : again, 0xA5, sizeof rank);
            assert_int_equal(
                bp_share_ranks(&made, &lender_counted, from == 0 ? rank : again, &error), BP_OK);
            free(memory);
        }
        for (uint32_t i = 0; i < RANKS; i++) {
            bp_plan one = {.made = false};
            bp_spec spec = spec_of((bp_sharing)sharing);
            bp_wire wire = {.ranks = RANKS, .host = RANKS};
            spec.rank = i;
            void *memory = plan_make(&one, &spec);
            bp_wire_count(&one, &wire);
            assert_true(rank[i].arena_bytes == one.report.arena_bytes);
            assert_true(fabs(rank[i].sent_bytes - wire.sent) < 0.5);
            assert_memory_equal(rank[i].class_most, one.report.class_most,
                                sizeof rank[i].class_most);
            assert_true(again[i].arena_bytes == rank[i].arena_bytes);
            assert_true(again[i].owned_bytes == rank[i].owned_bytes);
            owned += (double)rank[i].owned_bytes;
            all = shared_bytes(&one.graph);
            free(memory);
        }
        assert_true((all > 0.0) == (sharing != BP_SHARING_NONE));
        assert_true(fabs(owned - all) < 0.5);
        assert_int_equal(lender_counts.lent, 0);
    }
}

/* verifies ranks-20.c1b8 */
static void the_largest_rank_owns_most(void **state)
{
    (void)state;
    for (uint32_t sharing = 0; sharing < BP_SHARINGS; sharing++) {
        bp_share_rank rank[RANKS];
        bp_error error = {.code = BP_OK};
        bp_plan made = {.made = false};
        bp_spec spec = spec_of((bp_sharing)sharing);
        void *memory = plan_make(&made, &spec);
        assert_int_equal(bp_share_ranks(&made, &lender_counted, rank, &error), BP_OK);
        free(memory);
        assert_int_equal(bp_share_largest(&spec, &lender_counted, &error), BP_OK);
        assert_true(spec.rank < RANKS);
        for (uint32_t i = 0; i < RANKS; i++) {
            assert_true(rank[spec.rank].owned_bytes >= rank[i].owned_bytes);
        }
    }
}

/* What an application has: a spec, a choice for it, and a budget that the choice keeps. */
typedef struct share_case {
    bp_spec spec;
    bp_choice choice;
    bp_error error;
    uint64_t arena;
    bool given; /* the policy is */
} share_case;

static bp_status choose(void *user)
{
    share_case *c = user;
    bp_fit_request request = {.spec = c->spec, .budget = c->arena, .rates = BP_RATES_DEFAULT};
    request.free_policy = !c->given;
    if (c->arena == 0) {
        return BP_OK;
    }
    BP_TRY(bp_share_fit(&c->choice, &request, NULL, NULL, &lender_counted, NULL, &c->error));
    c->spec = c->choice.fit.spec;
    c->spec.rank = 0;
    return BP_OK;
}

static bp_share_search search_of(share_case *c, double bandwidth)
{
    return (bp_share_search){
        .spec = &c->spec,
        .choice = &c->choice,
        .error = &c->error,
        .choose = choose,
        .user = c,
        .arena = c->arena,
        .wire = {.ranks = RANKS,
                 .host = RANKS,
                 .link = {{.peers = RANKS - 1, .bandwidth = bandwidth, .latency = 1e-5},
                          {.peers = 0, .bandwidth = bandwidth, .latency = 1e-5}}},
        .memory = &lender_counted,
        .clocks = &clocks};
}

static share_case find(uint64_t arena, double bandwidth, bp_share_choice *all)
{
    share_case c = {.spec = spec_of(BP_SHARING_NONE), .arena = arena};
    const bp_share_search search = search_of(&c, bandwidth);
    assert_int_equal(bp_share_find(&search, all), BP_OK);
    bp_choice_end(&c.choice, &lender_counted);
    assert_int_equal(lender_counts.lent, 0);
    return c;
}

/* The largest arena of all ranks, each planned by itself. */
static uint64_t most_of(const bp_spec *given, uint32_t *rank)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < given->ranks; i++) {
        bp_plan one = {.made = false};
        bp_spec spec = *given;
        spec.rank = i;
        free(plan_make(&one, &spec));
        *rank = one.report.arena_bytes > most ? i : *rank;
        most = one.report.arena_bytes > most ? one.report.arena_bytes : most;
    }
    return most;
}

/* Gradients leave in buckets, of which the owner of most has not the most at a time. */
static bp_spec uneven_spec(void)
{
    bp_spec spec = spec_of(BP_SHARING_GRADIENTS);
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2 * RANKS;
    spec.config.vocabulary = 256;
    spec.config.positions = spec.sequence = 64;
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    return spec;
}

/* A choice in a budget against plans of all ranks. Whether it fits. */
static bool fit_is_planned(uint64_t arena, uint32_t owner, bool *other)
{
    bp_choice choice;
    uint32_t rank = 0;
    bp_error error = {.code = BP_OK};
    const bp_fit_request request = {
        .spec = uneven_spec(), .budget = arena, .free_policy = true, .rates = BP_RATES_DEFAULT};
    assert_int_equal(bp_share_fit(&choice, &request, NULL, NULL, &lender_counted, NULL, &error),
                     BP_OK);
    const uint64_t most = most_of(&choice.fit.spec, &rank);
    assert_true(choice.fit.best.arena_bytes == most);
    assert_int_equal(choice.fit.spec.rank, rank);
    assert_int_equal(choice.fits, most <= arena);
    bp_choice_end(&choice, &lender_counted);
    assert_int_equal(lender_counts.lent, 0);
    *other = rank != owner;
    return choice.fits;
}

/* verifies ranks-20.c1b8 */
static void what_is_chosen_fits_on_every_rank(void **state)
{
    (void)state;
    uint32_t others = 0, fitting = 0, rank = 0;
    bp_error error = {.code = BP_OK};
    bp_spec spec = uneven_spec(), owner = spec;
    bool other;
    const uint64_t all = most_of(&spec, &rank);
    spec.policy.kind = BP_POLICY_FULL;
    const uint64_t full = most_of(&spec, &rank);
    assert_int_equal(bp_share_largest(&owner, &lender_counted, &error), BP_OK);
    for (uint64_t arena = full / 4 * 3; arena <= all; arena += (all - full / 4 * 3) / 10) {
        const bool fits = fit_is_planned(arena, owner.rank, &other);
        assert_true(fits || arena < full);
        others += other ? 1 : 0;
        fitting += fits ? 1 : 0;
    }
    assert_true(others > 4 && fitting > 1 && fitting < 11); /* the owner's is not the largest */
    assert_true(fit_is_planned(2 * all, owner.rank, &other) && other);
}

/* What a form takes by plans of this test's own. */
static void form_is_planned(const bp_share_choice *all, bp_sharing form)
{
    uint32_t rank;
    const bp_spec spec = spec_of(form);
    assert_true(all->form[form].known && all->form[form].fits);
    assert_true(all->form[form].arena_bytes == most_of(&spec, &rank));
}

/* The form of the rule in share.h, by looking at all. */
static uint32_t best_of(const bp_share_choice *all)
{
    uint32_t best = 0;
    bool any = false;
    for (uint32_t i = 0; i < BP_SHARINGS; i++) {
        any = any || all->form[i].fits;
    }
    for (uint32_t i = 1; i < BP_SHARINGS; i++) {
        const bp_share_try *a = &all->form[i], *b = &all->form[best];
        const bool less = any ? a->computing + a->exchange < b->computing + b->exchange
                              : a->arena_bytes < b->arena_bytes;
        best = (any && !b->fits && a->fits) || ((!any || a->fits) && less) ? i : best;
    }
    return best;
}

/* verifies ranks-20.c1b8 */
static void the_form_is_the_fastest_that_fits(void **state)
{
    (void)state;
    bp_share_choice all;
    share_case c = find(0, 1e9, &all); /* no limit: what shares nothing is as fast as any */
    uint64_t least = UINT64_MAX, most = 0;
    assert_true(all.made);
    for (uint32_t i = 0; i < BP_SHARINGS; i++) {
        const uint64_t bytes = all.form[i].arena_bytes;
        form_is_planned(&all, (bp_sharing)i);
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    assert_int_equal(all.chosen, best_of(&all));
    assert_int_equal(c.spec.sharing, all.chosen);
    assert_true(all.form[BP_SHARING_NONE].arena_bytes == most && least < most);
    bool shared = false;
    for (uint64_t arena = least / 8 * 5; arena < most; arena += (most - least / 8 * 5) / 5) {
        c = find(arena, 1e9, &all);
        assert_int_equal(all.chosen, best_of(&all));
        assert_int_equal(c.spec.sharing, all.chosen);
        assert_int_equal(c.choice.fits, all.form[all.chosen].fits);
        shared = shared || (all.form[all.chosen].fits && all.chosen != BP_SHARING_NONE);
    }
    assert_true(shared);
    c = find(1, 1e9, &all); /* nothing fits */
    assert_int_equal(all.chosen, best_of(&all));
    assert_false(all.form[all.chosen].fits);
}

/* Weights and a table of many rows are most of its arena, so that gathering ahead shows. */
static bp_spec deep_spec(void)
{
    bp_spec spec = spec_of(BP_SHARING_PARAMETERS);
    SET_FAMILY(&spec.config, bp_transformer, width, 64);
    SET_FAMILY(&spec.config, bp_transformer, layers, 4);
    spec.policy.kind = BP_POLICY_FULL;
    spec.batch = 1;
    spec.loss_rows = 4;
    spec.config.vocabulary = 4000;
    spec.ranks = spec.virtual_ranks = spec.accumulation = 2 * RANKS;
    return spec;
}

/* verifies ranks-20.c1b8 */
static void weights_are_gathered_as_far_ahead_as_fits(void **state)
{
    (void)state;
    uint64_t arena[3];
    for (uint32_t ahead = 0; ahead < 3; ahead++) {
        bp_spec spec = deep_spec();
        uint32_t rank;
        spec.gather_ahead = ahead;
        arena[ahead] = most_of(&spec, &rank);
    }
    assert_true(arena[0] <= arena[1] && arena[1] < arena[2]);
    for (uint32_t fits = 0; fits < 3; fits++) {
        share_case c = {.spec = deep_spec(), .arena = arena[fits], .given = true};
        bp_share_search search = search_of(&c, 1e9);
        search.free_ahead = true;
        assert_int_equal(bp_share_ahead(&search), BP_OK);
        const uint32_t chosen = c.spec.gather_ahead;
        assert_true(c.choice.fits && c.choice.fit.best.arena_bytes <= arena[fits]);
        assert_true(arena[chosen] <= arena[fits]);
        assert_true(chosen == 2 || arena[chosen + 1] > arena[fits]);
        bp_choice_end(&c.choice, &lender_counted);
        search.free_ahead = false; /* the caller's number stays */
        c.spec = deep_spec();
        c.spec.gather_ahead = 1;
        assert_int_equal(bp_share_ahead(&search), BP_OK);
        assert_int_equal(c.spec.gather_ahead, 1);
        bp_choice_end(&c.choice, &lender_counted);
    }
    assert_int_equal(lender_counts.lent, 0);
}

/* Activations are most of its arena, so that a schedule of its own is worth it. */
static bp_spec long_spec(void)
{
    bp_spec spec = spec_of(BP_SHARING_NONE);
    spec.config.positions = spec.sequence = 64;
    SET_FAMILY(&spec.config, bp_transformer, layers, 4);
    return spec;
}

/* A budget in which such a schedule is chosen and borrowed, where nothing is shared. */
static uint64_t arena_of_schedule(void)
{
    uint32_t rank = 0;
    bp_spec spec = long_spec();
    const uint64_t all = most_of(&spec, &rank);
    for (uint64_t arena = all;; arena -= all / 64) {
        share_case c = {.spec = spec, .arena = arena};
        assert_true(arena > all / 4);
        assert_int_equal(choose(&c), BP_OK);
        const bool found = c.choice.fits && c.choice.actions != NULL;
        bp_choice_end(&c.choice, &lender_counted);
        if (found) {
            return arena;
        }
    }
}

/* verifies ranks-20.c1b8 */
static void memory_that_is_refused_leaves_nothing_borrowed(void **state)
{
    (void)state;
    bp_share_choice all;
    bp_plan made = {.made = false};
    const bp_spec shared = spec_of(BP_SHARING_PARAMETERS);
    void *memory = plan_make(&made, &shared);
    uint32_t refused = 0;
    for (bool given = false; !given; refused++) {
        bp_share_rank rank[RANKS];
        bp_error error = {.code = BP_OK};
        lender_counts = (lender_count){.refused = refused + 1};
        given = bp_share_ranks(&made, &lender_counted, rank, &error) == BP_OK;
        assert_int_equal(error.code, given ? BP_OK : BP_ERR_FIT);
        assert_int_equal(lender_counts.lent, 0);
    }
    assert_int_equal(refused, 3 * (RANKS - 1) + 1); /* a plan, what it counts in, and its memory */
    free(memory);
    lender_counts = (lender_count){.refused = 0};
    const uint64_t arena = arena_of_schedule();
    refused = 0;
    do { /* until no piece is refused any more */
        share_case c = {.spec = long_spec(), .arena = arena};
        const bp_share_search search = search_of(&c, 1e9);
        lender_counts = (lender_count){.refused = ++refused};
        const bp_status status = bp_share_find(&search, &all);
        assert_true(status == BP_OK || status == BP_ERR_FIT);
        bp_choice_end(&c.choice, &lender_counted);
        assert_int_equal(lender_counts.lent, 0);
    } while (lender_counts.asked >= refused);
    lender_counts = (lender_count){.refused = 0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_plans_of_each_rank),
        cmocka_unit_test(the_largest_rank_owns_most),
        cmocka_unit_test(what_is_chosen_fits_on_every_rank),
        cmocka_unit_test(the_form_is_the_fastest_that_fits),
        cmocka_unit_test(weights_are_gathered_as_far_ahead_as_fits),
        cmocka_unit_test(memory_that_is_refused_leaves_nothing_borrowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
