/* SPDX-License-Identifier: MIT */
/* Length buckets give the bits of the padded run: every family, head, optimizer,
 * precision and form of gradients, under every kind of policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/buckets.h"
#include "device/host/cpu.h"
#include "device/host/host.h"
#include "layers/families/bert.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/spec_case.h"
#include "tests/fixtures/share.h"

enum { EXAMPLES = 40, SEQUENCE = 12, STEPS = 3, TOKENS = EXAMPLES * (SEQUENCE + 1) };

static int32_t tokens[TOKENS];

/* Most are short: a micro-batch of three is often all short, and sometimes not. */
static uint64_t length_of(uint64_t index)
{
    static const uint8_t lengths[] = {2, 3, 5, 2, 4, 7, 1, 3, 9, 2, 6, 3, 12, 2, 1, 4};
    return lengths[index * 7 % sizeof lengths];
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){
        .first = index * (SEQUENCE + 1), .count = length_of(index), .label = index % 3};
    to->second = to->count > 3 ? 2 : 0;
    return BP_OK;
}

static bp_labels labels_of(bp_task task)
{
    static const bp_labels kinds[BP_TASK_COUNT] = {
        [BP_TASK_CAUSAL_LM] = BP_LABELS_NEXT_TOKEN, [BP_TASK_MASKED_LM] = BP_LABELS_MASKED,
        [BP_TASK_CLASSES] = BP_LABELS_CLASS,        [BP_TASK_LABELS] = BP_LABELS_BITS,
        [BP_TASK_REGRESSION] = BP_LABELS_BITS,      [BP_TASK_TOKENS] = BP_LABELS_GIVEN};
    return kinds[task];
}

static bp_status given(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)((first + i) % 4) - 1;
    }
    return BP_OK;
}

static void examples_of(model_fixture *r, bp_feed *feed)
{
    const bp_spec *spec = &r->plan.spec;
    r->source.examples = EXAMPLES;
    r->source.example = example;
    r->source.labels = given;
    feed->kind = labels_of(spec->config.task);
    feed->classes = spec->config.classes;
    feed->masking = (bp_masking){.probability = 0.4, .token = 5, .special = {-1, -1, -1, -1}};
    feed->padding = 1;
    feed->shuffle = true;
    assert_int_equal(bp_feed_init(feed, &r->error), BP_OK);
}

static void fill_tokens(void)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * 7 % 37);
    }
}

/* What a run leaves behind. */
typedef struct traces {
    uint64_t digest;
    uint64_t arena;
    double loss[STEPS];
    double norm[STEPS];
    double evaluated;
    uint64_t tokens;
    uint64_t places;
    uint64_t micros[BP_LENGTH_BUCKETS_MAX + 1];
    uint32_t lengths;
} traces;

static double evaluate(model_fixture *r)
{
    double loss = 0.0;
    uint64_t targets = 0;
    bp_feed feed = r->feed;
    feed.group = feed.batch;
    feed.shuffle = false;
    assert_int_equal(bp_feed_init(&feed, &r->error), BP_OK);
    assert_int_equal(bp_runtime_evaluate(&r->runtime, &feed, 0, &loss, &targets), BP_OK);
    assert_true(targets > 0);
    return loss;
}

static bool again_never(void *user, const bp_outcome *seen)
{
    (void)user;
    (void)seen;
    return false;
}

static bp_step_verdict take_all(void *user, const bp_outcome *seen, double *factor)
{
    (void)user;
    (void)seen;
    *factor = 1.0;
    return BP_STEP_APPLY;
}

static const bp_step_check takes_all = {.again = again_never, .decide = take_all};
static bool judged; /* steps are run in two parts */

static traces run(const bp_spec *spec)
{
    model_fixture r;
    traces t = {.digest = 0};
    model_fixture_open(&r, spec, tokens, TOKENS);
    if (judged) {
        assert_int_equal(bp_runtime_step_check(&r.runtime, &takes_all), BP_OK);
    }
    examples_of(&r, &r.feed);
    for (uint32_t i = 0; spec->optimizer != NULL && i < STEPS; i++) {
        const bp_outcome outcome = model_fixture_step(&r);
        t.loss[i] = outcome.loss;
        t.norm[i] = outcome.norm;
        t.tokens += outcome.tokens;
        t.places += outcome.places;
    }
    t.evaluated = spec->evaluate ? evaluate(&r) : 0.0;
    t.digest = model_fixture_digest(&r);
    t.arena = r.plan.report.arena_bytes;
    t.lengths = bp_runtime_length_buckets(&r.runtime);
    assert_null(r.plan.left_out);
    for (uint32_t i = 0; i < t.lengths; i++) {
        t.micros[i] = bp_runtime_length(&r.runtime, i).micros;
    }
    model_fixture_close(&r);
    return t;
}

