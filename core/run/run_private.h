/* SPDX-License-Identifier: MIT */
/* What steps, evaluation and generation share. */
#ifndef BP_CORE_RUN_PRIVATE_H
#define BP_CORE_RUN_PRIVATE_H

#include "core/run/runtime.h"

/* What one run is fed: of each declared input; NULL: nothing of it. */
typedef struct run_inputs {
    const void *from[BP_INPUTS_MAX];
    size_t tokens;                  /* generating: how many there are; 0: a whole micro-batch */
    uint32_t batch;                 /* samples of a micro-batch */
    uint32_t micro;                 /* which micro-batch's place they take on the device */
    const bp_length_bucket *bucket; /* whose program reads them; NULL: the padded run's */
} run_inputs;

/* Micro-batch `micro` of the staged group, for the place of number `place`. */
run_inputs run_inputs_of(const bp_runtime *runtime, uint32_t micro, uint32_t place);

/* The shortest programs that hold micro-batches first .. last of the staged group; NULL: the padded
 * run's. */
const bp_length_bucket *run_shortest(const bp_runtime *runtime, uint32_t first, uint32_t last);

/* Copies the step block and the inputs into the next staging slot and from there to the device. */
bp_status run_send(bp_runtime *runtime, const bp_step_block *block,
                   const run_inputs *in) BP_MUST_CHECK;

/* Runs a program of that length. */
bp_status run_length(bp_runtime *runtime, const bp_length_bucket *bucket,
                     bp_program_kind program) BP_MUST_CHECK;

/* Reads from the arena, where a buffer lies in the plan of `graph`, when what runs there has ended.
 */
bp_status run_receive(bp_runtime *runtime, const bp_graph *graph, bp_ref from, void *to,
                      size_t bytes) BP_MUST_CHECK;

/* bp_word_sum over a buffer as the plan of `graph` has it, its words counted from `from` on. */
bp_status run_word_sum(bp_runtime *runtime, const bp_graph *graph, uint32_t buffer, uint64_t from,
                       uint64_t *sum) BP_MUST_CHECK;

/* BP_ERR_USAGE with `text` where the program is not there, or the runtime is not open. */
bp_status run_require(bp_runtime *runtime, bp_program_kind program, const char *text) BP_MUST_CHECK;

/* Whether the feed's own members go together; what is wrong is set in `error`. */
bp_status run_check_members(const bp_feed *feed, bp_error *error) BP_MUST_CHECK;

/* Of fits.c: whether a feed that stages groups of `group` samples, `batch` at a time, fits the
 * plan: BP_ERR_USAGE with the member that differs. And whether what was staged is within what the
 * plan's inputs declare: BP_ERR_DATA. */
bp_status run_check_feed(bp_runtime *runtime, const bp_feed *feed, uint32_t batch,
                         uint32_t group) BP_MUST_CHECK;
bp_status run_check_group(bp_runtime *runtime, const bp_feed *feed) BP_MUST_CHECK;

/* All of a step up to its update, or, where nobody judges it, with it; then the rest. */
bp_status run_group(bp_runtime *runtime, bp_step_block *block) BP_MUST_CHECK;
bp_status run_rest(bp_runtime *runtime) BP_MUST_CHECK;

/* Every rank gives `bytes` bytes, a multiple of 8, and gets all ranks' in their order. */
bp_status run_gather(bp_runtime *runtime, const void *mine, uint64_t bytes,
                     void *all) BP_MUST_CHECK;

/* What a result says of the staged group. */
void run_outcome(const bp_runtime *runtime, const bp_result_block *result, bp_outcome *outcome);

/* Of step_check.c: a step that is checked, and the op of a linked program that decides it
 * (UINT32_MAX: there is none where it could be). */
bp_status step_check_step(bp_runtime *runtime, bp_step_block *block, bp_result_block *result,
                          bp_outcome *outcome) BP_MUST_CHECK;
uint32_t step_check_find(const bp_linked_program *program);

#endif
