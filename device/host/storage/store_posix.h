/* SPDX-License-Identifier: MIT */
/* bp_store over POSIX files. */
/* Installed as part of <bedplate/store.h>. */
#ifndef BP_DEVICE_HOST_STORE_POSIX_H
#define BP_DEVICE_HOST_STORE_POSIX_H

#include "arena/base.h"
#include "core/base/store.h"

/* The caller owns it; it must stay where it is while its store is used. */
typedef struct bp_store_posix {
    bp_store store;
    char root[BP_STORE_PATH_MAX];
} bp_store_posix;

/* Makes *posix a store whose relative paths are below `root` ("" or "." is the working directory);
 * absolute paths are taken as they are. BP_ERR_USAGE when root is too long. After a failed call
 * store.code is the errno. Interrupted calls are repeated and short ones continued; nothing else is
 * tried twice. Only regular files are opened. list uses opendir, which allocates inside libc. */
bp_status bp_store_posix_init(bp_store_posix *posix, const char *root) BP_MUST_CHECK;

#endif
