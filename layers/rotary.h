/* SPDX-License-Identifier: MIT */
/* Rotary positions (Su et al., arXiv 2104.09864), element i of a head paired with element
 * i + width / 2. */
#ifndef BP_LAYERS_ROTARY_H
#define BP_LAYERS_ROTARY_H

#include "core/compile/emit.h"
#include "layers/rope_scaling.h"

typedef struct bp_rotary {
    uint64_t width; /* of a head */
    double theta;
    bp_rope_scaling scaling;
} bp_rotary;

/* Turns the first `heads` heads of each of emit->rows rows of x (rows, heads * width; pitch) by the
 * row's position, or back. The table of angles is made once per program: emit->shared. */
void bp_rotary_turn(bp_emit *emit, const bp_rotary *rotary, uint64_t heads, uint64_t pitch,
                    bp_ref x, bool back);

#endif
