/* SPDX-License-Identifier: MIT */
/* Which products and attention of a plan run with the kernels for every GPU, although the target
 * has kernels of its own for them, and why. */
#ifndef BP_TOOLS_KERNEL_ISA_H
#define BP_TOOLS_KERNEL_ISA_H

#include "core/plan/planned.h"
#include "tools/bedplate/app/output.h"

/* A line for each kernel and reason, with the first such op; nothing where there is none. */
void kernel_isa_text(bp_text *text, const bp_plan *plan);

/* An object `other_kernels`: how many ops by kernel and reason; nothing where there is none. */
void kernel_isa_json(output *out, const bp_plan *plan);

#endif
