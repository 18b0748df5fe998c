/* SPDX-License-Identifier: MIT */
/* Files that are needed for a while and by nobody else. They have no name, so that nothing is left
 * where the program is killed, and nobody can guess or replace them; their path is
 * /proc/self/fd/N. Where the system has no such paths the name is one that cannot be guessed, and
 * the mode 0600. */
#ifndef BP_BEDPLATE_TEMPORARY_H
#define BP_BEDPLATE_TEMPORARY_H

#include "core/base/error.h"
#include "core/base/store.h"

/* An empty file in a folder; its path, which is good until temporary_end. BP_ERR_STORE. */
bp_status temporary_make(const char *folder, char path[BP_STORE_PATH_MAX],
                         bp_error *error) BP_MUST_CHECK;

/* The path `name` in a new folder of its own (0700, a name that cannot be guessed) in `folder`, for
 * who makes a file by renaming another. Folders that killed programs of the same user left there
 * are removed with the files that are known by their names; so `name` has ".tokens" or ".packed" in
 * it. BP_ERR_STORE. */
bp_status temporary_make_inside(const char *folder, const char *name, char path[BP_STORE_PATH_MAX],
                                bp_error *error) BP_MUST_CHECK;

/* The file, and its folder, are needed no more; whoever has it open goes on reading it. */
void temporary_end(const char *path);
void temporary_end_inside(const char *path);

#endif
