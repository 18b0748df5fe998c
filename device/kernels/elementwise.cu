/* SPDX-License-Identifier: MIT */
/* Kernels over flat runs of elements: GELU, dropout, copies. A thread takes four elements. */
#include "device/kernels/element.cuh"
#include "device/kernels/mask.cuh"

/* y = GELU(x); y may be x. */
BP_KERNEL bp_gelu_forward(bp_element *y, const bp_element *x, uint64_t count, uint32_t wide)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4];
    bp_load4(x + i, count - i, wide, v);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] = bp_gelu_inline(v[e]);
    }
    bp_store4(y + i, count - i, wide, v);
}

/* d_x = d_y * GELU'(x); d_x may be either. */
BP_KERNEL bp_gelu_backward(bp_element *d_x, const bp_element *d_y, const bp_element *x,
                           uint64_t count, uint32_t wide)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4], d[4];
    bp_load4(x + i, count - i, wide, v);
    bp_load4(d_y + i, count - i, wide, d);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        d[e] *= bp_gelu_slope_inline(v[e]);
    }
    bp_store4(d_x + i, count - i, wide, d);
}

/* Masks of elements i .. i + 3 of a run of samples; a group of four may reach into the next one. */
BP_DEVICE void run_masks(const bp_mask *mask, uint64_t i, uint64_t per_sample, float factor[4])
{
    uint64_t sample = i / per_sample, element = i % per_sample;
    if (element + 4 <= per_sample) {
        bp_mask4(mask, (uint32_t)sample, element, factor);
        return;
    }
#pragma unroll 1
    for (int e = 0; e < 4; e++) {
        float f = bp_mask1(mask, (uint32_t)sample, element);
        factor[0] = e == 0 ? f : factor[0];
        factor[1] = e == 1 ? f : factor[1];
        factor[2] = e == 2 ? f : factor[2];
        factor[3] = e == 3 ? f : factor[3];
        element++;
        sample += element == per_sample ? 1 : 0;
        element = element == per_sample ? 0 : element;
    }
}

/* y = fma(x, mask, residual), or x * mask; y may be x or residual. */
BP_KERNEL bp_dropout(bp_element *y, const bp_element *x, const bp_element *residual,
                     const bp_step_block *step, uint64_t count, uint64_t per_sample, uint32_t site,
                     uint32_t threshold, float factor, uint32_t wide)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4], r[4], f[4];
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    bp_load4(x + i, count - i, wide, v);
    run_masks(&mask, i, per_sample, f);
    if (residual != NULL) {
        bp_load4(residual + i, count - i, wide, r);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] = residual != NULL ? fmaf(v[e], f[e], r[e]) : v[e] * f[e];
    }
    bp_store4(y + i, count - i, wide, v);
}

/* y = x, as bits. */
BP_KERNEL bp_copy(bp_element *y, const bp_element *x, uint64_t count, uint32_t wide)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    if (wide && i + 4 <= count) {
        *(bp_element4 *)(y + i) = *(const bp_element4 *)(x + i);
        return;
    }
    uint64_t end = bp_least(count, i + 4);
#pragma unroll 1
    for (; i < end; i++) {
        y[i] = x[i];
    }
}

/* y = row last_row of x; a row beyond the last picks the last. */
BP_KERNEL bp_pick_row(bp_element *y, const bp_element *x, const bp_step_block *step, uint64_t rows,
                      uint64_t width)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i < width) {
        uint64_t row = bp_least(step->last_row, rows - 1);
        y[i] = x[row * width + i];
    }
}
