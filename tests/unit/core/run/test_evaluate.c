/* SPDX-License-Identifier: MIT */
/* Logits that evaluation keeps: in every working type they are those the loss was formed from. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/gpt2.h"
#include "layers/families/rnn.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/model_fixture.h"

enum { SAMPLES = 5, SEQUENCE = 6, CLASSES = 3, VOCABULARY = 37 };

static int32_t tokens[SAMPLES * SEQUENCE];

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.first = index * SEQUENCE, .count = 1 + index, .label = index % CLASSES};
    return BP_OK;
}

static bp_spec spec_of(bp_task task, bp_dtype working)
{
    bp_spec spec = model_fixture_spec();
    spec.optimizer = NULL;
    spec.config.task = task;
    spec.config.classes = task == BP_TASK_CLASSES ? CLASSES : 0;
    spec.working = working;
    spec.sequence = SEQUENCE;
    spec.evaluate = true;
    spec.keep_logits = true;
    return spec;
}

static void open_model_fixture(model_fixture *r, const bp_spec *spec)
{
    for (uint32_t i = 0; i < SAMPLES * SEQUENCE; i++) {
        tokens[i] = (int32_t)(i * 7 % VOCABULARY);
    }
    model_fixture_open(r, spec, tokens, SAMPLES * SEQUENCE);
    if (spec->config.task == BP_TASK_CLASSES) {
        r->source.examples = SAMPLES;
        r->source.example = example;
        r->feed.kind = BP_LABELS_CLASS;
        r->feed.classes = CLASSES;
    }
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

typedef struct sum {
    double loss;
    uint64_t targets;
    uint32_t groups;
    uint32_t most; /* fails after so many groups; 0: never */
} sum;

static void add_row(sum *s, const float *logits, uint64_t width, int32_t label)
{
    double total = 0.0;
    for (uint64_t v = 0; v < width; v++) {
        total += exp((double)logits[v]);
    }
    s->loss += log(total) - (double)logits[label];
    s->targets++;
}

static bp_status add_group(void *user, const bp_runtime *runtime)
{
    sum *s = user;
    const bool judges = runtime->plan->spec.config.task == BP_TASK_CLASSES;
    const uint64_t width = judges ? CLASSES : VOCABULARY, rows = judges ? 1 : SEQUENCE;
    const int32_t *labels = bp_group_column(&runtime->group, BP_INPUT_LABELS)->data;
    for (uint64_t i = 0; i < runtime->group.samples * rows; i++) {
        const int32_t label = labels[judges ? i * SEQUENCE : i];
        if (label >= 0) {
            add_row(s, runtime->logits_host + i * width, width, label);
        }
    }
    s->groups++;
    return s->groups == s->most ? BP_ERR_DATA : BP_OK;
}

static void check(bp_task task, bp_dtype working)
{
    model_fixture r;
    sum s = {.loss = 0.0};
    double loss = 0.0;
    uint64_t targets = 0;
    const bp_spec spec = spec_of(task, working);
    open_model_fixture(&r, &spec);
    assert_int_equal(
        bp_runtime_evaluate_each(&r.runtime, &r.feed, 0, add_group, &s, &loss, &targets), BP_OK);
    assert_int_equal(s.groups, 3); /* the last of one sample */
    assert_int_equal(s.targets, targets);
    assert_int_equal(targets, task == BP_TASK_CLASSES ? SAMPLES : SAMPLES * SEQUENCE - 1);
    assert_true(fabs(s.loss / (double)targets - loss) <= 1e-6 * loss);
    double again = 0.0;
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 0, &again, &targets), BP_OK);
    double few = 0.0, more = 0.0;
    uint64_t others = 0;
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 9, &more, &others), BP_OK);
    assert_true(more == again && others == targets); /* there are no more groups than there are */
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 1, &few, &others), BP_OK);
    assert_true(others < targets);
    assert_true(again == loss);
    model_fixture_close(&r);
}

/* verifies run-25.3c8a */
static void test_kept_logits_give_the_loss(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_BF16, BP_F16};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        check(BP_TASK_CLASSES, types[i]);
        check(BP_TASK_CAUSAL_LM, types[i]);
    }
}

/* A plan without them calls the watcher all the same. */
/* verifies run-25.3c8a */
static void test_none_are_kept(void **state)
{
    (void)state;
    model_fixture r;
    sum s = {.most = 2};
    double loss = 0.0;
    uint64_t targets = 0;
    bp_spec spec = spec_of(BP_TASK_CAUSAL_LM, BP_F32);
    spec.keep_logits = false;
    open_model_fixture(&r, &spec);
    for (uint32_t i = 0; i < r.plan.graph.used.buffers; i++) {
        assert_string_not_equal(bp_graph_name(&r.plan.graph, i), "eval.logits");
    }
    assert_int_equal(bp_runtime_evaluate_each(&r.runtime, &r.feed, 0, NULL, NULL, &loss, &targets),
                     BP_OK);
    model_fixture_close(&r);
    spec.keep_logits = true;
    open_model_fixture(&r, &spec);
    assert_int_equal(
        bp_runtime_evaluate_each(&r.runtime, &r.feed, 0, add_group, &s, &loss, &targets),
        BP_ERR_DATA);
    assert_int_equal(s.groups, 2); /* the watcher's failure ends it */
    assert_int_equal(r.runtime.error.code, BP_ERR_DATA);
    model_fixture_close(&r);
}

/* verifies compile-1.aa19 */
static void test_pieces_of_time_keep_none(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    bp_spec spec = spec_of(BP_TASK_CAUSAL_LM, BP_F32);
    spec.model = &bp_model_rnn;
    spec.config = config_with((bp_model_config){.vocabulary = VOCABULARY, .positions = SEQUENCE},
                              OWN(bp_rnn_config, .width = 8, .layers = 1, .untied = true,
                                  .chunks = 2, .initializer_range = 0.1));
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "keep-logits");
    spec.keep_logits = false;
    assert_int_equal(bp_spec_check(&spec, NULL), BP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_logits_give_the_loss),
        cmocka_unit_test(test_none_are_kept),
        cmocka_unit_test(test_pieces_of_time_keep_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
