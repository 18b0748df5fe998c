/* SPDX-License-Identifier: MIT */
/* What the compiler's files share: closed forms, the walk through stage actions, gradient release.
 */
#ifndef BP_CORE_COMPILE_PRIVATE_H
#define BP_CORE_COMPILE_PRIVATE_H

#include "core/plan/compile.h"
#include "core/plan/optimizer.h"

#define TABLE_ALIGNMENT     16
#define COMPILE_SLICES_MOST 16 /* into which a table's gradient is cut */
#define COMPILE_TABLES      2  /* the first stage's and the last one's */

/* Norms are summed by chunks of this many elements (optim/clip.h); slices end where chunks do, so
 * that the sums stay the same. */
#define COMPILE_CHUNK 65536

/* The rows that compile_share_out deals from, of as many parameters as there may be, and its map;
 * neither where no state is shared. */
bp_status compile_share_rows(const bp_spec *spec, bp_arena *memory, void **rows,
                             bp_shards *map) BP_MUST_CHECK;

/* Deals the published parameters out where the spec shares the state, and makes their masters. */
bp_status compile_share_out(bp_builder *builder, bp_arena *memory) BP_MUST_CHECK;

/* Whether sums of gradients stay where they are owned until an update at the end. */
bool compile_keeps_sums(const bp_spec *spec);

/* Whether stages go through several micro-batches of a virtual rank one after the other, where one
 * rank goes through the micro-batches: what two stages share is then added up in another order. */
bool compile_orders_stages(const bp_spec *spec);

/* A row of what all ranks give to a call, and what this rank's and all pieces are. */
typedef struct compile_pieces {
    uint32_t row; /* number of its first scalar */
    uint64_t bytes;
    uint64_t whole;
} compile_pieces;

/* The next rank's piece in the row that is being made. */
void compile_piece(bp_builder *builder, uint64_t first, uint64_t bytes);

/* A pass (core/plan/passes/passes.h): brings a weight that is shared out together from all ranks,
 * into a buffer that lives while the parameter is held. */
void compile_gather(bp_builder *builder, uint32_t index);

/* A pass: a parameter that is acquired now is read at the average of its update rule, if it has
 * one, which is formed where it lies while it is held. */
void compile_average(bp_builder *builder, uint32_t index);

/* Begins the gathers of weights earlier, in every program (core/plan/passes/ahead.c). */
void compile_gather_ahead(bp_graph *graph, const bp_spec *spec);

/* Whether the frozen parameter that is being published lives in storage
 * (core/plan/passes/offload.c).
 */
bool compile_is_offloaded(bp_builder *builder, uint32_t index);

/* Whether a trained one does, of which it is known whether its state does. */
bool compile_goes_along(bp_builder *builder, uint32_t index);

/* The space in which that is. */
bp_space compile_offload_space(const bp_builder *builder);

/* Whether its master and its state do. */
bool compile_goes_aside(bp_builder *builder, uint32_t index);

/* Whether what is added up of its gradient does, of which the same is known. */
bool compile_gradient_goes(bp_builder *builder, uint32_t index);

/* Makes the buffer in which a parameter's gradient is kept. */
void compile_make_gradient(bp_builder *builder, uint32_t index);

/* The buffer that this stage adds to, of a gradient that is offloaded; written: it begins with what
 * is there. */
bp_ref compile_gradient_here(bp_builder *builder, uint32_t index, bool written);

/* Writes the gradients that a backward stage has added to, and that are offloaded, to there. */
void compile_offload_gradients(bp_builder *builder);

/* Whether its weight is kept as codes of core/ops/fp8.h, if it is trained. */
bool compile_goes_fp8(const bp_builder *builder, uint32_t index);

/* A pass: brings a parameter that lives in storage into buffers that live while it is held. */
void compile_fetch(bp_builder *builder, uint32_t index);

/* Chooses builder->passes.slice_bytes, once all parameters are published. */
void compile_slice_weights(bp_builder *builder);

/* Brings `bytes` bytes of a buffer that is offloaded, from `first` on. */
void compile_bring_into(bp_builder *builder, bp_ref to, uint32_t buffer, uint64_t first,
                        uint64_t bytes);

