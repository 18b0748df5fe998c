/* SPDX-License-Identifier: MIT */
/* Gemma's families in GGUF. */
#ifndef BP_FORMATS_GGUF_GEMMA_H
#define BP_FORMATS_GGUF_GEMMA_H

#include "tools/formats/gguf/gguf_llama.h"

extern const bp_gguf_family bp_gguf_gemma;
extern const bp_gguf_family bp_gguf_gemma2;
extern const bp_gguf_family bp_gguf_gemma3;

#endif
