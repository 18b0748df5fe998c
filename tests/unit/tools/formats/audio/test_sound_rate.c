/* SPDX-License-Identifier: MIT */
/* Sound at another rate: tones stay what they are, those beyond the lower rate's half go. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/formats/audio/sound_rate.h"

static const double pi = 3.14159265358979323846;
static bp_sound_rate rate; /* large */

/* The largest difference of a tone of `hertz` at `from` samples a second, turned, from that tone
 * times `share`, away from the ends. */
static double worst(uint32_t from, double hertz, double share)
{
    const uint64_t count = from / 4;
    float *x = malloc(count * sizeof *x);
    double most = 0.0;
    assert_true(bp_sound_rate_begin(&rate, from));
    for (uint64_t i = 0; i < count; i++) {
        x[i] = (float)sin(2.0 * pi * hertz * (double)i / from);
    }
    const uint64_t made = bp_sound_rate_count(&rate, count);
    assert_true(made >= 3999 && made <= 4001); /* a quarter of a second */
    for (uint64_t i = 400; i + 400 < made; i++) {
        const double want = share * sin(2.0 * pi * hertz * (double)i / 16000.0);
        most = fmax(most, fabs((double)bp_sound_rate_at(&rate, x, count, i) - want));
    }
    free(x);
    return most;
}

/* verifies formats-75.ee3f */
static void test_tones(void **state)
{
    static const uint32_t rates[] = {8000, 11025, 12000, 22050, 24000, 32000, 44100, 48000, 96000};
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        const double found = worst(rates[i], 1000.0, 1.0), low = worst(rates[i], 60.0, 1.0);
        if (!(found < 2e-4) || !(low < 2e-4)) {
            fail_msg("%u: %.3g, %.3g", rates[i], found, low);
        }
    }
    assert_true(worst(48000, 7000.0, 1.0) < 2e-3);
    assert_true(worst(48000, 9000.0, 0.0) < 2e-3);
    assert_true(worst(44100, 20000.0, 0.0) < 2e-4);
}

/* verifies formats-75.ee3f */
static void test_level(void **state)
{
    static float x[4800];
    (void)state;
    for (uint32_t i = 0; i < 4800; i++) {
        x[i] = 0.5f;
    }
    assert_true(bp_sound_rate_begin(&rate, 48000));
    for (uint64_t i = 100; i < 1500; i++) {
        assert_true(fabs((double)bp_sound_rate_at(&rate, x, 4800, i) - 0.5) < 1e-6);
    }
}

/* verifies formats-75.ee3f */
static void test_refused(void **state)
{
    (void)state;
    assert_false(bp_sound_rate_begin(&rate, 44099));
    assert_false(bp_sound_rate_begin(&rate, 1));
    assert_true(bp_sound_rate_begin(&rate, 16000));
    assert_int_equal(bp_sound_rate_count(&rate, 77), 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tones), cmocka_unit_test(test_level),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