static uint64_t micros_of(const traces *t, uint32_t first, uint32_t last)
{
    uint64_t sum = 0;
    for (uint32_t i = first; i < last; i++) {
        sum += t->micros[i];
    }
    return sum;
}

static void compare(const char *name, const bp_spec *spec)
{
    bp_spec shorter = *spec;
    const uint32_t lengths[] = {3, 5, 8};
    memcpy(shorter.lengths, lengths, sizeof lengths);
    shorter.length_count = 3;
    const traces a = run(spec), b = run(&shorter);
    if (a.digest != b.digest || memcmp(a.loss, b.loss, sizeof a.loss) != 0 ||
        memcmp(a.norm, b.norm, sizeof a.norm) != 0 || a.evaluated != b.evaluated) {
        fail_msg("%s: %a %a, %a %a", name, a.loss[STEPS - 1], b.loss[STEPS - 1], a.evaluated,
                 b.evaluated);
    }
    assert_int_equal(a.arena, b.arena);
    assert_int_equal(a.lengths, 1);
    assert_int_equal(b.lengths, 4);
    assert_int_equal(a.tokens, b.tokens);
    if (spec->optimizer != NULL) {
        assert_true(micros_of(&b, 0, 3) > 0);
        assert_int_equal(micros_of(&a, 0, 1), micros_of(&b, 0, 4));
        assert_true(b.places < a.places && b.tokens <= b.places);
    }
}

static void drop(bp_spec *spec)
{
    SET_FAMILY(&spec->config, bp_transformer, embedding_dropout, 0.1);
    SET_FAMILY(&spec->config, bp_transformer, residual_dropout, 0.1);
    SET_FAMILY(&spec->config, bp_transformer, attention_dropout, 0.2);
    if (spec->model == &bp_model_bert) {
        SET_FAMILY(&spec->config, bp_bert_config, classifier_dropout, 0.1);
    }
}

/* A case of spec_case.h over samples of up to 12 tokens; false where lengths cannot differ. */
static bool case_of(uint32_t index, bp_spec *spec, char name[SPEC_CASE_NAME])
{
    if (!spec_case(index, spec, name) || !spec->model->pads ||
        spec->config.task == BP_TASK_ANSWERS || spec->products == BP_PRODUCT_FP8) {
        return false;
    }
    spec->sequence = SEQUENCE;
    spec->config.positions = SEQUENCE + 2;
    if (spec->model == &bp_model_bert && bp_bert_config_of(&spec->config).position_rows > 0) {
        SET_FAMILY(&spec->config, bp_bert_config, position_rows,
                   SEQUENCE + 2 + bp_bert_config_of(&spec->config).position_first);
    }
    spec->batch = 3;
    spec->loss_rows = spec->loss_rows > 0 ? 18 : 0; /* in the middle of samples */
    spec->generate_context = 0;
    spec->device_options.variant = NULL; /* the fastest: every form has the same bits */
    bp_error error = {.code = BP_OK};
    if (bp_spec_check(spec, &error) != BP_OK) {
        fail_msg("%s: %s %s", name, error.text, error.name);
    }
    return true;
}

/* verifies compile-13.5a54 */
static void test_every_case_without_and_with_dropout(void **state)
{
    (void)state;
    uint32_t cases = 0;
    fill_tokens();
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        bp_spec spec;
        char name[SPEC_CASE_NAME];
        if (!case_of(i, &spec, name)) {
            continue;
        }
        spec.evaluate = true;
        cases++;
        if (long_form() || i % 2 == 0) {
            compare(name, &spec);
        }
        if (!long_form() && i % 2 == 0) {
            continue; /* the short form has either of both */
        }
        drop(&spec);
        spec.policy.kind = i % 3 == 0   ? BP_POLICY_FULL
                           : i % 3 == 1 ? BP_POLICY_SELECTIVE
                                        : BP_POLICY_MEMORY_POOR;
        spec.policy.recompute = BP_RECOMPUTE_ALL;
        compare(name, &spec);
    }
    assert_true(cases > 100);
}

