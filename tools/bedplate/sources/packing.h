/* SPDX-License-Identifier: MIT */
/* --packing: several documents in a row of the data that is learned. */
#ifndef BP_BEDPLATE_PACKING_H
#define BP_BEDPLATE_PACKING_H

#include "tools/bedplate/sources/data_set.h"

/* Whether rows hold documents that do not see each other. */
bool packing_apart(const settings *set);

/* BP_ERR_USAGE: the task has no rows that are packed. */
bp_status packing_check(session *s) BP_MUST_CHECK;

/* --packing of a stream of tokens, or of bytes, whose documents no token ends: BP_ERR_DATA, as
 * packing_open. */
bp_status packing_stream_check(session *s, bp_source *source) BP_MUST_CHECK;

/* Puts packed rows in place of the data that is learned, in data.packed of the output directory, or
 * a file that goes with the program; nothing without --packing. What is evaluated stays as it is.
 * `tokens` must not move while the data is used. */
bp_status packing_open(bp_tokens *tokens, session *s, data_set *data) BP_MUST_CHECK;

#endif
