/* SPDX-License-Identifier: MIT */
/* Products of rows in order of their experts, and the portable form of them. */
#include "device/host/matmul/matmul_experts.h"

#include "device/host/matmul/matmul_quantised.h"
#include "device/host/rows/route_order.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

#include <string.h>

extern const bp_host_kernel bp_host_matmul;

/* Sides of `whole` things: a task's is `side`, of which task number `task` has `count` from `first`
 * on. */
typedef struct experts_part {
    int64_t expert;
    int64_t first;
    int64_t count;
} experts_part;

static experts_part part_of(uint64_t task, int64_t whole)
{
    const uint64_t parts = bp_cut(whole, BP_EXPERTS_SIDE);
    const int64_t first = (int64_t)(task % parts) * BP_EXPERTS_SIDE;
    const int64_t left = whole - first;
    return (experts_part){(int64_t)(task / parts), first,
                          left < BP_EXPERTS_SIDE ? left : BP_EXPERTS_SIDE};
}

/* Element i of an operand that is written. */
static void *write_at(void *x, int64_t i, bp_dtype type)
{
    return x == NULL ? NULL : (char *)x + i * (int64_t)bp_dtype_bytes(type);
}

static void *work_at(void *work, uint64_t bytes, uint32_t worker)
{
    return work == NULL ? NULL : (char *)work + worker * bytes;
}

uint64_t bp_experts_tasks(const void *scalars)
{
    const bp_matmul_experts_scalars *s = scalars;
    return (uint64_t)s->experts * bp_cut(s->n, BP_EXPERTS_SIDE);
}

/* A task is an expert's rows, and some columns of c. */
void bp_experts_run(bp_experts_product *product, const bp_host_call *call, uint64_t bytes,
                    const uint64_t tasks[2], uint32_t worker)
{
    const bp_matmul_experts_scalars *s = call->scalars;
    const bp_matmul_experts_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const bp_dtype type = bp_call_type(call, 0);
    uint8_t types[BP_OPERANDS_MAX];
    memset(types, (int)type, sizeof types);
    for (uint64_t task = tasks[0]; task < tasks[1]; task++) {
        const experts_part part = part_of(task, s->n);
        const int64_t row = route.begins[part.expert];
        const int64_t rows = route.begins[part.expert + 1] - row, at = row * s->n + part.first;
        const int64_t column = s->transpose_b != 0 ? part.first * s->k : part.first;
        const bp_matmul_scalars one = {.m = rows,
                                       .n = part.count,
                                       .k = s->k,
                                       .lda = s->k,
                                       .ldb = s->transpose_b != 0 ? s->k : s->n,
                                       .ldc = s->n,
                                       .transpose_b = s->transpose_b};
        const bp_matmul_pointers of = {
            .c = write_at(p->c, at, type),
            .a = bp_element_at(p->a, row * s->k, type),
            .b = bp_element_at(p->b, part.expert * s->n * s->k + column, type),
            .residual = p->residual == NULL ? NULL : bp_element_at(p->residual, at, type),
            .work = work_at(p->work, bytes, worker)};
        const bp_host_call run = {.pointers = &of, .scalars = &one, .dtypes = types};
        if (rows > 0) {
            product(&run, bytes);
        }
    }
}

uint64_t bp_experts_quantised_tasks(const void *scalars)
{
    const bp_matmul_experts_quantised_scalars *s = scalars;
    return (uint64_t)s->experts * bp_cut(s->n, BP_EXPERTS_SIDE);
}

/* The codes of one expert's matrix. */
static bp_quantised_matrix codes_of(const bp_host_call *call, int64_t expert)
{
    const bp_matmul_experts_quantised_scalars *s = call->scalars;
    const bp_matmul_experts_quantised_pointers *p = call->pointers;
    const uint64_t count = (uint64_t)s->n * (uint64_t)s->k, e = (uint64_t)expert;
    const uint64_t rows = (uint64_t)(s->transpose_b != 0 ? s->n : s->k);
    const uint8_t *codes = p->codes, *scales = p->scales;
    const float *nested = p->nested;
    return (bp_quantised_matrix){
        .form = s->form,
        .columns = (uint64_t)(s->transpose_b != 0 ? s->k : s->n),
        .codes = codes + e * bp_quantised_codes(count, s->form),
        .scales = scales != NULL ? scales + e * bp_quantised_scales(rows, count, s->form) : NULL,
        .nested = nested != NULL ? nested + e * bp_quantised_nested(count, s->form) : NULL};
}

