/* SPDX-License-Identifier: MIT */
/* Sound in FLAC files (RFC 9639). The head is read here; samples are unpacked by a library that the
 * caller brings, and checked here against the head. */
#ifndef BP_FORMATS_FLAC_H
#define BP_FORMATS_FLAC_H

#include "core/base/error.h"
#include "core/base/store.h"

/* What an open file says of itself. */
typedef struct bp_flac {
    bp_store *store;
    bp_file file;
    const char *path;
    uint64_t size;   /* bytes of the file */
    uint64_t begin;  /* byte of the first block of samples */
    uint64_t frames; /* samples of a channel; 0: the file does not say */
    uint32_t rate;   /* a second */
    uint32_t channels;
    uint32_t bits; /* of a sample */
} bp_flac;

/* A pass over the samples of a file. */
typedef struct bp_flac_pass {
    const bp_flac *flac;
    float *to;       /* NULL: they are counted alone */
    uint64_t most;   /* samples of a channel; one more ends the pass */
    uint64_t done;   /* samples of a channel so far */
    uint64_t next;   /* byte of the file that is read next */
    uint64_t behind; /* byte behind the last block that was whole */
    bp_status status;
    bp_error *error;
} bp_flac_pass;

/* What a library says of a block of samples. */
typedef struct bp_flac_block {
    uint64_t count; /* samples of each channel */
    uint32_t rate;
    uint32_t channels;
    uint32_t bits;
    uint64_t behind; /* byte behind it; 0: not known */
} bp_flac_block;

/* A library that unpacks. run calls the three functions below until the file ends or one of them
 * fails, and returns the pass's status. */
typedef struct bp_flac_library bp_flac_library;
struct bp_flac_library {
    /* BP_ERR_DATA, with path as the error's name: this build or machine has no such library. */
    bp_status (*load)(bp_flac_library *library, const char *path, bp_error *error);
    bp_status (*run)(bp_flac_library *library, bp_flac_pass *pass);
};

/* The file's next bytes, at most *count, which becomes 0 at its end. */
bp_status bp_flac_bytes(bp_flac_pass *pass, void *to, size_t *count) BP_MUST_CHECK;

/* Takes the mean of the channels of a block, whole numbers divided by 2^(bits - 1). BP_ERR_DATA:
 * the block is not of the sound that the head describes, or goes beyond its end. */
bp_status bp_flac_take(bp_flac_pass *pass, const bp_flac_block *block,
                       const int32_t *const *channel) BP_MUST_CHECK;

/* The block behind the last whole one is damaged; returns BP_ERR_DATA. */
bp_status bp_flac_damaged(bp_flac_pass *pass, const char *text);

/* *is: whether the file begins as FLAC does; then it is open and its head was read. BP_ERR_DATA,
 * with the file as the error's name: the head is damaged or cut short. A file that is not there is
 * none. After an error nothing is left open. */
bp_status bp_flac_open(bp_flac *flac, bp_store *store, const char *path, bool *is,
                       bp_error *error) BP_MUST_CHECK;
void bp_flac_close(bp_flac *flac);

/* Counts the samples of a file that does not say how many there are; stops behind `most`. */
bp_status bp_flac_count(bp_flac *flac, bp_flac_library *library, uint64_t most,
                        bp_error *error) BP_MUST_CHECK;

/* to (flac->frames), all samples. BP_ERR_DATA: the file is damaged, ends too early, or has more
 * samples than its head announces. */
bp_status bp_flac_read(const bp_flac *flac, bp_flac_library *library, float *to,
                       bp_error *error) BP_MUST_CHECK;

#endif
