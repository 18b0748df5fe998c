/* SPDX-License-Identifier: MIT */
/* Blocks to floats. */
#include "core/ops/blocks.h"

#include <string.h>

#include "core/base/dtype.h"

enum { GROUP = BP_PACKED_GROUP, LARGE = BP_PACKED_ELEMENTS };

/* A half-precision number of the file. */
static float half_at(const uint8_t *at)
{
    return bp_f32_from_f16((uint16_t)(at[0] | at[1] << 8));
}

/* The 32 numbers of four bits of a small block, the low halves first, with a fifth bit each where
 * `high` is given. */
static void small_codes(const uint8_t *codes, const uint8_t *high, int code[GROUP])
{
    for (int j = 0; j < GROUP / 2; j++) {
        code[j] = codes[j] & 15;
        code[j + GROUP / 2] = codes[j] >> 4;
    }
    for (int j = 0; high != NULL && j < GROUP; j++) {
        code[j] |= (high[j / 8] >> j % 8 & 1) << 4;
    }
}

static void small_even(const uint8_t *block, const uint8_t *high, int middle, float *values)
{
    const float scale = half_at(block);
    int code[GROUP];
    small_codes(block + (high != NULL ? 6 : 2), high, code);
    for (int j = 0; j < GROUP; j++) {
        values[j] = (float)(code[j] - middle) * scale;
    }
}

static void small_from(const uint8_t *block, const uint8_t *high, float *values)
{
    const float scale = half_at(block), least = half_at(block + 2);
    int code[GROUP];
    small_codes(block + (high != NULL ? 8 : 4), high, code);
    for (int j = 0; j < GROUP; j++) {
        values[j] = (float)code[j] * scale + least;
    }
}

static void read_q4_0(const uint8_t *block, uint32_t group, float *values)
{
    (void)group; /* there is one */
    small_even(block, NULL, 8, values);
}

static void read_q4_1(const uint8_t *block, uint32_t group, float *values)
{
    (void)group;
    small_from(block, NULL, values);
}

static void read_q5_0(const uint8_t *block, uint32_t group, float *values)
{
    (void)group;
    small_even(block, block + 2, 16, values);
}

static void read_q5_1(const uint8_t *block, uint32_t group, float *values)
{
    (void)group;
    small_from(block, block + 4, values);
}

static void read_q8_0(const uint8_t *block, uint32_t group, float *values)
{
    const float scale = half_at(block);
    (void)group;
    for (int j = 0; j < GROUP; j++) {
        values[j] = (float)(int8_t)block[2 + j] * scale;
    }
}

/* Two numbers of four bits in a byte, each of which stands for one of sixteen, times the scale. */
static void small_table(const uint8_t *codes, const int8_t table[16], float scale, float *values)
{
    for (int j = 0; j < GROUP / 2; j++) {
        values[j] = scale * (float)table[codes[j] & 15];
        values[j + GROUP / 2] = scale * (float)table[codes[j] >> 4];
    }
}

static void read_iq4_nl(const uint8_t *block, uint32_t group, float *values)
{
    static const int8_t table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
    (void)group;
    small_table(block + 2, table, half_at(block), values);
}

/* The scale is half a power of two, so that the doubled numbers of e2m1 give theirs; the least of
 * its exponents are of subnormal numbers. */
static void read_mxfp4(const uint8_t *block, uint32_t group, float *values)
{
    static const int8_t table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t exponent = block[0];
    const uint32_t bits = exponent < 2 ? UINT32_C(0x200000) << exponent : (exponent - 1) << 23;
    float scale;
    (void)group;
    memcpy(&scale, &bits, sizeof scale);
    small_table(block + 1, table, scale, values);
}

/* Two bits of each element of a group: 128 elements share 32 bytes. */
static void two_bits(const uint8_t *codes, uint32_t group, int code[GROUP])
{
    const uint8_t *from = codes + group / 4 * GROUP;
    const uint32_t shift = group % 4 * 2;
    for (int j = 0; j < GROUP; j++) {
        code[j] = from[j] >> shift & 3;
    }
}

static void read_q2_k(const uint8_t *block, uint32_t group, float *values)
{
    const float scale = half_at(block + 80), least = half_at(block + 82);
    int code[GROUP];
    two_bits(block + 16, group, code);
    for (int half = 0; half < 2; half++) {
        const int both = block[2 * group + (uint32_t)half];
        const float step = scale * (float)(both & 15), below = least * (float)(both >> 4);
        for (int j = half * 16; j < half * 16 + 16; j++) {
            values[j] = step * (float)code[j] - below;
        }
    }
}

