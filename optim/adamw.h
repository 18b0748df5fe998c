/* SPDX-License-Identifier: MIT */
/* AdamW (Loshchilov and Hutter, arXiv 1711.05101) with fp32 moments, as torch.optim.AdamW computes
 * it. */
#ifndef BP_OPTIM_ADAMW_H
#define BP_OPTIM_ADAMW_H

#include "core/optimizer.h"

/* Two fp32 tensors per parameter, "exp_avg" and "exp_avg_sq". Norms and biases are not decayed
 * unless decay_all is set. A step is 3 ops: partial norms, decision, update. */
extern const bp_optimizer bp_optimizer_adamw;

#endif
