/* SPDX-License-Identifier: MIT */
/* What runs beside the work: copies on one stream, calls of a fabric on another, each begun when
 * the work before it has ended and waited for where the program says. Captured, the same events
 * become the edges of a graph. */
#include <string.h>

#include "device/cuda/context.h"

/* Operands of all rows that begin or wait, in places. */
enum { TO, FROM };

#define PITCH_MOST INT32_MAX /* of rows of a copy, on every GPU */

static bp_status pending_place_of(cuda_context *context, const bp_linked_op *op, uint32_t operand,
                                  uint64_t bytes, bp_cu_address *address)
{
    *address = cuda_address(context, op->offsets[operand], bytes);
    if (*address == 0) {
        return cuda_fail(context, BP_ERR_USAGE,
                         "an operand lies in a memory space that was not given",
                         bp_kernel_describe(op->kernel)->name);
    }
    return BP_OK;
}

/* The addresses of both operands; their extents are within them. */
static bp_status places_of(cuda_context *context, const bp_linked_op *op, bp_cu_address *to,
                           bp_cu_address *from)
{
    bp_extent extents[BP_OPERANDS_MAX];
    bp_kernel_describe(op->kernel)->extents(op->scalars, extents);
    BP_TRY(pending_place_of(context, op, TO, bp_extent_bytes(&extents[TO], 1), to));
    return pending_place_of(context, op, FROM, bp_extent_bytes(&extents[FROM], 1), from);
}

static bp_status link_copy(cuda_context *context, const bp_linked_op *op, cuda_record *out)
{
    const bp_copy_begin_scalars *s = op->scalars;
    cuda_record_copy *copy = &out->as.copy;
    *copy = (cuda_record_copy){.rows = (uint64_t)s->rows,
                               .width = (uint64_t)s->width,
                               .to_pitch = (uint64_t)s->to_pitch,
                               .from_pitch = (uint64_t)s->from_pitch};
    out->kind = CUDA_RECORD_COPY;
    BP_TRY(places_of(context, op, &copy->to, &copy->from));
    if (copy->rows == 1 || (copy->to_pitch == copy->width && copy->from_pitch == copy->width)) {
        copy->width *= copy->rows;
        copy->rows = 1;
    }
    if (copy->rows > 1 && (copy->to_pitch > PITCH_MOST || copy->from_pitch > PITCH_MOST)) {
        return cuda_fail(context, BP_ERR_USAGE, "rows of a copy lie further apart than a GPU takes",
                         bp_kernel_describe(op->kernel)->name);
    }
    return BP_OK;
}

/* Without a fabric a group is this rank alone: a copy, or nothing where it is in place. */
static void link_alone(const bp_linked_op *op, cuda_record *out, bp_cu_address to,
                       bp_cu_address from)
{
    const bp_all_gather_begin_scalars *s = op->scalars;
    out->kind = CUDA_RECORD_COPY;
    out->as.copy = (cuda_record_copy){
        .to = to, .from = from, .rows = 1, .width = to != from ? (uint64_t)s->bytes : 0};
}

