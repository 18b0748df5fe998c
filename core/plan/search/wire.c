/* SPDX-License-Identifier: MIT */
/* What the programs of a step put on the wire, and how long that takes: their calls begin and are
 * waited for in the order of the ops, whose computing is left out. A rank sends what it has one
 * message after the other, and receives likewise, in both directions and over both links at once:
 * a call whose pieces differ keeps the links of some ranks for longer than those of others, which
 * go on with the next call meanwhile. */
#include "core/plan/search/wire.h"

#include "core/ir/cost.h"
#include "core/ir/device.h"

enum { WIRE_OUT, WIRE_IN, WIRE_WAYS };

/* What a step runs of each program. */
static void runs_of(const bp_plan *made, double runs[BP_PROGRAM_COUNT])
{
    const bool several = made->graph.program_count[BP_PROGRAM_MICRO_NEXT] > 0;
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        runs[p] = 0.0;
    }
    runs[BP_PROGRAM_STEP] = runs[BP_PROGRAM_MICRO_FIRST] = runs[BP_PROGRAM_UPDATE] = 1.0;
    runs[BP_PROGRAM_MICRO_NEXT] = several ? (double)made->spec.accumulation - 1.0 : 0.0;
}

static bool wire_begins(const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    return info->engine == BP_ENGINE_FABRIC && info->pending == BP_PENDING_BEGIN;
}

/* All rows begin as this one. */
static const bp_gather_pieces_begin_scalars *wire_scalars(const bp_graph *graph, const bp_op *op)
{
    return (const void *)(graph->scalars + op->scalar);
}

/* Peers of a call over a link: those of the ranks, or of a group of neighbours. */
static double wire_peers(const bp_wire *wire, const bp_gather_pieces_begin_scalars *s, int link)
{
    const uint64_t members = (uint64_t)s->ranks;
    const uint64_t here = members < wire->host ? members : wire->host;
    if (s->group == 0) {
        return (double)wire->link[link].peers;
    }
    return (double)(link == BP_WIRE_INSIDE ? here - 1 : members - here);
}

static void count_call(const bp_graph *graph, const bp_op *op, double runs, bp_wire *wire)
{
    const bp_gather_pieces_begin_scalars *s = wire_scalars(graph, op);
    const uint64_t members = (uint64_t)s->ranks;
    const double bytes = (double)s->bytes;
    double mean = bytes, sent = bytes * (double)(members - 1);
    if (bp_fabric_has_pieces(op->kernel)) {
        const bool gathers = op->kernel == BP_KERNEL_gather_pieces_begin;
        mean = (double)s->whole / (double)members;
        sent = gathers ? sent : (double)s->whole - bytes;
    }
    for (int i = 0; i < BP_WIRE_LINKS; i++) {
        wire->link[i].bytes += runs * wire_peers(wire, s, i) * mean;
    }
    wire->calls += (uint64_t)runs;
    wire->sent += runs * sent;
}

void bp_wire_count(const bp_plan *made, bp_wire *wire)
{
    const bp_graph *graph = &made->graph;
    double runs[BP_PROGRAM_COUNT];
    runs_of(made, runs);
    wire->calls = 0;
    wire->computing = wire->sent = 0.0;
    wire->link[BP_WIRE_INSIDE].bytes = wire->link[BP_WIRE_BETWEEN].bytes = 0.0;
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        for (uint32_t i = 0; i < graph->program_count[p] && runs[p] > 0.0; i++) {
            const bp_op *op = &graph->ops[graph->program_first[p] + i];
            if (wire_begins(op)) {
                count_call(graph, op, runs[p], wire);
            }
        }
        wire->computing +=
            runs[p] > 0.0 ? runs[p] * bp_cost_program(graph, (bp_program_kind)p, &BP_RATES_DEFAULT)
                          : 0.0;
    }
}

static double wire_later(double a, double b)
{
    return a > b ? a : b;
}

static double piece_bytes(const bp_fabric_piece *pieces, double bytes, uint32_t rank)
{
    return pieces != NULL ? (double)pieces[rank].bytes : bytes;
}

/* A rank's link to some peers is taken by what goes and comes over it; until when. */
static double wire_take(bp_wire_clocks *c, const bp_wire_link *link, int which, uint32_t rank,
                        const double bytes[WIRE_WAYS])
{
    double end = c->now;
    for (int way = 0; way < WIRE_WAYS && link->peers > 0; way++) {
        double *free = &c->free[which][way][rank];
        *free = wire_later(*free, c->now) + bytes[way] / link->bandwidth;
        end = wire_later(end, *free + link->latency);
    }
    return end;
}

/* Each rank's own piece goes to (a gather) or comes from (an exchange) all others, and theirs the
 * other way. */
static void time_call(bp_wire_clocks *c, const bp_wire *wire, const bp_graph *graph,
                      const bp_op *op)
{
    const bp_gather_pieces_begin_scalars *s = wire_scalars(graph, op);
    const bool has = bp_fabric_has_pieces(op->kernel);
    const bp_fabric_piece *pieces = has ? bp_fabric_pieces_of(s) : NULL;
    const double bytes = (double)s->bytes;
    const double whole = has ? (double)s->whole : bytes * wire->ranks;
    const int own = op->kernel == BP_KERNEL_exchange_pieces_begin ? WIRE_IN : WIRE_OUT;
    double end = c->now;
    for (uint32_t first = 0; first < wire->ranks; first += wire->host) {
        double here = 0.0;
        for (uint32_t r = first; r < first + wire->host; r++) {
            here += piece_bytes(pieces, bytes, r);
        }
        for (uint32_t r = first; r < first + wire->host; r++) {
            const double mine = piece_bytes(pieces, bytes, r);
            const double others[BP_WIRE_LINKS] = {here - mine, whole - here};
            for (int i = 0; i < BP_WIRE_LINKS; i++) {
                double both[WIRE_WAYS];
                both[own] = mine * wire_peers(wire, s, i);
                both[1 - own] = s->group == 0 ? others[i] : both[own];
                end = wire_later(end, wire_take(c, &wire->link[i], i, r, both));
            }
        }
    }
    c->ends[(uint64_t)s->request % BP_WIRE_REQUESTS] = end;
}

static double time_program(bp_wire_clocks *c, const bp_wire *wire, const bp_graph *graph,
                           uint32_t program)
{
    *c = (bp_wire_clocks){.now = 0.0};
    for (uint32_t i = 0; i < graph->program_count[program]; i++) {
        const bp_op *op = &graph->ops[graph->program_first[program] + i];
        const bp_kernel_info *info = bp_kernel_describe(op->kernel);
        if (wire_begins(op)) {
            time_call(c, wire, graph, op);
        } else if (info->engine == BP_ENGINE_FABRIC) {
            const bp_fabric_wait_scalars *s = (const void *)(graph->scalars + op->scalar);
            c->now = wire_later(c->now, c->ends[(uint64_t)s->request % BP_WIRE_REQUESTS]);
        }
    }
    return c->now;
}

void bp_wire_time(const bp_plan *made, bp_wire *wire, bp_wire_clocks *clocks)
{
    double runs[BP_PROGRAM_COUNT];
    runs_of(made, runs);
    wire->exchange = 0.0;
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        if (runs[p] > 0.0) {
            wire->exchange += runs[p] * time_program(clocks, wire, &made->graph, p);
        }
    }
}
