/* SPDX-License-Identifier: MIT */
/* Spectra against a sum in double over the definition, and against those of transformers' feature
 * extractor (tools/golden/speech/folder.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/storage/store_posix.h"
#include "tests/fixtures/golden.h"
#include "tools/formats/audio/speech.h"

enum { FRAMES = 100, MELS = 20, SAMPLES = FRAMES * BP_MEL_HOP };

static const double pi = 3.14159265358979323846;

static double mel_of(double f)
{
    return f < 1000.0 ? 3.0 * f / 200.0 : 15.0 + log(f / 1000.0) * 27.0 / log(6.4);
}

static double hertz_of(double m)
{
    return m < 15.0 ? 200.0 * m / 3.0 : 1000.0 * exp((m - 15.0) * log(6.4) / 27.0);
}

/* One number of a spectrum before its largest is known: log10 of a band's power. */
static double band(const float *x, uint32_t count, uint32_t frame, uint32_t mel, uint32_t mels)
{
    double edge[3], sum = 0.0;
    for (uint32_t i = 0; i < 3; i++) {
        edge[i] = hertz_of(mel_of(8000.0) * (mel + i) / (mels + 1));
    }
    for (uint32_t k = 0; k <= 200; k++) {
        const double f = 40.0 * k;
        const double up = (f - edge[0]) / (edge[1] - edge[0]),
                     down = (edge[2] - f) / (edge[2] - edge[1]);
        const double weight = fmax(0.0, fmin(up, down)) * 2.0 / (edge[2] - edge[0]);
        double real = 0.0, imaginary = 0.0;
        for (int64_t n = 0; weight > 0.0 && n < 400; n++) {
            int64_t at = (int64_t)frame * 160 + n - 200;
            at = at < 0 ? -at : at;
            at = at >= (int64_t)count ? 2 * ((int64_t)count - 1) - at : at;
            const double w = (double)x[at] * (0.5 - 0.5 * cos(2.0 * pi * (double)n / 400.0));
            real += w * cos(2.0 * pi * (double)(k * n) / 400.0);
            imaginary -= w * sin(2.0 * pi * (double)(k * n) / 400.0);
        }
        sum += weight * (real * real + imaginary * imaginary);
    }
    return log10(fmax(sum, 1e-10));
}

/* verifies formats-75.ee3f */
static void test_definition(void **state)
{
    static bp_log_mel tables;
    static float x[SAMPLES], got[FRAMES * MELS];
    static double right[FRAMES * MELS];
    double top = -10.0;
    (void)state;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const double t = i / 16000.0;
        x[i] = (float)(i < 9000 ? 0.4 * sin(2.0 * pi * (300.0 + 900.0 * t) * t) + 1e-3 * (i % 7)
                                : 0.0);
    }
    bp_log_mel_begin(&tables, MELS);
    bp_log_mel_make(&tables, x, 9000, FRAMES, got);
    for (uint32_t i = 0; i < FRAMES * MELS; i++) {
        right[i] = band(x, SAMPLES, i / MELS, i % MELS, MELS);
        top = fmax(top, right[i]);
    }
    for (uint32_t i = 0; i < FRAMES * MELS; i++) {
        const double want = (fmax(right[i], top - 8.0) + 4.0) / 4.0;
        if (!(fabs((double)got[i] - want) <= 3e-7)) {
            fail_msg("number %u: %.9g for %.9g", i, (double)got[i], want);
        }
    }
}

/* The bank of 80 filters over 201 bins sums to 1.9990241. */
/* verifies formats-75.ee3f */
static void test_bank(void **state)
{
    static bp_log_mel tables;
    double sum = 0.0;
    (void)state;
    bp_log_mel_begin(&tables, 80);
    for (uint32_t i = 0; i < 80; i++) {
        for (uint32_t k = 0; k < tables.filter[i].count; k++) {
            sum += tables.filter[i].weight[k];
        }
    }
    assert_true(fabs(sum - 1.9990241) < 5e-8);
}

/* verifies formats-75.ee3f */
static void test_silence(void **state)
{
    static bp_log_mel tables;
    static float x[800], got[5 * 8];
    (void)state;
    bp_log_mel_begin(&tables, 8);
    bp_log_mel_make(&tables, x, 800, 5, got);
    for (uint32_t i = 0; i < 5 * 8; i++) {
        assert_true(fabs((double)got[i] + 1.5) < 1e-7); /* log10 of 1e-10, plus 4, by 4 */
    }
}

/* verifies formats-75.ee3f */
static void test_transformers(void **state)
{
    static bp_store_posix store;
    static bp_speech speech;
    bp_error error = {.code = BP_OK};
    golden file;
    size_t bytes = 0;
    (void)state;
    assert_int_equal(bp_store_posix_init(&store, ""), BP_OK);
    golden_open(&file, "tests/golden/speech/features.safetensors");
    float *right = golden_tensor(&file, "features", &bytes);
    const size_t each = (size_t)FRAMES * MELS, rows = bytes / sizeof *right / each;
    float *got = malloc(each * sizeof *got);
    speech.store = &store.store;
    speech.error = &error;
    speech.frames = FRAMES;
    speech.mels = MELS;
    speech.samples = malloc(SAMPLES * sizeof(float));
    speech.raw = malloc(bp_speech_raw(FRAMES) * sizeof(float));
    assert_int_equal(bp_speech_begin(&speech), BP_OK);
    assert_int_equal(rows, 12);
    for (size_t row = 0; row < rows; row++) {
        char path[64];
        snprintf(path, sizeof path, "tests/golden/speech/sounds/%zu.wav", row);
        assert_int_equal(bp_speech_read(&speech, path, got), BP_OK);
        for (size_t i = 0; i < each; i++) {
            if (!(fabs((double)got[i] - (double)right[row * each + i]) <= 2.5e-7)) {
                fail_msg("%s: number %zu: %.9g for %.9g", path, i, (double)got[i],
                         (double)right[row * each + i]);
            }
        }
    }
    free(speech.samples);
    free(speech.raw);
    free(got);
    free(right);
    golden_close(&file);
}

/* verifies formats-75.ee3f */
static void test_refusals(void **state)
{
    static bp_speech speech;
    bp_error error = {.code = BP_OK};
    (void)state;
    speech.error = &error;
    speech.frames = FRAMES;
    speech.mels = BP_MEL_MOST + 1;
    assert_int_equal(bp_speech_begin(&speech), BP_ERR_USAGE);
    error = (bp_error){.code = BP_OK};
    speech.mels = BP_MEL_LEAST - 1;
    assert_int_equal(bp_speech_begin(&speech), BP_ERR_USAGE);
    error = (bp_error){.code = BP_OK};
    speech.mels = 8;
    speech.frames = 2;
    assert_int_equal(bp_speech_begin(&speech), BP_ERR_USAGE);
    assert_string_equal(error.name, "max_source_positions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition), cmocka_unit_test(test_bank),
        cmocka_unit_test(test_silence),    cmocka_unit_test(test_transformers),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
