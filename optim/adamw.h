/* SPDX-License-Identifier: MIT */
/* AdamW (Loshchilov and Hutter, arXiv 1711.05101), as torch.optim.AdamW computes it. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_ADAMW_H
#define BP_OPTIM_ADAMW_H

#include "core/plan/spec.h"

/* States "exp_avg" and "exp_avg_sq". Norms and biases are not decayed unless decay_all is set. A
 * step is 3 ops: partial norms, decision, update. The others store large states in the forms of
 * core/ops/codec.h: in blocks of 256 with a table, companded in groups of 32, in 4 bits. */
extern const bp_optimizer bp_optimizer_adamw;
extern const bp_optimizer bp_optimizer_adamw_8bit;
extern const bp_optimizer bp_optimizer_adamw_8bit_companded;
extern const bp_optimizer bp_optimizer_adamw_4bit;

#endif
