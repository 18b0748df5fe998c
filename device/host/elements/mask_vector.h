/* SPDX-License-Identifier: MIT */
/* Dropout masks in vectors: sixteen Philox blocks at a time (core/base/random.h has the
 * generator). Included after a vector header. */
#ifndef BP_DEVICE_HOST_MASK_VECTOR_H
#define BP_DEVICE_HOST_MASK_VECTOR_H

#include <string.h>

#include "device/host/elements/mask.h"

#define BP_MASK_RUN 64 /* elements of sixteen blocks */

/* bp_mask_fill for elements first .. first + 63, first a multiple of 4, when the number of the
 * last block has the same upper half as that of the first. */
static inline void bp_mask_blocks(const bp_mask *mask, uint64_t first, float out[BP_MASK_RUN])
{
    uint64_t block = first / 4;
    uint32_t k0 = (uint32_t)mask->seed, k1 = (uint32_t)(mask->seed >> 32);
    bp_v_word c0 = bp_v_word_add(bp_v_word_set((uint32_t)block), bp_v_word_count());
    bp_v_word c1 = bp_v_word_set(mask->site << 12 | ((uint32_t)(block >> 32) & 0xfff));
    bp_v_word c2 = bp_v_word_set(mask->sample);
    bp_v_word c3 = bp_v_word_set((uint32_t)mask->step);
    for (int round = 0; round < 10; round++) {
        bp_v_word high0, high1;
        bp_v_word low0 = bp_v_word_multiply(c0, UINT32_C(0xD2511F53), &high0);
        bp_v_word low1 = bp_v_word_multiply(c2, UINT32_C(0xCD9E8D57), &high1);
        c0 = bp_v_word_xor(bp_v_word_xor(high1, c1), bp_v_word_set(k0));
        c1 = low1;
        c2 = bp_v_word_xor(bp_v_word_xor(high0, c3), bp_v_word_set(k1));
        c3 = low0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    const bp_v kept[4] = {bp_v_word_keep(c0, mask->threshold, mask->factor),
                          bp_v_word_keep(c1, mask->threshold, mask->factor),
                          bp_v_word_keep(c2, mask->threshold, mask->factor),
                          bp_v_word_keep(c3, mask->threshold, mask->factor)};
    bp_v_store_interleaved(out, kept);
}

/* The same as bp_mask_fill. */
static inline void bp_mask_row(const bp_mask *mask, uint64_t first, uint64_t count, float *out)
{
    while (count > 0) {
        float blocks[BP_MASK_RUN];
        uint64_t run = count < BP_MASK_RUN ? count : BP_MASK_RUN;
        uint32_t block = (uint32_t)(first / 4);
        if (first % 4 != 0 || block > UINT32_MAX - BP_V) {
            run = run < 4 - first % 4 ? run : 4 - first % 4;
            bp_mask_fill(mask, first, run, blocks);
        } else {
            bp_mask_blocks(mask, first, blocks);
        }
        memcpy(out, blocks, run * sizeof(float));
        first += run;
        count -= run;
        out += run;
    }
}

#endif
