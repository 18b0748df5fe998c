/* SPDX-License-Identifier: MIT */
/* A GGUF file seen as a model's directory: FILE.gguf/config.json and FILE.gguf/tokenizer.json, and
 * of a model of vectors modules.json and what it names, are made of its keys, so that what reads a
 * directory reads the file as well. */
#ifndef BP_BEDPLATE_GGUF_FOLDER_H
#define BP_BEDPLATE_GGUF_FOLDER_H

#include "core/base/error.h"
#include "core/base/store.h"
#include "core/plan/spec.h"
#include "tools/bedplate/app/memory.h"

/* Must not move once open. */
typedef struct gguf_folder {
    bp_store store; /* the other one, and the two files; first, for the calls know it by that */
    const bp_store *under;
    const char *path; /* the GGUF file */
    bp_error *error;
    memory_block tables; /* given back when config.json was made */
    struct {
        const char *name; /* NULL: there is none */
        char *text;       /* made when it is first opened; owned */
        size_t length;
    } file[5];
    bp_staging stored_room;         /* of: malloc's */
    const bp_stored_weight *stored; /* what may be kept in the file's blocks (gguf_model.h) */
    uint32_t stored_count;
    bool open;
} gguf_folder;

/* Opens `path` when it is a GGUF file: *is says so, and then folder->store is `under` with the two
 * files. Its configuration is made at once; a file without a tokenizer that is implemented has
 * none, and `why` becomes the reason, else NULL. BP_ERR_DATA: see bp_gguf_open and
 * bp_gguf_describe. */
bp_status gguf_folder_open(gguf_folder *folder, const bp_store *under, const char *path, bool *is,
                           const char **why, bp_error *error) BP_MUST_CHECK;

/* Bytes of host memory that the two files take at present. */
uint64_t gguf_folder_bytes(const gguf_folder *folder);

/* Gives the memory back. Safe on a record that is all zero. */
void gguf_folder_close(gguf_folder *folder);

#endif
