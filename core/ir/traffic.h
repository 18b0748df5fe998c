/* SPDX-License-Identifier: MIT */
/* What a program moves from and to the offload tier, and how fast that tier has to be. */
#ifndef BP_CORE_TRAFFIC_H
#define BP_CORE_TRAFFIC_H

#include "core/ir/cost.h"

/* Of one run of a program. Copies from the offload tier go one after the other, in the order in
 * which they are begun, and so do those to it.
 *
 * Nothing is on its way when a program begins, so it waits for the bytes that are asked for before
 * anything is computed, and wherever a copy is waited for with nothing computed since its begin:
 * for those, and what is on its way before them, `first`. What is written last is waited for at the
 * program's end in the same way, `last`. Any other copy that is begun when op a begins and waited
 * for at op b needs, with those before it that may still be under way, so many bytes per second as
 * arrive between the two by the counted time of the ops from a to b: where storage has the largest
 * of these rates, a program waits no longer than `first` and `last` take. */
typedef struct bp_traffic {
    uint64_t read;   /* at most: all experts, where they are brought by their rows */
    uint64_t routed; /* of `read`, of these experts */
    uint64_t even;   /* of `read`, expected where a router chooses every expert as often */
    uint64_t written;
    uint64_t first;      /* of `read` */
    uint64_t last;       /* of `written` */
    uint64_t pending;    /* most bytes under way at once */
    double seconds;      /* counted, of all ops */
    double read_rate;    /* bytes per second from which on it never waits, for what it reads */
    double written_rate; /* the same of what it writes */
} bp_traffic;

/* Bytes of scratch for the programs of a graph, at a multiple of 8. */
uint64_t bp_traffic_scratch(const bp_graph *graph);

/* Counts one program of a graph at these rates; all zero where the program is not there. Takes as
 * long as copies times copies. */
bp_traffic bp_traffic_program(const bp_graph *graph, bp_program_kind program, const bp_rates *rates,
                              void *scratch);

#endif
