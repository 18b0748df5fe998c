/* SPDX-License-Identifier: MIT */
/* Streams as queues, events, and the loop that runs what is ready. Nothing runs until something
 * waits; which ready stream goes first follows PTXVM_SEED. */
#include <stdlib.h>
#include <time.h>

#include "tools/ptxvm/driver.h"

enum { READY_MAX = 256, STREAM_NON_BLOCKING = 1, EVENT_DISABLE_TIMING = 2 };

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

dr_stream *dr_stream_of(void *handle)
{
    if ((uintptr_t)handle <= 2) {
        dr_state.legacy.magic = MAGIC_STREAM;
        dr_state.legacy.blocking = true;
        return &dr_state.legacy;
    }
    for (dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        if (at == handle) {
            return at;
        }
    }
    return NULL;
}

static dr_event *event_of(void *handle)
{
    dr_event *event = handle;
    return event != NULL && event->magic == MAGIC_EVENT ? event : NULL;
}

/* ---- work ---- */

void dr_work_free(dr_work *work)
{
    free(work->params);
    free(work->operands);
    free(work->staged);
    free(work->after);
}

dr_work dr_work_clone(const dr_work *work)
{
    dr_work copy = *work;
    copy.next = NULL;
    if (work->params != NULL) {
        const dr_function *function = work->function;
        size_t bytes = function->module->program->functions[function->index].param_bytes;
        copy.params = vm_copy(work->params, bytes + 64);
    }
    if (work->operands != NULL) {
        copy.operands = vm_copy(work->operands, work->operand_count * sizeof(ptxvm_operand));
    }
    if (work->staged != NULL) {
        copy.staged = vm_copy(work->staged, (size_t)work->bytes);
    }
    if (work->after != NULL) {
        copy.after = vm_copy(work->after, work->after_count * sizeof(uint32_t));
    }
    return copy;
}

static void set_last(dr_stream *stream, const uint32_t *nodes, uint32_t count)
{
    uint32_t *kept = vm_copy(nodes, count * sizeof(uint32_t));
    free(stream->last);
    stream->last = kept;
    stream->last_count = count;
}

/* While a stream is captured its work becomes a node behind the stream's last ones. */
static int capture_work(dr_stream *stream, dr_work *work)
{
    dr_graph *graph = stream->capture;
    if (graph->invalid) {
        dr_work_free(work);
        return CR_CAPTURE_INVALIDATED;
    }
    if (graph->count == graph->capacity) {
        graph->capacity = graph->capacity == 0 ? 64 : graph->capacity * 2;
        graph->nodes = vm_resize(graph->nodes, graph->capacity * sizeof(dr_work));
    }
    work->after = vm_copy(stream->last, stream->last_count * sizeof(uint32_t));
    work->after_count = stream->last_count;
    uint32_t index = graph->count++;
    graph->nodes[index] = *work;
    set_last(stream, &index, 1);
    return VM_OK;
}

int dr_submit(dr_stream *stream, dr_work *work)
{
    if (stream->capture != NULL) {
        return capture_work(stream, work);
    }
    if (stream == &dr_state.legacy && dr_state.graphs_capturing > 0) {
        dr_work_free(work);
        dr_forbid_in_capture(NULL);
        return CR_CAPTURE_IMPLICIT;
    }
    dr_work *queued = vm_copy(work, sizeof *work);
    queued->sequence = ++dr_state.sequence;
    queued->next = NULL;
    if (stream->tail == NULL) {
        stream->head = queued;
    } else {
        stream->tail->next = queued;
    }
    stream->tail = queued;
    return VM_OK;
}

static void pop(dr_stream *stream)
{
    dr_work *done = stream->head;
    stream->head = done->next;
    if (stream->head == NULL) {
        stream->tail = NULL;
    }
    dr_work_free(done);
    free(done);
}

void dr_drop_queues(void)
{
    while (dr_state.legacy.head != NULL) {
        pop(&dr_state.legacy);
    }
    for (dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        while (at->head != NULL) {
            pop(at);
        }
    }
}

/* ---- running ---- */

static bool execute(dr_work *work);

