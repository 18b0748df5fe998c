/* SPDX-License-Identifier: MIT */
/* LAMB (You et al., arXiv 1904.00962), algorithm 2, one trust ratio per tensor. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_LAMB_H
#define BP_OPTIM_LAMB_H

#include "core/plan/spec.h"

/* States "exp_avg" and "exp_avg_sq". epsilon is 1e-6 unless given. */
extern const bp_optimizer bp_optimizer_lamb;
extern const bp_optimizer bp_optimizer_lamb_8bit;

#endif
