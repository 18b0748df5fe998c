/* SPDX-License-Identifier: MIT */
/* Prompts of data files: JSON lines with `prompt`, a text or a list of messages, or `messages`, of
 * which an assistant's last turn is left out. Messages are rendered by the model's chat template,
 * with what opens an answer. What else a row has is kept. */
#ifndef BP_BEDPLATE_ROLLOUT_PROMPTS_H
#define BP_BEDPLATE_ROLLOUT_PROMPTS_H

#include "tools/bedplate/rollout/rollout.h"
#include "tools/bedplate/session/text_stream.h"
#include "tools/bedplate/sources/data_conversations.h"

#define ROLLOUT_LINE_MAX 1048576 /* bytes of a row */

/* A row; all belongs to the prompts. */
typedef struct rollout_row {
    const int32_t *ids;
    uint32_t count;
    const char *text; /* as the model reads it */
    size_t text_bytes;
    const char *line; /* the JSON object */
    size_t line_bytes;
    const char *answer; /* of the column `answer`: a text, or a number as it is written; NULL: none
                         */
    size_t answer_bytes;
    bool rendered; /* by the chat template */
} rollout_row;

/* Must not move once open. */
typedef struct rollout_prompts {
    session *s;
    data_files files;
    memory_block work;  /* of the chat template, a line and its window */
    memory_block held;  /* rows, ids and bytes: what was counted */
    bp_jinja_room room; /* of a row's values, where there is no template */
    chat_choice chosen; /* the template */
    bp_chat chat;
    bool chats;        /* it is open */
    bool begins;       /* the tokenizer puts a beginning token before a text */
    rollout_row *rows; /* (count) */
    uint64_t count;
    uint32_t longest; /* tokens */
    uint64_t id_count;
    uint64_t byte_count;
} rollout_prompts;

/* Reads all rows of the files, which are read twice: to count, and to keep. The session has begun;
 * its tokenizer is opened. BP_ERR_DATA with file and line: a row without a prompt, an empty one,
 * messages without a chat template, a line that is no JSON object or longer than
 * ROLLOUT_LINE_MAX. */
bp_status rollout_prompts_open(rollout_prompts *p, session *s, const path_list *list) BP_MUST_CHECK;

/* Gives everything back. Safe on a record that is all zero. */
void rollout_prompts_close(rollout_prompts *p);

/* The values of a row's line, a mapping, until the next call. */
bp_status rollout_prompts_values(rollout_prompts *p, const rollout_row *row,
                                 bp_jinja_value *to) BP_MUST_CHECK;

/* How many of `messages` are the prompt: all but an assistant's last turn. */
uint32_t rollout_prompt_turns(const bp_jinja_value *messages);

/* Bytes to read prompts with, of any data. */
uint64_t rollout_prompts_work(void);

/* A completion as text: well-formed UTF-8, to which special tokens give nothing. Owned memory,
 * which grows as it must; all zero at first. */
typedef struct rollout_text {
    char *bytes;
    size_t count;
    size_t room;
} rollout_text;

/* BP_ERR_FIT: no memory. */
bp_status rollout_text_make(rollout_text *text, session *s, const rollout_prompt *prompt,
                            const rollout_completion *completion) BP_MUST_CHECK;
void rollout_text_free(rollout_text *text);

#endif
