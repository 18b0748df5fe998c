/* SPDX-License-Identifier: MIT */
/* Ranks use what was planned for each of them, and nothing else: every rank's arena lies between
 * two pages that may not be touched and holds a pattern where no buffer lies, and between two steps
 * no thread reaches the allocator, in every form of sharing. */
/* A program of its own (tests/suite.sh). */
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/fabric/threads.h"
#include "layers/families/gpt2.h"
#include "optim/rules.h"
#include "tests/fixtures/own_allocator.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

#define PATTERN 0xa7

enum { RANKS_MOST_HERE = 4, STEPS = 2, TOKENS = 1000 };

static atomic_bool watching;
static atomic_int seen;

#if OWN_ALLOCATOR
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&seen, atomic_load(&watching) ? 1 : 0);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&seen, atomic_load(&watching) ? 1 : 0);
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    atomic_fetch_add(&seen, atomic_load(&watching) ? 1 : 0);
    return __libc_realloc(memory, bytes);
}
#endif

/* One rank, its memory flush with a guard page: odd ranks at its beginning, even ones at its end.
 */
typedef struct guarded_rank {
    bp_spec spec;
    bp_plan plan;
    bp_runtime runtime;
    void *host;
    unsigned char *map;
    size_t map_bytes;
    unsigned char *arena;
    size_t spoilt;
    bp_status status;
    pthread_t thread;
} guarded_rank;

static bp_threads_world world;
static guarded_rank ranks_of_all[RANKS_MOST_HERE];
static pthread_barrier_t meeting;
static int32_t tokens[TOKENS];

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, tokens + first, n * sizeof *to);
    return BP_OK;
}

static void guard_plan(guarded_rank *r)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t bytes = plan_bytes(&r->spec);
    assert_int_equal(posix_memalign(&r->host, 64, bytes), 0);
    if (bp_plan_make(&r->plan, &r->spec, r->host, bytes) != BP_OK) {
        fail_msg("%s %s", r->runtime.error.text, r->runtime.error.name);
    }
    const size_t arena = (size_t)r->plan.report.arena_bytes;
    const size_t inner = (arena + page - 1) / page * page;
    r->map_bytes = inner + 2 * page;
    r->map = mmap(NULL, r->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(r->map != MAP_FAILED);
    assert_int_equal(mprotect(r->map + page, inner, PROT_READ | PROT_WRITE), 0);
    memset(r->map + page, PATTERN, inner);
    const bool flush_end = r->spec.rank % 2 == 0 && (inner - arena) % BP_ARENA_ALIGNMENT == 0;
    r->arena = r->map + page + (flush_end ? inner - arena : 0);
}

/* Bytes outside of every buffer that no longer hold the pattern. */
static size_t guard_spoilt(const guarded_rank *r)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = r->map_bytes - 2 * page, start = (size_t)(r->arena - r->map) - page;
    unsigned char *covered = calloc(1, inner);
    const bp_graph *graph = &r->plan.graph;
    size_t spoilt = 0;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *b = &graph->buffers[i];
        if (b->space == BP_SPACE_DEVICE && (b->upper > b->lower || b->scope != BP_SCOPE_PROGRAM)) {
            memset(covered + start + b->offset, 1, (size_t)b->bytes);
        }
    }
    for (size_t i = 0; i < inner; i++) {
        spoilt += covered[i] == 0 && r->map[page + i] != PATTERN ? 1 : 0;
    }
    free(covered);
    return spoilt;
}

static bp_status guard_steps(guarded_rank *r, bp_feed *feed)
{
    bp_status status = BP_OK;
    for (int i = 0; i < STEPS + 1 && status == BP_OK; i++) {
        bp_outcome outcome;
        status = bp_runtime_step(&r->runtime, feed, &outcome);
        pthread_barrier_wait(&meeting);
        if (r->spec.rank == 0) {
            atomic_store(&watching, i < STEPS); /* the first step is not watched */
        }
        pthread_barrier_wait(&meeting);
    }
    return status;
}

