/* SPDX-License-Identifier: MIT */
/* States in 8 and 4 bits where it matters: every midpoint between two codes and its neighbours, and
 * every code back, in every form of the host's kernels; the plain one (core/ops/codec.h) is
 * right. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/isa_table.h"
#include "tests/fixtures/kernels/update_fixture.h"

#define VALUES (32 * BP_CODEC_BLOCK)
#define GROUP  32

/* Puts x and the floats beside it, a group's first place always left for its largest element. */
static uint32_t put_around(float *to, uint32_t at, double x, float largest)
{
    float value = (float)x;
    value = nextafterf(nextafterf(value, -INFINITY), -INFINITY);
    for (uint32_t i = 0; i < 5; i++) {
        if (at % GROUP == 0) {
            to[at++] = largest;
        }
        to[at++] = value;
        value = nextafterf(value, INFINITY);
    }
    return at;
}

static uint32_t fill_rest(float *to, uint32_t at, float largest)
{
    static const float odd[] = {0.0f, -0.0f, 1e-45f, -1e-45f, 1e-20f, -3e-9f, 1.0f, -1.0f};
    assert_true(at < VALUES);
    for (uint32_t i = 0; at < VALUES; i++) {
        to[at] = at % GROUP == 0 ? largest : odd[i % 8] * (i % 16 < 8 ? 1.0f : 0.25f);
        at++;
    }
    return at;
}

/* Gradients whose first moment, or with `roots` whose square, lies at midpoints. */
static void make_midpoints(bp_codec form, bool roots, float largest, float *to)
{
    const float *codebook = roots ? bp_codec_unsigned : bp_codec_signed;
    uint32_t at = 0;
    for (uint32_t c = 0; c + 1 < 256; c++) {
        double x = 0.5 * ((double)codebook[c] + (double)codebook[c + 1]);
        if (form == BP_CODEC_COMPANDED8) {
            x = (double)(c / 2) + 0.5;
            x = roots ? ((double)c + 0.5) / 255.0 : x / (254.0 - x);
        }
        x = roots && form != BP_CODEC_COMPANDED8 ? sqrt(x) : x;
        at = put_around(to, at, c % 2 == 0 ? x : -x, largest);
        at = put_around(to, at, c % 2 == 0 ? -x : x, largest);
    }
    (void)fill_rest(to, at, largest);
}

/* The row's states become the gradient, and its square; then what that has been rounded to moves
 * halfway to other gradients; then every code is read. */
static void run_steps(update_fixture *d, bp_kernel kernel, const char *form, bp_codec codec,
                      const float *gradients)
{
    static float other[VALUES];
    const update_setup setup = {
        .variant = form, .weight = BP_F32, .gradient = BP_F32, .form = codec};
    update_scalars s = {.adamw = {.count = VALUES, .epsilon = 1e-8}};
    update_fixture_open(d, kernel, &s, &setup);
    update_fixture_step(d, gradients, 1e-3, 0.0, 0.0);
    d->scalars.adamw.beta1 = 0.5;
    d->scalars.adamw.beta2 = kernel == BP_KERNEL_sgd ? 0.0 : 0.5;
    for (uint32_t i = 0; i < VALUES; i++) {
        other[i] = 0.25f * gradients[VALUES - 1 - i];
    }
    update_fixture_step(d, other, 1e-3, 0.0, 0.0);
    for (uint32_t k = 0; k < 2; k++) {
        const bool held = (d->states >> k & 1) != 0;
        unsigned char *state = held ? d->image + d->place[FIXTURE_STATE + k] : NULL;
        for (uint32_t c = 0; c < 256 && held; c++) {
            state[bp_codec_header(codec) + c % bp_codec_code_bytes(256, codec)] = (unsigned char)c;
        }
    }
    update_fixture_step(d, gradients, 1e-3, 0.0, 0.0);
}

static void compare_forms(bp_kernel kernel, bp_codec codec, const float *gradients)
{
    update_fixture right;
    run_steps(&right, kernel, bp_host_isa_name(0), codec, gradients);
    for (uint32_t form = 1; form < BP_HOST_ISAS; form++) {
        if (!bp_host_isa_runs(form)) {
            continue;
        }
        update_fixture d;
        run_steps(&d, kernel, bp_host_isa_name(form), codec, gradients);
        for (uint64_t i = 0; i < d.bytes; i++) {
            if (d.image[i] != right.image[i]) {
                fail_msg("%s, kernel %u, codec %u: byte %llu is %u, portable gives %u",
                         bp_host_isa_name(form), (unsigned)kernel, (unsigned)codec,
                         (unsigned long long)i, d.image[i], right.image[i]);
            }
        }
        update_fixture_close(&d);
    }
    update_fixture_close(&right);
}

