/* SPDX-License-Identifier: MIT */
/* Opening a GPU: finding it, checking that it can do what was planned, taking everything that a run
 * will ever need of it; and giving it back. */
#include <string.h>

#include "device/cuda/context.h"

static const char where[] = "cuda device";

#define STAGING_BYTES ((CUDA_SLOTS + 1) * CUDA_SLOT_BYTES)

static bp_status read_options(cuda_context *context, const bp_device_options *options)
{
    context->row = bp_cuda_target_find(options->target);
    if (context->row == NULL) {
        return bp_error_set(context->error, BP_ERR_USAGE, where,
                            "no such target; there are sm_80 and sm_90a", options->target);
    }
    const char *variant = options->variant != NULL ? options->variant : "graph";
    context->plain = strcmp(variant, "plain") == 0;
    if (!context->plain && strcmp(variant, "graph") != 0) {
        return bp_error_set(context->error, BP_ERR_USAGE, where,
                            "no such variant; there are graph and plain", variant);
    }
    context->tf32 = options->tf32;
    context->target = bp_cuda_target_of(context->row, options->tf32);
    context->target.dequantizes = options->dequantizes;
    return BP_OK;
}

static bp_status find_device(cuda_context *context, uint32_t ordinal)
{
    int version = 0;
    int count = 0;
    BP_TRY(bp_cu_driver_load(&context->driver, context->error));
    BP_TRY(bp_cu_driver_begin(&context->driver, &version, context->error));
    if (version < context->row->driver) {
        return bp_error_limit(context->error, BP_ERR_DEVICE, where,
                              "the NVIDIA driver is too old for the PTX of this target; versions "
                              "are 1000 times the CUDA release",
                              context->row->name, version, BP_LIMIT_LEAST, context->row->driver);
    }
    CUDA_TRY(context, cuDeviceGetCount, &count);
    if (ordinal >= (uint32_t)count) {
        return bp_error_limit(context->error, BP_ERR_DEVICE, where,
                              "there is no GPU of that number, counted from 0", "cuda",
                              (int64_t)ordinal, BP_LIMIT_MOST, count - 1);
    }
    CUDA_TRY(context, cuDeviceGet, &context->device, (int)ordinal);
    return CUDA_CALL(context, cuDeviceGetUuid_v2, &context->uuid, context->device);
}

/* Capability as 80 for 8.0, and exactly that one where the target says so. Shared memory follows
 * from it. */
static bp_status check_capability(cuda_context *context)
{
    int major = 0;
    int minor = 0;
    const bp_cuda_target_row *row = context->row;
    CUDA_TRY(context, cuDeviceGetAttribute, &major, BP_CU_CAPABILITY_MAJOR, context->device);
    CUDA_TRY(context, cuDeviceGetAttribute, &minor, BP_CU_CAPABILITY_MINOR, context->device);
    int count = 0;
    CUDA_TRY(context, cuDeviceGetAttribute, &count, BP_CU_MULTIPROCESSORS, context->device);
    context->target.multiprocessors = count > 0 ? (uint32_t)count : 0;
    int capability = 10 * major + minor;
    bool able =
        row->exact ? capability == (int)row->capability : capability >= (int)row->capability;
    if (!able) {
        return bp_error_limit(context->error, BP_ERR_DEVICE, where,
                              "the GPU's compute capability (times 10) does not fit the target",
                              row->name, capability, row->exact ? BP_LIMIT_EXACT : BP_LIMIT_LEAST,
                              (int64_t)row->capability);
    }
    return BP_OK;
}

static bp_status open_no_room(cuda_context *context, const char *text)
{
    context->failed = true;
    return bp_error_limit(context->error, BP_ERR_DEVICE, where, text, "arena",
                          bp_size_signed(context->memory.free_context), BP_LIMIT_LEAST,
                          bp_size_signed(context->arena_bytes));
}

static bp_status read_free(cuda_context *context, uint64_t *free_bytes)
{
    size_t available = 0;
    size_t total = 0;
    CUDA_TRY(context, cuMemGetInfo_v2, &available, &total);
    *free_bytes = available;
    context->memory.total = total;
    return BP_OK;
}

/* The host arena, which begins as zero bytes too, and what calls of a fabric go through. */
static bp_status take_host_memory(cuda_context *context)
{
    void *taken = NULL;
    if (context->host_bytes > 0) {
        CUDA_TRY(context, cuMemAllocHost_v2, &taken, (size_t)context->host_bytes);
        context->host_arena = taken;
        memset(taken, 0, (size_t)context->host_bytes);
    }
    if (context->fabric != NULL) {
        const size_t ranks = context->fabric->size(context->rank);
        CUDA_TRY(context, cuMemAllocHost_v2, &taken,
                 2 * CUDA_SLOT_BYTES + ranks * sizeof(bp_fabric_piece));
        context->calls_staging = taken;
        context->calls_pieces = (void *)(context->calls_staging + 2 * CUDA_SLOT_BYTES);
    }
    return BP_OK;
}

