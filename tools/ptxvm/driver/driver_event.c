/* SPDX-License-Identifier: MIT */
/* Events: where a stream is, for other streams and the host to wait for. */
#include <stdlib.h>

#include "tools/ptxvm/driver/driver.h"

enum { EVENT_DISABLE_TIMING = 2 };

static dr_event *event_of(void *handle)
{
    dr_event *event = handle;
    return event != NULL && event->magic == MAGIC_EVENT ? event : NULL;
}

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
    int result = dr_drain_device();
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
    int result = dr_submit(stream, &work);
    event->clock = stream->clock;
    return dr_leave(result);
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
        dr_clock_await(&event->clock);
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
