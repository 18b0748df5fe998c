/* SPDX-License-Identifier: MIT */
/* Bytes to and from the tier below, held against counted time. */
#include "core/program/traffic.h"

uint64_t bp_traffic_scratch(const bp_graph *graph)
{
    return bp_size_mul((uint64_t)graph->used.ops + 1, sizeof(double));
}

/* One program, with the counted time at which each of its ops begins. */
typedef struct traffic {
    const bp_graph *graph;
    const bp_op *ops;
    uint32_t count;
    const double *clock; /* [count + 1] */
} traffic;

static bool lives_below(const traffic *t, const bp_op *op, uint32_t operand)
{
    const bp_ref ref = t->graph->refs[op->operand + operand]; /* copies have both */
    return t->graph->buffers[ref.buffer].space != BP_SPACE_DEVICE;
}

/* Bytes that an op begins to copy, or waits for, to below or from it; 0 for any other op. */
static uint64_t copies(const traffic *t, uint32_t at, bp_flight flight, bool writes)
{
    const bp_op *op = &t->ops[at];
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    if (info->flight != flight || info->engine != BP_ENGINE_COPY ||
        !lives_below(t, op, writes ? 0 : 1)) {
        return 0;
    }
    /* rows_begin has rows and their width in the same places */
    const bp_copy_begin_scalars *s = (const void *)(t->graph->scalars + op->scalar);
    return (uint64_t)s->rows * (uint64_t)s->width;
}

/* The largest rate that a copy begun at op `from`, or one after it, has to have. */
static double rate_from(const traffic *t, uint32_t from, bool writes)
{
    const int64_t first = t->graph->scalars[t->ops[from].scalar].integer;
    uint64_t bytes = 0;
    double rate = 0.0;
    for (uint32_t i = from; i < t->count; i++) {
        const uint64_t more = copies(t, i, BP_FLIGHT_WAIT, writes);
        if (more == 0 || t->graph->scalars[t->ops[i].scalar].integer < first) {
            continue;
        }
        bytes += more;
        const double seconds = t->clock[i] - t->clock[from];
        const double needed = seconds > 0.0 ? (double)bytes / seconds : 0.0;
        rate = needed > rate ? needed : rate;
    }
    return rate;
}

static void count_way(const traffic *t, bool writes, bp_traffic *out)
{
    uint64_t flying = 0;
    double *rate = writes ? &out->written_rate : &out->read_rate;
    for (uint32_t i = 0; i < t->count; i++) {
        const uint64_t begun = copies(t, i, BP_FLIGHT_BEGIN, writes);
        *(writes ? &out->written : &out->read) += begun;
        flying += begun - copies(t, i, BP_FLIGHT_WAIT, writes);
        out->flight = flying > out->flight ? flying : out->flight;
        if (begun > 0 && t->clock[i] > 0.0) {
            const double needed = rate_from(t, i, writes);
            *rate = needed > *rate ? needed : *rate;
        } else if (!writes) {
            out->first += begun;
        }
    }
}

bp_traffic bp_traffic_program(const bp_graph *graph, bp_program_kind program, const bp_rates *rates,
                              void *scratch)
{
    double *clock = scratch;
    bp_traffic out = {0};
    const traffic t = {.graph = graph,
                       .ops = graph->ops + graph->program_first[program],
                       .count = graph->program_count[program],
                       .clock = clock};
    clock[0] = 0.0;
    for (uint32_t i = 0; i < t.count; i++) {
        clock[i + 1] = clock[i] + bp_cost_seconds(bp_cost_op(graph, &t.ops[i]), rates);
    }
    count_way(&t, false, &out);
    count_way(&t, true, &out);
    out.seconds = clock[t.count];
    return out;
}
