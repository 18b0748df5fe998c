/* SPDX-License-Identifier: MIT */
/* How PEFT's files call adapters, and parameters that are trained beside them. */
#ifndef BP_FORMATS_PEFT_NAMES_H
#define BP_FORMATS_PEFT_NAMES_H

#include "core/run/runtime.h"
#include "core/plan/builder.h"
#include "tools/formats/hf/tensor_match.h"

/* Adapters bear the names of their files, as PEFT has it, and so do parameters that are trained
 * beside them, of which the bias of a module with an adapter is its base layer's. */
extern const bp_tensor_naming bp_peft_naming;

/* What a file calls a parameter; false when that does not fit. */
bool bp_peft_name(const bp_builder *builder, const char *ours, char theirs[BP_TENSOR_NAME_MAX]);

/* What stands before all of a family's modules in a model with a head, and in the names of a run
 * ("bert.", "model."), but not in BertModel. PEFT wraps that for vectors, so its names leave it
 * out: bp_peft_name does where the task is vectors. *length is 0 where there is none. */
const char *bp_peft_stem(const bp_tensor_naming *family, size_t *length);

/* Gives it to the names of an open file of adapters that were made so: none of them has it, and one
 * goes on as `layer` does, the name of a parameter in a layer by its number (NULL: nothing is
 * done). BP_ERR_FIT: *room is too small, or a name too long. */
bp_status bp_peft_complete(bp_tensor_set *set, const bp_tensor_naming *family, const char *layer,
                           bp_staging *room) BP_MUST_CHECK;

/* Whether a parameter is in a layer by its number. */
bool bp_peft_in_layer(const char *name);

/* Whether a file has it, by any of its names; *theirs becomes that. */
bool bp_peft_has(const bp_tensor_set *set, const char *ours, char theirs[BP_TENSOR_NAME_MAX]);

/* Modules that transformers 5 calls otherwise than before, and than files of weights still do: a
 * ViT's. PEFT's names follow the modules, so "vit.encoder.layer.0.attention.attention.query" is
 * "vit.layers.0.attention.q_proj" to it since. Adapters are read by both, and written by the newer
 * names unless their targets are older ones (bp_peft_is_older). */

/* The newer name of a tensor of an adapter's file ("base_model.model.."); false: it has none. */
bool bp_peft_newer(const char *older, char newer[BP_TENSOR_NAME_MAX]);

/* The same of a module, whose name has `length` bytes: the newer length; 0: it has none. */
size_t bp_peft_newer_module(const char *older, size_t length, char newer[BP_TENSOR_NAME_MAX]);

/* Elements [first, first + count) of the A of a table's adapter (bp_adapter_transposed) as files
 * have it: (r, vocabulary), where the runtime has (vocabulary, r). count <= 1024. Cost: r times as
 * much is read. */
bp_status bp_peft_get_transposed(bp_runtime *runtime, uint32_t number, uint64_t first,
                                 float *values, size_t count) BP_MUST_CHECK;

#endif