static uint64_t call_longest(const bp_fabric_transfer *transfer, uint32_t ranks)
{
    uint64_t longest = transfer->pieces == NULL ? transfer->bytes : 0;
    for (uint32_t i = 0; transfer->pieces != NULL && i < ranks; i++) {
        const uint64_t bytes = transfer->pieces[i].bytes;
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

static bp_status link_call(cuda_context *context, const bp_linked_op *op, bp_arena *memory,
                           cuda_record *out)
{
    const bp_all_gather_begin_scalars *s = op->scalars;
    const bp_regions regions = {.fabric = context->fabric, .rank = context->rank};
    bp_cu_address to, from;
    void *kept;
    bp_status fits = bp_fabric_check(&regions, op, context->error);
    context->failed = context->failed || fits != BP_OK;
    BP_TRY(fits);
    BP_TRY(places_of(context, op, &to, &from));
    if (context->fabric == NULL) {
        link_alone(op, out, to, from);
        return BP_OK;
    }
    BP_TRY(cuda_link_allocate(context, memory, sizeof(cuda_record_call), &kept));
    const bool host_to = bp_address_space(op->offsets[TO]) == BP_SPACE_HOST;
    const bool host_from = bp_address_space(op->offsets[FROM]) == BP_SPACE_HOST;
    const bool staged = !host_to || !host_from;
    uint64_t chunk = CUDA_SLOT_BYTES / (uint64_t)s->ranks;
    cuda_record_call *call = kept;
    *call = (cuda_record_call){.context = context,
                               .transfer = bp_fabric_transfer_of(op->kernel, op->scalars,
                                                                 (void *)(uintptr_t)to,
                                                                 (const void *)(uintptr_t)from),
                               .queued = context->attached && !host_to && !host_from,
                               .chunk = !staged     ? 0
                                        : chunk > 0 ? chunk
                                                    : 1};
    const bp_fabric_call kind = call->transfer.call;
    call->to_pieces = kind == BP_FABRIC_BROADCAST ? 1 : (uint32_t)s->ranks;
    call->from_pieces = kind == BP_FABRIC_EXCHANGE ? (uint32_t)s->ranks : 1;
    call->longest = call_longest(&call->transfer, (uint32_t)s->ranks);
    out->kind = CUDA_RECORD_CALL;
    out->as.call = call;
    return BP_OK;
}

/* All of these rows have their request as the first scalar. */
bp_status cuda_pending_link(cuda_context *context, const bp_linked_op *op, bp_arena *memory,
                            cuda_record *out)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const int64_t *request = op->scalars;
    *out = (cuda_record){.kind = CUDA_RECORD_WAIT,
                         .engine = (uint8_t)info->engine,
                         .request = (uint32_t)*request,
                         .op = op};
    if (info->pending == BP_PENDING_WAIT) {
        return BP_OK;
    }
    if (op->kernel == BP_KERNEL_rows_begin || op->kernel == BP_KERNEL_experts_begin) {
        return BP_ERR_DEVICE; /* of a tier that this device does not have */
    }
    return info->engine == BP_ENGINE_COPY ? link_copy(context, op, out)
                                          : link_call(context, op, memory, out);
}

/* ---- making them ---- */

static bp_status copy_make(cuda_context *context, const cuda_record_copy *copy, bp_cu_stream stream)
{
    if (copy->rows == 0 || copy->width == 0) {
        return BP_OK;
    }
    if (copy->rows == 1) {
        return CUDA_CALL(context, cuMemcpyAsync, copy->to, copy->from, (size_t)copy->width, stream);
    }
    const bp_cu_copy rows = {
        .from = {.memory = BP_CU_UNIFIED, .device = copy->from, .pitch = (size_t)copy->from_pitch},
        .to = {.memory = BP_CU_UNIFIED, .device = copy->to, .pitch = (size_t)copy->to_pitch},
        .width_bytes = (size_t)copy->width,
        .height = (size_t)copy->rows};
    return CUDA_CALL(context, cuMemcpy2DAsync_v2, &rows, stream);
}

/* Bytes of a piece that go in the round that begins at byte `first` of every piece. */
static uint64_t call_round(const cuda_record_call *call, uint64_t bytes, uint64_t first)
{
    const uint64_t left = bytes > first ? bytes - first : 0;
    return call->chunk == 0 || left < call->chunk ? left : call->chunk;
}

/* A round as a call of its own, between the staging slots. */
static void call_stage(cuda_context *context, const cuda_record_call *call,
                       bp_fabric_transfer *transfer)
{
    for (uint32_t i = 0; transfer->pieces != NULL && i < context->fabric->size(context->rank);
         i++) {
        context->calls_pieces[i] = (bp_fabric_piece){
            i * call->chunk, call_round(call, transfer->pieces[i].bytes, call->done)};
    }
    transfer->pieces = transfer->pieces != NULL ? context->calls_pieces : NULL;
    transfer->bytes = call_round(call, transfer->bytes, call->done);
    transfer->from = context->calls_staging;
    transfer->to = context->calls_staging + CUDA_SLOT_BYTES;
}

/* On a thread of the driver's, which waits here for the other ranks. Ranks of one process on one
 * GPU need a driver that makes host functions of several streams at once. */
static void call_fabric(void *data)
{
    cuda_record_call *call = data;
    cuda_context *context = call->context;
    bp_fabric_transfer transfer = call->transfer;
    if (call->chunk != 0) {
        call_stage(context, call, &transfer);
        call->done += call->chunk;
        call->done = call->done < call->longest ? call->done : 0;
    }
    bp_status status = cuda_calls_status(context);
    if (status != BP_OK) {
        return;
    }
    status = context->fabric->begin(context->rank, &transfer, &context->call_error);
    if (status == BP_OK) {
        status = context->fabric->wait(context->rank, transfer.request, &context->call_error);
    }
    if (status != BP_OK) {
        cuda_calls_end(context, status);
    }
}

/* The round of each piece that begins at its byte `first`, in the staging slot where call_stage has
 * it: pieces that differ lie a chunk apart, others one behind the other. */
static bp_status stage_pieces(cuda_context *context, const cuda_record_call *call, uint64_t first,
                              bool in)
{
    const bp_fabric_transfer *transfer = &call->transfer;
    const uint32_t pieces = in ? call->from_pieces : call->to_pieces;
    const unsigned char *slot = context->calls_staging + (in ? 0 : CUDA_SLOT_BYTES);
    const bp_cu_address whole = (bp_cu_address)(uintptr_t)(in ? transfer->from : transfer->to);
    const bool apart = transfer->pieces != NULL && (in || transfer->call == BP_FABRIC_ALL_GATHER);
    const uint64_t pitch = apart ? call->chunk : call_round(call, transfer->bytes, first);
    for (uint32_t i = 0; i < pieces; i++) {
        const bp_fabric_piece piece =
            in ? bp_fabric_piece_for(transfer, i) : bp_fabric_piece_of(transfer, i);
        const uint64_t bytes = call_round(call, piece.bytes, first);
        const bp_cu_address staged = (bp_cu_address)(uintptr_t)(slot + i * pitch);
        const bp_cu_address operand = whole + piece.first + first;
        if (bytes > 0) {
            CUDA_TRY(context, cuMemcpyAsync, in ? staged : operand, in ? operand : staged,
                     (size_t)bytes, context->calls);
        }
    }
    return BP_OK;
}

static bp_status call_make(cuda_context *context, cuda_record_call *call)
{
    if (call->queued) {
        bp_status status = context->fabric->stream->enqueue(context->rank, &call->transfer,
                                                            context->calls, context->error);
        context->failed = context->failed || status != BP_OK;
        return status;
    }
    const uint64_t most = call->chunk != 0 ? call->chunk : call->longest;
    for (uint64_t first = 0; first < call->longest; first += most) {
        BP_TRY(call->chunk != 0 ? stage_pieces(context, call, first, true) : BP_OK);
        CUDA_TRY(context, cuLaunchHostFunc, context->calls, call_fabric, call);
        BP_TRY(call->chunk != 0 ? stage_pieces(context, call, first, false) : BP_OK);
    }
    return BP_OK;
}

/* A program of one rank in the device arena has nothing to run beside its work. */
bp_status cuda_pending_make(cuda_context *context, const cuda_record *record)
{
    bool calls = record->kind == CUDA_RECORD_CALL;
    bp_cu_event landed = context->landed[record->engine][record->request % CUDA_FLIGHTS];
    if (record->kind == CUDA_RECORD_WAIT) {
        return landed == NULL ? BP_OK
                              : CUDA_CALL(context, cuStreamWaitEvent, context->work, landed, 0);
    }
    if (landed == NULL) {
        return copy_make(context, &record->as.copy, context->work);
    }
    bp_cu_stream beside = calls ? context->calls : context->copies;
    CUDA_TRY(context, cuEventRecord, context->begun, context->work);
    CUDA_TRY(context, cuStreamWaitEvent, beside, context->begun, 0);
    BP_TRY(calls ? call_make(context, record->as.call)
                 : copy_make(context, &record->as.copy, beside));
    return CUDA_CALL(context, cuEventRecord, landed, beside);
}