/* verifies device-1.6909 */
static void test_midpoints_and_codes(void **state)
{
    (void)state;
    static float gradients[VALUES];
    static const bp_kernel kernels[] = {BP_KERNEL_adamw, BP_KERNEL_adam, BP_KERNEL_sgd,
                                        BP_KERNEL_adagrad};
    for (int codec = BP_CODEC_BLOCK8; codec <= BP_CODEC_BLOCK4; codec++) {
        for (int roots = 0; roots < 2; roots++) {
            for (int sign = -1; sign < 2; sign += 2) {
                make_midpoints((bp_codec)codec, roots != 0, (float)sign, gradients);
                for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
                    compare_forms(kernels[k], (bp_codec)codec, gradients);
                }
            }
        }
    }
}

/* Blocks of nothing, of the least numbers there are, and scales at the ends of the range. */
/* verifies device-1.6909 */
static void test_scales(void **state)
{
    (void)state;
    static float gradients[VALUES];
    static const float scales[] = {0.0f, 1e-45f, 1e-38f, 1.1754944e-38f, 1e-19f, 1e18f, 1e-22f};
    for (int codec = BP_CODEC_BLOCK8; codec <= BP_CODEC_BLOCK4; codec++) {
        for (uint32_t i = 0; i < VALUES; i++) {
            float x = (float)((i * 2654435761u >> 9) % 2001) / 1000.0f - 1.0f;
            gradients[i] = x * scales[i / BP_CODEC_BLOCK % 7];
        }
        compare_forms(BP_KERNEL_adamw, (bp_codec)codec, gradients);
        compare_forms(BP_KERNEL_lion, (bp_codec)codec, gradients);
        compare_forms(BP_KERNEL_rmsprop, (bp_codec)codec, gradients);
    }
}

/* Magnitudes from 2^-30 to 1 at every upper nine bits of their fraction, and both ends of what lies
 * between: how a form finds the decade of a number may err where no midpoint is near. */
/* verifies device-1.6909 */
static void test_powers_of_two(void **state)
{
    (void)state;
    static float gradients[VALUES];
    uint32_t next = 0x30800000u;
    while (next < 0x3f800000u) {
        for (uint32_t at = 0; at < VALUES; at++) {
            uint32_t bits = (next & 0x2000u) != 0 ? next | 0x3fffu : next;
            float x = 1.0f;
            if (at % GROUP != 0 && next < 0x3f800000u) {
                memcpy(&x, &bits, sizeof x);
                x = at % 3 == 0 ? -x : x;
                next += 0x2000u;
            }
            gradients[at] = x;
        }
        compare_forms(BP_KERNEL_sgd, BP_CODEC_BLOCK8, gradients);
        compare_forms(BP_KERNEL_sgd, BP_CODEC_COMPANDED8, gradients);
        for (uint32_t at = 0; at < VALUES; at++) {
            gradients[at] = sqrtf(fabsf(gradients[at])); /* adagrad's state is the square */
        }
        compare_forms(BP_KERNEL_adagrad, BP_CODEC_BLOCK8, gradients);
        compare_forms(BP_KERNEL_adagrad, BP_CODEC_COMPANDED8, gradients);
    }
}

/* Beside an infinite element, whose scale is the largest there is, no number's quotient is seen. */
/* verifies device-1.6909 */
static void test_infinite(void **state)
{
    (void)state;
    static float gradients[VALUES];
    for (uint32_t i = 0; i < VALUES; i++) {
        gradients[i] = i % 256 == 5 ? INFINITY : (i % 3 == 0 ? -0.0f : 1e-15f * (float)(i % 7));
    }
    compare_forms(BP_KERNEL_adagrad, BP_CODEC_COMPANDED8, gradients);
    compare_forms(BP_KERNEL_adagrad, BP_CODEC_BLOCK8, gradients);
    compare_forms(BP_KERNEL_sgd, BP_CODEC_COMPANDED8, gradients);
    compare_forms(BP_KERNEL_sgd, BP_CODEC_BLOCK8, gradients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_midpoints_and_codes),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_infinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
