/* SPDX-License-Identifier: MIT */
/* The bytes of each class over one step. */
#include "tools/bedplate/planning/over_step.h"

/* The op of a column: the first of its part, or the peak where that lies in it. */
static uint32_t over_step_op(const bp_plan *plan, uint32_t column, uint32_t columns)
{
    const uint64_t ops = plan->graph.used.ops;
    const uint32_t first = (uint32_t)(ops * column / columns);
    const uint32_t next = (uint32_t)(ops * (column + 1) / columns);
    const uint32_t peak = plan->report.peak_op;
    return peak >= first && peak < next ? peak : first;
}

static uint64_t over_step_bytes(const bp_graph *graph, bp_class class_of, uint32_t op)
{
    const uint64_t alignment = bp_graph_alignment(graph);
    uint64_t bytes = 0;
    for (uint32_t i = BP_NO_BUFFER + 1; i < graph->used.buffers; i++) {
        const bp_buffer *b = &graph->buffers[i];
        if (b->class_of == class_of && b->space == BP_SPACE_DEVICE && b->lower <= op &&
            op < b->upper) {
            bytes += bp_size_align(b->bytes, alignment);
        }
    }
    return bytes;
}

void over_step_put(json_line *line, const bp_plan *plan)
{
    const bp_graph *graph = &plan->graph;
    const uint32_t ops = graph->used.ops;
    const uint32_t columns = ops < OVER_STEP_COLUMNS ? ops : OVER_STEP_COLUMNS;
    line_open(line, "over_step");
    line_list(line, "op");
    for (uint32_t i = 0; i < columns; i++) {
        line_count(line, NULL, over_step_op(plan, i, columns));
    }
    line_list_close(line);
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        if (plan->report.class_most[c] == 0) {
            continue;
        }
        line_list(line, bp_class_name((bp_class)c));
        for (uint32_t i = 0; i < columns; i++) {
            line_count(line, NULL,
                       over_step_bytes(graph, (bp_class)c, over_step_op(plan, i, columns)));
        }
        line_list_close(line);
    }
    line_close(line);
}
