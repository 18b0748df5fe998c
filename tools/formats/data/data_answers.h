/* SPDX-License-Identifier: MIT */
/* Questions about texts (data_squad.h) to a token file of windows, as transformers' run_qa.py makes
 * them: each example is a question and as much of its context as fits a row, and the next begins
 * `stride` tokens of the context before that one's end, until the context's end is reached.
 *
 * The example's label has where the answer begins and ends, the first of several, counted in the
 * row's tokens (BP_LABELS_SPAN), and the question's number in the upper half. Where the answer is
 * not wholly in the window, or there is none, both are 0, the first token of the row: [CLS]. */
#ifndef BP_FORMATS_DATA_ANSWERS_H
#define BP_FORMATS_DATA_ANSWERS_H

#include "tools/formats/data/data.h"
#include "tools/formats/data/data_squad.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/text/tokenizer.h"

#define BP_ANSWERS_WINDOW 262144
/* Each byte may be a token with two offsets. */
#define BP_ANSWERS_SCRATCH                                                                         \
    (BP_SQUAD_SCRATCH + BP_ANSWERS_WINDOW + 2 * (uint64_t)BP_TOKENS_BUFFER +                       \
     12 * (uint64_t)BP_SQUAD_CONTEXT + 4 * (uint64_t)BP_SQUAD_QUESTION)

/* All but the last five are the caller's to set. */
typedef struct bp_answers {
    bp_data *data;       /* the open files, BP_DATA_JSONL */
    const char *path;    /* the token file; its directory is there */
    bp_encoder *encoder; /* of WordPiece, with a template for pairs */
    uint32_t vocabulary; /* ids are below it */
    uint32_t sequence;   /* tokens of a row, 65536 at most */
    uint32_t stride;     /* tokens of the context that two windows have in common */
    bool may_lack;       /* questions may have no answers; their examples have no label then */
    void *scratch;       /* BP_ANSWERS_SCRATCH, aligned to 64 */
    void *offsets;       /* bp_encoder_offsets_bytes() */
    bp_error *error;
    uint64_t bytes; /* of all files */
    uint64_t questions;
    uint64_t impossible;
    bool lacks;
    bool built;
} bp_answers;

/* A row: `before` tokens, then tokens first .. first + count - 1 of the context, whose bytes lie at
 * starts and ends of the context. */
typedef struct bp_answer_window {
    uint64_t index; /* of all windows of the data */
    uint32_t before;
    uint32_t first, count;
    const uint32_t *starts, *ends; /* of all tokens of the context */
} bp_answer_window;

/* Who is shown the questions with their windows, in the order of the token file's examples. */
typedef struct bp_answer_pass {
    void *user;
    bp_status (*window)(void *user, const bp_question *question, const bp_answer_window *window);
    bp_status (*end)(void *user, const bp_question *question); /* its last window was shown */
} bp_answer_pass;

/* Opens the token file of the data, which it makes if it has to. BP_ERR_USAGE: a tokenizer that is
 * none of the above, or that gives pairs other types than 0 and 1. BP_ERR_DATA as bp_squad_read
 * says, and: a question that leaves no room for its context, or less than the stride. After an
 * error nothing is left open, and an earlier file is as it was. Cost: the data is read for the key,
 * and tokenised twice, to count its windows first. */
bp_status bp_answers_open(bp_answers *work, bp_tokens *tokens) BP_MUST_CHECK;

/* Shows all questions; tokenises them once more. Of the record path and vocabulary are not used. */
bp_status bp_answers_read(bp_answers *work, const bp_answer_pass *pass) BP_MUST_CHECK;

#endif
