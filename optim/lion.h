/* SPDX-License-Identifier: MIT */
/* Lion (Chen et al., arXiv 2302.06675), algorithm 2, decoupled decay. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_LION_H
#define BP_OPTIM_LION_H

#include "core/plan/spec.h"

/* State "exp_avg". beta2 is 0.99 unless given. */
extern const bp_optimizer bp_optimizer_lion;
extern const bp_optimizer bp_optimizer_lion_8bit;

#endif
