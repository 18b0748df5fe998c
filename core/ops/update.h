/* SPDX-License-Identifier: MIT */
/* The arithmetic of the update rules of rules.def, element by element: the one text from which
 * all forms of the host's kernels and the CUDA kernels are built, so that they agree to the last
 * bit. Each line of a rule is the operations in their order. */
#ifndef BP_CORE_UPDATE_H
#define BP_CORE_UPDATE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/ir/step.h"

/* The rules in the order of their rows; scaled is the end of rules over whole matrices. */
enum {
#define RULE(name, body) BP_UPDATE_##name,
#include "core/ops/rules.def"
    BP_UPDATE_scaled
};

/* A bit for each state of a rule that can be negative. */
enum { BP_UPDATE_POSITIVE, BP_UPDATE_SIGNED };
#define RULE(name, body)     enum { BP_UPDATE_SIGNS_##name = 0
#define MATRIX(name, kernel) enum { BP_UPDATE_SIGNS_##name = 0
#define STATE(i, name, sign) | BP_UPDATE_##sign << i
#define END_RULE(name)                                                                             \
    }                                                                                              \
    ;
#include "core/ops/rules.def"

/* Whether a rule has all of beta1, beta2 and epsilon. */
#define RULE(name, body)     enum { BP_UPDATE_MOMENTS_##name = 1
#define MATRIX(name, kernel) enum { BP_UPDATE_MOMENTS_##name = 1
#define BETA1                *2
#define BETA2                *3
#define EPSILON              *5
#define END_RULE(name)                                                                             \
    }                                                                                              \
    ;
#include "core/ops/rules.def"

/* Parts of AdamA (rules.def, adamw): all of the rule, the first gradient of a step, a further
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
    float mix;     /* ademamix: alpha(t); schedule_free, adopt: c */
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
    switch (rule) {
#define RULE(name, body)                                                                           \
    case BP_UPDATE_##name:                                                                         \
        return BP_UPDATE_SIGNS_##name;
#include "core/ops/rules.def"
    default:
        return 1; /* scaled's moving mean */
    }
}

/* A row's own scalar number i. */
static inline double bp_update_own(const bp_update_scalars *s, uint32_t i)
{
    double value;
    memcpy(&value, (const char *)s + sizeof *s + 8 * i, sizeof value);
    return value;
}

static inline int64_t bp_update_own_integer(const bp_update_scalars *s, uint32_t i)
{
    int64_t value;
    memcpy(&value, (const char *)s + sizeof *s + 8 * i, sizeof value);
    return value;
}

/* What factors are rounded from, in double; bp_update_prepare sets what most rules have, and a
 * rule's own function what it has instead. */
typedef struct bp_update_numbers {
    const bp_update_scalars *s;
    const bp_control_block *control;
    double rate;    /* the step's of this parameter, trust included */
    double plain;   /* and without trust */
    double keep;    /* 1 - rate decay */
    double m;       /* of the first moment: own scalar 0 */
    double gain;    /* what is added to it: 1 - m */
    double v;       /* of the second moment: own scalar 1 of rules with beta1, beta2 and epsilon */
    double epsilon; /* own scalar 2 of the same */
    double beta3;   /* ademamix: beta3(t); scaled: b */
} bp_update_numbers;

static inline void bp_update_sgd_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    n->gain = n->control->applied > 1 ? 1.0 - bp_update_own(n->s, 1) : 1.0;
    f->nesterov = bp_update_own_integer(n->s, 2) != 0;
}

static inline void bp_update_lamb_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    (void)n, (void)f;
}

static inline void bp_update_adamw_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    n->rate /= n->control->correction1;
    f->fold = (uint32_t)bp_update_own_integer(n->s, 3);
}

static inline void bp_update_adam_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    bp_update_adamw_numbers(n, f);
}

static inline void bp_update_lion_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    f->c_keep = (float)n->m;
    f->c_gain = (float)(1.0 - n->m);
    n->m = bp_update_own(n->s, 1);
    n->gain = 1.0 - n->m;
}

/* alpha, epsilon, momentum */
static inline void bp_update_rmsprop_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    (void)f;
    n->v = n->m;
    n->epsilon = bp_update_own(n->s, 1);
    n->m = bp_update_own(n->s, 2);
}

