/* SPDX-License-Identifier: MIT */
/* What a teacher goes together with; the loss is compared in tests/unit/device/host/test_distill.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layers/llama.h"
#include "tests/support/rig.h"

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
    bp_spec spec = rig_spec();
    spec.model = &bp_model_llama;
    spec.config = (bp_model_config){.vocabulary = 37, .positions = 32};
    bp_config_set_own(&spec.config, &own, sizeof own);
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
        spec.distill.teaches = true;
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

static uint64_t taught_digest(bp_release release, bool int8, double *loss)
{
    rig r;
    bp_teacher teacher = {say};
    int32_t tokens[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * 911 % WORDS;
    }
    bp_spec spec = rig_spec();
    spec.config.vocabulary = WORDS;
    spec.accumulation = 2;
    spec.distill = (bp_distill){.top_k = TOP, .alpha = 0.6, .temperature = 2.0};
    spec.gradient_release = release;
    spec.gradient_int8 = int8;
    rig_open(&r, &spec, tokens, TOKENS);
    r.feed.teacher = &teacher;
    for (int i = 0; i < 3; i++) {
        *loss = rig_step(&r).loss;
    }
    const uint64_t digest = rig_digest(&r);
    rig_close(&r);
    return digest;
}

/* A table's gradient in slices, each from what the whole left, is the whole's to the bit. */
/* verifies layers-34.5c43 */
static void slices_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    double whole = 0.0, sliced = 0.0, coded = 0.0;
    const uint64_t digest = taught_digest(BP_RELEASE_NONE, false, &whole);
    assert_true(taught_digest(BP_RELEASE_EXACT, false, &sliced) == digest);
    assert_true(sliced == whole);
    (void)taught_digest(BP_RELEASE_NONE, true, &coded);
    assert_true(fabs(coded - whole) < 1e-2 * whole);
}

/* The first step's loss; top 0: without a teacher. */
static double first_loss(uint32_t top, double alpha, double temperature, uint32_t chunk)
{
    rig r;
    bp_teacher teacher = {say};
    int32_t tokens[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i * 911 % WORDS;
    }
    bp_spec spec = rig_spec();
    spec.config.vocabulary = WORDS;
    spec.loss_rows = chunk;
    spec.distill = (bp_distill){.top_k = top, .alpha = alpha, .temperature = temperature};
    rig_open(&r, &spec, tokens, TOKENS);
    r.feed.teacher = &teacher;
    const double loss = rig_step(&r).loss;
    rig_close(&r);
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
    const double even = 1e6 * log((double)WORDS / TOP);
    assert_true(fabs(first_loss(TOP, 1.0, 1e3, 0) - even) < 1e-2 * even);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_go_with_a_teacher),
        cmocka_unit_test(numbers_are_within_bounds),
        cmocka_unit_test(slices_have_the_bits_of_the_whole),
        cmocka_unit_test(numbers_reach_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
