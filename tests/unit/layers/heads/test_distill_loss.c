/* SPDX-License-Identifier: MIT */
/* What a teacher goes together with; the loss is compared in
 * tests/unit/device/host/rows/test_distill.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layers/nodes/inputs.h"
#include "layers/families/llama.h"
#include "tests/fixtures/model_fixture.h"

static bp_spec student(void)
{
    const bp_llama_config own = {.stack = {.width = 16,
                                           .layers = 1,
                                           .heads = 2,
                                           .inner = 24,
                                           .norm_epsilon = 1e-6,
                                           .initializer_range = 0.1},
                                 .kv_heads = 1,
                                 .rope_theta = 10000.0};
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_llama;
    spec.config = (bp_model_config){.vocabulary = 37, .positions = 32};
    bp_family_config_set(&spec.config, &own, sizeof own);
    spec.distill = (bp_distill){.top_k = 37, .alpha = 1.0, .temperature = 1e3};
    return spec;
}

static void refused(const bp_spec *spec, const char *option)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_spec_check(spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, option);
}

static void taken(const bp_spec *spec)
{
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_spec_check(spec, &error), BP_OK);
}

/* verifies layers-34.5c43 */
static void what_does_not_go_with_a_teacher(void **state)
{
    (void)state;
    bp_spec spec = student();
    taken(&spec);
    spec.distill.top_k = 38; /* of 37 tokens */
    refused(&spec, "distill-top-k");
    spec.config.vocabulary = 1000;
    taken(&spec);
    spec.distill.top_k = BP_DISTILL_MOST + 1;
    refused(&spec, "distill-top-k");
    spec = student();
    spec.preference = (bp_preference){.kind = BP_PREFERENCE_SIGMOID, .beta = 0.1};
    refused(&spec, "distill");
    spec = student();
    spec.config.task = BP_TASK_CLASSES;
    spec.config.classes = 2;
    refused(&spec, "distill");
    /* a model that takes nothing of a teacher: it may be one */
    bp_model deaf = bp_model_llama;
    deaf.inputs = bp_inputs_windows;
    spec = student();
    spec.model = &deaf;
    refused(&spec, "distill");
    spec.distill.is_teacher = true;
    taken(&spec);
    spec = student();
    spec.smoothing = 0.1;
    refused(&spec, "label-smoothing-factor");
}

/* verifies layers-34.5c43 */
static void numbers_are_within_bounds(void **state)
{
    (void)state;
    const double alphas[] = {-0.1, 1.1, (double)NAN}, heats[] = {0.0, 1001.0, (double)NAN};
    for (size_t i = 0; i < 3; i++) {
        bp_spec spec = student();
        spec.distill.alpha = alphas[i];
        refused(&spec, "distill-alpha");
        spec.distill.top_k = 0; /* then nobody asks */
        taken(&spec);
        spec = student();
        spec.distill.temperature = heats[i];
        refused(&spec, "distill-temperature");
        spec.distill.is_teacher = true;
        taken(&spec);
    }
    bp_spec spec = student();
    spec.distill.alpha = 0.0;
    spec.distill.temperature = 1e-3;
    taken(&spec);
}

enum { WORDS = 30000, TOKENS = 101, TOP = 5 };

/* Words from all over the table, by the window and the place. */
static bp_status say(bp_teacher *teacher, const bp_column *column, const bp_feed_tokens *read,
                     int32_t *to)
{
    (void)teacher;
    for (uint32_t i = 0; i < column->elements; i++) {
        const float logp = i < read->inputs * TOP ? -0.5f - (float)(i % TOP) : 0.0f;
        if (column->from == BP_INPUT_TOPS) {
            to[i] = (int32_t)((read->window * 7919 + i * 1777) % WORDS);
        } else {
            memcpy(&to[i], &logp, sizeof logp);
        }
    }
    return BP_OK;
}

static uint64_t distill_digest(bp_release release, bool int8, double *loss)
{
    model_fixture r;
    bp_teacher teacher = {say};
    int32_t tokens[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * 911 % WORDS;
    }
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = WORDS;
    spec.accumulation = 2;
    spec.distill = (bp_distill){.top_k = TOP, .alpha = 0.6, .temperature = 2.0};
    spec.gradient_release = release;
    spec.gradient_int8 = int8;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    r.feed.teacher = &teacher;
    for (int i = 0; i < 3; i++) {
        *loss = model_fixture_step(&r).loss;
    }
    const uint64_t digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return digest;
}

/* A table's gradient in slices, each from what the whole left, is the whole's to the bit. */
/* verifies layers-34.5c43 */
static void slices_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    double whole = 0.0, sliced = 0.0, coded = 0.0;
    const uint64_t digest = distill_digest(BP_RELEASE_NONE, false, &whole);
    assert_true(distill_digest(BP_RELEASE_EXACT, false, &sliced) == digest);
    assert_true(sliced == whole);
    (void)distill_digest(BP_RELEASE_NONE, true, &coded);
    assert_true(fabs(coded - whole) < 1e-2 * whole);
}

/* The first step's loss; top 0: without a teacher. */
static double first_loss(uint32_t top, double alpha, double temperature, uint32_t chunk)
{
    model_fixture r;
    bp_teacher teacher = {say};
    int32_t tokens[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * 911 % WORDS;
    }
    bp_spec spec = model_fixture_spec();
    spec.config.vocabulary = WORDS;
    spec.loss_rows = chunk;
    spec.distill = (bp_distill){.top_k = top, .alpha = alpha, .temperature = temperature};
    model_fixture_open(&r, &spec, tokens, TOKENS);
    r.feed.teacher = &teacher;
    const double loss = model_fixture_step(&r).loss;
    model_fixture_close(&r);
    return loss;
}

