/* SPDX-License-Identifier: MIT */
/* Host memory that a run takes beside its plan's tables. */
#ifndef BP_CORE_WORKING_H
#define BP_CORE_WORKING_H

#include "arena/arena.h"
#include "core/plan/input.h"
#include "core/ir/step.h"

#define BP_WORKING_ALIGNMENT 64 /* of each piece */

/* Groups of an evaluation by length whose results are kept at one time; 0: it is not worth it. */
uint32_t bp_working_sorted_groups(const bp_spec *spec);

/* Floats of the logits that a sample of an evaluation has. */
uint64_t bp_working_sample_logits(const bp_spec *spec);

/* What a micro-batch of an evaluation came to, beside losses and logits. */
typedef struct bp_evaluate_found {
    bp_result_block result;
    uint64_t targets;
    double weight; /* of the targets */
} bp_evaluate_found;

/* Bytes of the losses of all tokens of such a micro-batch, of one rank's piece of a round with them
 * or without, and of all pieces of a round (0: nothing is evaluated). */
uint64_t bp_working_losses(const bp_spec *spec);
uint64_t bp_working_piece(const bp_spec *spec, bool losses);
uint64_t bp_working_round(const bp_spec *spec, bool losses);

/* All of it. Pieces that a spec has no use for have no bytes. */
typedef struct bp_working {
    void *state;      /* (buffers): numbers of those that stay */
    void *staging[2]; /* step block and inputs of a micro-batch */
    void *window;     /* the feed's scratch */
    void *logits;     /* that generation or evaluation leaves for the host, in F32 */
    void *transfer;
    void *device;  /* its context */
    void *longest; /* what the feed says of the lengths in a group */
    void *round;   /* bp_working_round */
    void *lengths; /* bp_length_run of each length */
    void *order, *tokens, *losses, *kept, *windows; /* of groups whose results are kept */
    void *column[BP_INPUTS_MAX]; /* what the feed stages of an input for a group */
} bp_working;

/* Takes the pieces for a graph of so many buffers; from an arena that counts as well. */
bp_status bp_working_allocate(bp_working *working, const bp_spec *spec, uint32_t buffers,
                              bp_arena *memory) BP_MUST_CHECK;

/* Bytes that it takes, wherever they begin. */
uint64_t bp_working_bytes(const bp_spec *spec, uint32_t buffers);

#endif
