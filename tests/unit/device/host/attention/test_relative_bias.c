/* SPDX-License-Identifier: MIT */
/* Tables of distances: the bucket of each distance is the one that transformers' code computes with
 * torch in float, and a table's gradient is a loop's in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/kernel.h"
#include "tests/fixtures/kernels/kernel_case.h"

enum { LENGTH = 200, HEADS = 3, MOST = 64, SAMPLES = 2 };

/* The first distance of each bucket of a half; 0 ends them. */
static const struct {
    int64_t buckets;
    int64_t most;
    int64_t causal; /* all buckets are for keys up to their query */
    int32_t first[33];
} tables[] = {
    {32, 128, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}},
    {8, 128, 0, {0, 1, 2, 16}},
    {64, 128, 0, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                  16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}},
    {20, 50, 0, {0, 1, 2, 3, 4, 5, 8, 13, 20, 32}},
    {4, 7, 0, {0, 1}},
    {33, 100, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 21, 29, 39, 54, 73}},
    {32, 128, 1, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                  16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}},
    {8, 128, 1, {0, 1, 2, 3, 4, 10, 23, 54}},
    {20, 50, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 23, 27, 31, 37, 43}},
    {33, 100, 1, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                  18, 20, 23, 25, 28, 31, 35, 38, 43, 48, 53, 59, 65, 73, 81, 90}},
};
#define TABLES (sizeof tables / sizeof tables[0])

/* Of key j and query i. */
static int64_t right_bucket(size_t table, int64_t key, int64_t query)
{
    const bool causal = tables[table].causal != 0;
    const int64_t half = causal ? tables[table].buckets : tables[table].buckets / 2;
    const int64_t distance = causal && key > query ? 0 : llabs(key - query);
    int64_t bucket = 0;
    while (bucket + 1 < half && tables[table].first[bucket + 1] <= distance) {
        bucket++;
    }
    return key > query && !causal ? half + bucket : bucket;
}

static void run(bp_kernel kernel, const void *pointers, const void *scalars)
{
    const uint8_t dtypes[BP_OPERANDS_MAX] = {BP_F32};
    const bp_host_kernel *row = bp_host_portable.kernels[BP_F32][kernel];
    const bp_host_call call = {pointers, scalars, dtypes, NULL, NULL};
    const uint64_t tasks = row->tasks(scalars);
    for (uint64_t task = tasks; task-- > 0;) {
        row->run(&call, task, task + 1, 0);
    }
}

/* verifies number-20.3b00 */
static void a_distance_has_its_bucket(void **state)
{
    (void)state;
    for (size_t t = 0; t < TABLES; t++) {
        static float table[MOST * HEADS], bias[HEADS * 2 * LENGTH];
        const bp_relative_bias_scalars s = {LENGTH, HEADS, tables[t].buckets, tables[t].most,
                                            tables[t].causal};
        const bp_relative_bias_pointers p = {.bias = bias, .table = table};
        for (int32_t i = 0; i < MOST * HEADS; i++) {
            table[i] = (float)i;
        }
        run(BP_KERNEL_relative_bias, &p, &s);
        for (int64_t h = 0; h < HEADS; h++) {
            assert_true(bias[h * 2 * LENGTH] == 0.0f);
            for (int64_t c = 1; c < (int64_t)2 * LENGTH; c++) {
                const int64_t right = right_bucket(t, c, LENGTH) * HEADS + h;
                assert_int_equal((int64_t)bias[h * 2 * LENGTH + c], right);
            }
        }
    }
}

/* verifies number-20.3b00 */
static void a_table_gets_the_sums_of_its_distances(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2 * TABLES; t++) {
        static float d_table[MOST * HEADS], before[MOST * HEADS];
        static float d_bias[SAMPLES * HEADS * 2 * LENGTH];
        const int64_t buckets = tables[t / 2].buckets;
        const bp_relative_bias_backward_scalars s = {
            SAMPLES,         LENGTH, HEADS, buckets, tables[t / 2].most, tables[t / 2].causal,
            (int64_t)(t % 2)};
        const bp_relative_bias_backward_pointers p = {.d_table = d_table, .d_bias = d_bias};
        fill_normal(d_bias, sizeof d_bias / sizeof(float), 3 + t, 1.0);
        fill_normal(before, MOST * HEADS, 40 + t, 1.0);
        memcpy(d_table, before, sizeof before);
        run(BP_KERNEL_relative_bias_backward, &p, &s);
        for (int64_t place = 0; place < buckets * HEADS; place++) {
            double right = t % 2 != 0 ? (double)before[place] : 0.0;
            for (int64_t c = 1; c < (int64_t)2 * LENGTH; c++) {
                const bool its = right_bucket(t / 2, c, LENGTH) == place / HEADS;
                for (int64_t sample = 0; its && sample < SAMPLES; sample++) {
                    right += (double)d_bias[(sample * HEADS + place % HEADS) * 2 * LENGTH + c];
                }
            }
            assert_true(fabs((double)d_table[place] - right) < 1e-4);
        }
        assert_memory_equal(d_table + buckets * HEADS, before + buckets * HEADS,
                            (size_t)((MOST - buckets) * HEADS) * sizeof(float));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_distance_has_its_bucket),
        cmocka_unit_test(a_table_gets_the_sums_of_its_distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
