/* SPDX-License-Identifier: MIT */
/* The tape in 8 bits: PyTorch's float8_e4m3fn (tests/golden/tape.def), a search in double, and what
 * has to hold of blocks. Other forms and CUDA are held to these bits by the tests of all kernels.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "core/ops/tape.h"
#include "core/ops/tape_element.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define ROWS  3
#define WIDTH 300
#define MOST  (ROWS * WIDTH)

/* Packs x (rows, width), in the type, and unpacks it into y. */
static void pack(kernel_device *on, bp_dtype type, const float *x, int64_t rows, int64_t width,
                 uint8_t *packed)
{
    kernel_case c;
    bp_tape_pack_scalars s = {.rows = rows, .width = width};
    const uint8_t dtypes[BP_OPERANDS_MAX] = {BP_U8, (uint8_t)type};
    kernel_case_init_typed(&c, on->device, BP_KERNEL_tape_pack, &s, 1, 0, dtypes);
    store_elements(kernel_case_at(&c, 0, OPERAND(tape_pack, x)), type, x, (uint64_t)(rows * width));
    kernel_case_run(&c, on);
    memcpy(packed, kernel_case_at(&c, 0, OPERAND(tape_pack, packed)),
           bp_tape_bytes((uint64_t)rows, (uint64_t)width));
    kernel_case_free(&c);
}

static void load(const void *from, bp_dtype type, float *x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint16_t *narrow = from;
        x[i] = type == BP_F32    ? ((const float *)from)[i]
               : type == BP_BF16 ? bp_f32_from_bf16(narrow[i])
                                 : bp_f32_from_f16(narrow[i]);
    }
}

static void unpack(kernel_device *on, bp_dtype type, const uint8_t *packed, int64_t rows,
                   int64_t width, float *y)
{
    kernel_case c;
    bp_tape_unpack_scalars s = {.rows = rows, .width = width};
    const uint8_t dtypes[BP_OPERANDS_MAX] = {(uint8_t)type, BP_U8};
    kernel_case_init_typed(&c, on->device, BP_KERNEL_tape_unpack, &s, 1, 0, dtypes);
    memcpy(kernel_case_at(&c, 0, OPERAND(tape_unpack, packed)), packed,
           bp_tape_bytes((uint64_t)rows, (uint64_t)width));
    kernel_case_run(&c, on);
    load(kernel_case_at(&c, 0, OPERAND(tape_unpack, x)), type, y, (uint64_t)(rows * width));
    kernel_case_free(&c);
}

static void round_in_place(kernel_device *on, bp_dtype type, float *x, int64_t rows, int64_t width)
{
    kernel_case c;
    bp_tape_round_scalars s = {.rows = rows, .width = width};
    const uint8_t dtypes[BP_OPERANDS_MAX] = {(uint8_t)type};
    kernel_case_init_typed(&c, on->device, BP_KERNEL_tape_round, &s, 1, 0, dtypes);
    store_elements(kernel_case_at(&c, 0, 0), type, x, (uint64_t)(rows * width));
    kernel_case_run(&c, on);
    load(kernel_case_at(&c, 0, 0), type, x, (uint64_t)(rows * width));
    kernel_case_free(&c);
}

static void assert_bits(const float *got, const void *right, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, (const uint8_t *)right + 4 * i, sizeof bits);
        if (bp_tape_bits(got[i]) != bits) {
            fail_msg("value %u is %08x, right is %08x", (unsigned)i, bp_tape_bits(got[i]), bits);
        }
    }
}

static void check_golden(kernel_device *on, uint32_t byte, const uint32_t *x, const uint8_t *codes,
                         const uint32_t *values)
{
    float y[BP_TAPE_BLOCK];
    uint8_t packed[BP_TAPE_BLOCK + 1];
    memcpy(y, x, sizeof y);
    pack(on, BP_F32, y, 1, BP_TAPE_BLOCK, packed);
    assert_int_equal(packed[BP_TAPE_BLOCK], byte);
    assert_memory_equal(packed, codes, BP_TAPE_BLOCK);
    round_in_place(on, BP_F32, y, 1, BP_TAPE_BLOCK);
    assert_bits(y, values, BP_TAPE_BLOCK);
    unpack(on, BP_F32, packed, 1, BP_TAPE_BLOCK, y);
    assert_bits(y, values, BP_TAPE_BLOCK);
}

#define LIST(...) __VA_ARGS__
#define BLOCK(byte, x, codes, values)                                                              \
    check_golden(on, byte, (const uint32_t[]){LIST x}, (const uint8_t[]){LIST codes},              \
                 (const uint32_t[]){LIST values});

static void rounding_is_pytorchs_on(kernel_device *on);
/* verifies number-19.a725 */
TEST_ON_HOST(rounding_is_pytorchs)

static void rounding_is_pytorchs_on(kernel_device *on)
{
#include "tests/golden/tape.def"
}

/* The value of a code in double. */
static double value_of(uint32_t code, int exponent)
{
    const int high = (int)(code >> 3 & 15), low = (int)(code & 7);
    const double value = high == 0 ? ldexp(low, -9) : ldexp(8 + low, high - 10);
    return ldexp((code & 0x80u) != 0 ? -value : value, exponent);
}

