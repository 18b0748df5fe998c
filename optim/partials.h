/* SPDX-License-Identifier: MIT */
/* Sums over units of BP_CLIP_CHUNK elements, of which each rank forms those of what it owns and all
 * get all of them, in the order of the tensor: what is added up of them has the bits of one rank. A
 * unit of ownership holds whole ones (core/plan/passes/shards.h). */
#ifndef BP_OPTIM_PARTIALS_H
#define BP_OPTIM_PARTIALS_H

#include "core/plan/builder.h"

/* One gather of the sums of all parameters that are ready. */
typedef struct bp_partials {
    uint64_t width;  /* doubles of a unit */
    uint64_t room;   /* units of the rank that forms most of them; 0: nothing is due */
    bp_ref own;      /* F64, (room, width): what this rank forms, by parameter */
    bp_ref all;      /* F64, (ranks, room, width) */
    uint64_t formed; /* units of `own` that bp_partials_own has given out */
    uint64_t at[BP_VIRTUAL_RANKS_MAX]; /* by rank: the next unit of `all` to be placed. Ranks are no
                                  more than lanes */
} bp_partials;

/* Makes the buffers, "<label>.own_partials" and "<label>.all_partials", where something is due. */
void bp_partials_begin(bp_builder *builder, bp_partials *partials, uint64_t width);

/* Where this rank forms the sums of the elements that it owns of what is ready of a parameter, of
 * which there have to be some. Called in the order of parameters. */
bp_ref bp_partials_own(const bp_builder *builder, bp_partials *partials, uint32_t index);

/* All that are own have been formed: everybody gets them. */
void bp_partials_gather(bp_builder *builder, bp_partials *partials);

/* Copies the sums of what is ready of a parameter to `to`, from its first unit to its last. Called
 * in the order of parameters, for each that is ready. */
void bp_partials_place(bp_builder *builder, bp_partials *partials, uint32_t index, bp_ref to);

#endif
