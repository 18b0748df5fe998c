/* SPDX-License-Identifier: MIT */
/* Tensor names of GPT-2 files: the optional prefix, and tensors that are not parameters. */
#ifndef BP_FORMATS_HF_NAMES_H
#define BP_FORMATS_HF_NAMES_H

#include <stdbool.h>

/* The name without "transformer." if it begins so. */
const char *bp_hf_name_bare(const char *name);

/* Whether a bare name is one of the buffers h.I.attn.bias, h.I.attn.masked_bias. */
bool bp_hf_name_is_mask(const char *bare);

#endif
