/* SPDX-License-Identifier: MIT */
/* The arithmetic of the update rules of kernels.def, element by element: the one text from which
 * all forms of the host's kernels and the CUDA kernels are built, so that they agree to the last
 * bit. Each line of a rule is the operations in their order. */
#ifndef BP_CORE_UPDATE_H
#define BP_CORE_UPDATE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/ir/step.h"

/* The rules in the order of their rows. */
enum {
    BP_UPDATE_SGD,
    BP_UPDATE_ADAM,
    BP_UPDATE_ADAMW,
    BP_UPDATE_LION,
    BP_UPDATE_RMSPROP,
    BP_UPDATE_ADAGRAD,
    BP_UPDATE_LAMB,
    BP_UPDATE_LARS,
    BP_UPDATE_ADEMAMIX,
    BP_UPDATE_SCHEDULE_FREE,
    BP_UPDATE_SCALED
};

/* Parts of AdamA (kernels.def, adamw): all of the rule, the first gradient of a step, a further
 * one, the last one. */
enum {
    BP_UPDATE_ACCUMULATE_NONE,
    BP_UPDATE_ACCUMULATE_FIRST,
    BP_UPDATE_ACCUMULATE_NEXT,
    BP_UPDATE_ACCUMULATE_LAST
};

#define BP_UPDATE_STATES 3
#define BP_UPDATE_OWN    7 /* most scalars of a row's own */

/* UPDATE_SCALARS of kernels.def, which every row of updates and norms begins with; a row's own
 * scalars follow, 8 bytes each. */
typedef struct bp_update_scalars {
    int64_t count;
    int64_t first;
    int64_t stream;
    int64_t form;
    int64_t master_form;
    double decay;
    double rate_scale;
} bp_update_scalars;

/* What is the same for all elements of a tensor in one step. */
typedef struct bp_update_factors {
    float clip;    /* of the gradient */
    float rate;    /* of the step, its bias correction and trust included */
    float keep;    /* 1 - rate * decay, where decay is decoupled */
    float decay;   /* where it is part of the gradient or of the update */
    float m_keep;  /* of the first moment: momentum, or lion's beta2 */
    float m_gain;  /* what is added to it */
    float m_scale; /* lamb, ademamix: 1 / (1 - beta1^t) */
    float n_gain;  /* ademamix: 1 - beta3(t) */
    float mix;     /* ademamix: alpha(t); schedule_free: c */
    float c_keep;  /* lion: beta1, of what the sign is taken; c_gain = 1 - beta1 */
    float c_gain;  /* schedule_free: beta1 lr */
    float v_keep;  /* of the second moment */
    float v_gain;  /* 1 - v_keep */
    float v_scale; /* 1 / sqrt(1 - beta2^t) */
    float epsilon; /* beside the root of the second moment */
    uint32_t nesterov;
    uint32_t fold; /* adam, adamw: which part of AdamA; 0: the whole rule */
} bp_update_factors;

/* Which states of a rule can be negative: bit 0 for state1. */
static inline uint32_t bp_update_signs(uint32_t rule)
{
    return rule == BP_UPDATE_ADEMAMIX  ? 3u
           : rule == BP_UPDATE_RMSPROP ? 2u
           : rule == BP_UPDATE_ADAGRAD ? 0u
                                       : 1u;
}

/* A row's own scalar number i. */
static inline double bp_update_own(const bp_update_scalars *s, uint32_t i)
{
    double value;
    memcpy(&value, (const char *)s + sizeof *s + 8 * i, sizeof value);
    return value;
}

static inline double bp_update_epsilon(uint32_t rule, const bp_update_scalars *s)
{
    switch (rule) {
    case BP_UPDATE_SGD:
    case BP_UPDATE_LION:
    case BP_UPDATE_LARS:
    case BP_UPDATE_SCALED:
        return 0.0;
    case BP_UPDATE_ADAGRAD:
        return bp_update_own(s, 0);
    case BP_UPDATE_RMSPROP:
        return bp_update_own(s, 1);
    case BP_UPDATE_ADEMAMIX:
        return bp_update_own(s, 3);
    default:
        return bp_update_own(s, 2);
    }
}

/* The factors, computed in double and rounded once. `beta3` is ademamix's beta3(t), or scaled's b;
 * trust, or scaled's a, 1 where there is none. */
