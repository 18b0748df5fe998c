/* SPDX-License-Identifier: MIT */
/* The runtime end to end on a tiny GPT-2: plans, faults of memory and device, refusals, equality of
 * what must be equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/run/runtime.h"
#include "device/host/host.h"
#include "layers/families/gpt2.h"
#include "optim/rules.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/plans/plan_bytes.h"

#define VOCABULARY 61
#define TOKENS     4000

/* A device that is the host's, but whose n-th call of any kind fails. */
static uint64_t calls_left;

static bp_status count_call(void)
{
    return calls_left-- == 0 ? BP_ERR_DEVICE : BP_OK;
}

static bp_status open_dry(void *context, const bp_device_options *options, const bp_regions *places,
                          bp_error *error)
{
    BP_TRY(count_call());
    return bp_device_host.open(context, options, places, error);
}

static bp_status link_counted(void *context, uint32_t program, const bp_linked_program *linked,
                              void *memory, size_t bytes)
{
    BP_TRY(count_call());
    return bp_device_host.link(context, program, linked, memory, bytes);
}

static bp_status seal_counted(void *context)
{
    BP_TRY(count_call());
    return bp_device_host.seal(context);
}

static bp_status upload_counted(void *context, uint64_t offset, const void *from, size_t bytes)
{
    BP_TRY(count_call());
    return bp_device_host.upload(context, offset, from, bytes);
}

static bp_status download_counted(void *context, uint64_t offset, void *to, size_t bytes)
{
    BP_TRY(count_call());
    return bp_device_host.download(context, offset, to, bytes);
}

static bp_status run_counted(void *context, uint32_t program)
{
    BP_TRY(count_call());
    return bp_device_host.run(context, program);
}

static bp_device dry_run_device(void)
{
    bp_device device = bp_device_host;
    device.open = open_dry;
    device.link = link_counted;
    device.seal = seal_counted;
    device.upload = upload_counted;
    device.download = download_counted;
    device.run = run_counted;
    return device;
}

static bp_spec tiny_spec(void)
{
    return (bp_spec){.model = &bp_model_gpt2,
                     .config =
                         config_with((bp_model_config){.vocabulary = VOCABULARY, .positions = 24},
                                     OWN(bp_transformer, .width = 16, .layers = 2, .heads = 2,
                                         .norm_epsilon = 1e-5, .initializer_range = 0.02,
                                         .embedding_dropout = 0.1, .residual_dropout = 0.1,
                                         .attention_dropout = 0.1)),
                     .optimizer = &bp_optimizer_adamw,
                     .optimizer_options = {.learning_rate = 1e-3,
                                           .beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .epsilon = 1e-8,
                                           .weight_decay = 0.01,
                                           .max_grad_norm = 1.0},
                     .device = &bp_device_host,
                     .device_options = {.threads = 2},
                     .batch = 2,
                     .sequence = 12,
                     .accumulation = 1,
                     .seed = 3,
                     .evaluate = true,
                     .generate_context = 20,
                     .prefill_rows = 6};
}

static bp_status read_pattern(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = (first + i) * 2654435761u;
        to[i] = (int32_t)((x >> 7) % 11 + (first + i) % 50);
    }
    return BP_OK;
}

static bp_status no_targets(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts)
{
    (void)source;
    (void)first;
    memset(counts, 0, n);
    return BP_OK;
}

static bp_source pattern = {.name = "pattern", .count = TOKENS, .read = read_pattern};

static bp_feed feed_for(const bp_spec *spec)
{
    bp_feed feed = {.source = &pattern,
                    .seed = spec->seed,
                    .sequence = spec->sequence,
                    .batch = spec->batch,
                    .group = spec->batch * spec->accumulation,
                    .vocabulary = VOCABULARY,
                    .shuffle = true};
    assert_int_equal(bp_feed_init(&feed, NULL), BP_OK);
    return feed;
}

typedef struct session {
    bp_plan plan;
    bp_runtime runtime;
    void *host;
    void *arena;
} session;

