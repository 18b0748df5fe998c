/* SPDX-License-Identifier: MIT */
/* The update rules of kernels.def over one block, as loops that a compiler turns into vectors.
 * Included once per form of the host's kernels. Each line is the operations in their order. */
#ifndef BP_DEVICE_HOST_UPDATE_RULES_H
#define BP_DEVICE_HOST_UPDATE_RULES_H

#include <math.h>

#include "core/codec.h"
#include "device/host/update.h"

/* w (count) and the states move; g is the clipped gradient. A state that is absent is NULL. */
typedef void update_rule(const bp_update_factors *f, uint32_t count, float *restrict w,
                         const float *restrict g, float *const state[BP_UPDATE_STATES]);

static void rule_sgd(const bp_update_factors *f, uint32_t count, float *restrict w,
                     const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    float *restrict b = state[0];
    float rate = f->rate, decay = f->decay, keep = f->m_keep, gain = f->m_gain;
    if (b == NULL) {
        for (uint32_t i = 0; i < count; i++) {
            w[i] = fmaf(-rate, fmaf(decay, w[i], g[i]), w[i]);
        }
    } else if (f->nesterov) {
        for (uint32_t i = 0; i < count; i++) {
            float d = fmaf(decay, w[i], g[i]);
            b[i] = fmaf(keep, b[i], gain * d);
            w[i] = fmaf(-rate, fmaf(keep, b[i], d), w[i]);
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            b[i] = fmaf(keep, b[i], gain * fmaf(decay, w[i], g[i]));
            w[i] = fmaf(-rate, b[i], w[i]);
        }
    }
}

static inline void adam_loop(const bp_update_factors *f, uint32_t count, float *restrict w,
                             const float *restrict g, float *restrict m, float *restrict v,
                             bool coupled)
{
    float m_gain = f->m_gain, v_keep = f->v_keep, v_gain = f->v_gain, v_scale = f->v_scale;
    float epsilon = f->epsilon, rate = f->rate;
    float keep = coupled ? 1.0f : f->keep, decay = coupled ? f->decay : 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        float d = coupled ? fmaf(decay, w[i], g[i]) : g[i];
        m[i] = fmaf(m_gain, d - m[i], m[i]);
        v[i] = fmaf(d * v_gain, d, v[i] * v_keep);
        float below = fmaf(sqrtf(v[i]), v_scale, epsilon);
        w[i] = fmaf(-rate, m[i] / below, w[i] * keep);
    }
}

static void rule_adam(const bp_update_factors *f, uint32_t count, float *restrict w,
                      const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    adam_loop(f, count, w, g, state[0], state[1], true);
}

static void rule_adamw(const bp_update_factors *f, uint32_t count, float *restrict w,
                       const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    adam_loop(f, count, w, g, state[0], state[1], false);
}

static void rule_lion(const bp_update_factors *f, uint32_t count, float *restrict w,
                      const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    float *restrict m = state[0];
    float c_keep = f->c_keep, c_gain = f->c_gain, m_keep = f->m_keep, m_gain = f->m_gain;
    float rate = f->rate, keep = f->keep;
    for (uint32_t i = 0; i < count; i++) {
        float c = fmaf(c_keep, m[i], c_gain * g[i]);
        float up = c > 0.0f ? rate : 0.0f;
        float down = c < 0.0f ? rate : 0.0f;
        w[i] = fmaf(w[i], keep, down - up);
        m[i] = fmaf(m_keep, m[i], m_gain * g[i]);
    }
}

static void rule_rmsprop(const bp_update_factors *f, uint32_t count, float *restrict w,
                         const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    float *restrict v = state[0], *restrict b = state[1];
    float decay = f->decay, v_keep = f->v_keep, v_gain = f->v_gain, epsilon = f->epsilon;
    float rate = f->rate, m_keep = f->m_keep;
    if (b == NULL) {
        for (uint32_t i = 0; i < count; i++) {
            float d = fmaf(decay, w[i], g[i]);
            v[i] = fmaf(d * v_gain, d, v[i] * v_keep);
            w[i] = fmaf(-rate, d / (sqrtf(v[i]) + epsilon), w[i]);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        float d = fmaf(decay, w[i], g[i]);
        v[i] = fmaf(d * v_gain, d, v[i] * v_keep);
        b[i] = fmaf(m_keep, b[i], d / (sqrtf(v[i]) + epsilon));
        w[i] = fmaf(-rate, b[i], w[i]);
    }
}

static void rule_adagrad(const bp_update_factors *f, uint32_t count, float *restrict w,
                         const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    float *restrict s = state[0];
    float decay = f->decay, epsilon = f->epsilon, rate = f->rate;
    for (uint32_t i = 0; i < count; i++) {
        float d = fmaf(decay, w[i], g[i]);
        s[i] = fmaf(d, d, s[i]);
        w[i] = fmaf(-rate, d / (sqrtf(s[i]) + epsilon), w[i]);
    }
}

/* Moves the moments and leaves the update, before trust and rate, in u. */
static void lamb_direction(const bp_update_factors *f, uint32_t count, const float *restrict w,
                           const float *restrict g, float *restrict m, float *restrict v,
                           float *restrict u)
{
    float m_gain = f->m_gain, v_keep = f->v_keep, v_gain = f->v_gain, v_scale = f->v_scale;
    float m_scale = f->m_scale, epsilon = f->epsilon, decay = f->decay;
    for (uint32_t i = 0; i < count; i++) {
        m[i] = fmaf(m_gain, g[i] - m[i], m[i]);
        v[i] = fmaf(g[i] * v_gain, g[i], v[i] * v_keep);
        float below = fmaf(sqrtf(v[i]), v_scale, epsilon);
        u[i] = fmaf(decay, w[i], m[i] * m_scale / below);
    }
}

static void rule_lamb(const bp_update_factors *f, uint32_t count, float *restrict w,
                      const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    float u[BP_CODEC_BLOCK];
    float rate = f->rate;
    lamb_direction(f, count, w, g, state[0], state[1], u);
    for (uint32_t i = 0; i < count; i++) {
        w[i] = fmaf(-rate, u[i], w[i]);
    }
}

static void rule_lars(const bp_update_factors *f, uint32_t count, float *restrict w,
                      const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    float *restrict b = state[0];
    float decay = f->decay, rate = f->rate, keep = f->m_keep;
    for (uint32_t i = 0; i < count; i++) {
        b[i] = fmaf(keep, b[i], rate * fmaf(decay, w[i], g[i]));
        w[i] = w[i] - b[i];
    }
}

static void rule_ademamix(const bp_update_factors *f, uint32_t count, float *restrict w,
                          const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    float *restrict m = state[0], *restrict n = state[1], *restrict v = state[2];
    float m_gain = f->m_gain, n_gain = f->n_gain, v_keep = f->v_keep, v_gain = f->v_gain;
    float m_scale = f->m_scale, v_scale = f->v_scale, mix = f->mix, epsilon = f->epsilon;
    float rate = f->rate, keep = f->keep;
    for (uint32_t i = 0; i < count; i++) {
        m[i] = fmaf(m_gain, g[i] - m[i], m[i]);
        n[i] = fmaf(n_gain, g[i] - n[i], n[i]);
        v[i] = fmaf(g[i] * v_gain, g[i], v[i] * v_keep);
        float below = fmaf(sqrtf(v[i]), v_scale, epsilon);
        w[i] = fmaf(-rate, fmaf(mix, n[i], m[i] * m_scale) / below, w[i] * keep);
    }
}

#endif
