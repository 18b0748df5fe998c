/* SPDX-License-Identifier: MIT */
/* Schedule-free AdamW (Defazio et al., arXiv 2405.15682). Gradients are taken at y; evaluations and
 * what is saved for others use the average x, which is formed of y and the state. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_SCHEDULE_FREE_H
#define BP_OPTIM_SCHEDULE_FREE_H

#include "core/plan/spec.h"

/* States "z_less_y", "exp_avg_sq". adam-beta1 is above 0. */
extern const bp_optimizer bp_optimizer_schedule_free_adamw;
extern const bp_optimizer bp_optimizer_schedule_free_adamw_8bit;

#endif
