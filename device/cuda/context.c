/* SPDX-License-Identifier: MIT */
/* How calls of the CUDA device fail: once, in words, and for good; and how they are waited for. */
#include <time.h>

#include "device/cuda/context.h"

enum {
    LOOKS_BUSY = 2000, /* looks at a stream without a pause: steps are short */
    LOOK_US = 50       /* between two of the others */
};

bp_status cuda_check(cuda_context *context, bp_cu_result result, const char *entry)
{
    if (result == BP_CU_SUCCESS) {
        return BP_OK;
    }
    context->failed = true;
    context->dead = context->dead || bp_cu_result_fatal(result);
    return bp_cu_result_status(&context->driver, result, entry, context->error);
}

bp_status cuda_fail(cuda_context *context, bp_status status, const char *text, const char *name)
{
    context->failed = true;
    return bp_error_set(context->error, status, "cuda device", text, name);
}

void cuda_given_back(cuda_context *context, bp_cu_result result)
{
    context->dead = context->dead || bp_cu_result_fatal(result);
    context->failed = context->failed || context->dead;
}

bp_status cuda_enter(cuda_context *context)
{
    if (context->failed) {
        return BP_ERR_DEVICE;
    }
    return CUDA_CALL(context, cuCtxSetCurrent, context->handle);
}

bp_cu_address cuda_address(const cuda_context *context, uint64_t place, uint64_t bytes)
{
    uint64_t offset = bp_address_offset(place);
    uint64_t end = bp_size_add(offset, bytes);
    if (bp_address_space(place) == BP_SPACE_DEVICE && end <= context->arena_bytes) {
        return context->arena + offset;
    }
    if (bp_address_space(place) == BP_SPACE_HOST && end <= context->host_bytes) {
        return (bp_cu_address)(uintptr_t)(context->host_arena + offset);
    }
    return 0;
}

/* Host functions are made on a thread of the driver's. */
bp_status cuda_calls_status(const cuda_context *context)
{
    return (bp_status)__atomic_load_n(&context->call_status, __ATOMIC_ACQUIRE);
}

void cuda_calls_end(cuda_context *context, bp_status status)
{
    __atomic_store_n(&context->call_status, (int)status, __ATOMIC_RELEASE);
}

bp_status cuda_calls_ended(cuda_context *context)
{
    bp_status status = cuda_calls_status(context);
    if (status == BP_OK) {
        return BP_OK;
    }
    context->failed = true;
    if (context->error != NULL && context->error->code == BP_OK) {
        *context->error = context->call_error;
    }
    return status;
}

/* Looks on: with a pause after a while, and after it at the fabric. */
static bp_status ended_wait(cuda_context *context, const struct timespec *began, uint32_t looks)
{
    static const struct timespec pause = {0, LOOK_US * 1000};
    struct timespec at;
    if (looks < LOOKS_BUSY) {
        return BP_OK;
    }
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC, &at);
    const int64_t ms =
        (int64_t)(at.tv_sec - began->tv_sec) * 1000 + (at.tv_nsec - began->tv_nsec) / 1000000;
    bp_status status = context->fabric->stream->poll(context->rank, (uint64_t)ms, context->error);
    context->failed = context->failed || status != BP_OK;
    return status;
}

bp_status cuda_stream_ended(cuda_context *context, bp_cu_stream stream)
{
    struct timespec began;
    if (!context->attached) {
        return CUDA_CALL(context, cuStreamSynchronize, stream);
    }
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (uint32_t looks = 0;; looks += looks < LOOKS_BUSY) {
        bp_cu_result result = context->driver.cuStreamQuery(stream);
        if (result != BP_CU_NOT_READY) {
            return cuda_check(context, result, "cuStreamQuery");
        }
        BP_TRY(ended_wait(context, &began, looks));
    }
}

bp_status cuda_event_ended(cuda_context *context, bp_cu_event event)
{
    struct timespec began;
    if (!context->attached) {
        return CUDA_CALL(context, cuEventSynchronize, event);
    }
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (uint32_t looks = 0;; looks += looks < LOOKS_BUSY) {
        bp_cu_result result = context->driver.cuEventQuery(event);
        if (result != BP_CU_NOT_READY) {
            return cuda_check(context, result, "cuEventQuery");
        }
        BP_TRY(ended_wait(context, &began, looks));
    }
}
