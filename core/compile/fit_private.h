/* SPDX-License-Identifier: MIT */
/* What the fit's files share. */
#ifndef BP_CORE_FIT_PRIVATE_H
#define BP_CORE_FIT_PRIVATE_H

#include "core/compile/fit.h"

#define FIT_ALIGNMENT   64
#define FIT_CHUNK_LEAST 64 /* rows of the shortest chunk of the loss that is tried */

/* Most actions of a schedule: none takes more than starting from the input every time. */
uint32_t fit_action_limit(const bp_spec *spec);

#endif
