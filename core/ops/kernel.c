/* SPDX-License-Identifier: MIT */
/* kernels.def read as descriptions: names, operand properties and extent formulas. */
#include "core/ops/kernel.h"

#include "core/ops/activation.h"
#include "core/ops/codec.h"
#include "core/ops/storage_format.h"
#include "core/ops/master.h"
#include "core/ops/quantised.h"
#include "core/ops/tape.h"
#include "core/ir/step.h"

/* The words that formulas use; all saturate (arena/base.h). A negative scalar becomes a huge number
 * and saturates in its turn. */
#define S(x)                      ((uint64_t)s->x)
#define MUL(a, b)                 bp_size_mul((a), (b))
#define ADD(a, b)                 bp_size_add((a), (b))
#define SUB(a, b)                 bp_size_sub((a), (b))
#define CEIL_DIV(a, b)            bp_size_ceil_div((a), (b))
#define SELECT(f, a, b)           ((f) != 0 ? (a) : (b))
#define STEP_BYTES                sizeof(bp_step_block)
#define CONTROL_BYTES             sizeof(bp_control_block)
#define RESULT_BYTES              sizeof(bp_result_block)
#define MASTER_BYTES(f)           bp_master_bytes((int64_t)(f))
#define WEIGHT_ELEMENTS(n, f)     ((f) == BP_MASTER_FP8 ? bp_fp8_bytes(n) : (n))
#define STATE_BYTES(n, f)         bp_codec_bytes((n), (int64_t)(f))
#define TAPE_BYTES(r, w)          bp_tape_bytes((r), (w))
#define QUANTISED_CODES(n, f)     bp_quantised_codes((n), (int64_t)(f))
#define QUANTISED_SCALES(r, n, f) bp_quantised_scales((r), (n), (int64_t)(f))
#define QUANTISED_NESTED(n, f)    bp_quantised_nested((n), (int64_t)(f))
#define COMPANDED8                BP_CODEC_COMPANDED8
#define NORM_HISTORY              BP_NORM_HISTORY
#define CODECS                    BP_CODEC_COUNT
#define MASTERS                   BP_MASTER_COUNT
#define MASTER_FP8                BP_MASTER_FP8
#define ACTIVATIONS               BP_ACTIVATION_COUNT
#define QUANTISED_PACKED(f)       bp_quantised_packed((int64_t)(f))
#define QUANTISED_VALID(f)        bp_quantised_valid((int64_t)(f))
#define QUANTISED_ROW(w, f)       bp_quantised_row((w), (int64_t)(f))
#define QUANTISED_FP8             BP_QUANTISED_FP8
#define TASKS                     BP_TASK_COUNT
#define PREFERENCES               BP_PREFERENCES
#define DISTILL_MOST              BP_DISTILL_MOST
#define TASK_CLASSES              BP_TASK_CLASSES
#define POOLINGS                  BP_POOLINGS
#define EXPERTS_ORDER(r, t, e)    ADD(MUL(2, MUL((r), (t))), ADD((e), 1))
#define DELTA_ROW(h, k, n, v)     ADD(MUL(2, MUL((h), (k))), MUL((n), (v)))
#define ANYTHING                  0
#define BLOCK(r, w, p)            (r), (w), (p)
#define FLAT(n)                   1, (n), (n)

