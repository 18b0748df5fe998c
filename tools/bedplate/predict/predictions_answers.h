/* SPDX-License-Identifier: MIT */
/* Answers: what a model takes from the texts, and how alike it is to what was expected. */
#ifndef BP_BEDPLATE_PREDICTIONS_ANSWERS_H
#define BP_BEDPLATE_PREDICTIONS_ANSWERS_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/predict/predictions.h"

/* Makes room for the likeliest ends of every window of p->source. */
bp_status predictions_answers_begin(predictions *p, session *s) BP_MUST_CHECK;

/* The windows that a bp_evaluated is at. */
bp_status predictions_answers_take(predictions *p, const bp_runtime *runtime) BP_MUST_CHECK;

/* Joins the windows of each question to an answer, as run_qa.py does it, counts how good they are
 * and, where there is a file, writes a line for each. The files are read once more; `first` of
 * their windows come before those of the source. */
bp_status predictions_answers_end(predictions *p, session *s, data_files *files,
                                  uint64_t first) BP_MUST_CHECK;

/* Percent of the questions, as SQuAD's evaluation reports. */
double predictions_exact_match(const predictions *p);
double predictions_answer_f1(const predictions *p);

/* Where some questions have no answer: the same of those that have one (0) and of those that have
 * none (1); NaN elsewhere. And how many there are of each, as members. */
double predictions_answers_share(const predictions *p, uint32_t which, bool exact);
void predictions_answers_json(const predictions *p, const char *prefix, output *out);

#endif
