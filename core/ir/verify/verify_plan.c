/* SPDX-License-Identifier: MIT */
/* The program verifier: lifetimes that cover every use, places that no two live buffers share. */
#include <string.h>

#include "arena/sort.h"
#include "core/ir/verify/verify.h"

static const char where[] = "verify";

static bool verify_born_before(const void *user, uint32_t a, uint32_t b)
{
    const bp_buffer *buffers = user;
    if (buffers[a].lower != buffers[b].lower) {
        return buffers[a].lower < buffers[b].lower;
    }
    return a < b;
}

static bool verify_dies_before(const void *user, uint32_t a, uint32_t b)
{
    const bp_buffer *buffers = user;
    if (buffers[a].upper != buffers[b].upper) {
        return buffers[a].upper < buffers[b].upper;
    }
    return a < b;
}

static bool verify_misplaced(const bp_graph *graph, const bp_buffer *buffer, uint64_t arena_bytes)
{
    uint64_t end = bp_size_add(buffer->offset, buffer->bytes);
    return end > arena_bytes || buffer->offset % bp_graph_alignment(graph) != 0;
}

/* The buffers alive at one time, in the order of their offsets. */
typedef struct living {
    const bp_buffer *buffers;
    uint32_t *row;
    uint32_t count;
} living;

/* How many of the living lie below an offset. */
static uint32_t offloaded_tensors(const living *alive, uint64_t offset)
{
    uint32_t low = 0;
    uint32_t high = alive->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (alive->buffers[alive->row[middle]].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Lets a newborn buffer in, if it overlaps neither of its neighbours: since no two of the living
 * overlap, it overlaps nobody then. */
static bool living_add(living *alive, uint32_t newborn)
{
    const bp_buffer *buffer = &alive->buffers[newborn];
    uint32_t at = offloaded_tensors(alive, buffer->offset);
    if (at > 0) {
        const bp_buffer *below = &alive->buffers[alive->row[at - 1]];
        if (below->offset + below->bytes > buffer->offset) {
            return false;
        }
    }
    if (at < alive->count &&
        buffer->offset + buffer->bytes > alive->buffers[alive->row[at]].offset) {
        return false;
    }
    memmove(alive->row + at + 1, alive->row + at, (alive->count - at) * sizeof *alive->row);
    alive->row[at] = newborn;
    alive->count++;
    return true;
}

static void living_remove(living *alive, uint32_t dead)
{
    uint32_t at = offloaded_tensors(alive, alive->buffers[dead].offset);
    alive->count--;
    memmove(alive->row + at, alive->row + at + 1, (alive->count - at) * sizeof *alive->row);
}

static bool takes_room(const bp_buffer *buffer, bp_space space)
{
    return buffer->space == space && buffer->lower < buffer->upper && buffer->bytes > 0;
}

static bool verify_plan_lives_always(const bp_graph *graph, const bp_buffer *buffer)
{
    return buffer->lower == 0 && buffer->upper >= bp_graph_ticks(graph);
}

/* Contents that outlast the programs are there at every tick. */
static bool verify_outlasts(const bp_graph *graph, const bp_buffer *buffer)
{
    bool always = buffer->scope == BP_SCOPE_CONSTANT || buffer->scope == BP_SCOPE_PERSISTENT ||
                  buffer->scope == BP_SCOPE_RESIDENT;
    return !always || verify_plan_lives_always(graph, buffer);
}

/* Whether a buffer that an op of `program` at `tick` uses lives then, and through all of the
 * program where its next run finds the contents again. */
static bool verify_lives(const bp_graph *graph, const bp_buffer *buffer, uint32_t program,
                         uint32_t tick)
{
    bool whole = buffer->scope == BP_SCOPE_CARRIED ||
                 (buffer->scope == BP_SCOPE_GROUP && program == BP_PROGRAM_MICRO_NEXT);
    uint32_t first = whole ? graph->program_first[program] : tick;
    uint32_t last = whole ? first + graph->program_count[program] : tick + 1;
    return buffer->lower <= first && buffer->upper >= last;
}

static bp_status verify_lifetimes(const bp_graph *graph, uint32_t program, uint32_t tick)
{
    const bp_op *op = &graph->ops[tick];
    const uint32_t count = op->tuples * bp_kernel_describe(op->kernel)->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        const bp_ref ref = graph->refs[op->operand + i];
        if (bp_ref_present(ref) &&
            !verify_lives(graph, &graph->buffers[ref.buffer], program, tick)) {
            return bp_error_set(graph->error, BP_ERR_VERIFY, where,
                                "a buffer is used outside its lifetime",
                                bp_graph_name(graph, ref.buffer));
        }
    }
    return BP_OK;
}

/* Most programs have nothing in the host arena, and nothing to be looked at there. */
static bool verify_empty(const bp_graph *graph, bp_space space)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        if (graph->buffers[i].space == space) {
            return false;
        }
    }
    return true;
}

