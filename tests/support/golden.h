/* SPDX-License-Identifier: MIT */
/* Reads the small safetensors files of reference data, with jansson for their headers. */
#ifndef BP_TESTS_SUPPORT_GOLDEN_H
#define BP_TESTS_SUPPORT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct golden {
    uint8_t *bytes; /* the file */
    size_t data;    /* offset of the first data byte */
    void *header;   /* parsed */
} golden;

/* Reads a file; fails the test when it cannot. */
void golden_open(golden *g, const char *path);
void golden_close(golden *g);

/* Whether the file holds a tensor of that name. */
bool golden_has(const golden *g, const char *name);

/* A tensor as it lies in the file, in new memory that the caller frees, and its bytes. Fails the
 * test when there is none of that name. */
void *golden_tensor(const golden *g, const char *name, size_t *bytes);

#endif
