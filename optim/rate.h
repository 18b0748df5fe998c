/* SPDX-License-Identifier: MIT */
/* Learning-rate schedules: pure functions of the attempted step, counted from 0, as the schedules
 * of the same names in Hugging Face transformers (get_*_schedule). All warm up linearly, from 0 in
 * step 0 (warmup-stable-decay: from the minimum) to the peak in step warmup_steps. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_RATE_H
#define BP_OPTIM_RATE_H

#include "core/plan/spec.h"

/* The peak, always. */
double bp_rate_constant(const bp_rate_options *options, uint64_t step);

/* Down a straight line to `minimum` at total_steps. */
double bp_rate_linear(const bp_rate_options *options, uint64_t step);

/* Down half a cosine to `minimum` at total_steps, or as many waves of it as cycles says. */
double bp_rate_cosine(const bp_rate_options *options, uint64_t step);

/* As many descents from the peak down half a cosine as cycles says, each beginning at the peak
 * again; `minimum` from total_steps on. */
double bp_rate_cosine_with_restarts(const bp_rate_options *options, uint64_t step);

/* minimum + (peak - minimum) * left^power, left being the share of the decay that is to come. */
double bp_rate_polynomial(const bp_rate_options *options, uint64_t step);

/* peak / sqrt(1 + steps since the warm-up / timescale): without an end. */
double bp_rate_inverse_sqrt(const bp_rate_options *options, uint64_t step);

/* The peak, then in the last decay_steps (0: a tenth of total_steps) down half a cosine. */
double bp_rate_warmup_stable_decay(const bp_rate_options *options, uint64_t step);

/* The schedule of an --lr-scheduler-type, - and _ alike: constant, constant_with_warmup, linear,
 * cosine, cosine_with_restarts, polynomial, inverse_sqrt, warmup_stable_decay. NULL if there is
 * none of that name. */
bp_rate bp_rate_find(const char *name);

/* The names in that order, for messages; NULL past the last. */
const char *bp_rate_name(uint32_t index);

#endif
