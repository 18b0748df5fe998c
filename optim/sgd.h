/* SPDX-License-Identifier: MIT */
/* Stochastic gradient descent with momentum, as torch.optim.SGD. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_SGD_H
#define BP_OPTIM_SGD_H

#include "core/plan/spec.h"

/* --optim-args momentum (0), dampening (0), nesterov (false); state "momentum_buffer", none without
 * momentum. The 8-bit one has momentum 0.9 and stores its state in blocks of 256
 * (core/ops/codec.h). */
extern const bp_optimizer bp_optimizer_sgd;
extern const bp_optimizer bp_optimizer_sgd_8bit;

#endif
