/* SPDX-License-Identifier: MIT */
/* Muon (Jordan et al., 2024; torch.optim.Muon): momentum of the matrices of blocks, made orthogonal
 * by five steps of Newton and Schulz; AdamW for all else. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_MUON_H
#define BP_OPTIM_MUON_H

#include "core/plan/spec.h"

/* States "momentum_buffer", or "exp_avg" and "exp_avg_sq". */
extern const bp_optimizer bp_optimizer_muon;
extern const bp_optimizer bp_optimizer_muon_8bit;

#endif
