/* SPDX-License-Identifier: MIT */
/* Every public function in every wrong state: before a plan, after one that failed, while it is
 * open, after it was closed; a feed, a file, a trainer or a store that was not made, or not well.
 * None ends the program, each says so. tools/check/interface.sh demands a row of each function that
 * the installed headers declare. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base/safetensors.h"
#include "core/plan/search/budget.h"
#include "core/run/step_check.h"
#include "core/run/state.h"
#include "device/host/host.h"
#include "device/host/storage/store_flash.h"
#include "device/host/sensor.h"
#include "device/host/trainer_state.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/checkpoint_fixture.h"

enum { TOKENS = 64, ROOM = 1 << 16 };

static int32_t tokens[TOKENS];

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, tokens + first, n * sizeof *to);
    return BP_OK;
}

/* A function, the states in which it does what it is for (bits), and a call that gives its status;
 * of one that has none BP_OK where it said something, else BP_ERR_USAGE. */
typedef struct state_row {
    const char *name;
    uint32_t right;
    bp_status (*call)(void *subject);
} state_row;

static bp_status said(bool something)
{
    return something ? BP_OK : BP_ERR_USAGE;
}

/* A subject in each of its states in turn, and every function of it there. `refusal` BP_OK: any
 * status but BP_OK. */
typedef struct state_subject {
    uint32_t states;
    void *(*make)(uint32_t state);
    void (*end)(void *subject);
    bp_status refusal;
} state_subject;

static void in_every_state(const state_subject *subject, const state_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (uint32_t state = 0; state < subject->states; state++) {
            void *made = subject->make(state);
            const bp_status status = rows[i].call(made);
            const bool right = (rows[i].right >> state & 1) != 0;
            const bool refused =
                subject->refusal == BP_OK ? status != BP_OK : status == subject->refusal;
            if (right ? status != BP_OK : !refused) {
                fail_msg("%s in state %u: %s", rows[i].name, state, bp_status_text(status));
            }
            subject->end(made);
        }
    }
}

#define ROWS(rows) rows, sizeof rows / sizeof rows[0]

/* The runtime. */
enum {
    MADE,
    NOT_COUNTED, /* its spec was refused */
    COUNTED,
    NOT_PLANNED, /* its memory was too small */
    PLANNED,
    NOT_OPENED, /* its arena was too small */
    NOT_LINKED, /* the device failed after it was opened */
    OPEN,
    CLOSED,
    RUNTIME_STATES
};
#define AT(state)  (1u << (state))
#define EVERY      UINT32_MAX
#define IS_MADE    (AT(PLANNED) | AT(NOT_OPENED) | AT(NOT_LINKED) | AT(OPEN) | AT(CLOSED))
#define HAS_A_PLAN (AT(NOT_LINKED) | AT(OPEN) | AT(CLOSED))
#define NOT_OPEN   (EVERY & ~AT(OPEN))

typedef struct run_subject {
    bp_plan_room planned;
    bp_plan *plan;
    bp_runtime_room room;
    bp_runtime *runtime;
    bp_spec spec;
    bp_device device;
    bp_source source;
    bp_feed feed;
    bp_error error;
    void *host;
    void *other; /* for another plan */
    void *arena;
    uint64_t host_bytes;
    uint64_t arena_bytes;
    float values[ROOM];
} run_subject;

static bp_status failing_seal(void *context)
{
    (void)context;
    return BP_ERR_DEVICE;
}

static bp_spec states_spec(void)
{
    bp_spec spec = model_fixture_spec();
    spec.evaluate = true;
    spec.keep_logits = true;
    spec.generate_context = 12;
    return spec;
}

static void *aligned(size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, BP_ARENA_ALIGNMENT, bytes), 0);
    memset(memory, 0x5a, bytes);
    return memory;
}

/* Counts, and plans in memory of `part` 64ths of what is needed. */
static void plan_in(run_subject *s, uint32_t part, bp_status wanted)
{
    const uint64_t bytes = s->host_bytes * part / 64;
    assert_int_equal(bp_plan_count(s->plan, &s->spec, s->host, s->host_bytes), BP_OK);
    assert_int_equal(bp_plan_make_counted(s->plan, s->host, bytes), wanted);
}

static void *make_runtime(uint32_t state)
{
    run_subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->plan = bp_plan_begin(&s->planned);
    s->runtime = bp_runtime_make(&s->room);
    s->spec = states_spec();
    s->device = bp_device_host;
    s->spec.device = &s->device;
    s->host_bytes = 4 << 20;
    s->arena_bytes = 4 << 20;
    s->host = aligned(s->host_bytes);
    s->other = aligned(s->host_bytes);
    s->arena = aligned(s->arena_bytes);
    s->source = (bp_source){.name = "tokens", .count = TOKENS, .read = read_tokens};
    s->feed = (bp_feed){.source = &s->source,
                        .sequence = s->spec.sequence,
                        .batch = s->spec.batch,
                        .group = s->spec.batch,
                        .vocabulary = s->spec.config.vocabulary};
    assert_int_equal(bp_feed_init(&s->feed, &s->error), BP_OK);
    if (state == NOT_COUNTED) {
        bp_spec wrong = s->spec;
        wrong.batch = 0;
        assert_int_equal(bp_plan_count(s->plan, &wrong, s->host, s->host_bytes), BP_ERR_USAGE);
    } else if (state == COUNTED) {
        assert_int_equal(bp_plan_count(s->plan, &s->spec, s->host, s->host_bytes), BP_OK);
    } else if (state == NOT_PLANNED) {
        plan_in(s, 1, BP_ERR_FIT);
    } else if (state >= PLANNED) {
        s->device.seal = state == NOT_LINKED ? failing_seal : s->device.seal;
        plan_in(s, 64, BP_OK);
    }
    if (state == NOT_OPENED) {
        assert_int_equal(bp_runtime_open(s->runtime, s->plan, s->arena, 64), BP_ERR_FIT);
    } else if (state == NOT_LINKED) {
        assert_int_equal(bp_runtime_open(s->runtime, s->plan, s->arena, s->arena_bytes),
                         BP_ERR_DEVICE);
        s->device.seal = bp_device_host.seal;
    } else if (state >= OPEN) {
        assert_int_equal(bp_runtime_open(s->runtime, s->plan, s->arena, s->arena_bytes), BP_OK);
        assert_int_equal(bp_runtime_initialize(s->runtime), BP_OK);
    }
    if (state == CLOSED) {
        bp_runtime_close(s->runtime);
    }
    return s;
}

static void end_runtime(void *subject)
{
    run_subject *s = subject;
    bp_runtime_close(s->runtime);
    free(s->host);
    free(s->other);
    free(s->arena);
    free(s);
}

static bp_runtime *runtime_of(void *subject)
{
    return ((run_subject *)subject)->runtime;
}

