/* SPDX-License-Identifier: MIT */
/* The program verifier: proves, before the first step, that every op of every program stays inside
 * its buffers, that nothing is read before it is written, that what may not coincide does not, and
 * that no two live buffers overlap in the arena. */
#ifndef BP_CORE_VERIFY_H
#define BP_CORE_VERIFY_H

#include "core/program/program.h"

/* Bytes of scratch that bp_verify needs for this graph. */
uint64_t bp_verify_scratch(const bp_graph *graph);

/* Checks all programs before planning: operand presence and types, extents inside buffers (list ops
 * tuple by tuple), workspaces as large as the device says, in-place pairs, nothing written to
 * constants, nothing read before it is written. BP_ERR_VERIFY with the op's and operand's names in
 * the error. */
bp_status bp_verify(const bp_graph *graph, const bp_device *device,
                    const bp_device_options *options, void *scratch, uint64_t bytes) BP_MUST_CHECK;

/* Checks the plan: every buffer inside arena_bytes, aligned, no two with overlapping lifetimes and
 * bytes. */
bp_status bp_verify_plan(const bp_graph *graph, uint64_t arena_bytes, void *scratch,
                         uint64_t bytes) BP_MUST_CHECK;

#endif
