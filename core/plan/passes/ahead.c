/* SPDX-License-Identifier: MIT */
/* Weights are gathered ahead of their use: what a program begins and waits for at once is begun
 * earlier, beside the ops that use the weights before.
 *
 * Ops are written in the order in which parameters are acquired, and nobody knows then what comes
 * next. So the ops that begin a gather move once a program is written: to behind the wait of the
 * gather `depth` before it. Where a weight has been updated before in the program, as happens slice
 * by slice, its gather stays. All ranks have the same order of gathers. */
#include <string.h>

#include "core/plan/compile_private.h"

static void op_move(bp_op *ops, uint32_t from, uint32_t to)
{
    const bp_op op = ops[from];
    memmove(&ops[to + 1], &ops[to], (from - to) * sizeof op);
    ops[to] = op;
}

static bool waits_for(const bp_graph *graph, const uint8_t *pending, uint32_t at, int64_t request)
{
    const bp_op *op = &graph->ops[at];
    return pending[op->kernel] == BP_PENDING_WAIT && graph->scalars[op->scalar].integer == request;
}

/* The wait of a request, among the ops of [from, to), which is looked for from `from` and from
 * `middle` on at the same time: it lies shortly behind one of them. `to`: there is none. */
static uint32_t find_wait(const bp_graph *graph, const uint8_t *pending, int64_t request,
                          uint32_t from, uint32_t middle, uint32_t to)
{
    uint32_t first = from, second = middle;
    while (first < middle || second < to) {
        if (second < to && waits_for(graph, pending, second, request)) {
            return second;
        }
        if (first < middle && waits_for(graph, pending, first, request)) {
            return first;
        }
        second += second < to ? 1 : 0;
        first += first < middle ? 1 : 0;
    }
    return to;
}

/* Requests count begins: in the new order, from the op `first` on. A new number is kept as its
 * negative until every wait has its own. What kernels do is looked up in a table of a byte each. A
 * wait is looked for behind the one that was found last for a begin of the same kind that writes to
 * the same space, since these are mostly waited for in their order, and behind its begin. */
void compile_ahead_number(bp_graph *graph, uint32_t first, uint32_t end)
{
    uint8_t pending[BP_KERNEL_COUNT];
    uint32_t found[BP_SPACE_COUNT] = {0};
    int64_t next = 0;
    for (uint32_t i = 0; i < BP_KERNEL_COUNT; i++) {
        pending[i] = (uint8_t)bp_kernel_describe((bp_kernel)i)->pending;
    }
    for (uint32_t i = first; i < end; i++) {
        const bp_op *op = &graph->ops[i];
        bp_scalar *request = &graph->scalars[op->scalar];
        if (pending[op->kernel] != BP_PENDING_BEGIN) {
            continue;
        }
        uint32_t *last = &found[graph->buffers[graph->refs[op->operand].buffer].space];
        const uint32_t from = *last > i + 1 ? *last : i + 1;
        const uint32_t wait = find_wait(graph, pending, request->integer, i + 1, from, end);
        if (wait < end) {
            graph->scalars[graph->ops[wait].scalar].integer = -1 - next;
            *last = wait + 1;
        }
        request->integer = -1 - next++;
    }
    for (uint32_t i = first; i < end; i++) {
        bp_scalar *request = &graph->scalars[graph->ops[i].scalar];
        if (pending[graph->ops[i].kernel] != BP_PENDING_NONE) {
            request->integer = -1 - request->integer;
        }
    }
}

static void ahead_program(bp_graph *graph, uint32_t first, uint32_t end, uint32_t depth)
{
    uint32_t waited[BP_AHEAD_MOST] = {0}; /* behind the wait of each of the last gathers */
    uint32_t gathers = 0;
    for (uint32_t i = first; i < end; i++) {
        if (graph->ops[i].brings == BP_NO_BUFFER) {
            continue;
        }
        if (gathers > 0) {
            const uint32_t back = gathers < depth ? gathers : depth;
            const uint32_t to = waited[(gathers - back) % depth];
            op_move(graph->ops, i, to);
            for (uint32_t k = 0; k < depth; k++) {
                waited[k] += waited[k] >= to ? 1 : 0; /* what lay there went back */
            }
        }
        waited[gathers++ % depth] = i + 2;
    }
    compile_ahead_number(graph, first, end);
}

void compile_gather_ahead(bp_graph *graph, const bp_spec *spec)
{
    if (spec->gather_ahead == 0 || spec->ranks < 2 || spec->sharing != BP_SHARING_PARAMETERS) {
        return;
    }
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        const uint32_t first = graph->program_first[p];
        ahead_program(graph, first, first + graph->program_count[p], spec->gather_ahead);
    }
}
