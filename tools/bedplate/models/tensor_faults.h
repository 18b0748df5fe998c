/* SPDX-License-Identifier: MIT */
/* Telling which tensors of a file do not go with a model. */
#ifndef BP_BEDPLATE_TENSOR_FAULTS_H
#define BP_BEDPLATE_TENSOR_FAULTS_H

#include "tools/formats/hf/tensor_match.h"

typedef struct tensor_faults {
    const char *path; /* of the file */
    uint32_t refused; /* faults printed that were not allowed */
} tensor_faults;

/* A bp_tensor_watch whose user is a tensor_faults: prints each fault with what was found and what
 * would be right. */
void tensor_faults_print(void *user, const bp_tensor_finding *finding);

/* After the faults have been printed, an error that named the first of them again says that they
 * are above. */
void tensor_faults_end(const tensor_faults *faults, bp_error *error);

#endif
