/* SPDX-License-Identifier: MIT */
/* The geometry of the CUDA device: which kernel of which PTX module an op becomes, its grid, its
 * clusters, its parameters, its workspace and its table. Pure functions of the op and the target:
 * nothing here looks at the machine, so a plan is exact without a GPU.
 *
 * Every kernel does nothing when all of its parameters are zero, so that each can be launched once
 * (one block of 32 threads, no dynamic shared memory) before the seal. */
#ifndef BP_DEVICE_CUDA_LAUNCH_H
#define BP_DEVICE_CUDA_LAUNCH_H

#include "core/ir/device.h"

#define BP_CUDA_LAUNCHES_MAX   5  /* most launches of one op */
#define BP_CUDA_PARAMETERS_MAX 24 /* most parameters of one kernel */
#define BP_CUDA_VALUES_MAX     3  /* most parameters of one kernel that are blocks of bytes */
#define BP_CUDA_VALUE_BYTES    128
#define BP_CUDA_UNSUPPORTED    UINT32_MAX
#define BP_CUDA_BLOCKS_X_MOST  INT32_MAX /* of a grid, on every GPU */
#define BP_CUDA_BLOCKS_Y_MOST  65535
#define BP_CUDA_SHARED_LEAST   (99 * 1024) /* a block's shared memory on every target, opted in */
#define BP_CUDA_SHARED_PLAIN   (48 * 1024) /* above this a function must opt in */

/* What launches are planned for. */
typedef struct bp_cuda_target {
    uint32_t capability; /* 80, 86, 89, 90, 100, 120: of the target, not of the machine found */
    bool hopper;         /* may use the sm_90a modules */
    bool tf32;           /* fp32 products may round their inputs to TF32 */
    bool dequantizes;    /* bp_device_options */
    uint32_t
        shared_limit; /* bytes of shared memory a block may opt in to, >= BP_CUDA_SHARED_LEAST */
    uint64_t refused; /* bit i: the driver does not take module i, and another text serves; 0 until
                         linking finds one */
    uint32_t multiprocessors; /* of the GPU that was opened; 0: HOPPER_BLOCKS. How many blocks take
                                 tiles in turn follows it, no bit does */
    uint32_t tile;            /* for who measures or tests: products on Hopper in tile i - 1 of
                                 hopper_tiles.h; 0: in the one that takes fewest clocks */
} bp_cuda_target;

typedef enum bp_cuda_parameter_kind {
    BP_CUDA_OPERAND, /* 8 bytes: address of operand `operand` of tuple 0, plus `value` bytes; an
                        absent operand is the BP_CUDA_WORD64 0, a null address */
    BP_CUDA_BASE,    /* 8 bytes: address of the arena; the op's table holds offsets from it */
    BP_CUDA_TABLE,   /* 8 bytes: address of the op's table */
    BP_CUDA_WORD64,  /* 8 bytes: `value` (an integer, or the bits of a double) */
    BP_CUDA_WORD32,  /* 4 bytes: the low half of `value` (an integer, or the bits of a float) */
    BP_CUDA_VALUE,   /* the bytes of number `value` of the launch's blocks of bytes */
    BP_CUDA_MAP /* BP_CUDA_MAP_BYTES, aligned to as many: the tensor map of operand `operand` of
                   tuple 0, which block of bytes number `value`, a bp_cuda_map, describes */
} bp_cuda_parameter_kind;

#define BP_CUDA_MAP_BYTES 128

/* A matrix of 16-bit elements or codes, or several alike, and the box of it that one copy brings,
 * in the pattern of 128 bytes, zeros where the matrix ends. Elements, the direction in which they
 * follow one another first. */
typedef struct bp_cuda_map {
    uint64_t extents[3];
    uint64_t pitch[2]; /* bytes to the next line and matrix, multiples of 16 */
    uint32_t box[3];
    uint32_t directions; /* 2 or 3 */
    uint32_t dtype;      /* BP_BF16, BP_F16 or BP_U8 */
    uint64_t offset;     /* bytes from the operand's start: a multiple of 16 */
} bp_cuda_map;

/* A parameter that is a structure, passed by value: scalars that belong together; or what a tensor
 * map is made from. */
typedef struct bp_cuda_value {
    uint16_t bytes;     /* 1 .. BP_CUDA_VALUE_BYTES */
    uint16_t alignment; /* a power of two, at most BP_CUDA_VALUE_BYTES */
    unsigned char content[BP_CUDA_VALUE_BYTES];
} bp_cuda_value;

/* One parameter; among the bytes of all parameters each lies at the next multiple of its own size,
 * a BP_CUDA_VALUE at the next multiple of its alignment, a BP_CUDA_MAP at one of its size. */
typedef struct bp_cuda_parameter {
    uint8_t kind;    /* bp_cuda_parameter_kind */
    uint8_t operand; /* BP_CUDA_OPERAND: position in kernels.def's row */
    uint8_t access;  /* bp_access: what this launch does to the operand, within its extent */
    uint64_t value;
} bp_cuda_parameter;