static inline void bp_update_prepare(bp_update_factors *f, uint32_t rule,
                                     const bp_update_scalars *s, const bp_control_block *control,
                                     const bp_step_block *step, float trust, double beta3)
{
    double rate = (double)step->learning_rate * s->rate_scale * (double)trust;
    double a = bp_update_own(s, 0), t = (double)control->applied;
    bool one = rule == BP_UPDATE_ADAGRAD || rule == BP_UPDATE_LARS || rule == BP_UPDATE_SCALED;
    double b = one ? 0.0 : bp_update_own(s, 1);
    f->clip = control->clip;
    f->rate =
        (float)(rule == BP_UPDATE_ADAM || rule == BP_UPDATE_ADAMW ? rate / control->correction1
                                                                  : rate);
    f->keep = (float)(1.0 - rate * s->decay);
    f->decay = (float)s->decay;
    /* the Adam family: a = beta1, b = beta2 */
    f->m_keep = (float)a;
    f->m_gain = (float)(1.0 - a);
    f->m_scale = (float)(1.0 / control->correction1);
    f->v_keep = (float)b;
    f->v_gain = (float)(1.0 - b);
    f->v_scale = (float)(1.0 / sqrt(control->correction2));
    f->epsilon = (float)bp_update_epsilon(rule, s);
    f->n_gain = 0.0f;
    f->mix = 0.0f;
    f->c_keep = 0.0f;
    f->c_gain = 0.0f;
    f->nesterov = 0;
    f->fold = 0;
    if (rule == BP_UPDATE_SCALED) { /* beta, rows, width, raw */
        int64_t raw;
        memcpy(&raw, (const char *)s + sizeof *s + 24, sizeof raw);
        f->clip = raw != 0 ? 1.0f : f->clip;
        f->rate = (float)(a > 0.0 ? rate / control->correction1 : rate);
        f->keep = (float)(1.0 - (double)step->learning_rate * s->rate_scale * beta3 * s->decay);
    } else if (rule == BP_UPDATE_ADAM ||
               rule == BP_UPDATE_ADAMW) { /* beta1, beta2, epsilon, fold */
        int64_t fold;
        memcpy(&fold, (const char *)s + sizeof *s + 24, sizeof fold);
        f->fold = (uint32_t)fold;
    } else if (rule == BP_UPDATE_SGD) { /* momentum, dampening, nesterov */
        int64_t nesterov;
        memcpy(&nesterov, (const char *)s + sizeof *s + 16, sizeof nesterov);
        f->m_gain = control->applied > 1 ? (float)(1.0 - b) : 1.0f;
        f->nesterov = nesterov != 0;
    } else if (rule == BP_UPDATE_LION) { /* beta1, beta2 */
        f->c_keep = (float)a;
        f->c_gain = (float)(1.0 - a);
        f->m_keep = (float)b;
        f->m_gain = (float)(1.0 - b);
    } else if (rule == BP_UPDATE_RMSPROP) { /* alpha, epsilon, momentum */
        f->v_keep = (float)a;
        f->v_gain = (float)(1.0 - a);
        f->m_keep = (float)bp_update_own(s, 2);
    } else if (rule == BP_UPDATE_SCHEDULE_FREE) { /* beta1, beta2, epsilon */
        const double mix = (double)control->average_mix;
        f->mix = control->average_mix;
        f->m_keep = (float)(1.0 - mix);
        f->c_gain = (float)(a * rate);
        f->rate = (float)(rate * (1.0 - a * (1.0 - mix)));
    } else if (rule ==
               BP_UPDATE_ADEMAMIX) { /* beta1, beta2, beta3, epsilon, alpha, t_alpha, t_beta3 */
        double alpha = bp_update_own(s, 4), t_alpha = bp_update_own(s, 5);
        f->n_gain = (float)(1.0 - beta3);
        f->mix = (float)(t_alpha > t ? t / t_alpha * alpha : alpha);
    }
}

/* Whether weights move at all: not in the first parts of AdamA. */
static inline bool bp_update_moves(const bp_update_factors *f)
{
    return f->fold == BP_UPDATE_ACCUMULATE_NONE || f->fold == BP_UPDATE_ACCUMULATE_LAST;
}

/* SGD without momentum. */
static inline void bp_update_plain(const bp_update_factors *f, float g, float *w)
{
    *w = fmaf(-f->rate, fmaf(f->decay, *w, g), *w);
}

static inline void bp_update_momentum(const bp_update_factors *f, float g, float *w, float *b)
{
    *b = fmaf(f->m_keep, *b, f->m_gain * fmaf(f->decay, *w, g));
    *w = fmaf(-f->rate, *b, *w);
}

static inline void bp_update_nesterov(const bp_update_factors *f, float g, float *w, float *b)
{
    float d = fmaf(f->decay, *w, g);
    *b = fmaf(f->m_keep, *b, f->m_gain * d);
    *w = fmaf(-f->rate, fmaf(f->m_keep, *b, d), *w);
}

/* The moments of the Adam family; what the second one's root makes the divisor. */
static inline float bp_update_moments(const bp_update_factors *f, float g, float *m, float *v)
{
    *m = fmaf(f->m_gain, g - *m, *m);
    *v = fmaf(g * f->v_gain, g, *v * f->v_keep);
    return fmaf(sqrtf(*v), f->v_scale, f->epsilon);
}

static inline void bp_update_adam(const bp_update_factors *f, float g, float *w, float *m, float *v)
{
    float below = bp_update_moments(f, fmaf(f->decay, *w, g), m, v);
    *w = fmaf(-f->rate, *m / below, *w);
}

static inline void bp_update_adamw(const bp_update_factors *f, float g, float *w, float *m,
                                   float *v)
{
    float below = bp_update_moments(f, g, m, v);
    *w = fmaf(-f->rate, *m / below, *w * f->keep);
}

