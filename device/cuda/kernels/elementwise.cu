/* SPDX-License-Identifier: MIT */
/* Kernels over flat runs of elements: GELU, dropout, copies, and the sums of a product's splits. A
 * thread takes four elements. */
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/mask.cuh"
#include "device/cuda/kernels/products/matmul.cuh"

/* y = GELU(x); y may be x. */
BP_KERNEL bp_gelu_forward(void *y, const void *x, uint64_t count, uint32_t form)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4];
    bp_load4(x, i, count - i, form, v);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] = bp_gelu_inline(v[e]);
    }
    bp_store4(y, i, count - i, form, v);
}

/* d_x = d_y * GELU'(x); d_x may be either. */
BP_KERNEL bp_gelu_backward(void *d_x, const void *d_y, const void *x, uint64_t count, uint32_t form)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4], d[4];
    bp_load4(x, i, count - i, form, v);
    bp_load4(d_y, i, count - i, form, d);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        d[e] *= bp_gelu_slope_inline(v[e]);
    }
    bp_store4(d_x, i, count - i, form, d);
}

/* Masks of elements i .. i + 3 of a run of samples; a group of four may reach into the next one. */
BP_DEVICE void run_masks(const bp_mask *mask, uint64_t i, uint64_t per_sample, float factor[4])
{
    uint64_t sample = i / per_sample, element = i % per_sample;
    uint64_t left = per_sample - element; /* of this sample */
    factor[0] = factor[1] = factor[2] = factor[3] = 0.0f;
#pragma unroll 1
    for (uint64_t done = 0; done < 4; done += left, left = per_sample) {
        float f[4];
        bp_mask4(mask, (uint32_t)sample, element, f);
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            float g = done == 1 ? f[e > 1 ? e - 1 : 0] : f[e];
            g = done == 2 ? f[e > 2 ? e - 2 : 0] : g;
            g = done == 3 ? f[0] : g;
            factor[e] = e >= done ? g : factor[e];
        }
        sample++;
        element = 0;
    }
}

/* y = fma(x, mask, residual), or x * mask; y may be x or residual. The first of x is element
 * `first` of the samples. */
BP_KERNEL bp_dropout(void *y, const void *x, const void *residual, const bp_step_block *step,
                     uint64_t count, uint64_t per_sample, uint32_t site, uint32_t threshold,
                     float factor, uint64_t first, uint32_t form)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4], r[4], f[4];
    bp_mask mask = bp_mask_make(step, site, threshold, factor);
    bp_load4(x, i, count - i, form, v);
    run_masks(&mask, first + i, per_sample, f);
    if (residual != NULL) {
        bp_load4(residual, i, count - i, form, r);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] = residual != NULL ? fmaf(v[e], f[e], r[e]) : v[e] * f[e];
    }
    bp_store4(y, i, count - i, form, v);
}

/* y = x, as bits; the type says how many. */
/* y = factor x; they may be the same. */
BP_KERNEL bp_scale(void *y, const void *x, uint64_t count, float factor, uint32_t form)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4];
    bp_load4(x, i, count - i, form, v);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] *= factor;
    }
    bp_store4(y, i, count - i, form, v);
}

BP_KERNEL bp_copy(void *y, const void *x, uint64_t count, uint32_t form)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    bool single = bp_is_single(form);
    if ((form & BP_WIDE) != 0 && i + 4 <= count) {
        if (single) {
            *(uint4 *)((uint32_t *)y + i) = *(const uint4 *)((const uint32_t *)x + i);
        } else {
            *(uint2 *)((uint16_t *)y + i) = *(const uint2 *)((const uint16_t *)x + i);
        }
        return;
    }
    uint64_t end = bp_least(count, i + 4);
#pragma unroll 1
    for (; i < end; i++) {
        if (single) {
            ((uint32_t *)y)[i] = ((const uint32_t *)x)[i];
        } else {
            ((uint16_t *)y)[i] = ((const uint16_t *)x)[i];
        }
    }
}

