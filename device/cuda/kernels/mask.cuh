/* SPDX-License-Identifier: MIT */
/* Dropout masks: the host's words (core/base/random.h), four elements at a time. */
#ifndef BP_DEVICE_KERNELS_MASK_CUH
#define BP_DEVICE_KERNELS_MASK_CUH

#include "device/cuda/kernels/philox.cuh"

/* What the masks of one sample depend on. */
typedef struct bp_mask {
    uint64_t seed;
    uint32_t step;
    uint32_t sample;
    uint32_t site;
    uint32_t threshold; /* 0: nothing is dropped */
    float factor;       /* of a kept element */
} bp_mask;

BP_DEVICE bp_mask bp_mask_make(const bp_step_block *step, uint32_t site, uint32_t threshold,
                               float factor)
{
    bp_mask mask;
    mask.seed = step->seed;
    mask.step = (uint32_t)step->step;
    mask.sample = step->sample;
    mask.site = site;
    mask.threshold = threshold;
    mask.factor = factor;
    return mask;
}

/* The words of elements 4 * block .. 4 * block + 3 of sample number `sample` of the micro-batch. */
BP_DEVICE void bp_mask_words(const bp_mask *mask, uint32_t sample, uint64_t block, uint32_t w[4])
{
    bp_philox((uint32_t)block, mask->site << 12 | ((uint32_t)(block >> 32) & 0xfff),
              mask->sample + sample, mask->step, mask->seed, w);
}

/* The words of elements first .. first + 3. */
BP_DEVICE void bp_mask_words4(const bp_mask *mask, uint32_t sample, uint64_t first, uint32_t out[4])
{
    uint32_t w[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    uint32_t part = (uint32_t)first & 3;
    /* a group that is not aligned reaches into the next block's words; their code is there once */
#pragma unroll 1
    for (uint32_t turn = part != 0 ? 0 : 1; turn < 2; turn++) {
        w[0] = w[4];
        w[1] = w[5];
        w[2] = w[6];
        w[3] = w[7];
        bp_mask_words(mask, sample, first / 4 + (part != 0 ? turn : 0), w + 4);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t word = w[i + 4];
        word = part == 1 ? w[i + 1] : word;
        word = part == 2 ? w[i + 2] : word;
        word = part == 3 ? w[i + 3] : word;
        out[i] = word;
    }
}

/* out[i] = factor or 0 of element first + i, i = 0 .. 3. */
BP_DEVICE void bp_mask4(const bp_mask *mask, uint32_t sample, uint64_t first, float out[4])
{
    uint32_t w[4];
    bp_mask_words4(mask, sample, first, w);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[i] = w[i] < mask->threshold ? 0.0f : mask->factor;
    }
}

/* The same for one element. */
BP_DEVICE float bp_mask1(const bp_mask *mask, uint32_t sample, uint64_t element)
{
    uint32_t w[4];
    uint32_t part = (uint32_t)element & 3;
    bp_mask_words(mask, sample, element / 4, w);
    uint32_t low = (part & 1) != 0 ? w[1] : w[0];
    uint32_t high = (part & 1) != 0 ? w[3] : w[2];
    uint32_t word = (part & 2) != 0 ? high : low;
    return word < mask->threshold ? 0.0f : mask->factor;
}

#endif
