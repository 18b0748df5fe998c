/* SPDX-License-Identifier: MIT */
/* safetensors files: a reader that trusts nothing, and a writer in the canonical order.
 *
 * Format: u64 little-endian header length N; N bytes of JSON that begin with {; the data. One
 * member per tensor, name: {dtype, shape, data_offsets: [begin, end)}, offsets counted from the
 * first data byte, and at most one "__metadata__" of strings. The data is covered without holes
 * and without overlap. Data in files is not aligned; integers and floats are little-endian, which
 * the machine must be too. */
/* Installed as part of <bedplate/store.h>. */
#ifndef BP_CORE_SAFETENSORS_H
#define BP_CORE_SAFETENSORS_H

#include "arena/base.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/pair.h"
#include "core/base/store.h"

#define BP_TENSOR_RANK_MAX        8
#define BP_TENSOR_NAME_MAX        256        /* with its terminator */
#define BP_SAFETENSORS_HEADER_MAX 100000000u /* bytes, the limit of the format's own readers */
#define BP_SAFETENSORS_WORK       4096u      /* scratch that open needs besides its tables, bytes */
#define BP_SAFETENSORS_DIGEST     "xxh64."   /* metadata key of a tensor's digest: this + name */

typedef struct bp_tensor_entry {
    const char *name;
    bp_dtype dtype;
    uint32_t rank; /* 0 is a scalar */
    uint64_t shape[BP_TENSOR_RANK_MAX];
    uint64_t offset; /* of the first byte, counted from the beginning of the data */
    uint64_t bytes;
    uint64_t digest; /* writer: XXH64 of the bytes, set when they have gone out */
    uint64_t handle; /* the caller's own number; sorting keeps it with its tensor */
    uint32_t packed; /* another format's number for elements that lie in blocks, of which dtype is
                        what they are read as; 0: they lie one by one */
} bp_tensor_entry;

/* An open file. A plain record; its tables lie in the scratch given to open. */
typedef struct bp_safetensors {
    bp_store *store;
    bp_file file;
    const char *path;
    bp_error *error;
    bp_tensor_entry *entries; /* sorted by name, as strcmp */
    size_t entry_count;
    bp_pair *metadata; /* sorted by key */
    size_t metadata_count;
    uint64_t data_at; /* file offset of the first data byte */
    uint64_t data_bytes;
    size_t scratch_used;   /* bytes of the scratch that must stay as they are while open */
    size_t scratch_needed; /* set as soon as known, also when open fails with BP_ERR_FIT */
} bp_safetensors;

/* Opens and checks a whole header: its length against the file, the JSON, every dtype, shape and
 * range with checked arithmetic, names (1 to 255 bytes, no NUL, unique), full coverage of the data,
 * string-to-string metadata without duplicate keys. The header is read twice: once to count, once
 * to fill the tables, which take `scratch` (any alignment). path and error must outlive the file.
 * Errors: BP_ERR_STORE; BP_ERR_DATA naming file and tensor; BP_ERR_FIT with the bytes that scratch
 * must have. After a failure nothing stays open, and *file is as one that is zero or was closed: it
 * has no tensors and no metadata, and the calls below are BP_ERR_USAGE. */
bp_status bp_safetensors_open(bp_safetensors *file, bp_store *store, const char *path,
                              void *scratch, size_t scratch_bytes, bp_error *error) BP_MUST_CHECK;

bp_status bp_safetensors_close(bp_safetensors *file) BP_MUST_CHECK;

/* By name, NULL when there is none. O(log entry_count). */
const bp_tensor_entry *bp_safetensors_find(const bp_safetensors *file, const char *name);

/* The metadata value of a key, NULL when there is none. O(log metadata_count). */
const char *bp_safetensors_metadata(const bp_safetensors *file, const char *key);

/* Reads bytes [offset, offset + bytes) of a tensor. BP_ERR_USAGE when they are not inside it. */
bp_status bp_safetensors_read(const bp_safetensors *file, const bp_tensor_entry *entry,
                              uint64_t offset, void *to, size_t bytes) BP_MUST_CHECK;

/* Takes a piece of a tensor: `bytes` bytes at `from` that stand at `offset` in it. */
typedef bp_status (*bp_tensor_sink)(void *user, const bp_tensor_entry *entry, uint64_t offset,
                                    const void *from, size_t bytes);

/* Hands a whole tensor to `sink` in pieces of at most staging.capacity bytes, in order, and gives
 * the XXH64 of its bytes. sink may be NULL (only the digest), digest may be NULL. */
bp_status bp_safetensors_stream(const bp_safetensors *file, const bp_tensor_entry *entry,
                                bp_staging staging, bp_tensor_sink sink, void *user,
                                uint64_t *digest) BP_MUST_CHECK;

/* Metadata pairs whose keys get a common beginning in the file. */
typedef struct bp_metadata_group {
    const char *prefix;
    bp_pairs pairs;
} bp_metadata_group;

/* What is to be written. "format": "pt" is added by the writer: some loaders refuse without it. */
typedef struct bp_safetensors_plan {
    bp_tensor_entry *entries; /* name, dtype, rank, shape, handle by the caller; the rest is set */
    size_t entry_count;
    const bp_metadata_group *groups;
    size_t group_count;
    bool digests; /* adds one metadata pair per tensor, key BP_SAFETENSORS_DIGEST + name */
    /* Set by bp_safetensors_layout: */
    uint64_t header_bytes; /* N, a multiple of 8 */
    uint64_t data_bytes;
    uint64_t file_bytes;
} bp_safetensors_plan;

/* Sorts the entries canonically (larger element types first, then by name), gives each its offset
 * and computes the exact size of the file. BP_ERR_USAGE: a name that is empty, too long or there
 * twice, a rank or dtype out of range. BP_ERR_OVERFLOW: a size. BP_ERR_FIT: header above the limit.
 * Values of metadata may change until bp_safetensors_end as long as they keep their length. */
bp_status bp_safetensors_layout(bp_safetensors_plan *plan, bp_error *error) BP_MUST_CHECK;

/* Copies bytes [offset, offset + bytes) of a tensor to `to`. */
typedef bp_status (*bp_tensor_payload)(void *user, const bp_tensor_entry *entry, uint64_t offset,
                                       void *to, size_t bytes);

/* A file being written. The header goes out last, because it holds the digests. */
typedef struct bp_safetensors_writer {
    bp_store *store;
    bp_file file;
    const char *path;
    const bp_safetensors_plan *plan;
    bp_error *error;
} bp_safetensors_writer;

/* Creates the file and writes all tensors; fills in their digests. After a failure the file is
 * closed, its content is not valid and must not be used; writing on or ending it, then or before it
 * was begun, is BP_ERR_USAGE, as is a plan without a layout. The payload's own failures are passed
 * on as they are. */
bp_status bp_safetensors_begin(bp_safetensors_writer *writer, bp_store *store, const char *path,
                               const bp_safetensors_plan *plan, bp_error *error) BP_MUST_CHECK;
bp_status bp_safetensors_write(bp_safetensors_writer *writer, bp_staging staging,
                               bp_tensor_payload payload, void *user) BP_MUST_CHECK;
/* Writes the header, syncs and closes: once. */
bp_status bp_safetensors_end(bp_safetensors_writer *writer) BP_MUST_CHECK;

#endif
