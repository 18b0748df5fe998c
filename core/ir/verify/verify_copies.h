/* SPDX-License-Identifier: MIT */
/* That copies of what is offloaded are what is there, as long as they are read. */
#ifndef BP_CORE_VERIFY_COPIES_H
#define BP_CORE_VERIFY_COPIES_H

#include "arena/arena.h"
#include "core/ir/program.h"

typedef struct bp_copies_row bp_copies_row;

/* A row for each buffer: what bp_verify_copies works in. NULL as of bp_arena_take. */
bp_copies_row *bp_verify_copies_take(bp_arena *memory, uint32_t buffers);

/* Refuses a program in which an op reads what was fetched from the offload tier, after other bytes
 * of the same were written there. What a write covers whole is a copy no more, and may be read
 * again; what is written in part, or by several tuples of an op, stays one. A buffer that is
 * brought in part from one place and then in part from another is a copy of the latter only: that
 * is the limit of this. BP_ERR_VERIFY with the buffer's name in the error. Takes one look at each
 * operand, and at the copies of what is written to the offload tier. */
bp_status bp_verify_copies(const bp_graph *graph, uint32_t program,
                           bp_copies_row *rows) BP_MUST_CHECK;

#endif
