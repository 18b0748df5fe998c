/* SPDX-License-Identifier: MIT */
/* Products with packed weights, of every type, shape of use and form: a plain chain over the values
 * that the blocks stand for, bit for bit. */
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
#include "tests/fixtures/share.h"

#define ARENA      (UINT64_C(8) << 20)
#define AT(c, arg) kernel_case_at((c), 0, OPERAND(matmul_quantised, arg))

static uint64_t dice;

static uint32_t draw(uint32_t below)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(dice >> 33) % below;
}

/* Any codes under scales that are no larger than about 1. */
static void fill_codes(uint8_t *codes, uint64_t bytes, const bp_packed_type *type)
{
    float values[BP_PACKED_ELEMENTS];
    for (uint64_t at = 0; at < bytes; at += type->bytes) {
        bool fits = false;
        while (!fits) {
            for (uint32_t i = 0; i < type->bytes; i++) {
                codes[at + i] = (uint8_t)draw(256);
            }
            bp_packed_values(type, codes + at, 0, type->elements, values);
            fits = true;
            for (uint32_t i = 0; i < type->elements; i++) {
                fits = fits && fabsf(values[i]) < 60.0f;
            }
        }
    }
}

static void fill_case(kernel_case *c, const bp_packed_type *type)
{
    const bp_matmul_quantised_scalars *s = (const void *)c->scalars;
    const bp_dtype working = (bp_dtype)c->dtypes[OPERAND(matmul_quantised, a)];
    fill_codes(AT(c, codes), c->bytes[OPERAND(matmul_quantised, codes)], type);
    for (int64_t i = 0; i < s->m * s->lda; i++) {
        bp_element_store(AT(c, a), (uint64_t)i, (float)draw(2000) / 1000.0f - 1.0f, working);
    }
    for (int64_t i = 0; i < s->n; i++) {
        bp_element_store(AT(c, bias), (uint64_t)i, (float)draw(2000) / 1000.0f - 1.0f, working);
    }
}

static void compare_case(const kernel_case *c, const bp_packed_type *type)
{
    const bp_matmul_quantised_scalars *s = (const void *)c->scalars;
    const bp_dtype working = (bp_dtype)c->dtypes[OPERAND(matmul_quantised, a)];
    const uint8_t *codes = AT(c, codes);
    const uint64_t count = (uint64_t)(s->n * s->k);
    float *weights = malloc(count * sizeof *weights);
    assert_non_null(weights);
    bp_packed_values(type, codes, 0, count, weights);
    for (int64_t i = 0; i < s->m; i++) {
        for (int64_t j = 0; j < s->n; j++) {
            float sum = 0.0f;
            for (int64_t k = 0; k < s->k; k++) {
                const int64_t at = s->transpose_b != 0 ? j * s->k + k : k * s->n + j;
                sum = fmaf(bp_element_load(AT(c, a), (uint64_t)(i * s->lda + k), working),
                           bp_element_round(weights[at], working), sum);
            }
            sum += bp_element_load(AT(c, bias), (uint64_t)j, working);
            const uint64_t place = (uint64_t)(i * s->ldc + j);
            const float got = bp_element_load(AT(c, c), place, working);
            const float right = bp_element_round(sum, working);
            if (memcmp(&got, &right, sizeof got) != 0) {
                fail_msg("%s m %d n %d k %d transposed %d type %d: %.9g, not %.9g", type->name,
                         (int)s->m, (int)s->n, (int)s->k, (int)s->transpose_b, (int)working,
                         (double)got, (double)right);
            }
        }
    }
    free(weights);
}

static void run_case(const bp_packed_type *type, kernel_device *on, bp_dtype working, int64_t m,
                     int64_t other)
{
    const int64_t width = (int64_t)type->elements * (1 + (int64_t)draw(2)); /* of a row */
    const int64_t turn = draw(2);
    const bp_matmul_quantised_scalars s = {.m = m,
                                           .n = turn != 0 ? other : width,
                                           .k = turn != 0 ? width : other,
                                           .lda = (turn != 0 ? width : other) + draw(3),
                                           .ldc = (turn != 0 ? other : width) + draw(3),
                                           .transpose_b = turn,
                                           .form = BP_QUANTISED_BLOCKS + (int64_t)type->type};
    const uint32_t absent = UINT32_C(1) << OPERAND(matmul_quantised, before) |
                            UINT32_C(1) << OPERAND(matmul_quantised, scales) |
                            UINT32_C(1) << OPERAND(matmul_quantised, nested) |
                            UINT32_C(1) << OPERAND(matmul_quantised, residual);
    uint8_t dtypes[BP_OPERANDS_MAX];
    kernel_case c;
    memset(dtypes, (int)working, sizeof dtypes);
    kernel_case_init_typed(&c, on->device, BP_KERNEL_matmul_quantised, &s, 1, absent, dtypes);
    fill_case(&c, type);
    kernel_case_run(&c, on);
    compare_case(&c, type);
    kernel_case_free(&c);
}

/* verifies device-1.6909 */
static void every_type_and_form(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_BF16, BP_F16};
    static const int64_t rows[] = {1, 1, 5, 33};
    for (uint32_t isa = 0; isa < BP_HOST_ISAS_ALL; isa++) {
        if (!bp_host_isa_runs(isa)) {
            continue;
        }
        kernel_device on;
        kernel_device_open(&on, &bp_device_host, bp_host_isa_name(isa), 1 + isa % 3, ARENA);
        for (uint64_t number = 0; number < 64; number++) {
            const bp_packed_type *type = bp_packed_of(number);
            dice = number;
            const uint32_t step = long_or(1, 2); /* or by turns: each type in half of the shapes */
            for (uint32_t i = (isa + (uint32_t)number) % step; type != NULL && i < 3 * 4;
                 i += step) {
                run_case(type, &on, types[i % 3], rows[i / 3], 1 + draw(70));
            }
        }
        kernel_device_close(&on);
    }
}