static bp_status session_open(session *s, const bp_spec *spec)
{
    memset(s, 0, sizeof *s);
    uint64_t bytes = plan_bytes(spec);
    assert_true(bytes != BP_SIZE_INVALID);
    assert_int_equal(posix_memalign(&s->host, 64, (size_t)bytes), 0);
    memset(s->host, 0x5a, (size_t)bytes);
    s->arena = NULL;
    BP_TRY(bp_plan_make(&s->plan, spec, s->host, bytes));
    assert_true(s->plan.report.host_bytes <= bytes);
    assert_true(s->plan.report.optimal);
    size_t arena = (size_t)s->plan.report.arena_bytes;
    assert_int_equal(posix_memalign(&s->arena, 4096, arena), 0);
    memset(s->arena, 0x5a, arena);
    BP_TRY(bp_runtime_open(&s->runtime, &s->plan, s->arena, arena));
    return bp_runtime_initialize(&s->runtime);
}

static void session_close(session *s)
{
    bp_runtime_close(&s->runtime);
    bp_runtime_close(&s->runtime); /* closing twice is harmless */
    free(s->host);
    free(s->arena);
}

/* FNV-1a over the persistent buffers in name order. */
static uint64_t state_hash(session *s)
{
    uint64_t hash = 1469598103934665603u;
    unsigned char piece[256];
    for (uint32_t i = 0; i < bp_runtime_state_count(&s->runtime); i++) {
        const bp_buffer *buffer = bp_runtime_state(&s->runtime, i);
        for (uint64_t at = 0; at < buffer->bytes; at += sizeof piece) {
            uint64_t left = buffer->bytes - at;
            size_t n = left < sizeof piece ? (size_t)left : sizeof piece;
            assert_int_equal(bp_runtime_read(&s->runtime, buffer, at, piece, n), BP_OK);
            for (size_t b = 0; b < n; b++) {
                hash = (hash ^ piece[b]) * 1099511628211u;
            }
        }
    }
    return hash;
}

static uint64_t train(const bp_spec *spec, int steps)
{
    session s;
    bp_outcome outcome;
    assert_int_equal(session_open(&s, spec), BP_OK);
    bp_feed feed = feed_for(spec);
    for (int i = 0; i < steps; i++) {
        assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_OK);
        assert_false(outcome.nonfinite);
        assert_true(outcome.loss > 0.0 && outcome.loss < 10.0);
    }
    assert_int_equal(outcome.step, steps);
    uint64_t hash = state_hash(&s);
    session_close(&s);
    return hash;
}

/* verifies run-1.e4fa */
static void test_policies_threads_and_poison_keep_the_bits(void **state)
{
    (void)state;
    for (uint32_t accumulation = 1; accumulation <= 3; accumulation += 2) {
        bp_spec spec = tiny_spec();
        spec.accumulation = accumulation;
        uint64_t expected = train(&spec, 5);
        for (uint32_t kind = BP_POLICY_FULL; kind <= BP_POLICY_SELECTIVE; kind++) {
            spec.policy = (bp_policy){.kind = (bp_policy_kind)kind, .every = 2, .recompute = 5};
            assert_true(train(&spec, 5) == expected);
        }
        spec.device_options.threads = 5;
        assert_true(train(&spec, 5) == expected);
        spec.poison = true;
        assert_true(train(&spec, 5) == expected);
        spec.seed++;
        assert_true(train(&spec, 5) != expected);
    }
}

/* verifies run-4.8194 */
static void test_short_tail_group(void **state)
{
    (void)state;
    bp_spec spec = tiny_spec();
    spec.accumulation = 3;
    session s;
    bp_outcome outcome;
    assert_int_equal(session_open(&s, &spec), BP_OK);
    bp_feed feed = feed_for(&spec);
    assert_int_equal(feed.windows % 6, 4); /* the last group has 4 of 6 windows */
    s.runtime.steps = feed.steps_per_epoch - 1;
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_OK);
    assert_int_equal(outcome.samples, 4);
    assert_int_equal(s.runtime.group.micros, 2);
    assert_true(outcome.loss > 3.0 && outcome.loss < 5.0);
    session_close(&s);
}

