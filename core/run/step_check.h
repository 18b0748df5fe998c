/* SPDX-License-Identifier: MIT */
/* Looking at a step between its backward pass and its update: loss and norm can be judged, and
 * forward and backward computed again and compared, before a weight is touched. A program is run in
 * two parts for that, up to the op that decides the step and from there on; the bits are those of
 * the whole program. Where backward moves statistics (batch norm) nothing is computed again, and a
 * step that is skipped has moved them. Costs no byte of an arena; where the device runs ahead of
 * the host, one more wait a step. */
/* Installed as part of <bedplate/runtime.h>. */
#ifndef BP_CORE_STEP_CHECK_H
#define BP_CORE_STEP_CHECK_H

#include "core/run/handle.h"

typedef enum bp_step_verdict {
    BP_STEP_APPLY,
    BP_STEP_CLIP, /* the update's gradients are multiplied by a factor */
    BP_STEP_SKIP, /* weights, moments and the count of applied steps stay as they are */
    BP_STEP_BACK  /* the same, and the caller goes back to an earlier state */
} bp_step_verdict;

/* What computing a step again has shown. The second run is made by other kernels with the same bits
 * and on other processors, as far as the device has them, and so is the third. */
typedef enum bp_recompute {
    BP_RECOMPUTED_EQUAL,      /* the second run gave the bits of the first one */
    BP_RECOMPUTED_TRANSIENT,  /* it did not; a third agreed with one of them, whose result is taken;
                            and  the way of the other one gives that result now */
    BP_RECOMPUTED_PERSISTENT, /* it still does not: on the processors that are named */
    BP_RECOMPUTED_MISMATCH    /* three runs, three results */
} bp_recompute;

#define BP_RECOMPUTED_PROCESSORS 64 /* more are not named */

typedef struct bp_recompute_found {
    bp_recompute result;
    const char *tensor;  /* among the gradients that differ first; "" where only the result does */
    const char *kernels; /* of the run that was alone with its result */
    uint32_t processors; /* that gave another result each time, when all halves of a set had been */
    uint16_t processor[BP_RECOMPUTED_PROCESSORS]; /* tried; 0: it is not known */
} bp_recompute_found;

typedef struct bp_step_check {
    void *user;
    /* Whether this step is to be computed again first. `seen` has step, loss, norm, nonfinite and,
     * for an overflow of the loss scale, skipped. */
    bool (*again)(void *user, const bp_outcome *seen);
    void (*found)(void *user, const bp_outcome *seen, const bp_recompute_found *found);
    /* What is done about it. A step whose loss or norm is not finite is skipped in any case. */
    bp_step_verdict (*decide)(void *user, const bp_outcome *seen, double *factor);
    /* Of several ranks, which all judge and so all ask: whether `mine` holds on any of them. NULL:
     * there is one. */
    bp_status (*any)(void *user, bool mine, bool *holds);
} bp_step_check;

/* Every step from now on is judged; NULL: none. The record stays the caller's. BP_ERR_USAGE where
 * the planned programs have no such place: gradients that are released before the norm is known, or
 * folded into the moments, asynchronous copies, and calls of a fabric that are under way there. */
bp_status bp_runtime_step_check(bp_runtime *runtime, const bp_step_check *step_check) BP_MUST_CHECK;

#endif