/* Scale number i of Q3_K: four low bits, and two high ones in the last four bytes. */
static int q3_scale(const uint8_t *scales, uint32_t i)
{
    const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    return (low | (scales[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
}

static void read_q3_k(const uint8_t *block, uint32_t group, float *values)
{
    const float scale = half_at(block + 108);
    int code[GROUP];
    two_bits(block + 32, group, code);
    for (int half = 0; half < 2; half++) {
        const float step = scale * (float)q3_scale(block + 96, 2 * group + (uint32_t)half);
        for (int j = half * 16; j < half * 16 + 16; j++) {
            const int high = block[j] >> group & 1;
            values[j] = step * (float)(code[j] + 4 * high - 4);
        }
    }
}

/* Scale and minimum number i of Q4_K and Q5_K, of six bits each. */
static void six_bits(const uint8_t *scales, uint32_t i, int *step, int *below)
{
    if (i < 4) {
        *step = scales[i] & 63;
        *below = scales[i + 4] & 63;
    } else {
        *step = (scales[i + 4] & 15) | scales[i - 4] >> 6 << 4;
        *below = scales[i + 4] >> 4 | scales[i] >> 6 << 4;
    }
}

/* `high`: a fifth bit of each element; NULL: none. */
static void read_k(const uint8_t *block, const uint8_t *high, const uint8_t *codes, uint32_t group,
                   float *values)
{
    const float scale = half_at(block), least = half_at(block + 2);
    const uint8_t *from = codes + group / 2 * GROUP;
    const uint32_t shift = group % 2 * 4;
    int step, below, code[GROUP];
    six_bits(block + 4, group, &step, &below);
    for (int j = 0; j < GROUP; j++) {
        code[j] = from[j] >> shift & 15;
    }
    for (int j = 0; high != NULL && j < GROUP; j++) {
        code[j] += (high[j] >> group & 1) << 4;
    }
    const float times = scale * (float)step, less = least * (float)below;
    for (int j = 0; j < GROUP; j++) {
        values[j] = times * (float)code[j] - less;
    }
}

static void read_q4_k(const uint8_t *block, uint32_t group, float *values)
{
    read_k(block, NULL, block + 16, group, values);
}

static void read_q5_k(const uint8_t *block, uint32_t group, float *values)
{
    read_k(block, block + 16, block + 48, group, values);
}

static void read_q6_k(const uint8_t *block, uint32_t group, float *values)
{
    const float scale = half_at(block + 208);
    const uint32_t quarter = group % 4, low_shift = quarter / 2 * 4, high_shift = quarter * 2;
    const uint8_t *low = block + group / 4 * 64 + quarter % 2 * GROUP;
    const uint8_t *high = block + 128 + group / 4 * GROUP;
    for (int half = 0; half < 2; half++) {
        const float step = scale * (float)(int8_t)block[192 + 2 * group + (uint32_t)half];
        for (int j = half * 16; j < half * 16 + 16; j++) {
            const int code = (low[j] >> low_shift & 15) | (high[j] >> high_shift & 3) << 4;
            values[j] = step * (float)(code - 32);
        }
    }
}

static const bp_packed_type blocks[] = {
    {"Q4_0", 2, GROUP, 18, read_q4_0},      {"Q4_1", 3, GROUP, 20, read_q4_1},
    {"Q5_0", 6, GROUP, 22, read_q5_0},      {"Q5_1", 7, GROUP, 24, read_q5_1},
    {"Q8_0", 8, GROUP, 34, read_q8_0},      {"Q2_K", 10, LARGE, 84, read_q2_k},
    {"Q3_K", 11, LARGE, 110, read_q3_k},    {"Q4_K", 12, LARGE, 144, read_q4_k},
    {"Q5_K", 13, LARGE, 176, read_q5_k},    {"Q6_K", 14, LARGE, 210, read_q6_k},
    {"IQ4_NL", 20, GROUP, 18, read_iq4_nl}, {"MXFP4", 39, GROUP, 17, read_mxfp4},
};

const bp_packed_type *bp_packed_of(uint64_t type)
{
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (blocks[i].type == type) {
            return &blocks[i];
        }
    }
    return NULL;
}

void bp_packed_values(const bp_packed_type *block, const uint8_t *codes, uint64_t first,
                      uint64_t count, float *values)
{
    const uint64_t groups = block->elements / GROUP;
    float cut[GROUP];
    while (count > 0) {
        const uint64_t number = first / GROUP, skip = first % GROUP;
        const uint64_t left = GROUP - skip, some = count < left ? count : left;
        const uint8_t *at = codes + number / groups * block->bytes;
        float *to = some == GROUP ? values : cut;
        block->read(at, (uint32_t)(number % groups), to);
        if (to == cut) {
            memcpy(values, cut + skip, (size_t)some * sizeof *values);
        }
        values += some;
        first += some;
        count -= some;
    }
}
