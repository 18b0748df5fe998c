/* SPDX-License-Identifier: MIT */
/* Bytes to and from the offload tier, held against counted time. */
#include "core/ir/traffic.h"

#include <math.h>

/* An op that begins a copy, or waits for one. */
typedef struct traffic_copy {
    uint64_t bytes;
    int64_t request;
    uint32_t op;
    uint32_t wait; /* of a begin: the op that waits for it */
    bool begins;
    bool stalled;   /* whatever the rate, something waits before it is there */
    uint64_t sum;   /* bytes of those that begin and are not stalled, up to this one */
    double soonest; /* of the first of TRAFFIC_GROUP: when the first of these is waited for */
} traffic_copy;

#define TRAFFIC_GROUP 8u

/* The copies of one program in one way, with the counted time at which each of its ops begins. */
typedef struct traffic {
    double *clock;      /* [ops + 1] */
    traffic_copy *copy; /* [count]: begins and waits, in the order of ops */
    uint32_t count;
} traffic;

static void traffic_take(traffic *t, const bp_graph *graph, bp_arena *memory)
{
    t->clock = bp_arena_take(memory, (uint64_t)graph->used.ops + 1, sizeof *t->clock);
    t->copy = bp_arena_take(memory, (uint64_t)graph->used.ops + 1, sizeof *t->copy);
}

uint64_t bp_traffic_scratch(const bp_graph *graph)
{
    traffic t;
    bp_arena count;
    bp_arena_count(&count);
    traffic_take(&t, graph, &count);
    return bp_arena_counted(&count);
}

/* Lists those of [ops, ops + count) that copy to the offload tier (writes) or from it. */
static void traffic_list(traffic *t, const bp_graph *graph, const bp_op *ops, uint32_t count,
                         bool writes)
{
    t->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bp_kernel_info *info = bp_kernel_describe(ops[i].kernel);
        if (info->engine != BP_ENGINE_COPY) {
            continue;
        }
        const bp_ref there = graph->refs[ops[i].operand + (writes ? 0 : 1)]; /* copies have both */
        /* rows_begin has rows and their width in the same places */
        const bp_copy_begin_scalars *s = (const void *)(graph->scalars + ops[i].scalar);
        const uint64_t bytes = (uint64_t)s->rows * (uint64_t)s->width;
        if (bytes > 0 && graph->buffers[there.buffer].space != BP_SPACE_DEVICE) {
            t->copy[t->count++] = (traffic_copy){.bytes = bytes,
                                                 .request = graph->scalars[ops[i].scalar].integer,
                                                 .op = i,
                                                 .wait = count,
                                                 .begins = info->pending == BP_PENDING_BEGIN};
        }
    }
    for (uint32_t i = 0; i < t->count; i++) { /* the verifier has seen that there is a wait */
        for (uint32_t k = i + 1; t->copy[i].begins && k < t->count; k++) {
            if (!t->copy[k].begins && t->copy[k].request == t->copy[i].request) {
                t->copy[i].wait = t->copy[k].op;
                break;
            }
        }
    }
}

/* What is begun before anything is computed is waited for, and so is what nothing is computed for
 * between its begin and its wait, with all that is on its way before it. Bytes of these. */
static uint64_t traffic_stalls(const traffic *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const traffic_copy *copy = &t->copy[i];
        const double begin = t->clock[copy->op];
        if (!copy->begins || (begin > 0.0 && t->clock[copy->wait] > begin)) {
            continue;
        }
        for (uint32_t k = 0; k <= i; k++) {
            traffic_copy *before = &t->copy[k];
            if (before->begins && before->wait > copy->op && !before->stalled) {
                before->stalled = true;
                bytes += before->bytes;
            }
        }
    }
    return bytes;
}

static void traffic_sum(const traffic *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        traffic_copy *copy = &t->copy[i], *head = &t->copy[i - i % TRAFFIC_GROUP];
        head->soonest = copy == head ? (double)INFINITY : head->soonest;
        if (copy->begins && !copy->stalled) {
            const double wait = t->clock[copy->wait];
            sum += copy->bytes;
            head->soonest = wait < head->soonest ? wait : head->soonest;
        }
        copy->sum = sum;
    }
}

/* The largest rate that the copies from number `from` on have to have, or `rate` where that is
 * larger: groups of which none needs it are passed over. */
static double rate_from(const traffic *t, uint32_t from, double rate)
{
    const double begin = t->clock[t->copy[from].op];
    const uint64_t before = t->copy[from].sum - t->copy[from].bytes;
    uint32_t end;
    for (uint32_t i = from; i < t->count; i = end) {
        const traffic_copy *head = &t->copy[i - i % TRAFFIC_GROUP];
        end = i - i % TRAFFIC_GROUP + TRAFFIC_GROUP;
        end = end < t->count ? end : t->count;
        if (head->soonest > begin &&
            (double)(t->copy[end - 1].sum - before) / (head->soonest - begin) <= rate) {
            continue;
        }
        for (; i < end; i++) {
            const traffic_copy *copy = &t->copy[i];
            if (copy->begins && !copy->stalled) {
                const double needed = (double)(copy->sum - before) / (t->clock[copy->wait] - begin);
                rate = needed > rate ? needed : rate;
            }
        }
    }
    return rate;
}

static void count_way(const traffic *t, bool writes, bp_traffic *out)
{
    uint64_t flying = 0;
    double *rate = writes ? &out->written_rate : &out->read_rate;
    *(writes ? &out->last : &out->first) = traffic_stalls(t);
    traffic_sum(t);
    for (uint32_t i = 0; i < t->count; i++) {
        const traffic_copy *copy = &t->copy[i];
        if (!copy->begins) {
            flying -= copy->bytes;
            continue;
        }
        *(writes ? &out->written : &out->read) += copy->bytes;
        flying += copy->bytes;
        out->pending = flying > out->pending ? flying : out->pending;
        if (!copy->stalled) {
            *rate = rate_from(t, i, *rate);
        }
    }
}

bp_traffic bp_traffic_program(const bp_graph *graph, bp_program_kind program, const bp_rates *rates,
                              void *scratch)
{
    traffic t = {.count = 0};
    bp_arena memory;
    bp_traffic out = {0};
    const bp_op *ops = graph->ops + graph->program_first[program];
    const uint32_t count = graph->program_count[program];
    bp_arena_init(&memory, scratch, (size_t)bp_traffic_scratch(graph));
    traffic_take(&t, graph, &memory);
    t.clock[0] = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        t.clock[i + 1] = t.clock[i] + bp_cost_seconds(bp_cost_op(graph, &ops[i]), rates);
    }
    for (uint32_t way = 0; way < 2; way++) {
        traffic_list(&t, graph, ops, count, way == 1);
        count_way(&t, way == 1, &out);
    }
    out.seconds = t.clock[count];
    return out;
}