/* Alpha mixes, and at a great temperature all tokens are alike: T^2 (log of the vocabulary - log of
 * the teacher's tokens). */
/* verifies layers-34.5c43 */
static void numbers_reach_the_loss(void **state)
{
    (void)state;
    const double label = first_loss(TOP, 0.0, 2.0, 0), taught = first_loss(TOP, 1.0, 2.0, 0);
    const double mixed = first_loss(TOP, 0.25, 2.0, 0);
    assert_true(fabs(taught - label) > 1.0);
    assert_true(fabs(mixed - (0.75 * label + 0.25 * taught)) < 1e-5 * mixed);
    assert_true(fabs(label - first_loss(0, 0.0, 0.0, 0)) < 1e-6 * label);
    assert_true(first_loss(TOP, 0.25, 2.0, 3) == mixed); /* rows find their own teacher's tokens */
    const double even = 1e6 * log((double)WORDS / (double)TOP);
    assert_true(fabs(first_loss(TOP, 1.0, 1e3, 0) - even) < 1e-2 * even);
}

/* A student's step needs a teacher in the feed. */
/* verifies layers-34.5c43 */
static void a_feed_without_teacher_is_refused(void **state)
{
    (void)state;
    model_fixture r;
    bp_outcome outcome;
    int32_t tokens[TOKENS] = {0};
    bp_spec spec = model_fixture_spec();
    spec.distill = (bp_distill){.top_k = 2, .alpha = 0.5, .temperature = 1.0};
    model_fixture_open(&r, &spec, tokens, TOKENS);
    assert_int_equal(bp_runtime_step(&r.runtime, &r.feed, &outcome), BP_ERR_USAGE);
    assert_non_null(strstr(r.runtime.error.text, "no teacher"));
    model_fixture_close(&r);
}

enum { WIDTH = 37, ROWS = 10, LIKELY = 3 };

/* What the first two samples left to be read. */
typedef struct heard {
    union {
        float value[2 * ROWS * WIDTH];
        int32_t token[2 * ROWS * WIDTH];
    } of;
    uint64_t elements;
    uint32_t groups;
} heard;

static bp_status hear(void *user, const bp_runtime *runtime)
{
    heard *h = user;
    if (h->groups++ == 0) {
        memcpy(&h->of, runtime->logits_host, (size_t)h->elements * sizeof(float));
    }
    return BP_OK;
}

/* The loss of an evaluation after two steps, and in *digest what these left. */
static double evaluated(bool is_teacher, bool keeps, heard *h, uint64_t *digest)
{
    model_fixture r;
    int32_t tokens[TOKENS];
    double loss = 0.0;
    uint64_t targets = 0;
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * 11 % WIDTH;
    }
    bp_spec spec = model_fixture_spec();
    spec.evaluate = true;
    spec.keep_logits = keeps;
    spec.distill = (bp_distill){.top_k = is_teacher ? LIKELY : 0, .is_teacher = is_teacher};
    model_fixture_open(&r, &spec, tokens, TOKENS);
    (void)model_fixture_step(&r);
    (void)model_fixture_step(&r);
    *digest = model_fixture_digest(&r);
    *h = (heard){.elements = 2 * ROWS * (is_teacher ? 2 * LIKELY : WIDTH)};
    assert_int_equal(
        bp_runtime_evaluate_each(&r.runtime, &r.feed, 0, keeps ? hear : NULL, h, &loss, &targets),
        BP_OK);
    model_fixture_close(&r);
    return loss;
}

/* A teacher trains and is evaluated as any model, and leaves its likeliest tokens where others
 * leave their logits. */
/* verifies layers-34.5c43 */
static void a_teacher_leaves_its_tokens(void **state)
{
    (void)state;
    static heard logits, said;
    uint64_t digest, other;
    const double loss = evaluated(false, true, &logits, &digest);
    assert_true(evaluated(true, false, &said, &other) == loss && other == digest);
    assert_true(evaluated(true, true, &said, &other) == loss && other == digest);
    for (uint32_t row = 0; row < 2 * ROWS; row++) {
        const float *x = logits.of.value + row * WIDTH;
        const uint32_t at = (row / ROWS * 2 * ROWS + row % ROWS) * LIKELY;
        double sum = 0.0;
        for (uint32_t v = 0; v < WIDTH; v++) {
            sum += exp((double)x[v]);
        }
        for (uint32_t j = 0; j < LIKELY; j++) {
            const int32_t token = said.of.token[at + j];
            uint32_t above = 0;
            for (uint32_t v = 0; v < WIDTH; v++) {
                above += x[v] > x[token] ? 1 : 0;
            }
            assert_int_equal(above, j);
            assert_true(fabs((double)said.of.value[at + ROWS * LIKELY + j] -
                             ((double)x[token] - log(sum))) < 1e-5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_go_with_a_teacher),
        cmocka_unit_test(numbers_are_within_bounds),
        cmocka_unit_test(slices_have_the_bits_of_the_whole),
        cmocka_unit_test(numbers_reach_the_loss),
        cmocka_unit_test(a_feed_without_teacher_is_refused),
        cmocka_unit_test(a_teacher_leaves_its_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
