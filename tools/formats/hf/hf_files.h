/* SPDX-License-Identifier: MIT */
/* The weight files of a Hugging Face directory: one model.safetensors, or shards with an index. */
#ifndef BP_FORMATS_HF_FILES_H
#define BP_FORMATS_HF_FILES_H

#include "tools/formats/hf/tensor_set.h"

#define BP_HF_WEIGHTS "model.safetensors"
#define BP_HF_INDEX   "model.safetensors.index.json"

#define BP_HF_SHARDS_MAX      1024u    /* files that an index may name */
#define BP_HF_INDEX_BYTES_MAX 16777216 /* a longer index is refused */
#define BP_HF_INDEX_WORK      8192u    /* scratch that reading an index needs besides its tables */

/* The path of a directory's weights: model.safetensors, else the index of its shards. *found is
 * false, and path is "", when there is neither. */
bp_status bp_hf_find(bp_store *store, const char *directory, char path[BP_STORE_PATH_MAX],
                     bool *found, bp_error *error) BP_MUST_CHECK;

/* Opens weights: `path` is a safetensors file, or an index when it ends in ".json". Headers are
 * checked as bp_safetensors_open does it. Of an index, "weight_map" is read: it must name plain
 * file names of its own directory (no separators, no leading dot), and the shards must hold exactly
 * the tensors that it puts in them, each once; a shard that is not there is named. Tables are taken
 * from the front of *room, which becomes what is left. path and error must outlive the set.
 * BP_ERR_DATA, BP_ERR_STORE; BP_ERR_FIT: the room is too small. After a failure nothing is open. */
bp_status bp_hf_open(bp_tensor_set *set, bp_store *store, const char *path, bp_staging *room,
                     bp_error *error) BP_MUST_CHECK;

/* Adds a safetensors file to an open set: its tensors get `prefix` before their names. BP_ERR_DATA,
 * BP_ERR_STORE, BP_ERR_FIT. */
bp_status bp_hf_add(bp_tensor_set *set, const char *path, const char *prefix,
                    bp_staging *room) BP_MUST_CHECK;

#endif
