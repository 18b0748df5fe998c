/* SPDX-License-Identifier: MIT */
/* Examples that hold conversations, in the forms that are about:
 *
 *   messages       a list of objects with role and content (and tool_calls, ..); beside it tools (a
 *                  list, or JSON in a string) and chat_template_kwargs
 *   conversations  ShareGPT: a list of objects with from and value
 *   instruction, input (may be missing or empty), output    Alpaca: two messages
 *   prompt, completion    as lists of messages
 *
 * Keys whose value is null are as if they were not there. A content that is a list of texts becomes
 * one text. */
#ifndef BP_FORMATS_CHAT_ROW_H
#define BP_FORMATS_CHAT_ROW_H

#include "tools/formats/chat/chat.h"
#include "tools/formats/files/data_records.h"

/* Reads the row whose object was begun, to its end. BP_ERR_DATA (bp_records_named and the line): a
 * row of none of these forms, a role nobody knows, an empty conversation. */
bp_status bp_chat_row(bp_chat *chat, bp_records *records, bp_chat_turns *turns) BP_MUST_CHECK;

/* A row of preferences, as TRL's trainers read them:
 *
 *   prompt, chosen, rejected      texts, or lists of messages; without a prompt, or with a text
 *                                 beside lists, what both sides have in common is the prompt
 *   prompt, completion, label     one answer, and whether it is a good one */
typedef struct bp_chat_pair {
    bp_chat_turns turns;      /* tools and what else the template is told */
    bp_jinja_value prompt;    /* texts, or lists of messages, as `chats` says */
    bp_jinja_value answer[2]; /* chosen and rejected; of a single row the first alone */
    bool chats;
    bool single;
    bool desirable; /* of a single row */
} bp_chat_pair;

/* Reads the row whose object was begun, to its end; `single`: rows of one answer are asked for, and
 * pairs are taken as well. BP_ERR_DATA with the line: a side is missing or empty, a label is none,
 * the sides have nothing in common, and what bp_chat_row says of messages. */
bp_status bp_chat_pair_row(bp_chat *chat, bp_records *records, bool single,
                           bp_chat_pair *pair) BP_MUST_CHECK;

/* Whether the first row of a file has the keys of a conversation, or is a row of preferences whose
 * answers are lists of messages. */
bp_status bp_chat_row_is(bp_data_reader *reader, void *scratch, bool *is) BP_MUST_CHECK;
bp_status bp_chat_pair_row_is(bp_data_reader *reader, void *scratch, bool *is) BP_MUST_CHECK;

#endif