#define E(c, arg) kernel_case_at((c), 0, OPERAND(matmul_experts_quantised, arg))

enum { EXPERTS = 3, TOP = 2 };

/* Each token's experts: the first two of three, or the last two, so that each has some rows. */
static void fill_order(int32_t *order, int64_t tokens)
{
    const int64_t choices = tokens * TOP;
    int32_t *of = order + EXPERTS + 1, *rows = of + choices, row = 0;
    for (int32_t e = 0; e < EXPERTS; e++) {
        order[e] = row;
        for (int64_t i = 0; i < choices; i++) {
            if (i / TOP % 2 + i % TOP == e) {
                of[row] = (int32_t)i;
                rows[i] = row++;
            }
        }
    }
    order[EXPERTS] = row;
}

static float expert_product(const kernel_case *c, const float *weights, int64_t row, int64_t column)
{
    const bp_matmul_experts_quantised_scalars *s = (const void *)c->scalars;
    const bp_dtype working = (bp_dtype)c->dtypes[OPERAND(matmul_experts_quantised, a)];
    float sum = 0.0f;
    for (int64_t k = 0; k < s->k; k++) {
        const int64_t at = s->transpose_b != 0 ? column * s->k + k : k * s->n + column;
        sum = fmaf(bp_element_load(E(c, a), (uint64_t)(row * s->k + k), working),
                   bp_element_round(weights[at], working), sum);
    }
    return bp_element_round(sum, working);
}

static void compare_experts(const kernel_case *c, const bp_packed_type *type)
{
    const bp_matmul_experts_quantised_scalars *s = (const void *)c->scalars;
    const bp_dtype working = (bp_dtype)c->dtypes[OPERAND(matmul_experts_quantised, a)];
    const int32_t *order = E(c, order);
    const uint64_t count = (uint64_t)(s->n * s->k);
    float *weights = malloc(count * sizeof *weights);
    assert_non_null(weights);
    for (uint64_t e = 0; e < EXPERTS; e++) {
        const uint8_t *codes = E(c, codes);
        bp_packed_values(type, codes, e * count, count, weights);
        for (int64_t i = order[e] * s->n; i < order[e + 1] * s->n; i++) {
            const float got = bp_element_load(E(c, c), (uint64_t)i, working);
            const float right = expert_product(c, weights, i / s->n, i % s->n);
            if (memcmp(&got, &right, sizeof got) != 0) {
                fail_msg("%s tokens %d n %d k %d transposed %d type %d: %.9g, not %.9g", type->name,
                         (int)s->rows, (int)s->n, (int)s->k, (int)s->transpose_b, (int)working,
                         (double)got, (double)right);
            }
        }
    }
    free(weights);
}

static void run_experts(const bp_packed_type *type, kernel_device *on, bp_dtype working,
                        int64_t tokens, int64_t other)
{
    const int64_t width = (int64_t)type->elements * (1 + (int64_t)draw(2));
    const int64_t turn = draw(2);
    const bp_matmul_experts_quantised_scalars s = {.rows = tokens,
                                                   .top = TOP,
                                                   .experts = EXPERTS,
                                                   .n = turn != 0 ? other : width,
                                                   .k = turn != 0 ? width : other,
                                                   .transpose_b = turn,
                                                   .form =
                                                       BP_QUANTISED_BLOCKS + (int64_t)type->type};
    const uint32_t absent = UINT32_C(1) << OPERAND(matmul_experts_quantised, scales) |
                            UINT32_C(1) << OPERAND(matmul_experts_quantised, nested) |
                            UINT32_C(1) << OPERAND(matmul_experts_quantised, residual);
    uint8_t dtypes[BP_OPERANDS_MAX];
    kernel_case c;
    memset(dtypes, (int)working, sizeof dtypes);
    kernel_case_init_typed(&c, on->device, BP_KERNEL_matmul_experts_quantised, &s, 1, absent,
                           dtypes);
    fill_codes(E(&c, codes), c.bytes[OPERAND(matmul_experts_quantised, codes)], type);
    fill_order(E(&c, order), tokens);
    for (int64_t i = 0; i < tokens * TOP * s.k; i++) {
        bp_element_store(E(&c, a), (uint64_t)i, (float)draw(2000) / 1000.0f - 1.0f, working);
    }
    kernel_case_run(&c, on);
    compare_experts(&c, type);
    kernel_case_free(&c);
}

/* verifies device-3.0681 */
static void experts_of_every_type_and_form(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F32, BP_BF16, BP_F16};
    static const int64_t tokens[] = {1, 2, 5, 40};
    for (uint32_t isa = 0; isa < BP_HOST_ISAS_ALL; isa++) {
        if (!bp_host_isa_runs(isa)) {
            continue;
        }
        kernel_device on;
        kernel_device_open(&on, &bp_device_host, bp_host_isa_name(isa), 1 + isa % 3, ARENA);
        for (uint64_t number = 0; number < 64; number++) {
            const bp_packed_type *type = bp_packed_of(number);
            dice = 100 + number;
            const uint32_t step = long_or(1, 2); /* or by turns: each type in half of the shapes */
            for (uint32_t i = (isa + (uint32_t)number) % step; type != NULL && i < 3 * 4;
                 i += step) {
                run_experts(type, &on, types[i % 3], tokens[i / 3], 1 + draw(300));
            }
        }
        kernel_device_close(&on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type_and_form),
                                       cmocka_unit_test(experts_of_every_type_and_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
