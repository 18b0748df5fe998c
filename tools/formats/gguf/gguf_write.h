/* SPDX-License-Identifier: MIT */
/* Writing a GGUF file from front to back: begin, keys, tensors, data, end. */
#ifndef BP_FORMATS_GGUF_WRITE_H
#define BP_FORMATS_GGUF_WRITE_H

#include "arena/text.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/store.h"
#include "core/ops/blocks.h"
#include "tools/formats/gguf/gguf.h"

/* A plain record; must not move between begin and end. The first failure sticks: later calls do
 * nothing, and data and end return it. */
typedef struct bp_gguf_writer {
    bp_store *store;
    bp_file file;
    const char *path;
    bp_error *error;
    bp_text text; /* of the header; text.written is its length so far */
    uint64_t keys;
    uint64_t tensors; /* announced so far */
    uint64_t offset;  /* of the next tensor in the data */
    uint64_t at;      /* in the file, while data is written */
    char buffer[4096];
} bp_gguf_writer;

/* Creates the file. path and error must outlive the writer. */
bp_status bp_gguf_begin(bp_gguf_writer *writer, bp_store *store, const char *path,
                        bp_error *error) BP_MUST_CHECK;

/* One key each. Keys are unique and not longer than BP_GGUF_KEY_MAX allows. */
void bp_gguf_put_u32(bp_gguf_writer *writer, const char *key, uint32_t value);
void bp_gguf_put_f32(bp_gguf_writer *writer, const char *key, float value);
void bp_gguf_put_bool(bp_gguf_writer *writer, const char *key, bool value);
void bp_gguf_put_string(bp_gguf_writer *writer, const char *key, const char *value, size_t length);

/* A key whose value is an array: exactly `count` items follow. */
void bp_gguf_put_array(bp_gguf_writer *writer, const char *key, bp_gguf_type type, uint64_t count);
void bp_gguf_item_string(bp_gguf_writer *writer, const char *value, size_t length);
void bp_gguf_item_u8(bp_gguf_writer *writer, uint8_t value);
void bp_gguf_item_i32(bp_gguf_writer *writer, int32_t value);
void bp_gguf_item_f32(bp_gguf_writer *writer, float value);

/* Announces a tensor (shape as usual, slowest first; rank 1 to 4; F32, F16 or BF16), after all
 * keys; its data follows in the same order. BP_ERR_USAGE sticks when the name is too long for the
 * format. */
void bp_gguf_put_tensor(bp_gguf_writer *writer, const char *name, uint32_t rank,
                        const uint64_t *shape, bp_dtype dtype);

/* The same of a tensor in blocks (core/ops/blocks.h), whose rows are whole ones. */
void bp_gguf_put_packed(bp_gguf_writer *writer, const char *name, uint32_t rank,
                        const uint64_t *shape, const bp_packed_type *type);

/* Ends the header. */
bp_status bp_gguf_data(bp_gguf_writer *writer) BP_MUST_CHECK;
/* The next bytes of the present tensor; ends a tensor and pads it. */
bp_status bp_gguf_data_add(bp_gguf_writer *writer, const void *bytes, size_t length) BP_MUST_CHECK;
bp_status bp_gguf_data_pad(bp_gguf_writer *writer) BP_MUST_CHECK;

/* Writes the counts, syncs, closes; returns the first failure of all. After a failure the file's
 * content is not valid. */
bp_status bp_gguf_end(bp_gguf_writer *writer) BP_MUST_CHECK;

/* Closes after a failure elsewhere. */
void bp_gguf_abandon(bp_gguf_writer *writer);

#endif
