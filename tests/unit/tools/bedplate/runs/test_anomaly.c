/* SPDX-License-Identifier: MIT */
/* The detector of spikes on planted ones, single and in series, on what is not finite, on drift and
 * on noise with heavy tails; and its state through the text of a checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "core/base/random.h"
#include "tools/bedplate/app/clock.c"
#include "tools/bedplate/app/output.c"
#include "tools/bedplate/record/json_line.c"
#include "tools/bedplate/record/events.c"
#include "tools/bedplate/runs/anomaly.c"
#include "tests/fixtures/model_fixture.h"

static void begin(anomaly *a, const char *policy)
{
    static settings set;
    set.on_spike = policy;
    set.spike_threshold = 8;
    set.spike_budget = 3;
    set.replay_every = 0;
    anomaly_begin(a, &set, NULL);
}

/* Student's t with n degrees of freedom: a normal over the root of a mean of n squares; n = 0: the
 * normal itself. */
static double noise(uint64_t i, uint32_t n)
{
    double sum = 0.0;
    for (uint32_t k = 1; k <= n; k++) {
        const double z = bp_random_normal(5, k, i);
        sum += z * z;
    }
    return bp_random_normal(5, 0, i) / (n > 0 ? sqrt(sum / n) : 1.0);
}

static bp_step_verdict see(anomaly *a, uint64_t step, double loss, double norm)
{
    double factor;
    const bp_outcome seen = {.step = step, .loss = loss, .norm = norm};
    return anomaly_decide(a, &seen, &factor);
}

static uint64_t false_alarms(uint32_t tails, double drift)
{
    static anomaly a;
    uint64_t flags = 0;
    begin(&a, "skip");
    for (uint64_t i = 1; i <= 20000; i++) {
        const double loss = 3.0 + drift * (double)i + 0.05 * noise(i, tails);
        flags += see(&a, i, loss, 1.0 + 0.1 * noise(i + 100000, tails)) == BP_STEP_SKIP ? 1 : 0;
    }
    return flags;
}

/* verifies doubt-4.9d05 */
static void noise_and_drift_are_no_spikes(void **state)
{
    (void)state;
    assert_int_equal(false_alarms(0, 0.0), 0);
    assert_int_equal(false_alarms(0, -1e-4), 0);
    assert_int_equal(false_alarms(0, 1e-4), 0);
    const uint64_t heavy = false_alarms(4, 0.0); /* of 40,000 values */
    assert_in_range(heavy, 1, 60);
}

/* One value of a million does not hide those behind it, and three in a row are three. */
/* verifies doubt-3.3ae7 */
static void planted_spikes_are_found(void **state)
{
    (void)state;
    static anomaly a;
    static const uint64_t spikes[] = {500, 530, 560, 561, 562, 900};
    static const double heights[] = {1e6, 1.0, 1.0, 1.0, 1.0, 0.6};
    begin(&a, "skip");
    size_t next = 0;
    for (uint64_t i = 1; i <= 1000; i++) {
        const bool spike = next < 6 && i == spikes[next];
        const double loss = 3.0 + 0.05 * noise(i, 0) + (spike ? heights[next++] : 0.0);
        assert_int_equal(see(&a, i, loss, 1.0 + 0.1 * noise(i + 100000, 0)),
                         spike ? BP_STEP_SKIP : BP_STEP_APPLY);
    }
    assert_int_equal(a.flagged, 6);
    assert_int_equal(a.loss.count, 994); /* spikes are no part of the window */
}

/* Going back is decided as skipping is: single, in series, not finite; and neither by drift, nor
 * more often by heavy tails. */