static bp_status call_make(void *subject)
{
    bp_runtime_room room;
    (void)subject;
    return said(bp_runtime_make(&room) != NULL);
}

static bp_status call_plan_begin(void *subject)
{
    bp_plan_room room;
    (void)subject;
    return said(bp_plan_begin(&room) != NULL);
}

static bp_status call_plan_error(void *subject)
{
    return said(bp_plan_error(((run_subject *)subject)->plan) != NULL);
}

static bp_status call_count(void *subject)
{
    run_subject *s = subject;
    return bp_plan_count(s->plan, &s->spec, s->other, s->host_bytes);
}

static bp_status call_plan(void *subject)
{
    run_subject *s = subject;
    return bp_plan_make(s->plan, &s->spec, s->other, s->host_bytes);
}

static bp_status call_plan_counted(void *subject)
{
    run_subject *s = subject;
    return bp_plan_make_counted(s->plan, s->other, s->host_bytes);
}

static bp_status call_footprint(void *subject)
{
    return said(bp_plan_footprint(((run_subject *)subject)->plan).arena_bytes > 0);
}

static bp_status call_compare_plans(void *subject)
{
    run_subject *s = subject;
    return bp_plan_compare(s->plan, s->plan, &s->error);
}

static bp_status print(void *user, const char *text, size_t length)
{
    (void)user;
    return said(text != NULL && length > 0);
}

static bp_status call_print(void *subject)
{
    return bp_plan_print(((run_subject *)subject)->plan, print, NULL);
}

static bp_status call_file_bytes(void *subject)
{
    return said(bp_plan_file_bytes(((run_subject *)subject)->plan) > 0);
}

static bp_status call_write_plan(void *subject)
{
    run_subject *s = subject;
    return bp_plan_write(s->plan, s->other, s->host_bytes);
}

/* What another plan of the spec has written. */
static bp_status call_read(void *subject)
{
    static uint64_t file[1 << 16];
    run_subject *s = subject;
    bp_plan_room room;
    bp_plan *plan = bp_plan_begin(&room);
    assert_int_equal(bp_plan_make(plan, &s->spec, s->other, s->host_bytes), BP_OK);
    const uint64_t bytes = bp_plan_file_bytes(plan);
    assert_int_equal(bp_plan_write(plan, file, sizeof file), BP_OK);
    return bp_plan_read(s->plan, &s->spec, file, bytes, s->other, s->host_bytes);
}

static bp_status lend(void *user, uint64_t bytes, void **memory, bp_error *error)
{
    (void)user;
    (void)error;
    *memory = aligned((bytes + 63) / 64 * 64);
    return BP_OK;
}

