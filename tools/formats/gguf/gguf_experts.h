/* SPDX-License-Identifier: MIT */
/* Decoders with mixtures of experts in GGUF. */
#ifndef BP_FORMATS_GGUF_EXPERTS_H
#define BP_FORMATS_GGUF_EXPERTS_H

#include "tools/formats/gguf/gguf_family.h"

extern const bp_gguf_family bp_gguf_glm4_moe;
extern const bp_gguf_family bp_gguf_gpt_oss;
extern const bp_gguf_family bp_gguf_qwen2_moe;
extern const bp_gguf_family bp_gguf_qwen3_moe;
extern const bp_gguf_family bp_gguf_olmoe;

#endif
