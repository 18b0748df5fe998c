/* SPDX-License-Identifier: MIT */
/* Adam (Kingma and Ba, arXiv 1412.6980), as torch.optim.Adam: decay is part of the gradient. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_ADAM_H
#define BP_OPTIM_ADAM_H

#include "core/plan/spec.h"

/* States "exp_avg" and "exp_avg_sq". */
extern const bp_optimizer bp_optimizer_adam;
extern const bp_optimizer bp_optimizer_adam_8bit;

#endif
