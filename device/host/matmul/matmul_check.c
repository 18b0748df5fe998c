/* SPDX-License-Identifier: MIT */
/* Signed sums of the columns of a product's blocks, and columns that are computed again. */
#include "device/host/matmul/matmul_check.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/base/math_inline.h"
#include "device/host/matmul/matmul_quantised.h"

#define UNIT          5.9604644775390625e-8 /* 2^-24: half of the last place of 1 */
#define SIGNS_AT_ONCE 64
#define SAMPLE_PANELS 64   /* panels to each element that is computed again in any case */
#define OWN_UNITS     64.0 /* what the rounding of the sums themselves may come to */
#define FEW_ROWS      2    /* wrong elements of a column at most whose rows are looked at */
#define LEVEL_MARGIN  1.25

uint64_t bp_matmul_check_bytes(bp_kernel kernel, const void *scalars)
{
    const bp_matmul_scalars s = kernel == BP_KERNEL_matmul_quantised
                                    ? bp_matmul_as_plain(scalars)
                                    : *(const bp_matmul_scalars *)scalars;
    if (s.m <= 0 || s.n <= 0 || s.k < 0) {
        return 0;
    }
    const uint64_t rows = (uint64_t)least(s.m, BP_MATMUL_CHECK_ROWS);
    const uint64_t columns = (uint64_t)least(s.n, BP_MATMUL_CHECK_COLUMNS);
    uint64_t floats = bp_size_add(rows, (uint64_t)s.k);
    floats = bp_size_add(floats, bp_size_mul(2, (uint64_t)s.n));
    floats = bp_size_add(floats, bp_size_mul(rows, columns));
    return bp_size_align(
        bp_size_add(sizeof(bp_host_check_found), bp_size_mul(floats, sizeof(float))),
        BP_MATMUL_WORK_ALIGNMENT);
}

void bp_matmul_check_open(matmul_work *w, matmul_check *check, const bp_host_check *given,
                          uint32_t worker)
{
    char *memory = (char *)given->memory + worker * given->bytes;
    const int64_t rows = least(w->s->m, BP_MATMUL_CHECK_ROWS);
    float *floats = (float *)(void *)(memory + sizeof(bp_host_check_found));
    *check = (matmul_check){.given = given,
                            .found = (void *)memory,
                            .signs = floats,
                            .terms = floats + rows,
                            .pitch = least(w->s->n, BP_MATMUL_CHECK_COLUMNS)};
    check->made = check->terms + w->s->k;
    check->right = check->made + w->s->n;
    check->before = check->right + w->s->n;
    check->keeps = w->s->accumulate != 0 || w->residual == w->c;
    w->check = check;
}

/* A number that depends on all bits of x (Steele, Lea and Flood's SplitMix). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static const void *c_at(const matmul_work *w, int64_t row, int64_t column)
{
    return bp_element_at(w->c, row * w->s->ldc + column, w->c_type);
}

void bp_matmul_check_begin(const matmul_work *w, const matmul_block *block)
{
    matmul_check *check = w->check;
    uint64_t bits = 0;
    check->all = 0.0;
    for (int64_t i = 0; i < block->rows; i++) {
        if (i % SIGNS_AT_ONCE == 0) {
            bits = mix(check->given->key ^ (uint64_t)(block->row + i));
        }
        check->signs[i] = (bits >> i % SIGNS_AT_ONCE & 1) != 0 ? 1.0f : -1.0f;
        check->all += (double)check->signs[i];
    }
    memset(check->made, 0, (size_t)block->columns * sizeof(float));
    memset(check->right, 0, (size_t)block->columns * sizeof(float));
    for (int64_t i = 0; check->keeps && i < block->rows; i++) {
        memcpy((char *)check->before + i * check->pitch * (int64_t)bp_dtype_bytes(w->c_type),
               c_at(w, block->row + i, block->column),
               (size_t)block->columns * bp_dtype_bytes(w->c_type));
    }
}

void bp_matmul_check_depth(const matmul_work *w, const matmul_block *block)
{
    const bp_matmul_scalars *s = w->s;
    const bool along_k = s->transpose_a == 0;
    const int64_t at =
        along_k ? block->row * s->lda + block->term : block->term * s->lda + block->row;
    memset(w->check->terms, 0, (size_t)block->terms * sizeof(float));
    (along_k ? w->form->sum : w->form->sum_transposed)(w->check->terms, w->check->signs,
                                                       bp_element_at(w->a, at, w->type), s->lda,
                                                       block->rows, block->terms, w->type);
}

void bp_matmul_check_panel(const matmul_work *w, const matmul_block *part, const int64_t columns[2],
                           int64_t first_term, bool starts, bool ends)
{
    const matmul_check *check = w->check;
    const bp_matmul_isa *form = w->form;
    const bp_matmul_scalars *s = w->s;
    const int64_t column = columns[0], count = columns[1], to = column - part->column;
    const float *terms = check->terms + (part->term - first_term);
    float *right = check->right + to;
    if (w->weights != NULL) {
        form->sum(right, terms, w->panel, form->columns, part->terms, count, BP_F32);
    } else {
        (s->transpose_b == 0 ? form->sum : form->sum_transposed)(
            right, terms, place_b(w, part->term, column), s->ldb, part->terms, count, w->type);
    }
    if (starts && s->accumulate != 0) {
        form->sum(right, check->signs, c_at(w, part->row, column), s->ldc, part->rows, count,
                  w->c_type);
    }
    if (ends && w->residual != NULL) {
        form->sum(right, check->signs,
                  bp_element_at(w->residual, part->row * s->ldc + column, w->type), s->ldc,
                  part->rows, count, w->type);
    }
}

void bp_matmul_check_stored(const matmul_work *w, const matmul_block *part,
                            const int64_t columns[2])
{
    const float *from = w->s->gelu != 0 ? w->before : w->c;
    w->form->sum(w->check->made + (columns[0] - part->column), w->check->signs,
                 from + part->row * w->s->ldc + columns[0], w->s->ldc, part->rows, columns[1],
                 BP_F32);
}

void bp_matmul_check_tile(const matmul_work *w, const matmul_block *block, const int64_t at[2],
                          const bp_matmul_tile *tile)
{
    w->form->sum(w->check->made + (at[1] - block->column), w->check->signs + (at[0] - block->row),
                 tile->to, tile->to_pitch, tile->rows, tile->columns, BP_F32);
}

/* An element of c computed again. */
typedef struct check_element {
    float c;
    float before;
    double rounding; /* of all that came before GELU, */
    bool excluded;   /* which can't be so much */
} check_element;

