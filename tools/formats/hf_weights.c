/* SPDX-License-Identifier: MIT */
/* Weight files: match every name first, then let the data flow. */
#include "tools/formats/hf_weights.h"

#include <string.h>

#include "core/digest.h"
#include "tools/formats/hf_names.h"
#include "tools/formats/replace.h"

#define DATA_BYTES 1048576

static const char where[] = "weights";

enum { NOT_MATCHED = 0 }; /* bp_tensor_entry.handle; parameter i is i + 1 */

const char *bp_hf_fault_text(bp_hf_fault fault)
{
    static const char *const texts[BP_HF_FAULT_COUNT] = {
        "a tensor of the model is missing in the file",
        "the file holds a tensor that the model does not have",
        "a tensor's shape differs from the model's",
        "a tensor's type is not F32, F16 or BF16",
        "the output head differs from the token embedding; only tied heads are implemented",
    };
    return texts[fault];
}

typedef struct loading {
    bp_runtime *runtime;
    const bp_hf_place *place;
    bp_safetensors file;
    unsigned faults;
    bp_hf_fault first;
    char name[BP_TENSOR_NAME_MAX];
} loading;

static void blame(loading *l, bp_hf_fault fault, const char *tensor)
{
    if (l->faults++ == 0) {
        size_t length = strlen(tensor);
        l->first = fault;
        memcpy(l->name, tensor, length + 1);
    }
    if (l->place->watch != NULL) {
        l->place->watch(l->place->user, fault, tensor);
    }
}

static const bp_buffer *weight_of(const bp_runtime *runtime, uint32_t parameter)
{
    return &runtime->graph.buffers[runtime->emit.parameters[parameter].weight];
}

static const char *name_of(const bp_runtime *runtime, uint32_t parameter)
{
    return bp_graph_name(&runtime->graph, runtime->emit.parameters[parameter].weight);
}

static bool same_shape(const bp_buffer *buffer, const bp_tensor_entry *entry)
{
    if (buffer->rank != entry->rank) {
        return false;
    }
    for (uint32_t i = 0; i < buffer->rank; i++) {
        if (buffer->shape[i] != entry->shape[i]) {
            return false;
        }
    }
    return true;
}

static bool readable(bp_dtype dtype)
{
    return dtype == BP_F32 || dtype == BP_F16 || dtype == BP_BF16;
}

/* Finds the parameter's tensor under either name and ties the two together. */
static void match(loading *l, uint32_t parameter)
{
    const bp_buffer *buffer = weight_of(l->runtime, parameter);
    const char *name = name_of(l->runtime, parameter);
    const bp_tensor_entry *entry = bp_safetensors_find(&l->file, name);
    if (entry == NULL) {
        entry = bp_safetensors_find(&l->file, bp_hf_name_bare(name));
    }
    if (entry == NULL) {
        blame(l, BP_HF_MISSING, name);
        return;
    }
    l->file.entries[entry - l->file.entries].handle = (uint64_t)parameter + 1;
    if (!same_shape(buffer, entry)) {
        blame(l, BP_HF_SHAPE, entry->name);
    } else if (!readable(entry->dtype)) {
        blame(l, BP_HF_DTYPE, entry->name);
    }
}

/* Equal types, shapes and bytes. Both tensors are in the file. */
static bp_status equal_tensors(const loading *l, bp_staging staging, const bp_tensor_entry *a,
                               const bp_tensor_entry *b, bool *equal)
{
    uint64_t digests[2];
    BP_TRY(bp_safetensors_stream(&l->file, a, staging, NULL, NULL, &digests[0]));
    BP_TRY(bp_safetensors_stream(&l->file, b, staging, NULL, NULL, &digests[1]));
    *equal = a->dtype == b->dtype && a->bytes == b->bytes && digests[0] == digests[1];
    return BP_OK;
}

static bp_status judge_head(loading *l, bp_staging staging, const bp_tensor_entry *head)
{
    const bp_tensor_entry *embedding = bp_safetensors_find(&l->file, "transformer.wte.weight");
    if (embedding == NULL) {
        embedding = bp_safetensors_find(&l->file, "wte.weight");
    }
    bool equal = false;
    if (embedding != NULL) {
        BP_TRY(equal_tensors(l, staging, head, embedding, &equal));
    }
    if (!equal) {
        blame(l, BP_HF_UNTIED, head->name);
    }
    return BP_OK;
}

