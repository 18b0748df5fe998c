/* SPDX-License-Identifier: MIT */
/* Weights of 3 bytes, block by block: the specification of what the update kernels do. */
#include "core/ops/fp8.h"

#include "core/ops/fp8_element.h"

static void store_group(const float *values, uint64_t count, uint8_t *byte, uint8_t *codes,
                        uint16_t *rest)
{
    uint32_t largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = bp_tape_bits(values[i]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    const uint32_t scale = bp_fp8_scale(largest);
    const float inverse = bp_tape_inverse(scale);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = scale == BP_TAPE_NOT_FINITE ? 0 : bp_fp8_bits(values[i] * inverse);
        codes[i] = (uint8_t)bp_fp8_code(bits);
        rest[i] = (uint16_t)bits;
    }
    *byte = (uint8_t)scale;
}

void bp_fp8_store(const float *values, uint64_t count, uint8_t *codes, uint16_t *rest)
{
    for (uint64_t at = 0; at < count; at += BP_FP8_GROUP) {
        const uint64_t left = count - at, some = left < BP_FP8_GROUP ? left : BP_FP8_GROUP;
        uint8_t *block = codes + bp_fp8_bytes(at / BP_FP8_BLOCK * BP_FP8_BLOCK);
        const uint64_t within = at % BP_FP8_BLOCK, group = within / BP_FP8_GROUP;
        if (within == 0) {
            memset(block, 0, BP_FP8_HEADER);
        }
        store_group(values + at, some, block + group, block + BP_FP8_HEADER + within, rest + at);
    }
}

void bp_fp8_load(const uint8_t *codes, const uint16_t *rest, uint64_t count, float *values)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *block = codes + bp_fp8_bytes(i / BP_FP8_BLOCK * BP_FP8_BLOCK);
        const uint64_t within = i % BP_FP8_BLOCK;
        values[i] = bp_fp8_value(bp_fp8_join(block[BP_FP8_HEADER + within], rest[i]),
                                 block[within / BP_FP8_GROUP]);
    }
}

float bp_fp8_read(const uint8_t *codes, uint64_t index)
{
    const uint8_t *block = codes + bp_fp8_bytes(index / BP_FP8_BLOCK * BP_FP8_BLOCK);
    const uint64_t within = index % BP_FP8_BLOCK;
    return bp_tape_value(block[BP_FP8_HEADER + within], block[within / BP_FP8_GROUP]);
}
