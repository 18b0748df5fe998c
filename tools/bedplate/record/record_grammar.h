/* SPDX-License-Identifier: MIT */
/* What a line of a record is: the table of docs/record.md, taken strictly. Whatever reads records
 * asks here, so that no reader takes a line that another refuses. */
#ifndef BP_BEDPLATE_RECORD_GRAMMAR_H
#define BP_BEDPLATE_RECORD_GRAMMAR_H

#include "arena/base.h"

#define RECORD_FORMAT   2                 /* of records that are begun today */
#define RECORD_LINE_MAX ((size_t)1 << 20) /* bytes of a line and its newline */

typedef enum record_kind {
    RECORD_RUN,
    RECORD_STEP,
    RECORD_EVAL,
    RECORD_STATE,
    RECORD_ROLL,
    RECORD_ROLLOUT,
    RECORD_ENDED
} record_kind;

/* By which names steps tell norm and rate. */
typedef enum record_names { RECORD_NAMES_OF_FORMAT_1, RECORD_NAMES_OF_TODAY } record_names;

/* What was read of a line. */
typedef struct record_line {
    record_kind kind;
    uint64_t step;      /* the value of the first member; of a run the format */
    const char *member; /* of a line that is wrong: at which member; "" for none of its own */
} record_line;

/* Whether `length` bytes at `text`, which end with a zero behind them, are a line without its
 * newline: each member there, in its place, of its type and written as the program writes it. Its
 * chain is one by its form; what the lines before it ask is not looked at. BP_ERR_DATA: it is none.
 * BP_ERR_FIT: no memory. */
bp_status record_line_read(const char *text, size_t length, record_names by,
                           record_line *line) BP_MUST_CHECK;

#endif
