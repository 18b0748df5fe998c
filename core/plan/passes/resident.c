/* SPDX-License-Identifier: MIT */
/* Copies from the offload tier that are kept between two uses: found, chosen, taken out.
 *
 * All other copies keep their places in the order of ops, so that each has the time from its begin
 * to its wait that it had, with no more on its way before it. */
#include "core/plan/passes/resident.h"

#include <string.h>

#include "arena/arena.h"
#include "core/plan/compile_private.h"
#include "core/plan/passes/resident_choose.h"
#include "core/ir/report.h"

#define KEEP_NONE 0       /* copies are counted from 1 on */
#define KEEP_WORK 4000000 /* gaps that the search of a program looks at */
#define PURE      2       /* writers of a buffer that only a copy writes: its begin and its wait */

/* Bytes that are brought. */
typedef struct keep_copy {
    uint32_t begin; /* ops */
    uint32_t wait;
    uint32_t to;     /* the buffer */
    uint32_t before; /* copy of the same bytes before it; KEEP_NONE: there is none */
    uint32_t next;   /* of the same offloaded buffer, while what it brought is what is there */
    uint64_t first;  /* bytes of that buffer */
    uint64_t end;
    bp_ref runs; /* of whose rows the experts were brought; absent: all was */
    bool over;   /* these are others by now */
} keep_copy;

typedef struct keep {
    bp_graph *graph;
    uint32_t first; /* ops of the program that is looked at */
    uint32_t end;
    uint32_t count;    /* copies in it, */
    uint32_t gaps;     /* between them, */
    uint32_t sections; /* and of time, between their ends */
    keep_copy *copies; /* [1 .. count] */
    bp_resident_gap *gap;
    uint64_t *load;    /* [ops + 1]: bytes that live, of the whole graph */
    uint64_t *room;    /* [sections] */
    uint32_t *section; /* [ops + 1]: of an op of the program */
    uint32_t *newest;  /* [buffers]: of the offloaded ones, the copies of what is there */
    uint32_t *instead; /* [buffers]: whose bytes are read */
    uint8_t *writers;  /* [buffers]: no further than past PURE */
    void *scratch;
} keep;

static void keep_take(keep *k, const bp_graph_limits *rows, bp_arena *memory)
{
    const uint64_t gaps = (uint64_t)rows->ops / 2 + 1, ops = (uint64_t)rows->ops + 1;
    k->copies = bp_arena_take(memory, gaps + 1, sizeof *k->copies);
    k->gap = bp_arena_take(memory, gaps + 1, sizeof *k->gap);
    k->load = bp_arena_take(memory, ops, sizeof *k->load);
    k->room = bp_arena_take(memory, ops, sizeof *k->room);
    k->section = bp_arena_take(memory, ops, sizeof *k->section);
    k->newest = bp_arena_take(memory, rows->buffers, sizeof *k->newest);
    k->instead = bp_arena_take(memory, rows->buffers, sizeof *k->instead);
    k->writers = bp_arena_take(memory, rows->buffers, sizeof *k->writers);
    k->scratch = bp_arena_take(memory, bp_resident_choose_scratch(gaps, ops), 1);
}

uint64_t bp_resident_scratch(const bp_graph_limits *rows)
{
    bp_arena count;
    keep k;
    bp_arena_count(&count);
    keep_take(&k, rows, &count);
    return bp_arena_counted(&count);
}

/* Who writes which buffer, in all programs. */
static void keep_count_writers(keep *k)
{
    const bp_graph *graph = k->graph;
    memset(k->writers, 0, graph->used.buffers);
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        const bp_op *op = &graph->ops[i];
        const bp_kernel_info *info = bp_kernel_describe(op->kernel);
        for (uint32_t t = 0; t < op->tuples; t++) {
            bp_extent extents[BP_OPERANDS_MAX];
            info->extents(graph->scalars + op->scalar + (size_t)t * info->scalar_count, extents);
            for (uint32_t o = 0; o < info->operand_count; o++) {
                const bp_ref ref = graph->refs[op->operand + t * info->operand_count + o];
                uint8_t *count = &k->writers[ref.buffer];
                if (extents[o].access != BP_ACCESS_READ && *count <= PURE) {
                    ++*count;
                }
            }
        }
    }
}

