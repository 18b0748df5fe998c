/* SPDX-License-Identifier: MIT */
/* Decoders of 2025 that are shaped like Llama, in GGUF. */
#ifndef BP_FORMATS_GGUF_DECODERS_H
#define BP_FORMATS_GGUF_DECODERS_H

#include "tools/formats/gguf/gguf_family.h"

extern const bp_gguf_family bp_gguf_ernie4_5;
extern const bp_gguf_family bp_gguf_glm;
extern const bp_gguf_family bp_gguf_glm4;
extern const bp_gguf_family bp_gguf_seed_oss;
extern const bp_gguf_family bp_gguf_olmo3;
extern const bp_gguf_family bp_gguf_exaone4;
extern const bp_gguf_family bp_gguf_hunyuan_v1_dense;
extern const bp_gguf_family bp_gguf_cohere;
extern const bp_gguf_family bp_gguf_cohere2;
extern const bp_gguf_family bp_gguf_starcoder2;
extern const bp_gguf_family bp_gguf_arcee;

/* Which OLMo a file of the architecture holds: 3 where it has a window. */
const bp_gguf_family *bp_gguf_olmo_of(const bp_gguf_file *file);

#endif