static float element_of_b(const matmul_work *w, int64_t term, int64_t column)
{
    const int64_t at =
        w->s->transpose_b != 0 ? column * w->s->ldb + term : term * w->s->ldb + column;
    return w->weights != NULL
               ? bp_element_round(bp_quantised_value(w->weights, (uint64_t)at), w->type)
               : bp_element_load(w->b, (uint64_t)at, w->type);
}

/* The element as the portable form has it, from what was in its place. */
static check_element compute(const matmul_work *w, int64_t row, int64_t column, float old)
{
    const bp_matmul_scalars *s = w->s;
    const int64_t step = s->transpose_a != 0 ? s->lda : 1;
    const int64_t a = s->transpose_a != 0 ? row : row * s->lda;
    float sum = s->accumulate != 0 ? old : 0.0f;
    double exact = (double)sum, size = fabs(exact);
    for (int64_t k = 0; k < s->k; k++) {
        const float x = bp_element_load(w->a, (uint64_t)(a + k * step), w->type);
        const float y = element_of_b(w, k, column);
        const double product = (double)x * (double)y;
        sum = fmaf(x, y, sum);
        exact += product;
        size += fabs(product);
    }
    const double off = fabs((double)sum - exact);
    check_element to = {.excluded =
                            isfinite(sum) &&
                            !(off <= size * UNIT * 2.0 * (double)(s->k + 2) + (double)FLT_MIN)};
    if (w->bias != NULL) {
        const float bias = bp_element_load(w->bias, (uint64_t)column, w->type);
        sum += bias;
        exact += (double)bias;
    }
    if (w->residual != NULL) {
        const float other =
            w->residual == w->c
                ? old
                : bp_element_load(w->residual, (uint64_t)(row * s->ldc + column), w->type);
        sum += other;
        exact += (double)other;
    }
    to.rounding = (double)sum - exact;
    to.before = sum;
    to.c = s->gelu != 0 ? bp_gelu_inline(bp_element_round(sum, w->type)) : sum;
    return to;
}

/* Whether an element of x has the value's bits. */
static bool holds(const void *x, int64_t at, float value, bp_dtype type)
{
    uint32_t one = 0;
    bp_element_store(&one, 0, value, type);
    return memcmp(&one, bp_element_at(x, at, type), bp_dtype_bytes(type)) == 0;
}

static float old_value(const matmul_work *w, const matmul_block *block, int64_t row, int64_t column)
{
    const matmul_check *check = w->check;
    const int64_t at = (row - block->row) * check->pitch + (column - block->column);
    return check->keeps ? bp_element_load(check->before, (uint64_t)at, w->c_type) : 0.0f;
}

