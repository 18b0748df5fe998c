/* SPDX-License-Identifier: MIT */
/* Control-flow graph of a function and the immediate post-dominator of every branch (Cooper,
 * Harvey, Kennedy: "A Simple, Fast Dominance Algorithm", run on the reversed graph). Guarded exits
 * count as falling through: lanes that leave do not keep the others from meeting. */
#include <stdlib.h>

#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/text/parse.h"

typedef struct graph {
    const vm_function *function;
    uint32_t blocks;      /* the virtual exit is the last one */
    uint32_t *block_of;   /* per instruction */
    uint32_t *last;       /* per block: its last instruction */
    uint32_t *first;      /* per block */
    uint32_t *edges;      /* successors, block after block */
    uint32_t *edge_start; /* blocks + 1 */
    uint32_t *back;       /* predecessors */
    uint32_t *back_start;
    uint32_t *order; /* post-order number from the exit on reversed edges; 0 unreached */
    uint32_t *by_order;
    uint32_t reached;
    uint32_t *dominator;
} graph;

static bool ends_block(const vm_insn *in)
{
    return in->sync == SY_BRANCH || in->sync == SY_RETURN || in->sync == SY_EXIT;
}

static void find_blocks(graph *g)
{
    const vm_function *function = g->function;
    uint32_t count = function->insn_count;
    uint8_t *leader = vm_allocate(count + 1);
    leader[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
        const vm_insn *in = &function->insns[i];
        if (ends_block(in)) {
            leader[i + 1] = 1;
        }
        if (in->sync == SY_BRANCH && in->operands == 0) {
            leader[in->target] = 1;
        }
        if (in->sync == SY_BRANCH && in->operands != 0) {
            const int32_t *table = &function->targets[in->target];
            for (int32_t k = 1; k <= table[0]; k++) {
                leader[table[k]] = 1;
            }
        }
    }
    g->block_of = vm_allocate((count + 1) * sizeof(uint32_t));
    g->last = vm_allocate((count + 2) * sizeof(uint32_t));
    g->first = vm_allocate((count + 2) * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        if (leader[i] != 0) {
            g->first[g->blocks++] = i;
        }
        g->block_of[i] = g->blocks - 1;
        g->last[g->blocks - 1] = i;
    }
    g->blocks++; /* the exit */
    free(leader);
}

/* Appends the successors of a block to `to` (when not NULL); returns how many. */
static uint32_t successors(const graph *g, uint32_t block, uint32_t *to)
{
    const vm_function *function = g->function;
    uint32_t exit = g->blocks - 1;
    uint32_t scratch[2];
    uint32_t *out = to != NULL ? to : scratch;
    uint32_t count = 0;
    const vm_insn *in = &function->insns[g->last[block]];
    uint32_t next =
        g->last[block] + 1 < function->insn_count ? g->block_of[g->last[block] + 1] : exit;
    if (in->sync == SY_BRANCH && in->operands != 0) {
        const int32_t *table = &function->targets[in->target];
        for (int32_t k = 1; k <= table[0]; k++) {
            if (to != NULL) {
                to[count] = g->block_of[table[k]];
            }
            count++;
        }
        return count;
    }
    if (in->sync == SY_BRANCH) {
        out[count++] = g->block_of[in->target];
        if (in->guard >= 0) {
            out[count++] = next;
        }
        return count;
    }
    bool leaves = in->sync == SY_RETURN || in->sync == SY_EXIT;
    out[count++] = leaves && in->guard < 0 ? exit : next;
    return count;
}