/* y = row last_row of x; a row beyond the last picks the last. */
BP_KERNEL bp_pick_row(void *y, const void *x, const bp_step_block *step, uint64_t rows,
                      uint64_t width, uint32_t form)
{
    uint64_t i = (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
    if (i < width) {
        uint64_t row = bp_least(step->last_row, rows - 1);
        bp_put(y, i, form, bp_get(x, row * width + i, form));
    }
}

/* Gates and ups lie in rows at a pitch: where those of element i are. */
BP_DEVICE uint64_t gated_place(uint64_t i, uint64_t width, uint64_t pitch)
{
    return width == pitch ? i : i / width * pitch + i % width;
}

BP_DEVICE void gated_load(const void *x, uint64_t i, uint64_t count, uint64_t width, uint64_t pitch,
                          uint32_t form, float v[4])
{
    if (width == pitch) {
        bp_load4(x, i, count - i, form, v);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        v[e] = i + e < count ? bp_get(x, gated_place(i + e, width, pitch), form) : 0.0f;
    }
}

BP_DEVICE void gated_store(void *x, uint64_t i, uint64_t count, uint64_t width, uint64_t pitch,
                           uint32_t form, const float v[4])
{
    if (width == pitch) {
        bp_store4(x, i, count - i, form, v);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        if (i + e < count) {
            bp_put(x, gated_place(i + e, width, pitch), form, v[e]);
        }
    }
}

/* bp_gate of core/ops/activation.h. */
#define GATE_SILU      0u
#define GATE_GELU_TANH 1u

/* y = f(gate) * up; y may be either. */
BP_KERNEL bp_swiglu_forward(void *y, const void *gate, const void *up, uint64_t count,
                            uint32_t form, uint32_t kind, uint64_t width, uint64_t pitch)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float g[4], u[4];
    gated_load(gate, i, count, width, pitch, form, g);
    gated_load(up, i, count, width, pitch, form, u);
    if (kind == GATE_SILU) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            u[e] *= bp_silu_inline(g[e]);
        }
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            u[e] *= kind == GATE_GELU_TANH ? bp_gelu_inline(g[e]) : bp_gelu_erf_inline(g[e]);
        }
    }
    bp_store4(y, i, count - i, form, u);
}

/* With q = 1 / (1 + e), e = exp(-gate): silu = gate q, and its slope q (1 + gate (e q)), where e q
 * = 1 - q without its cancellation. For gates below -80 both are 0 in every bit that counts. */
BP_KERNEL bp_swiglu_backward(void *d_gate, void *d_up, const void *d_y, const void *gate,
                             const void *up, uint64_t count, uint32_t form, uint32_t kind,
                             uint64_t width, uint64_t pitch)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float d[4], g[4], u[4];
    bp_load4(d_y, i, count - i, form, d);
    gated_load(gate, i, count, width, pitch, form, g);
    gated_load(up, i, count, width, pitch, form, u);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float active, slope;
        if (kind == GATE_SILU) {
            float x = g[e] < -80.0f ? -80.0f : g[e];
            float power = bp_expf_inline(-x);
            float q = 1.0f / (1.0f + power);
            slope = q * fmaf(x, power * q, 1.0f);
            active = x * q;
        } else if (kind == GATE_GELU_TANH) {
            slope = bp_gelu_slope_inline(g[e]);
            active = bp_gelu_inline(g[e]);
        } else {
            slope = bp_gelu_erf_slope_inline(g[e]);
            active = bp_gelu_erf_inline(g[e]);
        }
        g[e] = (d[e] * u[e]) * slope;
        u[e] = d[e] * active;
    }
    gated_store(d_gate, i, count, width, pitch, form, g);
    gated_store(d_up, i, count, width, pitch, form, u);
}

/* bp_activation of core/ops/activation.h. */
#define GELU_ERF     0u
#define TANH         1u
#define RELU6        3u
#define RELU_SQUARED 4u
#define GELU_QUICK   5u
#define QUICK        1.702f /* BP_GELU_QUICK */

/* y = f(x), with its slope instead for backward: d_y is there, and y = d_y * f'(x). */
BP_KERNEL bp_activation(void *y, const void *d_y, const void *x, uint64_t count, uint32_t kind,
                        uint32_t form)
{
    uint64_t i = bp_run_first();
    if (i >= count) {
        return;
    }
    float v[4], d[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    bool slope = d_y != NULL;
    bp_load4(x, i, count - i, form, v);
    if (slope) {
        bp_load4(d_y, i, count - i, form, d);
    }
    /* by turns, so that the code is there once */
#pragma unroll 1
    for (int e = 0; e < 4; e++) {
        float a = v[0], b = d[0], r;
        if (kind == GELU_ERF) {
            r = slope ? bp_gelu_erf_slope_inline(a) : bp_gelu_erf_inline(a);
        } else if (kind == TANH) {
            float t = bp_tanhf_inline(a);
            r = slope ? fmaf(-t, t, 1.0f) : t;
        } else if (kind == GELU_QUICK) {
            float u = QUICK * a, g = slope && u < -80.0f ? -80.0f : u;
            float e = bp_expf_inline(-g), q = 1.0f / (1.0f + e);
            r = slope ? q * fmaf(g, e * q, 1.0f) : a / (1.0f + e);
        } else {
            bool above = kind == RELU6 && a >= 6.0f;
            float kept = a > 0.0f || a != a ? a : 0.0f, step = a > 0.0f && !above ? 1.0f : 0.0f;
            r = slope ? step : above ? 6.0f : kept;
            if (kind == RELU_SQUARED) {
                r = slope ? kept + kept : kept * kept;
            }
        }
        v[0] = v[1];
        v[1] = v[2];
        v[2] = v[3];
        v[3] = slope ? b * r : r;
        d[0] = d[1];
        d[1] = d[2];
        d[2] = d[3];
    }
    bp_store4(y, i, count - i, form, v);
}

/* A product of any types whose splits are in its workspace. */
BP_KERNEL bp_matmul_join(BP_PRODUCT_PARAMETERS)
{
    if (m != 0) {
        const bp_product product = BP_PRODUCT_GATHER;
        bp_product_join(&product);
    }
}
