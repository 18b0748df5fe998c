/* SPDX-License-Identifier: MIT */
/* Copies through pinned staging, on a stream of their own that keeps step with the work: a copy
 * begins after the runs before it, and the runs after an upload begin when it has ended. What the
 * host reaches by itself it writes and reads in place, once the GPU has nothing left to do. */
#include <string.h>

#include "device/cuda/context.h"

static bool in_place(const cuda_context *context, uint64_t place)
{
    return context->shared || bp_address_space(place) == BP_SPACE_HOST;
}

/* Such memory is the caller's to touch when everything that was run has ended. */
static bp_status host_ended(cuda_context *context)
{
    BP_TRY(cuda_enter(context));
    BP_TRY(cuda_stream_ended(context, context->work));
    return cuda_calls_ended(context);
}

/* A slot may be filled again when its last upload has left it. */
static bp_status upload_piece(cuda_context *context, bp_cu_address to, const void *from,
                              size_t bytes)
{
    uint32_t slot = context->slot;
    unsigned char *staging = context->staging + slot * CUDA_SLOT_BYTES;
    context->slot = (slot + 1) % CUDA_SLOTS;
    BP_TRY(cuda_event_ended(context, context->copied[slot]));
    memcpy(staging, from, bytes);
    CUDA_TRY(context, cuMemcpyHtoDAsync_v2, to, staging, bytes, context->copies);
    return CUDA_CALL(context, cuEventRecord, context->copied[slot], context->copies);
}

bp_status cuda_upload(void *memory, uint64_t place, const void *from, size_t bytes)
{
    cuda_context *context = memory;
    bp_cu_address to = cuda_address(context, place, bytes);
    if (to == 0) {
        return BP_ERR_USAGE;
    }
    if (in_place(context, place)) {
        BP_TRY(host_ended(context));
        memcpy((void *)(uintptr_t)to, from, bytes);
        return BP_OK;
    }
    BP_TRY(cuda_enter(context));
    CUDA_TRY(context, cuStreamWaitEvent, context->copies, context->ran, 0);
    const unsigned char *source = from;
    uint32_t last = context->slot;
    for (size_t done = 0; done < bytes; done += CUDA_SLOT_BYTES) {
        size_t piece = bytes - done < CUDA_SLOT_BYTES ? bytes - done : CUDA_SLOT_BYTES;
        last = context->slot;
        BP_TRY(upload_piece(context, to + done, source + done, piece));
    }
    return CUDA_CALL(context, cuStreamWaitEvent, context->work, context->copied[last], 0);
}

bp_status cuda_download(void *memory, uint64_t place, void *to, size_t bytes)
{
    cuda_context *context = memory;
    bp_cu_address from = cuda_address(context, place, bytes);
    if (from == 0) {
        return BP_ERR_USAGE;
    }
    if (in_place(context, place)) {
        BP_TRY(host_ended(context));
        memcpy(to, (const void *)(uintptr_t)from, bytes);
        return BP_OK;
    }
    BP_TRY(cuda_enter(context));
    CUDA_TRY(context, cuStreamWaitEvent, context->copies, context->ran, 0);
    unsigned char *staging = context->staging + CUDA_SLOTS * CUDA_SLOT_BYTES;
    unsigned char *target = to;
    for (size_t done = 0; done < bytes; done += CUDA_SLOT_BYTES) {
        size_t piece = bytes - done < CUDA_SLOT_BYTES ? bytes - done : CUDA_SLOT_BYTES;
        CUDA_TRY(context, cuMemcpyDtoHAsync_v2, staging, from + done, piece, context->copies);
        BP_TRY(cuda_stream_ended(context, context->copies));
        memcpy(target + done, staging, piece);
    }
    return cuda_calls_ended(context);
}
