/* SPDX-License-Identifier: MIT */
/* What writers of weight files of every format share: where it goes, in which types, through how
 * much memory. */
#ifndef BP_FORMATS_WEIGHT_TARGET_H
#define BP_FORMATS_WEIGHT_TARGET_H

#include "tools/formats/family/parameters.h"

#define BP_TARGET_WORK_MIN 65536u /* least memory that writing works in, bytes */

typedef struct bp_weight_target {
    bp_store *store;
    const char *path; /* the file, replaced as a whole when it is complete and synced */
    bool keep;        /* every tensor keeps the type that it has in the source */
    bp_dtype dtype;   /* otherwise: F32, F16 or BF16 */
    const struct bp_packed_type *packed; /* gguf: matrices are in these blocks; NULL: in none */
    bp_quantised form; /* hf: dense layers are quantised so, and what is quantised in the source
        stays as it is; NONE: floats */
    bp_staging work;   /* aligned to 8; BP_TARGET_WORK_MIN bytes beyond 256 for each parameter */
    bp_error *error;
    uint64_t bytes; /* out: the file's */
    size_t beside;  /* out: how many tensors it has beside the parameters */
} bp_weight_target;

/* How many tensors a file with this naming has of a parameter: 1 but for pieces. */
uint64_t bp_weight_source_tensors(const bp_weight_source *source, size_t index,
                                  const bp_tensor_naming *naming);

/* Tensor `piece` of a parameter as a file with this naming holds it: its name there and a view
 * turned accordingly. BP_ERR_USAGE naming the parameter when the naming does not cover it. */
bp_status bp_weight_source_view(const bp_weight_source *source, size_t index, uint64_t piece,
                                const bp_tensor_naming *naming, char name[BP_TENSOR_NAME_MAX],
                                bp_tensor_view *view) BP_MUST_CHECK;

/* Elements [first, first + count) of a view of parameter `index` as type `to`. Everything that is
 * written goes through here: this is where a merged adapter would add its part. */
bp_status bp_weight_source_read(const bp_weight_source *source, size_t index,
                                const bp_tensor_view *view, uint64_t first, size_t count,
                                bp_dtype to, void *out, bp_staging work) BP_MUST_CHECK;

/* Takes the elements of a tensor in order. */
typedef bp_status (*bp_weight_sink)(void *user, const void *elements, size_t bytes);

/* A whole view in pieces: a third of `work` is read through, the rest carries what is handed on. */
bp_status bp_weight_source_stream(const bp_weight_source *source, size_t index,
                                  const bp_tensor_view *view, bp_dtype to, bp_staging work,
                                  bp_weight_sink sink, void *user) BP_MUST_CHECK;

/* A tensor's name, in *room, as it goes with one of the model's own, `first`: those of a model that
 * has a head begin with the model's own, as `bert.`. NULL: there is no room. */
const char *bp_carried_name(bp_staging *room, const char *first, const char *theirs);

/* Whether a tensor of a matched set is no parameter's and goes along where names stay as they are.
 * Counts of batches do by themselves. */
bool bp_weight_carried(const bp_tensor_naming *naming, uint64_t layers,
                       const bp_tensor_entry *entry);

/* Writes model.safetensors, with quantised weights as bnb.h says, under Hugging Face's names (the
 * first rule of the naming), and beside them the counts of batches that the source has
 * (hf_counts.h) and, where the source carries, what the model has no use for: a pooler, a head of
 * another task. Afterwards target->bytes and target->beside are set. */
bp_status bp_hf_export(const bp_weight_source *source, const bp_tensor_naming *naming,
                       bp_weight_target *target) BP_MUST_CHECK;

#endif
