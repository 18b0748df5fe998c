/* SPDX-License-Identifier: MIT */
/* The program verifier: proves, before the first step, that every op of every program stays inside
 * its buffers, that nothing is read before it is written, that what may not coincide does not, and
 * that no two live buffers overlap in the arena.
 *
 * What is written of a buffer is known as a few rectangles of bytes (core/program/written.h), so
 * four columns of twelve are those four. Contents count as written only where every run of the
 * programs finds them: not what an earlier program left in a buffer that lives in one, not what
 * only a group's later micro-batches write, since there may be none, and not what a workspace lay
 * on. A program that is refused may be harmless; one that passes reads no byte that is undefined,
 * stale or another buffer's, as far as kernels.def says what its kernels read. */
#ifndef BP_CORE_VERIFY_H
#define BP_CORE_VERIFY_H

#include "core/program/program.h"

/* Bytes of scratch that bp_verify needs for this graph. */
uint64_t bp_verify_scratch(const bp_graph *graph);

/* Checks all programs before planning: operand presence and types, extents inside buffers (list ops
 * tuple by tuple), workspaces as large as the device says, in-place pairs, nothing written to
 * constants or to what the host fills in, nothing read before it is written. BP_ERR_VERIFY with the
 * op's and operand's names in the error. */
bp_status bp_verify(const bp_graph *graph, const bp_device *device,
                    const bp_device_options *options, void *scratch, uint64_t bytes) BP_MUST_CHECK;

/* Checks the plan: every use of a buffer in its lifetime, every buffer of the device arena inside
 * arena_bytes, aligned, no two with overlapping lifetimes and bytes. */
bp_status bp_verify_plan(const bp_graph *graph, uint64_t arena_bytes, void *scratch,
                         uint64_t bytes) BP_MUST_CHECK;

/* The places in another space's arena, likewise. */
bp_status bp_verify_space(const bp_graph *graph, bp_space space, uint64_t arena_bytes,
                          void *scratch, uint64_t bytes) BP_MUST_CHECK;

#endif
