/* SPDX-License-Identifier: MIT */
/* Bytes to and from the offload tier, held against counted time. */
#include "core/ir/traffic.h"

/* What is known of an op that begins to copy. */
typedef struct traffic_copy {
    uint32_t wait; /* the op that waits for it */
    bool stalled;  /* whatever the rate, something waits before it is there */
} traffic_copy;

uint64_t bp_traffic_scratch(const bp_graph *graph)
{
    return bp_size_mul((uint64_t)graph->used.ops + 1, sizeof(double) + sizeof(traffic_copy));
}

/* One program, with the counted time at which each of its ops begins. */
typedef struct traffic {
    const bp_graph *graph;
    const bp_op *ops;
    uint32_t count;
    double *clock;       /* [count + 1] */
    traffic_copy *begun; /* [count] */
} traffic;

static bool is_offloaded(const traffic *t, const bp_op *op, uint32_t operand)
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
        !is_offloaded(t, op, writes ? 0 : 1)) {
        return 0;
    }
    /* rows_begin has rows and their width in the same places */
    const bp_copy_begin_scalars *s = (const void *)(t->graph->scalars + op->scalar);
    return (uint64_t)s->rows * (uint64_t)s->width;
}

static int64_t traffic_ticket(const traffic *t, uint32_t at)
{
    return t->graph->scalars[t->ops[at].scalar].integer;
}

/* The op that waits for what op `begin` begins; the verifier has seen that there is one. */
static uint32_t traffic_wait(const traffic *t, uint32_t begin, bool writes)
{
    uint32_t i = begin + 1;
    while (i < t->count && (copies(t, i, BP_FLIGHT_WAIT, writes) == 0 ||
                            traffic_ticket(t, i) != traffic_ticket(t, begin))) {
        i++;
    }
    return i;
}

/* What is begun before anything is computed is waited for, and so is what nothing is computed for
 * between its begin and its wait, with all that is on its way before it. Bytes of these. */
static uint64_t traffic_stalls(const traffic *t, bool writes)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (copies(t, i, BP_FLIGHT_BEGIN, writes) == 0) {
            continue;
        }
        const uint32_t wait = traffic_wait(t, i, writes);
        t->begun[i] = (traffic_copy){wait, false};
        if (t->clock[i] > 0.0 && t->clock[wait] > t->clock[i]) {
            continue;
        }
        for (uint32_t k = 0; k <= i; k++) {
            const uint64_t own = copies(t, k, BP_FLIGHT_BEGIN, writes);
            if (own > 0 && t->begun[k].wait > i && !t->begun[k].stalled) {
                t->begun[k].stalled = true;
                bytes += own;
            }
        }
    }
    return bytes;
}

/* The largest rate that the copies from the one begun at op `from` on have to have. */
static double rate_from(const traffic *t, uint32_t from, bool writes)
{
    uint64_t bytes = 0;
    double rate = 0.0;
    for (uint32_t i = from; i < t->count; i++) {
        const uint64_t more = copies(t, i, BP_FLIGHT_BEGIN, writes);
        if (more == 0 || t->begun[i].stalled) {
            continue;
        }
        bytes += more;
        const double needed = (double)bytes / (t->clock[t->begun[i].wait] - t->clock[from]);
        rate = needed > rate ? needed : rate;
    }
    return rate;
}

static void count_way(const traffic *t, bool writes, bp_traffic *out)
{
    uint64_t flying = 0;
    double *rate = writes ? &out->written_rate : &out->read_rate;
    *(writes ? &out->last : &out->first) = traffic_stalls(t, writes);
    for (uint32_t i = 0; i < t->count; i++) {
        const uint64_t begun = copies(t, i, BP_FLIGHT_BEGIN, writes);
        *(writes ? &out->written : &out->read) += begun;
        flying += begun - copies(t, i, BP_FLIGHT_WAIT, writes);
        out->flight = flying > out->flight ? flying : out->flight;
        if (begun > 0 && !t->begun[i].stalled) {
            const double needed = rate_from(t, i, writes);
            *rate = needed > *rate ? needed : *rate;
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
                       .clock = clock,
                       .begun = (void *)(clock + graph->used.ops + 1)};
    clock[0] = 0.0;
    for (uint32_t i = 0; i < t.count; i++) {
        clock[i + 1] = clock[i] + bp_cost_seconds(bp_cost_op(graph, &t.ops[i]), rates);
    }
    count_way(&t, false, &out);
    count_way(&t, true, &out);
    out.seconds = clock[t.count];
    return out;
}
