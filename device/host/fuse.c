/* SPDX-License-Identifier: MIT */
/* Which products can be joined. */
#include "device/host/fuse.h"

#include "device/host/matmul/matmul_pack.h"

/* Bytes first .. last - 1 of a memory space; places of other spaces are other numbers. */
typedef struct join_range {
    uint64_t first;
    uint64_t last;
    bp_access access;
} join_range;

typedef struct fuse_op {
    uint32_t count;
    join_range range[BP_OPERANDS_MAX];
} fuse_op;

/* Where the operands of a plain op lie. */
static fuse_op fuse_ranges(const bp_linked_op *op, bp_fuse_workspace *workspace,
                           const void *context)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    bp_extent extents[BP_OPERANDS_MAX];
    fuse_op to = {.count = info->operand_count};
    info->extents(op->scalars, extents);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        const bp_operand_info *operand = &info->operand[i];
        size_t element = bp_operand_element_bytes(operand->type, (bp_dtype)op->dtypes[i]);
        uint64_t bytes =
            operand->workspace ? workspace(context, op) : bp_extent_bytes(&extents[i], element);
        bool there = op->offsets[i] != BP_OFFSET_ABSENT;
        to.range[i].access = operand->workspace ? BP_ACCESS_SCRATCH : extents[i].access;
        to.range[i].first = there ? op->offsets[i] : 0;
        to.range[i].last = there ? op->offsets[i] + bytes : 0;
    }
    return to;
}

static bool join_meet(const join_range *x, const join_range *y)
{
    return x->first < y->last && y->first < x->last;
}

/* Takes out of a workspace what another op writes: the larger end is left. */
static void join_cut(join_range *work, const join_range *written)
{
    if (!join_meet(work, written)) {
        return;
    }
    uint64_t low = written->first > work->first ? written->first - work->first : 0;
    uint64_t high = work->last > written->last ? work->last - written->last : 0;
    if (high >= low) {
        work->first = work->last - high;
    } else {
        work->last = work->first + low;
    }
}

/* Whether the first op can be done after the other one instead of before it. */
static bool fuse_pass(fuse_op *first, const fuse_op *other)
{
    for (uint32_t i = 0; i < first->count; i++) {
        join_range *x = &first->range[i];
        for (uint32_t j = 0; j < other->count; j++) {
            const join_range *y = &other->range[j];
            if (x->access == BP_ACCESS_SCRATCH) {
                if (y->access != BP_ACCESS_SCRATCH) {
                    join_cut(x, y);
                }
            } else if ((x->access != BP_ACCESS_READ || y->access != BP_ACCESS_READ) &&
                       join_meet(x, y)) {
                return false;
            }
        }
    }
    return true;
}

/* A product of low rank that is added to c. */
static bool fuse_adds(const bp_linked_op *op)
{
    const bp_matmul_scalars *s = op->scalars;
    return op->kernel == BP_KERNEL_matmul && op->tuples == 1 && s->accumulate != 0 &&
           s->transpose_a == 0 && s->k > 0 && s->k <= BP_JOIN_RANK_MOST && s->m > 1;
}

/* The product that makes just this c, and nothing else of its rows afterwards. */
static bool fuse_makes(const bp_linked_op *op, const bp_linked_op *adds)
{
    const bp_matmul_scalars *t = adds->scalars;
    if (op->kernel == BP_KERNEL_matmul_quantised) {
        const bp_matmul_quantised_scalars *s = op->scalars;
        return s->m == t->m && s->n == t->n && s->ldc == t->ldc && s->gelu == 0 &&
               s->accumulate == 0 && op->dtypes[0] == adds->dtypes[0] &&
               op->dtypes[2] == adds->dtypes[2];
    }
    const bp_matmul_scalars *s = op->scalars;
    return op->kernel == BP_KERNEL_matmul && s->m == t->m && s->n == t->n && s->ldc == t->ldc &&
           s->gelu == 0 && s->transpose_a == 0 && s->accumulate == 0 &&
           op->dtypes[0] == adds->dtypes[0] && op->dtypes[2] == adds->dtypes[2];
}

/* How many ops before op number `at` the product stands that it adds to; 0: there is none near. */
static uint32_t join_before(const bp_linked_program *program, uint32_t at)
{
    const bp_linked_op *adds = &program->ops[at];
    for (uint32_t back = 1; fuse_adds(adds) && back <= BP_FUSE_REACH && back <= at; back++) {
        const bp_linked_op *op = &program->ops[at - back];
        if (op->tuples != 1 || bp_kernel_describe(op->kernel)->pending != BP_PENDING_NONE) {
            return 0;
        }
        if (op->offsets[0] == adds->offsets[0] && fuse_makes(op, adds)) {
            return back;
        }
    }
    return 0;
}

