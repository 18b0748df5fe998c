/* SPDX-License-Identifier: MIT */
/* The least time to go forward and backward through a chain of stages inside a number of bytes.
 *
 * Dynamic programming over persistent schedules, after Beaumont, Eyraud-Dubois, Herrmann, Joly and
 * Shilova, "Optimal checkpointing for heterogeneous chains" (hal-02352969), extended in two ways: a
 * stage may leave any of several tape variants, and parameter gradients that are born in backward
 * narrow what is left for the stages before.
 *
 * T(m, i, l) is the least time for stages i .. l in m bytes, the input of i held outside of m:
 *   i = l:   b(i, nothing), which recomputes what it needs from the input
 *   split:   sum of f(i .. j-1, nothing) + T(m - x(j), j, l) + T(m - G(j .. l), i, j - 1)
 *   keep v:  f(i, v) + T(m - tape(i, v) - x(i + 1), i + 1, l) + b(i, v)
 * each where the peaks of its own actions fit into m. Memory is cut into slots and every size
 * rounded up, so a schedule found fits by construction. */
#ifndef BP_CORE_CHAIN_H
#define BP_CORE_CHAIN_H

#include "core/plan/schedule.h"

#define BP_CHAIN_VARIANTS 24   /* most tape variants of a stage */
#define BP_CHAIN_SLOTS    2000 /* most slots memory is cut into */

/* One tape variant of a stage. Bytes are of buffers that the stage makes, its input left out. */
typedef struct bp_chain_variant {
    uint32_t number;        /* what actions call it: bp_action.variant */
    double forward;         /* seconds */
    double backward;        /* seconds; recomputation of what the tape lacks included */
    uint64_t tape;          /* kept between forward and backward */
    uint64_t forward_peak;  /* during forward: output, tape, temporary buffers */
    uint64_t backward_peak; /* during backward: tape, both stream gradients, parameter gradients,
                                temporary buffers */
} bp_chain_variant;

typedef struct bp_chain_stage {
    uint64_t input;     /* bytes of the boundary before the stage */
    uint64_t d_output;  /* bytes of the gradient of the boundary behind it; 0 for the last stage */
    uint64_t gradients; /* bytes that its backward leaves for the update */
    uint32_t variants;  /* the last keeps nothing; 1: the stage has no tape at all */
    bp_chain_variant variant[BP_CHAIN_VARIANTS];
} bp_chain_stage;

/* The stage where one program holds several micro-batches and each action is done for all of them
 * before the next: what it leaves and finds is there once for each, what it works in is there once.
 * `output` is the input of the stage after it. Sizes must be far from 2^64 / micros. */
void bp_chain_widen(bp_chain_stage *stage, uint64_t output, uint64_t micros);

/* Slots used for n stages: BP_CHAIN_SLOTS, fewer for chains so long that the table would pass 48
 * MB. */
uint32_t bp_chain_slots(uint32_t stages);

/* Bytes of scratch that solving needs; BP_SIZE_INVALID on overflow. */
uint64_t bp_chain_scratch(uint32_t stages);

/* Writes the schedule of least time inside `bytes` to actions (room for `limit`), its length to
 * *count and its time to *seconds. BP_ERR_FIT when no schedule fits the bytes or the table of
 * actions. */
bp_status bp_chain_solve(const bp_chain_stage *stages, uint32_t count, uint64_t bytes,
                         void *scratch, uint64_t scratch_bytes, bp_action *actions, uint32_t limit,
                         uint32_t *action_count, double *seconds) BP_MUST_CHECK;

/* The most bytes at one time of a schedule of the chain, the input of the first stage left out.
 * room: 2 count numbers. Cost: the actions. */
uint64_t bp_chain_peak(const bp_chain_stage *stages, uint32_t count, const bp_action *actions,
                       uint32_t action_count, uint64_t *room);

/* Seconds that no persistent schedule inside `bytes` undercuts, by the same programme with sizes
 * rounded down. BP_ERR_FIT when there is none even so. Cost: that of solving. */
bp_status bp_chain_bound(const bp_chain_stage *stages, uint32_t count, uint64_t bytes,
                         void *scratch, uint64_t scratch_bytes, double *seconds) BP_MUST_CHECK;

#endif
