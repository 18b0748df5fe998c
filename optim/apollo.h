/* SPDX-License-Identifier: MIT */
/* APOLLO (Zhu et al., arXiv 2412.05270): Adam's moments of a random projection say how far each
 * channel of the gradient goes, or (APOLLO-Mini) the whole of it; AdamW for what is no matrix of a
 * block. The projection is drawn anew by the counter generator, and is no state. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_APOLLO_H
#define BP_OPTIM_APOLLO_H

#include "core/plan/spec.h"

/* States "exp_avg" and "exp_avg_sq" of the projection, and "norm". */
extern const bp_optimizer bp_optimizer_apollo;
extern const bp_optimizer bp_optimizer_apollo_8bit;
extern const bp_optimizer bp_optimizer_apollo_mini;

#endif
