/* SPDX-License-Identifier: MIT */
/* Launches of products with weights in 4 or 8 bits. */
#include "device/cuda/plan_product.h"

#define TILE           64
#define TILE_THREADS   256
#define TILE_SHARED    32768 /* on tensor cores, as a product's tile of 64 */
#define HOPPER_TILE    128
#define HOPPER_THREADS 512
#define HOPPER_SHARED  225472 /* a product's, words of codes, tables */
#define PIECE          8      /* codes that Hopper's kernel reads at once */
#define DEQUANTIZE_ROWS                                                                            \
    512 /* four tiles of rows, each of which would dequantize all; not measured */
#define DEQUANTIZE_THREADS 256
#define DEQUANTIZE_PIECES  1024 /* of a block */

static uint32_t quantised_flags(const bp_cuda_plan *plan)
{
    const bp_matmul_quantised_scalars *s = plan->op->scalars;
    const uint32_t c = BP_CUDA_BIT(matmul_quantised, c) | BP_CUDA_BIT(matmul_quantised, before) |
                       BP_CUDA_BIT(matmul_quantised, residual) |
                       BP_CUDA_BIT(matmul_quantised, bias);
    uint32_t flags = s->transpose_b != 0 ? TRANSPOSE_B : 0;
    flags |= s->gelu != 0 ? GELU : 0;
    const uint64_t elements = 16 / bp_dtype_bytes(plan->dtype);
    const uint32_t a = BP_CUDA_BIT(matmul_quantised, a);
    flags |= bp_cuda_wide(plan, a, (uint64_t)s->lda, elements) ? WIDE_A : 0;
    flags |= bp_cuda_wide(plan, c, (uint64_t)s->ldc, 4) ? WIDE_C : 0;
    flags |= bp_cuda_wide(plan, c, (uint64_t)s->ldc, 8) ? WIDE_ROWS : 0;
    return flags | (uint32_t)plan->dtype << TYPE_C | (uint32_t)plan->dtype << TYPE_OTHERS;
}

static uint64_t quantised_tiles(const bp_matmul_quantised_scalars *s, uint64_t tile)
{
    return bp_cuda_cut(s->m, tile) * bp_cuda_cut(s->n, tile);
}

const char *bp_cuda_quantised_misses(const bp_cuda_plan *plan)
{
    const bp_matmul_quantised_scalars *s = plan->op->scalars;
    const uint32_t a = BP_CUDA_BIT(matmul_quantised, a);
    const uint32_t words = BP_CUDA_BIT(matmul_quantised, codes) |
                           BP_CUDA_BIT(matmul_quantised, scales) |
                           BP_CUDA_BIT(matmul_quantised, nested);
    const uint64_t most = UINT32_MAX / 2; /* coordinates have 32 bits */
    const uint64_t row = (uint64_t)(s->transpose_b != 0 ? s->k : s->n);
    if ((uint64_t)s->m >= most || (uint64_t)s->n >= most || (uint64_t)s->k >= most) {
        return HOPPER_SIDE;
    }
    if (!bp_cuda_wide(plan, a, (uint64_t)s->lda, 8)) {
        return HOPPER_ROWS;
    }
    if (!bp_cuda_wide(plan, words, row, PIECE)) {
        return "rows of codes that are no multiples of 8";
    }
    if (!bp_cuda_map_fits(s->m, s->lda)) {
        return HOPPER_SMALL;
    }
    return quantised_tiles(s, HOPPER_TILE) < HOPPER_LEAST ? HOPPER_FEW : NULL;
}

/* Begins the launch: on Hopper's own tensor instructions where it can be. */
static bool quantised_begin(bp_cuda_plan *plan, bool hopper)
{
    const bp_matmul_quantised_scalars *s = plan->op->scalars;
    const bool tensor = plan->dtype != BP_F32;
    uint64_t tiles = quantised_tiles(s, hopper ? HOPPER_TILE : TILE);
    if (hopper) {
        tiles = tiles < bp_cuda_blocks(plan->target) ? tiles : bp_cuda_blocks(plan->target);
        if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_quantised_hopper,
                           BP_CUDA_FUNCTION_matmul_quantised_hopper, tiles, 1, HOPPER_THREADS)) {
            return false;
        }
        plan->launch[plan->count - 1].shared_bytes = HOPPER_SHARED;
        return true;
    }
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_quantised, BP_CUDA_FUNCTION_matmul_quantised, tiles, 1,
                       tensor ? TENSOR_THREADS : TILE_THREADS)) {
        return false;
    }
    plan->launch[plan->count - 1].shared_bytes = tensor ? TILE_SHARED : 0;
    return true;
}

/* Whether a product has room for its matrix in 16 bits, which is dequantized once where each tile
 * of rows would dequantize it again. */
static bool quantised_dequantizes(const bp_cuda_target *target,
                                  const bp_matmul_quantised_scalars *s)
{
    const int64_t row = s->transpose_b != 0 ? s->k : s->n;
    return target->hopper && target->dequantizes && s->m >= DEQUANTIZE_ROWS && row % PIECE == 0;
}

uint64_t bp_cuda_quantised_workspace(const bp_cuda_target *target,
                                     const bp_matmul_quantised_scalars *s)
{
    return quantised_dequantizes(target, s)
               ? bp_size_mul(bp_size_mul((uint64_t)s->n, (uint64_t)s->k), 2)
               : 0;
}

