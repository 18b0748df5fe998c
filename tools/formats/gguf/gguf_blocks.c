/* SPDX-License-Identifier: MIT */
/* Blocks to floats. */
#include "tools/formats/gguf/gguf_blocks.h"

#include "core/base/dtype.h"

enum { SMALL = 32, LARGE = 256 };

/* A half-precision number of the file. */
static float half_at(const unsigned char *at)
{
    return bp_f32_from_f16((uint16_t)(at[0] | at[1] << 8));
}

/* The 32 numbers of four bits of a small block, the low halves first, with a fifth bit each where
 * `high` is given. */
static void small_codes(const unsigned char *codes, const unsigned char *high, int code[SMALL])
{
    for (int j = 0; j < SMALL; j++) {
        const int low = j < 16 ? codes[j] & 15 : codes[j - 16] >> 4;
        const int bit = high != NULL ? high[j / 8] >> j % 8 & 1 : 0;
        code[j] = low | bit << 4;
    }
}

static void small_even(const unsigned char *block, const unsigned char *high, int middle,
                       float *values)
{
    const float scale = half_at(block);
    int code[SMALL];
    small_codes(block + (high != NULL ? 6 : 2), high, code);
    for (int j = 0; j < SMALL; j++) {
        values[j] = (float)(code[j] - middle) * scale;
    }
}

static void small_from(const unsigned char *block, const unsigned char *high, float *values)
{
    const float scale = half_at(block), least = half_at(block + 2);
    int code[SMALL];
    small_codes(block + (high != NULL ? 8 : 4), high, code);
    for (int j = 0; j < SMALL; j++) {
        values[j] = (float)code[j] * scale + least;
    }
}

static void read_q4_0(const unsigned char *block, float *values)
{
    small_even(block, NULL, 8, values);
}

static void read_q4_1(const unsigned char *block, float *values)
{
    small_from(block, NULL, values);
}

static void read_q5_0(const unsigned char *block, float *values)
{
    small_even(block, block + 2, 16, values);
}

static void read_q5_1(const unsigned char *block, float *values)
{
    small_from(block, block + 4, values);
}

static void read_q8_0(const unsigned char *block, float *values)
{
    const float scale = half_at(block);
    for (int j = 0; j < SMALL; j++) {
        values[j] = (float)(signed char)block[2 + j] * scale;
    }
}

/* Two bits of a K block's element: 128 elements share 32 bytes. */
static int two_bits(const unsigned char *codes, int i)
{
    return codes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void read_q2_k(const unsigned char *block, float *values)
{
    const float scale = half_at(block + 80), least = half_at(block + 82);
    for (int i = 0; i < LARGE; i++) {
        const int both = block[i / 16];
        const float step = scale * (float)(both & 15), below = least * (float)(both >> 4);
        values[i] = step * (float)two_bits(block + 16, i) - below;
    }
}

/* Scale number i of Q3_K: four low bits, and two high ones in the last four bytes. */
static int q3_scale(const unsigned char *scales, int i)
{
    const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    return (low | (scales[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
}

static void read_q3_k(const unsigned char *block, float *values)
{
    const float scale = half_at(block + 108);
    for (int i = 0; i < LARGE; i++) {
        const float step = scale * (float)q3_scale(block + 96, i / 16);
        const int high = block[i % 32] >> i / 32 & 1;
        values[i] = step * (float)(two_bits(block + 32, i) - (high != 0 ? 0 : 4));
    }
}

/* Scale and minimum number i of Q4_K and Q5_K, of six bits each. */
static void six_bits(const unsigned char *scales, int i, int *step, int *below)
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
static void read_k(const unsigned char *block, const unsigned char *high,
                   const unsigned char *codes, float *values)
{
    const float scale = half_at(block), least = half_at(block + 2);
    for (int i = 0; i < LARGE; i++) {
        int step, below;
        six_bits(block + 4, i / 32, &step, &below);
        const int code = codes[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
        const int bit = high != NULL ? high[i % 32] >> i / 32 & 1 : 0;
        values[i] = scale * (float)step * (float)(code + 16 * bit) - least * (float)below;
    }
}

static void read_q4_k(const unsigned char *block, float *values)
{
    read_k(block, NULL, block + 16, values);
}

static void read_q5_k(const unsigned char *block, float *values)
{
    read_k(block, block + 16, block + 48, values);
}

static void read_q6_k(const unsigned char *block, float *values)
{
    const float scale = half_at(block + 208);
    for (int i = 0; i < LARGE; i++) {
        const int half = i / 128, at = i % 128, quarter = at / 32, column = i % 32;
        const int low = block[half * 64 + quarter % 2 * 32 + column] >> quarter / 2 * 4 & 15;
        const int high = block[128 + half * 32 + column] >> quarter * 2 & 3;
        const signed char step = (signed char)block[192 + i / 16];
        values[i] = scale * (float)step * (float)((low | high << 4) - 32);
    }
}

static const bp_gguf_block blocks[] = {
    {"Q4_0", 2, SMALL, 18, read_q4_0},   {"Q4_1", 3, SMALL, 20, read_q4_1},
    {"Q5_0", 6, SMALL, 22, read_q5_0},   {"Q5_1", 7, SMALL, 24, read_q5_1},
    {"Q8_0", 8, SMALL, 34, read_q8_0},   {"Q2_K", 10, LARGE, 84, read_q2_k},
    {"Q3_K", 11, LARGE, 110, read_q3_k}, {"Q4_K", 12, LARGE, 144, read_q4_k},
    {"Q5_K", 13, LARGE, 176, read_q5_k}, {"Q6_K", 14, LARGE, 210, read_q6_k},
};

const bp_gguf_block *bp_gguf_block_of(uint64_t type)
{
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (blocks[i].type == type) {
            return &blocks[i];
        }
    }
    return NULL;
}
