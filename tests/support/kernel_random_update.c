/* SPDX-License-Identifier: MIT */
/* Random update rows (see kernel_random_update.h). */
#include "tests/support/kernel_random_update.h"

#include <string.h>

#include "core/number/codec.h"
#include "core/number/master.h"

/* The rows of UPDATE_SCALARS: all begin with the same scalars. */
bool is_update(bp_kernel kernel)
{
    return kernel >= BP_KERNEL_sgd && kernel <= BP_KERNEL_scaled_norms;
}

bool is_sum(bp_kernel kernel)
{
    return kernel == BP_KERNEL_accumulate_codes || kernel == BP_KERNEL_expand_codes;
}

/* Which states a row has (bits), and which of them have a sign. */
static const struct update_states {
    uint32_t has;
    uint32_t signs;
} update_states[BP_KERNEL_COUNT] = {
    [BP_KERNEL_sgd] = {1, 1},           [BP_KERNEL_adam] = {3, 1},
    [BP_KERNEL_adamw] = {3, 1},         [BP_KERNEL_lion] = {1, 1},
    [BP_KERNEL_rmsprop] = {3, 2},       [BP_KERNEL_adagrad] = {1, 0},
    [BP_KERNEL_lamb] = {3, 1},          [BP_KERNEL_lars] = {1, 1},
    [BP_KERNEL_ademamix] = {7, 3},      [BP_KERNEL_lamb_norms] = {3, 1},
    [BP_KERNEL_lars_norms] = {0, 0},    [BP_KERNEL_scaled] = {7, 1},
    [BP_KERNEL_scaled_norms] = {3, 0},  [BP_KERNEL_direction] = {3, 1},
    [BP_KERNEL_schedule_free] = {3, 1}, [BP_KERNEL_averaged_weight] = {1, 1}};

static void draw_update_own(dice *d, bp_kernel kernel, any_scalars *s)
{
    s->adamw.beta1 = 0.9; /* adam, adamw, lion, lamb and its norms; momentum, alpha of others */
    switch (kernel) {
    case BP_KERNEL_sgd:
        s->sgd.dampening = 0.3 * (double)roll(d, 0, 1);
        s->sgd.nesterov = roll(d, 0, 1);
        break;
    case BP_KERNEL_rmsprop:
        s->rmsprop.epsilon = 1e-8;
        s->rmsprop.momentum = 0.9;
        break;
    case BP_KERNEL_adagrad:
        s->adagrad.epsilon = 1e-10;
        break;
    case BP_KERNEL_lars:
        break;
    case BP_KERNEL_ademamix:
        s->ademamix.beta2 = 0.999;
        s->ademamix.beta3 = 0.9999;
        s->ademamix.epsilon = 1e-8;
        s->ademamix.alpha = 5.0;
        s->ademamix.t_alpha = 500.0 * (double)roll(d, 0, 1);
        s->ademamix.t_beta3 = 500.0 * (double)roll(d, 0, 1);
        break;
    case BP_KERNEL_lars_norms:
        s->lars_norms.chunk = 256 * roll(d, 1, 9);
        break;
    case BP_KERNEL_scaled:
    case BP_KERNEL_scaled_norms:
        s->scaled.beta = roll(d, 0, 2) == 0 ? 0.0 : 0.9;
        s->scaled.width = size(d, 300);
        s->scaled.rows = roll(d, 1, 14000 / s->scaled.width);
        s->scaled.count = s->scaled.rows * s->scaled.width;
        s->scaled.raw = roll(d, 0, 1);
        s->scaled_norms.chunk = kernel == BP_KERNEL_scaled_norms ? 256 * roll(d, 1, 9) : 0;
        break;
    default:
        s->adamw.beta2 = 0.999;
        s->adamw.epsilon = kernel == BP_KERNEL_lion ? 0.0 : 1e-8;
        s->adamw.fold = kernel == BP_KERNEL_adam || kernel == BP_KERNEL_adamw ? roll(d, 0, 3) : 0;
        s->lamb_norms.chunk = kernel == BP_KERNEL_lamb_norms ? 256 * roll(d, 1, 9) : 0;
        break;
    }
}

