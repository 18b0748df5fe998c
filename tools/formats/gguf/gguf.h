/* SPDX-License-Identifier: MIT */
/* GGUF, version 3 (ggml-org/ggml, docs/gguf.md): the constants that reader and writer share.
 *
 * "GGUF", u32 version, u64 tensors, u64 keys; per key a string, a u32 type and a value; per tensor
 * a name, u32 rank, u64 extents (the fastest first), u32 type, u64 offset; zeros up to the
 * alignment; the data, every tensor padded to the alignment. A string is a u64 length and its
 * bytes. All little-endian, as the machine must be. */
#ifndef BP_FORMATS_GGUF_H
#define BP_FORMATS_GGUF_H

#define BP_GGUF_MAGIC     0x46554747u /* "GGUF" */
#define BP_GGUF_VERSION   3u
#define BP_GGUF_ALIGNMENT 32u /* where general.alignment says nothing else */
#define BP_GGUF_NAME_MAX  64  /* of a tensor, with the terminator that ggml gives it */
#define BP_GGUF_KEY_MAX   256 /* longest key here, with a terminator */
#define BP_GGUF_RANK_MAX  4

typedef enum bp_gguf_type {
    BP_GGUF_U8,
    BP_GGUF_I8,
    BP_GGUF_U16,
    BP_GGUF_I16,
    BP_GGUF_U32,
    BP_GGUF_I32,
    BP_GGUF_F32,
    BP_GGUF_BOOL,
    BP_GGUF_STRING,
    BP_GGUF_ARRAY,
    BP_GGUF_U64,
    BP_GGUF_I64,
    BP_GGUF_F64,
    BP_GGUF_TYPES
} bp_gguf_type;

/* ggml's numbers of the element types that can be read and written here. */
enum { BP_GGUF_TENSOR_F32 = 0, BP_GGUF_TENSOR_F16 = 1, BP_GGUF_TENSOR_BF16 = 30 };

/* tokenizer.ggml.token_type */
enum {
    BP_GGUF_TOKEN_NORMAL = 1,
    BP_GGUF_TOKEN_UNKNOWN = 2,
    BP_GGUF_TOKEN_CONTROL = 3,
    BP_GGUF_TOKEN_USER = 4,
    BP_GGUF_TOKEN_UNUSED = 5,
    BP_GGUF_TOKEN_BYTE = 6
};

#endif
