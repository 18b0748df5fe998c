/* SPDX-License-Identifier: MIT */
/* What tests report of two images that differ (tests/fixtures/kernels/difference.h): places and
 * units in the last place, by the type of each operand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/devices.h"
#include "tests/fixtures/kernels/difference.h"

static kernel_case c;
static unsigned char *right;

static void make(bp_dtype dtype)
{
    const bp_copy_scalars s = {.count = 1000};
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)dtype, sizeof dtypes);
    kernel_case_init_typed(&c, &bp_device_host, BP_KERNEL_copy, &s, 1, 0, dtypes);
    memset(c.image, 0, c.image_bytes);
    right = kernel_case_save(&c);
}

static void done(void)
{
    free(right);
    kernel_case_free(&c);
}

static void put(unsigned char *image, uint64_t element, bp_dtype dtype, float value)
{
    const uint64_t at = c.offsets[OPERAND(copy, y)] + element * bp_dtype_bytes(dtype);
    store_elements(image + at, dtype, &value, 1);
}

static void places_and_units_are_found(void **state)
{
    static const struct {
        bp_dtype dtype;
        float step; /* of a number of the type that is 1 or above */
    } types[] = {{BP_F32, 0x1p-23f}, {BP_F16, 0x1p-10f}, {BP_BF16, 0x1p-7f}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const bp_dtype dtype = types[i].dtype;
        kernel_difference d;
        make(dtype);
        assert_true(kernel_case_same(&c, right, "equal"));
        put(right, 7, dtype, 1.0f);
        put(c.image, 7, dtype, 1.0f + 3 * types[i].step);
        put(c.image, 991, dtype, -0.0f); /* another bit, no distance */
        assert_false(kernel_case_same(&c, right, "three units"));
        kernel_case_compare(&c, right, OPERAND(copy, y), &d);
        assert_int_equal(d.elements, 1000);
        assert_int_equal(d.differing, 2);
        assert_int_equal(d.ulps, 3);
        assert_int_equal(d.place[0], 7);
        assert_int_equal(d.place[1], 991);
        assert_true(d.expected == 1.0);
        put(right, 8, dtype, -types[i].step); /* across 0 the numbers of both sides count */
        put(c.image, 8, dtype, types[i].step);
        kernel_case_compare(&c, right, OPERAND(copy, y), &d);
        assert_true(d.differing == 3 && d.ulps > 1000);
        kernel_case_compare(&c, right, OPERAND(copy, x), &d);
        assert_int_equal(d.differing, 0);
        done();
    }
}

static void a_number_that_is_none_has_no_distance(void **state)
{
    const uint32_t nans[] = {0x7fc00000, 0x7fc00001};
    kernel_difference d;
    (void)state;
    make(BP_F32);
    memcpy(c.image + c.offsets[OPERAND(copy, y)], &nans[0], 4);
    kernel_case_compare(&c, right, OPERAND(copy, y), &d);
    assert_true(d.differing == 1 && d.ulps == DIFFERENCE_NAN);
    memcpy(right + c.offsets[OPERAND(copy, y)], &nans[1], 4);
    kernel_case_compare(&c, right, OPERAND(copy, y), &d);
    assert_true(d.differing == 1 && d.ulps == 0);
    done();
}

static void bytes_beside_operands_count(void **state)
{
    (void)state;
    make(BP_F32);
    c.image[c.image_bytes - 1] ^= 1;
    assert_false(kernel_case_same(&c, right, "a guard"));
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_and_units_are_found),
        cmocka_unit_test(a_number_that_is_none_has_no_distance),
        cmocka_unit_test(bytes_beside_operands_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
