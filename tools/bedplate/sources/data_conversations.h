/* SPDX-License-Identifier: MIT */
/* Opening data of conversations. */
#ifndef BP_BEDPLATE_DATA_CONVERSATIONS_H
#define BP_BEDPLATE_DATA_CONVERSATIONS_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/formats/chat/chat.h"
#include "tools/formats/data/data_chat.h"

/* The model's chat template and the texts of its special tokens, in `memory`. */
typedef struct chat_choice {
    char *source;
    size_t length;
    bp_chat_token tokens[4];
    uint32_t token_count;
    bp_jinja_time now;
} chat_choice;

#define CHAT_CHOICE_BYTES (BP_JINJA_SOURCE_MAX + 65536 + 4 * 8192)

/* BP_ERR_DATA: --chat-template is neither a name nor a file. */
bp_status data_template_check(session *s) BP_MUST_CHECK;

/* --chat-template, else that of the tokenizer's directory. memory: CHAT_CHOICE_BYTES aligned to 8.
 * BP_ERR_DATA: there is none; BP_ERR_USAGE: a date that is none. The run_tokenizer is open. */
bp_status chat_choose(session *s, void *memory, chat_choice *to) BP_MUST_CHECK;

/* 1 + the first special token of what the template writes behind an answer: the end of its turn; 0:
 * there is none. The run_tokenizer is open. */
uint32_t chat_turn_end(session *s, const bp_chat *chat);

/* What rows the run learns: conversations, or preferences. */
bp_chat_rows data_rows(const bp_spec *spec);

/* Whether the files hold conversations, as far as their first row says; where the loss is over
 * pairs of rows they have to hold preferences. BP_ERR_DATA: they cannot. */
bp_status data_conversations_are(data_files *files, session *s, bool *are) BP_MUST_CHECK;

/* What data_conversations_open refuses before it reads rows: no template, a date that is none. The
 * run_tokenizer was found. */
bp_status data_conversations_check(data_files *files, session *s) BP_MUST_CHECK;

/* Makes the token file of conversations, or finds it made, and says so. */
bp_status data_conversations_open(data_set *set, data_files *files, session *s,
                                  const char *name) BP_MUST_CHECK;

/* Writes the template that --chat-template asks for into a directory, as chat_template.jinja;
 * nothing where the model's own is used. */
bp_status chat_keep_template(session *s, const char *directory) BP_MUST_CHECK;

#endif
