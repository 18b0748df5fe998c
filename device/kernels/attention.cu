/* SPDX-License-Identifier: MIT */
/* Causal attention in tiles, forward and backward, for head widths up to 128 that are multiples of 4. */
#include "device/kernels/attention.cuh"

/* delta = d_out . out of each row and head, fused, in order of the width; (batch, heads, sequence). */
BP_KERNEL bp_attention_delta(float *delta, const bp_element *d_out, const bp_element *out,
                             uint64_t rows, uint64_t sequence, uint64_t heads, uint64_t width)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= rows * heads) {
        return;
    }
    float sum = 0.0f;
#pragma unroll 4
    for (uint64_t d = 0; d < width; d++) {
        sum = fmaf(bp_from_element(d_out[i * width + d]), bp_from_element(out[i * width + d]), sum);
    }
    uint64_t row = i / heads, head = i % heads;
    delta[(row / sequence * heads + head) * sequence + row % sequence] = sum;
}

#define WIDTH   64
#define ROWS    64
#define TILE(x) x##_64_64
#define NAME(x) x##_64
#include "device/kernels/attention_tile.cuh"
#include "device/kernels/attention_forward.cuh"
#include "device/kernels/attention_backward.cuh"
#undef WIDTH
#undef TILE
#undef NAME

#define WIDTH   128
#define TILE(x) x##_128_64
#define NAME(x) x##_128
#include "device/kernels/attention_tile.cuh"
#include "device/kernels/attention_forward.cuh"
#undef ROWS
#undef TILE

#define ROWS    32
#define TILE(x) x##_128_32
#include "device/kernels/attention_tile.cuh"
#include "device/kernels/attention_backward.cuh"
