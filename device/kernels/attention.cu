/* SPDX-License-Identifier: MIT */
/* Attention in tiles with sums as the host makes them, for single precision, and for 16 bits where
 * rows are no whole groups of eight; for head widths that are multiples of 4. */
#include "device/kernels/attention_tile.cuh"

#define NAME(x) x
#include "device/kernels/attention_body.cuh"

/* delta = d_out . out of each row and head, fused, in order of the width; (batch, heads, sequence).
 */
BP_KERNEL bp_attention_delta(float *delta, const void *d_out, const void *out, uint64_t rows,
                             uint64_t sequence, uint64_t heads, uint64_t width, uint32_t form)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i >= rows * heads) {
        return;
    }
    float sum = 0.0f;
#pragma unroll 1
    for (uint64_t d = 0; d < width; d += 4) {
        float x[4], y[4];
        bp_load4(d_out, i * width + d, width - d, form, x);
        bp_load4(out, i * width + d, width - d, form, y);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            sum = d + e < width ? fmaf(x[e], y[e], sum) : sum;
        }
    }
    uint64_t row = i / heads, head = i % heads;
    delta[(row / sequence * heads + head) * sequence + row % sequence] = sum;
}
