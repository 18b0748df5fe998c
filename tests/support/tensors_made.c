/* SPDX-License-Identifier: MIT */
/* Tensors of small exact numbers. */
#include "tests/support/tensors_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t made_elements(const made_tensor *tensor)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

made_tensor *made_add(made_tensors *made, const char *name, bp_dtype dtype, uint32_t rank,
                      const uint64_t *shape)
{
    assert_true(made->count < MADE_MAX);
    made_tensor *tensor = &made->list[made->count++];
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->dtype = dtype;
    tensor->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
    }
    tensor->bytes = calloc((size_t)made_elements(tensor) + 1, bp_dtype_bytes(dtype));
    assert_non_null(tensor->bytes);
    return tensor;
}

void made_drop(made_tensors *made, const char *name)
{
    size_t i = 0;
    while (i < made->count && strcmp(made->list[i].name, name) != 0) {
        i++;
    }
    assert_true(i < made->count);
    free(made->list[i].bytes);
    made->list[i] = made->list[--made->count];
}

float made_value(size_t seed, size_t i)
{
    return (float)((seed * 31 + i * 7) % 257) / 64.0f - 2.0f;
}

made_tensor *made_add_values(made_tensors *made, const char *name, bp_dtype dtype, uint32_t rank,
                             const uint64_t *shape, size_t seed)
{
    made_tensor *tensor = made_add(made, name, dtype, rank, shape);
    for (size_t i = 0; i < made_elements(tensor); i++) {
        float x = made_value(seed, i);
        uint16_t half = dtype == BP_F16 ? bp_f16_from_f32(x) : bp_bf16_from_f32(x);
        if (dtype == BP_F32) {
            memcpy(tensor->bytes + 4 * i, &x, 4);
        } else {
            memcpy(tensor->bytes + 2 * i, &half, 2);
        }
    }
    return tensor;
}

static bp_status payload(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                         size_t bytes)
{
    const made_tensors *made = user;
    memcpy(to, made->list[entry->handle].bytes + offset, bytes);
    return BP_OK;
}

void made_write_digests(made_tensors *made, size_t first, size_t count, bp_store *store,
                        const char *path, bool digests)
{
    bp_tensor_entry entries[MADE_MAX];
    for (size_t i = 0; i < count; i++) {
        const made_tensor *tensor = &made->list[first + i];
        entries[i] = (bp_tensor_entry){.name = tensor->name,
                                       .dtype = tensor->dtype,
                                       .rank = tensor->rank,
                                       .handle = first + i};
        memcpy(entries[i].shape, tensor->shape, sizeof tensor->shape);
    }
    bp_safetensors_plan plan = {.entries = entries, .entry_count = count, .digests = digests};
    bp_safetensors_writer writer;
    char staging[512];
    assert_int_equal(bp_safetensors_layout(&plan, NULL), BP_OK);
    assert_int_equal(bp_safetensors_begin(&writer, store, path, &plan, NULL), BP_OK);
    assert_int_equal(
        bp_safetensors_write(&writer, (bp_staging){staging, sizeof staging}, payload, made), BP_OK);
    assert_int_equal(bp_safetensors_end(&writer), BP_OK);
}

void made_write(made_tensors *made, size_t first, size_t count, bp_store *store, const char *path)
{
    made_write_digests(made, first, count, store, path, false);
}

void made_free(made_tensors *made)
{
    for (size_t i = 0; i < made->count; i++) {
        free(made->list[i].bytes);
    }
    made->count = 0;
}