static void take_back(void *user, void *memory, uint64_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

static bp_status call_budget(void *subject)
{
    run_subject *s = subject;
    const bp_budget_request request = {
        .spec = s->spec, .arena = s->arena_bytes, .memory = {lend, take_back, NULL}};
    bp_budget budget;
    const bp_status status = bp_budget_find(&request, &budget, &s->error);
    bp_budget_end(&budget, &request.memory);
    return status;
}

static bp_status call_budget_end(void *subject)
{
    const bp_lender memory = {lend, take_back, NULL};
    bp_budget budget = {.arena_bytes = 0};
    (void)subject;
    bp_budget_end(&budget, &memory);
    bp_budget_end(&budget, &memory);
    return BP_OK;
}

static bp_status call_open(void *subject)
{
    run_subject *s = subject;
    return bp_runtime_open(s->runtime, s->plan, s->arena, s->arena_bytes);
}

static bp_status call_initialize(void *subject)
{
    return bp_runtime_initialize(runtime_of(subject));
}

static bp_status call_step(void *subject)
{
    run_subject *s = subject;
    bp_outcome outcome;
    return bp_runtime_step(s->runtime, &s->feed, &outcome);
}

static bp_status call_judge(void *subject)
{
    return bp_runtime_step_check(runtime_of(subject), NULL);
}

static bp_status call_evaluate(void *subject)
{
    run_subject *s = subject;
    double loss;
    uint64_t targets;
    return bp_runtime_evaluate(s->runtime, &s->feed, 0, &loss, &targets);
}

static bp_status watch(void *user, const bp_runtime *runtime)
{
    (void)user;
    return said(bp_runtime_logits(runtime) != NULL && bp_runtime_group(runtime)->samples > 0);
}

static bp_status call_evaluate_each(void *subject)
{
    run_subject *s = subject;
    double loss;
    uint64_t targets;
    return bp_runtime_evaluate_each(s->runtime, &s->feed, 0, watch, NULL, &loss, &targets);
}

static bp_status call_restart(void *subject)
{
    return bp_runtime_restart(runtime_of(subject));
}

static bp_status call_accept(void *subject)
{
    return bp_runtime_accept(runtime_of(subject), tokens, 3);
}

/* The plan's model reads one text. */
static bp_status call_read_source(void *subject)
{
    static const int32_t ids[1] = {0};
    return bp_runtime_read_source(runtime_of(subject), ids, 0);
}

static bp_status call_reread(void *subject)
{
    bool again;
    return bp_runtime_reread(runtime_of(subject), 3, &again);
}

static bp_status call_accept_each(void *subject)
{
    return bp_runtime_accept_each(runtime_of(subject), tokens);
}

static bp_status call_error(void *subject)
{
    return said(bp_runtime_error(runtime_of(subject)) != NULL);
}

static bp_status call_steps(void *subject)
{
    return said(bp_runtime_steps(runtime_of(subject)) == 0);
}

static bp_status call_logits(void *subject)
{
    return said(bp_runtime_logits(runtime_of(subject)) != NULL);
}

static bp_status call_group(void *subject)
{
    return said(bp_runtime_group(runtime_of(subject)) != NULL);
}

static bp_status call_lengths(void *subject)
{
    return said(bp_runtime_length_buckets(runtime_of(subject)) == 1);
}

static bp_status call_length(void *subject)
{
    return said(bp_runtime_length(runtime_of(subject), 5).micros == 0);
}

static bp_status call_weights(void *subject)
{
    return said(bp_runtime_weights(runtime_of(subject)) > 0);
}

static bp_status call_weight(void *subject)
{
    bp_runtime *runtime = runtime_of(subject);
    assert_int_equal(bp_runtime_weight(runtime, 1000000).count, 0);
    return said(bp_runtime_weight(runtime, 0).count > 0);
}

static bp_status call_put_weight(void *subject)
{
    run_subject *s = subject;
    assert_int_equal(bp_runtime_put_weight(s->runtime, 1000000, 0, s->values, 1), BP_ERR_USAGE);
    return bp_runtime_put_weight(s->runtime, 0, 0, s->values, 5);
}

static bp_status call_get_weight(void *subject)
{
    run_subject *s = subject;
    assert_int_equal(bp_runtime_get_weight(s->runtime, 0, 500, s->values, 93), BP_ERR_USAGE);
    return bp_runtime_get_weight(s->runtime, 0, 500, s->values, 92);
}

static bp_status call_get_trained(void *subject)
{
    run_subject *s = subject;
    assert_int_equal(bp_runtime_get_trained(s->runtime, 1000000, 0, s->values, 1), BP_ERR_USAGE);
    return bp_runtime_get_trained(s->runtime, 0, 0, s->values, 5);
}

static bp_status call_close(void *subject)
{
    bp_runtime_close(runtime_of(subject));
    bp_runtime_close(runtime_of(subject));
    return BP_OK;
}

static bp_status call_state_count(void *subject)
{
    return said(bp_runtime_state_count(runtime_of(subject)) > 0);
}

static bp_status call_state_tensor(void *subject)
{
    bp_runtime *runtime = runtime_of(subject);
    assert_int_equal(bp_runtime_state_tensor(runtime, 1000000).bytes, 0);
    return said(bp_runtime_state_tensor(runtime, 0).bytes > 0);
}

static bp_status call_state_io(void *subject)
{
    run_subject *s = subject;
    const bp_state_io io = bp_runtime_state_io(s->runtime);
    assert_int_equal(io.read(io.user, 1000000, 0, s->values, 4), BP_ERR_USAGE);
    assert_int_equal(io.write(io.user, 0, UINT64_MAX, s->values, 4), BP_ERR_USAGE);
    const bp_status status = io.read(io.user, 0, 0, s->values, 4);
    return status == BP_OK ? io.write(io.user, 0, 0, s->values, 4) : status;
}

static bp_status call_continue(void *subject)
{
    bp_runtime_continue(runtime_of(subject), 7);
    return said(bp_runtime_steps(runtime_of(subject)) == 7);
}

static const state_row runtime_rows[] = {
    {"bp_runtime_make", EVERY, call_make},
    {"bp_plan_begin", EVERY, call_plan_begin},
    {"bp_plan_count", NOT_OPEN, call_count},
    {"bp_plan_make", NOT_OPEN, call_plan},
    {"bp_plan_make_counted", AT(COUNTED), call_plan_counted},
    {"bp_plan_footprint", IS_MADE, call_footprint},
    {"bp_plan_error", EVERY, call_plan_error},
    {"bp_plan_compare", IS_MADE, call_compare_plans},
    {"bp_plan_print", IS_MADE, call_print},
    {"bp_plan_file_bytes", IS_MADE, call_file_bytes},
    {"bp_plan_write", IS_MADE, call_write_plan},
    {"bp_plan_read", NOT_OPEN, call_read},
    {"bp_budget_find", EVERY, call_budget},
    {"bp_budget_end", EVERY, call_budget_end},
    {"bp_runtime_open", IS_MADE & ~AT(OPEN), call_open},
    {"bp_runtime_initialize", AT(OPEN), call_initialize},
    {"bp_runtime_step", AT(OPEN), call_step},
    {"bp_runtime_step_check", HAS_A_PLAN, call_judge},
    {"bp_runtime_evaluate", AT(OPEN), call_evaluate},
    {"bp_runtime_evaluate_each", AT(OPEN), call_evaluate_each},
    {"bp_runtime_restart", AT(OPEN), call_restart},
    {"bp_runtime_accept", AT(OPEN), call_accept},
    {"bp_runtime_accept_each", AT(OPEN), call_accept_each},
    {"bp_runtime_read_source", AT(OPEN), call_read_source},
    {"bp_runtime_reread", AT(OPEN), call_reread},
    {"bp_runtime_error", EVERY, call_error},
    {"bp_runtime_steps", EVERY, call_steps},
    {"bp_runtime_logits", HAS_A_PLAN, call_logits},
    {"bp_runtime_group", EVERY, call_group},
    {"bp_runtime_length_buckets", HAS_A_PLAN, call_lengths},
    {"bp_runtime_length", EVERY, call_length},
    {"bp_runtime_weights", HAS_A_PLAN, call_weights},
    {"bp_runtime_weight", HAS_A_PLAN, call_weight},
    {"bp_runtime_put_weight", AT(OPEN), call_put_weight},
    {"bp_runtime_get_weight", AT(OPEN), call_get_weight},
    {"bp_runtime_get_trained", AT(OPEN), call_get_trained},
    {"bp_runtime_close", EVERY, call_close},
    {"bp_runtime_state_count", HAS_A_PLAN, call_state_count},
    {"bp_runtime_state_tensor", HAS_A_PLAN, call_state_tensor},
    {"bp_runtime_state_io", AT(OPEN), call_state_io},
    {"bp_runtime_continue", EVERY, call_continue},
};

/* verifies run-38.5ff5 */
static void every_call_of_a_runtime(void **state)
{
    static const state_subject runtime = {RUNTIME_STATES, make_runtime, end_runtime, BP_ERR_USAGE};
    (void)state;
    in_every_state(&runtime, ROWS(runtime_rows));
}

/* The feed. */
enum {
    NO_SOURCE,
    NOT_INITIALISED,
    NOT_ACCEPTED, /* a member was refused */
    CHANGED,      /* after it was initialised */
    READY,
    FEED_STATES
};

typedef struct feed_subject {
    bp_feed feed;
    bp_source source;
    bp_megabatch_row rows[BP_MEGABATCH_GROUPS * 2];
    bp_megabatch megabatch;
    bp_mixture mixture;
    bp_error error;
    bp_group group;
    int32_t columns[2][64];
    int32_t scratch[BP_FEED_SCRATCH(8)];
} feed_subject;

static void *make_feed(uint32_t state)
{
    feed_subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->source = (bp_source){.name = "tokens", .count = TOKENS, .read = read_tokens};
    s->megabatch.rows = s->rows;
    s->group = (bp_group){.columns = 2,
                          .column = {{BP_INPUT_IDS, BP_I32, 8, 0, s->columns[0]},
                                     {BP_INPUT_LABELS, BP_I32, 8, -1, s->columns[1]}}};
    if (state != NO_SOURCE) {
        s->feed = (bp_feed){
            .source = &s->source, .sequence = 8, .batch = 2, .group = 2, .vocabulary = 37};
    }
    if (state == NOT_ACCEPTED) {
        s->feed.batch = 0;
    }
    if (state >= NOT_ACCEPTED) {
        assert_int_equal(bp_feed_init(&s->feed, &s->error),
                         state == NOT_ACCEPTED ? BP_ERR_USAGE : BP_OK);
    }
    if (state == CHANGED) {
        s->feed.group = 3;
    }
    return s;
}

static bp_status call_init(void *subject)
{
    feed_subject *s = subject;
    return bp_feed_init(&s->feed, &s->error);
}

static bp_status call_feed_length(void *subject)
{
    feed_subject *s = subject;
    uint32_t length;
    assert_int_equal(bp_feed_length(&s->feed, 1000, &length), BP_ERR_USAGE);
    return bp_feed_length(&s->feed, 0, &length);
}

static bp_status call_window(void *subject)
{
    feed_subject *s = subject;
    uint64_t window;
    assert_int_equal(bp_feed_window(&s->feed, 0, 1000, &window), BP_ERR_USAGE);
    return bp_feed_window(&s->feed, 0, 7, &window);
}

static bp_status call_shuffled(void *subject)
{
    feed_subject *s = subject;
    s->feed.shuffle = true;
    assert_true(bp_feed_shuffled(&s->feed, 0, 1000) == UINT64_MAX);
    return said(bp_feed_shuffled(&s->feed, 0, 7) < 8);
}

static bp_status call_by_length(void *subject)
{
    feed_subject *s = subject;
    uint64_t window;
    assert_int_equal(bp_feed_by_length(&s->feed, 0, 7, &window), BP_ERR_USAGE);
    s->feed.megabatch = &s->megabatch;
    assert_int_equal(bp_feed_by_length(&s->feed, 0, 1000, &window), BP_ERR_USAGE);
    return bp_feed_by_length(&s->feed, 0, 7, &window);
}

static bp_status call_mixture_init(void *subject)
{
    static const double weights[] = {1.0, 2.0};
    feed_subject *s = subject;
    assert_int_equal(bp_mixture_init(&s->mixture, &s->feed, weights), BP_ERR_USAGE);
    s->mixture.count = 2;
    s->mixture.part[0].end = 30;
    s->mixture.part[1].end = TOKENS;
    return bp_mixture_init(&s->mixture, &s->feed, weights);
}

static bp_status call_mixed(void *subject)
{
    feed_subject *s = subject;
    uint64_t window;
    assert_int_equal(bp_feed_mixed(&s->feed, 0, 7, &window), BP_ERR_USAGE);
    s->mixture.count = 1;
    s->feed.mixture = &s->mixture;
    assert_int_equal(bp_feed_mixed(&s->feed, 0, 7, &window), BP_ERR_USAGE);
    s->mixture.count = 0;
    const bp_status status = call_mixture_init(s);
    return status == BP_OK ? bp_feed_mixed(&s->feed, 0, 7, &window) : status;
}

static bp_status call_stage(void *subject)
{
    feed_subject *s = subject;
    return bp_feed_stage(&s->feed, 3, &s->group, s->scratch);
}

static bp_status call_stage_windows(void *subject)
{
    static const uint64_t windows[] = {0, 7, 8};
    feed_subject *s = subject;
    assert_int_equal(bp_feed_stage_windows(&s->feed, windows, 3, &s->group, s->scratch),
                     BP_ERR_USAGE);
    assert_int_equal(bp_feed_stage_windows(&s->feed, windows + 1, 2, &s->group, s->scratch),
                     BP_ERR_USAGE);
    return bp_feed_stage_windows(&s->feed, windows, 2, &s->group, s->scratch);
}

static bp_status call_group_column(void *subject)
{
    feed_subject *s = subject;
    const bp_group none = {.columns = 0};
    assert_null(bp_group_column(&none, BP_INPUT_IDS));
    return said(bp_group_column(&s->group, BP_INPUT_LABELS) == &s->group.column[1]);
}

static const state_row feed_rows[] = {
    {"bp_feed_init", AT(NOT_INITIALISED) | AT(READY), call_init},
    {"bp_feed_length", AT(READY), call_feed_length},
    {"bp_feed_window", AT(READY), call_window},
    {"bp_feed_shuffled", AT(READY), call_shuffled},
    {"bp_feed_by_length", AT(READY), call_by_length},
    {"bp_mixture_init", AT(READY), call_mixture_init},
    {"bp_feed_mixed", AT(READY), call_mixed},
    {"bp_feed_stage", AT(READY), call_stage},
    {"bp_feed_stage_windows", AT(READY), call_stage_windows},
    {"bp_group_column", EVERY, call_group_column},
};

/* verifies run-38.5ff5 */
static void every_call_of_a_feed(void **state)
{
    static const state_subject feed = {FEED_STATES, make_feed, free, BP_ERR_USAGE};
    (void)state;
    in_every_state(&feed, ROWS(feed_rows));
}

/* A tensor file that is read, and one that is written. */
enum { NEVER, NOT_THERE, DAMAGED, BEGUN, ENDED, FILE_STATES };

typedef struct file_subject {
    memory_store memory;
    bp_safetensors file;
    bp_safetensors_writer writer;
    bp_safetensors_plan plan;
    bp_tensor_entry entry;
    bp_error error;
    unsigned char bytes[64];
    unsigned char scratch[2 * BP_SAFETENSORS_WORK];
} file_subject;

static bp_status give_zeros(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                            size_t bytes)
{
    (void)user;
    (void)entry;
    (void)offset;
    memset(to, 0, bytes);
    return BP_OK;
}

static bp_status fail_to_give(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                              size_t bytes)
{
    (void)user;
    (void)entry;
    (void)offset;
    (void)to;
    (void)bytes;
    return BP_ERR_DEVICE;
}

static bp_status write_all(file_subject *s)
{
    return bp_safetensors_write(&s->writer, (bp_staging){s->bytes, sizeof s->bytes}, give_zeros,
                                NULL);
}

static file_subject *file_new(void)
{
    file_subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    memory_store_init(&s->memory);
    s->entry = (bp_tensor_entry){.name = "t", .dtype = BP_F32, .rank = 1, .shape = {4}};
    s->plan = (bp_safetensors_plan){.entries = &s->entry, .entry_count = 1};
    assert_int_equal(bp_safetensors_begin(&s->writer, &s->memory.store, "f", &s->plan, NULL),
                     BP_ERR_USAGE);
    assert_int_equal(bp_safetensors_layout(&s->plan, &s->error), BP_OK);
    return s;
}

static void *make_reader(uint32_t state)
{
    file_subject *s = file_new();
    assert_int_equal(bp_safetensors_begin(&s->writer, &s->memory.store, "f", &s->plan, NULL),
                     BP_OK);
    assert_int_equal(write_all(s), BP_OK);
    assert_int_equal(bp_safetensors_end(&s->writer), BP_OK);
    if (state == DAMAGED) {
        size_t size;
        memory_store_bytes(&s->memory, "f", &size)[9] ^= 1;
    }
    if (state != NEVER) {
        const bp_status status =
            bp_safetensors_open(&s->file, &s->memory.store, state == NOT_THERE ? "g" : "f",
                                s->scratch, sizeof s->scratch, &s->error);
        assert_int_equal(status, state == NOT_THERE ? BP_ERR_STORE
                                 : state == DAMAGED ? BP_ERR_DATA
                                                    : BP_OK);
    }
    if (state == ENDED) {
        assert_int_equal(bp_safetensors_close(&s->file), BP_OK);
    }
    return s;
}

static void end_file(void *subject)
{
    file_subject *s = subject;
    memory_store_free(&s->memory);
    free(s);
}

static bp_status call_file_close(void *subject)
{
    return bp_safetensors_close(&((file_subject *)subject)->file);
}

static bp_status call_file_find(void *subject)
{
    return said(bp_safetensors_find(&((file_subject *)subject)->file, "t") != NULL);
}

static bp_status call_file_metadata(void *subject)
{
    return said(bp_safetensors_metadata(&((file_subject *)subject)->file, "format") != NULL);
}

static bp_status call_file_read(void *subject)
{
    file_subject *s = subject;
    return bp_safetensors_read(&s->file, &s->entry, 0, s->bytes, 4);
}

static bp_status call_file_stream(void *subject)
{
    file_subject *s = subject;
    uint64_t digest;
    return bp_safetensors_stream(&s->file, &s->entry, (bp_staging){s->bytes, sizeof s->bytes}, NULL,
                                 NULL, &digest);
}

static bp_status call_file_open(void *subject)
{
    file_subject *s = subject;
    return bp_safetensors_open(&s->file, &s->memory.store, "f", s->scratch, sizeof s->scratch,
                               &s->error) == BP_OK
               ? BP_OK
               : BP_ERR_USAGE;
}

static const state_row reader_rows[] = {
    {"bp_safetensors_open", EVERY & ~AT(DAMAGED), call_file_open},
    {"bp_safetensors_close", AT(BEGUN), call_file_close},
    {"bp_safetensors_find", AT(BEGUN), call_file_find},
    {"bp_safetensors_metadata", AT(BEGUN), call_file_metadata},
    {"bp_safetensors_read", AT(BEGUN), call_file_read},
    {"bp_safetensors_stream", AT(BEGUN), call_file_stream},
};

/* NOT_THERE: it could not be made; DAMAGED: writing failed. */
static void *make_writer(uint32_t state)
{
    file_subject *s = file_new();
    faulty_store faulty;
    if (state == NOT_THERE) {
        faulty_store_init(&faulty, &s->memory.store);
        faulty_store_arm(&faulty, FAULT_OPEN_WRITE, 1, false);
        assert_int_equal(bp_safetensors_begin(&s->writer, &faulty.store, "f", &s->plan, &s->error),
                         BP_ERR_STORE);
    } else if (state != NEVER) {
        assert_int_equal(
            bp_safetensors_begin(&s->writer, &s->memory.store, "f", &s->plan, &s->error), BP_OK);
    }
    if (state == DAMAGED) {
        assert_int_equal(bp_safetensors_write(&s->writer, (bp_staging){s->bytes, sizeof s->bytes},
                                              fail_to_give, NULL),
                         BP_ERR_DEVICE);
    } else if (state == ENDED) {
        assert_int_equal(write_all(s), BP_OK);
        assert_int_equal(bp_safetensors_end(&s->writer), BP_OK);
    }
    return s;
}

static bp_status call_begin(void *subject)
{
    file_subject *s = subject;
    return bp_safetensors_begin(&s->writer, &s->memory.store, "g", &s->plan, &s->error);
}

static bp_status call_layout(void *subject)
{
    file_subject *s = subject;
    return bp_safetensors_layout(&s->plan, &s->error);
}

static bp_status call_write(void *subject)
{
    return write_all(subject);
}

static bp_status call_end(void *subject)
{
    return bp_safetensors_end(&((file_subject *)subject)->writer);
}

static const state_row writer_rows[] = {
    {"bp_safetensors_layout", EVERY, call_layout},
    {"bp_safetensors_begin", EVERY, call_begin},
    {"bp_safetensors_write", AT(BEGUN), call_write},
    {"bp_safetensors_end", AT(BEGUN), call_end},
};

/* verifies run-38.5ff5 */
static void every_call_of_a_file(void **state)
{
    static const state_subject reader = {FILE_STATES, make_reader, end_file, BP_ERR_USAGE};
    static const state_subject writer = {FILE_STATES, make_writer, end_file, BP_ERR_USAGE};
    (void)state;
    in_every_state(&reader, ROWS(reader_rows));
    in_every_state(&writer, ROWS(writer_rows));
}

/* Checkpoints: without their directory, with a damaged one, with whole ones. */
enum { NO_DIRECTORY, DAMAGED_ONE, WHOLE, MEDIUM_STATES };

static void *make_medium(uint32_t state)
{
    checkpoint_fixture *d = checkpoint_fixture_new();
    for (uint64_t step = 1; state != NO_DIRECTORY && step <= 2; step++) {
        assert_int_equal(checkpoint_fixture_save(d, step), BP_OK);
    }
    for (uint64_t step = 1; state == DAMAGED_ONE && step <= 2; step++) {
        const char *const path =
            step == 1 ? "run/checkpoint-1/state.safetensors" : "run/checkpoint-2/state.safetensors";
        size_t size;
        memory_store_bytes(&d->memory, path, &size)[20] ^= 1;
    }
    return d;
}

static void end_medium(void *subject)
{
    assert_true(checkpoint_fixture_free(subject));
}

static bp_status call_scratch(void *subject)
{
    checkpoint_fixture *d = subject;
    return said(bp_checkpoint_scratch(&d->checkpoint) > 0);
}

static bp_status call_bytes(void *subject)
{
    checkpoint_fixture *d = subject;
    uint64_t bytes;
    return bp_checkpoint_bytes(&d->location, &d->checkpoint, &bytes);
}

static bp_status call_check_space(void *subject)
{
    checkpoint_fixture *d = subject;
    d->memory.free_bytes = 1 << 20;
    return bp_checkpoint_check_space(&d->location, &d->checkpoint);
}

static bp_status call_save(void *subject)
{
    checkpoint_fixture *d = subject;
    return bp_checkpoint_save(&d->location, &d->checkpoint, NULL);
}

static bp_status call_digest(void *subject)
{
    checkpoint_fixture *d = subject;
    uint64_t digest;
    return bp_checkpoint_digest(&d->location, &d->checkpoint, &digest);
}

static bp_status call_verify(void *subject)
{
    checkpoint_fixture *d = subject;
    bp_checkpoint_found found;
    return bp_checkpoint_verify(&d->location, "run/checkpoint-2", &found);
}

static bp_status call_find(void *subject)
{
    checkpoint_fixture *d = subject;
    bp_checkpoint_found found;
    bool any;
    const bp_status status = bp_checkpoint_find(&d->location, NULL, NULL, &found, &any);
    return status == BP_OK ? said(any) : BP_ERR_INTERNAL;
}

static bp_status call_read_keys(void *subject)
{
    checkpoint_fixture *d = subject;
    bp_pairs keys;
    return bp_checkpoint_read_keys(&d->location, "run/checkpoint-2", &keys);
}

static bp_status call_load(void *subject)
{
    checkpoint_fixture *d = subject;
    return bp_checkpoint_load(&d->location, "run/checkpoint-2", &d->checkpoint, NULL);
}

static bp_status call_compare(void *subject)
{
    checkpoint_fixture *d = subject;
    static unsigned char scratch[ROOM];
    char name[BP_CHECKPOINT_TENSOR];
    bp_checkpoint_location location = d->location;
    location.scratch = scratch;
    location.scratch_bytes = sizeof scratch;
    return bp_checkpoint_compare(&location, "run/checkpoint-1", "run/checkpoint-2", name);
}

static bp_status call_prune(void *subject)
{
    checkpoint_fixture *d = subject;
    return bp_checkpoint_prune(&d->location, 2, 1);
}

static bp_status call_prune_later(void *subject)
{
    checkpoint_fixture *d = subject;
    return bp_checkpoint_prune_later(&d->location, 1);
}

static const state_row medium_rows[] = {
    {"bp_checkpoint_scratch", EVERY, call_scratch},
    {"bp_checkpoint_bytes", EVERY, call_bytes},
    {"bp_checkpoint_check_space", EVERY, call_check_space},
    {"bp_checkpoint_save", EVERY, call_save},
    {"bp_checkpoint_digest", EVERY, call_digest},
    {"bp_checkpoint_verify", AT(WHOLE), call_verify},
    {"bp_checkpoint_find", AT(WHOLE), call_find},
    {"bp_checkpoint_read_keys", AT(WHOLE), call_read_keys},
    {"bp_checkpoint_load", AT(WHOLE), call_load},
    {"bp_checkpoint_compare", AT(WHOLE), call_compare},
    {"bp_checkpoint_prune", EVERY & ~AT(NO_DIRECTORY), call_prune},
    {"bp_checkpoint_prune_later", EVERY & ~AT(NO_DIRECTORY), call_prune_later},
};

/* verifies run-38.5ff5 */
static void every_call_of_a_medium(void **state)
{
    static const state_subject medium = {MEDIUM_STATES, make_medium, end_medium, BP_OK};
    (void)state;
    in_every_state(&medium, ROWS(medium_rows));
}

/* A trainer of a plan of no programs, and a store over a flash. */
enum { ZERO, TOO_SMALL, TAKEN, TRAINER_STATES };

typedef struct trainer_subject {
    bp_trainer trainer;
    uint64_t arena[64];
    bp_store_flash flash;
    flash_chip chip;
    uint64_t table[2048];
} trainer_subject;

static const bp_trainer_range trainer_state[] = {{384, 8}};
static const bp_trainer_plan trainer_plan = {.arena_bytes = 512,
                                             .result = 128,
                                             .control = 256,
                                             .micros = 1,
                                             .inputs = 1,
                                             .count = {[BP_TRAINER_STEP] = 0},
                                             .input = {{.offset = 64, .elements = 1}},
                                             .state = trainer_state,
                                             .state_count = 1};

static void *make_trainer(uint32_t state)
{
    trainer_subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    flash_chip_init(&s->chip, CHIP_BLOCKS);
    if (state != ZERO) {
        const bool small = state == TOO_SMALL;
        const size_t bytes = small ? 8 : sizeof s->arena;
        assert_int_equal(bp_trainer_open(&s->trainer, &trainer_plan, s->arena, bytes),
                         small ? BP_ERR_FIT : BP_OK);
        assert_int_equal(bp_store_flash_init(&s->flash, &s->chip.flash, FIXTURE_FILES, s->table,
                                             small ? 8 : sizeof s->table),
                         small ? BP_ERR_FIT : BP_OK);
    }
    return s;
}

static bp_trainer *trainer_of(void *subject)
{
    return &((trainer_subject *)subject)->trainer;
}

static bp_status call_trainer_open(void *subject)
{
    trainer_subject *s = subject;
    return bp_trainer_open(&s->trainer, &trainer_plan, s->arena, sizeof s->arena);
}

static bp_status call_trainer_initialize(void *subject)
{
    return bp_trainer_initialize(trainer_of(subject));
}

static bp_status call_trainer_column(void *subject)
{
    return said(bp_trainer_column(trainer_of(subject), 0) != NULL);
}

static bp_status call_trainer_step(void *subject)
{
    trainer_subject *s = subject;
    const bp_trainer_batch batch = {{s->arena}, 1, 0.0};
    bp_trainer_outcome outcome;
    return bp_trainer_step(&s->trainer, &batch, &outcome);
}

static bp_status call_trainer_evaluate(void *subject)
{
    trainer_subject *s = subject;
    const bp_trainer_batch batch = {{s->arena}, 1, 1.0};
    double loss;
    return bp_trainer_evaluate(&s->trainer, &batch, &loss);
}

static bp_status call_trainer_predict(void *subject)
{
    trainer_subject *s = subject;
    float output;
    return bp_trainer_predict(&s->trainer, s->arena, 1, &output, 1);
}

static bp_status call_trainer_class(void *subject)
{
    const float outputs[] = {1.0f, 2.0f};
    uint32_t best;
    (void)subject;
    return bp_trainer_class(outputs, 2, &best);
}

static bp_status call_trainer_restart(void *subject)
{
    bp_trainer_restart(trainer_of(subject));
    return BP_OK;
}

static bp_status call_trainer_accept(void *subject)
{
    const int32_t id = 0;
    const float *logits;
    return bp_trainer_accept(trainer_of(subject), &id, 1, &logits);
}

static bp_status call_trainer_generate(void *subject)
{
    const int32_t id = 0;
    int32_t to;
    return bp_trainer_generate(trainer_of(subject), &id, 1, &to, 1, NULL, NULL);
}

static const bp_state_tensor trainer_tensor = {.name = "t", .dtype = BP_U8, .bytes = 8};

static bp_status call_trainer_get(void *subject)
{
    unsigned char bytes[8];
    return bp_trainer_get(trainer_of(subject), &trainer_tensor, "t", bytes, sizeof bytes);
}

static bp_status call_trainer_put(void *subject)
{
    const unsigned char bytes[8] = {0};
    return bp_trainer_put(trainer_of(subject), &trainer_tensor, "t", bytes, sizeof bytes);
}

static bp_status call_trainer_place(void *subject)
{
    trainer_subject *s = subject;
    return bp_trainer_place(&s->trainer, 0, s->arena, 1, 0);
}

static bp_status call_trainer_learn(void *subject)
{
    bp_trainer_outcome outcome;
    return bp_trainer_learn(trainer_of(subject), 1, &outcome);
}

/* A slot of the size of a state in memory that says nothing. */
static bp_status slot_reads(void *user, uint32_t slot, uint64_t offset, void *to, size_t bytes)
{
    (void)user;
    (void)slot;
    (void)offset;
    memset(to, 0, bytes);
    return BP_OK;
}

static bp_status slot_erases(void *user, uint32_t slot)
{
    (void)user;
    (void)slot;
    return BP_OK;
}

static bp_status slot_writes(void *user, uint32_t slot, uint64_t offset, const void *from,
                             size_t bytes)
{
    (void)user;
    (void)slot;
    (void)offset;
    (void)from;
    (void)bytes;
    return BP_OK;
}

static const bp_trainer_slots trainer_slots = {NULL, 4096, slot_reads, slot_erases, slot_writes};
static const bp_trainer_kept trainer_kept = {&trainer_tensor, NULL, 0};

static bp_status call_trainer_keep(void *subject)
{
    return bp_trainer_keep(trainer_of(subject), &trainer_kept, &trainer_slots);
}

static bp_status call_trainer_recall(void *subject)
{
    bool any;
    return bp_trainer_recall(trainer_of(subject), &trainer_kept, &trainer_slots, &any);
}

static bp_status call_trainer_kept_bytes(void *subject)
{
    return said(bp_trainer_kept_bytes(trainer_of(subject), &trainer_kept) > 0);
}

static bp_status call_trainer_bytes(void *subject)
{
    return said(bp_trainer_state_bytes(trainer_of(subject)) > 0);
}

static bp_status call_trainer_read(void *subject)
{
    unsigned char byte;
    return bp_trainer_read_state(trainer_of(subject), 7, &byte, 1);
}

static bp_status call_trainer_write(void *subject)
{
    return bp_trainer_write_state(trainer_of(subject), 7, "x", 1);
}

static bp_status call_trainer_io(void *subject)
{
    const bp_state_io io = bp_trainer_state_io(trainer_of(subject));
    unsigned char byte;
    return io.read(io.user, 0, 7, &byte, 1);
}

static bp_status call_wear(void *subject)
{
    trainer_subject *s = subject;
    return said(bp_store_flash_wear(&s->flash).most == 0);
}

static bp_status call_flash_bytes(void *subject)
{
    trainer_subject *s = subject;
    return said(bp_store_flash_bytes(&s->chip.flash, 8) > 0);
}

static bp_status call_flash_init(void *subject)
{
    trainer_subject *s = subject;
    return bp_store_flash_init(&s->flash, &s->chip.flash, FIXTURE_FILES, s->table, sizeof s->table);
}

/* A ring and labelled rows, of records that are zero or that were opened. */
typedef struct sensor_subject {
    volatile float ring[8];
    bp_sensor_learned learned;
    bp_sensor sensor;
    uint32_t memory[BP_REPLAY_BYTES(1, 2) / sizeof(uint32_t)];
} sensor_subject;

static bp_sensor *sensor_of(void *subject)
{
    return &((sensor_subject *)subject)->sensor;
}

static bp_replay *replay_of(void *subject)
{
    return (void *)((sensor_subject *)subject)->memory;
}

static void *make_sensor(uint32_t state)
{
    sensor_subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    if (state == TAKEN) {
        s->sensor = (bp_sensor){.ring = s->ring,
                                .frames = 8,
                                .channels = 1,
                                .window = 2,
                                .hop = 1,
                                .memory = 9,
                                .learned = &s->learned};
        assert_int_equal(bp_sensor_open(&s->sensor), BP_OK);
        assert_int_equal(bp_replay_open(s->memory, sizeof s->memory, 1, 2, 2), BP_OK);
    }
    return s;
}

static bp_status call_sensor_open(void *subject)
{
    return bp_sensor_open(sensor_of(subject));
}

static bp_status call_sensor_push(void *subject)
{
    const float number = 1.0f;
    return bp_sensor_push(sensor_of(subject), &number);
}

static bp_status call_sensor_window(void *subject)
{
    float window[2];
    const float number = 1.0f;
    for (uint32_t i = 0; i < 2; i++) {
        BP_TRY(bp_sensor_push(sensor_of(subject), &number));
    }
    return said(bp_sensor_window(sensor_of(subject), window));
}

static bp_status call_sensor_normalise(void *subject)
{
    float window[2] = {1.0f, 2.0f};
    bp_sensor_normalise(sensor_of(subject), window, false);
    return said(sensor_of(subject)->learned != NULL);
}

static bp_status call_replay_open(void *subject)
{
    sensor_subject *s = subject;
    return bp_replay_open(s->memory, sizeof s->memory, 1, 2, 2);
}

static bp_status call_replay_put(void *subject)
{
    const float number = 1.0f;
    return bp_replay_put(replay_of(subject), &number, 0);
}

static bp_status call_replay_draw(void *subject)
{
    const float *row;
    uint32_t label;
    BP_TRY(call_replay_put(subject));
    return said(bp_replay_draw(replay_of(subject), &row, &label));
}

static const state_row sensor_rows[] = {{"bp_sensor_open", AT(TAKEN), call_sensor_open},
                                        {"bp_sensor_push", AT(TAKEN), call_sensor_push},
                                        {"bp_sensor_window", AT(TAKEN), call_sensor_window},
                                        {"bp_sensor_normalise", AT(TAKEN), call_sensor_normalise},
                                        {"bp_replay_open", EVERY, call_replay_open},
                                        {"bp_replay_put", AT(TAKEN), call_replay_put},
                                        {"bp_replay_draw", AT(TAKEN), call_replay_draw}};

static const state_row trainer_rows[] = {
    {"bp_trainer_open", EVERY, call_trainer_open},
    {"bp_trainer_initialize", AT(TAKEN), call_trainer_initialize},
    {"bp_trainer_column", AT(TAKEN), call_trainer_column},
    {"bp_trainer_step", AT(TAKEN), call_trainer_step},
    {"bp_trainer_evaluate", 0, call_trainer_evaluate},
    {"bp_trainer_predict", 0, call_trainer_predict},
    {"bp_trainer_class", EVERY, call_trainer_class},
    {"bp_trainer_restart", EVERY, call_trainer_restart},
    {"bp_trainer_accept", 0, call_trainer_accept},
    {"bp_trainer_generate", 0, call_trainer_generate},
    {"bp_trainer_place", 0, call_trainer_place},
    {"bp_trainer_learn", 0, call_trainer_learn},
    {"bp_trainer_keep", AT(TAKEN), call_trainer_keep},
    {"bp_trainer_recall", AT(TAKEN), call_trainer_recall},
    {"bp_trainer_kept_bytes", AT(TAKEN), call_trainer_kept_bytes},
    {"bp_trainer_get", AT(TAKEN), call_trainer_get},
    {"bp_trainer_put", AT(TAKEN), call_trainer_put},
    {"bp_trainer_state_bytes", AT(TAKEN), call_trainer_bytes},
    {"bp_trainer_read_state", AT(TAKEN), call_trainer_read},
    {"bp_trainer_write_state", AT(TAKEN), call_trainer_write},
    {"bp_trainer_state_io", AT(TAKEN), call_trainer_io},
    {"bp_store_flash_init", EVERY, call_flash_init},
    {"bp_store_flash_bytes", EVERY, call_flash_bytes},
    {"bp_store_flash_wear", EVERY, call_wear},
};

/* verifies run-38.5ff5 */
static void every_call_of_a_sensor(void **state)
{
    static const state_subject sensor = {TRAINER_STATES, make_sensor, free, BP_ERR_USAGE};
    (void)state;
    in_every_state(&sensor, ROWS(sensor_rows));
}

static void every_call_of_a_trainer(void **state)
{
    static const state_subject trainer = {TRAINER_STATES, make_trainer, free, BP_ERR_USAGE};
    (void)state;
    in_every_state(&trainer, ROWS(trainer_rows));
}

/* Functions of their arguments alone, which nothing that came before can make wrong. */
static const char *const stateless[] = {
    "bp_bert_config_of",
    "bp_clip_config_of",
    "bp_cnn_config_of",
    "bp_llama_config_of",
    "bp_mlp_config_of",
    "bp_modernbert_config_of",
    "bp_neox_config_of",
    "bp_rnn_config_of",
    "bp_t5_config_of",
    "bp_vit_config_of",
    "bp_whisper_config_of",
    "bp_whisper_frames",
    "bp_transformer_of",
    "bp_transformer_check",
    "bp_transformer_inner",
    "bp_vit_tokens",
    "bp_llama_rotary_width",
    "bp_layer_in",
    "bp_layer_put",
    "bp_family_config_get",
    "bp_family_config_set",
    "bp_rope_frequency",
    "bp_rope_magnitude",
    "bp_bf16_even_from_f32",
    "bp_bf16_from_f32",
    "bp_f16_from_f32",
    "bp_f32_from_bf16",
    "bp_f32_from_f16",
    "bp_dtype_bytes",
    "bp_dtype_name",
    "bp_dtype_parse",
    "bp_error_found",
    "bp_error_limit",
    "bp_error_mend",
    "bp_error_numbers",
    "bp_error_prefix",
    "bp_error_right",
    "bp_error_set",
    "bp_limit_words",
    "bp_status_exit_code",
    "bp_status_text",
    "bp_feed_cut_pair",
    "bp_feed_labels",
    "bp_feed_windows",
    "bp_pair_compare",
    "bp_pairs_compare",
    "bp_pairs_find",
    "bp_plan_scratch",
    "bp_layout_scratch",
    "bp_layout_scratch_greedy",
    "bp_layout_solve",
    "bp_rate_constant",
    "bp_rate_cosine",
    "bp_rate_cosine_with_restarts",
    "bp_rate_find",
    "bp_rate_inverse_sqrt",
    "bp_rate_linear",
    "bp_rate_name",
    "bp_rate_polynomial",
    "bp_rate_warmup_stable_decay",
    "bp_spec_check",
    "bp_spec_decode_rows",
    "bp_spec_eval_batch",
    "bp_spec_keeps_vectors",
    "bp_spec_virtual_ranks",
    "bp_spec_loss_rows",
    "bp_spec_needs_norm",
    "bp_spec_ranks",
    "bp_spec_whole_group",
    "bp_store_posix_init",
    "bp_version",
};

/* Opens a plan, and gives the loss of its first step. */
static float first_loss(run_subject *s, bp_plan *plan, bp_feed *feed)
{
    bp_outcome outcome;
    assert_int_equal(bp_runtime_open(s->runtime, plan, s->arena, s->arena_bytes), BP_OK);
    assert_int_equal(bp_runtime_initialize(s->runtime), BP_OK);
    assert_int_equal(bp_runtime_step(s->runtime, feed, &outcome), BP_OK);
    bp_runtime_close(s->runtime);
    return (float)outcome.loss;
}

/* A plan that was opened is opened again: in a room in which a runtime was made anew, by a runtime
 * that has opened another plan since. */
/* verifies run-38.5ff5 */
static void a_room_and_a_runtime_used_again(void **state)
{
    run_subject *s = make_runtime(PLANNED);
    bp_plan_room room;
    bp_plan *other = bp_plan_begin(&room);
    bp_spec spec = s->spec;
    bp_feed feed = s->feed;
    (void)state;
    const float loss = first_loss(s, s->plan, &s->feed);
    s->runtime = bp_runtime_make(&s->room);
    assert_true(bp_runtime_weights(s->runtime) == 0 && bp_runtime_steps(s->runtime) == 0);
    assert_memory_equal(&loss, &(float){first_loss(s, s->plan, &s->feed)}, sizeof loss);
    spec.sequence = feed.sequence = 6;
    bp_transformer sizes = bp_transformer_of(&spec.config);
    sizes.layers = 1;
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    assert_int_equal(bp_plan_make(other, &spec, s->other, s->host_bytes), BP_OK);
    assert_int_equal(bp_feed_init(&feed, &s->error), BP_OK);
    const float shorter = first_loss(s, other, &feed);
    const uint32_t weights = bp_runtime_weights(s->runtime);
    assert_memory_equal(&loss, &(float){first_loss(s, s->plan, &s->feed)}, sizeof loss);
    assert_true(bp_runtime_weights(s->runtime) > weights);
    assert_memory_equal(&shorter, &(float){first_loss(s, other, &feed)}, sizeof loss);
    end_runtime(s);
}

/* A spec that is all zero is one of them. */
/* verifies run-38.5ff5 */
static void a_spec_of_zeros(void **state)
{
    static const bp_spec none;
    bp_error error = {.code = BP_OK};
    (void)state;
    assert_int_equal(bp_spec_check(&none, &error), BP_ERR_USAGE);
    assert_true(bp_plan_scratch(&none) == BP_SIZE_INVALID);
    assert_true(bp_spec_virtual_ranks(&none) == 1 && bp_spec_ranks(&none) == 1);
    assert_true(bp_spec_eval_batch(&none) == 0 && bp_spec_decode_rows(&none) == 1);
    assert_false(bp_spec_needs_norm(&none) || bp_spec_whole_group(&none));
    assert_false(bp_spec_keeps_vectors(&none));
    assert_true(sizeof stateless / sizeof stateless[0] > 50);
    for (size_t i = 0; i < sizeof stateless / sizeof stateless[0]; i++) {
        assert_memory_equal(stateless[i], "bp_", 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_a_runtime),
        cmocka_unit_test(every_call_of_a_feed),
        cmocka_unit_test(every_call_of_a_file),
        cmocka_unit_test(every_call_of_a_medium),
        cmocka_unit_test(every_call_of_a_trainer),
        cmocka_unit_test(every_call_of_a_sensor),
        cmocka_unit_test(a_room_and_a_runtime_used_again),
        cmocka_unit_test(a_spec_of_zeros),
    };
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * i % 37;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
