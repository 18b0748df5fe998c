/* SPDX-License-Identifier: MIT */
/* What a teacher says of a data set's rows: the command that writes it, and the run that learns
 * from it (tools/formats/data/teacher_file.h). The rows are those of the data that training reads
 * with the same options. */
#ifndef BP_BEDPLATE_DISTILL_H
#define BP_BEDPLATE_DISTILL_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/formats/data/teacher_file.h"

#define DISTILL_IDENTITY 192 /* room for data_set_identity's text and a teacher's or models' */

/* The file, and one row of it in memory. Must not move. */
typedef struct distill {
    bp_teacher teacher;
    session *s;
    bp_teacher_file file;
    memory_block row;
    uint64_t number; /* of the row that is in memory, + 1; when writing of the next one; 0: none */
    double loss;     /* the teacher's own, when writing */
} distill;

/* spec->distill of the options: of the command `distill` a teacher, and of --distill FILE what its
 * header says; the bytes of a row are counted. BP_ERR_DATA: there is no such file, or it is for
 * rows of another kind. */
bp_status distill_fill(session *s) BP_MUST_CHECK;

/* --distill FILE: what it says is for `feed`, which is initialised, and whose data is `identity`,
 * in room of DISTILL_IDENTITY: the teacher is added to it. Nothing without. BP_ERR_DATA: it is of
 * other data. */
bp_status distill_open(distill *d, session *s, bp_feed *feed, char *identity) BP_MUST_CHECK;
void distill_close(distill *d);

/* The command's own: makes the file and writes all rows of the feed, from an open session. */
bp_status distill_write(distill *d, session *s, bp_feed *feed, const char *identity) BP_MUST_CHECK;

#endif
