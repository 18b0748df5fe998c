/* SPDX-License-Identifier: MIT */
/* A product with a quantised b, read as a plain one: all but b is the same. */
#ifndef BP_DEVICE_HOST_MATMUL_QUANTISED_H
#define BP_DEVICE_HOST_MATMUL_QUANTISED_H

#include "core/ops/kernel.h"
#include "core/ops/quantised.h"
#include "device/host/kernel.h"

/* ldb is the width of b, which has no padding. */
static inline bp_matmul_scalars bp_matmul_as_plain(const void *scalars)
{
    const bp_matmul_quantised_scalars *s = scalars;
    return (bp_matmul_scalars){.m = s->m,
                               .n = s->n,
                               .k = s->k,
                               .lda = s->lda,
                               .ldb = s->transpose_b != 0 ? s->k : s->n,
                               .ldc = s->ldc,
                               .transpose_b = s->transpose_b,
                               .accumulate = s->accumulate,
                               .gelu = s->gelu};
}

static inline bp_matmul_pointers bp_matmul_plain_pointers(const bp_matmul_quantised_pointers *p)
{
    return (bp_matmul_pointers){.c = p->c,
                                .before = p->before,
                                .a = p->a,
                                .bias = p->bias,
                                .residual = p->residual,
                                .work = p->work};
}

/* Columns columns[0] to before columns[1] of a product whose b is in codes, in the portable form;
 * the scalars and pointers are matmul's, without b. */
void bp_matmul_coded(const bp_host_call *call, const bp_quantised_matrix *codes,
                     const int64_t columns[2]);

static inline bp_quantised_matrix bp_matmul_weights(const bp_host_call *call)
{
    const bp_matmul_quantised_scalars *s = call->scalars;
    const bp_matmul_quantised_pointers *p = call->pointers;
    return (bp_quantised_matrix){.form = s->form,
                                 .columns = (uint64_t)(s->transpose_b != 0 ? s->k : s->n),
                                 .codes = p->codes,
                                 .scales = p->scales,
                                 .nested = p->nested};
}

#endif