/* Computes an element again, and, if it is not there, once more: what comes out twice is stored. */
static bool again(const matmul_work *w, const matmul_block *block, const int64_t at[2],
                  double *rounding)
{
    const int64_t place = at[0] * w->s->ldc + at[1];
    const float old = old_value(w, block, at[0], at[1]);
    const check_element one = compute(w, at[0], at[1], old);
    bp_host_check_found *found = w->check->found;
    *rounding = one.rounding;
    found->damaged |= one.excluded ? 1u : 0u;
    if (holds(w->c, place, one.c, w->c_type) &&
        (w->before == NULL || holds(w->before, place, one.before, w->type))) {
        return true;
    }
    const check_element two = compute(w, at[0], at[1], old);
    bp_element_store(w->c, (uint64_t)place, two.c, w->c_type);
    if (w->before != NULL) {
        bp_element_store(w->before, (uint64_t)place, two.before, w->type);
    }
    found->damaged |= holds(w->c, place, one.c, w->c_type) ? 0u : 1u;
    found->wrong++;
    return false;
}

/* The sum of a column of what is stored now. */
static void sum_again(const matmul_work *w, const matmul_block *block, int64_t column)
{
    const float *from =
        (const float *)(w->s->gelu != 0 ? w->before : w->c) + block->row * w->s->ldc + column;
    double sum = 0.0;
    for (int64_t i = 0; i < block->rows; i++) {
        sum += (double)w->check->signs[i] * (double)from[i * w->s->ldc];
    }
    w->check->made[column - block->column] = (float)sum;
}

/* All of a row of the block: what was wrong with one element may have been wrong with what the row
 * is made of. */
static void check_row(const matmul_work *w, const matmul_block *block, int64_t row)
{
    for (int64_t j = 0; j < block->columns; j++) {
        double unused;
        const int64_t at[2] = {row, block->column + j};
        if (!again(w, block, at, &unused) && bp_matmul_check_late(w)) {
            sum_again(w, block, at[1]);
        }
    }
}

/* A column whose sums differ by so many units. One that is right, and whose own rounding explains
 * the difference, lifts the limit. */
static void check_column(const matmul_work *w, const matmul_block *block, int64_t column,
                         double unit, double units)
{
    bp_host_check_found *found = w->check->found;
    double rounding = 0.0;
    int64_t wrong[FEW_ROWS], count = 0;
    for (int64_t i = 0; i < block->rows; i++) {
        double one;
        if (!again(w, block, (const int64_t[2]){block->row + i, column}, &one)) {
            wrong[count % FEW_ROWS] = block->row + i;
            count++;
        }
        rounding += (double)w->check->signs[i] * one;
    }
    found->columns++;
    for (int64_t i = 0; i < count && count <= FEW_ROWS; i++) {
        check_row(w, block, wrong[i]);
    }
    if (count > 0) {
        return;
    }
    const double explained = fabs(rounding) / unit;
    if (units <= OWN_UNITS * (explained > 1.0 ? explained : 1.0)) {
        const float level = (float)(units * LEVEL_MARGIN);
        found->level = level > found->level ? level : found->level;
    } else {
        found->own++;
    }
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The columns of a panel, whose sums have a common size. What read an infinity or no number at all
 * has no sums. */
static void check_columns(const matmul_work *w, const matmul_block *block, int64_t first,
                          int64_t count)
{
    const matmul_check *check = w->check;
    const float *right = check->right + first, *made = check->made + first;
    const double level = larger((double)check->given->level, (double)check->found->level);
    const double rounding = UNIT * sqrt((double)(w->s->k + block->rows));
    double size = 0.0;
    for (int64_t j = 0; j < count; j++) {
        size += (double)right[j] * (double)right[j];
    }
    size = isfinite(size) ? sqrt(size / (double)count) : 0.0;
    for (int64_t j = 0; j < count; j++) {
        const int64_t column = block->column + first + j;
        const double bias =
            w->bias != NULL ? (double)bp_element_load(w->bias, (uint64_t)column, w->type) : 0.0;
        const double a = (double)made[j], b = (double)right[j] + check->all * bias;
        const double off = fabs(a - b);
        const double unit = rounding * larger(larger(fabs(b), fabs(a)), size);
        if (isfinite(b) && !(isfinite(a) && off <= level * unit)) {
            check_column(w, block, column, unit, off / unit);
        }
    }
}

void bp_matmul_check_end(const matmul_work *w, const matmul_block *block)
{
    const int64_t step = w->form->columns;
    const uint64_t samples = (uint64_t)(block->columns / (step * SAMPLE_PANELS)) + 1;
    uint64_t key =
        mix(w->check->given->key ^ ((uint64_t)block->row << 32) ^ (uint64_t)block->column);
    for (int64_t j = 0; j < block->columns; j += step) {
        check_columns(w, block, j, least(step, block->columns - j));
    }
    for (uint64_t i = 0; i < samples; i++) {
        double unused;
        key = mix(key);
        const int64_t row = block->row + (int64_t)((key >> 32) % (uint64_t)block->rows);
        const int64_t column = block->column + (int64_t)((uint32_t)key % (uint64_t)block->columns);
        if (!again(w, block, (const int64_t[2]){row, column}, &unused)) {
            check_row(w, block, row);
            check_column(w, block, column, 1.0, (double)INFINITY);
        }
    }
}
