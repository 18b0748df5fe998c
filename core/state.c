/* SPDX-License-Identifier: MIT */
/* The persistent state: random initialisation, and reading and writing buffers from outside. */
#include <string.h>

#include "core/runtime.h"

static const char where[] = "state";

uint32_t bp_runtime_state_count(const bp_runtime *runtime)
{
    return runtime->state_count;
}

const bp_buffer *bp_runtime_state(const bp_runtime *runtime, uint32_t i)
{
    return &runtime->graph.buffers[runtime->state[i]];
}

const bp_buffer *bp_runtime_find(const bp_runtime *runtime, const char *name)
{
    uint32_t first = 0;
    uint32_t last = runtime->state_count;
    while (first < last) {
        uint32_t middle = first + (last - first) / 2;
        int order = strcmp(name, bp_graph_name(&runtime->graph, runtime->state[middle]));
        if (order == 0) {
            return bp_runtime_state(runtime, middle);
        }
        if (order < 0) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return NULL;
}

static bp_status check_range(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                             size_t bytes)
{
    if (runtime->open && bp_size_add(offset, bytes) <= buffer->bytes) {
        return BP_OK;
    }
    return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                        "a copy reaches beyond its buffer, or the device is not open",
                        runtime->graph.names + buffer->name);
}

static bp_status device_failed(bp_runtime *runtime, bp_status status, const bp_buffer *buffer)
{
    return bp_error_set(&runtime->error, status, where, "the device failed while copying",
                        runtime->graph.names + buffer->name);
}

bp_status bp_runtime_read(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset, void *to,
                          size_t bytes)
{
    BP_TRY(check_range(runtime, buffer, offset, bytes));
    bp_status status =
        runtime->spec.device->download(runtime->device, buffer->offset + offset, to, bytes);
    return status == BP_OK ? BP_OK : device_failed(runtime, status, buffer);
}

bp_status bp_runtime_write(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                           const void *from, size_t bytes)
{
    BP_TRY(check_range(runtime, buffer, offset, bytes));
    bp_status status =
        runtime->spec.device->upload(runtime->device, buffer->offset + offset, from, bytes);
    return status == BP_OK ? BP_OK : device_failed(runtime, status, buffer);
}

/* Writes `bytes` from the transfer piece over and over: zeros, ones. */
static bp_status fill(bp_runtime *runtime, const bp_buffer *buffer)
{
    for (uint64_t done = 0; done < buffer->bytes; done += BP_TRANSFER_BYTES) {
        uint64_t left = buffer->bytes - done;
        size_t piece = left < BP_TRANSFER_BYTES ? (size_t)left : BP_TRANSFER_BYTES;
        BP_TRY(bp_runtime_write(runtime, buffer, done, runtime->transfer, piece));
    }
    return BP_OK;
}

static bp_status fill_constant(bp_runtime *runtime, const bp_buffer *buffer, float value)
{
    float *piece = (float *)runtime->transfer;
    for (size_t i = 0; i < BP_TRANSFER_BYTES / sizeof *piece; i++) {
        piece[i] = value;
    }
    return fill(runtime, buffer);
}

bp_status bp_runtime_initialize(bp_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->state_count; i++) {
        const bp_buffer *buffer = bp_runtime_state(runtime, i);
        if (buffer->class_of != BP_CLASS_WEIGHTS) {
            BP_TRY(fill_constant(runtime, buffer, 0.0f));
        }
    }
    for (uint32_t i = 0; i < runtime->emit.parameter_count; i++) {
        const bp_parameter *parameter = &runtime->emit.parameters[i];
        if (parameter->init != BP_INIT_NORMAL) {
            BP_TRY(fill_constant(runtime, &runtime->graph.buffers[parameter->weight],
                                 parameter->init == BP_INIT_ONES ? 1.0f : 0.0f));
        }
    }
    BP_TRY(bp_runtime_draw(runtime));
    runtime->steps = 0;
    runtime->skipped = 0;
    return BP_OK;
}
