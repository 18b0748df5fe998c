/* SPDX-License-Identifier: MIT */
/* Tensors of which every rank has a part, as a whole. */
#include "core/run/run_private.h"
#include "core/run/snapshot/snapshot_ranks.h"

#define WHOLE_RUN                                                                                  \
    (UINT64_C(1) << 20) /* bytes that a rank saves of a tensor that all have, at least */

static const char where[] = "state";

static bp_status whole_move(bp_runtime *runtime, const bp_fabric_transfer *transfer)
{
    BP_TRY(runtime->fabric->begin(runtime->fabric_rank, transfer, &runtime->error));
    return runtime->fabric->wait(runtime->fabric_rank, transfer->ticket, &runtime->error);
}

/* From the one rank that has them to all. */
static bp_status whole_broadcast(bp_runtime *runtime, uint32_t root, void *at, uint64_t bytes)
{
    const bp_fabric_transfer transfer = {
        .call = BP_FABRIC_BROADCAST, .root = root, .bytes = bytes, .to = at, .from = at};
    return whole_move(runtime, &transfer);
}

/* The byte of the tensor at which the part of the rank ends that has byte `offset`. */
static uint64_t part_end(const bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                         uint32_t *owner)
{
    const bp_shards *shards = &runtime->emit.shards;
    const uint32_t tensor = buffer->part.tensor;
    const uint64_t count = runtime->emit.parameters[tensor].count;
    *owner = bp_shards_owner(shards, tensor, count, offset / buffer->part.unit * BP_SHARD_UNIT);
    const bp_share share = bp_shards_share(shards, tensor, count, *owner);
    const uint64_t end = share.first + share.count;
    return end == count ? buffer->part.whole : end / BP_SHARD_UNIT * buffer->part.unit;
}

bp_status bp_runtime_read_whole(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                                void *to, size_t bytes)
{
    uint8_t *next = to;
    if (buffer->part.whole == 0) {
        return bp_runtime_read(runtime, buffer, offset, to, bytes);
    }
    if (runtime->fabric == NULL || bp_size_add(offset, bytes) > buffer->part.whole) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "other ranks have parts of a tensor, and cannot be reached",
                            runtime->graph.names + buffer->name);
    }
    for (uint64_t at = offset; at < offset + bytes;) {
        uint32_t owner = 0;
        const uint64_t end = part_end(runtime, buffer, at, &owner);
        uint64_t piece = offset + bytes - at < end - at ? offset + bytes - at : end - at;
        piece = piece < BP_TRANSFER_BYTES ? piece : BP_TRANSFER_BYTES;
        if (owner == runtime->spec.rank) {
            BP_TRY(bp_runtime_read(runtime, buffer, at - buffer->part.first, next, (size_t)piece));
        }
        BP_TRY(whole_broadcast(runtime, owner, next, piece));
        next += piece;
        at += piece;
    }
    return BP_OK;
}

bp_status bp_runtime_write_whole(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                                 const void *from, size_t bytes)
{
    const uint64_t own = buffer->part.first, own_end = own + buffer->bytes;
    if (buffer->part.whole == 0) {
        return bp_runtime_write(runtime, buffer, offset, from, bytes);
    }
    const uint64_t first = offset > own ? offset : own;
    const uint64_t end = offset + bytes < own_end ? offset + bytes : own_end;
    if (first >= end) {
        return BP_OK;
    }
    return bp_runtime_write(runtime, buffer, first - own, (const uint8_t *)from + (first - offset),
                            (size_t)(end - first));
}

static uint32_t whole_owner(void *user, const bp_state_tensor *tensor, uint64_t offset,
                            uint64_t *end)
{
    const bp_runtime *runtime = user;
    const bp_buffer *buffer = bp_runtime_state(runtime, (uint32_t)tensor->handle);
    const uint32_t ranks = runtime->spec.ranks;
    uint32_t owner = 0;
    if (buffer->part.whole > 0) {
        *end = part_end(runtime, buffer, offset, &owner);
        return owner;
    }
    const uint64_t fair = bp_size_ceil_div(tensor->bytes, ranks);
    const uint64_t run = fair > WHOLE_RUN ? fair : WHOLE_RUN;
    const uint64_t place = offset / run, stop = (place + 1) * run;
    *end = stop < tensor->bytes ? stop : tensor->bytes;
    return (uint32_t)((place + tensor->handle) % ranks);
}

static bp_status whole_read_own(void *user, uint64_t handle, uint64_t offset, void *to,
                                size_t bytes)
{
    bp_runtime *runtime = user;
    const bp_buffer *buffer = bp_runtime_state(runtime, (uint32_t)handle);
    if (buffer->part.whole == 0) {
        return bp_runtime_state_read(runtime, (uint32_t)handle, offset, to, bytes);
    }
    return bp_runtime_read(runtime, buffer, offset - buffer->part.first, to, bytes);
}

bp_status run_gather(bp_runtime *runtime, const void *mine, uint64_t bytes, void *all)
{
    const bp_fabric_transfer transfer = {
        .call = BP_FABRIC_ALL_GATHER, .bytes = bytes, .to = all, .from = mine};
    return whole_move(runtime, &transfer);
}

static bp_status whole_gather(void *user, const void *mine, uint64_t bytes, void *all)
{
    return run_gather(user, mine, bytes, all);
}

bp_snapshot_ranks bp_runtime_snapshot_ranks(bp_runtime *runtime, uint64_t stamp)
{
    return (bp_snapshot_ranks){.rank = runtime->spec.rank,
                               .size = runtime->spec.ranks,
                               .stamp = stamp,
                               .user = runtime,
                               .owner = whole_owner,
                               .read = whole_read_own,
                               .gather = whole_gather};
}