/* What no parameter claimed must be something that is known to be no parameter. */
static bp_status judge_rest(loading *l, bp_staging staging)
{
    for (size_t i = 0; i < l->file.entry_count; i++) {
        const bp_tensor_entry *entry = &l->file.entries[i];
        if (entry->handle != NOT_MATCHED) {
            continue;
        }
        if (strcmp(entry->name, "lm_head.weight") == 0) {
            BP_TRY(judge_head(l, staging, entry));
        } else if (!bp_hf_name_is_mask(bp_hf_name_bare(entry->name))) {
            blame(l, BP_HF_UNEXPECTED, entry->name);
        }
    }
    return BP_OK;
}

static bp_status match_all(loading *l, bp_staging staging)
{
    for (size_t i = 0; i < l->file.entry_count; i++) {
        l->file.entries[i].handle = NOT_MATCHED;
    }
    for (uint32_t p = 0; p < l->runtime->emit.parameter_count; p++) {
        match(l, p);
    }
    BP_TRY(judge_rest(l, staging));
    if (l->faults > 0) {
        bp_status status =
            bp_error_set(l->place->error, BP_ERR_DATA, where, bp_hf_fault_text(l->first), l->name);
        bp_error_prefix(l->place->error, l->place->path);
        return status;
    }
    return BP_OK;
}

/* Where a tensor's data goes, and the room in which it is converted. */
typedef struct target {
    bp_runtime *runtime;
    const bp_buffer *buffer;
    float *converted;
} target;

static bp_status take_f32(void *user, const bp_tensor_entry *entry, uint64_t offset,
                          const void *from, size_t bytes)
{
    (void)entry;
    const target *t = user;
    return bp_runtime_write(t->runtime, t->buffer, offset, from, bytes);
}

static bp_status take_16(void *user, const bp_tensor_entry *entry, uint64_t offset,
                         const void *from, size_t bytes)
{
    const target *t = user;
    const uint16_t *bits = from;
    float (*convert)(uint16_t) = entry->dtype == BP_F16 ? bp_f32_from_f16 : bp_f32_from_bf16;
    for (size_t i = 0; i < bytes / 2; i++) {
        t->converted[i] = convert(bits[i]);
    }
    return bp_runtime_write(t->runtime, t->buffer, offset * 2, t->converted, bytes * 2);
}

/* Files that carry digests of their tensors, as snapshots do, are held to them. */
static bp_status check_digest(const loading *l, const bp_tensor_entry *entry, uint64_t digest)
{
    char key[sizeof BP_SAFETENSORS_DIGEST + BP_TENSOR_NAME_MAX];
    memcpy(key, BP_SAFETENSORS_DIGEST, sizeof BP_SAFETENSORS_DIGEST);
    memcpy(key + sizeof BP_SAFETENSORS_DIGEST - 1, entry->name, strlen(entry->name) + 1);
    const char *stored = bp_safetensors_metadata(&l->file, key);
    uint64_t wanted;
    if (stored == NULL || (bp_digest_parse(stored, &wanted) && wanted == digest)) {
        return BP_OK;
    }
    bp_status status = bp_error_set(l->place->error, BP_ERR_DATA, where,
                                    "the tensor's bytes do not match its digest: the file is "
                                    "damaged",
                                    entry->name);
    bp_error_prefix(l->place->error, l->place->path);
    return status;
}

/* A third of the staging carries what the file holds, the rest what becomes of it. */
static bp_status flow(const loading *l, bp_staging staging)
{
    size_t piece = staging.capacity / 3 / 8 * 8;
    bp_staging raw = {staging.memory, piece};
    for (size_t i = 0; i < l->file.entry_count; i++) {
        const bp_tensor_entry *entry = &l->file.entries[i];
        if (entry->handle == NOT_MATCHED) {
            continue;
        }
        target t = {l->runtime, weight_of(l->runtime, (uint32_t)entry->handle - 1),
                    (float *)(void *)((char *)staging.memory + piece)};
        bp_tensor_sink sink = entry->dtype == BP_F32 ? take_f32 : take_16;
        uint64_t digest;
        BP_TRY(bp_safetensors_stream(&l->file, entry, raw, sink, &t, &digest));
        BP_TRY(check_digest(l, entry, digest));
    }
    return BP_OK;
}

