/* SPDX-License-Identifier: MIT */
/* Rows of texts of which vectors are made: one text a row, or those that are compared with each
 * other: an anchor, its positive, and negatives.
 *
 * text        a text a line, blank lines included.
 * JSON lines, TSV, CSV  objects, or a table whose first row names its columns. The first text is
 *             called anchor, query, question, sentence1, premise, question1, text, sentence or
 *             content; the second positive, answer, passage, document, sentence2, hypothesis,
 *             question2 or text_pair; further ones negative, negative_1, negative_2, ..; the score
 *             of two texts score, similarity_score or label, a number. Others are passed over.
 * All rows have as many texts, and all a score or none. Refused, with file and line: what is no
 * text, two fields of one meaning, a row without its first text, or with a further one but not
 * those before it. */
#ifndef BP_FORMATS_DATA_TEXTS_H
#define BP_FORMATS_DATA_TEXTS_H

#include "tools/formats/data/data_documents.h"

#define BP_TEXTS_MAX 8 /* of a row */

/* The reader of form BP_FORM_TEXTS, for bp_documents_read: every text is a document of its own, in
 * the order of their meaning; the first has the score as its label, the bits of a float. */
bp_status bp_documents_rows(bp_documents *documents, bp_data_reader *reader, bp_data_format format,
                            void *scratch) BP_MUST_CHECK;

#endif
