/* SPDX-License-Identifier: MIT */
/* Conversations: what is said in turns, as one text with the marks of a model's chat template.
 *
 * Which part of the text a model learns to say itself is found so: where the template marks it
 * ({% generation %}), by these marks; else by turns: a turn's text is what the template writes
 * between coming to its message and to the next one; of an assistant's, the words that also open
 * an answer (add_generation_prompt) are left out, and everything behind them, the end of the turn
 * included, is learned. */
#ifndef BP_FORMATS_CHAT_H
#define BP_FORMATS_CHAT_H

#include "tools/formats/chat/jinja.h"
#include "tools/formats/text/tokenizer.h"

#define BP_CHAT_TEXT    1048576 /* bytes of a conversation as text, at most */
#define BP_CHAT_TURNS   4096    /* messages of a conversation, at most */
#define BP_CHAT_ROOM    8388608 /* bytes for the template and for one conversation */
#define BP_CHAT_HEADER  256     /* bytes that open or end an answer, at most */
#define BP_CHAT_SCRATCH (BP_CHAT_ROOM + BP_CHAT_TEXT + 16 * BP_CHAT_TURNS)

/* What of a conversation is learned. */
typedef enum bp_chat_loss {
    BP_CHAT_ASSISTANT,  /* what assistants say */
    BP_CHAT_COMPLETION, /* what the assistant says last; of `prompt` and `completion`, of the latter
                         */
    BP_CHAT_ALL
} bp_chat_loss;

/* The texts of a tokenizer's special tokens, as templates know them. */
typedef struct bp_chat_token {
    const char *name; /* bos_token, .. */
    const char *text;
    size_t length;
} bp_chat_token;

/* A template that is ready. Must not move. */
typedef struct bp_chat {
    bp_jinja_program program;
    bp_jinja_room room;
    size_t mark; /* bytes of the room that stay */
    bp_jinja_time now;
    const bp_chat_token *tokens;
    uint32_t token_count;
    char header[BP_CHAT_HEADER]; /* what opens an answer */
    size_t header_length;
    char footer[BP_CHAT_HEADER]; /* what stands behind the text of an answer that comes last */
    size_t footer_length;
    char *text; /* of the last conversation */
    size_t length;
    bp_jinja_span *spans; /* (BP_CHAT_TURNS) of it what is learned, in order */
    uint32_t span_count;
    uint32_t *starts; /* (BP_CHAT_TURNS) */
    bp_error *error;
} bp_chat;

/* A conversation. */
typedef struct bp_chat_turns {
    bp_jinja_value messages; /* a list of mappings, with `role` and mostly `content` */
    bp_jinja_value tools;    /* a list, or none */
    bp_jinja_value more;     /* a mapping of what else the template is told, or none */
    uint32_t prompt;         /* how many messages are the prompt of a completion */
} bp_chat_turns;

/* Translates a template. `tokens` must outlive the chat, scratch is BP_CHAT_SCRATCH bytes aligned
 * to 64. What bp_jinja_compile says. */
bp_status bp_chat_open(bp_chat *chat, const char *source, size_t length,
                       const bp_chat_token *tokens, uint32_t token_count, void *scratch,
                       bp_error *error) BP_MUST_CHECK;

/* Forgets the last conversation: values that were made in chat->room are no more. */
void bp_chat_clear(bp_chat *chat);

/* Renders a conversation into chat->text, with what opens an answer behind it, or not. What
 * bp_jinja_run says. */
bp_status bp_chat_render(bp_chat *chat, const bp_chat_turns *turns, bool opens) BP_MUST_CHECK;

/* Finds what of the text is learned, in chat->spans, of a conversation that was rendered without an
 * opening. */
void bp_chat_learned(bp_chat *chat, const bp_chat_turns *turns, bp_chat_loss loss);

/* A message of two strings, put behind others. BP_ERR_FIT. */
bp_status bp_chat_message(bp_chat *chat, const char *role, const bp_jinja_value *content,
                          bp_jinja_value *to) BP_MUST_CHECK;

#endif
