/* SPDX-License-Identifier: MIT */
/* Packed files: gzip (RFC 1952, any number of members) with zlib, zstd (RFC 8878, any number of
 * frames) with libzstd, from one file into another, through memory that the caller gives. */
#ifndef BP_FORMATS_UNPACK_H
#define BP_FORMATS_UNPACK_H

#include "tools/formats/files/content.h"

/* The largest window of a zstd frame that is unpacked: what `zstd -d` takes without an option. */
#define BP_UNPACK_WINDOW ((uint64_t)128 << 20)

/* All but the last two are the caller's to set, memory after measuring. */
typedef struct bp_unpack {
    bp_store *store;
    bp_file from;         /* open for reading */
    const char *name;     /* of it, for messages */
    bp_content_kind kind; /* BP_CONTENT_GZIP or _ZSTD */
    const char *to;       /* the path of what is unpacked; made or replaced */
    uint64_t most;        /* bytes that it may have */
    void *memory;         /* `bytes` of it, aligned to 64 */
    bp_error *error;
    uint64_t bytes;   /* of memory that unpacking needs: a closed form of the frames' windows */
    uint64_t written; /* of what is unpacked */
} bp_unpack;

/* Fills `bytes`. Of zstd it walks over all frames and blocks without unpacking them. BP_ERR_DATA:
 * the file is cut short, is no such file, or needs a larger window; BP_ERR_STORE. */
bp_status bp_unpack_measure(bp_unpack *unpack) BP_MUST_CHECK;

/* Unpacks. BP_ERR_DATA: damaged (checksums are looked at), cut short, something else behind the
 * packed data; BP_ERR_STORE, and where the result would have more than `most` bytes. After an error
 * the result is removed. */
bp_status bp_unpack_run(bp_unpack *unpack) BP_MUST_CHECK;

#endif
