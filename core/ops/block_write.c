/* SPDX-License-Identifier: MIT */
/* Floats to blocks. */
#include "core/ops/block_write.h"

#include <math.h>
#include <string.h>

#include "core/base/dtype.h"

enum { GROUP = BP_PACKED_GROUP, LARGE = BP_PACKED_ELEMENTS, GROUPS = LARGE / GROUP };

/* ---- Blocks of one group: a step from the largest value, or from the range ---- */

static void packed_half(uint8_t *to, float value)
{
    const uint16_t bits = bp_f16_from_f32(value);
    to[0] = (uint8_t)(bits & 255);
    to[1] = (uint8_t)(bits >> 8);
}

/* Codes of four bits, and a fifth one each where `high` is given. */
static void put_small(const int code[GROUP], uint8_t *high, uint8_t *codes)
{
    for (int j = 0; j < GROUP / 2; j++) {
        codes[j] = (uint8_t)((code[j] & 15) | (code[j + GROUP / 2] & 15) << 4);
    }
    for (int i = 0; high != NULL && i < GROUP / 8; i++) {
        high[i] = 0;
        for (int j = 0; j < 8; j++) {
            high[i] = (uint8_t)(high[i] | (code[8 * i + j] >> 4) << j);
        }
    }
}

static float inverse_of(float step)
{
    const float inverse = 1.0f / step;
    return step == 0.0f || isinf(inverse) ? 0.0f : inverse; /* such a step is 0 in half, too */
}

static int cut(float x, int most)
{
    return (int)x < most ? (int)x : most;
}

/* The value of the largest magnitude, the first of equals, becomes the least code. */
static void write_even(const float *values, int middle, uint8_t *high, uint8_t *block,
                       uint8_t *codes)
{
    float largest = 0.0f;
    int code[GROUP];
    for (int j = 0; j < GROUP; j++) {
        largest = fabsf(values[j]) > fabsf(largest) ? values[j] : largest;
    }
    const float step = largest / (float)-middle, inverse = inverse_of(step);
    for (int j = 0; j < GROUP; j++) {
        const float x = values[j] * inverse;
        code[j] = cut(x + ((float)middle + 0.5f), 2 * middle - 1);
    }
    packed_half(block, step);
    put_small(code, high, codes);
}

/* Codes count steps from the least value. */
static void write_from(const float *values, int most, uint8_t *high, uint8_t *block, uint8_t *codes)
{
    float low = values[0], top = values[0];
    int code[GROUP];
    for (int j = 1; j < GROUP; j++) {
        low = values[j] < low ? values[j] : low;
        top = values[j] > top ? values[j] : top;
    }
    const float step = (top - low) / (float)most, inverse = inverse_of(step);
    for (int j = 0; j < GROUP; j++) {
        const float x = (values[j] - low) * inverse;
        code[j] = cut(x + 0.5f, most);
    }
    packed_half(block, step);
    packed_half(block + 2, low);
    put_small(code, high, codes);
}

static void write_q4_0(const float *values, uint8_t *block)
{
    write_even(values, 8, NULL, block, block + 2);
}

static void write_q4_1(const float *values, uint8_t *block)
{
    write_from(values, 15, NULL, block, block + 4);
}

static void write_q5_0(const float *values, uint8_t *block)
{
    write_even(values, 16, block + 2, block, block + 6);
}

static void write_q5_1(const float *values, uint8_t *block)
{
    write_from(values, 31, block + 4, block, block + 8);
}

static void write_q8_0(const float *values, uint8_t *block)
{
    float largest = 0.0f;
    for (int j = 0; j < GROUP; j++) {
        largest = fabsf(values[j]) > largest ? fabsf(values[j]) : largest;
    }
    const float step = largest / 127.0f, inverse = inverse_of(step);
    packed_half(block, step);
    for (int j = 0; j < GROUP; j++) {
        block[2 + j] = (uint8_t)(int8_t)roundf(values[j] * inverse);
    }
}

/* The power of two that puts the largest magnitude below 8, of which e2m1 has the numbers to 6, and
 * of each element the nearest of these. */
