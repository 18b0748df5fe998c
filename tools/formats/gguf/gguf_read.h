/* SPDX-License-Identifier: MIT */
/* Reading GGUF files: everything in front of the data is checked before anything is used. */
#ifndef BP_FORMATS_GGUF_READ_H
#define BP_FORMATS_GGUF_READ_H

#include "tools/formats/gguf/gguf.h"
#include "tools/formats/hf/tensor_set.h"

/* A key and where its value lies. */
typedef struct bp_gguf_key {
    const char *name;
    bp_gguf_type type;
    bp_gguf_type item; /* of an array */
    uint64_t count;    /* items of an array, bytes of a string */
    uint64_t at;       /* file offset of a string's bytes, of an array's first item */
    uint64_t bytes;    /* of an array's items, as they lie in the file */
    uint64_t bits;     /* of a number, as it stands in the file */
} bp_gguf_key;

/* An open file. A plain record; its tables lie in the room given to open. */
typedef struct bp_gguf_file {
    bp_store *store;
    bp_file file;
    const char *path;
    bp_error *error;
    bp_gguf_key *keys; /* sorted by name */
    size_t key_count;
    uint64_t alignment;
    bp_tensor_part part; /* for a bp_tensor_set; shapes slowest first, sorted by name */
} bp_gguf_file;

/* Opens and checks a file: magic, version 3, every count and length against the bytes that are
 * left, types, names (1 to 63 bytes for tensors, 1 to 255 for keys, no NUL, unique), extents of at
 * least 1 with checked products, element types F32, F16, BF16 and those of core/ops/blocks.h,
 * alignment (a power of two, 8 to 65536), and offsets: tensors lie one after the other, padded, and
 * the file ends with them. Tables are taken from the front of *room. path and error must outlive
 * the file. BP_ERR_DATA naming file and tensor or key; BP_ERR_STORE; BP_ERR_FIT: the room is too
 * small. After a failure nothing is open. */
bp_status bp_gguf_open(bp_gguf_file *file, bp_store *store, const char *path, bp_staging *room,
                       bp_error *error) BP_MUST_CHECK;

bp_status bp_gguf_close(bp_gguf_file *file) BP_MUST_CHECK;

/* The key of a name, NULL when there is none. */
const bp_gguf_key *bp_gguf_find(const bp_gguf_file *file, const char *name);

/* A whole number of any integer type within least .. most; a number of either float type
 * (an F32 as the shortest decimal that is this float); a string of at most room - 1 bytes without
 * NUL, terminated. BP_ERR_DATA naming the key when it is missing, of another type or out of range.
 */
bp_status bp_gguf_take_count(const bp_gguf_file *file, const char *name, uint64_t least,
                             uint64_t most, uint32_t *value) BP_MUST_CHECK;
bp_status bp_gguf_take_real(const bp_gguf_file *file, const char *name,
                            double *value) BP_MUST_CHECK;
bp_status bp_gguf_take_string(const bp_gguf_file *file, const char *name, char *value,
                              size_t room) BP_MUST_CHECK;

/* Whether a key is there and is this string of less than 64 bytes. Sets no error. */
bool bp_gguf_says(const bp_gguf_file *file, const char *name, const char *word);

/* A number above 0 and below 1e12; *value stays where there is no such key. */
bp_status bp_gguf_take_positive(const bp_gguf_file *file, const char *name,
                                double *value) BP_MUST_CHECK;

/* BP_ERR_DATA with the file and the key's name in the error. */
bp_status bp_gguf_refuse(const bp_gguf_file *file, const char *text, const char *name);

#define BP_GGUF_AHEAD 2048 /* bytes that are read at a time */

/* Reads an array of strings, flags or 32-bit numbers from front to back. */
typedef struct bp_gguf_items {
    const bp_gguf_file *file;
    const bp_gguf_key *key;
    uint64_t next; /* number of the next item */
    uint64_t at;   /* its file offset */
    uint64_t ahead_at;
    size_t ahead; /* bytes that were read ahead, from ahead_at on */
    unsigned char buffer[BP_GGUF_AHEAD];
} bp_gguf_items;

/* Starts an array of items of that type. BP_ERR_DATA when the key is missing or something else. */
bp_status bp_gguf_items_begin(bp_gguf_items *items, const bp_gguf_file *file, const char *name,
                              bp_gguf_type type) BP_MUST_CHECK;
/* The next string, terminated; `text` has `room` bytes. BP_ERR_DATA when it is longer. */
bp_status bp_gguf_items_string(bp_gguf_items *items, char *text, size_t room,
                               size_t *length) BP_MUST_CHECK;
bp_status bp_gguf_items_flag(bp_gguf_items *items, bool *value) BP_MUST_CHECK;
bp_status bp_gguf_items_i32(bp_gguf_items *items, int32_t *value) BP_MUST_CHECK;

#endif
