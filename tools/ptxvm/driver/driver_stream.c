/* SPDX-License-Identifier: MIT */
/* Streams as queues, and the loop that runs what is ready. Nothing runs until something waits;
 * which ready stream goes first follows PTXVM_SEED. */
#include <stdlib.h>
#include <time.h>

#include "tools/ptxvm/driver/driver.h"

enum { READY_MAX = 256, STREAM_NON_BLOCKING = 1 };

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
    dr_clock_submit(stream, queued);
    if (stream->tail == NULL) {
        stream->head = queued;
    } else {
        stream->tail->next = queued;
    }
    stream->tail = queued;
    pthread_cond_broadcast(&dr_state.progress);
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

/* What another thread runs now it takes away itself. */
static void drop_queue(dr_stream *stream)
{
    dr_work *running = stream->busy ? stream->head : NULL;
    dr_work *next = running != NULL ? running->next : stream->head;
    while (next != NULL) {
        dr_work *dropped = next;
        next = next->next;
        dr_work_free(dropped);
        free(dropped);
    }
    stream->head = stream->tail = running;
    if (running != NULL) {
        running->next = NULL;
    }
}

void dr_drop_queues(void)
{
    drop_queue(&dr_state.legacy);
    for (dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        drop_queue(at);
    }
    dr_flights_forget();
}

/* ---- running ---- */

static bool execute(const dr_work *queued, const dr_work *work, uint32_t node);

/* A graph's nodes in an order that its edges allow; seeded among the ready ones. */
static bool execute_graph(const dr_work *queued)
{
    const dr_exec *exec = queued->exec;
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
        fine = execute(queued, &exec->nodes[chosen], chosen);
    }
    free(done);
    free(ready);
    return fine;
}

/* Other threads go on meanwhile: they may be what it waits for. It may ask nothing of the driver.
 */
static void call_host(const dr_work *work)
{
    pthread_mutex_unlock(&dr_state.lock);
    dr_calling = true;
    work->callback(work->data);
    dr_calling = false;
    pthread_mutex_lock(&dr_state.lock);
}

/* Copies of several rows go row by row. */
static bool copy_rows(const dr_work *work)
{
    bool fine = true;
    for (uint64_t row = 0; row < work->rows && fine; row++) {
        fine = vm_memory_copy(work->target + row * work->target_pitch,
                              work->source + row * work->source_pitch, work->bytes);
    }
    return fine;
}

static bool transfer(const dr_work *work)
{
    switch (work->kind) {
    case DW_WRITE:
        return vm_memory_write(work->target, work->staged != NULL ? work->staged : work->host,
                               work->bytes);
    case DW_READ:
        return vm_memory_read(work->host, work->source, work->bytes);
    case DW_COPY:
        return copy_rows(work);
    case DW_FILL:
        return vm_memory_fill(work->target, work->pattern, work->element, work->bytes);
    default: {
        vm_allocation *found = vm_memory_find(work->target);
        if (found != NULL && found->defined != NULL) {
            vm_defined_set(found, work->target - found->address, work->bytes, false);
        }
        return true;
    }
    }
}

/* Runs one piece of work of a stream: `queued` itself, or a node of the graph that it is. */
static bool execute(const dr_work *queued, const dr_work *work, uint32_t node)
{
    vm_owned owned[VM_OWNED_MAX];
    switch (work->kind) {
    case DW_LAUNCH:
        return dr_execute_launch(work, owned, dr_flights_beside(queued, node, owned)) == VM_OK;
    case DW_RECORD:
        work->event->completed = work->version;
        work->event->seconds = now();
        return true;
    case DW_WAIT:
        return true;
    case DW_GRAPH:
        return execute_graph(work);
    case DW_HOST:
        call_host(work);
        return true;
    default:
        break;
    }
    if (!dr_flights_allow(work, owned, dr_flights_beside(queued, node, owned))) {
        return false;
    }
    if (!transfer(work)) {
        dr_fail(VM_ILLEGAL_ADDRESS, "a copy or fill of memory that is gone");
        return false;
    }
    return true;
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
    if (head == NULL || stream->busy || older_elsewhere(stream, head->sequence)) {
        return false;
    }
    return head->kind != DW_WAIT || head->event->completed >= head->version;
}

static void run_head(dr_stream *stream)
{
    bool fine = execute(stream->head, stream->head, 0);
    stream->busy = false;
    if (fine) {
        pop(stream);
    } else {
        dr_drop_queues();
    }
    pthread_cond_broadcast(&dr_state.progress);
}

static void *run_apart(void *stream)
{
    pthread_mutex_lock(&dr_state.lock);
    run_head(stream);
    pthread_mutex_unlock(&dr_state.lock);
    return NULL;
}

static bool calls_host(const dr_work *work)
{
    bool calls = work->kind == DW_HOST;
    for (uint32_t i = 0; work->kind == DW_GRAPH && i < work->exec->count; i++) {
        calls = calls || work->exec->nodes[i].kind == DW_HOST;
    }
    return calls;
}

/* Host functions have threads of their own, as whoever waits for a stream may not be held up by
 * another's: what that function waits for may be this thread's next call. */
static void run_stream(dr_stream *stream)
{
    pthread_t thread;
    stream->busy = true;
    if (calls_host(stream->head) && pthread_create(&thread, NULL, run_apart, stream) == 0) {
        pthread_detach(thread);
        return;
    }
    run_head(stream);
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
    run_stream(chosen);
    return true;
}

/* Whether another thread runs something that this one may have to wait for. */
static bool wait_for_others(void)
{
    bool busy = dr_state.legacy.busy;
    for (const dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        busy = busy || at->busy;
    }
    if (busy) {
        pthread_cond_wait(&dr_state.progress, &dr_state.lock);
    }
    return busy;
}

bool dr_queues_empty(void)
{
    bool empty = dr_state.legacy.head == NULL;
    for (const dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        empty = empty && at->head == NULL;
    }
    return empty;
}

int dr_drain_stream(dr_stream *stream)
{
    while (dr_state.sticky == VM_OK &&
           (stream != NULL ? stream->head != NULL : !dr_queues_empty())) {
        if (!dr_run_one() && !wait_for_others()) {
            dr_fail(VM_LAUNCH_TIMEOUT, "streams wait for each other");
        }
    }
    dr_clock_await(stream == NULL ? NULL : &stream->clock);
    return dr_state.sticky;
}

/* What is queued on the device of this thread's context: those of others wait for nobody here. */
static bool device_idle(void)
{
    bool idle = dr_state.legacy.head == NULL;
    for (const dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        idle = idle && (at->head == NULL || at->device != dr_device());
    }
    return idle;
}

int dr_drain_device(void)
{
    if (dr_state.device_count == 1) {
        return dr_drain_stream(NULL);
    }
    while (dr_state.sticky == VM_OK && !device_idle()) {
        if (!dr_run_one() && !wait_for_others()) {
            dr_fail(VM_LAUNCH_TIMEOUT, "streams wait for each other");
        }
    }
    return dr_state.sticky;
}

int dr_drain_event(const dr_event *event)
{
    while (dr_state.sticky == VM_OK && event->completed < event->recorded) {
        if (!dr_run_one() && !wait_for_others()) {
            dr_fail(VM_LAUNCH_TIMEOUT, "an event that nothing will record");
        }
    }
    dr_clock_await(&event->clock);
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
    made->device = dr_device();
    made->blocking = flags != STREAM_NON_BLOCKING;
    made->next = dr_state.streams;
    dr_clock_open(made);
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
        dr_clock_await(&stream->clock);
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