/* verifies doubt-3.3ae7 */
static void ways_back_are_decided_as_skips_are(void **state)
{
    (void)state;
    static anomaly a, b;
    begin(&a, "skip");
    begin(&b, "rollback");
    uint64_t backs = 0;
    for (uint64_t i = 1; i <= 4000; i++) {
        const bool planted = i == 300 || (i >= 500 && i < 504) || i == 2500;
        const double calm = 3.0 - 1e-4 * (double)i + 0.05 * noise(i, i > 2000 ? 4 : 0);
        const double loss = i == 1000 ? (double)NAN : calm + (planted ? 20.0 : 0.0);
        const bp_step_verdict skip = see(&a, i, loss, 1.0), back = see(&b, i, loss, 1.0);
        assert_int_equal(back, skip == BP_STEP_SKIP ? BP_STEP_BACK : BP_STEP_APPLY);
        assert_true(skip == BP_STEP_SKIP || (!planted && i != 1000));
        backs += back == BP_STEP_BACK ? 1 : 0;
        assert_int_equal(a.exhausted, b.exhausted);
    }
    assert_int_equal(b.acted_count, backs);
    assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
    assert_in_range(backs, 7, 20); /* six planted, one that is not finite, and heavy tails' own */
}

/* verifies doubt-3.3ae7 */
static void what_is_not_finite_is_one_at_any_time(void **state)
{
    (void)state;
    static anomaly a;
    begin(&a, "skip");
    assert_int_equal(see(&a, 1, (double)NAN, 1.0), BP_STEP_SKIP);
    assert_int_equal(see(&a, 2, 3.0, (double)INFINITY), BP_STEP_SKIP);
    for (uint64_t i = 3; i < 3 + ANOMALY_SILENT; i++) {
        assert_int_equal(see(&a, i, i == 10 ? 100.0 : 3.0, 1.0), BP_STEP_APPLY); /* silent */
    }
    assert_int_equal(see(&a, 60, 3.1, 1.0), BP_STEP_SKIP); /* all were 3: 0.024 above is too far */
    assert_int_equal(see(&a, 61, 3.02, 1.0), BP_STEP_APPLY);
    begin(&a, "none");
    assert_int_equal(see(&a, 1, (double)NAN, 1.0), BP_STEP_APPLY);
    assert_int_equal(a.flagged, 0);
}

/* verifies doubt-3.3ae7 */
static void norms_are_clipped_to_the_threshold(void **state)
{
    (void)state;
    static anomaly a;
    begin(&a, "clip");
    for (uint64_t i = 1; i <= 200; i++) {
        (void)see(&a, i, 3.0 + 0.05 * noise(i, 0), 1.0 + 0.1 * noise(i + 1000, 0));
    }
    const double limit = anomaly_limit(&a.norm, 8.0);
    const bp_outcome seen = {.step = 201, .loss = 3.0, .norm = 10.0 * limit};
    double factor;
    assert_int_equal(anomaly_decide(&a, &seen, &factor), BP_STEP_CLIP);
    assert_true(factor == limit / (10.0 * limit));
    assert_true(a.norm.value[200 % ANOMALY_WINDOW] == limit);
    assert_int_equal(see(&a, 202, 30.0, 1.0), BP_STEP_APPLY); /* a loss cannot be clipped */
    assert_int_equal(a.flagged, 2);
}

/* Four of the last hundred steps are more than three; four of two hundred are not. */
/* verifies doubt-5.69bf */
static void the_budget_is_of_a_hundred_steps(void **state)
{
    (void)state;
    static anomaly a;
    begin(&a, "skip");
    for (uint64_t i = 1; i <= 4; i++) {
        assert_false(a.exhausted);
        (void)see(&a, 40 * i, (double)NAN, 1.0);
    }
    assert_false(a.exhausted);
    (void)see(&a, 161, (double)NAN, 1.0);
    assert_true(a.exhausted); /* 80, 120, 160, 161 */
}

