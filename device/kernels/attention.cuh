/* SPDX-License-Identifier: MIT */
/* What the attention kernels share: where a head's rows are, and dropout by the tile. */
#ifndef BP_DEVICE_KERNELS_ATTENTION_CUH
#define BP_DEVICE_KERNELS_ATTENTION_CUH

#include "device/kernels/double.cuh"
#include "device/kernels/element.cuh"
#include "device/kernels/mask.cuh"
#include "device/kernels/reduce.cuh"

/* The shape of an attention and its dropout. qkv (batch, sequence, 3, heads, width). */
typedef struct bp_attention {
    uint64_t sequence;
    uint64_t heads;
    uint64_t width;
    float scale; /* 1 / sqrt(width) */
    uint32_t site;
    uint32_t threshold;
    float factor;
    uint32_t form; /* of all operands that are elements */
} bp_attention;

#define BP_ATTENTION_PARAMETERS                                                                    \
    const bp_step_block *step, uint64_t sequence, uint64_t heads, uint64_t width, float scale,     \
        uint32_t site, uint32_t threshold, float factor, uint32_t form
#define BP_ATTENTION_GATHER {sequence, heads, width, scale, site, threshold, factor, form}

/* One head of one sample. */
typedef struct bp_head {
    uint64_t sample;
    uint64_t number;
    uint64_t pitch;     /* between rows of q, of k and of v */
    uint64_t first;     /* row 0 of q; k is heads * width further, v twice that */
    uint64_t step_k;    /* heads * width: also the pitch of out and d_out */
    uint64_t first_out; /* row 0 of this head in out and d_out */
    uint64_t first_row; /* in lse and delta, (batch, heads, sequence) */
} bp_head;

BP_DEVICE bp_head bp_head_make(const bp_attention *at, uint64_t index)
{
    bp_head head;
    head.sample = index / at->heads;
    head.number = index % at->heads;
    head.step_k = at->heads * at->width;
    head.pitch = 3 * head.step_k;
    head.first = head.sample * at->sequence * head.pitch + head.number * at->width;
    head.first_out = head.sample * at->sequence * head.step_k + head.number * at->width;
    head.first_row = index * at->sequence;
    return head;
}

/* Bits of the kept ones among elements (number * T + row) * T + column .. + 15. */
BP_DEVICE uint32_t bp_head_mask16(const bp_mask *mask, const bp_attention *at, const bp_head *head,
                                  uint64_t row, uint64_t column)
{
    uint64_t element = (head->number * at->sequence + row) * at->sequence + column;
    uint32_t bits = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 16; i += 4) {
        float f[4];
        bp_mask4(mask, (uint32_t)head->sample, element + i, f);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            bits |= f[e] != 0.0f ? 1u << (i + e) : 0;
        }
    }
    return bits;
}

#endif
