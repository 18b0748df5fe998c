/* SPDX-License-Identifier: MIT */
/* Every call of the driver fails in turn while a tiny model is opened, initialised, trained, saved
 * and closed: a clean status, the right exit code, the checkpoints before it intact, nothing left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/run/checkpoint/checkpoint.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/fabric/leave.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/share.h"

#define TOKENS     64
#define STATES_MAX 64
#define HOST_BYTES ((size_t)8 << 20)

enum { LIVED = 0, FAILED_WELL = 3, FAILED_BADLY = 4 };

static instrument on;
static int32_t tokens[TOKENS];

/* One life of a run, with what it saved. */
typedef struct life {
    bp_plan plan;
    bp_runtime runtime;
    bp_feed feed;
    bp_source source;
    bp_error error;
    bp_state_tensor tensors[STATES_MAX];
    bp_checkpoint checkpoint;
    bp_checkpoint_location place;
    memory_store store;
    char staging[4096];
    char scratch[65536];
    uint32_t saved; /* checkpoints that were saved */
    void *host;
} life;

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    memcpy(to, (const int32_t *)source->context + first, n * sizeof *to);
    return BP_OK;
}

static bp_status read_state(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes)
{
    life *l = user;
    return bp_runtime_read(&l->runtime, bp_runtime_state(&l->runtime, (uint32_t)handle), offset, to,
                           bytes);
}

static bp_spec tiny_spec(const char *variant)
{
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    spec.batch = 1;
    spec.sequence = 8;
    spec.device = &bp_device_cuda;
    spec.device_options = (bp_device_options){.threads = 1, .variant = variant};
    return spec;
}

static void prepare_checkpoints(life *l)
{
    for (uint32_t i = 0; i < bp_runtime_state_count(&l->runtime); i++) {
        const bp_buffer *b = bp_runtime_state(&l->runtime, i);
        l->tensors[i] = (bp_state_tensor){.name = l->plan.graph.names + b->name,
                                          .dtype = b->dtype,
                                          .rank = b->rank,
                                          .bytes = b->bytes,
                                          .handle = i,
                                          .weight = b->class_of == BP_CLASS_WEIGHTS};
        memcpy(l->tensors[i].shape, b->shape, sizeof b->shape);
    }
    l->checkpoint = (bp_checkpoint){.tensors = l->tensors,
                                    .tensor_count = bp_runtime_state_count(&l->runtime),
                                    .io = {.user = l, .read = read_state}};
    l->place = (bp_checkpoint_location){.store = &l->store.store,
                                        .directory = "run",
                                        .scratch = l->scratch,
                                        .scratch_bytes = sizeof l->scratch,
                                        .staging = {l->staging, sizeof l->staging},
                                        .error = &l->error};
}

/* In a child there is no test to fail, only an end. */
static void need(bool there, const char *what)
{
    if (!there) {
        print_error("there is no %s\n", what);
        bp_leave(FAILED_BADLY);
    }
}

/* Plans; nothing of it touches the driver. */
static life *life_new(const char *variant)
{
    life *l = calloc(1, sizeof *l);
    const bp_spec spec = tiny_spec(variant);
    need(posix_memalign(&l->host, 64, HOST_BYTES) == 0, "memory");
    need(bp_plan_make(&l->plan, &spec, l->host, HOST_BYTES) == BP_OK, "a plan");
    need(bp_runtime_state_count(&l->runtime) <= STATES_MAX, "fewer tensors");
    memory_store_init(&l->store);
    prepare_checkpoints(l);
    l->source =
        (bp_source){.context = tokens, .name = "tokens", .count = TOKENS, .read = read_tokens};
    l->feed = (bp_feed){.source = &l->source,
                        .error = &l->error,
                        .seed = 1,
                        .sequence = spec.sequence,
                        .batch = 1,
                        .group = 1,
                        .vocabulary = spec.config.vocabulary};
    need(bp_feed_init(&l->feed, &l->error) == BP_OK, "a feed");
    return l;
}

static void life_free(life *l)
{
    memory_store_free(&l->store);
    free(l->host);
    free(l);
}

/* A life in stages. */
enum { OPEN, INITIALIZE, STEP, SAVE, STEP_AGAIN, SAVE_AGAIN, STAGES };

static bp_status live(life *l, int stage)
{
    bp_outcome outcome;
    switch (stage) {
    case OPEN:
        return bp_runtime_open(&l->runtime, &l->plan, NULL, l->plan.report.arena_bytes);
    case INITIALIZE:
        return bp_runtime_initialize(&l->runtime);
    case STEP:
    case STEP_AGAIN:
        return bp_runtime_step(&l->runtime, &l->feed, &outcome);
    default:
        l->checkpoint.step = l->runtime.steps;
        BP_TRY(bp_checkpoint_save(&l->place, &l->checkpoint, NULL));
        l->saved++;
        return BP_OK;
    }
}