/* Every code is the nearest one, an even one of two; the scale the least that holds the block. */
static void check_packed(const float *x, const uint8_t *packed, int64_t rows, int64_t width)
{
    const int64_t blocks = (width + BP_TAPE_BLOCK - 1) / BP_TAPE_BLOCK;
    for (int64_t i = 0; i < rows * width; i++) {
        const int64_t row = i / width, first = i % width / BP_TAPE_BLOCK * BP_TAPE_BLOCK;
        double most = 0.0;
        for (int64_t k = first; k < first + BP_TAPE_BLOCK && k < width; k++) {
            most = fmax(most, fabs((double)x[row * width + k]));
        }
        const int e = (int)packed[rows * width + row * blocks + first / BP_TAPE_BLOCK] - 127;
        assert_true(most <= ldexp(448.0, e) && (e == -117 || most > ldexp(448.0, e - 1)));
        const uint32_t code = packed[i], magnitude = code & 0x7fu;
        const double at = fabs((double)x[i]), here = fabs(value_of(code, e));
        assert_true(magnitude < 0x7f && (code >= 0x80) == (signbit(x[i]) != 0));
        for (int step = -1; step <= 1; step += 2) {
            const int other = (int)magnitude + step;
            const double there = value_of((uint32_t)other, e);
            const bool exists = other >= 0 && other < 0x7f;
            assert_true(!exists || fabs(at - here) < fabs(at - there) ||
                        (fabs(at - here) <= fabs(at - there) && magnitude % 2 == 0));
        }
        const double bound = at >= ldexp(1.0, e - 6) ? at / 16.0 : ldexp(1.0, e - 10);
        assert_true(fabs(at - here) <= bound);
    }
}

static void codes_are_the_nearest_on(kernel_device *on)
{
    static const int64_t widths[] = {1, 7, 128, 129, WIDTH};
    static const double sizes[] = {1.0, 1e-4, 3e-38, 1e37};
    static float x[MOST], y[MOST], z[MOST];
    static uint8_t packed[2 * MOST], again[2 * MOST];
    for (uint32_t i = 0; i < 60; i++) {
        const bp_dtype type = (bp_dtype)(i % 3);
        const int64_t width = widths[i % 5];
        const double size = type == BP_F16 ? 1e3 : sizes[i % 4];
        fill_normal(x, MOST, 3 + i, size);
        for (int64_t k = 0; k < ROWS * width; k++) {
            x[k] *= k % 11 == 0 ? 0.001f : k % 13 == 0 ? 0.0f : 1.0f;
            x[k] = type == BP_F32    ? x[k]
                   : type == BP_BF16 ? bp_f32_from_bf16(bp_bf16_even_from_f32(x[k]))
                                     : bp_f32_from_f16(bp_f16_from_f32(x[k]));
        }
        pack(on, type, x, ROWS, width, packed);
        check_packed(x, packed, ROWS, width);
        unpack(on, type, packed, ROWS, width, y);
        memcpy(z, x, sizeof z);
        round_in_place(on, type, z, ROWS, width);
        assert_memory_equal(y, z, (size_t)(ROWS * width) * sizeof *y);
        pack(on, type, y, ROWS, width, again);
        unpack(on, type, again, ROWS, width, z);
        assert_memory_equal(y, z, (size_t)(ROWS * width) * sizeof *y);
    }
}
/* verifies number-19.a725 */
TEST_ON_HOST(codes_are_the_nearest)

/* One element that is not finite makes its block NaN, and no other one; fp16 does not overflow. */
static void what_is_not_finite_is_found_on(kernel_device *on)
{
    static float x[MOST], y[MOST];
    static uint8_t packed[2 * MOST];
    for (uint32_t i = 0; i < 6; i++) {
        const bp_dtype type = (bp_dtype)(i % 3);
        fill_normal(x, MOST, 77 + i, 1.0);
        x[WIDTH + 130] = i < 3 ? INFINITY : -NAN;
        pack(on, type, x, ROWS, WIDTH, packed);
        unpack(on, type, packed, ROWS, WIDTH, y);
        for (int64_t k = 0; k < MOST; k++) {
            const bool bad = k >= WIDTH + 128 && k < WIDTH + 256;
            assert_int_equal(isfinite(y[k]) ? 0 : 1, bad ? 1 : 0);
            assert_true(!bad || isnan(y[k]));
        }
        round_in_place(on, type, x, ROWS, WIDTH);
        assert_true(isnan(x[WIDTH + 128]) && isfinite(x[WIDTH + 127]));
    }
    float wide[2] = {65504.0f, -65504.0f};
    round_in_place(on, BP_F16, wide, 1, 2);
    assert_true(wide[0] == 65504.0f && wide[1] == -65504.0f);
}
/* verifies number-19.a725 */
TEST_ON_HOST(what_is_not_finite_is_found)

/* Bytes: one for each element, and one for each 128 of a row; no sum of them wraps. */
/* verifies number-19.a725 */
static void bytes_are_counted(void **state)
{
    (void)state;
    assert_int_equal(bp_tape_bytes(1, 1), 2);
    assert_int_equal(bp_tape_bytes(5, 768), 5 * 774);
    assert_int_equal(bp_tape_bytes(2, 129), 2 * 131);
    assert_true(bp_tape_bytes(UINT64_MAX, 2) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_is_pytorchs),
        cmocka_unit_test(codes_are_the_nearest),
        cmocka_unit_test(what_is_not_finite_is_found),
        cmocka_unit_test(bytes_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
