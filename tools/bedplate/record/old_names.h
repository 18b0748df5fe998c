/* SPDX-License-Identifier: MIT */
/* Names that the files of a run had before: one table, from the old name to today's. What reads
 * records, events and the keys of checkpoints asks it, so that everything else knows today's names
 * alone. */
#ifndef BP_BEDPLATE_OLD_NAMES_H
#define BP_BEDPLATE_OLD_NAMES_H

#include "core/run/checkpoint/checkpoint.h"

/* As bp_checkpoint_read_keys, with today's names. */
bp_status old_names_read_keys(const bp_checkpoint_location *place, const char *path,
                              bp_pairs *keys) BP_MUST_CHECK;

/* A line of a record or of events, in memory of getline, gets today's names of its members. Lengths
 * are without the final zero. BP_ERR_FIT: no memory; the line is as it was then. */
bp_status old_names_line(char **line, size_t *room, size_t *length) BP_MUST_CHECK;

#endif
