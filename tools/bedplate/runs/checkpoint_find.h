/* SPDX-License-Identifier: MIT */
/* Checkpoints by path: what --resume-from-checkpoint and --continue-from name. */
#ifndef BP_BEDPLATE_CHECKPOINT_FIND_H
#define BP_BEDPLATE_CHECKPOINT_FIND_H

#include "core/run/checkpoint/checkpoint.h"

/* The newest valid checkpoint in place->directory; damaged ones are named on stderr. *any is false
 * when there is none. */
bp_status checkpoint_find_newest(const bp_checkpoint_location *place, bp_checkpoint_found *found,
                                 bool *any) BP_MUST_CHECK;

/* The checkpoint at `path`: a checkpoint-N, or the newest valid one in a directory of some. All of
 * it is read. BP_ERR_DATA when there is none, or it is damaged; `option` is what the message names.
 */
bp_status checkpoint_find_at(const bp_checkpoint_location *place, const char *path,
                             const char *option, bp_checkpoint_found *found) BP_MUST_CHECK;

/* Whether `path` is the directory or lies in it. */
bool checkpoint_find_inside(const char *directory, const char *path);

#endif
