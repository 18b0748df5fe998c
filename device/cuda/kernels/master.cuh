/* SPDX-License-Identifier: MIT */
/* Master forms (core/ops/master.h) as device code: the exact value of a weight beside its
 * working copy. */
#ifndef BP_DEVICE_KERNELS_MASTER_CUH
#define BP_DEVICE_KERNELS_MASTER_CUH

#include "device/cuda/kernels/element.cuh"

#define inline __forceinline__ __device__
#include "core/ops/fp8_element.h"
#undef inline

/* bp_master of core/ops/master.h, whose own includes are no matter of kernels. */
#define BP_MASTER_FP32       1u
#define BP_MASTER_SPLIT      2u
#define BP_MASTER_SPLIT8     3u
#define BP_MASTER_STOCHASTIC 4u
#define BP_MASTER_FP8        5u

/* core/ops/fp8.h's, likewise. */
#define BP_FP8_BLOCK  256
#define BP_FP8_BYTES  260 /* of a block */
#define BP_FP8_GROUP  64
#define BP_FP8_HEADER 4

/* Element i of a weight of this form (a type), and of its master, which may be NULL where the kind
 * has none. A bfloat16 weight is rounded half away from zero, as everywhere. */
BP_DEVICE void bp_store_master(void *weight, void *master, uint64_t i, uint32_t form, uint32_t kind,
                               float value)
{
    uint32_t bits = bp_float_bits(value);
    if (kind == BP_MASTER_SPLIT8) {
        uint32_t short_bits = (bits >> 8) + (bits >> 7 & 1);
        ((uint16_t *)weight)[i] = (uint16_t)((short_bits + 0x80) >> 8);
        ((uint8_t *)master)[i] = (uint8_t)short_bits;
        return;
    }
    if ((form & BP_TYPE_BITS) == BP_BFLOAT) {
        ((uint16_t *)weight)[i] = (uint16_t)((bits + 0x8000) >> 16);
    } else {
        bp_put(weight, i, form, value);
    }
    if (kind == BP_MASTER_FP32) {
        ((float *)master)[i] = value;
    } else if (kind == BP_MASTER_SPLIT) {
        ((uint16_t *)master)[i] = (uint16_t)bits;
    }
}

/* Four bit patterns of 1 or 2 bytes (`bytes`), of which `count` exist. */
BP_DEVICE void bp_load_bits4(const unsigned char *from, uint64_t first, uint64_t count,
                             uint32_t bytes, bool wide, uint32_t x[4])
{
    const unsigned char *at = from + first * bytes;
    if (wide && count >= 4) {
        uint2 v = make_uint2(*(const uint32_t *)at, bytes == 2 ? *(const uint32_t *)(at + 4) : 0);
        x[0] = bytes == 2 ? v.x & 0xffff : v.x & 0xff;
        x[1] = bytes == 2 ? v.x >> 16 : v.x >> 8 & 0xff;
        x[2] = bytes == 2 ? v.y & 0xffff : v.x >> 16 & 0xff;
        x[3] = bytes == 2 ? v.y >> 16 : v.x >> 24;
        return;
    }
    x[1] = x[2] = x[3] = 0;
#pragma unroll 1
    for (uint32_t e = 0; e < 4; e++) {
        x[0] = x[1];
        x[1] = x[2];
        x[2] = x[3];
        x[3] = 0;
        if (e < count) {
            x[3] = bytes == 2 ? ((const uint16_t *)at)[e] : at[e];
        }
    }
}

BP_DEVICE void bp_store_bits4(unsigned char *to, uint64_t first, uint64_t count, uint32_t bytes,
                              bool wide, const uint32_t x[4])
{
    unsigned char *at = to + first * bytes;
    if (wide && count >= 4) {
        if (bytes == 2) {
            *(uint2 *)at = make_uint2(x[0] | x[1] << 16, x[2] | x[3] << 16);
        } else {
            *(uint32_t *)at = x[0] | x[1] << 8 | x[2] << 16 | x[3] << 24;
        }
        return;
    }
    uint32_t a = x[0], b = x[1], c = x[2];
    uint32_t end = (uint32_t)bp_least(count, 4);
#pragma unroll 1
    for (uint32_t e = 0; e < end; e++) {
        if (bytes == 2) {
            ((uint16_t *)at)[e] = (uint16_t)a;
        } else {
            at[e] = (unsigned char)a;
        }
        a = b;
        b = c;
        c = x[3];
    }
}

/* A weight and its master. form: of the weight, a type and whether groups of four are aligned. */
typedef struct bp_weight {
    unsigned char *weight;
    unsigned char *master;
    uint32_t form;
    uint32_t kind;
} bp_weight;

/* Where the block of codes lies that holds element i. */
BP_DEVICE unsigned char *bp_fp8_block(unsigned char *codes, uint64_t i)
{
    return codes + i / BP_FP8_BLOCK * BP_FP8_BYTES;
}

