/* SPDX-License-Identifier: MIT */
/* The classes of labelled texts, as the labels of the data name them. */
#ifndef BP_FORMATS_LABEL_SURVEY_H
#define BP_FORMATS_LABEL_SURVEY_H

#include "tools/formats/family/class_names.h"
#include "tools/formats/data/data.h"
#include "tools/formats/data/data_columns.h"
#include "tools/formats/files/data_reader.h"

#define BP_LABEL_SURVEY_SCRATCH 327680 /* bytes */

/* What was found: names, or numbers, or neither where no text has a label. */
typedef struct bp_label_survey {
    bp_class_names *names;   /* the caller's; of numbers there are none */
    bp_data_reading reading; /* the caller's */
    bool numbers;            /* the first label is one: nothing more was read */
} bp_label_survey;

/* Reads the labels of all documents of open files, JSON lines or tables, and sorts their names by
 * their bytes, which is Python's order of texts. labels: BP_LABELS_CLASS, or BP_LABELS_BITS where
 * several classes may hold. BP_ERR_DATA as bp_documents_read says, and with file and line: a number
 * behind names, more names than a model can have. scratch:
 * BP_LABEL_SURVEY_SCRATCH bytes aligned to 8. Cost: the data is read once (JSON lines: twice). */
bp_status bp_label_survey_read(bp_label_survey *survey, const bp_data *data, bp_labels labels,
                               void *scratch) BP_MUST_CHECK;

/* One label, for the readers of documents. */
bp_status bp_label_survey_take(bp_label_survey *survey, bp_data_reader *reader, const char *text,
                               size_t length) BP_MUST_CHECK;

#endif
