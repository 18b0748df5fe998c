/* SPDX-License-Identifier: MIT */
/* Llama and Qwen2 in GGUF: rows of gguf_family.c. */
#ifndef BP_FORMATS_GGUF_LLAMA_H
#define BP_FORMATS_GGUF_LLAMA_H

#include "tools/formats/gguf_family.h"

/* Llama's queries and keys have their rotary halves interleaved; Qwen2's are as they are here. */
extern const bp_tensor_naming bp_gguf_llama_naming;
extern const bp_tensor_naming bp_gguf_qwen2_naming;

void bp_gguf_llama_put(bp_gguf_writer *writer, const bp_model_config *config);
void bp_gguf_qwen2_put(bp_gguf_writer *writer, const bp_model_config *config);

bp_status bp_gguf_llama_take(const bp_gguf_file *file, bp_model_config *config) BP_MUST_CHECK;
bp_status bp_gguf_qwen2_take(const bp_gguf_file *file, bp_model_config *config) BP_MUST_CHECK;

/* The values of rope_freqs.weight: what Llama 3's scaling divides each frequency by. Returns how
 * many there are, half the width of a head, of which the first `room` are written; 0 without
 * scaling. */
size_t bp_gguf_llama_frequencies(const bp_model_config *config, float *factors, size_t room);

#endif