/* Whether the arena can be memory of both sides: on a GPU that has none of its own, as a Jetson's,
 * and managed, since that GPU keeps nothing in its caches of pinned memory. Ranks exchange what
 * lies in an ordinary arena. */
static bp_status ask_shared(cuda_context *context)
{
    int integrated = 0;
    int managed = 0;
    if (context->fabric != NULL || context->driver.cuMemAllocManaged == NULL) {
        return BP_OK;
    }
    CUDA_TRY(context, cuDeviceGetAttribute, &integrated, BP_CU_INTEGRATED, context->device);
    CUDA_TRY(context, cuDeviceGetAttribute, &managed, BP_CU_MANAGED_MEMORY, context->device);
    context->shared = integrated != 0 && managed != 0;
    return BP_OK;
}

/* An arena of no bytes is a program of nothing. */
static bp_status take_arena(cuda_context *context)
{
    const size_t bytes = context->arena_bytes > 0 ? (size_t)context->arena_bytes : 1;
    const bp_cu_driver *driver = &context->driver;
    bp_cu_result result = BP_CU_SUCCESS;
    if (context->shared) {
        result = driver->cuMemAllocManaged(&context->arena, bytes, BP_CU_ATTACH_GLOBAL);
    } else if (!context->mapped) {
        result = driver->cuMemAlloc_v2(&context->arena, bytes);
    }
    if (result == BP_CU_OUT_OF_MEMORY) {
        return open_no_room(context,
                            "the GPU's free memory, in bytes, has no such piece for the arena");
    }
    return cuda_check(context, result, context->shared ? "cuMemAllocManaged" : "cuMemAlloc_v2");
}

/* One allocation on each side. */
static bp_status take_memory(cuda_context *context)
{
    BP_TRY(read_free(context, &context->memory.free_context));
    if (context->memory.free_context < context->arena_bytes) {
        return open_no_room(context, BP_CUDA_NO_ROOM);
    }
    if (context->fabric != NULL && context->fabric->stream != NULL) {
        BP_TRY(cuda_segment_take(context));
    }
    BP_TRY(ask_shared(context));
    BP_TRY(take_arena(context));
    void *staging = NULL;
    CUDA_TRY(context, cuMemAllocHost_v2, &staging, STAGING_BYTES);
    context->staging = staging;
    BP_TRY(take_host_memory(context));
    return read_free(context, &context->memory.free_arena);
}

/* What is begun beside the work needs events of its own; programs of one rank in the device arena
 * have nothing of the kind. Without a fabric its calls are copies. */
static bp_status take_engines(cuda_context *context)
{
    if (context->host_bytes == 0 && context->fabric == NULL) {
        return BP_OK;
    }
    if (context->fabric != NULL) {
        CUDA_TRY(context, cuStreamCreate, &context->calls, BP_CU_STREAM_NON_BLOCKING);
    }
    CUDA_TRY(context, cuEventCreate, &context->begun, BP_CU_EVENT_NO_TIMING);
    for (uint32_t engine = BP_ENGINE_COPY; engine < BP_ENGINE_COUNT; engine++) {
        for (uint32_t i = 0; i < CUDA_FLIGHTS; i++) {
            CUDA_TRY(context, cuEventCreate, &context->landed[engine][i], BP_CU_EVENT_NO_TIMING);
        }
    }
    return BP_OK;
}

static bp_status take_streams(cuda_context *context)
{
    CUDA_TRY(context, cuStreamCreate, &context->work, BP_CU_STREAM_NON_BLOCKING);
    CUDA_TRY(context, cuStreamCreate, &context->copies, BP_CU_STREAM_NON_BLOCKING);
    CUDA_TRY(context, cuEventCreate, &context->ran, BP_CU_EVENT_NO_TIMING);
    for (uint32_t i = 0; i < CUDA_SLOTS; i++) {
        CUDA_TRY(context, cuEventCreate, &context->copied[i], BP_CU_EVENT_NO_TIMING);
    }
    return take_engines(context);
}

/* The GPUs of the ranks are joined when this one has all that it needs. */
static bp_status join_ranks(cuda_context *context)
{
    const bp_fabric_stream *stream = context->fabric != NULL ? context->fabric->stream : NULL;
    uint64_t before = 0;
    if (stream == NULL) {
        return BP_OK;
    }
    BP_TRY(read_free(context, &before));
    context->attached = true; /* from here on there may be something to detach from */
    bp_status status =
        stream->attach(context->rank, (void *)(uintptr_t)context->arena,
                       context->mapped ? context->segment_bytes : context->arena_bytes,
                       context->mapped, context->calls, context->error);
    context->failed = context->failed || status != BP_OK;
    BP_TRY(status);
    BP_TRY(cuda_stream_ended(context, context->calls));
    uint64_t after = 0;
    BP_TRY(read_free(context, &after));
    context->memory.fabric = before > after ? before - after : 0;
    return BP_OK;
}

