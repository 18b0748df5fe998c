/* SPDX-License-Identifier: MIT */
/* Attention in tiles with sums as the host makes them, for single precision, and for 16 bits where
 * rows are no whole groups of eight; for head widths that are multiples of 4. */
#include "device/cuda/kernels/attention/attention_tile.cuh"

#define NAME(x) x
#include "device/cuda/kernels/attention/attention_body.cuh"

/* delta = d_out . out of each row and head, fused, in order of the width; (batch, heads, sequence).
 * Of packed documents (starts not NULL) each head's row of delta is followed by one of its lse. */
BP_KERNEL bp_attention_delta(float *delta, const void *d_out, const void *out, const float *lse,
                             const int32_t *starts, uint64_t rows, uint64_t sequence,
                             uint64_t heads, uint64_t width, uint32_t form)
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
    uint64_t row = i / heads, number = i % heads, place = row % sequence;
    uint64_t first = (row / sequence * heads + number) * sequence;
    if (starts == NULL) {
        delta[first + place] = sum;
        return;
    }
    bp_attention at = {starts, sequence, heads, 1, width, 1.0f, 3, 0, 0, 1.0f, form, 0.0f, 0};
    bp_head head;
    head.sample = row / sequence;
    head.number = number;
    delta[2 * first + place] = sum;
    delta[2 * first + sequence + place] = lse[bp_head_lse(&at, &head, place)];
}
