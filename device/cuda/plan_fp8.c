/* SPDX-License-Identifier: MIT */
/* Launches of products of e4m3 numbers: both operands become codes in the workspace, then one
 * kernel of Hopper multiplies them. Sums are never split, so the bits depend on the shape alone. */
#include "device/cuda/plan_product.h"

#define TILE       128
#define SHARED     199744 /* as a product's in tiles of 128 x 128 */
#define THREADS    384
#define BOX_LINES  64
#define BOX_TERMS  128
#define PITCH_UNIT 16  /* a tensor map's lines begin at multiples of so many bytes */
#define COLUMNS    128 /* that a block reads at once (matmul_fp8.cu) */
#define LINES      256 /* of which it finds the largest magnitudes */
#define TURNED     128 /* or that it turns */
#define PART       128 /* of the workspace begins at multiples of so many bytes */

/* Where what lies in the workspace: bytes from its start. An operand's codes are as many bytes at
 * least as hardware may look at behind the start of a tensor. */
typedef struct fp8_room {
    uint64_t pitch; /* of codes */
    uint64_t codes_b;
    uint64_t scales_a;
    uint64_t scales_b;
    uint64_t most; /* of columns, of one operand at a time */
    uint64_t bytes;
} fp8_room;

static uint64_t codes_bytes(uint64_t lines, uint64_t pitch)
{
    const uint64_t bytes = bp_size_align(bp_size_mul(lines, pitch), PART);
    return bytes < HOPPER_MAP ? HOPPER_MAP : bytes;
}

static uint64_t floats_bytes(uint64_t count)
{
    return bp_size_align(bp_size_mul(count, sizeof(float)), PART);
}

static fp8_room room_of(const bp_matmul_fp8_scalars *s)
{
    const uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    const uint64_t pitch = bp_size_align(k, PITCH_UNIT), parts = bp_size_ceil_div(k, LINES);
    const uint64_t columns_a = s->transpose_a != 0 ? m : 0, columns_b = s->transpose_b != 0 ? 0 : n;
    const uint64_t columns = columns_a > columns_b ? columns_a : columns_b;
    fp8_room room = {.pitch = pitch};
    room.codes_b = codes_bytes(m, pitch);
    room.scales_a = bp_size_add(room.codes_b, codes_bytes(n, pitch));
    room.scales_b = bp_size_add(room.scales_a, floats_bytes(m));
    room.most = bp_size_add(room.scales_b, floats_bytes(n));
    room.bytes = bp_size_add(room.most, floats_bytes(bp_size_mul(columns, parts)));
    return room;
}

uint64_t bp_cuda_fp8_workspace(const bp_cuda_target *target, const bp_matmul_fp8_scalars *s)
{
    return target->hopper && s->m > 0 && s->n > 0 ? room_of(s).bytes : 0;
}

/* One operand: lines of terms, or where it is turned of what has scales. */
typedef struct fp8_operand {
    uint32_t number; /* of the row's operands */
    bool transposed;
    uint64_t lines; /* that get scales */
    uint64_t pitch; /* elements, in memory */
    uint64_t codes; /* places in the workspace */
    uint64_t scales;
} fp8_operand;

/* A part of the workspace. */
static void room_add(bp_cuda_plan *plan, uint64_t at, bp_access access)
{
    const uint32_t work = BP_CUDA_POSITION(matmul_fp8, work);
    if (plan->op->offsets[work] == BP_OFFSET_ABSENT || plan->unsupported) {
        plan->unsupported = true;
        return;
    }
    bp_cuda_launch *launch = &plan->launch[plan->count - 1];
    launch->parameter[launch->parameter_count++] =
        (bp_cuda_parameter){BP_CUDA_OPERAND, (uint8_t)work, (uint8_t)access, at};
}

static uint32_t form_of(const bp_cuda_plan *plan, const fp8_operand *x)
{
    return bp_cuda_width(plan, UINT32_C(1) << x->number, x->pitch);
}

static void rows_plan(bp_cuda_plan *plan, const fp8_room *room, const fp8_operand *x, uint64_t k)
{
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_matmul_fp8, BP_CUDA_FUNCTION_fp8_rows, x->lines, 1,
                       256)) {
        return;
    }
    room_add(plan, x->codes, BP_ACCESS_WRITE);
    room_add(plan, x->scales, BP_ACCESS_WRITE);
    bp_cuda_operand(plan, x->number, BP_ACCESS_READ);
    bp_cuda_word64(plan, k);
    bp_cuda_word64(plan, x->pitch);
    bp_cuda_word64(plan, room->pitch);
    bp_cuda_word32(plan, form_of(plan, x));
}