void draw_update(dice *d, bp_kernel kernel, any_scalars *s)
{
    int64_t count = roll(d, 0, 1) == 0 ? size(d, 300) : roll(d, 4000, 14000);
    if (is_sum(kernel)) { /* the other row has the first scalar only */
        bool adds = kernel == BP_KERNEL_accumulate_codes;
        s->accumulate_codes = (bp_accumulate_codes_scalars){.count = count,
                                                            .first = adds ? 256 * roll(d, 0, 3) : 0,
                                                            .stream = adds ? roll(d, 0, 99) : 0,
                                                            .accumulate = adds ? roll(d, 0, 1) : 0};
        return;
    }
    s->adamw = (bp_adamw_scalars){.count = count,
                                  .first = 256 * roll(d, 0, 3),
                                  .stream = roll(d, 0, 99),
                                  .form = roll(d, 0, BP_CODEC_COUNT - 1),
                                  .master_form = d->seed % 3 == 2
                                                     ? BP_MASTER_FP8
                                                     : (int64_t)(d->seed & 1), /* of all tuples */
                                  .decay = 0.1 * (double)roll(d, 0, 1),
                                  .rate_scale = 1.0};
    draw_update_own(d, kernel, s);
}

/* Masters are where their form has them; sgd and rmsprop do without their momentum too. */
uint32_t draw_update_absent(dice *d, bp_kernel kernel, const any_scalars *s)
{
    bool factors = kernel == BP_KERNEL_scaled_norms;
    bool norms = factors || kernel == BP_KERNEL_lamb_norms || kernel == BP_KERNEL_lars_norms;
    uint32_t shift = norms ? OPERAND(lamb_norms, state1) : OPERAND(sgd, state1);
    uint32_t states = update_states[kernel].has, absent = 0;
    states &= kernel == BP_KERNEL_sgd && roll(d, 0, 1) == 0 ? ~1u : ~0u;
    states &= kernel == BP_KERNEL_scaled || factors ? (uint32_t)roll(d, 0, 7) : ~0u;
    states &= kernel == BP_KERNEL_rmsprop && roll(d, 0, 1) == 0 ? ~2u : ~0u;
    absent |= s->adamw.master_form == 0 ? UINT32_C(1) << (shift - 1) : 0;
    absent |= (~states & (norms ? 3u : 7u)) << shift;
    absent |= !norms && roll(d, 0, 1) == 0 ? UINT32_C(1) << OPERAND(sgd, trust) : 0;
    return absent;
}

/* States or sums as a row could have left them, in their form. */
static void fill_codes(uint64_t seed, bp_codec form, bool has_sign, uint64_t count,
                       unsigned char *at)
{
    for (uint64_t first = 0; first < count; first += BP_CODEC_BLOCK) {
        float values[BP_CODEC_BLOCK];
        uint32_t size_here =
            (uint32_t)(count - first < BP_CODEC_BLOCK ? count - first : BP_CODEC_BLOCK);
        fill_normal(values, size_here, seed + first, 1e-2);
        for (uint32_t i = 0; i < size_here; i++) {
            values[i] = has_sign ? values[i] : values[i] * values[i];
        }
        bp_codec_encode(form, has_sign, values, size_here, at + bp_codec_bytes(first, form));
    }
}

void fill_update_bytes(dice *d, bp_kernel kernel, const any_scalars *s, const char *name,
                       unsigned char *at)
{
    uint64_t count = (uint64_t)s->adamw.count;
    if (is_sum(kernel)) {
        fill_codes(d->seed * 7, BP_CODEC_COMPANDED8, true, count, at);
    } else if (strncmp(name, "state", 5) == 0) {
        uint32_t state = (uint32_t)(name[5] - '1');
        fill_codes(d->seed * 7 + state,
                   (bp_codec)(kernel == BP_KERNEL_direction         ? s->direction.form
                              : kernel == BP_KERNEL_averaged_weight ? s->averaged_weight.form
                                                                    : s->adamw.form),
                   (update_states[kernel].signs >> state & 1) != 0, count, at);
    } else if (s->adamw.master_form == BP_MASTER_FP8) {
        float values[BP_FP8_BLOCK];
        uint16_t rest[BP_FP8_BLOCK];
        const bool codes = strcmp(name, "weight") == 0;
        for (uint64_t first = 0; first < count; first += BP_FP8_BLOCK) {
            const uint64_t left = count - first, some = left < BP_FP8_BLOCK ? left : BP_FP8_BLOCK;
            fill_normal(values, some, d->seed + 5 + first, 1.0);
            if (codes) {
                bp_fp8_store(values, some, at + bp_fp8_bytes(first), rest);
            }
        }
        for (uint64_t i = 0; i < count && !codes; i++) {
            ((uint16_t *)(void *)at)[i] = (uint16_t)roll(d, 0, 65535);
        }
    } else {
        fill_normal((float *)(void *)at, count, d->seed + 5, 1.0);
    }
}
