/* SPDX-License-Identifier: MIT */
/* How examples are read: what the options say, and what was found. */
#ifndef BP_BEDPLATE_DATA_READING_H
#define BP_BEDPLATE_DATA_READING_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/formats/data/data_columns.h"
#include "tools/formats/data/data_numbers.h"

/* --text-column, --label-column, --no-header and --label-form. */
bp_data_reading data_reading(const settings *set);

/* BP_ERR_USAGE: one of these options is given, and data of this format or task has no such thing.
 */
bp_status data_reading_check(session *s, const data_files *files) BP_MUST_CHECK;

/* What training refuses the first row of each file for, JSON lines and tables of texts. Names of
 * classes are taken as they come. *stream: they are texts that a language model learns one behind
 * the other. */
bp_status data_reading_first(session *s, const data_files *files, bool *stream) BP_MUST_CHECK;

/* Says on stderr, a line for each file unless it is as in the one before, which columns hold the
 * text and the label of rows of texts. BP_ERR_DATA: the first row of a file cannot be. */
bp_status data_reading_say(session *s, const data_files *files) BP_MUST_CHECK;

/* The same of a table of numbers, or a list of images. */
bp_status data_reading_say_numbers(const data_files *files, const bp_numbers *work) BP_MUST_CHECK;

#endif