/* Begins to write a checkpoint to a slot of the offload tier, whose ref has the type and the offset
 * of the checkpoint's, and waits for it. What is begun has the number *request. */
bp_ref compile_checkpoint_begin(bp_builder *builder, bp_ref checkpoint, int64_t *request);
void compile_checkpoint_wait(bp_builder *builder, bp_ref slot, bp_ref checkpoint, int64_t request);

/* Begins to bring what lives in storage earlier, and waits later for what goes there, in every
 * program. */
void compile_fetch_ahead(bp_graph *graph, const bp_spec *spec);

/* Gives the requests of the ops [first, end) of a program the numbers of their new order. */
void compile_ahead_number(bp_graph *graph, uint32_t first, uint32_t end);

/* bp_optimizer.apply, whatever is ready being held for it only; where the state is shared each rank
 * moves its own shares, and the weights then go to all. */
void compile_apply(bp_builder *builder);

/* An emitter into `graph`, with rows for all parameters of the spec, which are allocated. */
bp_status compile_emission(bp_builder *builder, bp_graph *graph, const bp_spec *spec,
                           bp_arena *memory) BP_MUST_CHECK;

/* Makes the buffers that every program reads or writes (inputs, control, result) and points the
 * emitter at them. */
bp_status compile_fixed(bp_compile *compile, bp_builder *builder) BP_MUST_CHECK;

/* The emitter as a program begins: its inputs, nothing shared yet, a buffer for the losses of one
 * that forms them. */
void compile_emitter(const bp_compile *compile, bp_builder *builder, bp_program_kind program,
                     bp_mode mode);

/* Finds compile->first. compile->stages is set, the parameters are published. */
void compile_find_first(bp_compile *compile, const bp_builder *builder);

/* Starts a program in which nothing has been computed yet. */
void compile_begin(bp_compile *compile, bp_builder *builder, bp_program_kind program, bp_mode mode);

/* Points the emitter at the step block and inputs of a micro-batch of the program. */
void compile_inputs(const bp_compile *compile, bp_builder *builder, uint32_t micro);

/* What the backward of call->stage is asked for: whether its input's gradient is read, and whether
 * a table's is formed later. compile->first and the slices are chosen. */
void compile_ask(const bp_compile *compile, bp_stage_call *call);

/* Writes action number `index` of the schedule for one micro-batch. */
void compile_action(bp_compile *compile, bp_builder *builder, uint32_t index, uint32_t micro);

/* Chooses the tables whose gradients are formed slice by slice, if there are any, and the slices.
 */
void compile_choose_slices(bp_compile *compile, const bp_builder *builder);

/* Writes the update from whole gradients. */
void compile_update(bp_builder *builder);

/* Writes the STEP program of a group that one program holds: gradients are released inside
 * backward, or there are several virtual ranks. */
void compile_released(bp_compile *compile, bp_builder *builder);

/* Gradients on their way (core/plan/passes/exchange.c). A program begins. */
void compile_pending_begin(bp_compile *compile);

/* Marks the parameters that are ready in a window; whether there are any. */
bool compile_mark(const bp_compile *compile, bp_builder *builder, const bp_window *window);

/* What is ready in a window is used: at once, or, of several ranks, when it has been exchanged. */
void compile_dispatch(bp_compile *compile, bp_builder *builder, bp_window *window);

/* Every bucket of the windows so far is sent. */
void compile_flush(bp_compile *compile, bp_builder *builder);

/* A pass: a parameter is acquired, and as many buckets are sent as it is time for. */
void compile_send_buckets(bp_builder *builder, uint32_t index);

/* What happens to the gradients that are ready in a window, if any are. */
void compile_use(bp_compile *compile, bp_builder *builder, const bp_window *window);

/* Writes forward and backward of a micro-batch whose gradients are added up in 8 bits, stage by
 * stage; later: to those of micro-batches before it. */
void compile_summed(bp_compile *compile, bp_builder *builder, bool later);

/* Adds the gradients that are ready to their sums, or makes the sums of them. */
void compile_sum(bp_builder *builder, bool later);

/* Writes the update from such sums. */
void compile_sum_update(bp_builder *builder);

#endif
