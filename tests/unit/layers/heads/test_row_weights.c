/* SPDX-License-Identifier: MIT */
/* Losses of tokens with a weight each: with that of a mean training is what it is without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/model_fixture.h"

#define TOKENS 205

static int32_t tokens[TOKENS];
static float given; /* to each token */

static bp_status give(bp_teacher *teacher, const bp_column *column, const bp_feed_tokens *read,
                      int32_t *to)
{
    (void)teacher;
    (void)read;
    assert_int_equal(column->from, BP_INPUT_WEIGHTS);
    for (uint32_t t = 0; t < column->elements; t++) {
        memcpy(&to[t], &given, sizeof given);
    }
    return BP_OK;
}

static bp_teacher teacher = {give};

static void fill_tokens(void)
{
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(i * i % 37);
    }
}

/* Three steps: the last norm. */
static void trained(bp_spec spec, bool weighted, double *norm)
{
    static model_fixture r;
    spec.row_weights = weighted;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    r.feed.teacher = weighted ? &teacher : NULL;
    for (int i = 0; i < 3; i++) {
        *norm = model_fixture_step(&r).norm;
    }
    model_fixture_close(&r);
}

/* verifies policy-3.7a20 */
static void weights_of_a_mean_are_the_mean(void **state)
{
    (void)state;
    fill_tokens();
    for (int i = 0; i < 4; i++) {
        bp_spec spec = model_fixture_spec();
        double norm, plain;
        spec.loss_rows = i == 1 ? 7 : 0;
        spec.accumulation = i == 2 ? 3 : 1;
        spec.gradient_release = i == 3 ? BP_RELEASE_EXACT : BP_RELEASE_NONE;
        given = (float)(1.0 / (20 * spec.accumulation));
        trained(spec, true, &norm);
        trained(spec, false, &plain);
        assert_true(fabs(norm - plain) < 1e-5 * plain);
    }
}

/* verifies policy-3.7a20 */
static void the_sign_of_weights_is_that_of_the_gradient(void **state)
{
    bp_spec spec = model_fixture_spec();
    double norm, other;
    (void)state;
    fill_tokens();
    spec.optimizer_options.learning_rate = 0.0;
    given = 0.25f;
    trained(spec, true, &norm);
    given = -0.25f;
    trained(spec, true, &other);
    assert_true(norm > 0.0 && norm == other);
    given = 0.0f;
    trained(spec, true, &norm);
    assert_true(norm == 0.0);
}

/* verifies policy-3.7a20 */
static void weights_need_a_teacher_and_a_language_model(void **state)
{
    static model_fixture r;
    bp_spec spec = model_fixture_spec();
    bp_error error = {.code = BP_OK};
    bp_outcome outcome;
    (void)state;
    spec.row_weights = true;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    assert_int_equal(bp_runtime_step(&r.runtime, &r.feed, &outcome), BP_ERR_USAGE);
    assert_string_equal(r.runtime.error.text, "the feed has no teacher");
    model_fixture_close(&r);
    spec.distill = (bp_distill){.top_k = 2, .alpha = 1.0, .temperature = 1.0};
    assert_int_equal(bp_spec_check(&spec, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "row_weights");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_a_mean_are_the_mean),
        cmocka_unit_test(the_sign_of_weights_is_that_of_the_gradient),
        cmocka_unit_test(weights_need_a_teacher_and_a_language_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
