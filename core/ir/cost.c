/* SPDX-License-Identifier: MIT */
/* Counted costs of ops. */
#include "core/ir/cost.h"

#include <math.h>

static double matmul_flops(const bp_matmul_scalars *s)
{
    return 2.0 * (double)s->m * (double)s->n * (double)s->k;
}

static double quantised_flops(const bp_matmul_quantised_scalars *s)
{
    return 2.0 * (double)s->m * (double)s->n * (double)s->k;
}

static double experts_quantised_flops(const bp_matmul_experts_quantised_scalars *s)
{
    return 2.0 * (double)s->rows * (double)s->top * (double)s->n * (double)s->k;
}

static double experts_flops(const bp_matmul_experts_scalars *s)
{
    return 2.0 * (double)s->rows * (double)s->top * (double)s->n * (double)s->k;
}

/* Each of `products` products of a (T, D) by a (D, T) matrix per head, half of it masked away when
 * causal. */
static double attention_flops(const bp_attention_forward_scalars *s, double products)
{
    const bool causal = s->causal != 0;
    double pairs = (double)s->sequence * (double)s->sequence * (causal ? 0.5 : 1.0);
    if (s->window > 0) {
        const double near = (double)s->window;
        pairs = fmin(pairs, (double)s->sequence * (causal ? near : 2.0 * near - 1.0));
    }
    return 2.0 * products * pairs * (double)s->batch * (double)s->heads * (double)s->head_width;
}

/* Likewise, of some rows of a head; documents count as one. */
static double strip_flops(const bp_attention_strip_forward_scalars *s, double products)
{
    const double sequence = (double)s->sequence, rows = (double)s->rows;
    const double before = s->sequence > 0 ? (double)(s->first % s->sequence) : 0.0;
    const double near = s->window > 0 ? (double)s->window : sequence;
    const double keys = before + rows > sequence ? 0.5 * sequence : before + 0.5 * rows;
    return 2.0 * products * rows * fmin(keys, near) * (double)s->head_width;
}

/* Likewise, of queries with other rows. */
static double cross_flops(const bp_attention_cross_forward_scalars *s, double products)
{
    const double pairs = (double)s->sequence * (double)s->keys;
    return 2.0 * products * pairs * (double)s->batch * (double)s->heads * (double)s->head_width;
}

/* Likewise, where pairs have products with their positions too. */
static double disentangled_flops(const bp_attention_disentangled_forward_scalars *s,
                                 double products)
{
    const double pairs = (double)s->sequence * (double)s->sequence;
    return 2.0 * products * pairs * (double)s->batch * (double)s->heads * (double)s->head_width;
}

static double tuple_flops(bp_kernel kernel, const void *scalars)
{
    if (kernel == BP_KERNEL_matmul || kernel == BP_KERNEL_matmul_fp8) { /* the same scalars */
        return matmul_flops(scalars);
    }
    if (kernel == BP_KERNEL_matmul_quantised) {
        return quantised_flops(scalars);
    }
    if (kernel == BP_KERNEL_matmul_experts || kernel == BP_KERNEL_matmul_experts_sums) {
        return experts_flops(scalars); /* both rows have as many */
    }
    if (kernel == BP_KERNEL_matmul_experts_quantised) {
        return experts_quantised_flops(scalars);
    }
    if (kernel == BP_KERNEL_attention_forward || kernel == BP_KERNEL_attention_packed_forward ||
        kernel == BP_KERNEL_attention_biased_forward) {
        return attention_flops(scalars, 2.0);
    }
    if (kernel == BP_KERNEL_attention_backward || kernel == BP_KERNEL_attention_packed_backward ||
        kernel == BP_KERNEL_attention_biased_backward ||
        kernel == BP_KERNEL_attention_backward_over) {
        return attention_flops(scalars, 5.0); /* all rows have the same scalars */
    }
    if (kernel == BP_KERNEL_attention_strip_forward) {
        return strip_flops(scalars, 2.0);
    }
    if (kernel == BP_KERNEL_attention_strip_backward) {
        return strip_flops(scalars, 5.0); /* its scalars begin like those */
    }
    if (kernel == BP_KERNEL_attention_cross_forward) {
        return cross_flops(scalars, 2.0);
    }
    if (kernel == BP_KERNEL_attention_cross_backward) {
        return cross_flops(scalars, 5.0); /* the same scalars */
    }
    if (kernel == BP_KERNEL_attention_disentangled_forward) {
        return disentangled_flops(scalars, 4.0);
    }
    if (kernel == BP_KERNEL_attention_disentangled_backward) {
        return disentangled_flops(scalars, 11.0); /* the same scalars */
    }
    return 0.0;
}

