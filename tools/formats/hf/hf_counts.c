/* SPDX-License-Identifier: MIT */
/* Counts of batches in files. */
#include "tools/formats/hf/hf_counts.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "tools/formats/hf/tensor_match.h"

static const char where[] = "weights";
static const char mean_end[] = "running_mean";
static const char count_end[] = "num_batches_tracked";

/* Whether a parameter is a norm's running mean, and what its count is called then: a name of a
 * parameter (BP_NAME_BYTES) leaves room for it. */
static bool hf_counts_name_of(const char *mean, char name[BP_TENSOR_NAME_MAX])
{
    const size_t length = strlen(mean), end = sizeof mean_end - 1;
    if (!bp_adapter_ends_with(mean, length, mean_end)) {
        return false;
    }
    memcpy(name, mean, length - end);
    memcpy(name + length - end, count_end, sizeof count_end);
    return true;
}

static bool hf_counts_name(const bp_runtime *runtime, uint32_t parameter,
                           char name[BP_TENSOR_NAME_MAX])
{
    const bp_builder *builder = &runtime->plan->builder;
    return hf_counts_name_of(
        bp_graph_name(&runtime->plan->graph, builder->parameters[parameter].weight), name);
}

uint32_t bp_hf_counts(const bp_runtime *runtime)
{
    char name[BP_TENSOR_NAME_MAX];
    uint32_t count = 0;
    if (!bp_ref_present(runtime->plan->builder.batches)) {
        return 0;
    }
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count; i++) {
        count += hf_counts_name(runtime, i, name) ? 1 : 0;
    }
    return count;
}

static bp_tensor_entry *hf_counts_find(const bp_tensor_set *set, const bp_tensor_naming *naming,
                                       const char *ours, uint32_t *part)
{
    char theirs[BP_TENSOR_NAME_MAX];
    bp_tensor_entry *entry = NULL;
    for (size_t i = 0; i < naming->rule_count && entry == NULL; i++) {
        const bp_tensor_rule *rule = &naming->rules[i];
        if (bp_name_rewrite(rule->ours, rule->theirs, ours, theirs, sizeof theirs)) {
            entry = bp_tensor_set_find(set, theirs, part);
        }
    }
    return entry;
}

const bp_tensor_entry *bp_hf_counts_beside(const bp_tensor_set *set, const bp_tensor_naming *naming,
                                           const char *parameter, char name[BP_TENSOR_NAME_MAX],
                                           uint32_t *part)
{
    return hf_counts_name_of(parameter, name) ? hf_counts_find(set, naming, name, part) : NULL;
}

bp_status bp_hf_counts_read(bp_tensor_set *set, uint32_t part, const bp_tensor_entry *entry,
                            int32_t *count, bp_error *error)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    const bool is_wide = entry->dtype == BP_I64;
    const bool number = is_wide || entry->dtype == BP_I32;
    if (!number || entry->bytes != bp_dtype_bytes(entry->dtype)) {
        return bp_error_set(error, BP_ERR_DATA, where,
                            "a count of batches is not one number of type I64", entry->name);
    }
    if (is_wide) {
        BP_TRY(bp_tensor_set_read(set, part, entry, 0, &wide, sizeof wide));
    } else {
        BP_TRY(bp_tensor_set_read(set, part, entry, 0, &narrow, sizeof narrow));
        wide = narrow;
    }
    if (wide < 0 || wide > INT32_MAX) {
        return bp_error_limit(error, BP_ERR_DATA, where, "a count of batches is out of its range",
                              entry->name, wide, wide < 0 ? BP_LIMIT_LEAST : BP_LIMIT_MOST,
                              wide < 0 ? 0 : INT32_MAX);
    }
    *count = (int32_t)wide;
    return BP_OK;
}

bp_status bp_hf_counts_load(bp_runtime *runtime, bp_tensor_set *set, const bp_tensor_naming *naming,
                            bp_error *error)
{
    char name[BP_TENSOR_NAME_MAX];
    const uint32_t counts = bp_hf_counts(runtime);
    uint64_t index = 0;
    for (uint32_t i = 0; i < runtime->plan->builder.parameter_count && counts > 0; i++) {
        const bp_buffer *buffer =
            &runtime->plan->graph.buffers[runtime->plan->builder.batches.buffer];
        uint32_t part = 0;
        int32_t count = 0;
        if (!hf_counts_name(runtime, i, name)) {
            continue;
        }
        const bp_tensor_entry *entry = hf_counts_find(set, naming, name, &part);
        if (entry != NULL) {
            BP_TRY(bp_hf_counts_read(set, part, entry, &count, error));
        }
        BP_TRY(bp_runtime_write(runtime, buffer, index * sizeof count, &count, sizeof count));
        index++;
    }
    return BP_OK;
}

bp_status bp_hf_counts_list(const bp_runtime *runtime, bp_tensor_entry *entries, bp_staging *room,
                            bp_error *error)
{
    char name[BP_TENSOR_NAME_MAX];
    uint32_t listed = 0;
    const uint32_t counts = bp_hf_counts(runtime);
    for (uint32_t i = 0; listed < counts; i++) { /* so many parameters have one */
        if (!hf_counts_name(runtime, i, name)) {
            continue;
        }
        const size_t bytes = strlen(name) + 1;
        char *kept = bp_room_take(room, bytes);
        if (kept == NULL) {
            return bp_error_set(error, BP_ERR_FIT, where,
                                "the memory for writing weights is too small", name);
        }
        memcpy(kept, name, bytes);
        entries[listed] =
            (bp_tensor_entry){.name = kept, .dtype = BP_I64, .handle = BP_HF_COUNTS + listed};
        listed++;
    }
    return BP_OK;
}

bp_status bp_hf_counts_give(bp_runtime *runtime, const bp_tensor_entry *entry, void *to)
{
    const uint64_t index = entry->handle - BP_HF_COUNTS;
    const bp_buffer *buffer = &runtime->plan->graph.buffers[runtime->plan->builder.batches.buffer];
    int32_t count = 0;
    BP_TRY(bp_runtime_read(runtime, buffer, index * sizeof count, &count, sizeof count));
    const int64_t wide = count;
    memcpy(to, &wide, sizeof wide);
    return BP_OK;
}
