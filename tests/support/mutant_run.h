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

/* Links the planned graph and executes what a run executes, in poison mode: initialisation, groups,
 * evaluation, generation. *digest: of all persistent buffers, losses and logits. */
bp_status mutant_execute(mutant_room *room, const rig *r, const bp_graph *graph,
                         const bp_report *report, uint64_t *digest);

#endif
