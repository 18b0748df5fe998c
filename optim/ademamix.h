/* SPDX-License-Identifier: MIT */
/* AdEMAMix (Pagliardini, Ablin and Grangier, arXiv 2409.03137), algorithm 1. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_ADEMAMIX_H
#define BP_OPTIM_ADEMAMIX_H

#include "core/plan/spec.h"

/* --optim-args alpha (5), beta3 (0.9999), t_alpha and t_beta3 (0: no schedule); states
 * "exp_avg_fast", "exp_avg_slow", "exp_avg_sq". */
extern const bp_optimizer bp_optimizer_ademamix;
extern const bp_optimizer bp_optimizer_ademamix_8bit;

#endif