/* A graph's nodes in an order that its edges allow; seeded among the ready ones. */
static bool execute_graph(const dr_exec *exec)
{
    uint8_t *done = vm_allocate(exec->count + 1u);
    uint32_t *ready = vm_allocate((exec->count + 1u) * sizeof(uint32_t));
    bool seeded = vm_config_number("PTXVM_SEED", 0) != 0;
    bool fine = true;
    for (uint32_t left = exec->count; left > 0 && fine; left--) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < exec->count && (seeded || count == 0); i++) {
            bool waits = done[i] != 0;
            for (uint32_t k = 0; k < exec->nodes[i].after_count; k++) {
                waits = waits || done[exec->nodes[i].after[k]] == 0;
            }
            if (!waits) {
                ready[count++] = i;
            }
        }
        uint32_t chosen = ready[seeded ? vm_random(&dr_state.random) % count : 0];
        done[chosen] = 1;
        fine = execute(&exec->nodes[chosen]);
    }
    free(done);
    free(ready);
    return fine;
}

static bool execute(dr_work *work)
{
    bool fine = true;
    switch (work->kind) {
    case DW_LAUNCH:
        return dr_execute_launch(work) == VM_OK;
    case DW_WRITE:
        fine = vm_memory_write(work->target, work->staged != NULL ? work->staged : work->host,
                               work->bytes);
        break;
    case DW_READ:
        fine = vm_memory_read(work->host, work->source, work->bytes);
        break;
    case DW_COPY:
        fine = vm_memory_copy(work->target, work->source, work->bytes);
        break;
    case DW_FILL:
        fine = vm_memory_fill(work->target, work->pattern, work->element, work->bytes);
        break;
    case DW_UNDEFINE: {
        vm_allocation *found = vm_memory_find(work->target);
        if (found != NULL) {
            vm_defined_set(found, work->target - found->address, work->bytes, false);
        }
        break;
    }
    case DW_RECORD:
        work->event->completed = work->version;
        work->event->seconds = now();
        break;
    case DW_WAIT:
        break;
    case DW_GRAPH:
        return execute_graph(work->exec);
    case DW_HOST:
        work->callback(work->data);
        break;
    }
    if (!fine) {
        dr_fail(VM_ILLEGAL_ADDRESS, "a copy or fill of memory that is gone");
    }
    return fine;
}

/* The oldest work not yet done on the blocking streams, or on the legacy one. */
static bool older_elsewhere(const dr_stream *stream, uint64_t sequence)
{
    if (!stream->blocking) {
        return false;
    }
    if (stream != &dr_state.legacy) {
        return dr_state.legacy.head != NULL && dr_state.legacy.head->sequence < sequence;
    }
    for (const dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        if (at->blocking && at->head != NULL && at->head->sequence < sequence) {
            return true;
        }
    }
    return false;
}

static bool is_ready(const dr_stream *stream)
{
    const dr_work *head = stream->head;
    if (head == NULL || older_elsewhere(stream, head->sequence)) {
        return false;
    }
    return head->kind != DW_WAIT || head->event->completed >= head->version;
}

bool dr_run_one(void)
{
    dr_stream *ready[READY_MAX];
    uint32_t count = 0;
    if (is_ready(&dr_state.legacy)) {
        ready[count++] = &dr_state.legacy;
    }
    for (dr_stream *at = dr_state.streams; at != NULL && count < READY_MAX; at = at->next) {
        if (is_ready(at)) {
            ready[count++] = at;
        }
    }
    if (count == 0) {
        return false;
    }
    uint64_t seed = vm_config_number("PTXVM_SEED", 0);
    dr_stream *chosen = ready[0];
    if (seed != 0) {
        dr_state.random = dr_state.random == 0 ? seed : dr_state.random;
        chosen = ready[vm_random(&dr_state.random) % count];
    } else {
        for (uint32_t i = 1; i < count; i++) {
            chosen = ready[i]->head->sequence < chosen->head->sequence ? ready[i] : chosen;
        }
    }
    if (!execute(chosen->head)) {
        dr_drop_queues();
        return true;
    }
    pop(chosen);
    return true;
}