/* Likewise; the columns are of the whole matrix, whose blocks need not end with a task's. */
void bp_experts_quantised_run(bp_experts_coded *product, const bp_host_call *call, uint64_t bytes,
                              const uint64_t tasks[2], uint32_t worker)
{
    const bp_matmul_experts_quantised_scalars *s = call->scalars;
    const bp_matmul_experts_quantised_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const bp_dtype type = bp_call_type(call, 0);
    uint8_t types[BP_OPERANDS_MAX];
    memset(types, (int)type, sizeof types);
    for (uint64_t task = tasks[0]; task < tasks[1]; task++) {
        const experts_part part = part_of(task, s->n);
        const int64_t columns[2] = {part.first, part.first + part.count};
        const int64_t row = route.begins[part.expert];
        const bp_quantised_matrix codes = codes_of(call, part.expert);
        const bp_matmul_scalars one = {.m = route.begins[part.expert + 1] - row,
                                       .n = s->n,
                                       .k = s->k,
                                       .lda = s->k,
                                       .ldb = s->transpose_b != 0 ? s->k : s->n,
                                       .ldc = s->n,
                                       .transpose_b = s->transpose_b};
        const bp_matmul_pointers of = {
            .c = write_at(p->c, row * s->n, type),
            .a = bp_element_at(p->a, row * s->k, type),
            .residual = p->residual == NULL ? NULL : bp_element_at(p->residual, row * s->n, type),
            .work = work_at(p->work, bytes, worker)};
        const bp_host_call run = {.pointers = &of, .scalars = &one, .dtypes = types};
        if (one.m > 0) {
            product(&run, &codes, columns, bytes);
        }
    }
}

uint64_t bp_experts_sums_tasks(const void *scalars)
{
    const bp_matmul_experts_sums_scalars *s = scalars;
    return (uint64_t)s->experts * bp_cut(s->m, BP_EXPERTS_SIDE);
}

/* A task is an expert, and some rows of its sums. */
void bp_experts_sums_run(bp_experts_product *product, const bp_host_call *call, uint64_t bytes,
                         const uint64_t tasks[2], uint32_t worker)
{
    const bp_matmul_experts_sums_scalars *s = call->scalars;
    const bp_matmul_experts_sums_pointers *p = call->pointers;
    const bp_route route = bp_route_of(p->order, s->rows, s->top, s->experts);
    const bp_dtype type = bp_call_type(call, 1), c_type = bp_call_type(call, 0);
    uint8_t types[BP_OPERANDS_MAX];
    memset(types, (int)type, sizeof types);
    types[0] = (uint8_t)c_type;
    for (uint64_t task = tasks[0]; task < tasks[1]; task++) {
        const experts_part part = part_of(task, s->m);
        const int64_t row = route.begins[part.expert];
        const int64_t rows = route.begins[part.expert + 1] - row;
        void *c = write_at(p->c, (part.expert * s->m + part.first) * s->n, c_type);
        const bp_matmul_scalars one = {.m = part.count,
                                       .n = s->n,
                                       .k = rows,
                                       .lda = s->m,
                                       .ldb = s->n,
                                       .ldc = s->n,
                                       .transpose_a = 1,
                                       .accumulate = s->accumulate};
        const bp_matmul_pointers of = {.c = c,
                                       .a = bp_element_at(p->a, row * s->m + part.first, type),
                                       .b = bp_element_at(p->b, row * s->n, type),
                                       .work = work_at(p->work, bytes, worker)};
        const bp_host_call run = {.pointers = &of, .scalars = &one, .dtypes = types};
        if (rows > 0) {
            product(&run, bytes);
        } else if (s->accumulate == 0) {
            memset(c, 0, (size_t)(part.count * s->n) * bp_dtype_bytes(c_type));
        }
    }
}

static void portable_product(const bp_host_call *call, uint64_t bytes)
{
    (void)bytes;
    bp_host_matmul.run(call, 0, bp_host_matmul.tasks(call->scalars), 0);
}

static void experts_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    const uint64_t tasks[2] = {first, last};
    bp_experts_run(portable_product, call, 0, tasks, worker);
}

static void portable_coded(const bp_host_call *call, const bp_quantised_matrix *codes,
                           const int64_t columns[2], uint64_t bytes)
{
    (void)bytes;
    bp_matmul_coded(call, codes, columns);
}

static void experts_quantised_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                  uint32_t worker)
{
    const uint64_t tasks[2] = {first, last};
    bp_experts_quantised_run(portable_coded, call, 0, tasks, worker);
}

static void experts_sums_run(const bp_host_call *call, uint64_t first, uint64_t last,
                             uint32_t worker)
{
    const uint64_t tasks[2] = {first, last};
    bp_experts_sums_run(portable_product, call, 0, tasks, worker);
}

const bp_host_kernel bp_host_matmul_experts = {bp_experts_tasks, experts_run, NULL};
const bp_host_kernel bp_host_matmul_experts_quantised = {bp_experts_quantised_tasks,
                                                         experts_quantised_run, NULL};
const bp_host_kernel bp_host_matmul_experts_sums = {bp_experts_sums_tasks, experts_sums_run, NULL};
