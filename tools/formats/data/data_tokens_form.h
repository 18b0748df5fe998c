/* SPDX-License-Identifier: MIT */
/* The bytes of a token file's header and examples, for its reader and its writer. */
#ifndef BP_FORMATS_DATA_TOKENS_FORM_H
#define BP_FORMATS_DATA_TOKENS_FORM_H

#include "tools/formats/data/data_tokens.h"

void bp_tokens_head_write(const bp_tokens_head *head, unsigned char bytes[BP_TOKENS_HEADER]);
/* False: not a header of this version, or its digest differs. */
bool bp_tokens_head_read(bp_tokens_head *head, const unsigned char bytes[BP_TOKENS_HEADER]);

void bp_tokens_example_read(bp_example *example, const unsigned char bytes[BP_TOKENS_EXAMPLE]);

#endif