#define KERNEL(name)                                                                               \
    static void extents_##name(const void *scalars, bp_extent *e)                                  \
    {                                                                                              \
        const bp_##name##_scalars *s = scalars;
#define EXTENT(access, n, none, ...)    *e++ = (bp_extent){__VA_ARGS__, access, n, none};
#define IN(x, type, extent)             EXTENT(BP_ACCESS_READ, ANYTHING, false, extent)
#define OUT(x, type, extent)            EXTENT(BP_ACCESS_WRITE, ANYTHING, false, extent)
#define INOUT(x, type, extent)          EXTENT(BP_ACCESS_READ_WRITE, ANYTHING, false, extent)
#define IN_OPTIONAL(x, type, extent)    EXTENT(BP_ACCESS_READ, ANYTHING, false, extent)
#define OUT_OPTIONAL(x, type, extent)   EXTENT(BP_ACCESS_WRITE, ANYTHING, false, extent)
#define INOUT_OPTIONAL(x, type, extent) EXTENT(BP_ACCESS_READ_WRITE, ANYTHING, false, extent)
#define IN_SIZED(x, type, extent)       EXTENT(BP_ACCESS_READ, ANYTHING, false, extent)
#define OUT_SIZED(x, type, extent)      EXTENT(BP_ACCESS_WRITE, ANYTHING, false, extent)
#define INOUT_SIZED(x, type, extent)    EXTENT(BP_ACCESS_READ_WRITE, ANYTHING, false, extent)
#define IN_INDEX(x, extent, n)          EXTENT(BP_ACCESS_READ, n, false, extent)
#define IN_INDEX_OPTIONAL(x, extent, n) EXTENT(BP_ACCESS_READ, n, false, extent)
#define IN_LABEL(x, extent, n)          EXTENT(BP_ACCESS_READ, n, true, extent)
#define OUT_OR_ADD(x, type, extent, flag)                                                          \
    EXTENT((flag) != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE, ANYTHING, false, extent)
#define WORKSPACE(x) EXTENT(BP_ACCESS_SCRATCH, ANYTHING, false, 0, 0, 0)
#define END(name)                                                                                  \
    (void)s;                                                                                       \
    (void)e;                                                                                       \
    }
#include "core/ops/kernels.def"

#define KERNEL(name)                                                                               \
    static bool legal_##name(const void *scalars)                                                  \
    {                                                                                              \
        const bp_##name##_scalars *s = scalars;
#define LEGAL_ONLY(condition)                                                                      \
    if (!(condition)) {                                                                            \
        return false;                                                                              \
    }
#define FLAG(x)            LEGAL_ONLY(S(x) <= 1)
#define FRACTION(x)        LEGAL_ONLY(s->x >= 0.0) LEGAL_ONLY(s->x < 1.0)
#define REQUIRE(condition) LEGAL_ONLY(condition)
#define END(name)                                                                                  \
    (void)s;                                                                                       \
    return true;                                                                                   \
    }
#include "core/ops/kernels.def"

#define KERNEL(name)                    static const bp_operand_info operands_##name[] = {
#define IN(x, type, extent)             {#x, BP_TYPE_##type, false, false, false},
#define OUT(x, type, extent)            {#x, BP_TYPE_##type, false, false, false},
#define INOUT(x, type, extent)          {#x, BP_TYPE_##type, false, false, false},
#define OUT_OR_ADD(x, type, extent, f)  {#x, BP_TYPE_##type, false, false, false},
#define IN_OPTIONAL(x, type, extent)    {#x, BP_TYPE_##type, true, false, false},
#define OUT_OPTIONAL(x, type, extent)   {#x, BP_TYPE_##type, true, false, false},
#define INOUT_OPTIONAL(x, type, extent) {#x, BP_TYPE_##type, true, false, false},
#define IN_SIZED(x, type, extent)       {#x, BP_TYPE_##type, true, true, false},
#define OUT_SIZED(x, type, extent)      {#x, BP_TYPE_##type, true, true, false},
#define INOUT_SIZED(x, type, extent)    {#x, BP_TYPE_##type, true, true, false},
#define IN_INDEX(x, extent, n)          {#x, BP_TYPE_I32, false, false, false},
#define IN_INDEX_OPTIONAL(x, extent, n) {#x, BP_TYPE_I32, true, false, false},
#define IN_LABEL(x, extent, n)          {#x, BP_TYPE_I32, false, false, false},
#define WORKSPACE(x)                    {#x, BP_TYPE_BYTE, true, true, true},
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "core/ops/kernels.def"

