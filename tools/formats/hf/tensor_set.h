/* SPDX-License-Identifier: MIT */
/* The tensors of one or several files, whatever their format: a table of contents and reads at any
 * place. One file is open at a time, so a model may have more shards than a process may have
 * files. */
#ifndef BP_FORMATS_TENSOR_SET_H
#define BP_FORMATS_TENSOR_SET_H

#include "core/base/safetensors.h"

/* One file. Its tables are the caller's. */
typedef struct bp_tensor_part {
    const char *path;
    bp_tensor_entry *entries; /* sorted by name; offset counts from data_at */
    size_t entry_count;
    bp_pair *metadata; /* sorted by key; safetensors only */
    size_t metadata_count;
    uint64_t data_at;
    uint64_t file_bytes;
} bp_tensor_part;

typedef struct bp_tensor_set {
    bp_store *store;
    bp_error *error;
    const char *path; /* what messages call the whole: the file, or the index of the shards */
    bp_tensor_part *parts;
    uint32_t part_count;
    uint32_t current; /* the part that is open; part_count: none */
    bp_file file;
} bp_tensor_set;

/* A set over parts that are all closed and have been checked. */
void bp_tensor_set_init(bp_tensor_set *set, bp_store *store, const char *path,
                        bp_tensor_part *parts, uint32_t count, bp_error *error);

/* The tensor of a name and the part it is in; NULL when there is none. O(parts x log entries). */
bp_tensor_entry *bp_tensor_set_find(const bp_tensor_set *set, const char *name, uint32_t *part);

/* Reads bytes [offset, offset + bytes) of a tensor. BP_ERR_USAGE when they are not inside it;
 * BP_ERR_STORE; BP_ERR_DATA when the part's file is no longer as long as it was. */
bp_status bp_tensor_set_read(bp_tensor_set *set, uint32_t part, const bp_tensor_entry *entry,
                             uint64_t offset, void *to, size_t bytes) BP_MUST_CHECK;

/* XXH64 of a tensor's bytes; `work` is what they flow through. */
bp_status bp_tensor_set_digest(bp_tensor_set *set, uint32_t part, const bp_tensor_entry *entry,
                               bp_staging work, uint64_t *digest) BP_MUST_CHECK;

/* The metadata value of a key in a part, NULL when there is none. */
const char *bp_tensor_set_metadata(const bp_tensor_set *set, uint32_t part, const char *key);

/* Closes what is open. Safe on a set that is all zero. */
bp_status bp_tensor_set_close(bp_tensor_set *set) BP_MUST_CHECK;

/* Takes `bytes` (rounded up to 8) from the front of *room, aligned to 8. NULL when there is less.
 */
void *bp_room_take(bp_staging *room, uint64_t bytes);

#endif
