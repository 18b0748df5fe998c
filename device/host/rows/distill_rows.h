/* SPDX-License-Identifier: MIT */
/* Rows of the loss against a label and a teacher: the loops that have forms, and what goes around
 * them, which has none. */
#ifndef BP_DEVICE_HOST_DISTILL_ROWS_H
#define BP_DEVICE_HOST_DISTILL_ROWS_H

#include "core/ir/step.h"
#include "device/host/vector/element.h"

/* What the gradient of a row is made with: exp(x - most) * label + exp((x - most) / T) * teacher.
 */
typedef struct bp_distill_factors {
    float most;
    float label;
    float teacher;
} bp_distill_factors;

/* Over a row of elements of the build's type: the largest; the sums of exp(x - most) and of exp((x
 * - most) inverse), in lanes; and x = exp(x - most) label + exp((x - most) inverse) teacher. */
typedef struct bp_distill_loops {
    float (*most)(const bp_element *x, uint64_t count);
    void (*sums)(const bp_element *x, uint64_t count, float most, float inverse, float sums[2]);
    void (*slopes)(bp_element *x, uint64_t count, const bp_distill_factors *row, float inverse);
} bp_distill_loops;

/* Tasks first .. last - 1, a row each, of distill and of distill_columns. */
void BP_BUILT(bp_distill_whole)(const bp_host_call *call, uint64_t first, uint64_t last,
                                const bp_distill_loops *loops);
void BP_BUILT(bp_distill_part)(const bp_host_call *call, uint64_t first, uint64_t last,
                               const bp_distill_loops *loops);

/* Defines a form's kernels of its `loops`. */
#define BP_DISTILL_KERNELS(loops, whole, part)                                                     \
    static uint64_t distill_tasks(const void *scalars)                                             \
    {                                                                                              \
        return (uint64_t)((const bp_distill_scalars *)scalars)->rows;                              \
    }                                                                                              \
    static void distill_run(const bp_host_call *call, uint64_t first, uint64_t last,               \
                            uint32_t worker)                                                       \
    {                                                                                              \
        (void)worker;                                                                              \
        BP_BUILT(bp_distill_whole)(call, first, last, &loops);                                     \
    }                                                                                              \
    static uint64_t distill_columns_tasks(const void *scalars)                                     \
    {                                                                                              \
        return (uint64_t)((const bp_distill_columns_scalars *)scalars)->rows;                      \
    }                                                                                              \
    static void distill_columns_run(const bp_host_call *call, uint64_t first, uint64_t last,       \
                                    uint32_t worker)                                               \
    {                                                                                              \
        (void)worker;                                                                              \
        BP_BUILT(bp_distill_part)(call, first, last, &loops);                                      \
    }                                                                                              \
    const bp_host_kernel BP_BUILT(whole) = {distill_tasks, distill_run, NULL};                     \
    const bp_host_kernel BP_BUILT(part) = {distill_columns_tasks, distill_columns_run, NULL};

#endif
