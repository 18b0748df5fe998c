/* SPDX-License-Identifier: MIT */
/* bp_store: the few storage calls that reading models and saving state need.
 *
 * An appliance implements them over its flash or its disk; device/host/storage/store_posix.c
 * implements them over POSIX files. Core never calls the operating system itself, so a test can
 * fail the n-th call of any kind. Paths are UTF-8, relative to whatever root the implementation was
 * given. */
/* Installed as part of <bedplate/store.h>. */
#ifndef BP_CORE_STORE_H
#define BP_CORE_STORE_H

#include "arena/base.h"

#define BP_STORE_PATH_MAX 512 /* longest path, with its terminator */

/* An open file. The implementation owns the meaning of the number; 0 is never a valid handle. */
typedef struct bp_file {
    uint64_t handle;
} bp_file;

/* Memory through which a file's data flows; capacity > 0. */
typedef struct bp_staging {
    void *memory;
    size_t capacity;
} bp_staging;

typedef struct bp_store bp_store;

/* Every call returns BP_OK or BP_ERR_STORE and leaves a static reason in store->reason (and a
 * number, errno for POSIX, in store->code). A failed write, sync or rename must not be retried:
 * the medium's state is unknown. Reads of hostile files must be possible: sizes come from
 * file_size, never from the content. */
struct bp_store {
    void *context;
    const char *reason; /* static text of the last failure; NULL if none */
    int code;           /* the implementation's number for it */

    /* Opens for reading; BP_ERR_STORE if the file is not there or cannot be read. */
    bp_status (*open_read)(bp_store *store, const char *path, bp_file *file);
    /* Creates or truncates for writing. */
    bp_status (*open_write)(bp_store *store, const char *path, bp_file *file);
    bp_status (*file_size)(bp_store *store, bp_file file, uint64_t *bytes);
    /* Reads exactly `bytes` at `offset`; a shorter file is an error. */
    bp_status (*read_at)(bp_store *store, bp_file file, uint64_t offset, void *to, size_t bytes);
    /* Writes exactly `bytes` at `offset`. */
    bp_status (*write_at)(bp_store *store, bp_file file, uint64_t offset, const void *from,
                          size_t bytes);
    /* The file's bytes are on the medium when this returns. */
    bp_status (*sync)(bp_store *store, bp_file file);
    bp_status (*close)(bp_store *store, bp_file file);
    /* Moves a file or a directory, empty or not, to `to`, atomically: at every moment, a cut of
     * power included, it is found by one of the two names, whole. A file that is there as `to` is
     * replaced, a directory may be (callers make way first). */
    bp_status (*rename)(bp_store *store, const char *from, const char *to);
    bp_status (*remove)(bp_store *store, const char *path);
    bp_status (*make_directory)(bp_store *store, const char *path); /* there already: BP_OK */
    /* Removes an empty directory. */
    bp_status (*remove_directory)(bp_store *store, const char *path);
    bp_status (*sync_directory)(bp_store *store, const char *path);
    /* Calls each(user, name) for every entry, in no particular order, "." and ".." left out; stops
     * at the first status that is not BP_OK and returns it. A directory that is not there is
     * BP_ERR_STORE. */
    bp_status (*list)(bp_store *store, const char *path,
                      bp_status (*each)(void *user, const char *name), void *user);
    /* Bytes that could still be written to the offload tier `path`. */
    bp_status (*free_bytes)(bp_store *store, const char *path, uint64_t *bytes);
    /* Whether something of that name is there. */
    bp_status (*exists)(bp_store *store, const char *path, bool *there);
    /* Opens for writing a file that is there, whose bytes stay: for ranks that write one file
     * together. NULL: the medium cannot, and rank 0 writes alone. */
    bp_status (*open_update)(bp_store *store, const char *path, bp_file *file);
    /* Removes `path` where it is a link; what it leads to stays. *was: whether it was one. NULL:
     * the medium has no links. */
    bp_status (*remove_link)(bp_store *store, const char *path, bool *was);
};

#endif
