/* SPDX-License-Identifier: MIT */
/* The table of kernels as C types: kernels.def read as enum, structs and descriptions.
 *
 * For each row `name` there are
 *     BP_KERNEL_name             its number
 *     bp_name_scalars            struct of its scalars (int64_t and double, 8 bytes each)
 *     bp_name_operands           struct of bp_ref, what a program says (core/ir/program.h)
 *     bp_name_pointers           struct of pointers, what a linked op hands to a host kernel
 * so that layers and kernels name fields instead of counting positions. */
#ifndef BP_CORE_KERNEL_H
#define BP_CORE_KERNEL_H

#include "arena/base.h"
#include "core/base/dtype.h"

#define BP_OPERANDS_MAX 16 /* most operands of one row */
#define BP_SCALARS_MAX  16 /* most scalars of one row */

/* No graph has a buffer of this number: row 0 of its table is kept empty, so that what is zero is
 * absent. */
#define BP_NO_BUFFER 0u

/* An operand in a program: a place inside a buffer. A ref of all zeros is absent, as is BP_ABSENT,
 * for optional operands that are not there. */
typedef struct bp_ref {
    uint32_t buffer; /* index into the program's buffers; BP_NO_BUFFER when absent */
    bp_dtype dtype;
    uint64_t offset; /* bytes from the buffer's start */
} bp_ref;

#define BP_ABSENT ((bp_ref){BP_NO_BUFFER, BP_F32, 0})

static inline bool bp_ref_present(bp_ref ref)
{
    return ref.buffer != BP_NO_BUFFER;
}

#define BP_MARKER_SCALARS 2 /* of a marker: the parameter's number, and what for */

/* The number of each kernel. */
typedef enum bp_kernel {
#define KERNEL(name) BP_KERNEL_##name,
#include "core/ops/kernels.def"
    BP_KERNEL_COUNT,
    /* Markers, which no device executes: a program has none left (core/plan/passes/passes.h). */
    BP_OP_ACQUIRE = BP_KERNEL_COUNT,
    BP_OP_RELEASE,
    BP_OP_COUNT
} bp_kernel;

/* struct bp_name_scalars */
#define KERNEL(name) typedef struct bp_##name##_scalars {
#define DIM(x)       int64_t x;
#define REAL(x)      double x;
#define END(name)                                                                                  \
    }                                                                                              \
    bp_##name##_scalars;
#include "core/ops/kernels.def"

/* struct bp_name_operands */
#define KERNEL(name)                      typedef struct bp_##name##_operands {
#define IN(x, type, extent)               bp_ref x;
#define OUT(x, type, extent)              bp_ref x;
#define INOUT(x, type, extent)            bp_ref x;
#define OUT_OR_ADD(x, type, extent, flag) bp_ref x;
#define IN_OPTIONAL(x, type, extent)      bp_ref x;
#define OUT_OPTIONAL(x, type, extent)     bp_ref x;
#define INOUT_OPTIONAL(x, type, extent)   bp_ref x;
#define WORKSPACE(x)                      bp_ref x;
#define END(name)                                                                                  \
    }                                                                                              \
    bp_##name##_operands;
#include "core/ops/kernels.def"

/* struct bp_name_pointers */
#define KERNEL(name)                      typedef struct bp_##name##_pointers {
#define IN(x, type, extent)               const void *x;
#define OUT(x, type, extent)              void *x;
#define INOUT(x, type, extent)            void *x;
#define OUT_OR_ADD(x, type, extent, flag) void *x;
#define IN_OPTIONAL(x, type, extent)      const void *x;
#define OUT_OPTIONAL(x, type, extent)     void *x;
#define INOUT_OPTIONAL(x, type, extent)   void *x;
#define WORKSPACE(x)                      void *x;
#define END(name)                                                                                  \
    }                                                                                              \
    bp_##name##_pointers;
#include "core/ops/kernels.def"

