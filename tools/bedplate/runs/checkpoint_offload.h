/* SPDX-License-Identifier: MIT */
/* Checkpoints that leave in the offload file what lives there (--offload-two-versions). */
#ifndef BP_BEDPLATE_CHECKPOINT_OFFLOAD_H
#define BP_BEDPLATE_CHECKPOINT_OFFLOAD_H

#include "tools/bedplate/runs/checkpoint.h"

/* Key of such a checkpoint: the digest of the whole state, or no digest where it is all there. */
#define CHECKPOINT_OFFLOAD_KEY "run.state-offload"

/* Adds the key, and lists what is not below. Before the other calls. */
bp_status checkpoint_offload_begin(checkpoint *c) BP_MUST_CHECK;

/* Of the keys of the checkpoint that a run goes on from: which version of the file it needs.
 * BP_ERR_USAGE where the run has no such file. */
bp_status checkpoint_offload_find(session *s, bp_pairs saved, uint64_t step) BP_MUST_CHECK;

/* bp_checkpoint_save: where the file has two versions, and the run is not over, the file's is made
 * of this step, and the checkpoint is of what does not live there. c->digest is that of all. */
bp_status checkpoint_offload_save(checkpoint *c) BP_MUST_CHECK;

/* bp_checkpoint_load, of a checkpoint found by checkpoint_offload_find. BP_ERR_DATA where the file
 * holds another state than it did. */
bp_status checkpoint_offload_load(checkpoint *c, bp_pairs saved) BP_MUST_CHECK;

/* Whether a part of a checkpoint's state is below, and the digest of all of it. */
bool checkpoint_offload_digest(bp_pairs saved, uint64_t *digest);

#endif