static bp_status guard_train(guarded_rank *r, const bp_regions *places)
{
    bp_source source = {.name = "tokens", .count = TOKENS, .read = read_tokens};
    bp_error error = {.code = BP_OK};
    bp_feed feed = {.source = &source,
                    .seed = 3,
                    .sequence = r->spec.sequence,
                    .batch = r->spec.batch,
                    .group = r->spec.batch * r->spec.accumulation,
                    .vocabulary = r->spec.config.vocabulary,
                    .shuffle = true};
    BP_TRY(bp_feed_init(&feed, &error));
    BP_TRY(bp_runtime_open_regions(&r->runtime, &r->plan, places));
    BP_TRY(bp_runtime_initialize(&r->runtime));
    return guard_steps(r, &feed);
}

static void *guard_main(void *argument)
{
    guarded_rank *r = argument;
    const bp_fabric_options options = {
        .world = &world, .rank = r->spec.rank, .size = r->spec.ranks, .patience_ms = 600000};
    bp_regions places = bp_regions_device(r->arena, r->plan.report.arena_bytes);
    void *rank = malloc(bp_fabric_threads.context_bytes);
    r->status = bp_fabric_threads.open(rank, &options, NULL);
    places.fabric = &bp_fabric_threads;
    places.rank = rank;
    r->status = r->status == BP_OK ? guard_train(r, &places) : r->status;
    r->spoilt = guard_spoilt(r);
    bp_runtime_close(&r->runtime);
    bp_fabric_threads.close(rank);
    free(rank);
    return NULL;
}

static void guard_play(const bp_spec *spec)
{
    const uint32_t ranks = spec->ranks;
    assert_int_equal(bp_threads_world_open(&world, ranks, 0), BP_OK);
    assert_int_equal(pthread_barrier_init(&meeting, NULL, ranks), 0);
    atomic_store(&seen, 0);
    for (uint32_t i = 0; i < ranks; i++) {
        ranks_of_all[i] = (guarded_rank){.spec = *spec};
        ranks_of_all[i].spec.rank = i;
        guard_plan(&ranks_of_all[i]);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        guarded_rank *r = &ranks_of_all[i];
        assert_int_equal(pthread_create(&r->thread, NULL, guard_main, r), 0);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        guarded_rank *r = &ranks_of_all[i];
        pthread_join(r->thread, NULL);
        assert_int_equal(r->status, BP_OK);
        assert_int_equal(r->spoilt, 0);
        assert_int_equal(munmap(r->map, r->map_bytes), 0);
        free(r->host);
    }
    assert_int_equal(atomic_load(&seen), 0);
    pthread_barrier_destroy(&meeting);
    bp_threads_world_close(&world);
}

static bp_spec guard_spec(void)
{
    static const bp_transformer sizes = {
        .width = 192, .layers = 2, .heads = 2, .norm_epsilon = 1e-5, .initializer_range = 0.02};
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = 2503;
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    spec.device_options = (bp_device_options){.threads = 1};
    spec.batch = 1;
    spec.accumulation = 8;
    spec.virtual_ranks = 4;
    return spec;
}

/* verifies ranks-13.3161 */
static void every_form_stays_in_its_plan(void **state)
{
    (void)state;
    for (uint32_t form = 0; form < 4; form++) {
        bp_spec spec = guard_spec();
        spec.optimizer = form % 2 == 0 ? &bp_optimizer_adamw : &bp_optimizer_adamw_8bit;
        spec.optimizer_options.max_grad_norm = form < 2 ? 0.5 : 0.0;
        spec.gradient_release = form == 2 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
        spec.policy.kind = form == 1 ? BP_POLICY_FULL : BP_POLICY_NONE;
        spec.gather_ahead = form % 3;
        spec.ranks = form % 2 == 0 ? RANKS_MOST_HERE : 2;
        for (int s = BP_SHARING_NONE; s <= BP_SHARING_PARAMETERS; s++) {
            spec.sharing = (bp_sharing)s;
            guard_play(&spec);
        }
    }
}

/* verifies ranks-13.3161 */
static void what_is_watched_is_seen(void **state)
{
    (void)state;
    atomic_store(&seen, 0);
    atomic_store(&watching, true);
    void *volatile memory = malloc(100);
    atomic_store(&watching, false);
    free(memory);
    assert_int_equal(atomic_load(&seen), OWN_ALLOCATOR);
}

int main(void)
{
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = i * 7919 % 2503;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_watched_is_seen),
                                       cmocka_unit_test(every_form_stays_in_its_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