static bool checkpoints_are_whole(life *l)
{
    bool whole = true;
    l->error = (bp_error){0};
    for (uint32_t i = 1; i <= l->saved; i++) {
        char path[64];
        bp_checkpoint_found found;
        snprintf(path, sizeof path, "run/checkpoint-%u", i);
        whole = whole && bp_checkpoint_verify(&l->place, path, &found) == BP_OK;
    }
    return whole;
}

/* What is wrong after a life, in words; NULL when it is as it should be. */
static const char *judge(life *l, bp_status status, int result)
{
    static char left[512];
    const bp_error *error = &l->runtime.error;
    bool lived = status == BP_OK;
    bool capture = strstr(error->name, "from cuStreamEndCapture") != NULL;
    if (!lived && (status != BP_ERR_DEVICE || bp_status_exit_code(error->code) != 7)) {
        return "the status is another one";
    }
    /* No memory for the arena is told with both numbers instead. */
    bool named = strstr(error->name, "from cu") != NULL ||
                 (result == BP_CU_OUT_OF_MEMORY && error->numbers && error->wanted > 0);
    if (!lived && (error->text == NULL || !named)) {
        return "the error is not told";
    }
    if (!checkpoints_are_whole(l)) {
        return "a checkpoint is damaged";
    }
    bool kept = !lived && (capture || bp_cu_result_fatal(result));
    return kept || on.ledger(left, sizeof left) == 0 ? NULL : left;
}

/* Fails call number n of a stage. */
static int fail_call(life *l, int stage, int n, int result)
{
    char fault[64];
    snprintf(fault, sizeof fault, "*:%d:%d", n, result);
    on.set("PTXVM_FAULT", fault);
    bp_status status = live(l, stage);
    if (status == BP_OK) {
        on.set("PTXVM_FAULT", "");
    }
    int before = on.calls(NULL);
    bp_runtime_close(&l->runtime);
    bool more = status != BP_OK && bp_cu_result_fatal(result) && on.calls(NULL) - before > 2;
    const char *wrong = more ? "a lost context is asked again" : judge(l, status, result);
    if (wrong != NULL) {
        print_error("stage %d, call %d, %s: %s\n", stage, n, l->runtime.error.name, wrong);
    }
    return wrong != NULL ? FAILED_BADLY : status == BP_OK ? LIVED : FAILED_WELL;
}

/* In a process of its own, so that the stage can be tried again, and since what a lost context had
 * is lost with its process. */
static int fail_in_child(life *l, int stage, int n, int result)
{
    int ended = 0;
    pid_t child = fork();
    if (child == 0) {
        int code = fail_call(l, stage, n, result);
        const char *name = l->runtime.error.name;
        if (bp_cu_result_fatal(result) || strstr(name, "from cuStreamEndCapture") != NULL) {
            bp_leave(code); /* and with it what the instrument still holds */
        }
        life_free(l);
        exit(code);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : FAILED_BADLY;
}

/* Calls 1, 1 + stride, ... of every stage until it has fewer. */
static void walk(const char *variant, int result, int stride)
{
    int calls = 0;
    life *l = life_new(variant);
    stride = getenv("BP_TEST_SHORT") != NULL ? 7 * stride : stride;
    for (int stage = 0; stage < STAGES; stage++) {
        int code = FAILED_WELL;
        int n = 1;
        for (; code == FAILED_WELL && n < 5000; n += stride) {
            code = fail_in_child(l, stage, n, result);
        }
        calls += n - stride - 1;
        assert_int_equal(code, LIVED);
        assert_int_equal(live(l, stage), BP_OK);
    }
    assert_int_equal(l->saved, 2);
    assert_true(checkpoints_are_whole(l));
    bp_runtime_close(&l->runtime);
    life_free(l);
    print_message("%s, result %d: %d calls\n", variant, result, calls);
    assert_true(calls > 200);
}

/* verifies device-12.8cb0 */
static void every_call_of_a_run_may_fail(void **state)
{
    (void)state;
    walk("graph", 1, 1);
}

/* verifies device-12.8cb0 */
static void other_results_and_plain_launches(void **state)
{
    (void)state;
    walk("graph", 2, 5);
    walk("plain", 1, 5);
}

/* verifies device-12.8cb0 */
static void a_lost_gpu_ends_a_run(void **state)
{
    (void)state;
    walk("graph", 719, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_a_run_may_fail),
        cmocka_unit_test(other_results_and_plain_launches),
        cmocka_unit_test(a_lost_gpu_ends_a_run),
    };
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * i % 37);
    }
    /* Races are looked for in every kernel by test_kernels.c and its like. */
    if (!long_form()) {
        (void)setenv("PTXVM_RACES", "0", 0);
    }
    if (!fake_driver_load(&on)) {
        return 1;
    }
    if (on.real) {
        printf("skipped: a real driver's calls cannot be made to fail\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
