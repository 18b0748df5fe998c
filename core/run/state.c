/* SPDX-License-Identifier: MIT */
/* The persistent state: random initialisation, and reading and writing buffers from outside. */
#include <string.h>
#include <math.h>

#include "core/ops/convert.h"
#include "core/base/digest.h"
#include "core/run/runtime.h"
#include "core/plan/optimizer.h"
#include "core/ops/codec.h"
#include "core/run/run_private.h"
#include "core/run/checkpoint/checkpoint_ranks.h"

static const char where[] = "state";

bp_status bp_runtime_require(bp_runtime *runtime, bool state, const char *text)
{
    return state ? BP_OK : bp_error_set(&runtime->error, BP_ERR_USAGE, "runtime", text, NULL);
}

uint32_t bp_runtime_state_count(const bp_runtime *runtime)
{
    return bp_runtime_planned(runtime) ? runtime->state_count : 0;
}

const bp_buffer *bp_runtime_state(const bp_runtime *runtime, uint32_t i)
{
    return &runtime->plan->graph.buffers[runtime->state[i]];
}

const bp_buffer *bp_runtime_find(const bp_runtime *runtime, const char *name)
{
    uint32_t first = 0;
    uint32_t last = runtime->state_count;
    while (first < last) {
        uint32_t middle = first + (last - first) / 2;
        int order = strcmp(name, bp_graph_name(&runtime->plan->graph, runtime->state[middle]));
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
                        runtime->plan->graph.names + buffer->name);
}

static bp_status device_failed(bp_runtime *runtime, bp_status status, const bp_buffer *buffer)
{
    return bp_error_set(&runtime->error, status, where, "the device failed while copying",
                        runtime->plan->graph.names + buffer->name);
}

bp_status bp_runtime_read(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset, void *to,
                          size_t bytes)
{
    BP_TRY(check_range(runtime, buffer, offset, bytes));
    bp_status status = runtime->plan->spec.device->download(
        runtime->device, bp_buffer_address(buffer) + offset, to, bytes);
    return status == BP_OK ? BP_OK : device_failed(runtime, status, buffer);
}

bp_status bp_runtime_write(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                           const void *from, size_t bytes)
{
    BP_TRY(check_range(runtime, buffer, offset, bytes));
    runtime->zeroed = false;
    bp_status status = runtime->plan->spec.device->upload(
        runtime->device, bp_buffer_address(buffer) + offset, from, bytes);
    return status == BP_OK ? BP_OK : device_failed(runtime, status, buffer);
}

void *bp_runtime_reach(bp_runtime *runtime, const bp_buffer *buffer, uint64_t first, uint64_t count,
                       uint64_t width)
{
    const bp_device *device = runtime->plan->spec.device;
    const uint64_t bytes = bp_size_mul(count, width), offset = bp_size_mul(first, width);
    if (!runtime->open || device->address == NULL || bp_size_add(offset, bytes) > buffer->bytes) {
        return NULL;
    }
    runtime->zeroed = false;
    return device->address(runtime->device, bp_buffer_address(buffer) + offset, (size_t)bytes);
}

void *bp_runtime_between(bp_runtime *runtime)
{
    const bp_graph *graph = &runtime->plan->graph;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        if (buffer->scope == BP_SCOPE_BETWEEN) {
            return bp_runtime_reach(runtime, buffer, 0, buffer->bytes, 1);
        }
    }
    return NULL;
}

static bp_status add_buffer(bp_runtime *runtime, bp_digest *digest, const bp_buffer *buffer)
{
    bp_digest bytes;
    bp_digest_begin(&bytes, 0);
    const uint64_t all = buffer->part.whole > 0 ? buffer->part.whole : buffer->bytes;
    for (uint64_t done = 0; done < all; done += BP_TRANSFER_BYTES) {
        uint64_t left = all - done;
        size_t piece = left < BP_TRANSFER_BYTES ? (size_t)left : BP_TRANSFER_BYTES;
        BP_TRY(bp_runtime_read_gathered(runtime, buffer, done, runtime->transfer, piece));
        bp_digest_add(&bytes, runtime->transfer, piece);
    }
    bp_digest_add_tensor(digest, runtime->plan->graph.names + buffer->name, buffer->dtype,
                         buffer->shape, buffer->rank, bp_digest_end(&bytes));
    return BP_OK;
}

