/* SPDX-License-Identifier: MIT */
/* Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011), as torch.optim.Adagrad. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_ADAGRAD_H
#define BP_OPTIM_ADAGRAD_H

#include "core/plan/spec.h"

/* State "sum". epsilon is 1e-10 unless given. */
extern const bp_optimizer bp_optimizer_adagrad;
extern const bp_optimizer bp_optimizer_adagrad_8bit;

#endif
