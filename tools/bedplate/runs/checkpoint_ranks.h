/* SPDX-License-Identifier: MIT */
/* Checkpoints of several ranks. */
#ifndef BP_BEDPLATE_CHECKPOINT_RANKS_H
#define BP_BEDPLATE_CHECKPOINT_RANKS_H

#include "tools/bedplate/runs/checkpoint.h"

/* bp_checkpoint_save of c->checkpoint into c->place. Called by all ranks, none of which has the
 * turn: each writes its ranges of the files. Where a rank does not see the output directory of rank
 * 0, that one writes alone from then on (c->apart), and gets what it does not have from the others.
 */
bp_status checkpoint_ranks_save(checkpoint *c) BP_MUST_CHECK;

#endif
