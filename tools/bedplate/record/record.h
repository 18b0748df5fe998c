/* SPDX-License-Identifier: MIT */
/* OUTPUT/record.jsonl: what a run computed, and nothing else, so that the record of a resumed run
 * is byte for byte that of one that was never interrupted (docs/record.md). Each line ends with
 *     ,"chain":"C"}
 * where C = SHA-256(chain of the line before, 32 bytes || the line's bytes before ,"chain"), and
 * the first line follows 32 zero bytes.
 *
 * Lines that the medium does not take wait in memory and are tried again with the next one, so a
 * full disk does not end a run. A file that others cut is no record any more: it is told, nothing
 * more is written, and checkpoints are saved without a record. Allocates nothing. */
#ifndef BP_BEDPLATE_RECORD_H
#define BP_BEDPLATE_RECORD_H

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/store.h"
#include "tools/bedplate/record/json_line.h"

#define RECORD_NAME    "record.jsonl"
#define RECORD_WAITING ((size_t)1 << 20) /* bytes of lines that may wait; also a line's longest */

typedef struct record {
    int fd;                               /* below 0: there is no record */
    uint64_t length;                      /* of all lines, those that wait included */
    unsigned char chain[BP_SHA256_BYTES]; /* of the last of them */
    uint64_t evaluated;                   /* step of the last evaluation; UINT64_MAX: none */
    bool broken;                          /* lines were lost: what follows is no record any more */
    uint64_t errors;                      /* calls of the system that failed */
    const char *said;                     /* what was found that is not told yet; NULL: nothing */
    char path[BP_STORE_PATH_MAX];
    json_line line;
    size_t began;   /* of the line that is being put, in waiting */
    size_t waiting; /* bytes */
    char text[RECORD_WAITING];
} record;

/* Begins an empty record in DIRECTORY, in place of what is there. */
bp_status record_create(record *r, const char *directory, bp_error *error) BP_MUST_CHECK;

/* Opens the record of a run that goes on: its first `length` bytes must be whole lines whose chain
 * ends with `chain`; what follows them is cut off. BP_ERR_DATA where that is not so, and then the
 * file is as it was. */
bp_status record_continue(record *r, const char *directory, uint64_t length,
                          const unsigned char chain[BP_SHA256_BYTES],
                          bp_error *error) BP_MUST_CHECK;

/* A line; its members follow, then record_end. `kind` is its first key. */
json_line *record_begin(record *r, const char *kind, uint64_t step);
void record_end(record *r);

/* Where the file was moved or removed, writes all of it under its name again and goes on there.
 * Called when somebody asks for it, and before each checkpoint. */
void record_reopen(record *r);

/* Everything is on the medium when this returns true. */
bool record_sync(record *r);
void record_close(record *r);

/* The chain after a line whose bytes before ,"chain" these are; in place. */
void record_link(unsigned char chain[BP_SHA256_BYTES], const char *line, size_t length);

#endif
