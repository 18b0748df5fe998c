/* SPDX-License-Identifier: MIT */
/* Adafactor (Shazeer and Stern, arXiv 1804.04235) without momentum, as transformers has it with
 * relative_step off: the second moment of a matrix is kept as that of its rows and columns. AdaLomo
 * (Lv et al., arXiv 2310.10195) is the same with a rate in proportion to the weights; with released
 * gradients it is what that paper fuses into backward. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_OPTIM_ADAFACTOR_H
#define BP_OPTIM_ADAFACTOR_H

#include "core/plan/spec.h"

/* States "exp_avg_sq_row" and "exp_avg_sq_col" of a matrix, "exp_avg_sq" of a vector. */
extern const bp_optimizer bp_optimizer_adafactor;
extern const bp_optimizer bp_optimizer_adalomo;

#endif
