/* SPDX-License-Identifier: MIT */
/* List ops tuple by tuple: the newest op's operands and scalars are the last rows of their tables,
 * so a further tuple is appended behind them. */
#include "core/compile/list.h"

#include <string.h>

static bp_status full(const bp_emit *emit, const char *table, uint32_t used, uint32_t limit)
{
    return bp_error_numbers(emit->graph->error, BP_ERR_FIT, "list", "a table of the plan is full",
                            table, (int64_t)used, (int64_t)limit);
}

void bp_emit_tuple(bp_emit *emit, const bp_ref *refs, const void *scalars)
{
    if (emit->status != BP_OK) {
        return;
    }
    bp_graph *graph = emit->graph;
    bp_op *op = &graph->ops[graph->used.ops - 1];
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    if (info->operand_count > graph->limit.refs - graph->used.refs) {
        emit->status = full(emit, "refs", graph->used.refs, graph->limit.refs);
        return;
    }
    if (info->scalar_count > graph->limit.scalars - graph->used.scalars) {
        emit->status = full(emit, "scalars", graph->used.scalars, graph->limit.scalars);
        return;
    }
    memcpy(graph->refs + graph->used.refs, refs, info->operand_count * sizeof(bp_ref));
    memcpy(graph->scalars + graph->used.scalars, scalars, info->scalar_count * sizeof(bp_scalar));
    graph->used.refs += info->operand_count;
    graph->used.scalars += info->scalar_count;
    op->tuples++;
}