/* Bytes that come from other ranks: all pieces but this rank's own; a root gets none, yet every
 * rank has the same program, so that a broadcast counts as one that is received. */
static double fabric_bytes(bp_kernel kernel, const void *scalars)
{
    const bp_all_gather_begin_scalars *s = scalars; /* the first of each of these rows */
    if (kernel == BP_KERNEL_broadcast_begin) {
        return s->ranks > 1 ? (double)s->bytes : 0.0;
    }
    if (kernel == BP_KERNEL_gather_pieces_begin) {
        const bp_gather_pieces_begin_scalars *pieces = scalars;
        return (double)(pieces->whole - pieces->bytes);
    }
    return (double)(s->ranks - 1) * (double)s->bytes;
}

/* A begin; flights are no lists. */
static bp_cost pending_cost(const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const void *scalars = graph->scalars + op->scalar;
    const bp_copy_begin_scalars *s = scalars;
    bp_cost cost = {0};
    if (info->pending == BP_PENDING_BEGIN && info->engine == BP_ENGINE_COPY) {
        cost.copy_bytes = (double)s->rows * (double)s->width;
    } else if (info->pending == BP_PENDING_BEGIN) {
        cost.fabric_bytes = fabric_bytes(op->kernel, scalars);
    }
    return cost;
}

bp_cost bp_cost_op(const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    bp_cost cost = {0};
    if (info->pending != BP_PENDING_NONE) {
        return pending_cost(graph, op);
    }
    for (uint32_t t = 0; t < op->tuples; t++) {
        const bp_ref *refs = graph->refs + op->operand + t * info->operand_count;
        const void *scalars = graph->scalars + op->scalar + t * info->scalar_count;
        bp_extent extents[BP_OPERANDS_MAX];
        info->extents(scalars, extents);
        cost.flops += tuple_flops(op->kernel, scalars);
        for (uint32_t i = 0; i < info->operand_count; i++) {
            if (bp_ref_present(refs[i])) {
                size_t size = bp_operand_element_bytes(info->operand[i].type, refs[i].dtype);
                cost.bytes += (double)bp_extent_bytes(&extents[i], size);
            }
        }
    }
    return cost;
}

bp_cost bp_cost_total(const bp_graph *graph, bp_program_kind program)
{
    bp_cost total = {0};
    for (uint32_t i = 0; i < graph->program_count[program]; i++) {
        bp_cost cost = bp_cost_op(graph, &graph->ops[graph->program_first[program] + i]);
        total.flops += cost.flops;
        total.bytes += cost.bytes;
        total.copy_bytes += cost.copy_bytes;
        total.fabric_bytes += cost.fabric_bytes;
    }
    return total;
}

double bp_cost_seconds(bp_cost cost, const bp_rates *rates)
{
    double computing = cost.flops / rates->flops_per_second;
    double moving = cost.bytes / rates->bytes_per_second;
    return computing > moving ? computing : moving;
}

double bp_cost_program(const bp_graph *graph, bp_program_kind program, const bp_rates *rates)
{
    double seconds = 0.0;
    for (uint32_t i = 0; i < graph->program_count[program]; i++) {
        const bp_op *op = &graph->ops[graph->program_first[program] + i];
        seconds += bp_cost_seconds(bp_cost_op(graph, op), rates);
    }
    return seconds;
}
