/* SPDX-License-Identifier: MIT */
/* What texts of speech begin with, behind the decoder's start token: those of --language and
 * --task-token, and <|notimestamps|>, as transformers' set_prefix_tokens puts them. */
#ifndef BP_BEDPLATE_SPEECH_PREFIX_H
#define BP_BEDPLATE_SPEECH_PREFIX_H

#include "tools/bedplate/app/settings.h"
#include "tools/formats/text/tokenizer.h"

#define TASK_TOKEN_WORDS "none|transcribe|translate"

/* A language, a task, <|notimestamps|>; what stands in a file may come before the latter. */
#define SPEECH_PREFIX_MOST 4

typedef struct speech_prefix {
    uint32_t id[SPEECH_PREFIX_MOST];
    uint32_t count;
} speech_prefix;

/* BP_ERR_USAGE: no language has that name. BP_ERR_DATA: the tokenizer lacks a token. */
bp_status speech_prefix_find(speech_prefix *prefix, const settings *set,
                             const bp_tokenizer *tokenizer, bp_error *error) BP_MUST_CHECK;

#endif
