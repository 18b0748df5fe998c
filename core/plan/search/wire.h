/* SPDX-License-Identifier: MIT */
/* What the programs of a step put on the wire between ranks, and how long that takes: counted, no
 * clock. */
#ifndef BP_CORE_WIRE_H
#define BP_CORE_WIRE_H

#include "core/plan/planned.h"

/* The links of a rank: to ranks of its host, and to those of others. */
enum { BP_WIRE_INSIDE, BP_WIRE_BETWEEN, BP_WIRE_LINKS };

typedef struct bp_wire_link {
    uint64_t peers;
    double bytes;     /* that a rank sends in a step, the mean of all */
    double bandwidth; /* bytes per second of a rank in one direction, above 0 */
    double latency;   /* seconds */
} bp_wire_link;

typedef struct bp_wire {
    uint32_t ranks; /* up to BP_VIRTUAL_RANKS_MAX */
    uint32_t host;  /* ranks of a host, at least 1, which divides them */
    bp_wire_link link[BP_WIRE_LINKS];
    uint64_t calls;   /* of the fabric in a step, each of ranks - 1 messages */
    double exchange;  /* seconds of them, as the programs begin and wait for them */
    double computing; /* seconds of a step by counted costs */
    double sent;      /* bytes in a step by the rank whose plan was counted */
} bp_wire;

#define BP_WIRE_REQUESTS 64 /* more than are under way at once */

/* Seconds from the beginning of a program. Large, so lent by the caller. */
typedef struct bp_wire_clocks {
    double now;
    double ends[BP_WIRE_REQUESTS];                       /* of calls, by request */
    double free[BP_WIRE_LINKS][2][BP_VIRTUAL_RANKS_MAX]; /* each link's, out and in */
} bp_wire_clocks;

/* Counts what a step of a plan that is made sends, and its computing: bytes of both links, calls,
 * computing, sent. */
void bp_wire_count(const bp_plan *made, bp_wire *wire);

/* Predicts the seconds of its calls, wire->exchange; the links are known. Cost: calls by ranks. */
void bp_wire_time(const bp_plan *made, bp_wire *wire, bp_wire_clocks *clocks);

#endif
