/* SPDX-License-Identifier: MIT */
/* Tensors that tests make, and safetensors files of them. */
#ifndef BP_TESTS_SUPPORT_TENSORS_MADE_H
#define BP_TESTS_SUPPORT_TENSORS_MADE_H

#include "core/file/safetensors.h"

enum { MADE_MAX = 96 };

typedef struct made_tensor {
    char name[96];
    bp_dtype dtype;
    uint32_t rank;
    uint64_t shape[4];
    unsigned char *bytes;
} made_tensor;

typedef struct made_tensors {
    made_tensor list[MADE_MAX];
    size_t count;
} made_tensors;

/* Adds a tensor of zeros. */
made_tensor *made_add(made_tensors *made, const char *name, bp_dtype dtype, uint32_t rank,
                      const uint64_t *shape);

/* A tensor whose element i is made_value(seed, i), a small number that every float type holds
 * exactly. */
made_tensor *made_add_values(made_tensors *made, const char *name, bp_dtype dtype, uint32_t rank,
                             const uint64_t *shape, size_t seed);
float made_value(size_t seed, size_t i);

/* Takes the tensor of a name away again; fails the test when there is none. */
void made_drop(made_tensors *made, const char *name);

uint64_t made_elements(const made_tensor *tensor);

/* Writes tensors [first, first + count) as a safetensors file, with or without their digests. */
void made_write(made_tensors *made, size_t first, size_t count, bp_store *store, const char *path);
void made_write_digests(made_tensors *made, size_t first, size_t count, bp_store *store,
                        const char *path, bool digests);

void made_free(made_tensors *made);

#endif
