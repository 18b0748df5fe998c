/* SPDX-License-Identifier: MIT */
/* Classes of words: what a model says of each, beside the words themselves. */
#ifndef BP_BEDPLATE_PREDICTIONS_WORDS_H
#define BP_BEDPLATE_PREDICTIONS_WORDS_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/predict/predictions.h"

/* Makes room for the class of every token of p->source; without a file it does nothing. */
bp_status predictions_words_begin(predictions *p, bp_error *error) BP_MUST_CHECK;

/* The rows that a bp_evaluated is at. */
bp_status predictions_words_take(predictions *p, const bp_runtime *runtime) BP_MUST_CHECK;

/* Writes a line for each sentence of the source: its words, the class of each word's first token
 * (null where it was cut off), and the tags that it has. The words are read once more from the
 * files, of whose sentences `first` come before those of the source. Without a file nothing. */
bp_status predictions_words_write(predictions *p, session *s, data_files *files,
                                  uint64_t first) BP_MUST_CHECK;

#endif
