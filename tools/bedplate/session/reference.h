/* SPDX-License-Identifier: MIT */
/* The reference of a loss over pairs: log-probabilities of every row, computed once, by the model
 * as it is before training, or by --ref-model. 4 bytes a row, in memory and in
 * OUTPUT/reference.logps, by which a resumed run goes on. */
#ifndef BP_BEDPLATE_REFERENCE_H
#define BP_BEDPLATE_REFERENCE_H

#include "tools/bedplate/sources/data_set.h"

/* A source of pairs whose labels are told what the reference says. */
typedef struct reference_part {
    bp_source source;
    bp_source *inner;
    float *logps;  /* (examples); NULL: none */
    uint64_t next; /* example to be filled in */
} reference_part;

/* Must not move. */
typedef struct reference {
    reference_part train, eval;
    memory_block memory; /* a header, and all numbers behind it */
    uint64_t rows;       /* 0: there is no reference */
    bool found;          /* in the file */
} reference;

/* Puts the parts' sources in place of data's; nothing where the loss has no reference. */
bp_status reference_open(reference *r, session *s, data_set *data) BP_MUST_CHECK;

/* For a plan: the bytes that the numbers of the rows of --data and --eval-data will take. */
bp_status reference_plan(session *s) BP_MUST_CHECK;

/* Where a run is resumed: reads the file, if every rank has it and it is that of this data
 * (`identity`); else the weights that the run began with will be loaded once more, for which the
 * session is told that no state follows. BP_ERR_FABRIC. */
bp_status reference_find(reference *r, session *s, const char *identity) BP_MUST_CHECK;

/* Computes what was not found, with an open session whose weights are the model's, as they are
 * afterwards, and writes the file where there is an output directory. */
bp_status reference_fill(reference *r, session *s, const data_set *data,
                         const char *identity) BP_MUST_CHECK;

void reference_close(reference *r);

#endif
