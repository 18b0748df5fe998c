/* SPDX-License-Identifier: MIT */
/* Where chat templates come from: those with a name, and the model's own. */
#ifndef BP_FORMATS_CHAT_TEMPLATE_H
#define BP_FORMATS_CHAT_TEMPLATE_H

#include "core/base/error.h"
#include "core/base/store.h"
#include "tools/formats/chat/jinja.h"

#define BP_CHAT_TEMPLATE_SCRATCH 65536

/* The template of a name (chatml, llama3, ..); NULL: there is none. They write what the templates
 * that models of these families are published with write, without tools. */
const char *bp_chat_template_named(const char *name);

/* Name number i; NULL behind the last. */
const char *bp_chat_template_name(uint32_t i);

/* The template of a directory: chat_template.jinja, else `chat_template` of tokenizer_config.json
 * (of several the one named default). to: BP_JINJA_SOURCE_MAX bytes; *length 0: it has none.
 * scratch: BP_CHAT_TEMPLATE_SCRATCH bytes aligned to 8. BP_ERR_STORE, BP_ERR_DATA. */
bp_status bp_chat_template_find(bp_store *store, const char *directory, char *to, size_t *length,
                                void *scratch, bp_error *error) BP_MUST_CHECK;

#endif
