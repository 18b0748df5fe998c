/* SPDX-License-Identifier: MIT */
/* Conversations (chat_row.h) to a token file: the form BP_FORM_CHAT, in which each id is stored
 * doubled, and plus one where it is learned.
 *
 * Each conversation is rendered (chat.h) and encoded as a whole, without what the tokenizer's
 * post-processor adds: the template writes its own beginning. A token is learned if one of its
 * bytes is. A conversation of which nothing is learned is left out and counted.
 *
 * Rows of preferences (bp_chat_pair) become the form BP_FORM_PAIRS: two examples each, whose labels
 * are their bp_side. As TRL's trainers do it, the prompt is encoded alone and with each answer, as
 * the template opens one, or, of texts, with what the tokenizer adds and the end token behind the
 * answer; what is not what the prompt alone begins with belongs to the answer. A row of one answer
 * (KTO) becomes that one and, behind it, its prompt with the answer of the row before it in its
 * `block`; the first has the last one's. Of rows of pairs `single` makes two. */
#ifndef BP_FORMATS_DATA_CHAT_H
#define BP_FORMATS_DATA_CHAT_H

#include "tools/formats/chat/chat_row.h"
#include "tools/formats/data/data.h"
#include "tools/formats/data/data_tokens.h"

#define BP_DATA_CHAT_WINDOW 262144
#define BP_DATA_CHAT_SCRATCH                                                                       \
    (BP_CHAT_SCRATCH + BP_RECORDS_SCRATCH + BP_DATA_CHAT_WINDOW + 2 * BP_TOKENS_BUFFER +           \
     4 * BP_CHAT_TEXT + BP_TOKENIZER_DECODED_MAX)
#define BP_DATA_PAIRS_BLOCK 1024 /* rows of one answer that are mixed, at most */
#define BP_DATA_PAIRS_SCRATCH                                                                      \
    (BP_DATA_CHAT_SCRATCH + 16 * BP_CHAT_TEXT + 2 * BP_DATA_PAIRS_BLOCK * sizeof(bp_example))

/* What rows are. */
typedef enum bp_chat_rows { BP_CHAT_ROWS, BP_CHAT_PAIRS, BP_CHAT_SINGLES } bp_chat_rows;

/* All but the last five are the caller's to set. */
typedef struct bp_data_chat {
    bp_data *data;       /* the open files */
    const char *path;    /* the token file; its directory is there */
    bp_encoder *encoder; /* NULL: id = byte */
    uint32_t vocabulary; /* ids are below it */
    const char *source;  /* the template; of preferences that are texts NULL */
    size_t source_length;
    const bp_chat_token *tokens;
    uint32_t token_count;
    bp_jinja_time now;
    bp_chat_loss loss;
    bp_chat_rows rows;
    uint32_t block;    /* of singles: 2 at least */
    int64_t end_token; /* of rows of preferences that are texts; -1: none */
    void *scratch;     /* BP_DATA_CHAT_SCRATCH, or BP_DATA_PAIRS_SCRATCH, aligned to 64 */
    bp_error *error;
    uint64_t bytes;         /* of all files */
    uint64_t conversations; /* 0 where the token file was there already */
    uint64_t empty;         /* of which nothing is learned */
    uint64_t learned;       /* tokens */
    bool built;
} bp_data_chat;

/* Opens the token file of the data, which it makes if it has to. BP_ERR_DATA with file and line, as
 * bp_chat_row and bp_jinja_run say, and: the tokenizer changes the text, so that nobody knows which
 * of its tokens are learned. After an error nothing is left open, and an earlier file is as it was.
 * Cost: reads the data once for the key, once to encode. */
bp_status bp_data_chat_open(bp_data_chat *work, bp_tokens *tokens) BP_MUST_CHECK;

/* What bp_data_chat_open refuses the first row of preferences for; of the work data, rows, scratch
 * and error are used. */
bp_status bp_data_chat_first_pair(bp_data_chat *work) BP_MUST_CHECK;

/* Whether the first of the files holds conversations, or preferences between messages. */
bp_status bp_data_chat_is(bp_data *data, bp_error *error, void *scratch, bool *is) BP_MUST_CHECK;
bp_status bp_data_chat_pairs(bp_data *data, bp_error *error, void *scratch,
                             bool *are) BP_MUST_CHECK;

#endif
