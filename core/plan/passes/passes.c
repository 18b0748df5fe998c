/* SPDX-License-Identifier: MIT */
/* The passes in their order. */
#include "core/plan/passes/passes.h"

#include "core/plan/compile_private.h"

const bp_pass bp_passes_order[BP_PASSES] = {
    /* Buckets of gradients leave while backward asks for weights, before what brings these, so
     * that they are under way meanwhile. */
    {"buckets", compile_send_buckets, NULL},
    /* A weight of which each rank has its share is whole before anything else reads it. */
    {"gather", compile_gather, NULL},
    /* What lives in storage, or in the host's memory, is brought. */
    {"offload", compile_fetch, NULL},
    /* The average of an update rule is formed of a weight that is whole and in reach. */
    {"average", compile_average, NULL},
    /* Gathers begin earlier; the order of gathers among ranks is known only now. */
    {"gather ahead", NULL, compile_gather_ahead},
    /* What is brought begins earlier and what goes back is waited for later, as far as the bytes
     * under way allow, which are known only now. */
    {"fetch ahead", NULL, compile_fetch_ahead}};

void bp_passes_program(bp_graph *graph, const bp_spec *spec)
{
    for (uint32_t i = 0; i < BP_PASSES; i++) {
        if (bp_passes_order[i].program != NULL && !bp_graph_counts(graph)) {
            bp_passes_order[i].program(graph, spec);
        }
    }
}
