/* SPDX-License-Identifier: MIT */
/* Adam-mini (Zhang et al., arXiv 2406.16793): AdamW with one second moment for the weights of an
 * output, of a head for queries and keys, of a norm. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_ADAM_MINI_H
#define BP_OPTIM_ADAM_MINI_H

#include "core/plan/spec.h"

/* States "exp_avg" and "exp_avg_sq" (one of each block). */
extern const bp_optimizer bp_optimizer_adam_mini;
extern const bp_optimizer bp_optimizer_adam_mini_8bit;

#endif