/* What the tables left of the scratch, from a multiple of 8 on. */
static bp_status data_room(const loading *l, bp_staging *staging)
{
    const bp_staging *scratch = &l->place->scratch;
    size_t used = (l->file.scratch_used + 7) / 8 * 8;
    if (scratch->capacity < used + 64) {
        return bp_error_numbers(l->place->error, BP_ERR_FIT, where,
                                "the memory for reading weights is too small", l->place->path,
                                (int64_t)scratch->capacity, (int64_t)used + 64);
    }
    *staging = (bp_staging){(char *)scratch->memory + used, scratch->capacity - used};
    return BP_OK;
}

static bp_status load_open(loading *l)
{
    bp_staging staging = {NULL, 0};
    BP_TRY(data_room(l, &staging));
    BP_TRY(match_all(l, staging));
    return flow(l, staging);
}

uint64_t bp_hf_scratch(const bp_runtime *runtime)
{
    /* Twice the tensors: a file may hold two mask buffers per layer, which has twelve parameters.
     */
    uint64_t tensors = 2 * (uint64_t)runtime->emit.parameter_count + 16;
    return DATA_BYTES + BP_SAFETENSORS_WORK + tensors * (sizeof(bp_tensor_entry) + 256);
}

bp_status bp_hf_weights_load(bp_runtime *runtime, const bp_hf_place *place)
{
    loading l = {.runtime = runtime, .place = place};
    BP_TRY(bp_safetensors_open(&l.file, place->store, place->path, place->scratch.memory,
                               place->scratch.capacity, place->error));
    bp_status status = load_open(&l);
    bp_status closed = bp_safetensors_close(&l.file);
    return status != BP_OK ? status : closed;
}

static bp_status give(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                      size_t bytes)
{
    bp_runtime *runtime = user;
    return bp_runtime_read(runtime, weight_of(runtime, (uint32_t)entry->handle), offset, to, bytes);
}

static void list_weights(const bp_runtime *runtime, bp_tensor_entry *entries)
{
    for (uint32_t p = 0; p < runtime->emit.parameter_count; p++) {
        const bp_buffer *buffer = weight_of(runtime, p);
        bp_tensor_entry *entry = &entries[p];
        *entry = (bp_tensor_entry){
            .name = name_of(runtime, p), .dtype = BP_F32, .rank = buffer->rank, .handle = p};
        memcpy(entry->shape, buffer->shape, buffer->rank * sizeof buffer->shape[0]);
    }
}

bp_status bp_hf_weights_save(bp_runtime *runtime, const bp_hf_place *place)
{
    const bp_staging *scratch = &place->scratch;
    size_t tables = runtime->emit.parameter_count * sizeof(bp_tensor_entry);
    if (scratch->capacity < tables + 64) {
        return bp_error_numbers(place->error, BP_ERR_FIT, where,
                                "the memory for writing weights is too small", place->path,
                                (int64_t)scratch->capacity, (int64_t)tables + 64);
    }
    bp_safetensors_plan plan = {.entries = scratch->memory,
                                .entry_count = runtime->emit.parameter_count};
    list_weights(runtime, plan.entries);
    bp_staging staging = {(char *)scratch->memory + tables, scratch->capacity - tables};
    char name[BP_STORE_PATH_MAX];
    BP_TRY(bp_replace_name(name, place->path, place->error));
    BP_TRY(bp_safetensors_layout(&plan, place->error));
    bp_safetensors_writer writer;
    BP_TRY(bp_safetensors_begin(&writer, place->store, name, &plan, place->error));
    BP_TRY(bp_safetensors_write(&writer, staging, give, runtime));
    BP_TRY(bp_safetensors_end(&writer));
    return bp_replace_end(place->store, place->path, place->error);
}
