/* SPDX-License-Identifier: MIT */
/* Which tokens may follow and how likely, as transformers has it (tools/golden/sampling.py), and
 * the draws from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/golden.h"

#include "tools/bedplate/predict/sample.c"

enum { TOKENS = 61, IDS = 8, SETTINGS = 5 };

static sampling sampling_of(const double *row)
{
    return (sampling){.temperature = row[0],
                      .top_k = (uint64_t)row[1],
                      .top_p = row[2],
                      .min_p = row[3],
                      .repetition_penalty = row[4],
                      .seed = 7};
}

static void case_is(const sampling *how, const float *logits, const int32_t *ids,
                    const double *right)
{
    float scores[TOKENS];
    uint32_t order[TOKENS];
    double found[TOKENS] = {0.0};
    memcpy(scores, logits, sizeof scores);
    sample_penalise(how, logits, scores, ids, IDS);
    const uint32_t kept = sample_narrow(how, scores, TOKENS, order);
    const uint32_t best = likeliest(scores, TOKENS);
    const double all = mass(how, scores, best, order, kept);
    for (uint32_t i = 0; i < kept; i++) {
        assert_true(found[order[i]] == 0.0);
        found[order[i]] = chance(how, scores, order[i], best) / all;
    }
    for (uint32_t t = 0; t < TOKENS; t++) {
        assert_int_equal(found[t] > 0.0, right[t] > 0.0);
        assert_true(fabs(found[t] - right[t]) < 1e-6);
    }
}

/* verifies face-19.bfb9 */
static void what_may_follow_is_what_transformers_says(void **state)
{
    (void)state;
    golden g;
    size_t bytes;
    golden_open(&g, "tests/golden/sampling.safetensors");
    double *settings = golden_tensor(&g, "settings", &bytes);
    const size_t cases = bytes / sizeof *settings / SETTINGS;
    int32_t *ids = golden_tensor(&g, "ids", &bytes);
    float *logits = golden_tensor(&g, "logits", &bytes);
    assert_int_equal(bytes, cases * TOKENS * sizeof *logits);
    double *right = golden_tensor(&g, "probabilities", &bytes);
    assert_true(cases > 50);
    for (size_t i = 0; i < cases; i++) {
        const sampling how = sampling_of(settings + i * SETTINGS);
        case_is(&how, logits + i * TOKENS, ids + i * IDS, right + i * TOKENS);
    }
    free(right);
    free(logits);
    free(ids);
    free(settings);
    golden_close(&g);
}

/* verifies face-19.bfb9 */
static void at_least_the_likeliest_is_left(void **state)
{
    (void)state;
    const float logits[4] = {1.0f, 3.0f, 2.0f, 3.0f};
    uint32_t order[4];
    sampling how = {.temperature = 1.0, .top_p = 0.0, .repetition_penalty = 1.0};
    assert_int_equal(sample_narrow(&how, logits, 4, order), 1);
    assert_int_equal(order[0], 1); /* of equals the first */
    how = (sampling){.temperature = 1.0, .top_p = 1.0, .min_p = 1.0, .repetition_penalty = 1.0};
    assert_int_equal(sample_narrow(&how, logits, 4, order), 2);
    how = (sampling){.temperature = 0.0, .top_p = 1.0, .repetition_penalty = 1.0};
    assert_int_equal(sample_narrow(&how, logits, 4, order), 1);
    assert_int_equal(sample_token(&how, logits, 4, 0, 0, order), 1);
    const float only[1] = {-5.0f};
    how = (sampling){.temperature = 1.0, .top_k = 9, .top_p = 0.1, .repetition_penalty = 1.0};
    assert_int_equal(sample_narrow(&how, only, 1, order), 1);
}

/* 20,000 draws against the chances: the largest deviation of 6 counts is below 4.5 sigma. */
/* verifies face-19.bfb9 */
static void draws_are_as_likely_as_they_should_be(void **state)
{
    (void)state;
    const float logits[6] = {0.0f, 1.0f, 0.5f, -1.0f, 2.0f, -3.0f};
    const sampling how = {.temperature = 0.9, .top_p = 0.95, .repetition_penalty = 1.0, .seed = 3};
    uint32_t order[6];
    uint32_t counts[6] = {0};
    enum { DRAWS = 20000 };
    const uint32_t kept = sample_narrow(&how, logits, 6, order);
    const double all = mass(&how, logits, 4, order, kept);
    double chances[6] = {0.0};
    for (uint32_t i = 0; i < kept; i++) {
        chances[order[i]] = chance(&how, logits, order[i], 4) / all;
    }
    assert_true(chances[5] == 0.0);
    for (uint32_t d = 0; d < DRAWS; d++) {
        counts[sample_token(&how, logits, 6, d % 3, d / 3, order)]++;
    }
    for (uint32_t t = 0; t < 6; t++) {
        const double sigma = sqrt((double)DRAWS * chances[t] * (1.0 - chances[t]));
        assert_true(fabs((double)counts[t] - (double)DRAWS * chances[t]) <= 4.5 * sigma);
    }
}

/* verifies face-19.bfb9 */
static void sequences_draw_from_streams_of_their_own(void **state)
{
    (void)state;
    float logits[64] = {0.0f};
    uint32_t order[64];
    const sampling how = {.temperature = 1.0, .top_p = 1.0, .repetition_penalty = 1.0, .seed = 3};
    uint32_t same = 0;
    for (uint64_t at = 0; at < 200; at++) {
        const uint32_t a = sample_token(&how, logits, 64, 0, at, order);
        assert_int_equal(a, sample_token(&how, logits, 64, 0, at, order));
        same += a == sample_token(&how, logits, 64, 1, at, order) ? 1 : 0;
    }
    assert_true(same < 20); /* 3 are expected */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_follow_is_what_transformers_says),
        cmocka_unit_test(at_least_the_likeliest_is_left),
        cmocka_unit_test(draws_are_as_likely_as_they_should_be),
        cmocka_unit_test(sequences_draw_from_streams_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
