/* SPDX-License-Identifier: MIT */
/* What the compiler's files share: closed forms, the walk through stage actions, gradient release.
 */
#ifndef BP_CORE_COMPILE_PRIVATE_H
#define BP_CORE_COMPILE_PRIVATE_H

#include "core/compile/compile.h"
#include "core/compile/optimizer.h"

#define TABLE_ALIGNMENT     16
#define COMPILE_SLICES_MOST 16 /* into which a table's gradient is cut */
#define COMPILE_TABLES      2  /* the first stage's and the last one's */

/* Norms are summed by chunks of this many elements (optim/clip.h); slices end where chunks do, so
 * that the sums stay the same. */
#define COMPILE_CHUNK 65536

/* An emitter into `graph`, with rows for all parameters of the spec, which are carved. */
bp_status compile_emission(bp_emit *emit, bp_graph *graph, const bp_spec *spec,
                           bp_arena *memory) BP_MUST_CHECK;

/* Makes the buffers that every program reads or writes (inputs, control, result) and points the
 * emitter at them. */
bp_status compile_fixed(bp_compile *compile, bp_emit *emit) BP_MUST_CHECK;

/* The emitter as a program begins: its inputs, nothing shared yet, a buffer for the losses of one
 * that forms them. */
void compile_emitter(const bp_compile *compile, bp_emit *emit, bp_program_kind program,
                     bp_mode mode);

/* Finds compile->first. compile->stages is set, the parameters are published. */
void compile_find_first(bp_compile *compile, const bp_emit *emit);

/* Starts a program in which nothing has been computed yet. */
void compile_begin(bp_compile *compile, bp_emit *emit, bp_program_kind program, bp_mode mode);

/* Points the emitter at the step block and inputs of a micro-batch of the program. */
void compile_inputs(const bp_compile *compile, bp_emit *emit, uint32_t micro);

/* Names the stage that the next ops belong to; action is UINT32_MAX outside a schedule. */
void compile_enter(bp_compile *compile, bp_emit *emit, uint32_t stage, uint32_t action);

/* A call of a stage with nothing but its input known. */
bp_stage_call compile_call(const bp_compile *compile, uint32_t stage, uint32_t micro);

/* What the backward of call->stage is asked for: whether its input's gradient is read, and whether
 * a table's is formed later. compile->first and the slices are chosen. */
void compile_ask(const bp_compile *compile, bp_stage_call *call);

/* Writes action number `index` of the schedule for one micro-batch. */
void compile_action(bp_compile *compile, bp_emit *emit, uint32_t index, uint32_t micro);

/* Chooses the tables whose gradients are formed slice by slice, if there are any, and the slices.
 */
void compile_choose_slices(bp_compile *compile, const bp_emit *emit);

/* Writes the STEP program of a group whose gradients are released inside backward. */
void compile_released(bp_compile *compile, bp_emit *emit);

/* Writes forward and backward of a micro-batch whose gradients are added up in 8 bits, stage by
 * stage; later: to those of micro-batches before it. */
void compile_summed(bp_compile *compile, bp_emit *emit, bool later);

/* Adds the gradients that are due to their sums, or makes the sums of them. */
void compile_sum(bp_emit *emit, bool later);

/* Writes the update from such sums. */
void compile_sum_update(bp_emit *emit);

#endif