static void columns_plan(bp_cuda_plan *plan, const fp8_room *room, const fp8_operand *x, uint64_t k)
{
    const uint64_t across = bp_size_ceil_div(x->lines, COLUMNS);
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_matmul_fp8, BP_CUDA_FUNCTION_fp8_columns_most, across,
                       bp_size_ceil_div(k, LINES), 256)) {
        return;
    }
    room_add(plan, room->most, BP_ACCESS_WRITE);
    bp_cuda_operand(plan, x->number, BP_ACCESS_READ);
    bp_cuda_word64(plan, k);
    bp_cuda_word64(plan, x->lines);
    bp_cuda_word64(plan, x->pitch);
    bp_cuda_word32(plan, form_of(plan, x));
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_matmul_fp8, BP_CUDA_FUNCTION_fp8_columns, across,
                       bp_size_ceil_div(k, TURNED), 256)) {
        return;
    }
    room_add(plan, x->codes, BP_ACCESS_WRITE);
    room_add(plan, x->scales, BP_ACCESS_WRITE);
    room_add(plan, room->most, BP_ACCESS_READ);
    bp_cuda_operand(plan, x->number, BP_ACCESS_READ);
    bp_cuda_word64(plan, k);
    bp_cuda_word64(plan, x->lines);
    bp_cuda_word64(plan, x->pitch);
    bp_cuda_word64(plan, room->pitch);
    bp_cuda_word32(plan, form_of(plan, x));
}

static void codes_plan(bp_cuda_plan *plan, const fp8_room *room, const fp8_operand *x, uint64_t k)
{
    if (x->transposed) {
        columns_plan(plan, room, x, k);
    } else {
        rows_plan(plan, room, x, k);
    }
}

static void map_add(bp_cuda_plan *plan, const fp8_room *room, const fp8_operand *x, uint64_t k)
{
    const bp_cuda_map map = {
        {k, x->lines, 1}, {room->pitch, 0}, {BOX_TERMS, BOX_LINES, 1}, 2, BP_U8, x->codes};
    bp_cuda_map_of(plan, BP_CUDA_POSITION(matmul_fp8, work), &map);
}

static uint32_t flags_of(const bp_cuda_plan *plan, const bp_matmul_fp8_scalars *s)
{
    const uint32_t c = BP_CUDA_BIT(matmul_fp8, c) | BP_CUDA_BIT(matmul_fp8, before) |
                       BP_CUDA_BIT(matmul_fp8, residual) | BP_CUDA_BIT(matmul_fp8, bias);
    uint32_t flags = s->accumulate != 0 ? ACCUMULATE : 0;
    flags |= s->gelu != 0 ? GELU : 0;
    flags |= bp_cuda_wide(plan, c, (uint64_t)s->ldc, 4) ? WIDE_C : 0;
    flags |= (uint32_t)plan->op->dtypes[BP_CUDA_POSITION(matmul_fp8, c)] << TYPE_C;
    return flags | (uint32_t)plan->dtype << TYPE_OTHERS;
}

static void product_plan(bp_cuda_plan *plan, const fp8_room *room, const fp8_operand *a,
                         const fp8_operand *b)
{
    const bp_matmul_fp8_scalars *s = plan->op->scalars;
    const uint64_t tiles = bp_size_ceil_div(a->lines, TILE) * bp_size_ceil_div(b->lines, TILE);
    const uint64_t most = bp_cuda_blocks(plan->target);
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_matmul_fp8, BP_CUDA_FUNCTION_matmul_fp8,
                       tiles < most ? tiles : most, 1, THREADS)) {
        return;
    }
    plan->launch[plan->count - 1].shared_bytes = SHARED;
    BP_CUDA_OPERAND_OF(plan, matmul_fp8, c,
                       s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, matmul_fp8, before, BP_ACCESS_WRITE);
    room_add(plan, a->scales, BP_ACCESS_READ);
    room_add(plan, b->scales, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_fp8, bias, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_fp8, residual, BP_ACCESS_READ);
    bp_cuda_word64(plan, a->lines);
    bp_cuda_word64(plan, b->lines);
    bp_cuda_word64(plan, (uint64_t)s->k);
    bp_cuda_word64(plan, (uint64_t)s->ldc);
    bp_cuda_word32(plan, flags_of(plan, s));
    map_add(plan, room, a, (uint64_t)s->k);
    map_add(plan, room, b, (uint64_t)s->k);
}

bool bp_cuda_plan_fp8(bp_cuda_plan *plan)
{
    const bp_matmul_fp8_scalars *s = plan->op->scalars;
    const uint64_t most = UINT32_MAX / 2; /* coordinates have 32 bits */
    const uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    if (m == 0 || n == 0) {
        return true;
    }
    if (!plan->target->hopper || m >= most || n >= most || k >= most || k == 0) {
        return false;
    }
    const fp8_room room = room_of(s);
    const fp8_operand a = {BP_CUDA_POSITION(matmul_fp8, a),
                           s->transpose_a != 0,
                           m,
                           (uint64_t)s->lda,
                           0,
                           room.scales_a};
    const fp8_operand b = {BP_CUDA_POSITION(matmul_fp8, b),
                           s->transpose_b == 0,
                           n,
                           (uint64_t)s->ldb,
                           room.codes_b,
                           room.scales_b};
    codes_plan(plan, &room, &a, k);
    codes_plan(plan, &room, &b, k);
    product_plan(plan, &room, &a, &b);
    return true;
}
