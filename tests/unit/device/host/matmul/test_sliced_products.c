/* SPDX-License-Identifier: MIT */
/* A product that goes on, in fp32, from what is there, for weights in codes, in every form of the
 * host: one chain of fused multiply-adds over the terms of all slices, bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "device/host/vector/half.h"
#include "device/host/host.h"
#include "device/host/isa_table.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define ARENA      (UINT64_C(8) << 20)
#define AT(c, arg) kernel_case_at((c), 0, OPERAND(matmul_quantised, arg))

enum { ROWS_MOST = 33, WIDTH_MOST = 320 };

static uint64_t dice;

static uint32_t draw(uint32_t below)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice >> 33) % below;
}

static float some_float(void)
{
    return (float)draw(2000) / 1000.0f - 1.0f;
}

/* Any codes, and scales of about 1. Of blocks of Q8_0 the first two bytes are a half. */
static void fill_weights(kernel_case *c, int64_t form)
{
    const bool packed = bp_quantised_packed(form);
    uint8_t *codes = AT(c, codes), *scales = AT(c, scales);
    float *nested = AT(c, nested);
    for (uint64_t i = 0; i < c->bytes[OPERAND(matmul_quantised, codes)]; i++) {
        codes[i] =
            packed && i % 34 < 2 ? (uint8_t)(i % 34 == 0 ? draw(256) : 0x20) : (uint8_t)draw(256);
    }
    for (uint64_t i = 0; !packed && i < c->bytes[OPERAND(matmul_quantised, scales)]; i++) {
        const float scale = some_float() + 1.5f;
        if (bp_quantised_nests(form)) {
            scales[i] = (uint8_t)draw(256);
        } else if (i % sizeof scale == 0) {
            memcpy(scales + i, &scale, sizeof scale);
        }
    }
    for (uint64_t i = 0; nested != NULL && i < c->bytes[OPERAND(matmul_quantised, nested)] / 4;
         i++) {
        nested[i] = some_float();
    }
}

/* Adds a slice of `terms` terms to sums and, as a chain of this test's own, to `right`. */
static void add_slice(kernel_device *on, const bp_matmul_quantised_scalars *s, bp_dtype working,
                      float *sums, float *right)
{
    const bool packed = bp_quantised_packed(s->form);
    uint32_t absent = UINT32_C(1) << OPERAND(matmul_quantised, before) |
                      UINT32_C(1) << OPERAND(matmul_quantised, bias) |
                      UINT32_C(1) << OPERAND(matmul_quantised, residual);
    absent |= packed ? UINT32_C(1) << OPERAND(matmul_quantised, scales) : 0;
    absent |= bp_quantised_nests(s->form) ? 0 : UINT32_C(1) << OPERAND(matmul_quantised, nested);
    uint8_t dtypes[BP_OPERANDS_MAX];
    kernel_case c;
    memset(dtypes, (int)working, sizeof dtypes);
    dtypes[OPERAND(matmul_quantised, c)] = BP_F32;
    kernel_case_init_typed(&c, on->device, BP_KERNEL_matmul_quantised, s, 1, absent, dtypes);
    fill_weights(&c, s->form);
    for (int64_t i = 0; i < s->m * s->lda; i++) {
        bp_element_store(AT(&c, a), (uint64_t)i, some_float(), working);
    }
    const bp_quantised_matrix weights = {.form = s->form,
                                         .columns = (uint64_t)s->n,
                                         .codes = AT(&c, codes),
                                         .scales = packed ? NULL : AT(&c, scales),
                                         .nested =
                                             bp_quantised_nests(s->form) ? AT(&c, nested) : NULL};
    for (int64_t i = 0; i < s->m * s->n; i++) {
        float sum = s->accumulate != 0 ? right[i] : 0.0f;
        for (int64_t k = 0; k < s->k; k++) {
            const float w = bp_quantised_value(&weights, (uint64_t)(k * s->n + i % s->n));
            sum = fmaf(bp_element_load(AT(&c, a), (uint64_t)(i / s->n * s->lda + k), working),
                       bp_element_round(w, working), sum);
        }
        right[i] = sum;
    }
    memcpy(AT(&c, c), sums, (size_t)(s->m * s->n) * sizeof *sums);
    kernel_case_run(&c, on);
    memcpy(sums, AT(&c, c), (size_t)(s->m * s->n) * sizeof *sums);
    kernel_case_free(&c);
}

static void compare_sums(kernel_device *on, int64_t form, bp_dtype working, int64_t m)
{
    static float sums[ROWS_MOST * WIDTH_MOST], right[ROWS_MOST * WIDTH_MOST];
    const int64_t terms[] = {64, 192, 1 + draw(70)};
    const int64_t n = WIDTH_MOST >> draw(2); /* whole blocks of all forms */
    memset(sums, 0, sizeof sums);
    for (uint32_t slice = 0; slice < sizeof terms / sizeof *terms; slice++) {
        const bp_matmul_quantised_scalars s = {.m = m,
                                               .n = n,
                                               .k = terms[slice],
                                               .lda = terms[slice] + draw(3),
                                               .ldc = n,
                                               .accumulate = slice > 0 ? 1 : 0,
                                               .form = form};
        add_slice(on, &s, working, sums, right);
    }
    assert_memory_equal(sums, right, (size_t)(m * n) * sizeof *sums);
}

/* verifies device-1.6909 compile-31.a51c */
static void sums_go_on(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_BF16, BP_F16};
    static const int64_t rows[] = {1, 2, ROWS_MOST};
    const int64_t forms[] = {BP_QUANTISED_NF4, BP_QUANTISED_NF4_DOUBLE, BP_QUANTISED_FP4,
                             BP_QUANTISED_INT8, BP_QUANTISED_BLOCKS + 8 /* Q8_0 */};
    for (uint32_t isa = 0; isa < BP_HOST_ISAS_ALL; isa++) {
        if (!bp_host_isa_runs(isa)) {
            continue;
        }
        kernel_device on;
        kernel_device_open(&on, &bp_device_host, bp_host_isa_name(isa), 1 + isa % 3, ARENA);
        for (uint32_t i = 0; i < 9 * sizeof forms / sizeof *forms; i++) {
            dice = i;
            compare_sums(&on, forms[i / 9], types[i % 3], rows[i / 3 % 3]);
        }
        kernel_device_close(&on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_go_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