bp_status bp_runtime_base_digest(bp_runtime *runtime, bool *there, uint64_t *digest)
{
    bp_digest all;
    bp_digest_begin(&all, 0);
    *there = false;
    *digest = 0;
    for (uint32_t i = 0; i < runtime->plan->graph.used.buffers; i++) {
        const bp_buffer *buffer = &runtime->plan->graph.buffers[i];
        if (buffer->scope == BP_SCOPE_CONSTANT && buffer->class_of == BP_CLASS_WEIGHTS) {
            BP_TRY(add_buffer(runtime, &all, buffer));
            *there = true;
        }
    }
    *digest = *there ? bp_digest_end(&all) : 0;
    return BP_OK;
}

/* Elements whose weight (4 bytes at most) and master (4 at most) share the transfer piece. */
#define PIECE (BP_TRANSFER_BYTES / 8 / BP_FP8_BLOCK * BP_FP8_BLOCK)

/* The two halves of the transfer piece, and what a parameter's tensors are. */
typedef struct weight_desk {
    const bp_buffer *weight;
    const bp_buffer *master; /* NULL: none */
    bp_dtype dtype;
    bp_master form;
    uint8_t *weights;
    uint8_t *masters;
} weight_desk;

static weight_desk desk_of(bp_runtime *runtime, uint32_t parameter)
{
    const bp_parameter *p = &runtime->plan->builder.parameters[parameter];
    const bp_buffer *buffers = runtime->plan->graph.buffers;
    return (weight_desk){.weight = &buffers[p->weight],
                         .master = p->master != BP_NO_BUFFER ? &buffers[p->master] : NULL,
                         .dtype = buffers[p->weight].dtype,
                         .form = p->master_form,
                         .weights = runtime->transfer,
                         .masters = runtime->transfer + BP_TRANSFER_BYTES / 2};
}

/* Elements of a parameter of a runtime that is open, which are no codes: those are not put and got
 * one by one. */
static bp_status check_plain(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                             uint64_t count)
{
    BP_TRY(bp_runtime_require(runtime, runtime->open, "the runtime is not open"));
    if (parameter >= runtime->plan->builder.parameter_count ||
        bp_size_add(first, count) > runtime->plan->builder.parameters[parameter].count) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "there is no such parameter, or it has fewer elements", NULL);
    }
    if (!bp_build_quantised(&runtime->plan->builder, parameter)) {
        return BP_OK;
    }
    uint32_t weight = runtime->plan->builder.parameters[parameter].weight;
    return bp_error_set(&runtime->error, BP_ERR_USAGE, where, "the weight is quantised",
                        bp_graph_name(&runtime->plan->graph, weight));
}

/* Bytes of the weight's first so many elements. */
static uint64_t desk_bytes(const weight_desk *desk, uint64_t count)
{
    return bp_master_weight_bytes(desk->dtype, desk->form, count);
}

/* Codes of fp8 come in whole blocks. */
static bp_status check_blocks(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                              uint64_t count)
{
    const bp_parameter *p = &runtime->plan->builder.parameters[parameter];
    const bool ends = first + count == p->count || (first + count) % BP_FP8_BLOCK == 0;
    if (p->master_form != BP_MASTER_FP8 || (first % BP_FP8_BLOCK == 0 && ends)) {
        return BP_OK;
    }
    return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                        "a weight in fp8 is put in whole blocks of 256 elements",
                        bp_graph_name(&runtime->plan->graph, p->weight));
}

