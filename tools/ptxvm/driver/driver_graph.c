/* SPDX-License-Identifier: MIT */
/* Stream capture and graphs. */
#include <stdlib.h>

#include "tools/ptxvm/driver/driver.h"

enum {
    MODE_GLOBAL = 0,
    MODE_LOCAL = 1,
    MODE_RELAXED = 2,
    STATUS_NONE = 0,
    STATUS_ACTIVE = 1,
    STATUS_INVALID = 2
};

/* Every graph under capture is reached through the streams that take part. */
static void invalidate_captures(void)
{
    for (dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        if (at->capture != NULL) {
            at->capture->invalid = true;
        }
    }
}

int dr_forbid_in_capture(const dr_stream *stream)
{
    if (stream != NULL && stream->capture != NULL) {
        stream->capture->invalid = true;
        return CR_CAPTURE_UNSUPPORTED;
    }
    if ((stream == NULL || stream == &dr_state.legacy) && dr_state.graphs_capturing > 0) {
        invalidate_captures();
        return stream == NULL ? CR_CAPTURE_UNSUPPORTED : CR_CAPTURE_IMPLICIT;
    }
    return VM_OK;
}

/* Whether a capture takes offence at what this thread does. */
static bool minds(const dr_graph *graph)
{
    return graph->mode == MODE_GLOBAL ||
           (graph->mode == MODE_LOCAL && pthread_equal(graph->owner, pthread_self()) != 0);
}

int dr_forbid_allocation(void)
{
    for (dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        if (at->capture != NULL && minds(at->capture)) {
            at->capture->invalid = true;
            return CR_CAPTURE_UNSUPPORTED;
        }
    }
    return VM_OK;
}

int cuStreamBeginCapture_v2(void *handle, int mode)
{
    DR_ENTER(cuStreamBeginCapture_v2);
    dr_stream *stream = dr_stream_of(handle);
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    if (stream == &dr_state.legacy) {
        return dr_leave(CR_CAPTURE_UNSUPPORTED);
    }
    if (mode < MODE_GLOBAL || mode > MODE_RELAXED) {
        return dr_leave(VM_INVALID_VALUE);
    }
    if (stream->capture != NULL) {
        stream->capture->invalid = true;
        return dr_leave(CR_CAPTURE_UNSUPPORTED);
    }
    dr_graph *graph = vm_allocate(sizeof *graph);
    graph->magic = MAGIC_GRAPH;
    graph->capturing = true;
    graph->mode = mode;
    graph->owner = pthread_self();
    stream->capture = graph;
    stream->origin = true;
    stream->last_count = 0;
    dr_state.graphs_capturing++;
    dr_state.live[DK_GRAPH]++;
    return dr_leave(VM_OK);
}

static void free_graph(dr_graph *graph)
{
    for (dr_event *at = dr_state.events; at != NULL; at = at->next) {
        at->capture = at->capture == graph ? NULL : at->capture;
    }
    for (uint32_t i = 0; i < graph->count; i++) {
        dr_work_free(&graph->nodes[i]);
    }
    free(graph->nodes);
    graph->magic = 0;
    free(graph);
    dr_state.live[DK_GRAPH]--;
}

/* No stream takes part any more. */
static void end_capture(dr_graph *graph)
{
    for (dr_stream *at = dr_state.streams; at != NULL; at = at->next) {
        if (at->capture == graph) {
            at->capture = NULL;
            at->origin = false;
            at->last_count = 0;
        }
    }
    dr_state.graphs_capturing--;
    graph->capturing = false;
}

void dr_capture_leave(dr_stream *stream)
{
    dr_graph *graph = stream->capture;
    if (graph == NULL) {
        return;
    }
    graph->invalid = true;
    if (stream->origin) {
        end_capture(graph);
        free_graph(graph);
    }
}

/* Whether everything that other streams captured comes before the origin's last nodes. */
static bool is_joined(const dr_graph *graph, const dr_stream *origin)
{
    uint8_t *reached = vm_allocate(graph->count + 1u);
    for (uint32_t i = 0; i < origin->last_count; i++) {
        reached[origin->last[i]] = 1;
    }
    /* Edges point to earlier nodes only. */
    for (uint32_t i = graph->count; i > 0; i--) {
        const dr_work *node = &graph->nodes[i - 1];
        for (uint32_t k = 0; reached[i - 1] != 0 && k < node->after_count; k++) {
            reached[node->after[k]] = 1;
        }
    }
    bool joined = true;
    for (uint32_t i = 0; i < graph->count; i++) {
        joined = joined && reached[i] != 0;
    }
    free(reached);
    return joined;
}

