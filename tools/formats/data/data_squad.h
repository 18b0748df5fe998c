/* SPDX-License-Identifier: MIT */
/* Questions about texts, as SQuAD's files have them.
 *
 * nested   {"data": [{"paragraphs": [{"context": "..", "qas": [{"id": "..", "question": "..",
 *          "answers": [{"text": "..", "answer_start": 7}], "is_impossible": false}]}]}]}
 * flat     objects (data_records.h) with `question`, `context`, `id` and `answers`: {"text":
 * [".."], "answer_start": [7]}, or a list as above.
 *
 * No answers, or is_impossible, is a question that has none (SQuAD 2). answer_start counts
 * characters of the context. A paragraph is in memory as a whole. Refused, with file and place:
 * what is longer than the bounds below, answers for some questions only, an answer without its
 * start. */
#ifndef BP_FORMATS_DATA_SQUAD_H
#define BP_FORMATS_DATA_SQUAD_H

#include "tools/formats/files/data_records.h"

#define BP_SQUAD_CONTEXT  1048576 /* bytes of a context */
#define BP_SQUAD_QUESTION 65536   /* of a question, of its id, and of all its answers */
#define BP_SQUAD_ANSWERS  64
#define BP_SQUAD_WINDOW   65536
#define BP_SQUAD_SCRATCH                                                                           \
    (2 * BP_RECORDS_SCRATCH + BP_SQUAD_WINDOW + BP_SQUAD_CONTEXT + 3 * BP_SQUAD_QUESTION)

/* Texts are UTF-8 and not terminated. */
typedef struct bp_question {
    const char *id; /* "" where it has none */
    const char *question;
    const char *context;
    const char *answer; /* number i from answer_at[i] to answer_at[i + 1] */
    uint32_t id_length, question_length, context_length;
    bool same;     /* the context is that of the question before, in the same place */
    bool answered; /* its answers are said, if only that there are none */
    uint32_t answers;
    uint32_t answer_at[BP_SQUAD_ANSWERS + 1];
    uint64_t begins[BP_SQUAD_ANSWERS]; /* in characters */
} bp_question;

/* All but the last three are the caller's to set. */
typedef struct bp_squad {
    void *user;
    bp_status (*question)(void *user, bp_data_reader *reader, const bp_question *question);
    bool may_lack; /* answers may be missing, of all questions or none */
    uint64_t questions;
    uint64_t impossible; /* of them have no answer */
    bool lacks;
} bp_squad;

/* Reads all questions of a file. scratch: BP_SQUAD_SCRATCH bytes aligned to 8. Cost: reads the file
 * once, nested ones twice. */
bp_status bp_squad_read(bp_squad *squad, bp_data_reader *reader, void *scratch) BP_MUST_CHECK;

#endif
