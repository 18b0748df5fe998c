/* SPDX-License-Identifier: MIT */
/* The part of the verifier that is about asynchronous work. */
#ifndef BP_CORE_VERIFY_PENDING_H
#define BP_CORE_VERIFY_PENDING_H

#include "core/ir/program.h"

/* Checks one program whose operands are known to lie inside their buffers. Requests count the
 * begins of the program; every begin has exactly one wait, after it in the same program, of its
 * engine and with its operands; in between nobody writes the source or touches the target. What
 * computes has its operands in the device arena. BP_ERR_VERIFY with the op's name in the error.
 * Takes as long as there are ops in flight over ops: without asynchronous work one look at each
 * operand. */
bp_status bp_verify_pending(const bp_graph *graph, uint32_t program) BP_MUST_CHECK;

#endif