/* bp_load_weight4 and its pair for codes of fp8, `first` being a multiple of four. */
BP_DEVICE void bp_load_fp8(const bp_weight *w, uint64_t first, uint64_t count, float x[4])
{
    const unsigned char *block = bp_fp8_block(w->weight, first);
    const uint32_t at = (uint32_t)first % BP_FP8_BLOCK;
    const uint32_t byte = count > 0 ? block[at / BP_FP8_GROUP] : 0;
    uint32_t code[4], rest[4];
    bp_load_bits4(block + BP_FP8_HEADER, at, count, 1, true, code);
    bp_load_bits4(w->master, first, count, 2, (w->form & BP_WIDE) != 0, rest);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        x[e] = bp_fp8_value(bp_fp8_join(code[e], rest[e]), byte);
    }
}

/* Every thread of a warp takes part: 16 threads hold a group. */
BP_DEVICE void bp_store_fp8(const bp_weight *w, uint64_t first, uint64_t count, const float x[4])
{
    uint32_t largest = 0, code[4], rest[4];
#pragma unroll
    for (uint32_t e = 0; e < 4; e++) {
        largest = e < count ? max(largest, bp_float_bits(x[e]) & 0x7fffffffu) : largest;
    }
#pragma unroll 1
    for (int distance = 8; distance > 0; distance /= 2) {
        largest = max(largest, __shfl_xor_sync(BP_ALL_LANES, largest, distance));
    }
    if (count == 0) {
        return;
    }
    const uint32_t byte = bp_fp8_scale(largest), at = (uint32_t)first % BP_FP8_BLOCK;
    const uint32_t kept = byte == BP_TAPE_NOT_FINITE ? 0 : 0xffffffffu;
    const float inverse = bp_tape_inverse(byte);
    unsigned char *block = bp_fp8_block(w->weight, first);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const uint32_t bits = bp_fp8_bits(x[e] * inverse) & kept;
        code[e] = bp_fp8_code(bits);
        rest[e] = bits & 0xffff;
    }
    if (at % BP_FP8_GROUP == 0) {
        block[at / BP_FP8_GROUP] = (unsigned char)byte;
    }
    bp_store_bits4(block + BP_FP8_HEADER, at, count, 1, true, code);
    bp_store_bits4(w->master, first, count, 2, (w->form & BP_WIDE) != 0, rest);
}

/* The exact values of elements first .. first + 3, of which `count` exist. */
BP_DEVICE void bp_load_weight4(const bp_weight *w, uint64_t first, uint64_t count, float x[4])
{
    if (w->kind == BP_MASTER_FP8) {
        bp_load_fp8(w, first, count, x);
        return;
    }
    bool wide = (w->form & BP_WIDE) != 0;
    if (w->kind != BP_MASTER_SPLIT && w->kind != BP_MASTER_SPLIT8) {
        bool own = w->kind == BP_MASTER_FP32;
        bp_load4(own ? w->master : w->weight, first, count,
                 own ? BP_SINGLE | (w->form & BP_WIDE) : w->form, x);
        return;
    }
    uint32_t bytes = w->kind == BP_MASTER_SPLIT ? 2 : 1, high[4], low[4];
    bp_load_bits4(w->weight, first, count, 2, wide, high);
    bp_load_bits4(w->master, first, count, bytes, wide, low);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        uint32_t top = high[e] - (low[e] >> (bytes * 8 - 1));
        x[e] = bp_float_from_bits(top << 16 | (bytes == 2 ? low[e] : low[e] << 8));
    }
}

/* Stores them; random: 16 bits for each, where the kind rounds stochastically. Not for FP8. */
BP_DEVICE void bp_store_weight4(const bp_weight *w, uint64_t first, uint64_t count,
                                const uint32_t random[4], const float x[4])
{
    bool wide = (w->form & BP_WIDE) != 0, bfloat = (w->form & BP_TYPE_BITS) == BP_BFLOAT;
    uint32_t high[4], low[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        uint32_t bits = bp_float_bits(x[e]), shorter = (bits >> 8) + (bits >> 7 & 1);
        uint32_t up = (bits + random[e]) >> 16;
        up = (up & 0x7f80) == 0x7f80 ? bits >> 16 : up;
        high[e] = (bits + 0x8000) >> 16;
        high[e] = w->kind == BP_MASTER_SPLIT8 ? (shorter + 0x80) >> 8 : high[e];
        high[e] = w->kind == BP_MASTER_STOCHASTIC ? up : high[e];
        high[e] &= 0xffff;
        low[e] = w->kind == BP_MASTER_SPLIT8 ? shorter & 0xff : bits & 0xffff;
    }
    if (w->kind == BP_MASTER_FP32) {
        bp_store4(w->master, first, count, BP_SINGLE | (w->form & BP_WIDE), x);
    } else if (w->kind == BP_MASTER_SPLIT || w->kind == BP_MASTER_SPLIT8) {
        bp_store_bits4(w->master, first, count, w->kind == BP_MASTER_SPLIT ? 2 : 1, wide, low);
    }
    if (bfloat) {
        bp_store_bits4(w->weight, first, count, 2, wide, high);
    } else {
        bp_store4(w->weight, first, count, w->form, x);
    }
}

#endif
