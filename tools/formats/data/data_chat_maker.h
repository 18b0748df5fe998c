/* SPDX-License-Identifier: MIT */
/* Conversations and preferences on their way into a token file. */
#ifndef BP_FORMATS_DATA_CHAT_MAKER_H
#define BP_FORMATS_DATA_CHAT_MAKER_H

#include "tools/formats/data/data_chat.h"

/* The scratch, cut up. */
typedef struct bp_chat_maker_room {
    char *chat;
    void *records;
    unsigned char *window;
    unsigned char *buffer;
    uint32_t *ids;        /* BP_CHAT_TEXT */
    char *piece;          /* BP_TOKENIZER_DECODED_MAX */
    uint32_t *more[4];    /* BP_CHAT_TEXT each, of preferences */
    bp_example *examples; /* 2 * BP_DATA_PAIRS_BLOCK, likewise */
} bp_chat_maker_room;

/* A stretch of ids that is kept. */
typedef struct bp_chat_ids {
    uint32_t *ids;
    size_t count;
} bp_chat_ids;

typedef struct bp_chat_maker {
    bp_data_chat *work;
    bp_tokens_writer writer;
    bp_chat chat;
    bp_chat_maker_room room;
    bp_data_reader reader;
    uint32_t block;     /* of the present block of singles: rows so far, */
    bp_chat_ids first;  /* its first row's prompt, */
    bp_chat_ids answer; /* and its last row's answer */
} bp_chat_maker;

/* What the template finds wrong gets the row's place. */
bp_status bp_chat_maker_named(bp_chat_maker *m, bp_status status) BP_MUST_CHECK;

/* What reading a row said: one that is too large for the room of rows is bad data at its line. */
bp_status bp_chat_maker_read(bp_chat_maker *m, bp_status status) BP_MUST_CHECK;

/* A row of preferences into the token file; and what waits at the end of the data. */
bp_status bp_chat_maker_pair(bp_chat_maker *m, bp_records *records) BP_MUST_CHECK;
bp_status bp_chat_maker_end_pairs(bp_chat_maker *m) BP_MUST_CHECK;

#endif
