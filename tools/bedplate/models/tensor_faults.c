/* SPDX-License-Identifier: MIT */
/* Telling which tensors of a file do not go with a model. */
#include "tools/bedplate/models/tensor_faults.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/dtype.h"
#include "tools/bedplate/app/output.h"

static void print_shape(const uint64_t *shape, uint32_t rank)
{
    output_print(stderr, "[");
    for (uint32_t i = 0; i < rank; i++) {
        output_print(stderr, "%s%" PRIu64, i > 0 ? ", " : "", shape[i]);
    }
    output_print(stderr, "]");
}

/* Shapes as the file has them: a parameter that is kept the other way round is turned back. */
static void print_right(const bp_tensor_finding *finding)
{
    const bp_wanted *wanted = finding->wanted;
    const uint64_t turned[2] = {wanted->shape[1], wanted->shape[0]};
    print_shape(finding->transposed ? turned : wanted->shape, wanted->rank);
}

void tensor_faults_print(void *user, const bp_tensor_finding *finding)
{
    tensor_faults *faults = user;
    output_print(stderr, "bedplate: %s: %s: %s", faults->path, finding->tensor,
                 bp_tensor_fault_text(finding->fault));
    if (finding->fault == BP_TENSOR_SHAPE && finding->entry != NULL && finding->wanted != NULL) {
        output_print(stderr, ": found ");
        print_shape(finding->entry->shape, finding->entry->rank);
        output_print(stderr, ", expected ");
        print_right(finding);
    }
    if (finding->fault == BP_TENSOR_DTYPE && finding->entry != NULL) {
        output_print(stderr, ": found %s", bp_dtype_name(finding->entry->dtype));
    }
    output_print(stderr, finding->allowed ? " (allowed)\n" : "\n");
    faults->refused += finding->allowed ? 0 : 1;
}

void tensor_faults_end(const tensor_faults *faults, bp_error *error)
{
    if (faults->refused == 0 || error->code != BP_ERR_DATA) {
        return;
    }
    *error = (bp_error){.code = BP_OK};
    bp_status status =
        bp_error_set(error, BP_ERR_DATA, "weights",
                     "the tensors named above do not go with the model", faults->path);
    (void)status; /* the caller has it */
}