static void write_mxfp4(const float *values, uint8_t *block)
{
    float largest = 0.0f, read[GROUP];
    uint32_t bits;
    for (int j = 0; j < GROUP; j++) {
        largest = fabsf(values[j]) > largest ? fabsf(values[j]) : largest;
    }
    memcpy(&bits, &largest, sizeof bits);
    const uint32_t exponent = bits >> 23; /* largest = 1 .. 2 times 2^(exponent - 127) */
    block[0] = (uint8_t)(exponent > 2 ? exponent - 2 : 0);
    for (uint32_t j = 0; j < GROUP / 2; j++) {
        block[1 + j] = (uint8_t)(j | j << 4);
    }
    bp_packed_of(39)->read(block, 0, read); /* elements 0 to 15 are the sixteen numbers */
    for (int j = 0; j < GROUP; j++) {
        int best = 0;
        for (int code = 1; code < 16; code++) {
            best = fabsf(read[code] - values[j]) < fabsf(read[best] - values[j]) ? code : best;
        }
        block[1 + j % 16] =
            (uint8_t)(j < 16 ? (block[1 + j] & 0xf0) | best : (block[1 + j % 16] & 15) | best << 4);
    }
}

/* ---- Blocks of 256 elements: steps of groups that are chosen by weighted squares ----
 *
 * A group's codes q, step s and offset t make  x = s q - t  (t 0 for Q6_K). For some steps close to
 * the one of the range, the codes are rounded; then s and t are the least weighted squares of these
 * codes in closed form; the best of all is kept. Steps of groups are counted in 63rds or 128ths of
 * the largest, which is in half precision, and the codes are rounded anew with what that leaves.
 * Each operation is rounded to f32, and sums run in the order of the elements: ggml's bytes as it
 * is built without fused multiplication and addition. */

/* To nearest, ties to even; what is beyond any code stays so, and NaN is the least. */
static int nearest(float x)
{
    return (int)rintf(x > -1e6f ? (x < 1e6f ? x : 1e6f) : -1e6f);
}

static int within(int code, int least, int most)
{
    return code < least ? least : code > most ? most : code;
}

typedef struct group_fit {
    float step, below; /* x = step q - below */
    int code[GROUP];
} group_fit;

/* Which steps are tried: (most + first + i / 10) codes over the range, i of 0 .. tries - 1. */
typedef struct search {
    int most; /* code */
    float first;
    int tries;
} search;

static float squares(const float *x, const float *weight, const int *code, float step, float least)
{
    float error = 0.0f;
    for (int j = 0; j < GROUP; j++) {
        const float off = step * (float)code[j] + least - x[j];
        error += weight[j] * (off * off);
    }
    return error;
}

typedef struct range_sums {
    float least, weight, x; /* code 0; of the elements: sums of w and w x */
} range_sums;

/* One try: codes with `inverse` codes per unit, and the step and least value that are best for
 * them. False: the codes are all equal. */
static bool fit_codes(const float *x, const float *weight, const range_sums *sums, float inverse,
                      int most, int code[GROUP], float *step, float *least)
{
    float q1 = 0.0f, q2 = 0.0f, qx = 0.0f;
    for (int j = 0; j < GROUP; j++) {
        code[j] = within(nearest(inverse * (x[j] - sums->least)), 0, most);
        const float part = weight[j] * (float)code[j];
        q1 += part;
        q2 += part * (float)code[j];
        qx += part * x[j];
    }
    const float determinant = sums->weight * q2 - q1 * q1;
    if (!(determinant > 0.0f)) {
        return false;
    }
    *step = (sums->weight * qx - sums->x * q1) / determinant;
    *least = (q2 * sums->x - q1 * qx) / determinant;
    if (*least > 0.0f) { /* offsets are subtracted, never added */
        *least = 0.0f;
        *step = qx / q2;
    }
    return true;
}

