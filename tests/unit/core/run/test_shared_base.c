/* SPDX-License-Identifier: MIT */
/* Runs with adapters on one base in one arena: each ends in the state of its run alone, and keeps
 * to its own bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/plan_bytes.h"

#define TOKENS 131
#define RUNS   3
#define STEPS  4

static int32_t tokens[RUNS][TOKENS];
static const char *const all_linear[] = {"all-linear"};
static const char *const some[] = {"c_attn"};

static int make_tokens(void **state)
{
    (void)state;
    for (int32_t r = 0; r < RUNS; r++) {
        for (int32_t i = 0; i < TOKENS; i++) {
            tokens[r][i] = (i * i * (7 + r) + i / 5) % 37;
        }
    }
    return 0;
}

/* Of another rank, rate and target each, with a workspace of another size. */
static bp_spec spec_of(uint32_t run)
{
    bp_spec spec = model_fixture_spec();
    spec.lora = (bp_lora){.rank = 2 + run,
                          .alpha = 6.0,
                          .targets = run == 1 ? some : all_linear,
                          .target_count = 1,
                          .dropout = run == 2 ? 0.25 : 0.0};
    spec.optimizer_options.learning_rate = 1e-2 / (1 + run);
    spec.batch = 1 + run;
    return spec;
}

typedef struct shared {
    model_fixture runs[RUNS];
    uint64_t own[RUNS];
    uint64_t base;
    uint64_t arena_bytes;
    void *arena;
} shared;

static uint64_t own_bytes(const bp_plan *plan)
{
    return plan->report.resident_bytes - plan->report.base_bytes - plan->spec.beside_below -
           plan->spec.beside_above;
}

static void plan_run(model_fixture *r, const bp_spec *spec)
{
    memset(r, 0, sizeof *r);
    const uint64_t bytes = plan_bytes(spec);
    assert_int_equal(posix_memalign(&r->host, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&r->plan, spec, r->host, bytes), BP_OK);
}

/* Plans each with the bytes of the others beside it. */
static void plan_all(shared *s)
{
    uint64_t below = 0, owns = 0;
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < RUNS; i++) {
        bp_spec spec = spec_of(i);
        spec.shares_base = true;
        plan_run(&s->runs[i], &spec);
        s->own[i] = own_bytes(&s->runs[i].plan);
        owns += s->own[i];
        free(s->runs[i].host);
    }
    for (uint32_t i = 0; i < RUNS; i++) {
        bp_spec spec = spec_of(i);
        spec.shares_base = true;
        spec.beside_below = below;
        spec.beside_above = owns - below - s->own[i];
        plan_run(&s->runs[i], &spec);
        assert_int_equal(own_bytes(&s->runs[i].plan), s->own[i]);
        below += s->own[i];
        const bp_report *report = &s->runs[i].plan.report;
        s->base = report->base_bytes;
        s->arena_bytes =
            report->arena_bytes > s->arena_bytes ? report->arena_bytes : s->arena_bytes;
        assert_int_equal(report->resident_bytes, s->base + owns);
    }
}

static void open_all(shared *s)
{
    plan_all(s);
    assert_int_equal(posix_memalign(&s->arena, BP_ARENA_ALIGNMENT, (size_t)s->arena_bytes), 0);
    memset(s->arena, 0x5a, (size_t)s->arena_bytes);
    for (uint32_t i = 0; i < RUNS; i++) {
        model_fixture *r = &s->runs[i];
        assert_int_equal(bp_runtime_open(&r->runtime, &r->plan, s->arena, s->arena_bytes), BP_OK);
        assert_int_equal(bp_runtime_clear(&r->runtime), BP_OK);
        assert_true(bp_runtime_draws_base(&r->runtime));
        if (i > 0) {
            bp_runtime_base_given(&r->runtime);
            assert_false(bp_runtime_draws_base(&r->runtime));
        }
        assert_int_equal(bp_runtime_draw(&r->runtime), BP_OK);
        model_fixture_feed(r, &r->feed, &r->source, tokens[i], TOKENS);
    }
}

static void close_all(shared *s)
{
    for (uint32_t i = 0; i < RUNS; i++) {
        bp_runtime_close(&s->runs[i].runtime);
        free(s->runs[i].host);
    }
    free(s->arena);
}

