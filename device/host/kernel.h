/* SPDX-License-Identifier: MIT */
/* How a kernel of the host device is called, and the tables of forms.
 *
 * A kernel's work is cut into tasks. The cut and every order of addition depend on the scalars
 * only, so neither the number of workers nor the form changes a bit of the result: the NEON,
 * AVX2 and AVX-512 forms compute exactly what the portable form, the specification, computes. Sums
 * along a row are kept in 16 lanes (element i goes to lane i mod 16), then lanes are added pairwise
 * at distance 8, 4, 2, 1; a matrix product adds its k terms to each element one by one, in order,
 * by fused multiply-add. */
#ifndef BP_DEVICE_HOST_KERNEL_H
#define BP_DEVICE_HOST_KERNEL_H

#include "core/ir/device.h"

typedef struct bp_host_check bp_host_check; /* matmul/matmul_check.h */

/* One tuple of a linked op, as addresses. */
typedef struct bp_host_call {
    const void *pointers;                    /* bp_<kernel>_pointers */
    const void *scalars;                     /* bp_<kernel>_scalars */
    const uint8_t *dtypes;                   /* one bp_dtype per operand */
    const struct bp_host_epilogue *epilogue; /* NULL: nothing follows; only fast products take it */
    const bp_host_check *check;              /* NULL: nothing is checked; likewise */
} bp_host_call;

/* A matmul of low rank that is added to what a product writes (join.h). */
typedef struct bp_host_epilogue {
    bp_host_call call;
    void *work;     /* the workspace that the product then has instead of its own, */
    uint64_t bytes; /* and its bytes per worker */
    const bp_host_call
        *low_rank; /* the matmul that makes its a from the product's; NULL: another */
    float factor;  /* which that is multiplied by at its end */
} bp_host_epilogue;

struct bp_host_kernel {
    /* Number of independent tasks of this call; a function of the scalars only. */
    uint64_t (*tasks)(const void *scalars);
    /* Does tasks first .. last-1. Workers run disjoint ranges at the same time; `worker` picks the
     * caller's own part of the workspace. */
    void (*run)(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker);
    /* Bytes of workspace per worker for these scalars and element types (NULL: all f32); NULL:
     * this form has no use for one. */
    uint64_t (*workspace)(const void *scalars, const uint8_t *dtypes);
};

/* The working types (BP_TYPE_ANY of kernels.def) that kernels are built for: bp_dtype's first
 * three.
 */
#define BP_HOST_ELEMENTS 3

/* bp_four_blocks (core/ops/quantised.h) in a form's way. */
typedef void bp_host_codes(int64_t form, const float *values, uint64_t blocks, float *scales,
                           uint8_t *codes);

/* bp_word_sum (core/base/digest.h) over whole words in a form's way. */
typedef uint64_t bp_host_words(const void *bytes, size_t words, uint64_t from);

/* bp_random_normals (core/base/random.h) in a form's way. */
typedef void bp_host_normals(uint64_t seed, uint32_t stream, uint64_t first, uint64_t count,
                             double deviation, float *to);

/* One form of all kernels, by working type. Rows that are NULL fall back to the next slower form;
 * rows without a working type are f32's. */
typedef struct bp_host_isa {
    const char *name; /* "portable", "neon", "avx2", "avx512" */
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    bp_host_codes *codes;     /* or NULL, likewise */
    bp_host_words *words;     /* or NULL: bp_word_sum */
    bp_host_normals *normals; /* or NULL: bp_random_normals */
} bp_host_isa;

extern const bp_host_isa bp_host_portable;

#endif
