/* SPDX-License-Identifier: MIT */
/* Tensor names of GPT-2 files. */
#include "tools/formats/hf_names.h"

#include <string.h>

static const char prefix[] = "transformer.";

const char *bp_hf_name_bare(const char *name)
{
    size_t length = sizeof prefix - 1;
    return strncmp(name, prefix, length) == 0 ? name + length : name;
}

bool bp_hf_name_is_mask(const char *bare)
{
    if (strncmp(bare, "h.", 2) != 0) {
        return false;
    }
    const char *at = bare + 2;
    size_t digits = strspn(at, "0123456789");
    if (digits == 0) {
        return false;
    }
    at += digits;
    return strcmp(at, ".attn.bias") == 0 || strcmp(at, ".attn.masked_bias") == 0;
}
