/* SPDX-License-Identifier: MIT */
/* Whether somebody writes into files of the data while a run reads them. */
#ifndef BP_BEDPLATE_DATA_WATCH_H
#define BP_BEDPLATE_DATA_WATCH_H

#include "tools/bedplate/record/events.h"
#include "tools/bedplate/sources/data_set.h"

typedef struct data_watched data_watched;

typedef struct data_watch {
    data_watched *files; /* allocated */
    uint32_t count;
    const char *adapter; /* whose data they are, among several; NULL: it is alone */
} data_watch;

/* Notes size and time of each file that the sets were opened from, and of token files. A file that
 * is replaced by another of its name is still read as it was; pipes cannot be looked at again. */
bp_status data_watch_begin(data_watch *watch, const data_set *set, bp_error *error) BP_MUST_CHECK;

/* Looks again. --on-data-change: `error` BP_ERR_STORE, naming the file; `warn` says each change
 * once on stderr and in the events; `ignore` does not look. */
bp_status data_watch_check(data_watch *watch, session *s, events *log) BP_MUST_CHECK;

void data_watch_end(data_watch *watch);

#endif