typedef struct bp_cuda_launch {
    uint16_t module;   /* index into bp_cuda_modules */
    uint16_t function; /* index into that module's functions */
    uint32_t grid[3];
    uint32_t block[3];
    uint8_t cluster[3];    /* blocks of a cluster in each direction; all 1: there are no clusters */
    uint32_t shared_bytes; /* dynamic shared memory */
    uint32_t parameter_count;
    uint32_t value_count;
    bp_cuda_parameter parameter[BP_CUDA_PARAMETERS_MAX];
    bp_cuda_value value[BP_CUDA_VALUES_MAX];
} bp_cuda_launch;

typedef struct bp_cuda_function {
    const char *name;
    uint32_t shared_most; /* most dynamic shared memory any launch asks for; above
                             BP_CUDA_SHARED_PLAIN the function opts in to it after loading */
} bp_cuda_function;

typedef enum bp_cuda_types {
    BP_CUDA_TYPES_ANY,
    BP_CUDA_TYPES_SINGLE,
    BP_CUDA_TYPES_SIXTEEN
} bp_cuda_types;

/* One PTX text. `begin` .. `end` leaves out the zero byte that follows, as cuModuleLoadData needs.
 */
typedef struct bp_cuda_module {
    const char *name;   /* "matmul_f32" */
    const char *target; /* "sm_80", "sm_90a" */
    uint8_t family;     /* bp_cuda_family */
    uint8_t types;      /* bp_cuda_types: working types that it serves */
    const unsigned char *begin;
    const unsigned char *end;
    const bp_cuda_function *functions;
    uint32_t function_count;
} bp_cuda_module;

extern const bp_cuda_module bp_cuda_modules[];
extern const uint32_t bp_cuda_module_count; /* at most 64 */

/* The module of a family of kernels for a working type on a target: the most special text that the
 * target runs and the driver takes. BP_CUDA_NO_MODULE when there is none. */
#define BP_CUDA_NO_MODULE UINT16_MAX
/* The family that serves where no text of a family can be used; the family itself, where none. */
uint32_t bp_cuda_family_instead(uint32_t family);
uint16_t bp_cuda_module_choose(const bp_cuda_target *target, uint32_t family, bp_dtype dtype);

/* The launches of one op, in order on one stream: their number, at most BP_CUDA_LAUNCHES_MAX; 0 for
 * an op over nothing, or one that runs no kernel (link.c says which); BP_CUDA_UNSUPPORTED when no
 * kernel serves its element types, or a grid would have more blocks than a GPU takes. A list op is
 * one launch over its table. */
uint32_t bp_cuda_plan_launches(const bp_cuda_target *target, const bp_linked_op *op,
                               bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX]);

/* The same of an op and the one behind it in its program, which may be NULL: `both` says whether
 * one launch makes both, a product with a narrow side and its scale in place. The bits are the
 * same. */
uint32_t bp_cuda_plan_pair(const bp_cuda_target *target, const bp_linked_op *op,
                           const bp_linked_op *next, bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX],
                           bool *both);

/* Why a product or attention of 16-bit elements, or of weights in 4 or 8 bits, runs with the
 * kernels for every GPU although the target has kernels of its own: a static text of what it has.
 * NULL for all else. */
const char *bp_cuda_plan_misses(const bp_cuda_target *target, const bp_linked_op *op);

/* Whether a kernel is the host's alone: one that computes, and has no launches here. */
bool bp_cuda_lacks(bp_kernel kernel);

/* Bytes of the kernel's workspace operand for these scalars, whatever the element types;
 * BP_SIZE_INVALID when they make no sense. */
uint64_t bp_cuda_workspace(const bp_cuda_target *target, bp_kernel kernel, const void *scalars);

/* Bytes of the table of a list op of `tuples` tuples; 0 for kernels that are no list op. It needs
 * an alignment of 8 and is constant once written. */
uint64_t bp_cuda_table_bytes(bp_kernel kernel, uint32_t tuples);

/* Writes the table of an op: one record of BP_CUDA_RECORD_WORDS 64-bit words per tuple, in order,
 *     word 0          blocks of this tuple and all before it: where the next one's begin
 *     OFFSETS ..      of the row's operands, in bytes from BP_CUDA_BASE; all ones: absent
 *     TYPES           the bp_dtype of the first eight operands, a byte each
 *     SCALARS ..      the row's scalars as they are
 * `table` holds bp_cuda_table_bytes(). device/cuda/kernels/optimizer.cu reads it. */
#define BP_CUDA_RECORD_WORDS   28
#define BP_CUDA_RECORD_OFFSETS 1
#define BP_CUDA_RECORD_TYPES   10
#define BP_CUDA_RECORD_SCALARS 11
void bp_cuda_write_table(const bp_linked_op *op, uint64_t *table);

#endif
