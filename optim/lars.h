/* SPDX-License-Identifier: MIT */
/* LARS (You, Gitman and Ginsburg, arXiv 1708.03888), algorithm 1, one trust ratio per tensor. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_LARS_H
#define BP_OPTIM_LARS_H

#include "core/plan/spec.h"

/* --optim-args momentum (0.9), trust_coefficient (0.001); state "momentum_buffer", which has the
 * learning rate in it, as in the paper. */
extern const bp_optimizer bp_optimizer_lars;
extern const bp_optimizer bp_optimizer_lars_8bit;

#endif