static bp_status verify_places(const bp_graph *graph, bp_space space, uint64_t arena_bytes,
                               bp_arena *memory)
{
    uint32_t count = graph->used.buffers;
    uint32_t *births = bp_arena_take(memory, count, sizeof *births);
    uint32_t *deaths = bp_arena_take(memory, count, sizeof *deaths);
    living alive = {.buffers = graph->buffers};
    alive.row = bp_arena_take(memory, count, sizeof *alive.row);
    uint32_t dead = 0;
    for (uint32_t i = 0; i < count; i++) {
        births[i] = i;
        deaths[i] = i;
    }
    bp_sort(births, alive.row, count, verify_born_before, graph->buffers);
    bp_sort(deaths, alive.row, count, verify_dies_before, graph->buffers);
    for (uint32_t i = 0; i < count; i++) {
        const bp_buffer *buffer = &graph->buffers[births[i]];
        bool lives = buffer->space == space && buffer->lower < buffer->upper;
        if (lives && verify_misplaced(graph, buffer, arena_bytes)) {
            return bp_error_set(graph->error, BP_ERR_VERIFY, where,
                                "a buffer lies outside the arena or is not aligned",
                                bp_graph_name(graph, births[i]));
        }
        if (!verify_outlasts(graph, buffer)) {
            return bp_error_set(graph->error, BP_ERR_VERIFY, where,
                                "a buffer whose contents stay does not live always",
                                bp_graph_name(graph, births[i]));
        }
        for (; dead < count && graph->buffers[deaths[dead]].upper <= buffer->lower; dead++) {
            if (takes_room(&graph->buffers[deaths[dead]], space)) {
                living_remove(&alive, deaths[dead]);
            }
        }
        if (takes_room(buffer, space) && !living_add(&alive, births[i])) {
            return bp_error_set(graph->error, BP_ERR_VERIFY, where,
                                "two live buffers overlap in the arena",
                                bp_graph_name(graph, births[i]));
        }
    }
    return BP_OK;
}

bp_status bp_verify_plan(const bp_graph *graph, uint64_t arena_bytes, void *scratch, uint64_t bytes)
{
    for (uint32_t program = 0; program < BP_PROGRAM_COUNT; program++) {
        for (uint32_t i = 0; i < graph->program_count[program]; i++) {
            BP_TRY(verify_lifetimes(graph, program, graph->program_first[program] + i));
        }
    }
    return bp_verify_space(graph, BP_SPACE_DEVICE, arena_bytes, scratch, bytes);
}

bp_status bp_verify_space(const bp_graph *graph, bp_space space, uint64_t arena_bytes,
                          void *scratch, uint64_t bytes)
{
    if (bytes < bp_verify_scratch(graph)) {
        return bp_error_set(graph->error, BP_ERR_FIT, where, "the scratch memory is too small",
                            NULL);
    }
    bp_arena memory;
    bp_arena_init(&memory, scratch, (size_t)bytes);
    return verify_empty(graph, space) ? BP_OK : verify_places(graph, space, arena_bytes, &memory);
}