/* verifies compile-7.7394 */
static void test_memory_smaller_than_planned(void **state)
{
    (void)state;
    bp_spec spec = tiny_spec();
    spec.accumulation = 2;
    spec.poison = true;
    static bp_plan plan;
    static bp_runtime runtime;
    uint64_t bytes = plan_bytes(&spec);
    void *host = NULL;
    assert_int_equal(posix_memalign(&host, 64, (size_t)bytes), 0);
    assert_int_equal(bp_plan_make(&plan, &spec, host, bytes), BP_OK);
    uint64_t needed = plan.report.host_bytes;
    for (uint64_t size = 0; size < needed; size += 256) {
        assert_int_equal(bp_plan_make(&plan, &spec, host, size), BP_ERR_FIT);
        assert_int_equal(plan.error.code, BP_ERR_FIT);
    }
    assert_int_equal(bp_plan_make(&plan, &spec, host, needed), BP_OK);
    assert_int_equal(bp_runtime_take(&runtime, &plan), BP_OK);
    assert_true(plan.memory.peak <= needed);
    /* Poison fills every buffer that it names, to the last whole word. */
    assert_true(runtime.link.poison_used > 0);
    for (uint32_t i = 0, k = 0; i < runtime.link.ops_used; i++) {
        const bp_linked_op *op = &runtime.link.ops[i];
        bool found = op->kernel != BP_KERNEL_poison;
        const int64_t filled = found ? 0 : runtime.link.poison[k++].count;
        for (uint32_t b = 1; b < plan.graph.used.buffers && !found; b++) {
            const bp_buffer *buffer = &plan.graph.buffers[b];
            found = bp_buffer_address(buffer) == op->offsets[0] &&
                    (int64_t)(buffer->bytes / 4 * 4) == filled;
        }
        assert_true(found);
    }
    /* While the device may still read one piece of staging the next one is filled. */
    assert_true(runtime.staging[0] != runtime.staging[1]);
    assert_int_equal(bp_runtime_open(&runtime, &plan, host, plan.report.arena_bytes - 1),
                     BP_ERR_FIT);
    assert_int_equal(runtime.error.wanted, plan.report.arena_bytes);
    free(host);
}

/* Everything a session does, stopping at the first failure. */
static bp_status whole_session(session *s, const bp_spec *spec)
{
    const int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    bp_outcome outcome;
    double loss = 0.0;
    uint64_t targets = 0;
    BP_TRY(session_open(s, spec));
    bp_feed feed = feed_for(spec);
    BP_TRY(bp_runtime_step(&s->runtime, &feed, &outcome));
    feed.group = feed.batch;
    BP_TRY(bp_feed_init(&feed, &s->runtime.error));
    BP_TRY(bp_runtime_evaluate(&s->runtime, &feed, 2, &loss, &targets));
    BP_TRY(bp_runtime_restart(&s->runtime));
    BP_TRY(bp_runtime_accept(&s->runtime, ids, 8));
    const bp_buffer *buffer = bp_runtime_state(&s->runtime, 0);
    return bp_runtime_read(&s->runtime, buffer, 0, &loss, sizeof loss);
}

/* verifies run-7.0da2 */
static void test_every_device_call_may_fail(void **state)
{
    (void)state;
    const bp_device device = dry_run_device();
    bp_spec spec = tiny_spec();
    spec.accumulation = 2;
    spec.device = &device;
    bool finished = false;
    for (uint64_t n = 0; !finished; n++) {
        session s;
        calls_left = n;
        bp_status status = whole_session(&s, &spec);
        finished = status == BP_OK;
        assert_true(finished || status == BP_ERR_DEVICE);
        assert_true(finished || s.runtime.error.code == BP_ERR_DEVICE ||
                    s.runtime.error.code == BP_OK);
        assert_true(n < 1000);
        session_close(&s);
    }
}

/* verifies run-37.7365 */
static void test_what_the_plan_lacks_is_refused(void **state)
{
    (void)state;
    session s;
    bp_outcome outcome;
    double loss = 0.0;
    uint64_t targets = 0;
    const int32_t id = 0;
    bp_spec spec = tiny_spec();
    spec.optimizer = NULL;
    spec.evaluate = false;
    spec.generate_context = 0;
    assert_int_equal(session_open(&s, &spec), BP_OK);
    bp_feed feed = feed_for(&spec);
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_evaluate(&s.runtime, &feed, 0, &loss, &targets), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_restart(&s.runtime), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_accept(&s.runtime, &id, 1), BP_ERR_USAGE);
    const bp_buffer *buffer = bp_runtime_state(&s.runtime, 0);
    assert_int_equal(bp_runtime_read(&s.runtime, buffer, buffer->bytes, &loss, 1), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_write(&s.runtime, buffer, UINT64_MAX, &loss, 8), BP_ERR_USAGE);
    session_close(&s);
    assert_int_equal(bp_runtime_restart(&s.runtime), BP_ERR_USAGE); /* closed */
}

