/* SPDX-License-Identifier: MIT */
/* RMSprop (Tieleman and Hinton, 2012), as torch.optim.RMSprop without centering. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_RMSPROP_H
#define BP_OPTIM_RMSPROP_H

#include "core/plan/spec.h"

/* --optim-args alpha (0.99), momentum (0); states "square_avg" and, with momentum,
 * "momentum_buffer". */
extern const bp_optimizer bp_optimizer_rmsprop;
extern const bp_optimizer bp_optimizer_rmsprop_8bit;

#endif
