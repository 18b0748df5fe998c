/* SPDX-License-Identifier: MIT */
/* That copies of what lives below are what is there, as long as they are read. */
#ifndef BP_CORE_VERIFY_COPIES_H
#define BP_CORE_VERIFY_COPIES_H

#include "core/program/program.h"

/* Bytes of scratch, at a multiple of 8. */
uint64_t bp_verify_copies_scratch(uint32_t buffers);

/* Refuses a program in which an op reads what was brought from below, after other bytes of the same
 * were written there; what an op has written before that is a copy no more. BP_ERR_VERIFY with the
 * buffer's name in the error. Takes one look at each operand, and at the copies of what is written
 * below. */
bp_status bp_verify_copies(const bp_graph *graph, uint32_t program, void *scratch) BP_MUST_CHECK;

#endif
