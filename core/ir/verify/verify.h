/* SPDX-License-Identifier: MIT */
/* The program verifier: proves, before the first step, that every op of every program stays inside
 * its buffers, that nothing is read before it is written, that what may not coincide does not, and
 * that no two live buffers overlap in the arena.
 *
 * What is written of a buffer is known as a few rectangles of bytes (core/ir/written.h), so
 * four columns of twelve are those four. Contents count as written only where every run of the
 * programs finds them: not what an earlier program left in a buffer that lives in one, not what
 * only a group's later micro-batches write, since there may be none, and not what a workspace lay
 * on. What the host fills in is known field by field (bp_graph_field): integers that a row looks
 * things up by have to be in its range, also after an op has copied them, and a step block has to
 * be one. What the host takes out after a program has to be written by it. Scalars are what a row
 * requires, operands are aligned, and no tuple of a list op touches what another one writes.
 *
 * A program that is refused may be harmless; one that passes reads no byte that is undefined,
 * stale or another buffer's, as far as kernels.def says what its kernels read and require.
 * tests/unit/core/ir/verify/test_mutants.c plants faults into the programs of all families to see
 * that it does, and that kernels.def says it. */
#ifndef BP_CORE_VERIFY_H
#define BP_CORE_VERIFY_H

#include "core/ir/program.h"

/* Bytes of scratch that bp_verify needs for this graph. */
uint64_t bp_verify_scratch(const bp_graph *graph);

/* Checks all programs before planning: scalars, operand presence, types and alignment, extents
 * inside buffers, workspaces as large as the device says, in-place pairs, list ops tuple by tuple
 * and against one another, nothing written to constants or to what the host fills in, nothing read
 * before it is written, no copy of what is offloaded read after that has changed, integers to look
 * things up by in range, all written that the host reads.
 * BP_ERR_VERIFY with the op's and operand's names in the error. */
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