static bool all_empty(void)
{
    bool empty = dr_state.legacy.head == NULL;
    for (const dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        empty = empty && at->head == NULL;
    }
    return empty;
}

int dr_drain_stream(dr_stream *stream)
{
    while (dr_state.sticky == VM_OK && (stream != NULL ? stream->head != NULL : !all_empty())) {
        if (!dr_run_one()) {
            dr_fail(VM_LAUNCH_TIMEOUT, "streams wait for each other");
        }
    }
    return dr_state.sticky;
}

int dr_drain_event(const dr_event *event)
{
    while (dr_state.sticky == VM_OK && event->completed < event->recorded) {
        if (!dr_run_one()) {
            dr_fail(VM_LAUNCH_TIMEOUT, "an event that nothing will record");
        }
    }
    return dr_state.sticky;
}

/* ---- streams ---- */

static int create_stream(void **stream, unsigned flags)
{
    if (flags > STREAM_NON_BLOCKING) {
        return VM_INVALID_VALUE;
    }
    dr_stream *made = vm_allocate(sizeof *made);
    made->magic = MAGIC_STREAM;
    made->blocking = flags != STREAM_NON_BLOCKING;
    made->next = dr_state.streams;
    dr_state.streams = made;
    dr_state.live[DK_STREAM]++;
    *stream = made;
    return VM_OK;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    DR_ENTER(cuStreamCreate);
    return dr_leave(create_stream(stream, flags));
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    DR_ENTER(cuStreamCreateWithPriority);
    (void)priority;
    return dr_leave(create_stream(stream, flags));
}

int cuStreamDestroy_v2(void *handle)
{
    DR_ENTER(cuStreamDestroy_v2);
    dr_stream *stream = dr_stream_of(handle);
    if (stream == NULL || stream == &dr_state.legacy) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    int result = dr_drain_stream(stream);
    for (dr_stream **at = &dr_state.streams; *at != NULL; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    }
    dr_capture_leave(stream);
    free(stream->last);
    free(stream);
    dr_state.live[DK_STREAM]--;
    return dr_leave(result);
}

int cuStreamSynchronize(void *handle)
{
    DR_ENTER(cuStreamSynchronize);
    dr_stream *stream = dr_stream_of(handle);
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    int forbidden = dr_forbid_in_capture(stream);
    return dr_leave(forbidden != VM_OK ? forbidden : dr_drain_stream(stream));
}

/* A query makes progress, or a loop of queries would never end. */
int cuStreamQuery(void *handle)
{
    DR_ENTER(cuStreamQuery);
    dr_stream *stream = dr_stream_of(handle);
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    int forbidden = dr_forbid_in_capture(stream);
    if (forbidden != VM_OK || stream->head == NULL) {
        return dr_leave(forbidden);
    }
    dr_run_one();
    return dr_leave(dr_state.sticky != VM_OK ? dr_state.sticky : CR_NOT_READY);
}

int cuLaunchHostFunc(void *handle, void (*function)(void *), void *data)
{
    DR_ENTER(cuLaunchHostFunc);
    dr_stream *stream = dr_stream_of(handle);
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_HOST;
    work.callback = function;
    work.data = data;
    return dr_leave(dr_submit(stream, &work));
}

/* ---- events ---- */

int cuEventCreate(void **event, unsigned flags)
{
    DR_ENTER(cuEventCreate);
    dr_event *made = vm_allocate(sizeof *made);
    made->magic = MAGIC_EVENT;
    made->timing = (flags & EVENT_DISABLE_TIMING) == 0;
    made->next = dr_state.events;
    dr_state.events = made;
    dr_state.live[DK_EVENT]++;
    *event = made;
    return dr_leave(VM_OK);
}

