/* SPDX-License-Identifier: MIT */
/* How a launch is put together; shared by the files that plan one kind of kernel each. */
#ifndef BP_DEVICE_CUDA_PLAN_H
#define BP_DEVICE_CUDA_PLAN_H

#include "core/base/random.h"
#include "device/cuda/launch.h"
#include "device/cuda/ptx_table.h"

/* What a planning function works with. */
typedef struct bp_cuda_plan {
    const bp_cuda_target *target;
    const bp_linked_op *op;
    bp_dtype dtype;           /* its working type */
    bp_cuda_launch *launch;   /* where the next one goes */
    uint32_t count;           /* launches so far */
    bool unsupported;         /* no kernel serves these types */
    const bp_linked_op *next; /* the op behind it; NULL: none, or it is not to be looked at */
    bool both;                /* the launches make that one, too */
} bp_cuda_plan;

/* Plans the launches of one op; false when its shapes have no kernel. */
typedef bool bp_cuda_planner(bp_cuda_plan *plan);

/* Those of the rows; `nothing` is that of ops that are no kernels: link.c makes other records of
 * them. */
#define LAUNCH(name, plan) bp_cuda_planner bp_cuda_plan_##plan;
#include "core/ops/kernels.def"

/* Why a product, or attention, of 16-bit elements is none for Hopper's own kernels; NULL: it is. */
const char *bp_cuda_matmul_misses(const bp_cuda_plan *plan);
const char *bp_cuda_quantised_misses(const bp_cuda_plan *plan);
const char *bp_cuda_attention_misses(const bp_cuda_plan *plan);

uint64_t bp_cuda_matmul_workspace(const bp_cuda_target *target, const bp_matmul_scalars *s);
uint64_t bp_cuda_quantised_workspace(const bp_cuda_target *target,
                                     const bp_matmul_quantised_scalars *s);
uint64_t bp_cuda_fp8_workspace(const bp_cuda_target *target, const bp_matmul_fp8_scalars *s);

/* Starts a launch of blocks_x x blocks_y blocks; false, and nothing is added, when that is none, or
 * more than a grid may have (plan->unsupported then). */
bool bp_cuda_begin(bp_cuda_plan *plan, bp_cuda_family family, uint32_t function, uint64_t blocks_x,
                   uint64_t blocks_y, uint32_t threads);

/* Parameters of the launch just begun, in order. */
void bp_cuda_operand(bp_cuda_plan *plan, uint32_t operand, bp_access access);
void bp_cuda_place(bp_cuda_plan *plan, bp_cuda_parameter_kind kind, bp_access access);
void bp_cuda_word64(bp_cuda_plan *plan, uint64_t value);
void bp_cuda_word32(bp_cuda_plan *plan, uint32_t value);
/* A structure by value, of at most BP_CUDA_VALUE_BYTES bytes, at most BP_CUDA_VALUES_MAX of them.
 */
void bp_cuda_value_of(bp_cuda_plan *plan, const void *content, size_t bytes, size_t alignment);
/* The tensor map of an operand that the launch reads. */
void bp_cuda_map_of(bp_cuda_plan *plan, uint32_t operand, const bp_cuda_map *map);
void bp_cuda_single(bp_cuda_plan *plan, float value);
void bp_cuda_double(bp_cuda_plan *plan, double value);
/* site, threshold and factor of dropout p. */
void bp_cuda_dropout(bp_cuda_plan *plan, int64_t site, double p);

/* Whether all present operands of `mask` (bit i: operand i) start at multiples of 16 bytes and
 * `pitch` (elements) keeps rows at multiples of `elements`. */
bool bp_cuda_wide(const bp_cuda_plan *plan, uint32_t mask, uint64_t pitch, uint64_t elements);

/* The form of operands of the working type, or of operand `operand` with its own type, as
 * device/cuda/kernels/element.cuh reads it: the bp_dtype, and whether bp_cuda_wide(mask, pitch, 4).
 */
#define BP_CUDA_WIDTH_WIDE 4u
uint32_t bp_cuda_width(const bp_cuda_plan *plan, uint32_t mask, uint64_t pitch);
uint32_t bp_cuda_width_of(const bp_cuda_plan *plan, uint32_t operand, uint32_t mask,
                          uint64_t pitch);

#define BP_CUDA_POSITION(kernel, name)                                                             \
    (uint32_t)(offsetof(bp_##kernel##_operands, name) / sizeof(bp_ref))
#define BP_CUDA_BIT(kernel, name) (UINT32_C(1) << BP_CUDA_POSITION(kernel, name))

/* Adds operand `name` of a kernel's row. */
#define BP_CUDA_OPERAND_OF(plan, kernel, name, access)                                             \
    bp_cuda_operand(plan, BP_CUDA_POSITION(kernel, name), access)

static inline uint64_t bp_cuda_cut(int64_t count, uint64_t size)
{
    return ((uint64_t)count + size - 1) / size;
}

#endif