/* The product's left factor, and where it is. */
typedef struct fuse_left {
    uint64_t place;
    int64_t m;
    int64_t k;
    int64_t lda;
} fuse_left;

static fuse_left fuse_left_of(const bp_linked_op *op)
{
    if (op->kernel == BP_KERNEL_matmul_quantised) {
        const bp_matmul_quantised_scalars *s = op->scalars;
        return (fuse_left){op->offsets[2], s->m, s->k, s->lda};
    }
    const bp_matmul_scalars *s = op->scalars;
    return (fuse_left){op->offsets[2], s->m, s->k, s->lda};
}

/* Whether an op is u = x A^T or u = x A in fp32, with nothing beside it, for a product that reads x
 * and one that adds what u makes. */
static bool fuse_low_rank(const bp_linked_op *op, const fuse_left *left, const bp_linked_op *adds)
{
    const bp_matmul_scalars *s = op->scalars, *t = adds->scalars;
    const uint64_t absent = BP_OFFSET_ABSENT;
    if (op->kernel != BP_KERNEL_matmul || op->dtypes[0] != BP_F32 || op->dtypes[2] != BP_F32) {
        return false;
    }
    const bool alone = op->offsets[1] == absent && op->offsets[4] == absent &&
                       op->offsets[5] == absent && s->gelu == 0 && s->accumulate == 0;
    const bool reads = s->transpose_a == 0 && op->offsets[2] == left->place && s->m == left->m &&
                       s->k == left->k && s->k > 0 && s->lda == left->lda;
    return alone && reads && op->offsets[0] == adds->offsets[2] && s->n == t->k && s->ldc == t->lda;
}

/* Whether an op multiplies all of u, which has no gaps, by a factor. */
static bool join_scales(const bp_linked_op *op, const bp_linked_op *adds)
{
    const bp_matmul_scalars *t = adds->scalars;
    const bp_scale_scalars *s = op->scalars;
    return op->kernel == BP_KERNEL_scale && op->offsets[0] == adds->offsets[2] &&
           op->offsets[1] == adds->offsets[2] && s->count == t->m * t->k && t->lda == t->k;
}

/* bp_fusion.squeezed. Few rows would not be shared out evenly. Ops between have one tuple each
 * (join_before); where there is none, what is looked at is the one that adds, which makes no u. */
static uint32_t fuse_low_rank_ops(const bp_linked_program *program, uint32_t at, uint32_t before,
                                  uint32_t threads)
{
    const bp_linked_op *adds = &program->ops[at], *makes = &program->ops[at - before];
    const fuse_left left = fuse_left_of(makes);
    const bool shared = threads == 1 || left.m >= (int64_t)(4 * BP_FUSE_ROWS * threads);
    if (!shared || before > 3 || !fuse_low_rank(makes + 1, &left, adds)) {
        return 0;
    }
    return before == 2 || join_scales(makes + 2, adds) ? before - 1 : 0;
}

bp_fusion bp_host_fuse(const bp_linked_program *program, uint32_t at, uint32_t threads,
                       bp_fuse_workspace *workspace, const void *context)
{
    const bp_fusion apart = {0};
    uint32_t before = join_before(program, at);
    if (before == 0) {
        return apart;
    }
    const bp_linked_op *makes = &program->ops[at - before];
    fuse_op maker = fuse_ranges(makes, workspace, context);
    for (uint32_t i = at - before + 1; i < at; i++) {
        const fuse_op other = fuse_ranges(&program->ops[i], workspace, context);
        if (!fuse_pass(&maker, &other)) {
            return apart;
        }
    }
    /* The last operand of both rows is their workspace. */
    const join_range *work = &maker.range[maker.count - 1];
    uint64_t first = bp_size_align(work->first, BP_MATMUL_WORK_ALIGNMENT);
    uint64_t bytes = work->last > first ? work->last - first : 0;
    bool fits =
        bp_matmul_fits(makes->kernel, makes->scalars, makes->dtypes,
                       bytes / threads / BP_MATMUL_WORK_ALIGNMENT * BP_MATMUL_WORK_ALIGNMENT);
    return fits ? (bp_fusion){before, first, bytes, fuse_low_rank_ops(program, at, before, threads)}
                : apart;
}
