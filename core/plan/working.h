/* SPDX-License-Identifier: MIT */
/* Host memory that a run takes beside its plan's tables: closed forms of the spec. */
#ifndef BP_CORE_WORKING_H
#define BP_CORE_WORKING_H

#include "core/plan/input.h"
#include "core/ir/step.h"

#define BP_WORKING_ALIGNMENT 64 /* of each piece */

/* Bytes of the logits that generation or evaluation leaves for the host, in F32. */
uint64_t bp_working_logits(const bp_spec *spec);

/* Bytes of what the feed stages of an input for a group. */
uint64_t bp_working_column(const bp_spec *spec, const bp_input *input);

/* Bytes of what the feed says of the lengths in a group, where there are programs to choose from.
 */
uint64_t bp_working_longest(const bp_spec *spec);

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

/* All of it, with the device's context and what aligning the pieces takes. */
uint64_t bp_working_bytes(const bp_spec *spec);

#endif
