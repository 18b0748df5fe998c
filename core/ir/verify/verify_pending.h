/* SPDX-License-Identifier: MIT */
/* The part of the verifier that is about asynchronous work. */
#ifndef BP_CORE_VERIFY_PENDING_H
#define BP_CORE_VERIFY_PENDING_H

#include "arena/arena.h"
#include "core/ir/program.h"

typedef struct bp_pending_row bp_pending_row;

/* What it works in: work by request, and for each buffer the newest in flight to it, from it, and
 * that reads it beside. */
typedef struct bp_pending_rows {
    bp_pending_row *begun; /* [most + 1] */
    uint32_t *newest[3];   /* [buffers] each */
    uint32_t most;
} bp_pending_rows;

/* Takes the rows of a graph with so many ops and buffers out of an arena. */
bp_pending_rows bp_verify_pending_take(bp_arena *memory, const bp_graph_limits *used);

/* Checks one program whose operands are known to lie inside their buffers. Requests count the
 * begins of the program; every begin has exactly one wait, after it in the same program, of its
 * engine and with its operands; in between nobody writes the source or touches the target. What
 * computes has its operands in the device arena. BP_ERR_VERIFY with the op's name in the error.
 * Takes a look at each operand, and one at each work in flight whose target it may touch or whose
 * source it may write. */
bp_status bp_verify_pending(const bp_graph *graph, uint32_t program,
                            bp_pending_rows *rows) BP_MUST_CHECK;

#endif
