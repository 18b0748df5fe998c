/* SPDX-License-Identifier: MIT */
/* Squares for the gradient norm in vectors: the operations of norm.c. Included after a vector
 * header, once per form. */
#include "device/host/vector/element_vector.h"
#include "device/host/isa.h"
#include "device/host/vector/lanes.h"

static uint64_t norm_tasks(const void *scalars)
{
    const bp_norm_partial_scalars *s = scalars;
    return bp_cut(s->count, (uint64_t)s->chunk);
}

/* The sum of squares of elements from .. from + count - 1 of x. */
static inline double square_sum(const void *x, uint64_t from, uint64_t count, bp_dtype type)
{
    bp_v_double sum = bp_v_double_zero();
    double lane[BP_LANES];
    uint64_t i = 0;
    for (; i + BP_V <= count; i += BP_V) {
        bp_v value = bp_v_load_as(x, from + i, type, bp_part_whole());
        sum = bp_v_double_add_square(sum, value, bp_part_whole());
    }
    bp_part rest = bp_part_first(count - i);
    sum = bp_v_double_add_square(sum, bp_v_load_as(x, from + i, type, rest), rest);
    bp_v_double_spill(sum, lane);
    return bp_lanes_sum_double(lane);
}

/* With the type known in each loop. */
static double square_sum_of(const void *x, uint64_t from, uint64_t count, bp_dtype type)
{
    switch (type) {
    case BP_BF16:
        return square_sum(x, from, count, BP_BF16);
    case BP_F16:
        return square_sum(x, from, count, BP_F16);
    default:
        return square_sum(x, from, count, BP_F32);
    }
}

static void norm_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_norm_partial_scalars *s = call->scalars;
    const bp_norm_partial_pointers *p = call->pointers;
    for (uint64_t task = first; task < last; task++) {
        uint64_t from = task * (uint64_t)s->chunk;
        uint64_t count = bp_least((uint64_t)s->count - from, (uint64_t)s->chunk);
        ((double *)p->partials)[task] = square_sum_of(p->x, from, count, bp_call_type(call, 1));
    }
}

const bp_host_kernel BP_ISA(bp_norm_partial) = {norm_tasks, norm_run, NULL};
