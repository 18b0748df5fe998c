/* SPDX-License-Identifier: MIT */
/* Executing a graph that is not the one its runtime planned. */
#ifndef BP_TESTS_SUPPORT_MUTANT_RUN_H
#define BP_TESTS_SUPPORT_MUTANT_RUN_H

#include "tests/support/rig.h"

/* Memory that runs of mutants share: the arena ends where no page is. */
typedef struct mutant_room {
    unsigned char *arena_end;
    uint64_t arena_bytes;
    void *link;
    void *device;
    void *scratch; /* for verifying and planning */
    uint64_t scratch_bytes;
    uint64_t link_bytes;
} mutant_room;

void mutant_room_open(mutant_room *room, const rig *r);
void mutant_room_close(mutant_room *room);

/* Verifies a graph, plans it, and verifies the plan, as bp_runtime_plan does. The graph's error
 * says why it is refused. */
bp_status mutant_verify(mutant_room *room, const rig *r, bp_graph *graph, bp_report *report);

/* What a run computed: losses, norms, logits, and all persistent buffers in name order. */
typedef struct mutant_trace {
    double *values;
    uint32_t count;
    uint32_t room;
    struct {
        uint32_t first; /* value */
        double bound;   /* how far golden tests let such values be off, in their largest */
    } * part;
    uint32_t parts;
} mutant_trace;

void mutant_trace_free(mutant_trace *trace);

/* Links the planned graph and executes what a run executes, in poison mode: initialisation, groups,
 * evaluation, generation. The trace, zeros at first, is filled anew. */
bp_status mutant_execute(mutant_room *room, const rig *r, const bp_graph *graph,
                         const bp_report *report, mutant_trace *trace);

/* Whether two traces hold the same bits, and whether they are as close as tests/golden asks: first
 * losses 1e-6, later ones 1e-4, norms and logits 1e-5; state 1e-4, which stands for what those
 * tests see in gradients and in the losses of 50 steps. */
bool mutant_trace_same(const mutant_trace *a, const mutant_trace *b);
bool mutant_trace_close(const mutant_trace *a, const mutant_trace *b);

#endif