static void quantised_dequantize(bp_cuda_plan *plan)
{
    const bp_matmul_quantised_scalars *s = plan->op->scalars;
    const bool along = s->transpose_b == 0;
    const uint64_t pieces = (uint64_t)s->n * (uint64_t)s->k / PIECE;
    const uint64_t blocks = (pieces + DEQUANTIZE_PIECES - 1) / DEQUANTIZE_PIECES;
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_quantised_hopper, BP_CUDA_FUNCTION_quantised_dequantize,
                       blocks, 1, DEQUANTIZE_THREADS)) {
        return;
    }
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, work, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, codes, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, scales, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, nested, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)(along ? s->k : s->n));
    bp_cuda_word64(plan, (uint64_t)(along ? s->n : s->k));
    bp_cuda_word32(plan, (uint32_t)s->form);
    bp_cuda_word32(plan, (uint32_t)plan->dtype);
}

/* Where the operands of a product are among those of one with codes; b is in the workspace. */
static const uint32_t quantised_operand[] = {
    [BP_CUDA_POSITION(matmul, c)] = BP_CUDA_POSITION(matmul_quantised, c),
    [BP_CUDA_POSITION(matmul, before)] = BP_CUDA_POSITION(matmul_quantised, before),
    [BP_CUDA_POSITION(matmul, a)] = BP_CUDA_POSITION(matmul_quantised, a),
    [BP_CUDA_POSITION(matmul, b)] = BP_CUDA_POSITION(matmul_quantised, work),
    [BP_CUDA_POSITION(matmul, bias)] = BP_CUDA_POSITION(matmul_quantised, bias),
    [BP_CUDA_POSITION(matmul, residual)] = BP_CUDA_POSITION(matmul_quantised, residual),
};

#define DEQUANTIZED_OPERANDS (sizeof quantised_operand / sizeof quantised_operand[0])

/* The matrix dequantized, then the product of a plain one, whose sums are the same; false, and
 * nothing is added: that is not one launch of Hopper's own, or there is no room. */
static bool quantised_whole(bp_cuda_plan *plan)
{
    const bp_matmul_quantised_scalars *s = plan->op->scalars;
    const uint32_t work = BP_CUDA_POSITION(matmul_quantised, work), before = plan->count;
    const bp_matmul_scalars scalars = {.m = s->m,
                                       .n = s->n,
                                       .k = s->k,
                                       .lda = s->lda,
                                       .ldb = s->transpose_b != 0 ? s->k : s->n,
                                       .ldc = s->ldc,
                                       .transpose_b = s->transpose_b,
                                       .gelu = s->gelu};
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    if (!quantised_dequantizes(plan->target, s) || plan->op->offsets[work] == BP_OFFSET_ABSENT) {
        return false;
    }
    for (uint32_t i = 0; i < BP_OPERANDS_MAX; i++) {
        const bool there = i < DEQUANTIZED_OPERANDS;
        offsets[i] = there ? plan->op->offsets[quantised_operand[i]] : BP_OFFSET_ABSENT;
        dtypes[i] = there ? plan->op->dtypes[quantised_operand[i]] : (uint8_t)plan->dtype;
    }
    dtypes[BP_CUDA_POSITION(matmul, b)] = (uint8_t)plan->dtype;
    const bp_linked_op product = {BP_KERNEL_matmul, 1, offsets, &scalars, dtypes, BP_OFFSET_ABSENT};
    quantised_dequantize(plan);
    bp_cuda_plan of = *plan;
    of.op = &product;
    of.next = NULL;
    (void)bp_cuda_plan_matmul(&of);
    const bool one = plan->count == before + 1 && of.count == before + 2 && !of.unsupported;
    if (!one ||
        bp_cuda_modules[of.launch[before + 1].module].family != BP_CUDA_FAMILY_matmul_hopper) {
        plan->count = before;
        return false;
    }
    bp_cuda_launch *launch = &of.launch[before + 1];
    for (uint32_t i = 0; i < launch->parameter_count; i++) {
        bp_cuda_parameter *p = &launch->parameter[i];
        if (p->kind == BP_CUDA_OPERAND || p->kind == BP_CUDA_MAP) {
            p->operand = (uint8_t)quantised_operand[p->operand];
        }
    }
    plan->count = of.count;
    return true;
}

bool bp_cuda_plan_matmul_quantised(bp_cuda_plan *plan)
{
    const bp_matmul_quantised_scalars *s = plan->op->scalars;
    if (s->accumulate != 0 ||
        plan->op->dtypes[BP_CUDA_POSITION(matmul_quantised, c)] != (uint8_t)plan->dtype) {
        return false; /* only matrices that are brought from a file come in slices */
    }
    const bool hopper = plan->target->hopper && plan->dtype != BP_F32 && s->k > 0 &&
                        bp_cuda_quantised_misses(plan) == NULL &&
                        bp_cuda_module_choose(plan->target, BP_CUDA_FAMILY_quantised_hopper,
                                              plan->dtype) != BP_CUDA_NO_MODULE;
    if (hopper && quantised_whole(plan)) {
        return true;
    }
    if (!quantised_begin(plan, hopper)) {
        return true;
    }
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, c, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, before, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, a, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, codes, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, scales, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, nested, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, bias, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul_quantised, residual, BP_ACCESS_READ);
    bp_cuda_word64(plan, (uint64_t)s->m);
    bp_cuda_word64(plan, (uint64_t)s->n);
    bp_cuda_word64(plan, (uint64_t)s->k);
    bp_cuda_word64(plan, (uint64_t)s->lda);
    bp_cuda_word64(plan, (uint64_t)s->ldc);
    bp_cuda_word32(plan, (uint32_t)s->form);
    bp_cuda_word32(plan, quantised_flags(plan));
    if (hopper) {
        bp_cuda_product_map(plan, BP_CUDA_POSITION(matmul_quantised, a), s->m, s->k, s->lda);
    }
    return true;
}
