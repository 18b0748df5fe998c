/* SPDX-License-Identifier: MIT */
/* Rotary positions (Su et al., arXiv 2104.09864), element i of a head paired with element
 * i + width / 2, or 2i with 2i + 1. */
#ifndef BP_LAYERS_ROTARY_H
#define BP_LAYERS_ROTARY_H

#include "core/plan/builder.h"
#include "layers/nodes/rope_scaling.h"

typedef struct bp_rotary {
    uint64_t width; /* elements of a head that turn, its first */
    double theta;
    bp_rope_scaling scaling;
    uint64_t apart;   /* elements of a head; 0: width */
    bool neighbours;  /* pairs lie side by side */
    uint32_t table;   /* which of the model's tables of angles it turns by: 0 or 1 */
    const void *near; /* longrope's divisors, a float for each pair: of texts of up to */
    const void *far;  /* scaling.original tokens, and of longer ones */
} bp_rotary;

/* Whether a text of the program can be longer than the model's own sequences, so that longrope has
 * a table for those too. */
bool bp_rotary_has_far(const bp_builder *builder, const bp_rotary *rotary);

/* Turns the first `heads` heads of each of builder->rows rows of x (rows, heads * apart; pitch) by
 * the row's position, or back. A table of angles is made once per program: builder->shared. With
 * longrope there are two, and each row turns by the one for the length of its own text, which the
 * input of extents tells: no batch, bucket, packing or planned length decides it. */
void bp_rotary_rotate(bp_builder *builder, const bp_rotary *rotary, uint64_t heads, uint64_t pitch,
                      bp_ref x, bool back);

#endif