static void fit_from(const float *x, const search *how, group_fit *fit)
{
    float weight[GROUP], total = 0.0f;
    for (int j = 0; j < GROUP; j++) {
        total += x[j] * x[j];
    }
    const float typical = sqrtf(total / (float)GROUP);
    range_sums sums = {.least = x[0]};
    float top = x[0];
    for (int j = 0; j < GROUP; j++) {
        weight[j] = typical + fabsf(x[j]);
        sums.least = x[j] < sums.least ? x[j] : sums.least;
        top = x[j] > top ? x[j] : top;
        sums.weight += weight[j];
        sums.x += weight[j] * x[j];
    }
    sums.least = sums.least > 0.0f ? 0.0f : sums.least;
    *fit = (group_fit){.below = -sums.least};
    if (top == sums.least) {
        return;
    }
    const float inverse = (float)how->most / (top - sums.least);
    for (int j = 0; j < GROUP; j++) {
        fit->code[j] = within(nearest(inverse * (x[j] - sums.least)), 0, how->most);
    }
    fit->step = 1.0f / inverse;
    float best = squares(x, weight, fit->code, fit->step, sums.least);
    for (int i = 0; i < how->tries; i++) {
        group_fit other;
        float least;
        const float tried = (how->first + 0.1f * (float)i + (float)how->most) / (top - sums.least);
        if (fit_codes(x, weight, &sums, tried, how->most, other.code, &other.step, &least)) {
            const float error = squares(x, weight, other.code, other.step, least);
            if (error < best) {
                best = error;
                other.below = -least;
                *fit = other;
                sums.least = least; /* later tries begin here */
            }
        }
    }
}

/* Step and offset number i of six bits each, where blocks.c reads them; the bytes begin as 0. */
static void put_six_bits(uint8_t *scales, int i, int step, int below)
{
    if (i < 4) {
        scales[i] = (uint8_t)step;
        scales[i + 4] = (uint8_t)below;
    } else {
        scales[i + 4] = (uint8_t)((step & 15) | (below & 15) << 4);
        scales[i - 4] = (uint8_t)(scales[i - 4] | step >> 4 << 6);
        scales[i] = (uint8_t)(scales[i] | below >> 4 << 6);
    }
}

/* Codes again, with a group's step and offset as the block has them. A step that is 0 there leaves
 * those of the fit. */
static void round_codes(const float *x, float step, float below, int most, int code[GROUP])
{
    for (int j = 0; step != 0.0f && j < GROUP; j++) {
        code[j] = within(nearest((x[j] + below) / step), 0, most);
    }
}

static float half_of(const uint8_t *at)
{
    return bp_f32_from_f16((uint16_t)(at[0] | at[1] << 8));
}

/* The two numbers in half precision, the twelve bytes of six bits, and the codes anew. */
static void put_steps(const float *values, group_fit fit[GROUPS], int most, uint8_t *block)
{
    float step = 0.0f, below = 0.0f;
    for (int g = 0; g < GROUPS; g++) {
        step = fit[g].step > step ? fit[g].step : step;
        below = fit[g].below > below ? fit[g].below : below;
    }
    const float steps = step > 0.0f ? 63.0f / step : 0.0f;
    const float belows = below > 0.0f ? 63.0f / below : 0.0f;
    packed_half(block, step / 63.0f);
    packed_half(block + 2, below / 63.0f);
    memset(block + 4, 0, 12);
    for (int g = 0; g < GROUPS; g++) {
        const int s = within(nearest(steps * fit[g].step), 0, 63);
        const int t = within(nearest(belows * fit[g].below), 0, 63);
        put_six_bits(block + 4, g, s, t);
        round_codes(values + g * GROUP, half_of(block) * (float)s, half_of(block + 2) * (float)t,
                    most, fit[g].code);
    }
}

/* `high`: where the fifth bits go; NULL: there are none. */
static void write_k(const float *values, const search *how, uint8_t *high, uint8_t *block,
                    uint8_t *codes)
{
    group_fit fit[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        fit_from(values + g * GROUP, how, &fit[g]);
    }
    put_steps(values, fit, how->most, block);
    for (int j = 0; high != NULL && j < GROUP; j++) {
        high[j] = 0;
        for (int g = 0; g < GROUPS; g++) {
            high[j] = (uint8_t)(high[j] | fit[g].code[j] >> 4 << g);
        }
    }
    for (int g = 0; g < GROUPS; g += 2) {
        for (int j = 0; j < GROUP; j++) {
            codes[g / 2 * GROUP + j] =
                (uint8_t)((fit[g].code[j] & 15) | (fit[g + 1].code[j] & 15) << 4);
        }
    }
}