static void find_edges(graph *g)
{
    uint32_t exit = g->blocks - 1;
    g->edge_start = vm_allocate((g->blocks + 1) * sizeof(uint32_t));
    g->back_start = vm_allocate((g->blocks + 2) * sizeof(uint32_t));
    uint32_t total = 0;
    for (uint32_t b = 0; b < exit; b++) {
        g->edge_start[b] = total;
        total += successors(g, b, NULL);
    }
    g->edge_start[exit] = total;
    g->edge_start[g->blocks] = total;
    g->edges = vm_allocate((total + 1) * sizeof(uint32_t));
    g->back = vm_allocate((total + 1) * sizeof(uint32_t));
    for (uint32_t b = 0; b < exit; b++) {
        successors(g, b, g->edges + g->edge_start[b]);
    }
    for (uint32_t e = 0; e < total; e++) {
        g->back_start[g->edges[e] + 2]++;
    }
    for (uint32_t b = 2; b < g->blocks + 1; b++) {
        g->back_start[b] += g->back_start[b - 1];
    }
    for (uint32_t b = 0; b < exit; b++) {
        for (uint32_t e = g->edge_start[b]; e < g->edge_start[b + 1]; e++) {
            g->back[g->back_start[g->edges[e] + 1]++] = b;
        }
    }
}

/* Depth first along reversed edges from the exit, without recursion. */
static void number_blocks(graph *g)
{
    uint32_t *stack = vm_allocate(g->blocks * sizeof(uint32_t));
    uint32_t *cursor = vm_allocate(g->blocks * sizeof(uint32_t));
    uint8_t *seen = vm_allocate(g->blocks);
    g->order = vm_allocate(g->blocks * sizeof(uint32_t));
    g->by_order = vm_allocate((g->blocks + 1) * sizeof(uint32_t));
    uint32_t depth = 1;
    stack[0] = g->blocks - 1;
    seen[stack[0]] = 1;
    while (depth > 0) {
        uint32_t block = stack[depth - 1];
        uint32_t begin = g->back_start[block];
        uint32_t end = g->back_start[block + 1];
        if (begin + cursor[block] < end) {
            uint32_t before = g->back[begin + cursor[block]++];
            if (seen[before] == 0) {
                seen[before] = 1;
                stack[depth++] = before;
            }
        } else {
            g->order[block] = ++g->reached;
            g->by_order[g->reached] = block;
            depth--;
        }
    }
    free(stack);
    free(cursor);
    free(seen);
}

static uint32_t intersect(const graph *g, uint32_t a, uint32_t b)
{
    while (a != b) {
        while (g->order[a] < g->order[b]) {
            a = g->dominator[a];
        }
        while (g->order[b] < g->order[a]) {
            b = g->dominator[b];
        }
    }
    return a;
}

static void find_dominators(graph *g)
{
    uint32_t none = g->blocks;
    g->dominator = vm_allocate(g->blocks * sizeof(uint32_t));
    for (uint32_t b = 0; b < g->blocks; b++) {
        g->dominator[b] = none;
    }
    g->dominator[g->blocks - 1] = g->blocks - 1;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t n = g->reached - 1; n > 0; n--) {
            uint32_t block = g->by_order[n];
            uint32_t found = none;
            for (uint32_t e = g->edge_start[block]; e < g->edge_start[block + 1]; e++) {
                uint32_t next = g->edges[e];
                if (g->dominator[next] != none) {
                    found = found == none ? next : intersect(g, next, found);
                }
            }
            changed = changed || g->dominator[block] != found;
            g->dominator[block] = found;
        }
    }
}

void vm_flow_analyse(vm_function *function)
{
    graph g;
    memset(&g, 0, sizeof g);
    g.function = function;
    find_blocks(&g);
    find_edges(&g);
    number_blocks(&g);
    find_dominators(&g);
    for (uint32_t i = 0; i < function->insn_count; i++) {
        vm_insn *in = &function->insns[i];
        if (in->sync != SY_BRANCH) {
            continue;
        }
        uint32_t meeting = g.dominator[g.block_of[i]];
        in->join = meeting < g.blocks - 1 ? (int32_t)g.first[meeting] : VM_NO_PC;
    }
    free(g.block_of);
    free(g.last);
    free(g.first);
    free(g.edges);
    free(g.edge_start);
    free(g.back);
    free(g.back_start);
    free(g.order);
    free(g.by_order);
    free(g.dominator);
}
