/* SPDX-License-Identifier: MIT */
/* Planned bytes are used bytes: the arena lies between two pages that may not be touched, and is
 * filled with a pattern before anything is placed in it; after training, evaluation and generation
 * every byte that no buffer covers still holds the pattern. */
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/bare_fixture.h"
#include "tests/fixtures/share.h"

#define PATTERN 0xa7

/* Memory whose last byte (or, when `flush_start` is set, first byte) is next to a guard page, and
 * whose other end is within a page of one. */
typedef struct guarded {
    unsigned char *map; /* the guard page before */
    size_t map_bytes;
    unsigned char *inner; /* the pages between the guards */
    size_t inner_bytes;
    unsigned char *memory; /* the bytes asked for */
    size_t bytes;
} guarded;

static guarded guard(uint64_t bytes, bool flush_start)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded g = {.bytes = (size_t)bytes};
    g.inner_bytes = (g.bytes + page - 1) / page * page;
    g.map_bytes = g.inner_bytes + 2 * page;
    g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    g.inner = g.map + page;
    assert_int_equal(mprotect(g.inner, g.inner_bytes, PROT_READ | PROT_WRITE), 0);
    memset(g.inner, PATTERN, g.inner_bytes);
    g.memory = flush_start ? g.inner : g.inner + (g.inner_bytes - g.bytes);
    return g;
}

static void release(guarded *g)
{
    assert_int_equal(munmap(g->map, g->map_bytes), 0);
}

/* Marks the bytes that some buffer covers. */
static unsigned char *cover(const bp_graph *graph, const guarded *arena)
{
    unsigned char *covered = calloc(1, arena->inner_bytes);
    assert_non_null(covered);
    size_t start = (size_t)(arena->memory - arena->inner);
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *b = &graph->buffers[i];
        if (b->upper > b->lower || b->scope != BP_SCOPE_PROGRAM) {
            assert_true(b->offset + b->bytes <= arena->bytes);
            memset(covered + start + b->offset, 1, (size_t)b->bytes);
        }
    }
    return covered;
}

/* Bytes outside every buffer, and how many of them do not hold the pattern. */
static size_t count_spoilt(const guarded *arena, const unsigned char *covered, size_t *outside)
{
    size_t spoilt = 0;
    *outside = 0;
    for (size_t i = 0; i < arena->inner_bytes; i++) {
        if (!covered[i]) {
            *outside += 1;
            spoilt += arena->inner[i] != PATTERN;
        }
    }
    return spoilt;
}

static void use(trial *t)
{
    const int32_t prompt[] = {7, 8, 9, 10, 11, 12, 13};
    double loss = 0.0;
    uint64_t targets = 0;
    assert_int_equal(bare_fixture_train(t, &loss), BP_OK);
    assert_int_equal(bare_fixture_evaluate(t, 0, &loss, &targets), BP_OK);
    assert_int_equal(bp_runtime_restart(&t->runtime), BP_OK);
    assert_int_equal(bp_runtime_accept(&t->runtime, prompt, 7), BP_OK);
    assert_int_equal(bp_runtime_accept(&t->runtime, prompt, 2), BP_OK);
}

static void check(const bp_spec *spec, bool flush_start)
{
    static trial t;
    guarded host = guard(bp_size_align(plan_bytes(spec), 64), flush_start);
    assert_int_equal(bare_fixture_plan(&t, spec, host.memory, host.bytes), BP_OK);
    /* The plan is a multiple of the alignment, so both of the arena's ends can meet a guard. */
    assert_true(t.plan.report.arena_bytes % BP_ARENA_ALIGNMENT == 0);
    guarded arena = guard(t.plan.report.arena_bytes, flush_start);
    assert_int_equal(bare_fixture_open(&t, arena.memory, arena.bytes), BP_OK);
    use(&t);
    unsigned char *covered = cover(&t.plan.graph, &arena);
    size_t outside = 0;
    assert_int_equal(count_spoilt(&arena, covered, &outside), 0);
    assert_true(outside > 0);
    /* The search for stray bytes finds one. */
    size_t i = 0;
    while (covered[i]) {
        i++;
    }
    arena.inner[i] ^= 1;
    assert_int_equal(count_spoilt(&arena, covered, &outside), 1);
    free(covered);
    bp_runtime_close(&t.runtime);
    release(&arena);
    release(&host);
}

static void check_forms(bool flush_start, bool poison, bp_policy_kind policy)
{
    const char *const forms[] = {"portable", NULL}; /* NULL: the best that this processor has */
    for (uint32_t i = policy == BP_POLICY_NONE ? 0 : long_or(0, 1); i < 2; i++) {
        bp_spec spec = bare_fixture_spec();
        spec.device_options.threads = 2;
        spec.device_options.variant = forms[i];
        spec.poison = poison;
        spec.policy.kind = policy;
        check(&spec, flush_start);
    }
}

/* verifies run-3.9de1 */
static void no_byte_past_the_end(void **state)
{
    (void)state;
    check_forms(false, false, BP_POLICY_NONE);
}

/* verifies run-3.9de1 */
static void no_byte_before_the_start(void **state)
{
    (void)state;
    check_forms(true, false, BP_POLICY_MEMORY_POOR);
}

/* verifies run-3.9de1 */
static void poison_stays_inside(void **state)
{
    (void)state;
    check_forms(false, true, BP_POLICY_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_byte_past_the_end),
        cmocka_unit_test(no_byte_before_the_start),
        cmocka_unit_test(poison_stays_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
