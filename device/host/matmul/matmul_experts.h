/* SPDX-License-Identifier: MIT */
/* Products of rows that lie in order of their experts: each run of rows is a matmul of a form. */
#ifndef BP_DEVICE_HOST_MATMUL_EXPERTS_H
#define BP_DEVICE_HOST_MATMUL_EXPERTS_H

#include "core/ops/quantised.h"
#include "device/host/kernel.h"

/* A whole matmul by one worker, in the work of its pointers, so many bytes of it; NULL: none. */
typedef void bp_experts_product(const bp_host_call *call, uint64_t bytes);

/* The same of columns `columns[0]` to before `columns[1]` of c, with a b in codes: its pointers
 * have none. */
typedef void bp_experts_coded(const bp_host_call *call, const bp_quantised_matrix *codes,
                              const int64_t columns[2], uint64_t bytes);

/* bp_host_kernel's tasks of the rows. */
uint64_t bp_experts_tasks(const void *scalars);
uint64_t bp_experts_quantised_tasks(const void *scalars);
uint64_t bp_experts_sums_tasks(const void *scalars);

/* Tasks first .. last - 1 by such a product. */
void bp_experts_run(bp_experts_product *product, const bp_host_call *call, uint64_t bytes,
                    const uint64_t tasks[2], uint32_t worker);
void bp_experts_quantised_run(bp_experts_coded *product, const bp_host_call *call, uint64_t bytes,
                              const uint64_t tasks[2], uint32_t worker);
void bp_experts_sums_run(bp_experts_product *product, const bp_host_call *call, uint64_t bytes,
                         const uint64_t tasks[2], uint32_t worker);

/* Of the fast forms: bytes of workspace per worker, with room for a run of any length. */
uint64_t bp_experts_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_experts_quantised_workspace(const void *scalars, const uint8_t *dtypes);
uint64_t bp_experts_sums_workspace(const void *scalars, const uint8_t *dtypes);

/* Columns of c, or rows of a sum, that a task computes. */
#define BP_EXPERTS_SIDE 256

/* The kernels of a form, from its products. */
#define BP_EXPERTS_KERNELS(form, product, coded)                                                   \
    static void experts_run(const bp_host_call *call, uint64_t first, uint64_t last,               \
                            uint32_t worker)                                                       \
    {                                                                                              \
        const uint64_t tasks[2] = {first, last};                                                   \
        bp_experts_run(product, call, bp_experts_workspace(call->scalars, call->dtypes), tasks,    \
                       worker);                                                                    \
    }                                                                                              \
    static void experts_quantised_run(const bp_host_call *call, uint64_t first, uint64_t last,     \
                                      uint32_t worker)                                             \
    {                                                                                              \
        const uint64_t tasks[2] = {first, last};                                                   \
        bp_experts_quantised_run(coded, call,                                                      \
                                 bp_experts_quantised_workspace(call->scalars, call->dtypes),      \
                                 tasks, worker);                                                   \
    }                                                                                              \
    static void experts_sums_run(const bp_host_call *call, uint64_t first, uint64_t last,          \
                                 uint32_t worker)                                                  \
    {                                                                                              \
        const uint64_t tasks[2] = {first, last};                                                   \
        bp_experts_sums_run(product, call, bp_experts_sums_workspace(call->scalars, call->dtypes), \
                            tasks, worker);                                                        \
    }                                                                                              \
    const bp_host_kernel bp_matmul_experts_##form = {bp_experts_tasks, experts_run,                \
                                                     bp_experts_workspace};                        \
    const bp_host_kernel bp_matmul_experts_quantised_##form = {                                    \
        bp_experts_quantised_tasks, experts_quantised_run, bp_experts_quantised_workspace};        \
    const bp_host_kernel bp_matmul_experts_sums_##form = {bp_experts_sums_tasks, experts_sums_run, \
                                                          bp_experts_sums_workspace};

#endif