typedef enum bp_access {
    BP_ACCESS_READ = 1,
    BP_ACCESS_WRITE = 2,
    BP_ACCESS_READ_WRITE = 3,
    BP_ACCESS_SCRATCH = 4 /* workspace: undefined before and after */
} bp_access;

typedef enum bp_operand_type {
    BP_TYPE_ANY,    /* the op's working type: f32, bf16 or f16, as the ref states */
    BP_TYPE_FLOAT,  /* one of these, whatever the op's other operands have */
    BP_TYPE_WEIGHT, /* FLOAT, or U8: codes of core/ops/fp8.h */
    BP_TYPE_F32,
    BP_TYPE_F64,
    BP_TYPE_I32,
    BP_TYPE_BYTE,
    BP_TYPE_STEP, /* the blocks of core/ir/step.h, in bytes */
    BP_TYPE_CONTROL,
    BP_TYPE_RESULT
} bp_operand_type;

/* How far an operand reaches: `rows` runs of `width` elements, `pitch` elements apart. */
typedef struct bp_extent {
    uint64_t rows;
    uint64_t width;
    uint64_t pitch;
    bp_access access; /* with OUT_OR_ADD resolved by the scalars */
    uint64_t below;   /* integers to look things up by: they are below it; 0: not such */
    bool negative;    /* and may be negative, for none */
} bp_extent;

typedef struct bp_operand_info {
    const char *name;
    bp_operand_type type;
    bool optional;
    bool sized; /* absent exactly where its extent is empty */
    bool workspace;
} bp_operand_info;

typedef struct bp_scalar_info {
    const char *name;
    bool real;
} bp_scalar_info;

/* Who executes an op. Ops of one engine run in the order of the program. */
typedef enum bp_engine {
    BP_ENGINE_COMPUTE,
    BP_ENGINE_COPY,   /* moves bytes inside and between memory spaces */
    BP_ENGINE_FABRIC, /* moves bytes between ranks */
    BP_ENGINE_COUNT
} bp_engine;

/* Whether an op is half of an asynchronous pair. */
typedef enum bp_pending {
    BP_PENDING_NONE,
    BP_PENDING_BEGIN,
    BP_PENDING_WAIT /* the compute engine waits; what it waits for is the row's engine's */
} bp_pending;

typedef struct bp_kernel_info {
    const char *name;
    uint32_t operand_count;
    uint32_t scalar_count;
    uint32_t in_place_count;
    const bp_operand_info *operand;
    const bp_scalar_info *scalar;
    const uint32_t (*in_place)[2]; /* pairs of operand positions that may be the same bytes */
    bool list;
    bp_engine engine;
    bp_pending pending; /* of such rows operand 0 is `to`, 1 is `from`, scalar 0 the request; any
                         other operand is read, and what the host fills in */
    /* Whether these scalars have a meaning: what the row requires of them. */
    bool (*legal)(const void *scalars);
    /* Fills extents[operand_count]. Workspaces get an empty extent: the device knows. */
    void (*extents)(const void *scalars, bp_extent *extents);
} bp_kernel_info;

/* The row of a kernel; kernel < BP_OP_COUNT, of which markers have a name and scalars. */
const bp_kernel_info *bp_kernel_describe(bp_kernel kernel);

/* "compute", "copy", "fabric" */
const char *bp_engine_name(bp_engine engine);

/* Bytes from the first to past the last element of an extent; BP_SIZE_INVALID on overflow or where
 * rows would overlap (pitch < width). Empty extents are 0. */
uint64_t bp_extent_bytes(const bp_extent *extent, size_t element_bytes);

/* The working type of an op: the dtype of its first ANY operand that is not optional
 * (dtypes: one bp_dtype per operand); BP_F32 for a row without one. */
bp_dtype bp_kernel_working(const bp_kernel_info *info, const uint8_t *dtypes);

/* Bytes of one element of an operand of this type whose ref states dtype. */
size_t bp_operand_element_bytes(bp_operand_type type, bp_dtype dtype);

#endif
