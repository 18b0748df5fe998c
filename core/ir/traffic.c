/* SPDX-License-Identifier: MIT */
/* Bytes to and from the offload tier, held against counted time. */
#include "core/ir/traffic.h"

#include <math.h>

/* An op that begins a copy, or waits for one. */
typedef struct traffic_copy {
    uint64_t bytes;
    uint64_t routed; /* of them, as in bp_traffic */
    uint64_t even;
    int64_t request;
    uint32_t op;
    uint32_t wait; /* of a begin: the op that waits for it */
    bool begins;
    bool stalled; /* whatever the rate, something waits before it is there */
} traffic_copy;

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

/* Of experts of whom a token chooses `top`, each is one of them with probability top / experts, and
 * a piece is not brought where none of the tokens chooses it: (1 - top / experts)^tokens. The power
 * by squaring, whose bits are the same everywhere. */
static uint64_t traffic_even(const bp_experts_begin_scalars *s)
{
    double left = 1.0, square = (double)(s->experts - s->top) / (double)s->experts;
    for (uint64_t tokens = (uint64_t)s->tokens; tokens > 0; tokens >>= 1) {
        left *= (tokens & 1) != 0 ? square : 1.0;
        square *= square;
    }
    return (uint64_t)((1.0 - left) * (double)s->experts * (double)s->width + 0.5);
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
        /* rows_begin has rows and their width in the same places, experts_begin experts and theirs
         */
        const bp_copy_begin_scalars *s = (const void *)(graph->scalars + ops[i].scalar);
        const uint64_t bytes = (uint64_t)s->rows * (uint64_t)s->width;
        const bool routed = ops[i].kernel == BP_KERNEL_experts_begin;
        if (bytes > 0 && graph->buffers[there.buffer].space != BP_SPACE_DEVICE) {
            t->copy[t->count++] =
                (traffic_copy){.bytes = bytes,
                               .routed = routed ? bytes : 0,
                               .even = routed ? traffic_even((const void *)s) : bytes,
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
    uint32_t first = 0; /* none before it is on its way any more, or all such are stalled */
    for (uint32_t i = 0; i < t->count; i++) {
        const traffic_copy *copy = &t->copy[i];
        const double begin = t->clock[copy->op];
        if (!copy->begins || (begin > 0.0 && t->clock[copy->wait] > begin)) {
            continue;
        }
        for (uint32_t k = first; k <= i; k++) {
            traffic_copy *before = &t->copy[k];
            if (before->begins && before->wait > copy->op && !before->stalled) {
                before->stalled = true;
                bytes += before->bytes;
            }
            first += first == k && (!before->begins || before->stalled || before->wait <= copy->op);
        }
    }
    return bytes;
}

/* The largest rate that the copies of any stretch have to have: bytes from one that begins to one
 * that is waited for, by the time between the two. Each round finds, for every end, the begin that
 * is furthest behind at the rate so far, and takes the largest of their rates; the last one, of a
 * handful, finds none that is larger. */
static double traffic_rate(const traffic *t)
{
    double rate = 0.0, next = 0.0;
    do {
        double least = (double)INFINITY, begin = 0.0;
        uint64_t sum = 0, before = 0;
        rate = next;
        for (uint32_t i = 0; i < t->count; i++) {
            const traffic_copy *copy = &t->copy[i];
            if (!copy->begins || copy->stalled) {
                continue;
            }
            if ((double)sum - rate * t->clock[copy->op] < least) {
                begin = t->clock[copy->op];
                before = sum;
                least = (double)sum - rate * begin;
            }
            sum += copy->bytes;
            const double needed = (double)(sum - before) / (t->clock[copy->wait] - begin);
            next = needed > next ? needed : next;
        }
    } while (next > rate);
    return rate;
}

static void count_way(const traffic *t, bool writes, bp_traffic *out)
{
    uint64_t flying = 0;
    *(writes ? &out->last : &out->first) = traffic_stalls(t);
    *(writes ? &out->written_rate : &out->read_rate) = traffic_rate(t);
    for (uint32_t i = 0; i < t->count; i++) {
        const traffic_copy *copy = &t->copy[i];
        if (!copy->begins) {
            flying -= copy->bytes;
            continue;
        }
        *(writes ? &out->written : &out->read) += copy->bytes;
        out->routed += writes ? 0 : copy->routed;
        out->even += writes ? 0 : copy->even;
        flying += copy->bytes;
        out->pending = flying > out->pending ? flying : out->pending;
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
