/* SPDX-License-Identifier: MIT */
/* Evaluation by several ranks: each runs its share of the micro-batches, and all have the sums, and
 * show their watchers the logits, that one rank has. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/digest.h"
#include "core/run/sorted.h"
#include "device/fabric/threads.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"

enum { EXAMPLES = 47, SEQUENCE = 10, CLASSES = 3, BATCH = 4, GROUPS = (EXAMPLES + 3) / BATCH };
enum { TOKENS = EXAMPLES * (SEQUENCE + 1), RANKS_MOST = 8, LONG_WAIT = 600000 };

/* One rank, and what it saw. */
typedef struct judge {
    bp_spec spec;
    bp_plan plan;
    bp_runtime runtime;
    bp_status status;
    uint32_t fails; /* its watcher, in that group; 0: never */
    uint64_t samples;
    uint64_t groups;
    bp_digest shown; /* labels and logits, in the order in which they are shown */
    double loss;
    uint64_t targets;
    uint64_t ran; /* micro-batches */
    uint64_t shorter;
    uint64_t steps;
    pthread_t thread;
} judge;

static int32_t tokens[TOKENS];
static bp_threads_world world;
static judge judges[RANKS_MOST];

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const uint64_t length = 1 + index * 7 % 11 * (index % 5) / 5; /* 1 to 9 */
    (void)source;
    *to = (bp_example){
        .first = index * (SEQUENCE + 1), .count = 1 + length, .label = index % CLASSES};
    return BP_OK;
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status watch(void *user, const bp_runtime *runtime)
{
    judge *j = user;
    const size_t width = (size_t)bp_compile_logits_width(&runtime->plan->spec);
    const size_t rows = (size_t)bp_compile_logits_rows(&runtime->plan->spec) /
                        bp_spec_eval_batch(&runtime->plan->spec);
    const int32_t *labels = bp_group_column(&runtime->group, BP_INPUT_LABELS)->data;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        const size_t length = rows > 1 ? 1 + j->samples * 7 % 11 * (j->samples % 5) / 5 : rows;
        bp_digest_add(&j->shown, labels + i * SEQUENCE, sizeof *labels);
        bp_digest_add(&j->shown, runtime->logits_host + i * rows * width,
                      length * width * sizeof(float));
        j->samples++;
    }
    return ++j->groups == j->fails ? BP_ERR_DATA : BP_OK;
}

static bp_status evaluate(judge *j, const bp_regions *places)
{
    bp_error error = {0};
    bp_source source = {.name = "tokens",
                        .count = TOKENS,
                        .read = read_tokens,
                        .examples = EXAMPLES,
                        .example = example};
    bp_feed feed = {.source = &source,
                    .error = &error,
                    .sequence = SEQUENCE,
                    .batch = BATCH,
                    .group = BATCH,
                    .vocabulary = j->spec.config.vocabulary,
                    .classes = CLASSES};
    const bool classes = j->spec.config.task == BP_TASK_CLASSES;
    feed.kind = classes ? BP_LABELS_CLASS : BP_LABELS_NEXT_TOKEN;
    bp_digest_begin(&j->shown, 0);
    BP_TRY(bp_feed_init(&feed, &error));
    BP_TRY(bp_runtime_open_regions(&j->runtime, &j->plan, places));
    BP_TRY(bp_runtime_initialize(&j->runtime));
    BP_TRY(bp_runtime_evaluate_each(&j->runtime, &feed, j->steps,
                                    j->spec.keep_logits ? watch : NULL, j, &j->loss, &j->targets));
    for (uint32_t i = 0; i < bp_runtime_length_buckets(&j->runtime); i++) {
        const uint64_t ran = bp_runtime_length(&j->runtime, i).evaluations;
        j->ran += ran;
        j->shorter += bp_runtime_length(&j->runtime, i).sequence < SEQUENCE ? ran : 0;
    }
    return BP_OK;
}

static void *judge_main(void *argument)
{
    judge *j = argument;
    const bp_fabric_options options = {
        .world = &world, .rank = j->spec.rank, .size = j->spec.ranks, .patience_ms = LONG_WAIT};
    void *host = NULL, *arena = NULL, *rank = malloc(bp_fabric_threads.context_bytes);
    const uint64_t bytes = plan_bytes(&j->spec);
    const bool room = posix_memalign(&host, 64, bytes) == 0;
    j->status = room ? bp_plan_make(&j->plan, &j->spec, host, bytes) : BP_ERR_FIT;
    const size_t size = j->status == BP_OK ? (size_t)j->plan.report.arena_bytes : 64;
    bool joined = false;
    if (j->status == BP_OK && posix_memalign(&arena, BP_ARENA_ALIGNMENT, size) == 0) {
        bp_regions places = bp_regions_device(arena, size);
        memset(arena, 0xff, size);
        if (j->spec.ranks > 1) {
            j->status = bp_fabric_threads.open(rank, &options, NULL);
            joined = j->status == BP_OK;
            places.fabric = &bp_fabric_threads;
            places.rank = rank;
        }
        j->status = j->status == BP_OK ? evaluate(j, &places) : j->status;
        bp_runtime_close(&j->runtime);
    }
    if (joined) {
        bp_fabric_threads.close(rank);
    }
    free(host);
    free(arena);
    free(rank);
    return NULL;
}

