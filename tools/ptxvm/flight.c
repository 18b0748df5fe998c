/* SPDX-License-Identifier: MIT */
/* What comes before what, whatever order it is run in, and the memory that belongs to copies which
 * nothing orders before or after the work that runs.
 *
 * Order comes from streams, events, edges of graphs, the legacy stream and the host's waits. The
 * host is one: what any of its threads has waited for comes before what any of them queues later.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/ptxvm/driver/driver.h"

/* A copy that was queued and that the host has not waited for. */
typedef struct flight {
    uint32_t slot; /* with its number: which work it is, or is a node of */
    uint64_t number;
    dr_clock clock;
    const dr_exec *exec; /* NULL: no graph */
    uint32_t node;
    vm_owned part[2];
    uint32_t parts;
} flight;

static flight *flights;
static uint32_t flight_count, flight_room;
static dr_clock host;
static uint64_t numbers[DR_CLOCKS];

static void join(dr_clock *to, const dr_clock *from)
{
    for (uint32_t i = 0; i < DR_CLOCKS; i++) {
        to->at[i] = to->at[i] < from->at[i] ? from->at[i] : to->at[i];
    }
}

/* A slot that no stream has; its numbers go on. */
void dr_clock_open(dr_stream *stream)
{
    bool taken[DR_CLOCKS] = {true};
    for (const dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        if (at->slot < DR_CLOCKS) {
            taken[at->slot] = true;
        }
    }
    stream->slot = 1;
    while (stream->slot < DR_CLOCKS && taken[stream->slot]) {
        stream->slot++;
    }
    stream->clock = host;
}

/* ---- flights ---- */

static uint32_t add_part(vm_owned *part, uint64_t address, const dr_work *work, uint64_t pitch,
                         bool target)
{
    const vm_allocation *found = vm_memory_find(address);
    uint64_t rows = work->kind == DW_COPY ? work->rows : 1;
    if (found == NULL || work->bytes == 0 || rows == 0) {
        return 0;
    }
    *part = (vm_owned){.data = found->data + (address - found->address),
                       .address = address,
                       .rows = rows,
                       .row_bytes = work->bytes,
                       .pitch = rows > 1 ? pitch : work->bytes,
                       .target = target};
    return 1;
}

static bool copies(const dr_work *work)
{
    return work->kind == DW_WRITE || work->kind == DW_READ || work->kind == DW_COPY;
}

/* `work` is `queued`, or a node of the graph that it is. */
static void add_flight(const dr_work *queued, const dr_work *work, uint32_t node)
{
    if (flight_count == flight_room) {
        flight_room = flight_room == 0 ? 64 : 2 * flight_room;
        flights = vm_resize(flights, flight_room * sizeof *flights);
    }
    flight *made = &flights[flight_count++];
    *made = (flight){.slot = queued->slot,
                     .number = queued->clock.at[queued->slot],
                     .clock = queued->clock,
                     .exec = queued->kind == DW_GRAPH ? queued->exec : NULL,
                     .node = node};
    if (work->kind != DW_READ) {
        made->parts += add_part(&made->part[0], work->target, work, work->target_pitch, true);
    }
    if (work->kind != DW_WRITE) {
        made->parts +=
            add_part(&made->part[made->parts], work->source, work, work->source_pitch, false);
    }
}

void dr_clock_submit(dr_stream *stream, dr_work *work)
{
    join(&stream->clock, &host);
    for (dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        if (stream == &dr_state.legacy && at->blocking) {
            join(&stream->clock, &at->clock);
        }
    }
    if (stream->blocking) {
        join(&stream->clock, &dr_state.legacy.clock);
    }
    if (work->kind == DW_WAIT) {
        join(&stream->clock, &work->event->clock);
    }
    work->slot = stream->slot;
    if (stream->slot >= DR_CLOCKS) {
        return;
    }
    stream->clock.at[stream->slot] = ++numbers[stream->slot];
    work->clock = stream->clock;
    if (copies(work)) {
        add_flight(work, work, 0);
    }
    for (uint32_t i = 0; work->kind == DW_GRAPH && i < work->exec->count; i++) {
        if (copies(&work->exec->nodes[i])) {
            add_flight(work, &work->exec->nodes[i], i);
        }
    }
}