static inline void bp_update_adagrad_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    (void)f;
    n->epsilon = bp_update_own(n->s, 0);
}

static inline void bp_update_lars_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    (void)n, (void)f;
}

/* beta1, beta2, beta3, epsilon, alpha, t_alpha, t_beta3 */
static inline void bp_update_ademamix_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    const double alpha = bp_update_own(n->s, 4), t_alpha = bp_update_own(n->s, 5);
    const double t = (double)n->control->applied;
    n->epsilon = bp_update_own(n->s, 3);
    f->n_gain = (float)(1.0 - n->beta3);
    f->mix = (float)(t_alpha > t ? t / t_alpha * alpha : alpha);
}

static inline void bp_update_schedule_free_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    const double beta1 = n->m, mix = (double)n->control->average_mix;
    n->m = 1.0 - mix;
    f->mix = n->control->average_mix;
    f->c_gain = (float)(beta1 * n->rate);
    n->rate *= 1.0 - beta1 * (1.0 - mix);
}

/* The first step moves the second moment alone. */
static inline void bp_update_adopt_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    const bool first = n->control->applied <= 1;
    f->mix = first ? 0.0f : (float)sqrt(sqrt((double)(n->control->applied - 1)));
    n->v = first ? 0.0 : n->v;
    n->rate = first ? 0.0 : n->rate;
    n->keep = first ? 1.0 : n->keep;
}

/* beta, rows, width, raw */
static inline void bp_update_scaled_numbers(bp_update_numbers *n, bp_update_factors *f)
{
    f->clip = bp_update_own_integer(n->s, 3) != 0 ? 1.0f : f->clip;
    n->rate = n->m > 0.0 ? n->rate / n->control->correction1 : n->rate;
    n->keep = 1.0 - n->plain * n->beta3 * n->s->decay;
}

static inline bool bp_update_has_moments(uint32_t rule)
{
#define RULE(name, body) || (BP_UPDATE_MOMENTS_##name == 30 && rule == BP_UPDATE_##name)
    return false
#include "core/ops/rules.def"
        ;
}

/* The factors, computed in double and rounded once. `beta3` is ademamix's beta3(t), or scaled's b;
 * trust, or scaled's a, 1 where there is none. */
static inline void bp_update_prepare(bp_update_factors *f, uint32_t rule,
                                     const bp_update_scalars *s, const bp_control_block *control,
                                     const bp_step_block *step, float trust, double beta3)
{
    const double plain = (double)step->learning_rate * s->rate_scale;
    const double rate = plain * (double)trust, m = bp_update_own(s, 0);
    bp_update_numbers n = {s, control, rate, plain, 1.0 - rate * s->decay,
                           m, 1.0 - m, 0.0,  0.0,   beta3};
    f->clip = control->clip;
    f->n_gain = f->mix = f->c_keep = f->c_gain = 0.0f;
    f->nesterov = f->fold = 0;
    if (bp_update_has_moments(rule)) {
        n.v = bp_update_own(s, 1);
        n.epsilon = bp_update_own(s, 2);
    }
    switch (rule) {
#define RULE(name, body)                                                                           \
    case BP_UPDATE_##name:                                                                         \
        bp_update_##name##_numbers(&n, f);                                                         \
        break;
#include "core/ops/rules.def"
    default:
        bp_update_scaled_numbers(&n, f);
        break;
    }
    f->rate = (float)n.rate;
    f->keep = (float)n.keep;
    f->decay = (float)s->decay;
    f->m_keep = (float)n.m;
    f->m_gain = (float)n.gain;
    f->m_scale = (float)(1.0 / control->correction1);
    f->v_keep = (float)n.v;
    f->v_gain = (float)(1.0 - n.v);
    f->v_scale = (float)(1.0 / sqrt(control->correction2));
    f->epsilon = (float)n.epsilon;
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

static inline void bp_update_adopt(const bp_update_factors *f, float g, float *w, float *m,
                                   float *v)
{
    float root = sqrtf(*v), below = root > f->epsilon ? root : f->epsilon, u = g / below;
    u = u > f->mix ? f->mix : u;
    u = u < -f->mix ? -f->mix : u;
    *m = fmaf(f->m_gain, u - *m, *m);
    *w = fmaf(-f->rate, *m, *w * f->keep);
    *v = fmaf(g * f->v_gain, g, *v * f->v_keep);
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
