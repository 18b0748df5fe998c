/* SPDX-License-Identifier: MIT */
/* The state as checkpoints see it. A tensor is a buffer, but where a weight is in fp8: then its
 * tensor is the master rounded to bf16, in the model's shape, so that other programs open it, and
 * the tensor of its remainder is all of the codes, then all remainders. The first is made when it
 * is read and passed over when it is written: the second has every bit. */
#include <string.h>

#include "core/run/runtime.h"
#include "core/run/state.h"

#define VIEW_VALUES 1024 /* at once */

static const char where[] = "state";

/* The parameter in fp8 whose codes or remainders tensor number i is; BP_NO_PARAMETER: another. */
static uint32_t view_of(const bp_runtime *runtime, uint32_t i)
{
    const uint32_t buffer = runtime->state[i];
    for (uint32_t p = 0; p < runtime->plan->builder.parameter_count; p++) {
        const bp_parameter *parameter = &runtime->plan->builder.parameters[p];
        if (parameter->master_form == BP_MASTER_FP8 &&
            (parameter->weight == buffer || parameter->master == buffer)) {
            return p;
        }
    }
    return BP_NO_PARAMETER;
}

bp_state_tensor bp_runtime_state_tensor(const bp_runtime *runtime, uint32_t i)
{
    if (i >= bp_runtime_state_count(runtime)) {
        return (bp_state_tensor){.name = ""};
    }
    const bp_buffer *buffer = bp_runtime_state(runtime, i);
    bp_state_tensor tensor = {.name = runtime->plan->graph.names + buffer->name,
                              .dtype = buffer->dtype,
                              .rank = buffer->rank,
                              .bytes = buffer->part.whole > 0 ? buffer->part.whole : buffer->bytes,
                              .handle = i,
                              .weight = buffer->class_of == BP_CLASS_WEIGHTS};
    const uint32_t p = view_of(runtime, i);
    memcpy(tensor.shape, buffer->shape, sizeof tensor.shape);
    if (p == BP_NO_PARAMETER) {
        return tensor;
    }
    const bp_parameter *parameter = &runtime->plan->builder.parameters[p];
    if (tensor.weight) {
        tensor.dtype = BP_BF16;
        tensor.rank = parameter->rank;
        memcpy(tensor.shape, parameter->shape, sizeof tensor.shape);
        tensor.bytes = parameter->count * sizeof(uint16_t);
    } else {
        tensor.dtype = BP_U8;
        tensor.rank = 1;
        memset(tensor.shape, 0, sizeof tensor.shape);
        tensor.bytes += bp_fp8_bytes(parameter->count);
        tensor.shape[0] = tensor.bytes;
    }
    return tensor;
}

/* Bytes of the masters rounded to bf16. */
static bp_status read_rounded(bp_runtime *runtime, uint32_t parameter, uint64_t offset,
                              unsigned char *to, size_t bytes)
{
    float values[VIEW_VALUES];
    uint16_t narrow[VIEW_VALUES];
    const uint64_t end = offset + bytes;
    while (offset < end) {
        const uint64_t first = offset / 2, left = bp_size_ceil_div(end, 2) - first;
        const uint64_t count = left < VIEW_VALUES ? left : VIEW_VALUES;
        BP_TRY(bp_runtime_get_weight(runtime, parameter, first, values, count));
        for (uint64_t k = 0; k < count; k++) {
            narrow[k] = bp_bf16_from_f32(values[k]);
        }
        const uint64_t stop = 2 * (first + count) < end ? 2 * (first + count) : end;
        memcpy(to, (const unsigned char *)narrow + (offset - 2 * first), (size_t)(stop - offset));
        to += stop - offset;
        offset = stop;
    }
    return BP_OK;
}

/* Where bytes of the codes end that lie in front of the remainders. */
static size_t view_cut(uint64_t codes, uint64_t offset, size_t bytes)
{
    const uint64_t left = offset < codes ? codes - offset : 0;
    return left < bytes ? (size_t)left : bytes;
}

static bp_status check_view(bp_runtime *runtime, uint32_t i, uint64_t offset, size_t bytes)
{
    const bp_state_tensor tensor = bp_runtime_state_tensor(runtime, i);
    if (bp_size_add(offset, bytes) <= tensor.bytes) {
        return BP_OK;
    }
    return bp_error_set(&runtime->error, BP_ERR_USAGE, where, "a copy reaches beyond its tensor",
                        tensor.name);
}

static bp_status view_require(bp_runtime *runtime, uint32_t i)
{
    return bp_runtime_require(runtime, runtime->open && i < runtime->state_count,
                              "the runtime is not open, or its state has no such tensor");
}

bp_status bp_runtime_state_read(bp_runtime *runtime, uint32_t i, uint64_t offset, void *to,
                                size_t bytes)
{
    BP_TRY(view_require(runtime, i));
    const uint32_t p = view_of(runtime, i);
    const bp_buffer *buffer = bp_runtime_state(runtime, i);
    if (p == BP_NO_PARAMETER) {
        return bp_runtime_read_gathered(runtime, buffer, offset, to, bytes);
    }
    BP_TRY(check_view(runtime, i, offset, bytes));
    if (buffer->class_of == BP_CLASS_WEIGHTS) {
        return read_rounded(runtime, p, offset, to, bytes);
    }
    const bp_parameter *parameter = &runtime->plan->builder.parameters[p];
    const uint64_t codes = bp_fp8_bytes(parameter->count);
    const size_t cut = view_cut(codes, offset, bytes);
    if (cut > 0) {
        BP_TRY(bp_runtime_read(runtime, &runtime->plan->graph.buffers[parameter->weight], offset,
                               to, cut));
    }
    return cut == bytes ? BP_OK
                        : bp_runtime_read(runtime, buffer, offset + cut - codes,
                                          (unsigned char *)to + cut, bytes - cut);
}

bp_status bp_runtime_state_write(bp_runtime *runtime, uint32_t i, uint64_t offset, const void *from,
                                 size_t bytes)
{
    BP_TRY(view_require(runtime, i));
    const uint32_t p = view_of(runtime, i);
    const bp_buffer *buffer = bp_runtime_state(runtime, i);
    if (p == BP_NO_PARAMETER) {
        return bp_runtime_write_gathered(runtime, buffer, offset, from, bytes);
    }
    BP_TRY(check_view(runtime, i, offset, bytes));
    if (buffer->class_of == BP_CLASS_WEIGHTS) {
        return BP_OK;
    }
    const bp_parameter *parameter = &runtime->plan->builder.parameters[p];
    const uint64_t codes = bp_fp8_bytes(parameter->count);
    const size_t cut = view_cut(codes, offset, bytes);
    if (cut > 0) {
        BP_TRY(bp_runtime_write(runtime, &runtime->plan->graph.buffers[parameter->weight], offset,
                                from, cut));
    }
    return cut == bytes ? BP_OK
                        : bp_runtime_write(runtime, buffer, offset + cut - codes,
                                           (const unsigned char *)from + cut, bytes - cut);
}
