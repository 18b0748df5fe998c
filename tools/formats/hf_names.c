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
    const char *digits = bare + 2;
    const char *at = digits;
    while (*at >= '0' && *at <= '9') {
        at++;
    }
    if (at == digits) {
        return false;
    }
    return strcmp(at, ".attn.bias") == 0 || strcmp(at, ".attn.masked_bias") == 0;
}
