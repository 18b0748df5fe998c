/* SPDX-License-Identifier: MIT */
/* Sums of gradients in 8 bits, as loops that a compiler turns into vectors. Included once per form,
 * after BP_SUMS(name) says what a row's kernel is called. */
#include "core/base/random.h"
#include "core/ir/step.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"
#include "device/host/update/update_store.h"

static uint64_t accumulate_tasks(const void *scalars)
{
    const bp_accumulate_codes_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* Bits of the largest magnitude of a group; what is not finite lies above all that is. */
static inline uint32_t largest_bits(const float x[BP_CODEC_GROUP8])
{
    int32_t most = 0;
    for (uint32_t i = 0; i < BP_CODEC_GROUP8; i++) {
        int32_t bits = (int32_t)(bp_codec_bits(x[i]) & 0x7fffffffu);
        most = bits > most ? bits : most;
    }
    return (uint32_t)most;
}

/* One whole block of sums from their values; 0 where there is none. */
static inline void round_block(const float *restrict x, const uint16_t *restrict random,
                               uint8_t *restrict block)
{
    for (uint32_t g = 0; g < BP_CODEC_BLOCK / BP_CODEC_GROUP8; g++) {
        const float *group = x + g * BP_CODEC_GROUP8;
        const uint16_t *bits = random + g * BP_CODEC_GROUP8;
        uint8_t *codes = block + 16 + g * BP_CODEC_GROUP8;
        uint32_t most = largest_bits(group), half = bp_codec_round_up(bp_codec_float(most));
        float inverse = bp_codec_inverse(bp_codec_float(half << 16));
        uint32_t finite = most < 0x7f800000u ? UINT32_MAX : 0;
        half = inverse != 0.0f ? half : 0;
        bp_codec_put_half(block + 2 * g, finite != 0 ? half : 0x7fc0u);
        for (uint32_t i = 0; i < BP_CODEC_GROUP8; i++) {
            float value = bp_codec_float(bp_codec_bits(group[i]) & finite);
            codes[i] = bp_codec_compand_random(value, inverse, bits[i]);
        }
    }
}

/* The values of a block that has `count` codes. */
static inline void read_block(const uint8_t *from, uint32_t count, float x[BP_CODEC_BLOCK])
{
    uint8_t block[16 + BP_CODEC_BLOCK] = {0};
    memcpy(block, from, 16 + count);
    bp_codec_decode_companded(true, block, BP_CODEC_BLOCK, x);
}

/* A task is a run of blocks. */
static void accumulate_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_accumulate_codes_scalars *s = call->scalars;
    const bp_accumulate_codes_pointers *p = call->pointers;
    const bp_step_block *step = p->step;
    const uint64_t key = bp_sum_rounding_key(step->seed, step->sample);
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    const bp_dtype type = bp_call_type(call, 1);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i += BP_CODEC_BLOCK) {
        uint32_t count = (uint32_t)bp_least(end - i, BP_CODEC_BLOCK);
        uint8_t *at = (uint8_t *)p->sum + bp_codec_bytes(i, BP_CODEC_COMPANDED8);
        float x[BP_CODEC_BLOCK] = {0.0f}, before[BP_CODEC_BLOCK] = {0.0f};
        uint16_t random[BP_CODEC_BLOCK];
        uint8_t block[16 + BP_CODEC_BLOCK];
        load_floats(type, bp_element_at(p->x, (int64_t)i, type), count, x);
        if (s->accumulate != 0) {
            read_block(at, count, before);
        }
        for (uint32_t e = 0; e < BP_CODEC_BLOCK; e++) {
            x[e] += before[e];
        }
        rounding_block(key, (uint32_t)step->step, (uint32_t)s->stream,
                       ((uint64_t)s->first + i) / BP_CODEC_BLOCK, random);
        round_block(x, random, block);
        memcpy(at, block, 16 + count);
    }
}

static uint64_t expand_tasks(const void *scalars)
{
    const bp_expand_codes_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void expand_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_expand_codes_scalars *s = call->scalars;
    const bp_expand_codes_pointers *p = call->pointers;
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    const bp_dtype type = bp_call_type(call, 0);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i += BP_CODEC_BLOCK) {
        uint32_t count = (uint32_t)bp_least(end - i, BP_CODEC_BLOCK);
        float x[BP_CODEC_BLOCK];
        read_block((const uint8_t *)p->sum + bp_codec_bytes(i, BP_CODEC_COMPANDED8), count, x);
        for (uint32_t e = 0; e < count; e++) {
            bp_element_store(p->x, i + e, x[e], type);
        }
    }
}

const bp_host_kernel BP_SUMS(accumulate_codes) = {accumulate_tasks, accumulate_run, NULL};
const bp_host_kernel BP_SUMS(expand_codes) = {expand_tasks, expand_run, NULL};