/* Where a megabatch of a weight and of its master are; false when they cannot be reached. */
static bool reach_both(bp_runtime *runtime, weight_desk *desk, uint64_t first, uint64_t count)
{
    const bool part = desk->master != NULL && desk->master->part.whole > 0;
    if (part || desk->weight->part.whole > 0) {
        return false;
    }
    const uint64_t at = desk_bytes(desk, first), end = desk_bytes(desk, first + count);
    uint8_t *weights = bp_runtime_reach(runtime, desk->weight, at, end - at, 1);
    uint8_t *masters = desk->master == NULL ? NULL
                                            : bp_runtime_reach(runtime, desk->master, first, count,
                                                               bp_master_bytes(desk->form));
    if (weights == NULL || (masters == NULL && desk->master != NULL)) {
        return false;
    }
    desk->weights = weights;
    desk->masters = masters;
    return true;
}

bp_status bp_runtime_put_weight(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                const float *values, uint64_t count)
{
    BP_TRY(check_plain(runtime, parameter, first, count));
    BP_TRY(check_blocks(runtime, parameter, first, count));
    weight_desk desk = desk_of(runtime, parameter);
    if (reach_both(runtime, &desk, first, count)) {
        bp_elements_store(desk.dtype, desk.form, desk.weights, desk.masters, values, (size_t)count);
        return BP_OK;
    }
    const uint64_t rest = bp_master_bytes(desk.form);
    for (uint64_t done = 0; done < count;) {
        uint64_t piece = count - done < PIECE ? count - done : PIECE;
        bp_elements_store(desk.dtype, desk.form, desk.weights, desk.masters, values + done,
                          (size_t)piece);
        BP_TRY(bp_runtime_write_gathered(runtime, desk.weight, desk_bytes(&desk, first + done),
                                         desk.weights, (size_t)desk_bytes(&desk, piece)));
        if (desk.master != NULL) {
            BP_TRY(bp_runtime_write_gathered(runtime, desk.master, (first + done) * rest,
                                             desk.masters, (size_t)(piece * rest)));
        }
        done += piece;
    }
    return BP_OK;
}

/* A megabatch of a weight that begins with a block, or is of elements that go one by one. */
static bp_status get_piece(bp_runtime *runtime, const weight_desk *desk, uint64_t first,
                           float *values, uint64_t count)
{
    const uint64_t rest = bp_master_bytes(desk->form);
    if (desk->master != NULL) {
        BP_TRY(bp_runtime_read_gathered(runtime, desk->master, first * rest, desk->masters,
                                        (size_t)(count * rest)));
    }
    BP_TRY(bp_runtime_read_gathered(runtime, desk->weight, desk_bytes(desk, first), desk->weights,
                                    (size_t)desk_bytes(desk, count)));
    bp_elements_load(desk->dtype, desk->form, desk->weights, desk->masters, values, (size_t)count);
    return BP_OK;
}

bp_status bp_runtime_get_weight(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                float *values, uint64_t count)
{
    BP_TRY(check_plain(runtime, parameter, first, count));
    const weight_desk desk = desk_of(runtime, parameter);
    const uint64_t skipped = desk.form == BP_MASTER_FP8 ? first % BP_FP8_BLOCK : 0;
    uint64_t done = 0;
    if (skipped > 0) { /* the end of a block, or a part of it */
        float block[BP_FP8_BLOCK];
        done = BP_FP8_BLOCK - skipped < count ? BP_FP8_BLOCK - skipped : count;
        BP_TRY(get_piece(runtime, &desk, first - skipped, block, skipped + done));
        memcpy(values, block + skipped, done * sizeof *values);
    }
    while (done < count) {
        const uint64_t piece = count - done < PIECE ? count - done : PIECE;
        BP_TRY(get_piece(runtime, &desk, first + done, values + done, piece));
        done += piece;
    }
    return BP_OK;
}

/* Weights as evaluations use them and files for others hold them. */