#define KERNEL(name) static const bp_scalar_info scalars_##name[] = {
#define DIM(x)       {#x, false},
#define REAL(x)      {#x, true},
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "core/ops/kernels.def"

/* Pairs of operand positions; the first row only keeps the array from being empty. */
#define POSITION(name, x)    (uint32_t)(offsetof(bp_##name##_operands, x) / sizeof(bp_ref))
#define KERNEL(name)         static const uint32_t in_place_##name[][2] = {{0, 0},
#define IN_PLACE(name, x, y) {POSITION(name, x), POSITION(name, y)},
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "core/ops/kernels.def"

#define KERNEL(name) enum { list_##name = 0
#define LIST         +1
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "core/ops/kernels.def"

#define KERNEL(name)   enum { engine_##name = 0
#define BEGINS(engine) +BP_ENGINE_##engine
#define WAITS(engine)  +BP_ENGINE_##engine
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "core/ops/kernels.def"

#define KERNEL(name)   enum { pending_##name = 0
#define BEGINS(engine) +BP_PENDING_BEGIN
#define WAITS(engine)  +BP_PENDING_WAIT
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "core/ops/kernels.def"

#define COUNT(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

static const bp_kernel_info kernel_rows[BP_OP_COUNT] = {
#define KERNEL(name)                                                                               \
    {#name,                                                                                        \
     COUNT(operands_##name),                                                                       \
     COUNT(scalars_##name),                                                                        \
     COUNT(in_place_##name) - 1,                                                                   \
     operands_##name,                                                                              \
     scalars_##name,                                                                               \
     in_place_##name + 1,                                                                          \
     list_##name != 0,                                                                             \
     (bp_engine)engine_##name,                                                                     \
     (bp_pending)pending_##name,                                                                   \
     legal_##name,                                                                                 \
     extents_##name},
#include "core/ops/kernels.def"
    [BP_OP_ACQUIRE] = {.name = "acquire", .scalar_count = BP_MARKER_SCALARS},
    [BP_OP_RELEASE] = {.name = "release", .scalar_count = BP_MARKER_SCALARS}};

const bp_kernel_info *bp_kernel_describe(bp_kernel kernel)
{
    return &kernel_rows[kernel];
}

const char *bp_engine_name(bp_engine engine)
{
    static const char *const names[BP_ENGINE_COUNT] = {
        [BP_ENGINE_COMPUTE] = "compute", [BP_ENGINE_COPY] = "copy", [BP_ENGINE_FABRIC] = "fabric"};
    return names[engine];
}

uint64_t bp_extent_bytes(const bp_extent *extent, size_t element_bytes)
{
    if (extent->rows == 0 || extent->width == 0) {
        return 0;
    }
    if (extent->rows > 1 && extent->pitch < extent->width) {
        return BP_SIZE_INVALID;
    }
    uint64_t elements = bp_size_add(bp_size_mul(extent->rows - 1, extent->pitch), extent->width);
    return bp_size_mul(elements, element_bytes);
}

size_t bp_operand_element_bytes(bp_operand_type type, bp_dtype dtype)
{
    static const size_t fixed[] = {
        [BP_TYPE_ANY] = 0,     [BP_TYPE_FLOAT] = 0, [BP_TYPE_WEIGHT] = 0, [BP_TYPE_F32] = 4,
        [BP_TYPE_F64] = 8,     [BP_TYPE_I32] = 4,   [BP_TYPE_BYTE] = 1,   [BP_TYPE_STEP] = 1,
        [BP_TYPE_CONTROL] = 1, [BP_TYPE_RESULT] = 1};
    return type <= BP_TYPE_WEIGHT ? bp_dtype_bytes(dtype) : fixed[type];
}

bp_dtype bp_kernel_working(const bp_kernel_info *info, const uint8_t *dtypes)
{
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (info->operand[i].type == BP_TYPE_ANY && !info->operand[i].optional) {
            return (bp_dtype)dtypes[i];
        }
    }
    return BP_F32;
}
