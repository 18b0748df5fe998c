/* SPDX-License-Identifier: MIT */
/* Speech to text by a model that hears: each token the likeliest, until the text ends. */
#ifndef BP_BEDPLATE_TRANSCRIBE_H
#define BP_BEDPLATE_TRANSCRIBE_H

#include "tools/bedplate/sources/data_set.h"

/* What an evaluation found. */
typedef struct transcribed {
    uint64_t rows;
    uint64_t words;  /* that were said */
    uint64_t errors; /* bp_words_errors */
    double seconds;
} transcribed;

/* Makes room for it in the plan, before session_start. */
void transcribe_plan(session *s);

/* The same for evaluations of a run that trains, where they are to report the word error rate and
 * can: by --predict-with-generate, of a model that hears, on one rank, without adapters that have
 * magnitudes. BP_ERR_USAGE: the best model is found by a rate that there is not. */
bp_status transcribe_plan_training(session *s) BP_MUST_CHECK;

/* Writes down all examples of a source of speech, counts the errors of their words, and writes a
 * JSON line for each to `path` (NULL: nowhere; "-": standard output): index, audio, text,
 * prediction, errors, words. */
bp_status transcribe_rows(session *s, data_set *data, bp_source *source, const char *path,
                          transcribed *found) BP_MUST_CHECK;

#endif
