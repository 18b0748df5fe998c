/* SPDX-License-Identifier: MIT */
/* What is fetched from the offload tier stays in the arena from one use to the next, where there is
 * room. */
#ifndef BP_CORE_RESIDENT_H
#define BP_CORE_RESIDENT_H

#include "core/plan/spec.h"
#include "core/ir/program.h"

/* Of one step. */
typedef struct bp_resident {
    uint64_t bytes; /* that are not read, for they are still there */
    uint64_t most;  /* no choice of gaps with this room saves more, in multiples of the arena's
                       alignment; `bytes` and what they were rounded up by where it is exact */
} bp_resident;

/* Bytes of scratch for a graph of so many rows, at a multiple of 8. */
uint64_t bp_resident_scratch(const bp_graph_limits *rows);

/* Of a graph that was compiled (spec.offload.room > 0): what is brought whole into a buffer that
 * nothing else writes, again and with nothing written there in between, may stay in the first
 * buffer from its last use to the next one's begin. In each program the gaps are chosen that save
 * the most bytes where all that lives at a time has spec.offload.room bytes
 * (core/plan/passes/resident_choose.h). The ops that would bring these again are taken out, and
 * those that read the second buffer, which then lives never, read the first one. */
void bp_resident_run(bp_graph *graph, const bp_spec *spec, void *scratch, bp_resident *out);

/* The same gaps as in another graph of the same buffers, which has been through it. */
void bp_resident_like(bp_graph *graph, const bp_graph *like, void *scratch);

#endif
