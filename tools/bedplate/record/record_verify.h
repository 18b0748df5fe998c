/* SPDX-License-Identifier: MIT */
/* Whether a record is whole, and says of each checkpoint and each exported file what is there. */
#ifndef BP_BEDPLATE_RECORD_VERIFY_H
#define BP_BEDPLATE_RECORD_VERIFY_H

#include "core/run/checkpoint/checkpoint.h"

/* What was found. */
typedef struct record_verdict {
    bool there; /* the directory has a record */
    uint64_t lines;
    uint64_t steps;       /* the last step that it tells */
    uint64_t verified;    /* the last one that it says was verified; 0: none */
    bool ended;           /* it has its last line */
    uint32_t checkpoints; /* that were compared with it, */
    uint32_t files;       /* and exported files; */
    uint32_t gone;        /* those that are not here */
    uint32_t tensors;     /* in exported files, and those of them */
    uint32_t compared;    /* that are the last checkpoint's, */
    bool best;            /* or with --load-best-model-at-end the best one's */
    char chain[65];       /* of the last line, hexadecimal */
} record_verdict;

/* SHA-256 of a file, in hexadecimal digits, and its size. Uses the place's staging. */
bp_status record_hash(const bp_checkpoint_location *place, const char *path, uint64_t *bytes,
                      char text[65]) BP_MUST_CHECK;

/* Walks the record of an output directory: its chain, the chain and the state of every checkpoint
 * beside it, and the SHA-256 of what the run exported. BP_ERR_DATA names the file and the line, or
 * the checkpoint, that disagree. Damaged checkpoints are told to `damaged` with their reason and
 * passed over, also where there is no record. */
bp_status record_verify(const bp_checkpoint_location *place, bp_checkpoint_damaged damaged,
                        void *user, record_verdict *found) BP_MUST_CHECK;

#endif
