/* SPDX-License-Identifier: MIT */
/* Evaluation by length: what a watcher sees, and the sums, are those of the order of the data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/working.h"
#include "core/run/sorted.h"
#include "device/host/host.h"
#include "layers/families/gpt2.h"
#include "tests/fixtures/model_fixture.h"

enum { EXAMPLES = 47, SEQUENCE = 10, CLASSES = 3, VOCABULARY = 37, BATCH = 4 };
enum { TOKENS = EXAMPLES * (SEQUENCE + 1), LOGITS = SEQUENCE * VOCABULARY };

static int32_t tokens[TOKENS];

static uint32_t length_of(uint64_t index)
{
    return 1 + (uint32_t)(index * 7 % 11 * (index % 5) / 5); /* 1 to 9 */
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){
        .first = index * (SEQUENCE + 1), .count = 1 + length_of(index), .label = index % CLASSES};
    return BP_OK;
}

static bp_spec spec_of(bp_task task, bp_dtype working, bool judges)
{
    bp_spec spec = model_fixture_spec();
    spec.optimizer = NULL;
    spec.config.task = task;
    spec.config.classes = judges ? CLASSES : 0;
    spec.working = working;
    spec.sequence = SEQUENCE;
    spec.batch = BATCH;
    spec.evaluate = true;
    spec.keep_logits = true;
    return spec;
}

/* What the watcher saw: for each sample its label and its logits. */
typedef struct seen {
    uint32_t samples;
    uint32_t groups;
    uint32_t fails; /* in that group; 0: never */
    int32_t label[EXAMPLES];
    float logits[EXAMPLES][LOGITS];
    double loss;
    uint64_t targets;
    uint64_t ran[BP_LENGTH_BUCKETS_MAX + 1];
} seen;

static bp_status watch(void *user, const bp_runtime *runtime)
{
    seen *s = user;
    const bool judges = runtime->plan->spec.config.task >= BP_TASK_CLASSES;
    const size_t width = judges ? CLASSES : LOGITS;
    const int32_t *labels = bp_group_column(&runtime->group, BP_INPUT_LABELS)->data;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        const size_t rows = judges ? CLASSES : (size_t)length_of(s->samples) * VOCABULARY;
        s->label[s->samples] = labels[i * SEQUENCE];
        memcpy(s->logits[s->samples++], runtime->logits_host + i * width, rows * sizeof(float));
    }
    return ++s->groups == s->fails ? BP_ERR_DATA : BP_OK;
}

static bp_status look(const bp_spec *spec, uint64_t steps, seen *s)
{
    model_fixture r;
    model_fixture_open(&r, spec, tokens, TOKENS);
    r.source.examples = EXAMPLES;
    r.source.example = example;
    r.feed.kind = spec->config.task == BP_TASK_CLASSES ? BP_LABELS_CLASS : BP_LABELS_NEXT_TOKEN;
    r.feed.classes = CLASSES;
    assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
    const bp_status status =
        bp_runtime_evaluate_each(&r.runtime, &r.feed, steps, watch, s, &s->loss, &s->targets);
    for (uint32_t i = 0; i < bp_runtime_length_buckets(&r.runtime); i++) {
        s->ran[i] = bp_runtime_length(&r.runtime, i).evaluations;
    }
    assert_int_equal(r.runtime.sorted.groups > 1, spec->length_count > 0);
    assert_true(status != BP_OK || r.runtime.error.text == NULL); /* nothing is said of nothing */
    model_fixture_close(&r);
    return status;
}

