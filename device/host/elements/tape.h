/* SPDX-License-Identifier: MIT */
/* The tape in 8 bits, written once and compiled for every form: plain C in blocks of 16 lanes.
 * Included once per form, which defines BP_PLAIN(name). A task is a row. */
#include "core/ops/tape.h"
#include "core/ops/tape_element.h"
#include "device/host/elements/plain.h"

/* The bits of the largest magnitude of a block. */
static inline uint32_t tape_largest(const bp_element *x, uint64_t count)
{
    uint32_t lane[BP_LANES] = {0}, most = 0;
    for (uint64_t i = 0; i < count; i += BP_LANES) {
        const bp_plain_block v = bp_plain_load(x + i, bp_least(count - i, BP_LANES));
        for (int l = 0; l < BP_LANES; l++) {
            const uint32_t bits = bp_tape_bits(v.lane[l]) & 0x7fffffffu;
            lane[l] = bits > lane[l] ? bits : lane[l];
        }
    }
    for (int l = 0; l < BP_LANES; l++) {
        most = lane[l] > most ? lane[l] : most;
    }
    return most;
}

/* 16 codes of a block with this scale; those of a block that is not finite are 0. */
static inline void tape_codes(const bp_plain_block *x, uint32_t byte, uint8_t codes[BP_LANES])
{
    const float inverse = bp_tape_inverse(byte);
    const uint32_t kept = byte == BP_TAPE_NOT_FINITE ? 0 : 0xffu;
    uint32_t code[BP_LANES];
    for (int l = 0; l < BP_LANES; l++) {
        code[l] = bp_tape_code(x->lane[l] * inverse) & kept;
    }
    for (int l = 0; l < BP_LANES; l++) {
        codes[l] = (uint8_t)code[l];
    }
}

/* Their values; fp16 has none above 65504. */
static inline bp_plain_block tape_values(const uint8_t codes[BP_LANES], uint32_t byte)
{
    bp_plain_block y;
    for (int l = 0; l < BP_LANES; l++) {
        float value = bp_tape_value(codes[l], byte);
        if (BP_ELEMENT == BP_F16) {
            value = value > 65504.0f ? 65504.0f : value;
            value = value < -65504.0f ? -65504.0f : value;
        }
        y.lane[l] = value;
    }
    return y;
}

static uint64_t tape_tasks(const void *scalars)
{
    const bp_tape_pack_scalars *s = scalars; /* all three rows have the same */
    return (uint64_t)s->rows;
}

/* Codes and scale of a block of x. */
static inline uint32_t tape_pack_block(const bp_element *x, uint64_t count, uint8_t *codes)
{
    const uint32_t byte = bp_tape_scale(tape_largest(x, count));
    for (uint64_t i = 0; i < count; i += BP_LANES) {
        const uint64_t some = bp_least(count - i, BP_LANES);
        const bp_plain_block v = bp_plain_load(x + i, some);
        uint8_t part[BP_LANES];
        tape_codes(&v, byte, part);
        memcpy(codes + i, part, some);
    }
    return byte;
}

static inline void tape_unpack_block(bp_element *x, uint64_t count, const uint8_t *codes,
                                     uint32_t byte)
{
    for (uint64_t i = 0; i < count; i += BP_LANES) {
        const uint64_t some = bp_least(count - i, BP_LANES);
        uint8_t part[BP_LANES] = {0};
        memcpy(part, codes + i, some);
        const bp_plain_block v = tape_values(part, byte);
        bp_plain_store(x + i, some, &v);
    }
}

static void tape_pack_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_tape_pack_scalars *s = call->scalars;
    const bp_tape_pack_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width, blocks = bp_cut(s->width, BP_TAPE_BLOCK);
    uint8_t *codes = p->packed, *scales = codes + (uint64_t)s->rows * width;
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t b = 0; b < blocks; b++) {
            const uint64_t at = row * width + b * BP_TAPE_BLOCK;
            const uint64_t count = bp_least(width - b * BP_TAPE_BLOCK, BP_TAPE_BLOCK);
            scales[row * blocks + b] =
                (uint8_t)tape_pack_block((const bp_element *)p->x + at, count, codes + at);
        }
    }
}

static void tape_unpack_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_tape_unpack_scalars *s = call->scalars;
    const bp_tape_unpack_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width, blocks = bp_cut(s->width, BP_TAPE_BLOCK);
    const uint8_t *codes = p->packed, *scales = codes + (uint64_t)s->rows * width;
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t b = 0; b < blocks; b++) {
            const uint64_t at = row * width + b * BP_TAPE_BLOCK;
            const uint64_t count = bp_least(width - b * BP_TAPE_BLOCK, BP_TAPE_BLOCK);
            tape_unpack_block((bp_element *)p->x + at, count, codes + at, scales[row * blocks + b]);
        }
    }
}

static void tape_round_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_tape_round_scalars *s = call->scalars;
    const bp_tape_round_pointers *p = call->pointers;
    const uint64_t width = (uint64_t)s->width, blocks = bp_cut(s->width, BP_TAPE_BLOCK);
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t b = 0; b < blocks; b++) {
            uint8_t codes[BP_TAPE_BLOCK];
            bp_element *x = (bp_element *)p->x + row * width + b * BP_TAPE_BLOCK;
            const uint64_t count = bp_least(width - b * BP_TAPE_BLOCK, BP_TAPE_BLOCK);
            const uint32_t byte = tape_pack_block(x, count, codes);
            tape_unpack_block(x, count, codes, byte);
        }
    }
}

const bp_host_kernel BP_PLAIN(tape_pack) = {tape_tasks, tape_pack_run, NULL};
const bp_host_kernel BP_PLAIN(tape_unpack) = {tape_tasks, tape_unpack_run, NULL};
const bp_host_kernel BP_PLAIN(tape_round) = {tape_tasks, tape_round_run, NULL};