/* verifies doubt-3.3ae7 */
static void a_checkpoint_carries_the_window(void **state)
{
    (void)state;
    static anomaly a, b;
    begin(&a, "skip");
    begin(&b, "skip");
    for (uint64_t i = 1; i <= 150; i++) {
        (void)see(&a, i, i == 77 ? 9.0 : 3.0 + 0.05 * noise(i, 0), 1.0);
    }
    anomaly_put(&a);
    assert_int_equal(strlen(a.text), ANOMALY_TEXT - 1);
    assert_true(anomaly_parse(&b, a.text));
    assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
    assert_memory_equal(a.acted, b.acted, sizeof a.acted);
    assert_int_equal(a.acted_count, b.acted_count);
    a.text[100] = 'x';
    assert_false(anomaly_parse(&b, a.text));
    assert_false(anomaly_parse(&b, "0123"));
    assert_false(anomaly_parse(&b, NULL));
}

static uint32_t busy_calls[2];

static void busy(void *user, bool again)
{
    (void)user;
    busy_calls[again ? 1 : 0]++;
}

/* A step is verified where two runs agree, also where a third one had to say which: so what is told
 * of a run is the same with a fault that passes and without. */
static void a_step_is_verified_by_two_runs(void **state)
{
    (void)state;
    static anomaly a;
    begin(&a, "none");
    a.every = 3;
    a.busy = busy;
    bp_outcome seen = {.step = 2, .loss = 3.0, .norm = 1.0};
    assert_false(anomaly_again(&a, &seen));
    bp_recompute_found found = {.result = BP_RECOMPUTED_EQUAL, .tensor = "", .kernels = "host"};
    seen.step = 3;
    assert_true(anomaly_again(&a, &seen));
    assert_int_equal(busy_calls[1], 1);
    anomaly_found(&a, &seen, &found);
    assert_int_equal(busy_calls[0], 1);
    assert_int_equal(a.verified, 3);
    seen.step = 6;
    found.result = BP_RECOMPUTED_TRANSIENT;
    anomaly_found(&a, &seen, &found);
    assert_int_equal(a.verified, 6);
    assert_int_equal(a.mismatches, 1);
    assert_false(a.doubt);
    seen.step = 9;
    found.result = BP_RECOMPUTED_PERSISTENT;
    anomaly_found(&a, &seen, &found);
    assert_int_equal(a.verified, 6);
    assert_true(a.doubt);
}

/* With nothing asked for, too: a bit of a linked program that falls over ends the run. */
/* verifies run-15.8e9b */
static void programs_are_read_beside_steps(void **state)
{
    (void)state;
    static anomaly a;
    static model_fixture r;
    static int32_t tokens[200];
    const bp_spec spec = model_fixture_spec();
    model_fixture_open(&r, &spec, tokens, 200);
    begin(&a, "none");
    assert_int_equal(anomaly_attach(&a, &r.runtime), BP_OK);
    assert_true(a.guard.bytes > 0);
    const uint64_t pass = a.guard.bytes / ANOMALY_LEAST + 2;
    for (uint64_t i = 0; i < 3 * pass; i++) {
        assert_int_equal(anomaly_guard(&a, &r.runtime), BP_OK);
    }
    uint8_t *places = (uint8_t *)r.runtime.link.offsets;
    places[20] ^= 1;
    bp_status found = BP_OK;
    for (uint64_t i = 0; i < 2 * pass && found == BP_OK; i++) {
        found = anomaly_guard(&a, &r.runtime);
    }
    assert_int_equal(found, BP_ERR_DEVICE);
    assert_true(a.doubt);
    model_fixture_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_and_drift_are_no_spikes),
        cmocka_unit_test(planted_spikes_are_found),
        cmocka_unit_test(ways_back_are_decided_as_skips_are),
        cmocka_unit_test(what_is_not_finite_is_one_at_any_time),
        cmocka_unit_test(norms_are_clipped_to_the_threshold),
        cmocka_unit_test(the_budget_is_of_a_hundred_steps),
        cmocka_unit_test(a_checkpoint_carries_the_window),
        cmocka_unit_test(a_step_is_verified_by_two_runs),
        cmocka_unit_test(programs_are_read_beside_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