static void write_q4_k(const float *values, uint8_t *block)
{
    static const search how = {.most = 15, .first = -1.0f, .tries = 21};
    write_k(values, &how, NULL, block, block + 16);
}

static void write_q5_k(const float *values, uint8_t *block)
{
    static const search how = {.most = 31, .first = -0.5f, .tries = 16};
    write_k(values, &how, block + 16, block, block + 48);
}

enum { SIXTEEN = 16, MIDDLE = 32 };

/* Sums of x q and q q, weighted by x x, for codes of -32 .. 31 with `inverse` codes per unit. */
static void even_sums(const float *x, float inverse, int code[SIXTEEN], float *qx, float *q2)
{
    *qx = *q2 = 0.0f;
    for (int j = 0; j < SIXTEEN; j++) {
        code[j] = within(nearest(inverse * x[j]), -MIDDLE, MIDDLE - 1);
        const float weight = x[j] * x[j];
        *qx += weight * x[j] * (float)code[j];
        *q2 += weight * (float)code[j] * (float)code[j];
    }
}

/* The step of a group of 16, which may be negative: of 19 steps about the one with which the
 * largest value is code -32, the one that explains most. */
static float fit_even(const float *x, int code[SIXTEEN])
{
    float largest = 0.0f, qx, q2;
    for (int j = 0; j < SIXTEEN; j++) {
        largest = fabsf(x[j]) > fabsf(largest) ? x[j] : largest;
        code[j] = -MIDDLE;
    }
    if (fabsf(largest) < 1e-15f) {
        return 0.0f;
    }
    even_sums(x, (float)-MIDDLE / largest, code, &qx, &q2);
    float step = q2 != 0.0f ? qx / q2 : 0.0f, best = step * qx;
    for (int i = -9; i <= 9; i++) {
        int other[SIXTEEN];
        if (i == 0) {
            continue;
        }
        even_sums(x, -((float)MIDDLE + 0.1f * (float)i) / largest, other, &qx, &q2);
        if (q2 > 0.0f && qx * qx > best * q2) {
            memcpy(code, other, sizeof other);
            step = qx / q2;
            best = step * qx;
        }
    }
    return step;
}

static void write_q6_k(const float *values, uint8_t *block)
{
    enum { FITS = LARGE / SIXTEEN };
    float step[FITS], largest = 0.0f;
    int code[FITS][SIXTEEN];
    memset(block, 0, 210);
    for (int i = 0; i < FITS; i++) {
        step[i] = fit_even(values + i * SIXTEEN, code[i]);
        largest = fabsf(step[i]) > fabsf(largest) ? step[i] : largest;
    }
    if (fabsf(largest) < 1e-15f) {
        return;
    }
    const float inverse = -128.0f / largest;
    packed_half(block + 208, 1.0f / inverse);
    for (int i = 0; i < FITS; i++) {
        const int s = within(nearest(inverse * step[i]), -128, 127);
        const float by = half_of(block + 208) * (float)s;
        block[192 + i] = (uint8_t)(int8_t)s;
        for (int j = 0; j < SIXTEEN; j++) {
            const float x = values[i * SIXTEEN + j];
            const int at = i * SIXTEEN + j, part = at % 128 / GROUP;
            const int q =
                MIDDLE + (by != 0.0f ? within(nearest(x / by), -MIDDLE, MIDDLE - 1) : code[i][j]);
            uint8_t *low = block + at / 128 * 64 + part % 2 * GROUP + at % GROUP;
            uint8_t *high = block + 128 + at / 128 * GROUP + at % GROUP;
            *low = (uint8_t)(*low | (q & 15) << part / 2 * 4);
            *high = (uint8_t)(*high | q >> 4 << part * 2);
        }
    }
}

bp_block_writer bp_block_writer_of(const bp_packed_type *type)
{
    static const struct {
        uint32_t type;
        bp_block_writer write;
    } writers[] = {{2, write_q4_0},  {3, write_q4_1},  {6, write_q5_0},
                   {7, write_q5_1},  {8, write_q8_0},  {12, write_q4_k},
                   {13, write_q5_k}, {14, write_q6_k}, {39, write_mxfp4}};
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        if (writers[i].type == type->type) {
            return writers[i].write;
        }
    }
    return NULL;
}
