/* SPDX-License-Identifier: MIT */
/* Sums over lanes, as one tree (core/plan/passes/virtual_ranks.h). */
#include <string.h>

#include "core/ir/step.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

#define TREE_LEVELS 11 /* of 1024 pieces */
#define TREE_BLOCK  256

static uint64_t add_tasks(const void *scalars)
{
    const bp_tree_add_scalars *s = scalars;
    return bp_cut(s->count + s->pad, BP_RUN_ELEMENTS);
}

/* y = x + z; z is NULL, or y itself at most. */
static void add_floats(float *y, const float *x, const float *z, uint64_t count)
{
    if (z == NULL) {
        memcpy(y, x, count * sizeof *y);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        y[i] = x[i] + z[i];
    }
}

static void add_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_tree_add_scalars *s = call->scalars;
    const bp_tree_add_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, 1);
    const uint64_t count = (uint64_t)s->count, all = count + (uint64_t)s->pad;
    const uint64_t begin = first * BP_RUN_ELEMENTS, end = bp_least(all, last * BP_RUN_ELEMENTS);
    float *y = p->y;
    const float *z = p->z;
    for (uint64_t i = begin; i < end; i += TREE_BLOCK) {
        const uint64_t part = bp_least(end - i, TREE_BLOCK);
        float x[TREE_BLOCK];
        for (uint64_t e = 0; e < part; e++) {
            x[e] = i + e < count ? bp_element_load(p->x, i + e, type) : 0.0f;
        }
        add_floats(y + i, x, z != NULL ? z + i : NULL, part);
    }
}

static uint64_t sum_tasks(const void *scalars)
{
    const bp_tree_sum_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* The tree over the pieces of a block: a stack of finished subtrees, as a binary counter has them.
 */
static void sum_block(float *y, const float *x, uint64_t pitch, uint64_t pieces, uint64_t count)
{
    float stack[TREE_LEVELS][TREE_BLOCK];
    for (uint64_t piece = 0; piece < pieces; piece++) {
        uint32_t level = 0;
        while ((piece >> level & 1) != 0) {
            level++;
        }
        float *to = stack[level];
        memcpy(to, x + piece * pitch, count * sizeof *to);
        for (uint32_t l = 0; l < level; l++) {
            for (uint64_t i = 0; i < count; i++) {
                to[i] = stack[l][i] + to[i];
            }
        }
        if (piece + 1 == pieces) {
            memcpy(y, to, count * sizeof *y);
        }
    }
}

static void sum_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_tree_sum_scalars *s = call->scalars;
    const bp_tree_sum_pointers *p = call->pointers;
    const uint64_t count = (uint64_t)s->count;
    const uint64_t end = bp_least(count, last * BP_RUN_ELEMENTS);
    float *y = p->y;
    const float *x = p->x;
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i += TREE_BLOCK) {
        sum_block(y + i, x + i, count, (uint64_t)s->pieces, bp_least(end - i, TREE_BLOCK));
    }
}

static uint64_t loss_tasks(const void *scalars)
{
    (void)scalars;
    return 1;
}

static void loss_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)first;
    (void)last;
    (void)worker;
    const bp_loss_tree_scalars *s = call->scalars;
    const bp_loss_tree_pointers *p = call->pointers;
    const bp_result_block *blocks = p->blocks;
    double stack[TREE_LEVELS], sum = 0.0;
    for (uint64_t lane = 0; lane < (uint64_t)s->lanes; lane++) {
        uint32_t level = 0;
        sum = blocks[lane].loss_sum;
        for (; (lane >> level & 1) != 0; level++) {
            sum = stack[level] + sum;
        }
        stack[level] = sum;
    }
    bp_result_block *result = p->result;
    memset(result, 0, sizeof *result);
    result->loss_sum = sum;
}

const bp_host_kernel bp_host_tree_add = {add_tasks, add_run, NULL};
const bp_host_kernel bp_host_tree_sum = {sum_tasks, sum_run, NULL};
const bp_host_kernel bp_host_loss_tree = {loss_tasks, loss_run, NULL};
