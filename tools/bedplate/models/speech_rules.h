/* SPDX-License-Identifier: MIT */
/* What generation_config.json of a model that hears says of the texts that it writes:
 * suppress_tokens and begin_suppress_tokens, forced_decoder_ids, lang_to_id and task_to_id, as
 * transformers' generate applies them without timestamps. */
#ifndef BP_BEDPLATE_SPEECH_RULES_H
#define BP_BEDPLATE_SPEECH_RULES_H

#include "core/base/store.h"
#include "tools/bedplate/models/speech_prefix.h"

#define SPEECH_RULES_IDS       1024 /* of a list */
#define SPEECH_RULES_LANGUAGES 256

typedef struct speech_list {
    uint32_t id[SPEECH_RULES_IDS];
    uint32_t count;
} speech_list;

typedef struct speech_rules {
    speech_list never; /* suppress_tokens: written nowhere */
    speech_list first; /* begin_suppress_tokens: not written behind the prefix */
    uint32_t language[SPEECH_RULES_LANGUAGES]; /* lang_to_id */
    uint32_t languages;
    uint32_t forced[SPEECH_PREFIX_MOST - 1]; /* forced_decoder_ids, from place 1 on */
    uint32_t forced_count;
    bool forced_opens; /* the first of them is null: the language is found */
    int64_t task;      /* task_to_id of "transcribe"; -1: none */
} speech_rules;

/* Reads them from the directory of the adapters (NULL: none), where that has such a file, else from
 * the model's (NULL: it has none); without the file there are none. Ids that the model does not
 * have count for nothing. BP_ERR_DATA: a key holds something else, or no token is left. */
bp_status speech_rules_find(speech_rules *rules, bp_store *store, const char *adapter,
                            const char *model, uint32_t vocabulary, bp_error *error) BP_MUST_CHECK;

/* What a text that is written begins with: speech_prefix_find, but that without --language and
 * --task-token forced_decoder_ids stand there, and that a language alone is followed by the task
 * transcribe of task_to_id. *finds: id[0] is to be speech_rules_language of the
 * logits behind the start token, as without --language where there is lang_to_id. */
bp_status speech_rules_prefix(const speech_rules *rules, const settings *set,
                              const bp_tokenizer *tokenizer, speech_prefix *prefix, bool *finds,
                              bp_error *error) BP_MUST_CHECK;

/* The likeliest language; of equal ones the least id. There is one. */
uint32_t speech_rules_language(const speech_rules *rules, const float *logits);

/* Takes all chance from the tokens that may not follow; `begins`: behind the prefix. */
void speech_rules_apply(const speech_rules *rules, bool begins, float *logits);

#endif
