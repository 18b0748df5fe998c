/* SPDX-License-Identifier: MIT */
/* Steps of recurrent cells, and what goes on from one piece of time to the next. A thread takes one
 * element. */
#include "device/cuda/kernels/element.cuh"

BP_DEVICE float logistic(float x)
{
    return 1.0f / (1.0f + bp_expf_inline(-x));
}

BP_DEVICE uint64_t element_of(void)
{
    return (uint64_t)blockIdx.x * BP_RUN_THREADS + threadIdx.x;
}

/* Place of part 0 of element i of (rows, width) in a row of `parts` parts; the next lies `width`
 * on. */
BP_DEVICE uint64_t part_of(uint64_t i, uint64_t width, uint64_t parts)
{
    return i / width * parts * width + i % width;
}

/* y[t * batch + b] = x[b * sequence + t] */
BP_KERNEL bp_time_slice(int32_t *y, const int32_t *x, uint64_t batch, uint64_t sequence,
                        uint64_t length)
{
    uint64_t i = element_of();
    if (i < batch * length) {
        y[i] = x[i % batch * sequence + i / batch];
    }
}

/* y = x, or 0. */
BP_KERNEL bp_state_begin(void *y, const void *x, const bp_step_block *step, uint64_t count,
                         uint32_t decode, uint32_t form)
{
    uint64_t i = element_of();
    if (i >= count) {
        return;
    }
    bool starts = x == NULL || (decode != 0 && step->position == 0);
    if (bp_is_single(form)) {
        ((uint32_t *)y)[i] = starts ? 0 : ((const uint32_t *)x)[i];
    } else {
        ((uint16_t *)y)[i] = starts ? 0 : ((const uint16_t *)x)[i];
    }
}

BP_KERNEL bp_gru_forward(void *h, void *kept, void *gates, const void *hidden, const void *h_before,
                         uint64_t rows, uint64_t width, uint32_t form)
{
    uint64_t i = element_of();
    if (i >= rows * width) {
        return;
    }
    uint64_t at = part_of(i, width, 3);
    float r = logistic(bp_get(gates, at, form) + bp_get(hidden, at, form));
    float z = logistic(bp_get(gates, at + width, form) + bp_get(hidden, at + width, form));
    float own = bp_get(hidden, at + 2 * width, form);
    float n = bp_tanhf_inline(fmaf(r, own, bp_get(gates, at + 2 * width, form)));
    bp_put(gates, at, form, r);
    bp_put(gates, at + width, form, z);
    bp_put(gates, at + 2 * width, form, n);
    bp_put(kept, i, form, own);
    bp_put(h, i, form, fmaf(z, bp_get(h_before, i, form) - n, n));
}

BP_KERNEL bp_gru_backward(void *d_gates, void *d_hidden, void *d_h, const void *d_y,
                          const void *gates, const void *kept, const void *h_before, uint64_t rows,
                          uint64_t width, uint32_t form)
{
    uint64_t i = element_of();
    if (i >= rows * width) {
        return;
    }
    uint64_t at = part_of(i, width, 3);
    float r = bp_get(gates, at, form), z = bp_get(gates, at + width, form);
    float n = bp_get(gates, at + 2 * width, form);
    float d = bp_get(d_y, i, form) + bp_get(d_h, i, form);
    float d_n = d * (1.0f - z) * fmaf(-n, n, 1.0f);
    float d_z = d * (bp_get(h_before, i, form) - n) * (z * (1.0f - z));
    float d_r = d_n * bp_get(kept, i, form) * (r * (1.0f - r));
    bp_put(d_gates, at, form, d_r);
    bp_put(d_gates, at + width, form, d_z);
    bp_put(d_gates, at + 2 * width, form, d_n);
    bp_put(d_hidden, at, form, d_r);
    bp_put(d_hidden, at + width, form, d_z);
    bp_put(d_hidden, at + 2 * width, form, d_n * r);
    bp_put(d_h, i, form, d * z);
}

BP_KERNEL bp_lstm_forward(void *h, void *c, void *gates, const void *c_before, uint64_t rows,
                          uint64_t width, uint32_t form)
{
    uint64_t i = element_of();
    if (i >= rows * width) {
        return;
    }
    uint64_t at = part_of(i, width, 4);
    float in = logistic(bp_get(gates, at, form));
    float forget = logistic(bp_get(gates, at + width, form));
    float cell = bp_tanhf_inline(bp_get(gates, at + 2 * width, form));
    float out = logistic(bp_get(gates, at + 3 * width, form));
    float state = fmaf(forget, bp_get(c_before, i, form), in * cell);
    bp_put(gates, at, form, in);
    bp_put(gates, at + width, form, forget);
    bp_put(gates, at + 2 * width, form, cell);
    bp_put(gates, at + 3 * width, form, out);
    bp_put(c, i, form, state);
    bp_put(h, i, form, out * bp_tanhf_inline(state));
}

BP_KERNEL bp_lstm_backward(void *d_gates, void *d_c, const void *d_h, const void *d_y,
                           const void *gates, const void *c, const void *c_before, uint64_t rows,
                           uint64_t width, uint32_t form)
{
    uint64_t i = element_of();
    if (i >= rows * width) {
        return;
    }
    uint64_t at = part_of(i, width, 4);
    float in = bp_get(gates, at, form), forget = bp_get(gates, at + width, form);
    float cell = bp_get(gates, at + 2 * width, form), out = bp_get(gates, at + 3 * width, form);
    float d = bp_get(d_y, i, form) + bp_get(d_h, i, form);
    float t = bp_tanhf_inline(bp_get(c, i, form));
    float e = fmaf(d * out, fmaf(-t, t, 1.0f), bp_get(d_c, i, form));
    bp_put(d_gates, at, form, e * cell * (in * (1.0f - in)));
    bp_put(d_gates, at + width, form, e * bp_get(c_before, i, form) * (forget * (1.0f - forget)));
    bp_put(d_gates, at + 2 * width, form, e * in * fmaf(-cell, cell, 1.0f));
    bp_put(d_gates, at + 3 * width, form, d * t * (out * (1.0f - out)));
    bp_put(d_c, i, form, e * forget);
}