int cuEventDestroy_v2(void *handle)
{
    DR_ENTER(cuEventDestroy_v2);
    dr_event *event = event_of(handle);
    if (event == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    int result = dr_drain_stream(NULL);
    for (dr_event **at = &dr_state.events; *at != NULL; at = &(*at)->next) {
        if (*at == event) {
            *at = event->next;
            break;
        }
    }
    event->magic = 0;
    free(event->last);
    free(event);
    dr_state.live[DK_EVENT]--;
    return dr_leave(result);
}

int cuEventRecord(void *handle, void *stream_handle)
{
    DR_ENTER(cuEventRecord);
    dr_event *event = event_of(handle);
    dr_stream *stream = dr_stream_of(stream_handle);
    if (event == NULL || stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (stream->capture != NULL) {
        free(event->last);
        event->capture = stream->capture;
        event->last = vm_copy(stream->last, stream->last_count * sizeof(uint32_t));
        event->last_count = stream->last_count;
        return dr_leave(stream->capture->invalid ? CR_CAPTURE_INVALIDATED : VM_OK);
    }
    event->capture = NULL;
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_RECORD;
    work.event = event;
    work.version = ++event->recorded;
    return dr_leave(dr_submit(stream, &work));
}

/* Inside a capture a wait adds the event's nodes to what the stream's next node depends on, and
 * draws a stream into the capture that was outside it. */
static int wait_captured(dr_stream *stream, const dr_event *event)
{
    if (stream->capture != NULL && stream->capture != event->capture) {
        stream->capture->invalid = true;
        return CR_CAPTURE_INVALIDATED;
    }
    stream->capture = event->capture;
    uint32_t total = stream->last_count + event->last_count;
    uint32_t *all = vm_allocate((total + 1u) * sizeof(uint32_t));
    if (stream->last_count != 0) {
        memcpy(all, stream->last, stream->last_count * sizeof(uint32_t));
    }
    if (event->last_count != 0) {
        memcpy(all + stream->last_count, event->last, event->last_count * sizeof(uint32_t));
    }
    free(stream->last);
    stream->last = all;
    stream->last_count = total;
    return VM_OK;
}

int cuStreamWaitEvent(void *stream_handle, void *handle, unsigned flags)
{
    DR_ENTER(cuStreamWaitEvent);
    dr_event *event = event_of(handle);
    dr_stream *stream = dr_stream_of(stream_handle);
    if (event == NULL || stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (flags > 1) {
        return dr_leave(VM_INVALID_VALUE);
    }
    if (event->capture != NULL) {
        return dr_leave(wait_captured(stream, event));
    }
    if (stream->capture != NULL) {
        stream->capture->invalid = true; /* captured work cannot wait for work outside */
        return dr_leave(CR_CAPTURE_INVALIDATED);
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_WAIT;
    work.event = event;
    work.version = event->recorded;
    return dr_leave(dr_submit(stream, &work));
}

int cuEventSynchronize(void *handle)
{
    DR_ENTER(cuEventSynchronize);
    dr_event *event = event_of(handle);
    if (event == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (event->capture != NULL) {
        event->capture->invalid = true;
        return dr_leave(CR_CAPTURED_EVENT);
    }
    return dr_leave(dr_drain_event(event));
}

int cuEventQuery(void *handle)
{
    DR_ENTER(cuEventQuery);
    dr_event *event = event_of(handle);
    if (event == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (event->completed >= event->recorded) {
        return dr_leave(VM_OK);
    }
    dr_run_one();
    return dr_leave(dr_state.sticky != VM_OK ? dr_state.sticky : CR_NOT_READY);
}

static int elapsed(float *milliseconds, const dr_event *first, const dr_event *second)
{
    if (first == NULL || second == NULL || !first->timing || !second->timing) {
        return CR_INVALID_HANDLE;
    }
    if (first->completed < first->recorded || second->completed < second->recorded) {
        return CR_NOT_READY;
    }
    *milliseconds = (float)((second->seconds - first->seconds) * 1e3);
    return VM_OK;
}

int cuEventElapsedTime(float *milliseconds, void *from, void *to)
{
    DR_ENTER(cuEventElapsedTime);
    return dr_leave(elapsed(milliseconds, event_of(from), event_of(to)));
}

int cuEventElapsedTime_v2(float *milliseconds, void *from, void *to)
{
    DR_ENTER(cuEventElapsedTime_v2);
    return dr_leave(elapsed(milliseconds, event_of(from), event_of(to)));
}
