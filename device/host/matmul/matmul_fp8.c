/* SPDX-License-Identifier: MIT */
/* Matrix products of e4m3 numbers (kernels.def, matmul_fp8), with the sums that Hopper's tensor
 * cores make of them: a model in integers, which is the specification. */
#include <string.h>

#include "core/base/math_inline.h"
#include "core/ops/tape_element.h"
#include "device/host/kernel.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

#define TASK_ROWS    32
#define TASK_COLUMNS 64
#define STEP         32  /* terms that are summed at once */
#define PROMOTED     128 /* and after which the sum is added in single precision */
#define FRACTION     13  /* bits below the largest exponent that count */
#define NOTHING      (-128)

/* Rows of op(a), or columns of op(b), as codes: numbers of k terms, padded with zeros to whole
 * steps. A number is significand * 2^(exponent - 3). */
typedef struct fp8_lines {
    int8_t *significand; /* (lines, pitch): -15 .. 15 */
    int8_t *exponent;    /* -6 .. 8; of a zero it is not looked at */
    float *scale;        /* (lines) */
    size_t pitch;
} fp8_lines;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static uint64_t fp8_tasks(const void *scalars)
{
    const bp_matmul_fp8_scalars *s = scalars;
    return bp_cut(s->m, TASK_ROWS) * bp_cut(s->n, TASK_COLUMNS);
}

static uint64_t padded(int64_t k)
{
    return bp_size_align((uint64_t)k, STEP);
}

static uint64_t fp8_workspace(const void *scalars, const uint8_t *dtypes)
{
    (void)dtypes;
    const bp_matmul_fp8_scalars *s = scalars;
    const uint64_t lines = TASK_ROWS + TASK_COLUMNS;
    return bp_size_mul(lines, bp_size_add(bp_size_mul(2, padded(s->k)), sizeof(float)));
}

/* One line of an operand: `from` is its first element, `step` lies between its terms. */
typedef struct fp8_from {
    const void *at;
    size_t from;
    size_t step;
    bp_dtype type;
} fp8_from;

static void line_read(const fp8_lines *to, size_t line, const fp8_from *x, size_t k)
{
    uint32_t most = 0;
    for (size_t t = 0; t < k; t++) {
        const uint32_t bits = bp_tape_bits(bp_element_load(x->at, x->from + t * x->step, x->type));
        most = (bits & 0x7fffffffu) > most ? bits & 0x7fffffffu : most;
    }
    const uint32_t scale = bp_tape_scale(most);
    const float inverse = bp_tape_inverse(scale);
    int8_t *significand = to->significand + line * to->pitch;
    int8_t *exponent = to->exponent + line * to->pitch;
    memset(significand, 0, to->pitch);
    memset(exponent, 0, to->pitch);
    to->scale[line] =
        scale == BP_TAPE_NOT_FINITE ? bp_tape_float(0x7fc00000u) : bp_tape_float(scale << 23);
    for (size_t t = 0; t < k && scale != BP_TAPE_NOT_FINITE; t++) {
        const float value = bp_element_load(x->at, x->from + t * x->step, x->type);
        const uint32_t code = bp_tape_code(value * inverse), field = code >> 3 & 15u;
        const int32_t number = (int32_t)((code & 7u) | (field != 0 ? 8u : 0));
        significand[t] = (int8_t)((code & 0x80u) != 0 ? -number : number);
        exponent[t] = (int8_t)((field != 0 ? (int32_t)field : 1) - 7);
    }
}

/* magnitude * 2^(exponent - FRACTION), cut toward zero to FRACTION bits behind its first. */
static float cut_sum(uint32_t magnitude, int32_t exponent)
{
    uint32_t top = 0;
    while (magnitude >> (top + 1) != 0) {
        top++;
    }
    const uint32_t drop = top > FRACTION ? top - FRACTION : 0;
    const float whole = (float)(magnitude >> drop << drop);
    return whole * bp_tape_float((uint32_t)(exponent - FRACTION + 127) << 23);
}

/* What of a number that is `below` powers of two below the largest counts. */
static int32_t cut_term(int32_t value, int32_t below)
{
    const int32_t shift = below < 31 ? below : 31;
    return value < 0 ? -(-value >> shift) : value >> shift;
}

/* sum + the products of a step: every one of them, and the sum, cut toward zero to FRACTION bits
 * below the largest exponent among those that are not zero, and added exactly. */
