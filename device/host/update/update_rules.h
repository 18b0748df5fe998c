/* SPDX-License-Identifier: MIT */
/* The update rules of core/ops/update.h over one block, as loops that a compiler turns into
 * vectors. Included once per form of the host's kernels. */
#ifndef BP_DEVICE_HOST_UPDATE_RULES_H
#define BP_DEVICE_HOST_UPDATE_RULES_H

#include "core/ops/codec.h"
#include "device/host/update/update.h"

/* w (count) and the states move; g is the clipped gradient. A state that is absent is NULL. */
typedef void update_rule(const bp_update_factors *f, uint32_t count, float *restrict w,
                         const float *restrict g, float *const state[BP_UPDATE_STATES]);

/* Loops over rules of no, one, two and three states. Elements are moved in locals, and the factors
 * copied, so that no store can change them. */
#define LOOP_BEGIN(name)                                                                           \
    static void loop_##name(const bp_update_factors *factors, uint32_t count, float *restrict w,   \
                            const float *restrict g, float *const state[BP_UPDATE_STATES])         \
    {                                                                                              \
        const bp_update_factors f = *factors;
#define LOOP0(name)                                                                                \
    LOOP_BEGIN(name)                                                                               \
    (void)state;                                                                                   \
    for (uint32_t i = 0; i < count; i++) {                                                         \
        bp_update_##name(&f, g[i], &w[i]);                                                         \
    }                                                                                              \
    }
#define LOOP1(name)                                                                                \
    LOOP_BEGIN(name)                                                                               \
    float *restrict a = state[0];                                                                  \
    for (uint32_t i = 0; i < count; i++) {                                                         \
        bp_update_##name(&f, g[i], &w[i], &a[i]);                                                  \
    }                                                                                              \
    }
#define LOOP2(name)                                                                                \
    LOOP_BEGIN(name)                                                                               \
    float *restrict a = state[0], *restrict b = state[1];                                          \
    for (uint32_t i = 0; i < count; i++) {                                                         \
        bp_update_##name(&f, g[i], &w[i], &a[i], &b[i]);                                           \
    }                                                                                              \
    }
#define LOOP3(name)                                                                                \
    LOOP_BEGIN(name)                                                                               \
    float *restrict a = state[0], *restrict b = state[1], *restrict c = state[2];                  \
    for (uint32_t i = 0; i < count; i++) {                                                         \
        bp_update_##name(&f, g[i], &w[i], &a[i], &b[i], &c[i]);                                    \
    }                                                                                              \
    }

/* What CHOICES of rules.def choose from, and the loops of the other rules. */
LOOP0(plain)
LOOP1(momentum)
LOOP1(nesterov)
LOOP2(adam)
LOOP2(adamw)
LOOP2(adam_last)
LOOP2(adamw_last)
LOOP1(rmsprop)
LOOP2(rmsprop_momentum)
#define LOOP_CHOICES(name)
#define LOOP_STATES1(name) LOOP1(name)
#define LOOP_STATES2(name) LOOP2(name)
#define LOOP_STATES3(name) LOOP3(name)
#define RULE(name, body)   LOOP_##body(name)
#include "core/ops/rules.def"

static void rule_sgd(const bp_update_factors *f, uint32_t count, float *restrict w,
                     const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    if (state[0] == NULL) {
        loop_plain(f, count, w, g, state);
    } else if (f->nesterov != 0) {
        loop_nesterov(f, count, w, g, state);
    } else {
        loop_momentum(f, count, w, g, state);
    }
}

/* AdamA's first and further micro-batches: the weights stay. */
static void accumulate_first(const bp_update_factors *factors, uint32_t count,
                             const float *restrict g, float *restrict m, float *restrict v)
{
    const bp_update_factors f = *factors;
    for (uint32_t i = 0; i < count; i++) {
        (void)bp_update_moments(&f, g[i], &m[i], &v[i]);
    }
}

