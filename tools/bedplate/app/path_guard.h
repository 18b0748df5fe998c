/* SPDX-License-Identifier: MIT */
/* Paths on the command line: which are read, which are written, and that none is both. */
#ifndef BP_BEDPLATE_PATH_GUARD_H
#define BP_BEDPLATE_PATH_GUARD_H

#include "tools/bedplate/app/options.h"

/* Behind the path of an offload file: the file of the reward model, where it needs one. */
#define PATH_BESIDE_REWARD ".reward"

/* Refuses what would destroy what the run needs: a written path that is read as well, or written
 * twice, whichever way it is spelled (links, "..", the name that is written first and renamed).
 * Refuses a device, a pipe or a stream of the command where a file would take its place as well.
 * Says so on stderr: BP_ERR_USAGE. */
bp_status path_guard_check(const settings *set) BP_MUST_CHECK;

/* Opens a file of ours that must not be another's: what has that name is unlinked, never written
 * into or followed. -1 with errno where it cannot be made. */
int path_guard_create(const char *path, unsigned mode);

#endif