/* The state begins as zero bytes. */
static bp_status clear_arena(cuda_context *context)
{
    CUDA_TRY(context, cuMemsetD8Async, context->arena, 0, (size_t)context->arena_bytes,
             context->work);
    CUDA_TRY(context, cuEventRecord, context->ran, context->work);
    return CUDA_CALL(context, cuStreamSynchronize, context->work);
}

static bp_status open_device(cuda_context *context, const bp_device_options *options)
{
    BP_TRY(read_options(context, options));
    BP_TRY(find_device(context, options->ordinal));
    BP_TRY(check_capability(context));
    CUDA_TRY(context, cuDevicePrimaryCtxRetain, &context->handle, context->device);
    BP_TRY(cuda_enter(context));
    BP_TRY(take_memory(context));
    BP_TRY(take_streams(context));
    BP_TRY(join_ranks(context));
    return clear_arena(context);
}

bp_status cuda_open(void *memory, const bp_device_options *options, const bp_regions *regions,
                    bp_error *error)
{
    cuda_context *context = memory;
    memset(context, 0, sizeof *context);
    context->error = error;
    context->arena_bytes = regions->space[BP_SPACE_DEVICE].bytes;
    context->host_bytes = regions->space[BP_SPACE_HOST].bytes;
    context->fabric = regions->fabric;
    context->rank = regions->rank;
    bp_status status = open_device(context, options); /* it brings its own memory */
    if (status != BP_OK) {
        cuda_close(context);
    }
    return status;
}

/* Calls of the fabric that are queued wait for no other rank, and the one in which the driver's
 * thread waits now ends: the streams could not be waited for otherwise. */
static void end_calls(cuda_context *context)
{
    static const bp_error unknown = {
        .code = BP_ERR_DEVICE, .where = "cuda", .text = "the device of a rank has failed"};
    const bp_error *found = context->error;
    cuda_calls_end(context, BP_ERR_DEVICE);
    context->fabric->abandon(context->rank,
                             found != NULL && found->code != BP_OK ? found : &unknown);
}

/* Nothing that is still running may use what is given back. */
static void release_streams(cuda_context *context)
{
    if (context->calls != NULL && (context->failed || context->dead)) {
        end_calls(context);
    }
    if (context->attached && (context->failed || context->dead)) {
        context->fabric->stream->detach(context->rank, true); /* or they would wait for ever */
        context->attached = false;
    }
    if (context->work != NULL && !context->dead) {
        cuda_given_back(context, context->driver.cuStreamSynchronize(context->work));
    }
    if (context->copies != NULL && !context->dead) {
        cuda_given_back(context, context->driver.cuStreamSynchronize(context->copies));
    }
    if (context->calls != NULL && !context->dead) {
        cuda_given_back(context, context->driver.cuStreamSynchronize(context->calls));
    }
    for (uint32_t i = 0; i < BP_PROGRAMS_MAX; i++) {
        cuda_forget(context, &context->programs[i]);
    }
    if (context->attached) {
        context->fabric->stream->detach(context->rank, context->dead);
        context->attached = false;
    }
    for (uint32_t i = 0; i < BP_ENGINE_COUNT * CUDA_FLIGHTS; i++) {
        CUDA_GIVE_BACK(context, cuEventDestroy_v2,
                       context->landed[i / CUDA_FLIGHTS][i % CUDA_FLIGHTS]);
    }
    CUDA_GIVE_BACK(context, cuEventDestroy_v2, context->begun);
    for (uint32_t i = 0; i < CUDA_SLOTS; i++) {
        CUDA_GIVE_BACK(context, cuEventDestroy_v2, context->copied[i]);
    }
    CUDA_GIVE_BACK(context, cuEventDestroy_v2, context->ran);
    CUDA_GIVE_BACK(context, cuStreamDestroy_v2, context->calls);
    CUDA_GIVE_BACK(context, cuStreamDestroy_v2, context->copies);
    CUDA_GIVE_BACK(context, cuStreamDestroy_v2, context->work);
}

/* A context that is lost takes all that it had with it when it is released, and is asked for
 * nothing else. */
void cuda_close(void *memory)
{
    cuda_context *context = memory;
    if (context->handle == NULL) {
        return;
    }
    if (!context->dead) {
        cuda_given_back(context, context->driver.cuCtxSetCurrent(context->handle));
    }
    release_streams(context);
    cuda_modules_unload(context);
    CUDA_GIVE_BACK(context, cuMemFreeHost, context->calls_staging);
    CUDA_GIVE_BACK(context, cuMemFreeHost, context->host_arena);
    CUDA_GIVE_BACK(context, cuMemFreeHost, context->staging);
    context->arena = context->segment == 0 ? context->arena : 0;
    cuda_segment_give_back(context);
    CUDA_GIVE_BACK(context, cuMemFree_v2, context->arena);
    cuda_given_back(context, context->driver.cuCtxSetCurrent(NULL));
    cuda_given_back(context, context->driver.cuDevicePrimaryCtxRelease_v2(context->device));
    context->handle = NULL;
    context->failed = true;
}