static const bp_copy_begin_scalars *keep_scalars(const keep *k, uint32_t at)
{
    return (const void *)(k->graph->scalars + k->graph->ops[at].scalar);
}

/* Whether an op that begins to copy to the arena brings all of a buffer, which is one row then,
 * that nothing else writes. */
static bool keep_brings(const keep *k, const bp_op *op, uint64_t width)
{
    const bp_graph *graph = k->graph;
    const bp_ref to = graph->refs[op->operand], from = graph->refs[op->operand + 1];
    const bp_buffer *buffer = &graph->buffers[to.buffer];
    return graph->buffers[from.buffer].space != BP_SPACE_DEVICE &&
           buffer->scope == BP_SCOPE_PROGRAM && buffer->taken == 0 && width == buffer->bytes &&
           k->writers[to.buffer] == PURE;
}

static uint32_t keep_wait(const keep *k, uint32_t begin)
{
    const int64_t request = keep_scalars(k, begin)->request;
    uint32_t i = begin + 1;
    while ((k->graph->ops[i].kernel != BP_KERNEL_copy_wait &&
            k->graph->ops[i].kernel != BP_KERNEL_experts_wait) ||
           keep_scalars(k, i)->request != request) {
        i++; /* the verifier refuses what is not waited for */
    }
    return i;
}

/* Takes those out of the list whose bytes are written there, or brought once more; the newest of
 * the latter. */
static uint32_t keep_unlist(keep *k, uint32_t below, const keep_copy *bytes, bool written)
{
    uint32_t same = KEEP_NONE;
    for (uint32_t *at = &k->newest[below]; *at != KEEP_NONE;) {
        const keep_copy *copy = &k->copies[*at];
        const bool again = copy->first == bytes->first && copy->end == bytes->end &&
                           copy->runs.buffer == bytes->runs.buffer &&
                           copy->runs.offset == bytes->runs.offset && !copy->over;
        const bool meets = copy->first < bytes->end && bytes->first < copy->end;
        if (written ? meets : again) {
            same = *at;
            *at = copy->next;
        } else {
            at = &k->copies[*at].next;
        }
    }
    return same;
}

/* A router writes other runs of rows: what was brought by those before is no longer what is read.
 */
static void keep_reroute(keep *k, uint32_t buffer)
{
    for (uint32_t i = 1; i <= k->count; i++) {
        k->copies[i].over = k->copies[i].over || (bp_ref_present(k->copies[i].runs) &&
                                                  k->copies[i].runs.buffer == buffer);
    }
}

/* The copies of a program, each with the one before it whose bytes it could use. */
static void keep_find(keep *k)
{
    const bp_graph *graph = k->graph;
    memset(k->newest, 0, graph->used.buffers * sizeof *k->newest);
    k->count = 0;
    k->copies[KEEP_NONE] = (keep_copy){0};
    for (uint32_t i = k->first; i < k->end; i++) {
        const bp_op *op = &graph->ops[i];
        const bool routed = op->kernel == BP_KERNEL_experts_begin;
        if (op->kernel == BP_KERNEL_route_order) {
            keep_reroute(k, graph->refs[op->operand].buffer);
        }
        if (op->kernel != BP_KERNEL_copy_begin && !routed) {
            continue;
        }
        const bp_ref to = graph->refs[op->operand], from = graph->refs[op->operand + 1];
        const bp_copy_begin_scalars *s = keep_scalars(k, i);
        const uint64_t width = (uint64_t)s->width * (routed ? (uint64_t)s->rows : 1);
        if (graph->buffers[to.buffer].space != BP_SPACE_DEVICE) {
            const keep_copy down = {
                .first = to.offset, .end = to.offset + width, .runs = BP_ABSENT};
            (void)keep_unlist(k, to.buffer, &down, true);
        } else if (keep_brings(k, op, width)) {
            keep_copy *copy = &k->copies[++k->count];
            *copy = (keep_copy){.begin = i,
                                .wait = keep_wait(k, i),
                                .to = to.buffer,
                                .first = from.offset,
                                .end = from.offset + width,
                                .runs = routed ? graph->refs[op->operand + 2] : BP_ABSENT};
            copy->before = keep_unlist(k, from.buffer, copy, false);
            copy->next = k->newest[from.buffer];
            k->newest[from.buffer] = k->count;
        }
    }
}