static void test_group_without_targets_is_skipped(void **state)
{
    (void)state;
    session s;
    bp_outcome outcome;
    bp_spec spec = tiny_spec();
    assert_int_equal(session_open(&s, &spec), BP_OK);
    bp_source masked = pattern;
    masked.targets = no_targets;
    bp_feed feed = feed_for(&spec);
    feed.source = &masked;
    uint64_t before = state_hash(&s);
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_OK);
    assert_int_equal(outcome.valid, 0);
    assert_int_equal(s.runtime.skipped, 1);
    assert_int_equal(s.runtime.steps, 1);
    assert_true(state_hash(&s) == before);
    double loss = 1.0;
    uint64_t targets = 1;
    feed.group = feed.batch;
    assert_int_equal(bp_runtime_evaluate(&s.runtime, &feed, 3, &loss, &targets), BP_OK);
    assert_int_equal(targets, 0);
    assert_true(loss == 0.0);
    session_close(&s);
}

/* verifies run-5.fe52 */
static void test_nonfinite_step_changes_no_tensor(void **state)
{
    (void)state;
    session s;
    bp_outcome outcome;
    bp_spec spec = tiny_spec();
    assert_int_equal(session_open(&s, &spec), BP_OK);
    bp_feed feed = feed_for(&spec);
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_OK);
    const bp_buffer *bias = bp_runtime_find(&s.runtime, "transformer.h.1.mlp.c_fc.bias");
    assert_non_null(bias);
    assert_null(bp_runtime_find(&s.runtime, "transformer.h.1.mlp.c_fc.bia"));
    assert_null(bp_runtime_find(&s.runtime, "zzz"));
    const uint32_t nan = 0x7fc00000;
    assert_int_equal(bp_runtime_write(&s.runtime, bias, 4, &nan, 4), BP_OK);
    const bp_buffer *wte = bp_runtime_find(&s.runtime, "transformer.wte.weight");
    const bp_buffer *moment = bp_runtime_find(&s.runtime, "transformer.wte.weight.exp_avg");
    float before[2][VOCABULARY * 16];
    float after[2][VOCABULARY * 16];
    assert_int_equal(bp_runtime_read(&s.runtime, wte, 0, before[0], sizeof before[0]), BP_OK);
    assert_int_equal(bp_runtime_read(&s.runtime, moment, 0, before[1], sizeof before[1]), BP_OK);
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_OK);
    assert_true(outcome.nonfinite);
    assert_int_equal(bp_runtime_read(&s.runtime, wte, 0, after[0], sizeof after[0]), BP_OK);
    assert_int_equal(bp_runtime_read(&s.runtime, moment, 0, after[1], sizeof after[1]), BP_OK);
    assert_memory_equal(before, after, sizeof before);
    session_close(&s);
}

/* Three sequences go on at once from one prompt, twice, each with the logits that it has alone; a
 * prompt of one token is read by the program of all. */
/* verifies run-18.bb6f */
static void test_sequences_go_on_together(void **state)
{
    (void)state;
    enum { SEQUENCES = 3, MADE = 5 };
    static session s, alone;
    static float logits[SEQUENCES * VOCABULARY];
    bp_spec spec = tiny_spec();
    const int32_t prompt[] = {3, 1, 4, 1, 5};
    assert_int_equal(session_open(&alone, &spec), BP_OK);
    spec.generate_sequences = SEQUENCES;
    assert_int_equal(session_open(&s, &spec), BP_OK);
    for (uint32_t begun = 1; begun <= 5; begun += 2) {
        bool kept = false;
        assert_int_equal(bp_runtime_restart(&s.runtime), BP_OK);
        assert_int_equal(bp_runtime_accept(&s.runtime, prompt, begun), BP_OK);
        for (int turn = 0; turn < 2; turn++) {
            assert_int_equal(bp_runtime_rewind(&s.runtime, begun, &kept), BP_OK);
            for (int made = 0; made < MADE; made++) {
                const int32_t ids[SEQUENCES] = {made, turn + 7, 11 + 2 * made};
                assert_int_equal(bp_runtime_accept_each(&s.runtime, ids), BP_OK);
            }
            memcpy(logits, s.runtime.logits_host, sizeof logits);
            for (int i = 0; i < SEQUENCES; i++) {
                assert_int_equal(bp_runtime_restart(&alone.runtime), BP_OK);
                assert_int_equal(bp_runtime_accept(&alone.runtime, prompt, begun), BP_OK);
                for (int made = 0; made < MADE; made++) {
                    const int32_t ids[SEQUENCES] = {made, turn + 7, 11 + 2 * made};
                    assert_int_equal(bp_runtime_accept(&alone.runtime, &ids[i], 1), BP_OK);
                }
                assert_memory_equal(logits + i * VOCABULARY, alone.runtime.logits_host,
                                    VOCABULARY * sizeof(float));
            }
        }
    }
    const int32_t wrong[SEQUENCES] = {0, 0, VOCABULARY};
    assert_int_equal(bp_runtime_accept_each(&s.runtime, wrong), BP_ERR_DATA);
    session_close(&alone);
    session_close(&s);
}