bp_status bp_runtime_get_trained(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                 float *values, uint64_t count)
{
    BP_TRY(bp_runtime_get_weight(runtime, parameter, first, values, count));
    const bp_spec *spec = &runtime->plan->spec;
    const bp_optimizer *optimizer = spec->optimizer;
    const bp_parameter *p = &runtime->plan->builder.parameters[parameter];
    if (optimizer == NULL || optimizer->average == NULL || !p->trainable) {
        return BP_OK;
    }
    const bp_buffer *buffer = &runtime->plan->graph.buffers[p->state[0]];
    const bp_codec form = optimizer->state_form(spec, p);
    const float factor = (float)optimizer->average(&spec->optimizer_options);
    for (uint64_t done = 0; done < count;) {
        unsigned char codes[BP_CODEC_BLOCK * sizeof(float)];
        float d[BP_CODEC_BLOCK];
        const uint64_t skipped = (first + done) % BP_CODEC_BLOCK, block = first + done - skipped;
        const uint64_t rest = p->count - block;
        const uint64_t some = rest < BP_CODEC_BLOCK ? rest : BP_CODEC_BLOCK;
        const uint64_t at = bp_codec_bytes(block, form);
        BP_TRY(bp_runtime_read_gathered(runtime, buffer, at, codes,
                                        (size_t)(bp_codec_bytes(block + some, form) - at)));
        bp_codec_decode(form, true, codes, (uint32_t)some, d);
        for (uint64_t i = skipped; i < some && done < count; i++, done++) {
            values[done] = fmaf(-factor, d[i], values[done]);
        }
    }
    return BP_OK;
}

/* Tensors of which every rank has a part, as a whole. */

#define WHOLE_RUN                                                                                  \
    (UINT64_C(1) << 20) /* bytes that a rank saves of a tensor that all have, at least */

static bp_status whole_move(bp_runtime *runtime, const bp_fabric_transfer *transfer)
{
    BP_TRY(runtime->fabric->begin(runtime->fabric_rank, transfer, &runtime->error));
    return runtime->fabric->wait(runtime->fabric_rank, transfer->request, &runtime->error);
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
    const bp_shards *shards = &runtime->plan->builder.shards;
    const uint32_t tensor = buffer->part.tensor;
    const uint64_t count = runtime->plan->builder.parameters[tensor].count;
    *owner = bp_shards_owner(shards, tensor, count, offset / buffer->part.unit * BP_SHARD_UNIT);
    const bp_share share = bp_shards_share(shards, tensor, count, *owner);
    const uint64_t end = share.first + share.count;
    return end == count ? buffer->part.whole : end / BP_SHARD_UNIT * buffer->part.unit;
}

bp_status bp_runtime_read_gathered(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
                                   void *to, size_t bytes)
{
    uint8_t *next = to;
    if (buffer->part.whole == 0) {
        return bp_runtime_read(runtime, buffer, offset, to, bytes);
    }
    if (runtime->fabric == NULL || bp_size_add(offset, bytes) > buffer->part.whole) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "other ranks have parts of a tensor, and cannot be reached",
                            runtime->plan->graph.names + buffer->name);
    }
    for (uint64_t at = offset; at < offset + bytes;) {
        uint32_t owner = 0;
        const uint64_t end = part_end(runtime, buffer, at, &owner);
        uint64_t piece = offset + bytes - at < end - at ? offset + bytes - at : end - at;
        piece = piece < BP_TRANSFER_BYTES ? piece : BP_TRANSFER_BYTES;
        if (owner == runtime->plan->spec.rank) {
            BP_TRY(bp_runtime_read(runtime, buffer, at - buffer->part.first, next, (size_t)piece));
        }
        BP_TRY(whole_broadcast(runtime, owner, next, piece));
        next += piece;
        at += piece;
    }
    return BP_OK;
}

bp_status bp_runtime_write_gathered(bp_runtime *runtime, const bp_buffer *buffer, uint64_t offset,
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
    const uint32_t ranks = runtime->plan->spec.ranks;
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

bp_checkpoint_ranks bp_runtime_checkpoint_ranks(bp_runtime *runtime, uint64_t stamp)
{
    return (bp_checkpoint_ranks){.rank = runtime->plan->spec.rank,
                                 .size = runtime->plan->spec.ranks,
                                 .stamp = stamp,
                                 .user = runtime,
                                 .owner = whole_owner,
                                 .read = whole_read_own,
                                 .gather = whole_gather};
}