void dr_clock_await(const dr_clock *clock)
{
    for (const dr_stream *at = dr_state.streams; clock == NULL && at != NULL; at = at->next) {
        join(&host, &at->clock);
    }
    join(&host, clock != NULL ? clock : &dr_state.legacy.clock);
    /* What is still queued may not come after what the host has waited for. */
    for (uint32_t i = flight_count; i > 0 && dr_queues_empty(); i--) {
        if (host.at[flights[i - 1].slot] >= flights[i - 1].number) {
            flights[i - 1] = flights[--flight_count];
        }
    }
}

void dr_flights_forget(void)
{
    flight_count = 0;
}

/* Whether something orders a flight before or after the work, or it is the work. */
static bool is_ordered(const flight *of, const dr_work *work, uint32_t node)
{
    if (work->slot >= DR_CLOCKS) {
        return true;
    }
    uint64_t number = work->clock.at[work->slot];
    if (of->slot == work->slot && of->number == number) {
        return of->exec == NULL || of->exec->ordered[of->node][node] != 0;
    }
    return work->clock.at[of->slot] >= of->number || of->clock.at[work->slot] >= number;
}

uint32_t dr_flights_beside(const dr_work *work, uint32_t node, vm_owned owned[VM_OWNED_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < flight_count; i++) {
        const flight *of = &flights[i];
        if (is_ordered(of, work, node)) {
            continue;
        }
        for (uint32_t k = 0; k < of->parts && count < VM_OWNED_MAX; k++) {
            owned[count++] = of->part[k];
        }
    }
    return count;
}

/* ---- copies and fills beside flights ---- */

static bool rows_allowed(const vm_owned *owned, uint32_t count, const vm_owned *rows)
{
    for (uint64_t row = 0; row < rows->rows; row++) {
        const vm_owned *other = vm_owned_touched(owned, count, rows->data + row * rows->pitch,
                                                 rows->row_bytes, rows->target);
        if (other != NULL) {
            char text[VM_REPORT_MAX];
            snprintf(text, sizeof text,
                     "a copy or fill %s 0x%" PRIx64
                     ", which belongs to a copy in flight, as its %s "
                     "at 0x%" PRIx64 ": nothing orders the two",
                     rows->target ? "writes" : "reads", rows->address,
                     other->target ? "target" : "source", other->address);
            dr_fail(VM_LAUNCH_FAILED, text);
            return false;
        }
    }
    return true;
}

bool dr_flights_allow(const dr_work *work, const vm_owned *owned, uint32_t count)
{
    vm_owned part;
    bool fine = true;
    if (count != 0 && work->kind != DW_READ) {
        dr_work whole = *work;
        whole.bytes = work->kind == DW_FILL ? work->bytes * work->element : work->bytes;
        fine = add_part(&part, work->target, &whole, work->target_pitch, true) == 0 ||
               rows_allowed(owned, count, &part);
    }
    if (fine && count != 0 && (work->kind == DW_READ || work->kind == DW_COPY)) {
        fine = add_part(&part, work->source, work, work->source_pitch, false) == 0 ||
               rows_allowed(owned, count, &part);
    }
    return fine;
}

/* ---- graphs ---- */

/* The nodes before and after one. Edges point to earlier nodes only. */
static uint8_t *ordered_with(const dr_exec *exec, uint32_t node)
{
    uint8_t *before = vm_allocate(exec->count + 1u);
    uint8_t *after = vm_allocate(exec->count + 1u);
    before[node] = after[node] = 1;
    for (uint32_t i = node + 1; i > 0; i--) {
        const dr_work *at = &exec->nodes[i - 1];
        for (uint32_t k = 0; before[i - 1] != 0 && k < at->after_count; k++) {
            before[at->after[k]] = 1;
        }
    }
    for (uint32_t i = node + 1; i < exec->count; i++) {
        const dr_work *at = &exec->nodes[i];
        for (uint32_t k = 0; k < at->after_count; k++) {
            after[i] = after[i] != 0 || after[at->after[k]] != 0;
        }
    }
    for (uint32_t i = 0; i < exec->count; i++) {
        before[i] = before[i] != 0 || after[i] != 0;
    }
    free(after);
    return before;
}

void dr_exec_order(dr_exec *exec)
{
    exec->ordered = vm_allocate((exec->count + 1u) * sizeof *exec->ordered);
    for (uint32_t i = 0; i < exec->count; i++) {
        exec->ordered[i] = copies(&exec->nodes[i]) ? ordered_with(exec, i) : NULL;
    }
}
