/* SPDX-License-Identifier: MIT */
/* What encoders in GGUF share: the sizes of their blocks, and how a text's vector is made. */
#ifndef BP_FORMATS_GGUF_BERT_H
#define BP_FORMATS_GGUF_BERT_H

#include "layers/families/transformer.h"
#include "tools/formats/gguf/gguf_llama.h"

/* Writes the keys of sizes, of the norms and of pooling. */
void bp_gguf_encoder_put(bp_gguf_writer *writer, const char *architecture,
                         const bp_model_config *config);

/* Reads them; the model is one of vectors. BP_ERR_DATA naming the key. */
bp_status bp_gguf_encoder_take(const bp_gguf_file *file, const char *architecture,
                               bp_model_config *config, bp_transformer *stack) BP_MUST_CHECK;

/* BP_ERR_USAGE naming what has no place: a head, another activation, another pooling. */
bp_status bp_gguf_encoder_exports(const bp_model_config *config, bp_error *error) BP_MUST_CHECK;

#endif