static uint64_t digest_alone(uint32_t run)
{
    static model_fixture alone;
    const bp_spec spec = spec_of(run);
    model_fixture_open(&alone, &spec, tokens[run], TOKENS);
    for (uint32_t i = 0; i < STEPS; i++) {
        (void)model_fixture_step(&alone);
    }
    const uint64_t digest = model_fixture_digest(&alone);
    model_fixture_close(&alone);
    return digest;
}

/* verifies run-42.116d */
static void runs_that_share_a_base_end_in_the_states_of_runs_alone(void **state)
{
    static shared s;
    (void)state;
    open_all(&s);
    unsigned char *base = malloc((size_t)s.base);
    memcpy(base, s.arena, (size_t)s.base);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < RUNS; i++) {
            (void)model_fixture_step(&s.runs[i]);
        }
    }
    for (uint32_t i = 0; i < RUNS; i++) {
        assert_int_equal(model_fixture_digest(&s.runs[i]), digest_alone(i));
    }
    assert_memory_equal(base, s.arena, (size_t)s.base);
    free(base);
    close_all(&s);
}

/* verifies run-42.116d */
static void a_step_changes_nothing_that_another_run_keeps(void **state)
{
    static shared s;
    (void)state;
    open_all(&s);
    uint64_t owns = 0;
    for (uint32_t i = 0; i < RUNS; i++) {
        owns += s.own[i];
    }
    unsigned char *arena = s.arena, *before = malloc((size_t)owns);
    for (uint32_t i = 0; i < RUNS; i++) {
        const uint64_t below = s.runs[i].plan.spec.beside_below, behind = below + s.own[i];
        memcpy(before, arena + s.base, (size_t)owns);
        (void)model_fixture_step(&s.runs[i]);
        assert_memory_equal(before, arena + s.base, (size_t)below);
        assert_memory_equal(before + behind, arena + s.base + behind, (size_t)(owns - behind));
        assert_memory_not_equal(before + below, arena + s.base + below, (size_t)s.own[i]);
    }
    free(before);
    close_all(&s);
}

/* verifies run-42.116d */
static void the_base_lies_in_the_same_places_for_all(void **state)
{
    static shared s;
    (void)state;
    plan_all(&s);
    for (uint32_t i = 0; i < RUNS; i++) {
        const bp_graph *graph = &s.runs[i].plan.graph;
        uint64_t top = 0;
        for (uint32_t k = 1; k < graph->used.buffers; k++) {
            const bp_buffer *b = &graph->buffers[k];
            const bool frozen = b->scope == BP_SCOPE_CONSTANT && b->class_of == BP_CLASS_WEIGHTS;
            if (frozen) {
                const uint32_t first = model_fixture_find(&s.runs[0], bp_graph_name(graph, k));
                assert_int_equal(b->offset, s.runs[0].plan.graph.buffers[first].offset);
                top = b->offset + bp_report_rounded(graph, b);
            } else if (b->lower < b->upper) {
                assert_true(b->offset >= s.base);
            }
        }
        assert_int_equal(top, s.base);
    }
    for (uint32_t i = 0; i < RUNS; i++) { /* the first has the names that all are looked up by */
        free(s.runs[i].host);
    }
}

/* verifies run-42.116d */
static void bytes_of_others_need_a_shared_base_and_the_alignment(void **state)
{
    static const struct {
        bool shares;
        uint64_t below, above;
        bool right;
    } cases[] = {{false, 0, 0, true},
                 {false, 256, 0, false},
                 {false, 0, 256, false},
                 {true, 512, 256, true},
                 {true, 100, 0, false},
                 {true, 0, 100, false},
                 {true, (uint64_t)1 << 61, 0, true},
                 {true, ((uint64_t)1 << 61) + 256, 0, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_spec spec = spec_of(0);
        spec.shares_base = cases[i].shares;
        spec.beside_below = cases[i].below;
        spec.beside_above = cases[i].above;
        assert_int_equal(bp_spec_check(&spec, NULL), cases[i].right ? BP_OK : BP_ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_that_share_a_base_end_in_the_states_of_runs_alone),
        cmocka_unit_test(a_step_changes_nothing_that_another_run_keeps),
        cmocka_unit_test(the_base_lies_in_the_same_places_for_all),
        cmocka_unit_test(bytes_of_others_need_a_shared_base_and_the_alignment),
    };
    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
