/* SPDX-License-Identifier: MIT */
/* Constants and linked programs, digested in slices. */
#include "core/run/guard.h"

#include "core/run/run_private.h"

/* A region that is read from its first byte to its last: in the arena, or in the plan's memory. */
typedef struct guard_region {
    const bp_buffer *buffer; /* NULL: memory */
    const void *memory;
    uint64_t bytes;
} guard_region;

enum { GUARD_TABLES = 3 };

/* Region number `index`: the link's tables, the device's programs, then every buffer, of which only
 * constants have bytes to read. False behind the last. */
static bool guard_find(const bp_runtime *runtime, uint32_t index, bool programs,
                       guard_region *found)
{
    const bp_link *link = &runtime->link;
    const guard_region tables[GUARD_TABLES] = {
        {.memory = link->ops, .bytes = link->ops_used * sizeof *link->ops},
        {.memory = link->offsets, .bytes = link->offsets_used * sizeof *link->offsets},
        {.memory = link->dtypes, .bytes = link->offsets_used * sizeof *link->dtypes}};
    if (index < GUARD_TABLES) {
        *found = tables[index];
        return true;
    }
    index -= GUARD_TABLES;
    if (index < BP_PROGRAM_COUNT) {
        *found = (guard_region){.memory = link->device_memory[index],
                                .bytes = programs ? link->device_bytes[index] : 0};
        return true;
    }
    index -= BP_PROGRAM_COUNT;
    if (index >= runtime->plan->graph.used.buffers) {
        return false;
    }
    const bp_buffer *buffer = &runtime->plan->graph.buffers[index];
    const bool constant = buffer->scope == BP_SCOPE_CONSTANT;
    *found = (guard_region){.buffer = buffer, .bytes = constant ? buffer->bytes : 0};
    return true;
}

static bp_status guard_take(bp_guard *guard, bp_runtime *runtime, const guard_region *region,
                            size_t piece)
{
    const void *bytes = runtime->transfer;
    if (region->buffer != NULL) {
        BP_TRY(bp_runtime_read(runtime, region->buffer, guard->at, runtime->transfer, piece));
    } else {
        bytes = (const uint8_t *)region->memory + guard->at;
    }
    bp_digest_add(&guard->running, bytes, piece);
    guard->at += piece;
    return BP_OK;
}

bp_status bp_guard_slice(bp_guard *guard, bp_runtime *runtime, uint64_t bytes, bool programs,
                         bool *changed)
{
    guard_region region;
    *changed = false;
    if (guard->region == 0 && guard->at == 0) {
        bp_digest_begin(&guard->running, 0);
    }
    for (uint64_t read = 0; read < bytes;) {
        if (!guard_find(runtime, guard->region, programs, &region)) {
            const uint64_t digest = bp_digest_end(&guard->running);
            guard->right = guard->passes == 0 ? digest : guard->right;
            guard->passes++;
            guard->region = 0;
            guard->at = 0;
            *changed = digest != guard->right;
            return BP_OK;
        }
        const uint64_t left = region.bytes - guard->at;
        if (left == 0) {
            guard->region++;
            guard->at = 0;
            continue;
        }
        const size_t piece = left < BP_TRANSFER_BYTES ? (size_t)left : BP_TRANSFER_BYTES;
        BP_TRY(guard_take(guard, runtime, &region, piece));
        read += piece;
        guard->bytes += guard->passes == 0 ? piece : 0;
    }
    return BP_OK;
}

bp_status bp_guard_state(bp_runtime *runtime, uint64_t *sum)
{
    uint64_t words = 0;
    *sum = 0;
    for (uint32_t i = 0; i < runtime->state_count; i++) {
        const bp_buffer *buffer = bp_runtime_state(runtime, i);
        uint64_t part;
        BP_TRY(run_word_sum(runtime, &runtime->plan->graph, runtime->state[i], words, &part));
        *sum += part;
        words += buffer->bytes / sizeof(uint32_t) + 1;
    }
    return BP_OK;
}