/* AdamA: one more gradient of the same step enters the moments. */
static inline void bp_update_accumulate(const bp_update_factors *f, float g, float *m, float *v)
{
    *m = fmaf(f->m_gain, g, *m);
    *v = fmaf(g * f->v_gain, g, *v);
}

static inline void bp_update_adam_last(const bp_update_factors *f, float g, float *w, float *m,
                                       float *v)
{
    bp_update_accumulate(f, fmaf(f->decay, *w, g), m, v);
    *w = fmaf(-f->rate, *m / fmaf(sqrtf(*v), f->v_scale, f->epsilon), *w);
}

static inline void bp_update_adamw_last(const bp_update_factors *f, float g, float *w, float *m,
                                        float *v)
{
    bp_update_accumulate(f, g, m, v);
    *w = fmaf(-f->rate, *m / fmaf(sqrtf(*v), f->v_scale, f->epsilon), *w * f->keep);
}

static inline void bp_update_lion(const bp_update_factors *f, float g, float *w, float *m)
{
    float c = fmaf(f->c_keep, *m, f->c_gain * g);
    float up = c > 0.0f ? f->rate : 0.0f;
    float down = c < 0.0f ? f->rate : 0.0f;
    *w = fmaf(*w, f->keep, down - up);
    *m = fmaf(f->m_keep, *m, f->m_gain * g);
}

/* RMSprop's gradient over the root of its mean square. */
static inline float bp_update_normed(const bp_update_factors *f, float g, const float *w, float *v)
{
    float d = fmaf(f->decay, *w, g);
    *v = fmaf(d * f->v_gain, d, *v * f->v_keep);
    return d / (sqrtf(*v) + f->epsilon);
}

static inline void bp_update_rmsprop(const bp_update_factors *f, float g, float *w, float *v)
{
    float u = bp_update_normed(f, g, w, v);
    *w = fmaf(-f->rate, u, *w);
}

static inline void bp_update_rmsprop_momentum(const bp_update_factors *f, float g, float *w,
                                              float *v, float *b)
{
    *b = fmaf(f->m_keep, *b, bp_update_normed(f, g, w, v));
    *w = fmaf(-f->rate, *b, *w);
}

static inline void bp_update_adagrad(const bp_update_factors *f, float g, float *w, float *s)
{
    float d = fmaf(f->decay, *w, g);
    *s = fmaf(d, d, *s);
    *w = fmaf(-f->rate, d / (sqrtf(*s) + f->epsilon), *w);
}

/* LAMB's update before trust and rate; the moments move. */
static inline float bp_update_lamb_direction(const bp_update_factors *f, float g, float w, float *m,
                                             float *v)
{
    float below = bp_update_moments(f, g, m, v);
    return fmaf(f->decay, w, *m * f->m_scale / below);
}

static inline void bp_update_lamb(const bp_update_factors *f, float g, float *w, float *m, float *v)
{
    float u = bp_update_lamb_direction(f, g, *w, m, v);
    *w = fmaf(-f->rate, u, *w);
}

static inline void bp_update_lars(const bp_update_factors *f, float g, float *w, float *b)
{
    *b = fmaf(f->m_keep, *b, f->rate * fmaf(f->decay, *w, g));
    *w = *w - *b;
}

static inline void bp_update_ademamix(const bp_update_factors *f, float g, float *w, float *m,
                                      float *n, float *v)
{
    float below = bp_update_moments(f, g, m, v);
    *n = fmaf(f->n_gain, g - *n, *n);
    *w = fmaf(-f->rate, fmaf(f->mix, *n, *m * f->m_scale) / below, *w * f->keep);
}

static inline void bp_update_schedule_free(const bp_update_factors *f, float g, float *w, float *d,
                                           float *v)
{
    *v = fmaf(g * f->v_gain, g, *v * f->v_keep);
    float u = fmaf(f->decay, *w, g / fmaf(sqrtf(*v), f->v_scale, f->epsilon));
    *w = fmaf(-f->rate, u, fmaf(f->mix, *d, *w));
    *d = f->m_keep * fmaf(-f->c_gain, u, *d);
}

/* A step along the gradient, or along its moving mean; `factor`: of its row and column. */
static inline void bp_update_scaled(const bp_update_factors *f, float g, float *w, float factor)
{
    *w = fmaf(-f->rate, g * factor, *w * f->keep);
}

static inline void bp_update_scaled_mean(const bp_update_factors *f, float g, float *w, float *m,
                                         float factor)
{
    *m = fmaf(f->m_gain, g - *m, *m);
    *w = fmaf(-f->rate, *m * factor, *w * f->keep);
}

/* Muon's direction; `nesterov`: beta, or 0. */
static inline float bp_update_direction(float g, float *m, float gain, float nesterov)
{
    *m = fmaf(gain, g - *m, *m);
    return nesterov > 0.0f ? fmaf(nesterov, *m - g, g) : *m;
}

/* APOLLO's. */
static inline float bp_update_ratio(float g, float *m, float *v, float gain, float keep2,
                                    float gain2, float epsilon)
{
    *m = fmaf(gain, g - *m, *m);
    *v = fmaf(g * gain2, g, *v * keep2);
    return *m / (sqrtf(*v) + epsilon);
}

#endif
