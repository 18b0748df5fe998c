/* SPDX-License-Identifier: MIT */
/* A bp_store in memory that knows what a power cut does to data that was not synced. */
#ifndef BP_TESTS_SUPPORT_STORE_MEMORY_H
#define BP_TESTS_SUPPORT_STORE_MEMORY_H

#include "core/file/store.h"

/* One write, or a truncation, that has not been synced. */
typedef struct memory_write {
    size_t offset;
    size_t length;
    unsigned char *bytes; /* NULL: the file was truncated */
} memory_write;

/* One change of a directory that has not been synced: "" stands for nothing. */
typedef struct memory_change {
    char from[64];
    char to[64];
    size_t node;
} memory_change;

typedef struct memory_entry {
    char name[64];
    size_t node;
} memory_entry;

typedef struct memory_content {
    unsigned char *bytes;
    size_t size;
    memory_entry *entries;
    size_t entry_count;
} memory_content;

typedef struct memory_node {
    bool directory;
    memory_content now;     /* what calls see */
    memory_content durable; /* what a power cut leaves for certain */
    memory_write *writes;
    size_t write_count;
    memory_change *changes;
    size_t change_count;
} memory_node;

typedef struct memory_store {
    bp_store store;
    memory_node *nodes; /* node 0 is the root */
    size_t node_count;
    size_t open_files;    /* to see that every file is closed */
    size_t changes_made;  /* calls so far that change something, syncs included */
    size_t changes_until; /* power fails when changes_made reaches it */
    uint64_t free_bytes;  /* what free_bytes answers */
} memory_store;

/* An empty store with endless power. Ends the test program when memory runs out. */
void memory_store_init(memory_store *memory);
void memory_store_free(memory_store *memory);

/* What is on the medium after the power failed, as the seed decides: of the writes and directory
 * changes that were not synced some are there, some are lost, later ones without earlier ones, and
 * writes may be torn. Seed 0 loses all, seed 1 loses none. Power is back afterwards. */
void memory_store_power_cut(memory_store *memory, uint64_t seed);

/* A file's content for tests to look at or to damage; NULL when there is none. */
unsigned char *memory_store_bytes(memory_store *memory, const char *path, size_t *size);

/* Creates or replaces a file. */
void memory_store_put(memory_store *memory, const char *path, const void *bytes, size_t size);

#endif
