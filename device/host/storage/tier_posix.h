/* SPDX-License-Identifier: MIT */
/* bp_tier over one file, read and written past the page cache.
 *
 * A page that is read is compared with a digest of what was written there, or read there first: a
 * drive, a cable or another program that changes bytes in between fails the read by name. */
#ifndef BP_DEVICE_HOST_TIER_POSIX_H
#define BP_DEVICE_HOST_TIER_POSIX_H

#include "core/base/error.h"

struct bp_tier;

/* Room that the file is read and written through, where memory or bytes are not whole pages. */
#define BP_TIER_PIECE   ((uint64_t)1 << 20)
#define BP_TIER_WINDOW  ((uint64_t)128 << 10)
#define BP_TIER_WINDOWS 8
#define BP_TIER_ROOM    (2 * BP_TIER_PIECE + BP_TIER_WINDOWS * BP_TIER_WINDOW)

/* A stretch of the file that the caller's hands are at. */
typedef struct bp_tier_window {
    uint64_t first; /* byte of the file; UINT64_MAX: none */
    uint64_t used;  /* when last */
    bool dirty;
} bp_tier_window;

/* The caller owns it; it must not move while it is open. */
typedef struct bp_tier_posix {
    int descriptor;
    bool open;
    uint64_t bytes;
    bool earlier; /* a file of this size without a mark is one of version 0.1, which had none */
    uint64_t uses;
    uint64_t read_bytes; /* that the thread that reads has brought, since the file was opened */
    unsigned char *room;
    uint32_t *digests; /* of each page; 0: it was neither written nor read yet */
    const char *path;
    bp_tier_window window[BP_TIER_WINDOWS];
} bp_tier_posix;

extern const struct bp_tier bp_tier_posix_table;

/* Bytes of the memory that a file of so many bytes is read and written through, with four for the
 * digest of each of its pages. BP_SIZE_INVALID where they are no size. */
uint64_t bp_tier_posix_memory(uint64_t bytes);

/* Opens or makes the file and takes `bytes` bytes of the disk for it, rounded up to whole windows.
 * The path has to stay until close; room is bp_tier_posix_memory bytes at a multiple of 4096. The
 * file is this process's alone, and its first contents are whatever they were; a page behind them
 * says that the file was made here. A new one is its owner's alone (0600). buffered: through the
 * page cache, which then has as many bytes as the file. BP_ERR_STORE says what the system refused;
 * BP_ERR_USAGE that the file holds something else, which is not touched, or that the file system
 * keeps files in memory, or cannot go past the page cache. */
bp_status bp_tier_posix_open(bp_tier_posix *tier, const char *path, uint64_t bytes, bool buffered,
                             void *room, bp_error *error) BP_MUST_CHECK;

/* The same, for a run that goes on from what the file holds: one of exactly these bytes without a
 * mark is taken as well, as version 0.1 made it; who reads it verifies its digests. */
bp_status bp_tier_posix_reopen(bp_tier_posix *tier, const char *path, uint64_t bytes, bool buffered,
                               void *room, bp_error *error) BP_MUST_CHECK;

/* The file stays. Harmless on a zeroed record. */
void bp_tier_posix_close(bp_tier_posix *tier);

#endif
