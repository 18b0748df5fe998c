/* SPDX-License-Identifier: MIT */
/* The tape in 8 bits (core/ops/tape.h). A warp has a block of 128 elements of a row, a thread
 * four of them. */
#include "device/cuda/kernels/element.cuh"

#define inline __forceinline__ __device__
#include "core/ops/tape_element.h"
#undef inline

#define BLOCK  128 /* BP_TAPE_BLOCK */
#define BLOCKS 8   /* of a launch's block */

/* Where a thread's elements are. */
typedef struct place {
    uint64_t block; /* of all rows' */
    uint64_t first; /* element */
    uint64_t count; /* from there on in the block; 0: none */
} place;

/* False for a warp behind the last block. */
BP_DEVICE bool find_place(uint64_t rows, uint64_t width, place *p)
{
    const uint64_t blocks = (width + BLOCK - 1) / BLOCK;
    const uint64_t inside = (uint64_t)(threadIdx.x % BP_WARP) * 4;
    p->block = (uint64_t)blockIdx.x * BLOCKS + threadIdx.x / BP_WARP;
    if (p->block >= rows * blocks) {
        return false;
    }
    const uint64_t row = p->block / blocks;
    const uint64_t column = (p->block - row * blocks) * BLOCK + inside;
    p->first = row * width + column;
    p->count = column < width ? width - column : 0;
    return true;
}

/* The byte of a block's scale, in all threads of the warp. */
BP_DEVICE uint32_t find_scale(const float v[4])
{
    uint32_t most = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        uint32_t bits = bp_tape_bits(v[e]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
#pragma unroll
    for (int distance = BP_WARP / 2; distance > 0; distance /= 2) {
        uint32_t other = __shfl_xor_sync(BP_ALL_LANES, most, distance);
        most = other > most ? other : most;
    }
    return bp_tape_scale(most);
}

/* Four codes in a word. */
BP_DEVICE uint32_t make_codes(const float v[4], uint32_t scale)
{
    const float inverse = bp_tape_inverse(scale);
    uint32_t word = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        word |= bp_tape_code(v[e] * inverse) << (8 * e);
    }
    return scale == BP_TAPE_NOT_FINITE ? 0 : word;
}

BP_DEVICE void make_values(uint32_t word, uint32_t scale, uint32_t form, float v[4])
{
    const float most = (form & BP_TYPE_BITS) == BP_HALF ? 65504.0f : INFINITY;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float value = bp_tape_value(word >> (8 * e) & 0xffu, scale);
        value = value > most ? most : value;
        v[e] = value < -most ? -most : value;
    }
}

BP_DEVICE void load_values(const void *x, const place *p, uint32_t form, float v[4])
{
    v[0] = v[1] = v[2] = v[3] = 0.0f;
    if (p->count > 0) {
        bp_load4(x, p->first, p->count, form, v);
    }
}

BP_KERNEL bp_tape_pack(unsigned char *packed, const void *x, uint64_t rows, uint64_t width,
                       uint32_t form)
{
    place p;
    if (!find_place(rows, width, &p)) {
        return;
    }
    float v[4];
    load_values(x, &p, form, v);
    const uint32_t scale = find_scale(v);
    uint32_t word = make_codes(v, scale);
    if ((form & BP_WIDE) != 0 && p.count >= 4) {
        *(uint32_t *)(packed + p.first) = word;
    } else {
        const uint64_t end = p.first + bp_least(p.count, 4);
#pragma unroll 1
        for (uint64_t i = p.first; i < end; i++, word >>= 8) {
            packed[i] = (unsigned char)word;
        }
    }
    if (threadIdx.x % BP_WARP == 0) {
        packed[rows * width + p.block] = (unsigned char)scale;
    }
}

BP_KERNEL bp_tape_unpack(void *x, const unsigned char *packed, uint64_t rows, uint64_t width,
                         uint32_t form)
{
    place p;
    if (!find_place(rows, width, &p) || p.count == 0) {
        return;
    }
    uint32_t word = 0;
    if ((form & BP_WIDE) != 0 && p.count >= 4) {
        word = *(const uint32_t *)(packed + p.first);
    } else {
        const uint32_t count = (uint32_t)bp_least(p.count, 4);
#pragma unroll 1
        for (uint32_t e = 0; e < count; e++) {
            word |= (uint32_t)packed[p.first + e] << (8 * e);
        }
    }
    float v[4];
    make_values(word, packed[rows * width + p.block], form, v);
    bp_store4(x, p.first, p.count, form, v);
}

BP_KERNEL bp_tape_round(void *x, uint64_t rows, uint64_t width, uint32_t form)
{
    place p;
    if (!find_place(rows, width, &p)) {
        return;
    }
    float v[4];
    load_values(x, &p, form, v);
    const uint32_t scale = find_scale(v);
    make_values(make_codes(v, scale), scale, form, v);
    if (p.count > 0) {
        bp_store4(x, p.first, p.count, form, v);
    }
}