int cuStreamEndCapture(void *handle, void **result)
{
    DR_ENTER(cuStreamEndCapture);
    dr_stream *stream = dr_stream_of(handle);
    *result = NULL;
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    dr_graph *graph = stream->capture;
    if (graph == NULL) {
        return dr_leave(VM_INVALID_VALUE);
    }
    if (!stream->origin) {
        graph->invalid = true;
        return dr_leave(CR_CAPTURE_UNMATCHED);
    }
    bool joined = is_joined(graph, stream);
    end_capture(graph);
    if (graph->invalid || !joined) {
        int code = graph->invalid ? CR_CAPTURE_INVALIDATED : CR_CAPTURE_UNJOINED;
        free_graph(graph);
        return dr_leave(code);
    }
    *result = graph;
    return dr_leave(VM_OK);
}

int cuStreamIsCapturing(void *handle, int *status)
{
    DR_ENTER(cuStreamIsCapturing);
    const dr_stream *stream = dr_stream_of(handle);
    if (stream == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    *status = stream->capture == NULL    ? STATUS_NONE
              : stream->capture->invalid ? STATUS_INVALID
                                         : STATUS_ACTIVE;
    return dr_leave(VM_OK);
}

/* ---- graphs ---- */

static dr_graph *graph_of(void *handle)
{
    dr_graph *graph = handle;
    return graph != NULL && graph->magic == MAGIC_GRAPH ? graph : NULL;
}

static dr_exec *exec_of(void *handle)
{
    dr_exec *exec = handle;
    return exec != NULL && exec->magic == MAGIC_EXEC ? exec : NULL;
}

int cuGraphInstantiateWithFlags(void **result, void *handle, unsigned long long flags)
{
    DR_ENTER(cuGraphInstantiateWithFlags);
    const dr_graph *graph = graph_of(handle);
    (void)flags;
    if (graph == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    dr_exec *exec = vm_allocate(sizeof *exec);
    exec->magic = MAGIC_EXEC;
    exec->count = graph->count;
    exec->nodes = vm_allocate((graph->count + 1u) * sizeof(dr_work));
    for (uint32_t i = 0; i < graph->count; i++) {
        exec->nodes[i] = dr_work_clone(&graph->nodes[i]);
    }
    dr_exec_order(exec);
    dr_state.live[DK_GRAPH_EXEC]++;
    *result = exec;
    return dr_leave(VM_OK);
}

int cuGraphUpload(void *handle, void *stream)
{
    DR_ENTER(cuGraphUpload);
    return dr_leave(exec_of(handle) != NULL && dr_stream_of(stream) != NULL ? VM_OK
                                                                            : CR_INVALID_HANDLE);
}

int cuGraphLaunch(void *handle, void *stream_handle)
{
    DR_ENTER(cuGraphLaunch);
    dr_stream *stream = dr_stream_of(stream_handle);
    dr_exec *exec = exec_of(handle);
    if (stream == NULL || exec == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    dr_work work;
    memset(&work, 0, sizeof work);
    work.kind = DW_GRAPH;
    work.exec = exec;
    return dr_leave(dr_submit(stream, &work));
}

int cuGraphDestroy(void *handle)
{
    DR_ENTER(cuGraphDestroy);
    dr_graph *graph = graph_of(handle);
    if (graph == NULL || graph->capturing) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    free_graph(graph);
    return dr_leave(VM_OK);
}

int cuGraphExecDestroy(void *handle)
{
    DR_ENTER(cuGraphExecDestroy);
    dr_exec *exec = exec_of(handle);
    if (exec == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    int result = dr_drain_device();
    for (uint32_t i = 0; i < exec->count; i++) {
        dr_work_free(&exec->nodes[i]);
        free(exec->ordered[i]);
    }
    free(exec->ordered);
    free(exec->nodes);
    exec->magic = 0;
    free(exec);
    dr_state.live[DK_GRAPH_EXEC]--;
    return dr_leave(result);
}

int cuGraphGetNodes(void *handle, void **nodes, size_t *count)
{
    DR_ENTER(cuGraphGetNodes);
    dr_graph *graph = graph_of(handle);
    if (graph == NULL) {
        return dr_leave(CR_INVALID_HANDLE);
    }
    for (size_t i = 0; nodes != NULL && i < *count && i < graph->count; i++) {
        nodes[i] = &graph->nodes[i];
    }
    *count = graph->count;
    return dr_leave(VM_OK);
}
