/* SPDX-License-Identifier: MIT */
/* --on-spike rollback: after a spike the state becomes that of the newest checkpoint that the
 * options asked for, and training goes on with the next step; so the batches since that checkpoint
 * are passed over. Step, schedule and data go on, as after a step that is skipped. What a signal or
 * a limit had saved in between is never gone back to, so an interrupted run does as one that was
 * not. */
#ifndef BP_BEDPLATE_ROLLBACK_H
#define BP_BEDPLATE_ROLLBACK_H

#include "tools/bedplate/runs/saving.h"

/* Before the first step of a run with that policy: saves its state as checkpoint-0, to which spikes
 * before the first checkpoint go back. Nothing otherwise. */
bp_status rollback_begin(saving *v) BP_MUST_CHECK;

/* After a step whose outcome says BP_STEP_BACK, and nothing otherwise: loads the checkpoint, and
 * tells it in record and events. BP_ERR_STORE, BP_ERR_DATA: it is not there, or damaged; then
 * nothing may be saved any more. */
bp_status rollback_take(checkpoint *c, const bp_outcome *outcome) BP_MUST_CHECK;

/* A state in memory, for replays, which have no checkpoints of their own. */
typedef struct rollback_copy {
    unsigned char *bytes; /* NULL: none yet */
    uint64_t step;
    uint64_t digest;
} rollback_copy;

/* Copies the state of `step`. Takes memory with the first call: not for the steps of a run. */
bp_status rollback_keep(const checkpoint *c, rollback_copy *copy, uint64_t step) BP_MUST_CHECK;
bp_status rollback_return(const checkpoint *c, const rollback_copy *copy) BP_MUST_CHECK;
void rollback_forget(rollback_copy *copy);

#endif