/* verifies run-18.bb6f */
static void test_prefill_equals_one_by_one(void **state)
{
    (void)state;
    session s;
    int32_t ids[20];
    float together[VOCABULARY];
    bp_spec spec = tiny_spec();
    assert_int_equal(session_open(&s, &spec), BP_OK);
    for (int i = 0; i < 20; i++) {
        ids[i] = i * 3;
    }
    assert_int_equal(bp_runtime_accept(&s.runtime, ids, 17), BP_OK);
    memcpy(together, s.runtime.logits_host, sizeof together);
    assert_int_equal(bp_runtime_restart(&s.runtime), BP_OK);
    for (int i = 0; i < 17; i++) {
        assert_int_equal(bp_runtime_accept(&s.runtime, &ids[i], 1), BP_OK);
    }
    assert_memory_equal(together, s.runtime.logits_host, sizeof together);
    for (uint32_t from = 0; from < 17; from += 8) {
        bool kept = false;
        assert_int_equal(bp_runtime_accept(&s.runtime, ids, 2), BP_OK);
        assert_int_equal(bp_runtime_rewind(&s.runtime, from, &kept), BP_OK);
        assert_true(kept);
        assert_int_equal(bp_runtime_accept(&s.runtime, ids + from, 17 - from), BP_OK);
        assert_memory_equal(together, s.runtime.logits_host, sizeof together);
    }
    bool kept = false;
    assert_int_equal(bp_runtime_rewind(&s.runtime, 18, &kept), BP_ERR_USAGE);
    assert_false(kept);
    s.runtime.error = (bp_error){0};
    ids[0] = VOCABULARY;
    assert_int_equal(bp_runtime_accept(&s.runtime, ids, 1), BP_ERR_DATA);
    s.runtime.error = (bp_error){0};
    assert_int_equal(bp_runtime_accept(&s.runtime, ids, 4), BP_ERR_FIT);
    assert_int_equal(s.runtime.error.wanted, 3);
    session_close(&s);
}

/* verifies run-6.fa71 */
static void test_bad_data_in_a_step(void **state)
{
    (void)state;
    session s;
    bp_outcome outcome;
    double loss = 0.0;
    uint64_t targets = 0;
    bp_spec spec = tiny_spec();
    assert_int_equal(session_open(&s, &spec), BP_OK);
    bp_feed feed = feed_for(&spec);
    feed.vocabulary = 5;
    feed.error = &s.runtime.error;
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_ERR_DATA);
    assert_string_equal(s.runtime.error.name, "pattern");
    assert_int_equal(bp_runtime_evaluate(&s.runtime, &feed, 0, &loss, &targets), BP_ERR_DATA);
    session_close(&s);
}

static double rate_of_step(const bp_rate_options *options, uint64_t step)
{
    return options->learning_rate * (double)(step + 1);
}

static void test_learning_rate_schedule(void **state)
{
    (void)state;
    session s;
    bp_outcome outcome;
    bp_spec spec = tiny_spec();
    spec.rate = rate_of_step;
    spec.rate_options.learning_rate = 0.25;
    assert_int_equal(session_open(&s, &spec), BP_OK);
    bp_feed feed = feed_for(&spec);
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_OK);
    assert_true(outcome.rate == 0.25);
    assert_int_equal(bp_runtime_step(&s.runtime, &feed, &outcome), BP_OK);
    assert_true(outcome.rate == 0.5);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_threads_and_poison_keep_the_bits),
        cmocka_unit_test(test_short_tail_group),
        cmocka_unit_test(test_memory_smaller_than_planned),
        cmocka_unit_test(test_every_device_call_may_fail),
        cmocka_unit_test(test_what_the_plan_lacks_is_refused),
        cmocka_unit_test(test_group_without_targets_is_skipped),
        cmocka_unit_test(test_nonfinite_step_changes_no_tensor),
        cmocka_unit_test(test_prefill_equals_one_by_one),
        cmocka_unit_test(test_sequences_go_on_together),
        cmocka_unit_test(test_bad_data_in_a_step),
        cmocka_unit_test(test_learning_rate_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
