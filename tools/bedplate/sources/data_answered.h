/* SPDX-License-Identifier: MIT */
/* Questions about texts as a run's data (formats/data/data_answers.h). */
#ifndef BP_BEDPLATE_DATA_ANSWERED_H
#define BP_BEDPLATE_DATA_ANSWERED_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/formats/data/data_answers.h"

/* BP_ERR_DATA when the open files are none that hold questions. */
bp_status data_answered_check(const data_files *files, session *s) BP_MUST_CHECK;

/* BP_ERR_DATA when the run has no tokenizer of words; it was found, and need not be open. */
bp_status data_answered_tokenizer(const data_files *files, session *s) BP_MUST_CHECK;

/* Makes the token file `name` of the open files, or uses the one that is there, as data_tokenise
 * does. */
bp_status data_answered_open(data_set *set, data_files *files, session *s,
                             const char *name) BP_MUST_CHECK;

/* Shows the questions with their windows once more. */
bp_status data_answered_read(data_files *files, session *s,
                             const bp_answer_pass *pass) BP_MUST_CHECK;

/* Moves the border between two parts of windows on until no question has windows in both. */
bp_status data_answered_split(data_set *set, session *s) BP_MUST_CHECK;

/* Bytes of host memory that reading takes beside the tokenizer's. */
uint64_t data_answered_bytes(void);

#endif