/* Bytes of the arena that live at each op. */
static void keep_count_load(keep *k)
{
    const bp_graph *graph = k->graph;
    memset(k->load, 0, ((size_t)graph->used.ops + 1) * sizeof *k->load);
    for (uint32_t i = 1; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        if (buffer->space == BP_SPACE_DEVICE && buffer->lower < buffer->upper) {
            k->load[buffer->lower] += bp_report_rounded(graph, buffer);
            k->load[buffer->upper] -= bp_report_rounded(graph, buffer); /* wraps, and back */
        }
    }
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        k->load[i + 1] += k->load[i];
    }
}

/* The time between a copy and the one before it. Where that is none, both are there together for a
 * while, and it costs nothing to keep the first. */
static void keep_list_gaps(keep *k)
{
    const bp_graph *graph = k->graph;
    k->gaps = 0;
    for (uint32_t i = 1; i <= k->count; i++) {
        const keep_copy *copy = &k->copies[i];
        if (copy->before == KEEP_NONE) {
            continue;
        }
        const bp_buffer *now = &graph->buffers[copy->to];
        const bp_buffer *before = &graph->buffers[k->copies[copy->before].to];
        const uint64_t bytes = bp_report_rounded(graph, now);
        const uint32_t both = now->upper < before->upper ? now->upper : before->upper;
        if (before->upper < now->lower) {
            k->gap[k->gaps++] = (bp_resident_gap){
                .bytes = bytes, .from = before->upper, .to = now->lower, .name = i};
            continue;
        }
        k->instead[copy->to] = k->copies[copy->before].to;
        for (uint32_t t = now->lower; t < both; t++) {
            k->load[t] -= bytes;
        }
    }
}

/* Numbers the stretches of time in which no gap begins or ends, with what room they have, and says
 * the gaps in them. */
static void keep_cut_time(keep *k, uint64_t room)
{
    memset(k->section, 0, ((size_t)k->graph->used.ops + 1) * sizeof *k->section);
    for (uint32_t i = 0; i < k->gaps; i++) {
        k->section[k->gap[i].from] = 1;
        k->section[k->gap[i].to] = 1;
    }
    uint32_t number = 0;
    k->room[0] = UINT64_MAX;
    for (uint32_t t = k->first; t < k->end; t++) {
        if (k->section[t] != 0) {
            k->room[++number] = UINT64_MAX;
        }
        k->section[t] = number;
        const uint64_t left = room > k->load[t] ? room - k->load[t] : 0;
        k->room[number] = left < k->room[number] ? left : k->room[number];
    }
    k->sections = number + 1;
    for (uint32_t i = 0; i < k->gaps; i++) {
        k->gap[i].from = k->section[k->gap[i].from];
        k->gap[i].to = k->section[k->gap[i].to];
    }
}