static void meet(const bp_spec *spec, uint32_t ranks, uint64_t steps, uint32_t fails)
{
    assert_int_equal(bp_threads_world_open(&world, ranks, 7), BP_OK);
    for (uint32_t i = 0; i < ranks; i++) {
        judges[i] = (judge){.spec = *spec, .steps = steps, .fails = fails};
        judges[i].spec.ranks = ranks;
        judges[i].spec.rank = i;
        assert_int_equal(pthread_create(&judges[i].thread, NULL, judge_main, &judges[i]), 0);
    }
    for (uint32_t i = 0; i < ranks; i++) {
        pthread_join(judges[i].thread, NULL);
    }
    bp_threads_world_close(&world);
}

/* Every rank has what one has, and ran no more than its share; where weights are gathered, as often
 * as the others. */
static void compare(const bp_spec *spec, uint64_t steps)
{
    meet(spec, 1, steps, 0);
    judge one = judges[0];
    const uint64_t shown = bp_digest_end(&one.shown);
    const uint64_t groups = steps == 0 ? GROUPS : steps;
    assert_int_equal(one.status, BP_OK);
    assert_int_equal(one.ran, groups);
    assert_true(one.targets > 0 && one.loss > 0.0);
    assert_int_equal(one.groups, spec->keep_logits ? groups : 0);
    for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 2) {
        uint64_t all = 0, shorter = 0;
        meet(spec, ranks, steps, 0);
        for (uint32_t i = 0; i < ranks; i++) {
            judge *j = &judges[i];
            assert_int_equal(j->status, BP_OK);
            assert_memory_equal(&j->loss, &one.loss, sizeof one.loss);
            assert_int_equal(j->targets, one.targets);
            assert_int_equal(j->samples, one.samples);
            assert_int_equal(bp_digest_end(&j->shown), shown);
            assert_in_range(j->ran, groups / ranks, (groups + ranks - 1) / ranks);
            all += j->ran;
            shorter += j->shorter;
        }
        const bool together = spec->sharing == BP_SHARING_PARAMETERS;
        assert_int_equal(all, together ? ranks * judges[0].ran : groups);
        assert_true(together || shorter == one.shorter);
        assert_int_equal(one.shorter > 0, spec->length_count > 0);
    }
}

static bp_spec spec_of(bp_task task, uint32_t vocabulary)
{
    bp_spec spec = model_fixture_spec();
    spec.config.task = task;
    spec.config.vocabulary = vocabulary;
    spec.config.classes = task == BP_TASK_CLASSES ? CLASSES : 0;
    spec.sequence = SEQUENCE;
    spec.batch = 1;
    spec.accumulation = 8;
    spec.virtual_ranks = 8;
    spec.eval_batch = BATCH;
    spec.evaluate = true;
    spec.keep_logits = true;
    return spec;
}

static void shorter_too(bp_spec *spec)
{
    static const uint32_t lengths[] = {4, 7};
    memcpy(spec->lengths, lengths, sizeof lengths);
    spec->length_count = 2;
}

/* verifies run-25.3c8a */
static void shares_of_micro_batches(void **state)
{
    (void)state;
    for (uint64_t steps = 0; steps < 6; steps += 5) {
        bp_spec spec = spec_of(BP_TASK_CAUSAL_LM, 37);
        compare(&spec, steps);
        spec.poison = true;
        spec.keep_logits = false;
        compare(&spec, steps);
        spec = spec_of(BP_TASK_CLASSES, 37);
        spec.working = BP_BF16;
        spec.gradient = BP_BF16;
        spec.master = BP_MASTER_SPLIT;
        compare(&spec, steps);
        shorter_too(&spec);
        compare(&spec, 0);
    }
}

/* The table is of two units: every rank is asked for its part by every run of the others. */
/* verifies run-25.3c8a */
static void shares_of_weights_too(void **state)
{
    (void)state;
    bp_spec spec = spec_of(BP_TASK_CLASSES, 4099);
    for (uint32_t ahead = 0; ahead < 2; ahead++) {
        spec.sharing = BP_SHARING_PARAMETERS;
        spec.gather_ahead = ahead;
        compare(&spec, ahead == 0 ? 0 : 5);
        shorter_too(&spec);
    }
    spec.lengths[0] = 3; /* several micro-batches of a round are longer than that */
    spec.length_count = 1;
    compare(&spec, 0);
}

/* A watcher that fails does so on every rank, in the same group. */
/* verifies run-34.fdfe */
static void a_watcher_fails(void **state)
{
    (void)state;
    const bp_spec spec = spec_of(BP_TASK_CLASSES, 37);
    meet(&spec, 4, 0, 6);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(judges[i].status, BP_ERR_DATA);
        assert_int_equal(judges[i].groups, 6);
    }
}

int main(void)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * i % 37);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_micro_batches),
        cmocka_unit_test(shares_of_weights_too),
        cmocka_unit_test(a_watcher_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
