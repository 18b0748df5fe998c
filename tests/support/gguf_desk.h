/* SPDX-License-Identifier: MIT */
/* A desk's tokenizer in the GGUF file "g" of its store. */
#ifndef BP_TESTS_SUPPORT_GGUF_DESK_H
#define BP_TESTS_SUPPORT_GGUF_DESK_H

#include "tests/support/tokenizer_desk.h"
#include "tools/formats/gguf_tokenizer.h"

/* Writes it and the configuration's first and last token: what bp_gguf_put_tokenizer says. */
bp_status gguf_desk_put(tokenizer_desk *d, const bp_model_config *config);

/* Opens the file; the caller closes it. */
void gguf_desk_open(tokenizer_desk *d, bp_gguf_file *file);

/* Token `id` of the file is spelt like this and is of this type. */
void gguf_desk_has(tokenizer_desk *d, uint32_t id, const char *text, int32_t type);

/* What the file says under a key: 0, 1, or -1 where it says nothing. */
int gguf_desk_says(tokenizer_desk *d, const char *name);

/* The tokenizer.json of the file, terminated. */
bp_status gguf_desk_json(tokenizer_desk *d, char *text, size_t room);

#endif
