/* SPDX-License-Identifier: MIT */
/* What a GGUF file says of the model that it holds. */
#ifndef BP_FORMATS_GGUF_MODEL_H
#define BP_FORMATS_GGUF_MODEL_H

#include "tools/formats/gguf/gguf_family.h"
#include "tools/formats/hf/tensor_set.h"

/* Whether the file begins with GGUF's magic number. BP_ERR_STORE: it cannot be read. */
bp_status bp_gguf_look(bp_store *store, const char *path, bool *is, bp_error *error) BP_MUST_CHECK;

/* The configuration of the model in an open file, and its family. Several tokens may end a text:
 * those of eos_token_id, eot_token_id and eom_token_id. BP_ERR_DATA: no family has this
 * architecture, or a key is missing or wrong. */
bp_status bp_gguf_describe(const bp_gguf_file *file, const bp_gguf_family **family,
                           bp_model_config *config, bp_error *error) BP_MUST_CHECK;

/* The parameters that may be kept in the blocks in which the file holds them (bp_spec.stored):
 * those whose rows are rows of a tensor in blocks, in any order. Names in strcmp's order. They are
 * made in *room, which has bp_gguf_stored_bytes bytes. */
uint64_t bp_gguf_stored_bytes(const bp_gguf_file *file, const bp_gguf_family *family);
void bp_gguf_stored(const bp_gguf_file *file, const bp_gguf_family *family, bool input_major,
                    bp_staging *room, const bp_stored_weight **stored, uint32_t *count);

/* Opens the tensors of a GGUF file as a set: bp_hf_open's counterpart. Tables are taken from the
 * front of *room. path and error must outlive the set. Errors as bp_gguf_open. */
bp_status bp_gguf_open_set(bp_tensor_set *set, bp_store *store, const char *path, bp_staging *room,
                           bp_error *error) BP_MUST_CHECK;

#endif
