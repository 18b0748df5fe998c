/* SPDX-License-Identifier: MIT */
/* Scaled rotary positions in GGUF files. */
#ifndef BP_FORMATS_GGUF_ROPE_H
#define BP_FORMATS_GGUF_ROPE_H

#include "tools/formats/gguf/gguf_llama.h"

/* Bits of bp_rope_kind that readers of an architecture compute. */
#define BP_GGUF_ROPE_KEYS  (1u << BP_ROPE_LINEAR | 1u << BP_ROPE_YARN)
#define BP_GGUF_ROPE_FREQS (BP_GGUF_ROPE_KEYS | 1u << BP_ROPE_LLAMA3) /* by rope_freqs.weight */

/* BP_ERR_USAGE with the key when the scaling is none of `kinds`. */
bp_status bp_gguf_rope_exports(const bp_llama_config *own, unsigned kinds,
                               bp_error *error) BP_MUST_CHECK;

/* Writes the keys rope.scaling.* of linear, yarn and longrope; nothing where nothing is scaled or a
 * tensor alone says it. */
void bp_gguf_rope_put(bp_gguf_writer *writer, const char *architecture, const bp_llama_config *own);

/* Reads them, and Llama 3's rope_freqs.weight, into own->rope_scaling. */
bp_status bp_gguf_rope_take(const bp_gguf_file *file, const char *architecture,
                            bp_model_config *config, bp_llama_config *own) BP_MUST_CHECK;

/* Longrope's divisors: the tensors rope_factors_long and rope_factors_short, as bp_gguf_family's
 * factors has them, and read back with original_context_length, which Phi-3 has without them too.
 */
size_t bp_gguf_long_factors(const bp_model_config *config, uint32_t number, const char **name,
                            float *factors, size_t room);
bp_status bp_gguf_long_take(const bp_gguf_file *file, const char *architecture,
                            bp_model_config *config, bp_llama_long *both) BP_MUST_CHECK;

/* The tensor of a name, or NULL. */
const bp_tensor_entry *bp_gguf_tensor(const bp_gguf_file *file, const char *name);

#endif
