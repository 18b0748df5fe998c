/* SPDX-License-Identifier: MIT */
/* That copies of what is offloaded are what is there, as long as they are read. */
#ifndef BP_CORE_VERIFY_COPIES_H
#define BP_CORE_VERIFY_COPIES_H

#include "core/ir/program.h"

/* Bytes of scratch, at a multiple of 8. */
uint64_t bp_verify_copies_scratch(uint32_t buffers);

/* Refuses a program in which an op reads what was fetched from the offload tier, after other bytes
 * of the same were written there. What a write covers whole is a copy no more, and may be read
 * again; what is written in part, or by several tuples of an op, stays one. A buffer that is
 * brought in part from one place and then in part from another is a copy of the latter only: that
 * is the limit of this. BP_ERR_VERIFY with the buffer's name in the error. Takes one look at each
 * operand, and at the copies of what is written to the offload tier. */
bp_status bp_verify_copies(const bp_graph *graph, uint32_t program, void *scratch) BP_MUST_CHECK;

#endif
