/* SPDX-License-Identifier: MIT */
/* Reference files of the repository, for tests that work in a store in memory. */
#ifndef BP_TESTS_SUPPORT_DISK_FILE_H
#define BP_TESTS_SUPPORT_DISK_FILE_H

#include "tests/support/store_memory.h"

/* A whole file in new memory that the caller frees; fails the test when it cannot be read. */
unsigned char *disk_file_read(const char *path, size_t *size);

/* Copies it into the store under another name. */
void disk_file_put(memory_store *memory, const char *path, const char *name);

/* Fails the test unless the store's file has exactly the bytes of the file on disk. */
void disk_file_compare(memory_store *memory, const char *name, const char *path);

#endif