/* Gradients of 16 bits are rounded after each chunk of the loss. */
/* verifies compile-13.5a54 */
static void test_chunks_of_rounded_gradients(void **state)
{
    (void)state;
    fill_tokens();
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        bp_spec spec;
        char name[SPEC_CASE_NAME];
        if (!case_of(i, &spec, name) || strstr(name, " bf16") == NULL) {
            continue;
        }
        spec.loss_rows = SEQUENCE;
        compare(name, &spec);
        spec.loss_rows = 2 * SEQUENCE;
        compare(name, &spec);
        assert_null(bp_length_buckets_refused(&spec));
        spec.loss_rows = 18;
        assert_non_null(bp_length_buckets_refused(&spec));
        spec.gradient = BP_F32;
        assert_null(bp_length_buckets_refused(&spec));
    }
}

/* Poisoned memory as well: nothing is read that a shorter program has not written. */
/* verifies compile-13.5a54 */
static void test_forms_threads_and_poison(void **state)
{
    (void)state;
    static const char *const forms[] = {"avx2", "avx512"};
    fill_tokens();
    for (uint32_t i = 0; i < spec_case_count(); i += long_or(2, 10)) {
        bp_spec spec;
        char name[SPEC_CASE_NAME];
        if (!case_of(i, &spec, name)) {
            continue;
        }
        drop(&spec);
        spec.device_options.variant = "portable";
        const traces portable = run(&spec);
        for (uint32_t f = 0; f < 2; f++) {
            if (!(f == 0 ? bp_cpu_has_avx2() : bp_cpu_has_avx512())) {
                continue;
            }
            spec.device_options.variant = forms[f];
            spec.device_options.threads = 3;
            spec.poison = f == 0;
            spec.lengths[0] = 4;
            spec.lengths[1] = 9;
            spec.length_count = 2;
            const traces t = run(&spec);
            assert_int_equal(t.digest, portable.digest);
        }
    }
}

/* A first case of the family, of one micro-batch or three. */
static bp_spec plain_spec(uint32_t micros)
{
    bp_spec spec;
    char name[SPEC_CASE_NAME];
    assert_true(case_of(0, &spec, name));
    spec.accumulation = micros;
    spec.policy = (bp_policy){.kind = BP_POLICY_NONE};
    return spec;
}

/* Steps that are judged have the same bits, in one program and in several. */
/* verifies compile-13.5a54 */
static void test_judged_steps(void **state)
{
    (void)state;
    fill_tokens();
    for (uint32_t micros = 1; micros <= 3; micros += 2) {
        bp_spec spec = plain_spec(micros);
        judged = false;
        const traces whole = run(&spec);
        judged = true;
        compare("judged", &spec);
        const traces parts = run(&spec);
        assert_true(parts.digest == whole.digest);
        judged = false;
    }
}

static uint64_t excess; /* bytes that products of few rows want beyond what they need */

static uint64_t odd_workspace(const bp_device_options *options, bp_kernel kernel,
                              const void *scalars, const uint8_t *dtypes)
{
    const uint64_t bytes = bp_device_host.workspace(options, kernel, scalars, dtypes);
    const bp_matmul_scalars *s = scalars;
    if (kernel != BP_KERNEL_matmul) {
        return bytes;
    }
    return bytes + 256 + (s->m == 15 ? excess : 0); /* three samples of five */
}

/* A shorter program may want more than the padded one has in a place: it lies where there is room,
 * all of it is placed anew, or it is left out; and the bits stay. */
/* verifies compile-13.5a54 */
static void test_programs_that_want_more_room(void **state)
{
    (void)state;
    bp_device odd = bp_device_host;
    uint32_t fitted = 0, left = 0;
    odd.workspace = odd_workspace;
    fill_tokens();
    bp_spec spec = plain_spec(1);
    spec.device = &odd;
    spec.evaluate = true;
    excess = 0;
    const traces padded = run(&spec);
    spec.lengths[0] = 5;
    spec.length_count = 1;
    for (uint64_t k = 0; k < 40; k++) {
        static bp_plan plan;
        excess = padded.arena / 32 * k;
        const uint64_t bytes = plan_bytes(&spec);
        void *memory = malloc((size_t)bytes);
        assert_int_equal(bp_plan_make(&plan, &spec, memory, bytes), BP_OK);
        assert_int_equal(plan.report.arena_bytes, padded.arena);
        const bool there = plan.left_out == NULL;
        free(memory);
        assert_true(there == (plan.bucket_count == 1));
        fitted += there;
        left += !there;
        if (there) {
            const traces t = run(&spec);
            assert_true(t.digest == padded.digest);
        }
    }
    if (fitted < 3 || left < 3) {
        fail_msg("%u fitted, %u were left out", fitted, left);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_case_without_and_with_dropout),
        cmocka_unit_test(test_chunks_of_rounded_gradients),
        cmocka_unit_test(test_forms_threads_and_poison),
        cmocka_unit_test(test_judged_steps),
        cmocka_unit_test(test_programs_that_want_more_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