static void compare(const bp_spec *spec, uint64_t steps)
{
    seen *one = calloc(1, sizeof *one), *four = calloc(1, sizeof *four);
    bp_spec shorter = *spec;
    const uint32_t lengths[] = {2, 4, 7};
    memcpy(shorter.lengths, lengths, sizeof lengths);
    shorter.length_count = 3;
    assert_true(one != NULL && four != NULL);
    assert_int_equal(look(spec, steps, one), BP_OK);
    assert_int_equal(look(&shorter, steps, four), BP_OK);
    assert_true(four->ran[0] > 1 && four->ran[1] > 0);
    assert_int_equal(one->ran[0], four->ran[0] + four->ran[1] + four->ran[2] + four->ran[3]);
    memcpy(one->ran, four->ran, sizeof one->ran);
    assert_memory_equal(one, four, sizeof *one);
    assert_true(one->targets > 0);
    free(one);
    free(four);
}

static void fill_tokens(void)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * i % VOCABULARY);
    }
}

/* verifies run-25.3c8a */
static void test_the_watcher_sees_the_order_of_the_data(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_BF16};
    fill_tokens();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (uint64_t steps = 0; steps < 6; steps += 5) {
            bp_spec spec = spec_of(BP_TASK_CLASSES, types[i], true);
            compare(&spec, steps);
            spec = spec_of(BP_TASK_CAUSAL_LM, types[i], false);
            compare(&spec, steps);
        }
    }
}

/* A model whose last stage does something else when the losses are there. */
static void goes_on(bp_builder *builder, bp_stage_call *call)
{
    bp_model_gpt2.forward(builder, call);
    if (call->stage + 1 == bp_model_gpt2.stages(&builder->spec->config)) {
        const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 1, 1, "copy");
        const bp_copy_operands operands = {.y = y,
                                           .x = bp_build_acquire(builder, 0, BP_FOR_FORWARD)};
        bp_build_copy(builder, &operands, &(bp_copy_scalars){.count = 1});
        bp_build_release(builder, 0);
    }
}

/* Where feeds and plans are no longer those that results can be put in order of, groups are
 * evaluated one by one. */
/* verifies run-25.3c8a */
static void test_what_keeps_the_order_of_the_data(void **state)
{
    (void)state;
    bp_device grouped = bp_device_host; /* which is refused shorter programs */
    grouped.sums_by_row = false;
    bp_model long_one = bp_model_gpt2;
    long_one.forward = goes_on;
    fill_tokens();
    for (int shape = 0; shape < 6; shape++) {
        bp_spec spec =
            spec_of(shape == 1 ? BP_TASK_CAUSAL_LM : BP_TASK_CLASSES, BP_F32, shape != 1);
        model_fixture r;
        spec.config.vocabulary = shape == 1 ? 3500 : VOCABULARY; /* so that two groups are 1 MB */
        spec.lengths[0] = 4;
        spec.length_count = 1;
        spec.poison = shape == 3;
        spec.device = shape == 2 ? &grouped : spec.device;
        spec.model = shape == 5 ? &long_one : spec.model;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        assert_true((r.runtime.sorted.groups > 1) == (shape == 0 || shape == 4));
        assert_true((r.plan.left_out != NULL) == (shape == 2));
        r.source.examples = EXAMPLES;
        r.source.example = example;
        r.feed.kind = spec.config.task == BP_TASK_CLASSES ? BP_LABELS_CLASS : BP_LABELS_NEXT_TOKEN;
        r.feed.classes = CLASSES;
        assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
        if (shape == 0) { /* and without shorter programs no results are kept */
            bp_spec plain = spec;
            plain.length_count = 0;
            const uint64_t kept = (uint64_t)r.runtime.sorted.groups * BATCH * SEQUENCE * 4;
            assert_true(bp_working_bytes(&plain, 0) + kept <= bp_working_bytes(&spec, 0));
        }
        const uint32_t groups = shape == 0 || shape == 4 ? r.runtime.sorted.groups : 1;
        assert_int_equal(bp_sorted_groups(&r.runtime, &r.feed), groups);
        bp_feed other = r.feed;
        other.shuffle = true;
        assert_int_equal(bp_sorted_groups(&r.runtime, &other), 1);
        other = r.feed;
        other.group = 2 * other.batch;
        assert_int_equal(bp_sorted_groups(&r.runtime, &other), 1);
        other = r.feed;
        other.group = other.batch = BATCH - 1;
        assert_int_equal(bp_sorted_groups(&r.runtime, &other), 1);
        r.source.examples = 0;
        assert_int_equal(bp_sorted_groups(&r.runtime, &r.feed), 1);
        model_fixture_close(&r);
    }
}

