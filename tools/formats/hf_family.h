/* SPDX-License-Identifier: MIT */
/* Model families as Hugging Face files know them: one row each. */
#ifndef BP_FORMATS_HF_FAMILY_H
#define BP_FORMATS_HF_FAMILY_H

#include "tools/formats/tensor_naming.h"

typedef struct bp_hf_family {
    const char *model_type; /* bp_model.name: Qwen2 is a llama */
    bp_tensor_naming naming;
} bp_hf_family;

/* The family of a model type, NULL when there is none. */
const bp_hf_family *bp_hf_family_find(const char *model_type);

#endif