/* Ops that bring what is kept are marked, and all read what they are to read; bytes saved. */
static uint64_t keep_redirect(keep *k)
{
    bp_graph *graph = k->graph;
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= k->count; i++) {
        const keep_copy *copy = &k->copies[i];
        if (k->instead[copy->to] == BP_NO_BUFFER) {
            continue;
        }
        const uint32_t first = k->copies[copy->before].to;
        const bool moved = k->instead[first] != BP_NO_BUFFER;
        k->instead[copy->to] = moved ? k->instead[first] : first;
        graph->ops[copy->begin].tuples = 0;
        graph->ops[copy->wait].tuples = 0;
        bytes += copy->end - copy->first;
    }
    for (uint32_t i = k->first; i < k->end && bytes > 0; i++) {
        const bp_op *op = &graph->ops[i];
        const uint32_t refs = op->tuples * bp_kernel_describe(op->kernel)->operand_count;
        for (uint32_t r = op->operand; r < op->operand + refs; r++) {
            const uint32_t instead = k->instead[graph->refs[r].buffer];
            graph->refs[r].buffer = instead != BP_NO_BUFFER ? instead : graph->refs[r].buffer;
        }
    }
    return bytes;
}

/* Ops of [first, end) that are marked. */
static uint32_t keep_marked(const bp_graph *graph, uint32_t first, uint32_t end)
{
    uint32_t marked = 0;
    for (uint32_t i = first; i < end; i++) {
        marked += graph->ops[i].tuples == 0 ? 1 : 0;
    }
    return marked;
}

/* They are gone. */
static void keep_close_up(bp_graph *graph)
{
    bool less[BP_PROGRAM_COUNT];
    uint32_t used = 0;
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        const uint32_t first = graph->program_first[program];
        const uint32_t marked = keep_marked(graph, first, first + graph->program_count[program]);
        graph->program_first[program] -= keep_marked(graph, 0, first);
        graph->program_count[program] -= marked;
        less[program] = marked > 0;
    }
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        if (graph->ops[i].tuples > 0) {
            graph->ops[used++] = graph->ops[i];
        }
    }
    graph->used.ops = used;
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        const uint32_t first = graph->program_first[program];
        if (less[program]) {
            compile_ahead_number(graph, first, first + graph->program_count[program]);
        }
    }
}

static void keep_begin(keep *k, bp_graph *graph, void *scratch)
{
    bp_arena memory;
    *k = (keep){.graph = graph};
    bp_arena_init(&memory, scratch, (size_t)bp_resident_scratch(&graph->used));
    keep_take(k, &graph->used, &memory);
    keep_count_writers(k);
    memset(k->instead, 0, graph->used.buffers * sizeof *k->instead);
}

static void keep_enter(keep *k, uint32_t program)
{
    k->first = k->graph->program_first[program];
    k->end = k->first + k->graph->program_count[program];
    keep_find(k);
}

void bp_resident_run(bp_graph *graph, const bp_spec *spec, void *scratch, bp_resident *out)
{
    keep k;
    *out = (bp_resident){0};
    keep_begin(&k, graph, scratch);
    bp_graph_lifetimes(graph);
    keep_count_load(&k);
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        bp_resident_chosen chosen;
        keep_enter(&k, program);
        keep_list_gaps(&k);
        keep_cut_time(&k, spec->offload.room);
        bp_resident_choose(k.gap, k.gaps, k.room, k.sections, KEEP_WORK, k.scratch, &chosen);
        for (uint32_t i = 0; i < k.gaps; i++) {
            const keep_copy *copy = &k.copies[k.gap[i].name];
            k.instead[copy->to] = k.gap[i].kept ? k.copies[copy->before].to : BP_NO_BUFFER;
        }
        const uint64_t bytes = keep_redirect(&k), runs = bp_compile_runs(spec, program);
        out->bytes += runs * bytes;
        out->most += runs * (bytes + (chosen.most - chosen.bytes));
    }
    keep_close_up(graph);
}

void bp_resident_like(bp_graph *graph, const bp_graph *like, void *scratch)
{
    keep k;
    keep_begin(&k, graph, scratch);
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        keep_enter(&k, program);
        for (uint32_t i = 1; i <= k.count; i++) {
            const keep_copy *copy = &k.copies[i];
            const bp_buffer *there = &like->buffers[copy->to];
            const bool never = there->lower == there->upper; /* so one comes before it */
            k.instead[copy->to] = never ? k.copies[copy->before].to : BP_NO_BUFFER;
        }
        (void)keep_redirect(&k);
    }
    keep_close_up(graph);
}