static void accumulate_next(const bp_update_factors *factors, uint32_t count,
                            const float *restrict g, float *restrict m, float *restrict v)
{
    const bp_update_factors f = *factors;
    for (uint32_t i = 0; i < count; i++) {
        bp_update_accumulate(&f, g[i], &m[i], &v[i]);
    }
}

static bool accumulate_moments(const bp_update_factors *f, uint32_t count, const float *g,
                               float *const state[BP_UPDATE_STATES])
{
    if (f->fold == BP_UPDATE_ACCUMULATE_FIRST) {
        accumulate_first(f, count, g, state[0], state[1]);
    } else if (f->fold == BP_UPDATE_ACCUMULATE_NEXT) {
        accumulate_next(f, count, g, state[0], state[1]);
    }
    return !bp_update_moves(f);
}

static void rule_adam(const bp_update_factors *f, uint32_t count, float *restrict w,
                      const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    if (accumulate_moments(f, count, g, state)) {
        return;
    }
    if (f->fold == BP_UPDATE_ACCUMULATE_LAST) {
        loop_adam_last(f, count, w, g, state);
    } else {
        loop_adam(f, count, w, g, state);
    }
}

static void rule_adamw(const bp_update_factors *f, uint32_t count, float *restrict w,
                       const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    if (accumulate_moments(f, count, g, state)) {
        return;
    }
    if (f->fold == BP_UPDATE_ACCUMULATE_LAST) {
        loop_adamw_last(f, count, w, g, state);
    } else {
        loop_adamw(f, count, w, g, state);
    }
}

static void rule_rmsprop(const bp_update_factors *f, uint32_t count, float *restrict w,
                         const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    if (state[1] == NULL) {
        loop_rmsprop(f, count, w, g, state);
    } else {
        loop_rmsprop_momentum(f, count, w, g, state);
    }
}

/* Moves the moments and leaves the update, before trust and rate, in u. */
static void lamb_directions(const bp_update_factors *factors, uint32_t count,
                            const float *restrict w, const float *restrict g, float *restrict m,
                            float *restrict v, float *restrict u)
{
    const bp_update_factors f = *factors;
    for (uint32_t i = 0; i < count; i++) {
        u[i] = bp_update_lamb_direction(&f, g[i], w[i], &m[i], &v[i]);
    }
}

/* state[1] holds the factors of rows and columns. */
static void rule_scaled(const bp_update_factors *factors, uint32_t count, float *restrict w,
                        const float *restrict g, float *const state[BP_UPDATE_STATES])
{
    const bp_update_factors f = *factors;
    float *restrict m = state[0];
    const float *restrict factor = state[1];
    if (m == NULL) {
        for (uint32_t i = 0; i < count; i++) {
            bp_update_scaled(&f, g[i], &w[i], factor[i]);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        bp_update_scaled_mean(&f, g[i], &w[i], &m[i], factor[i]);
    }
}

static void loop_directions(const float *restrict g, float *restrict m, uint32_t count, float gain,
                            float nesterov, float *restrict x)
{
    for (uint32_t i = 0; i < count; i++) {
        x[i] = bp_update_direction(g[i], &m[i], gain, nesterov);
    }
}

static void loop_ratios(const float *restrict g, float *restrict m, float *restrict v,
                        uint32_t count, const float numbers[4], float *restrict x)
{
    const float gain = numbers[0], keep2 = numbers[1], gain2 = numbers[2], epsilon = numbers[3];
    for (uint32_t i = 0; i < count; i++) {
        x[i] = bp_update_ratio(g[i], &m[i], &v[i], gain, keep2, gain2, epsilon);
    }
}

/* By BP_UPDATE_ number. */
static update_rule *const update_rules[] = {
#define ROW_CHOICES(name) rule_##name,
#define ROW_STATES1(name) loop_##name,
#define ROW_STATES2(name) loop_##name,
#define ROW_STATES3(name) loop_##name,
#define RULE(name, body)  ROW_##body(name)
#include "core/ops/rules.def"
    rule_scaled};

#endif
