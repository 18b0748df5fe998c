/* SPDX-License-Identifier: MIT */
/* What training a tensor contributes, as a checkpoint of a short run has measured it. */
#ifndef BP_BEDPLATE_SPARSE_MEASURED_H
#define BP_BEDPLATE_SPARSE_MEASURED_H

#include "core/base/safetensors.h"

/* A checkpoint's state.safetensors, open; a plain record. */
typedef struct sparse_measured {
    bp_safetensors file;
    void *scratch;
    char path[BP_STORE_PATH_MAX];
    bool open;
} sparse_measured;

/* Opens the state of a checkpoint's directory, of a run with Adam's second moments in fp32. Close
 * it in any case. *error must outlive it. */
bp_status sparse_measured_open(sparse_measured *m, bp_store *store, const char *checkpoint,
                               bp_error *error) BP_MUST_CHECK;

/* The sum of the second moments ("exp_avg_sq") over each of `rows` rows of a tensor: what a step of
 * gradient descent on that row would gain, to first order, up to a factor that all rows share.
 * BP_ERR_DATA, naming the tensor, where the checkpoint has none of its shape. */
bp_status sparse_measured_rows(sparse_measured *m, const char *name, uint64_t rows, uint64_t width,
                               double *sums, bp_error *error) BP_MUST_CHECK;

/* The first of `count` rows that lie together and have the largest sum, of equal ones the first. */
uint64_t sparse_measured_window(const double *sums, uint64_t rows, uint64_t count);

void sparse_measured_close(sparse_measured *m);

#endif