static float step_add(const int8_t *a, const int8_t *a_exponent, const int8_t *b,
                      const int8_t *b_exponent, float sum)
{
    int32_t largest = NOTHING, total = 0, terms[STEP], exponents[STEP];
    const uint32_t bits = bp_tape_bits(sum);
    const int32_t field = (int32_t)(bits >> 23 & 0xffu);
    for (size_t t = 0; t < STEP; t++) {
        terms[t] = a[t] * b[t];
        exponents[t] = terms[t] != 0 ? a_exponent[t] + b_exponent[t] : NOTHING;
        largest = exponents[t] > largest ? exponents[t] : largest;
    }
    largest = field != 0 && field - 127 > largest ? field - 127 : largest;
    if (largest == NOTHING) {
        return sum;
    }
    for (size_t t = 0; t < STEP; t++) {
        total += cut_term(terms[t] * (1 << (FRACTION - 6)), largest - exponents[t]);
    }
    if (field != 0) { /* a sum has no more bits than count */
        const int32_t own = (int32_t)((bits & 0x7fffffu) | 0x800000u) >> (23 - FRACTION);
        total += cut_term((bits >> 31) != 0 ? -own : own, largest - (field - 127));
    }
    const float result = cut_sum((uint32_t)(total < 0 ? -total : total), largest);
    return total < 0 ? -result : result;
}

static float chain(const fp8_lines *a, size_t i, const fp8_lines *b, size_t j)
{
    const size_t from_a = i * a->pitch, from_b = j * b->pitch;
    float sum = 0.0f;
    for (size_t k = 0; k < a->pitch; k += PROMOTED) {
        float part = 0.0f;
        for (size_t t = k; t < least(a->pitch, k + PROMOTED); t += STEP) {
            part = step_add(a->significand + from_a + t, a->exponent + from_a + t,
                            b->significand + from_b + t, b->exponent + from_b + t, part);
        }
        sum += part;
    }
    return sum * a->scale[i] * b->scale[j];
}

/* One call, and the types of its operands: c's, and that of all others. */
typedef struct fp8_product {
    const bp_matmul_fp8_scalars *s;
    const bp_matmul_fp8_pointers *p;
    bp_dtype c;
    bp_dtype type;
} fp8_product;

/* What follows the sum, as in matmul. */
static void fp8_finish(const fp8_product *x, size_t row, size_t column, float value)
{
    const bp_matmul_fp8_pointers *p = x->p;
    const size_t place = row * (size_t)x->s->ldc + column;
    if (x->s->accumulate != 0) {
        value += bp_element_load(p->c, place, x->c);
    }
    if (p->bias != NULL) {
        value += bp_element_load(p->bias, column, x->type);
    }
    if (p->residual != NULL) {
        value += bp_element_load(p->residual, place, x->type);
    }
    if (p->before != NULL) {
        bp_element_store(p->before, place, value, x->type);
    }
    if (x->s->gelu != 0) {
        value = bp_gelu_inline(bp_element_round(value, x->type));
    }
    bp_element_store(p->c, place, value, x->c);
}

static fp8_lines lines_at(unsigned char *work, size_t lines, size_t pitch)
{
    fp8_lines to = {.pitch = pitch};
    to.scale = (float *)(void *)work;
    to.significand = (int8_t *)(work + lines * sizeof(float));
    to.exponent = to.significand + lines * pitch;
    return to;
}

/* A task is a block of c, whose lines are read first. */
static void fp8_block(const fp8_product *x, size_t row, size_t column, unsigned char *work)
{
    const bp_matmul_fp8_scalars *s = x->s;
    const size_t k = (size_t)s->k, pitch = (size_t)padded(s->k);
    const size_t rows = least((size_t)s->m - row, TASK_ROWS);
    const size_t columns = least((size_t)s->n - column, TASK_COLUMNS);
    const size_t lda = (size_t)s->lda, ldb = (size_t)s->ldb;
    const fp8_lines a = lines_at(work, TASK_ROWS, pitch);
    const size_t bytes_a = TASK_ROWS * (sizeof(float) + 2 * pitch);
    const fp8_lines b = lines_at(work + bytes_a, TASK_COLUMNS, pitch);
    for (size_t i = 0; i < rows; i++) {
        const bool transposed = s->transpose_a != 0;
        const fp8_from from = {x->p->a, (row + i) * (transposed ? 1 : lda), transposed ? lda : 1,
                               x->type};
        line_read(&a, i, &from, k);
    }
    for (size_t j = 0; j < columns; j++) {
        const bool transposed = s->transpose_b == 0;
        const fp8_from from = {x->p->b, (column + j) * (transposed ? 1 : ldb), transposed ? ldb : 1,
                               x->type};
        line_read(&b, j, &from, k);
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            fp8_finish(x, row + i, column + j, chain(&a, i, &b, j));
        }
    }
}

static void fp8_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const fp8_product x = {call->scalars, call->pointers, bp_call_type(call, 0),
                           bp_call_type(call, 2)};
    const size_t across = bp_cut(x.s->n, TASK_COLUMNS);
    const size_t bytes = (size_t)bp_size_align(fp8_workspace(x.s, NULL), 64);
    unsigned char *work = (unsigned char *)x.p->work + worker * bytes;
    for (size_t task = (size_t)first; task < last; task++) {
        fp8_block(&x, task / across * TASK_ROWS, task % across * TASK_COLUMNS, work);
    }
}

const bp_host_kernel bp_host_matmul_fp8 = {fp8_tasks, fp8_run, fp8_workspace};
