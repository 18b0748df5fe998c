/* SPDX-License-Identifier: MIT */
/* Launches of matrix products: which tile, how many splits. Both depend on the shape only. */
#include "device/cuda/hopper_tiles.h"
#include "device/cuda/plan_product.h"

#define MANY_TILES     96  /* as many large tiles keep every GPU busy */
#define SPLIT_TILES    192 /* what splitting aims at */
#define SPLIT_DEPTH    128 /* fewest terms of a split */
#define SPLITS_MOST    64
#define SLICE          32  /* a split is a multiple of the terms that a kernel takes at a time */
#define HOPPER_SLICE   64  /* the same on Hopper, of 16-bit elements */
#define HOPPER_DEPTH   384 /* fewest terms of a split there */
#define HOPPER_THREADS 384

typedef struct matmul_shape {
    uint64_t tile;
    uint64_t tiles;
    uint64_t depth; /* terms of a split */
    uint64_t splits;
} matmul_shape;

static uint64_t tiles_of(const bp_matmul_scalars *s, uint64_t tile)
{
    return bp_cuda_cut(s->m, tile) * bp_cuda_cut(s->n, tile);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static matmul_shape shape_of(const bp_matmul_scalars *s)
{
    uint64_t k = (uint64_t)s->k;
    matmul_shape shape = {128, tiles_of(s, 128), k, 1};
    if (shape.tiles >= MANY_TILES) {
        return shape;
    }
    shape.tile = 64;
    shape.tiles = tiles_of(s, 64);
    uint64_t splits = least(k / SPLIT_DEPTH, SPLITS_MOST);
    if (shape.tiles > 0 && shape.tiles < MANY_TILES && splits > 1) {
        splits = least(splits, (SPLIT_TILES + shape.tiles - 1) / shape.tiles);
        shape.depth = bp_size_align((k + splits - 1) / splits, SLICE);
        shape.splits = bp_cuda_cut(s->k, shape.depth);
    }
    return shape;
}

/* On Hopper, of 16-bit elements: one size of tile, and as many splits as make one wave of blocks.
 * The texts of sm_80 take it too where they serve there, so that the bits are the same. */
static matmul_shape hopper_shape(const bp_matmul_scalars *s)
{
    const uint64_t k = (uint64_t)s->k;
    matmul_shape shape = {128, tiles_of(s, 128), k, 1};
    const uint64_t splits =
        shape.tiles > 0 ? least(k / HOPPER_DEPTH, HOPPER_BLOCKS / shape.tiles) : 0;
    if (splits > 1) {
        shape.depth = bp_size_align((k + splits - 1) / splits, HOPPER_SLICE);
        shape.splits = bp_cuda_cut(s->k, shape.depth);
    }
    return shape;
}

/* Products one side of which is narrow: few rows, or an adapter's rank. They have a form of their
 * own for every GPU, which reads each operand once and splits nothing; of terms so many that few
 * blocks would take too long, the others serve. */
#define LOW_SIDE    64
#define LOW_WIDE    64 /* rows of the other side that a block has */
#define LOW_THREADS 256
#define LOW_SHARED  98304 /* three slices of both operands */
#define LOW_LEAST   256   /* terms: two slices */
#define LOW_MOST    1024  /* terms for each block */

static uint64_t low_blocks(const bp_matmul_scalars *s)
{
    return bp_cuda_cut(s->n <= LOW_SIDE ? s->m : s->n, LOW_WIDE);
}

static bool low_fits(const bp_cuda_plan *plan)
{
    const bp_matmul_scalars *s = plan->op->scalars;
    return plan->dtype != BP_F32 && (s->m <= LOW_SIDE || s->n <= LOW_SIDE) && s->m > 0 &&
           s->n > 0 && s->k >= LOW_LEAST && (uint64_t)s->k <= low_blocks(s) * LOW_MOST;
}

static uint64_t workspace_of(const bp_matmul_scalars *s, const matmul_shape *shape)
{
    const uint64_t elements = bp_size_mul((uint64_t)s->m, (uint64_t)s->n);
    return shape->splits == 1 ? 0
                              : bp_size_mul(bp_size_mul(shape->splits, elements), sizeof(float));
}

uint64_t bp_cuda_matmul_workspace(const bp_cuda_target *target, const bp_matmul_scalars *s)
{
    if (s->m <= 0 || s->n <= 0) {
        return 0;
    }
    const matmul_shape shape = shape_of(s), other = hopper_shape(s);
    const uint64_t bytes = workspace_of(s, &shape);
    const uint64_t more = target->hopper ? workspace_of(s, &other) : 0;
    return more > bytes ? more : bytes; /* the elements' type is not known here */
}

static uint32_t flags_of(const bp_cuda_plan *plan, const bp_matmul_scalars *s)
{
    uint32_t c = BP_CUDA_BIT(matmul, c) | BP_CUDA_BIT(matmul, before) |
                 BP_CUDA_BIT(matmul, residual) | BP_CUDA_BIT(matmul, bias);
    uint32_t flags = s->transpose_a != 0 ? TRANSPOSE_A : 0;
    flags |= s->transpose_b != 0 ? TRANSPOSE_B : 0;
    flags |= s->accumulate != 0 ? ACCUMULATE : 0;
    flags |= s->gelu != 0 ? GELU : 0;
    uint64_t elements = 16 / bp_dtype_bytes(plan->dtype); /* of 16 bytes */
    flags |= bp_cuda_wide(plan, BP_CUDA_BIT(matmul, a), (uint64_t)s->lda, elements) ? WIDE_A : 0;
    flags |= bp_cuda_wide(plan, BP_CUDA_BIT(matmul, b), (uint64_t)s->ldb, elements) ? WIDE_B : 0;
    flags |= bp_cuda_wide(plan, c, (uint64_t)s->ldc, 4) ? WIDE_C : 0;
    flags |= bp_cuda_wide(plan, c, (uint64_t)s->ldc, 8) ? WIDE_ROWS : 0;
    flags |= (uint32_t)plan->op->dtypes[BP_CUDA_POSITION(matmul, c)] << TYPE_C;
    return flags | (uint32_t)plan->dtype << TYPE_OTHERS;
}

/* The parameters that all product kernels take. In a split product the first launch writes the
 * workspace and leaves c alone, the second reads the workspace and leaves a and b alone. `flags`:
 * more bits. */
static void add_parameters(bp_cuda_plan *plan, const matmul_shape *shape, bool join, uint32_t flags)
{
    const bp_matmul_scalars *s = plan->op->scalars;
    bp_access c = s->accumulate != 0 ? BP_ACCESS_READ_WRITE : BP_ACCESS_WRITE;
    BP_CUDA_OPERAND_OF(plan, matmul, c, c);
    BP_CUDA_OPERAND_OF(plan, matmul, before, BP_ACCESS_WRITE);
    BP_CUDA_OPERAND_OF(plan, matmul, a, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul, b, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul, bias, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul, residual, BP_ACCESS_READ);
    BP_CUDA_OPERAND_OF(plan, matmul, work, join ? BP_ACCESS_READ : BP_ACCESS_WRITE);
    bp_cuda_word64(plan, (uint64_t)s->m);
    bp_cuda_word64(plan, (uint64_t)s->n);
    bp_cuda_word64(plan, (uint64_t)s->k);
    bp_cuda_word64(plan, (uint64_t)s->lda);
    bp_cuda_word64(plan, (uint64_t)s->ldb);
    bp_cuda_word64(plan, (uint64_t)s->ldc);
    bp_cuda_word64(plan, shape->depth);
    bp_cuda_word32(plan, (uint32_t)shape->splits);
    bp_cuda_word32(plan, flags_of(plan, s) | flags);
}

/* A product's kernel. */
typedef struct product_kernel {
    bp_cuda_family family;
    uint32_t function;
    uint32_t threads;
    uint32_t shared;
} product_kernel;

/* By working type and tile, 64 or 128. The single-precision ones declare their shared memory; on
 * tensor cores it is four slices of both operands, or over them the sums of a tile of 128 at a
 * pitch of 132 floats. */
static const product_kernel kernels[3][2] = {
    {{BP_CUDA_FAMILY_matmul, BP_CUDA_FUNCTION_matmul_64, 64, 0},
     {BP_CUDA_FAMILY_matmul, BP_CUDA_FUNCTION_matmul_128, 256, 0}},
    {{BP_CUDA_FAMILY_matmul, BP_CUDA_FUNCTION_matmul_64, TENSOR_THREADS, 32768},
     {BP_CUDA_FAMILY_matmul, BP_CUDA_FUNCTION_matmul_128, TENSOR_THREADS, 67584}},
    {{BP_CUDA_FAMILY_matmul_tf32, BP_CUDA_FUNCTION_matmul_tf32_64, TENSOR_THREADS, 40960}}};

/* TF32 has tiles of 64 only; what has many of 128 has more of these, and no splits either. */
static bool begin_product(bp_cuda_plan *plan, const matmul_shape *shape)
{
    bool tf32 = plan->dtype == BP_F32 && plan->target->tf32;
    bool large = shape->tile == 128 && !tf32;
    const product_kernel *kernel = tf32 ? &kernels[2][0] : &kernels[plan->dtype != BP_F32][large];
    uint64_t tiles = tf32 ? tiles_of(plan->op->scalars, 64) : shape->tiles;
    if (!bp_cuda_begin(plan, kernel->family, kernel->function, tiles, shape->splits,
                       kernel->threads)) {
        return false;
    }
    plan->launch[plan->count - 1].shared_bytes = kernel->shared;
    return true;
}

bool bp_cuda_map_fits(int64_t lines, int64_t pitch)
{
    return (uint64_t)lines * (uint64_t)pitch * 2 >= HOPPER_MAP;
}

/* Why a product is none for Hopper's form; NULL: it is one. A tensor map describes operands both
 * ends of whose lines are at multiples of 16 bytes. */
static const char *hopper_misses(const bp_cuda_plan *plan, const matmul_shape *shape)
{
    const bp_matmul_scalars *s = plan->op->scalars;
    const uint64_t most = UINT32_MAX / 2; /* coordinates have 32 bits */
    if ((uint64_t)s->m >= most || (uint64_t)s->n >= most || (uint64_t)s->k >= most) {
        return HOPPER_SIDE;
    }
    if (!bp_cuda_wide(plan, BP_CUDA_BIT(matmul, a), (uint64_t)s->lda, 8) ||
        !bp_cuda_wide(plan, BP_CUDA_BIT(matmul, b), (uint64_t)s->ldb, 8)) {
        return HOPPER_ROWS;
    }
    if (!bp_cuda_map_fits(s->transpose_a != 0 ? s->k : s->m, s->lda) ||
        !bp_cuda_map_fits(s->transpose_b != 0 ? s->n : s->k, s->ldb)) {
        return HOPPER_SMALL;
    }
    const bool few = shape->tiles * shape->splits < HOPPER_LEAST && plan->target->tile == 0;
    return few ? HOPPER_FEW : NULL;
}

/* Whether a product is one for Hopper's form, whichever text makes it. */
static bool hopper_fits(const bp_cuda_plan *plan, const matmul_shape *shape)
{
    const bp_matmul_scalars *s = plan->op->scalars;
    return plan->target->hopper && plan->dtype != BP_F32 && s->k > 0 &&
           hopper_misses(plan, shape) == NULL;
}

const char *bp_cuda_matmul_misses(const bp_cuda_plan *plan)
{
    const matmul_shape shape = hopper_shape(plan->op->scalars);
    return low_fits(plan) ? NULL : hopper_misses(plan, &shape);
}

void bp_cuda_product_map(bp_cuda_plan *plan, uint32_t operand, int64_t lines, int64_t length,
                         int64_t pitch)
{
    const bp_cuda_map map = {{(uint64_t)length, (uint64_t)lines, 1},
                             {(uint64_t)pitch * 2, 0},
                             {HOPPER_BOX, HOPPER_BOX, 1},
                             2,
                             (uint32_t)plan->dtype,
                             0};
    bp_cuda_map_of(plan, operand, &map);
}

/* Clocks that a product takes in such tiles, and the blocks of a split. */
static uint64_t hopper_clocks(const bp_cuda_target *target, const bp_matmul_scalars *s,
                              const matmul_shape *shape, const bp_hopper_tile *tile,
                              uint64_t *blocks)
{
    const uint64_t tiles = bp_cuda_cut(s->m, tile->rows) * bp_cuda_cut(s->n, tile->columns);
    const uint64_t most = bp_cuda_blocks(target);
    const uint64_t room = shape->splits < most ? most / shape->splits : 1;
    const uint64_t slices = (shape->depth + HOPPER_SLICE - 1) / HOPPER_SLICE;
    *blocks = least(tiles, room);
    return (tiles + *blocks - 1) / *blocks * (slices * tile->slice_clocks + tile->tile_clocks);
}

/* Which tile takes least, the first of equals. What is split was decided before: bits are the same
 * in every tile. */
static const bp_hopper_tile *hopper_tile(const bp_cuda_target *target, const bp_matmul_scalars *s,
                                         const matmul_shape *shape, uint64_t *blocks)
{
    const bool told = target->tile > 0 && target->tile <= BP_HOPPER_TILES;
    const bp_hopper_tile *best = &bp_hopper_tiles[told ? target->tile - 1 : 0];
    uint64_t fewest = hopper_clocks(target, s, shape, best, blocks);
    for (size_t i = 1; !told && i < BP_HOPPER_TILES; i++) {
        uint64_t other;
        const uint64_t clocks = hopper_clocks(target, s, shape, &bp_hopper_tiles[i], &other);
        if (clocks < fewest) {
            fewest = clocks;
            best = &bp_hopper_tiles[i];
            *blocks = other;
        }
    }
    return best;
}

static void begin_hopper(bp_cuda_plan *plan, const matmul_shape *shape)
{
    const bp_matmul_scalars *s = plan->op->scalars;
    uint64_t blocks;
    const bp_hopper_tile *tile = hopper_tile(plan->target, s, shape, &blocks);
    if (!bp_cuda_begin(plan, BP_CUDA_FAMILY_matmul_hopper, BP_CUDA_FUNCTION_matmul_hopper, blocks,
                       shape->splits, HOPPER_THREADS)) {
        return;
    }
    plan->launch[plan->count - 1].shared_bytes = tile->shared;
    add_parameters(plan, shape, false,
                   (tile->rows / 128 - 1) << TILE_ROWS | tile->columns / 32 << TILE_COLUMNS);
    bp_cuda_product_map(plan, BP_CUDA_POSITION(matmul, a), s->transpose_a != 0 ? s->k : s->m,
                        s->transpose_a != 0 ? s->m : s->k, s->lda);
    bp_cuda_product_map(plan, BP_CUDA_POSITION(matmul, b), s->transpose_b != 0 ? s->n : s->k,
                        s->transpose_b != 0 ? s->k : s->n, s->ldb);
}

/* The factor of the op behind a product that multiplies all of c in place; 1: there is none. */
static double factor_behind(const bp_cuda_plan *plan)
{
    const bp_matmul_scalars *s = plan->op->scalars;
    const bp_linked_op *next = plan->next;
    const uint32_t c = BP_CUDA_POSITION(matmul, c);
    const uint64_t *offsets = plan->op->offsets;
    const bool alone = s->accumulate == 0 && s->gelu == 0 && s->ldc == s->n &&
                       offsets[BP_CUDA_POSITION(matmul, bias)] == BP_OFFSET_ABSENT &&
                       offsets[BP_CUDA_POSITION(matmul, residual)] == BP_OFFSET_ABSENT &&
                       offsets[BP_CUDA_POSITION(matmul, before)] == BP_OFFSET_ABSENT;
    if (!alone || next == NULL || next->kernel != BP_KERNEL_scale || next->tuples != 1) {
        return 1.0;
    }
    const bp_scale_scalars *scale = next->scalars;
    const uint32_t y = BP_CUDA_POSITION(scale, y), x = BP_CUDA_POSITION(scale, x);
    const bool same = next->offsets[y] == offsets[c] && next->offsets[x] == offsets[c] &&
                      next->dtypes[y] == plan->op->dtypes[c] &&
                      next->dtypes[x] == plan->op->dtypes[c] && scale->count == s->m * s->n;
    return same ? scale->factor : 1.0;
}

static void plan_low(bp_cuda_plan *plan)
{
    const double factor = factor_behind(plan);
    const matmul_shape shape = {
        .depth = (uint64_t)((const bp_matmul_scalars *)plan->op->scalars)->k, .splits = 1};
    if (bp_cuda_begin(plan, BP_CUDA_FAMILY_matmul_low, BP_CUDA_FUNCTION_matmul_low,
                      low_blocks(plan->op->scalars), 1, LOW_THREADS)) {
        plan->launch[plan->count - 1].shared_bytes = LOW_SHARED;
        add_parameters(plan, &shape, false, 0);
        bp_cuda_single(plan, (float)factor);
        plan->both = factor != 1.0;
    }
}

bool bp_cuda_plan_matmul(bp_cuda_plan *plan)
{
    const bp_matmul_scalars *s = plan->op->scalars;
    if (low_fits(plan)) {
        plan_low(plan);
        return true;
    }
    matmul_shape shape = hopper_shape(s);
    const bool fits = hopper_fits(plan, &shape);
    shape = fits ? shape : shape_of(s);
    if (fits && bp_cuda_module_choose(plan->target, BP_CUDA_FAMILY_matmul_hopper, plan->dtype) !=
                    BP_CUDA_NO_MODULE) {
        begin_hopper(plan, &shape);
    } else if (begin_product(plan, &shape)) {
        add_parameters(plan, &shape, false, 0);
    } else {
        return true;
    }
    if (shape.splits > 1) {
        uint64_t groups = (uint64_t)s->m * bp_cuda_cut(s->n, 4);
        (void)bp_cuda_begin(plan, BP_CUDA_FAMILY_elementwise, BP_CUDA_FUNCTION_matmul_join,
                            bp_cuda_cut((int64_t)groups, 256), 1, 256);
        add_parameters(plan, &shape, true, 0);
    }
    return true;
}