static bp_status two_tokens(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = 3 * index, .count = 2};
    return BP_OK;
}

static float first_rows[EXAMPLES][VOCABULARY];
static uint32_t rows_seen;

static bp_status take_rows(void *user, const bp_runtime *runtime)
{
    (void)user;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        memcpy(first_rows[rows_seen++], runtime->logits_host + (size_t)i * 2 * VOCABULARY,
               sizeof first_rows[0]);
    }
    return BP_OK;
}

/* The shortest rows that there are: two places, of which the shorter program has one. */
/* verifies run-25.3c8a */
static void test_rows_of_two_places(void **state)
{
    (void)state;
    static float whole[EXAMPLES][VOCABULARY];
    double loss[2];
    fill_tokens();
    for (uint32_t shorter = 0; shorter < 2; shorter++) {
        bp_spec spec = spec_of(BP_TASK_CAUSAL_LM, BP_F32, false);
        uint64_t targets = 0;
        model_fixture r;
        spec.sequence = 2;
        spec.lengths[0] = 1;
        spec.length_count = shorter;
        model_fixture_open(&r, &spec, tokens, TOKENS);
        r.source.examples = EXAMPLES;
        r.source.example = two_tokens;
        assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
        rows_seen = 0;
        assert_int_equal(bp_runtime_evaluate_each(&r.runtime, &r.feed, 0, take_rows, NULL,
                                                  &loss[shorter], &targets),
                         BP_OK);
        assert_int_equal(targets, EXAMPLES);
        assert_int_equal(rows_seen, EXAMPLES);
        assert_int_equal(bp_runtime_length_buckets(&r.runtime), 1 + shorter);
        model_fixture_close(&r);
        if (shorter == 0) {
            memcpy(whole, first_rows, sizeof whole);
        }
    }
    assert_memory_equal(whole, first_rows, sizeof whole);
    assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
}

/* One group is evaluated as it is. */
/* verifies run-25.3c8a */
static void test_one_group_alone(void **state)
{
    (void)state;
    fill_tokens();
    seen *one = calloc(1, sizeof *one), *four = calloc(1, sizeof *four);
    assert_true(one != NULL && four != NULL);
    bp_spec spec = spec_of(BP_TASK_CLASSES, BP_F32, true);
    assert_int_equal(look(&spec, 1, one), BP_OK);
    spec.lengths[0] = 4;
    spec.length_count = 1;
    assert_int_equal(look(&spec, 1, four), BP_OK);
    assert_int_equal(four->samples, BATCH);
    memcpy(one->ran, four->ran, sizeof one->ran);
    assert_memory_equal(one, four, sizeof *one);
    free(one);
    free(four);
}

/* verifies run-34.fdfe */
static void test_its_failure_ends_the_evaluation(void **state)
{
    (void)state;
    seen *s = calloc(1, sizeof *s);
    bp_spec spec = spec_of(BP_TASK_CLASSES, BP_F32, true);
    spec.lengths[0] = 4;
    spec.length_count = 1;
    assert_non_null(s);
    s->fails = 2;
    fill_tokens();
    assert_int_equal(look(&spec, 0, s), BP_ERR_DATA);
    assert_int_equal(s->groups, 2);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_watcher_sees_the_order_of_the_data),
        cmocka_unit_test(test_what_keeps_the_order_of_the_data),
        cmocka_unit_test(test_rows_of_two_places),
        cmocka_unit_test(test_one_group_alone),
        cmocka_unit_test(test_its_failure_ends_the_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
