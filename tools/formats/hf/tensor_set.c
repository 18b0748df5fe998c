/* SPDX-License-Identifier: MIT */
/* Reads from whichever file holds the tensor. */
#include "tools/formats/hf/tensor_set.h"

#include <string.h>

#include "core/base/digest.h"
#include "core/base/storage.h"

static const char where[] = "weights";

void bp_tensor_set_init(bp_tensor_set *set, bp_store *store, const char *path,
                        bp_tensor_part *parts, uint32_t count, bp_error *error)
{
    *set = (bp_tensor_set){.store = store,
                           .error = error,
                           .path = path,
                           .parts = parts,
                           .part_count = count,
                           .current = count};
}

static bp_tensor_entry *find_in(const bp_tensor_part *part, const char *name)
{
    size_t low = 0;
    size_t high = part->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(part->entries[middle].name, name);
        if (order == 0) {
            return &part->entries[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

bp_tensor_entry *bp_tensor_set_find(const bp_tensor_set *set, const char *name, uint32_t *part)
{
    for (uint32_t i = 0; i < set->part_count; i++) {
        bp_tensor_entry *entry = find_in(&set->parts[i], name);
        if (entry != NULL) {
            *part = i;
            return entry;
        }
    }
    return NULL;
}

bp_status bp_tensor_set_close(bp_tensor_set *set)
{
    if (set->current == set->part_count) {
        return BP_OK;
    }
    const char *path = set->parts[set->current].path;
    set->current = set->part_count;
    if (set->store->close(set->store, set->file) != BP_OK) {
        return bp_storage_failed(set->error, set->store, "close", path);
    }
    return BP_OK;
}

/* Opens a part that was checked before, and sees that it still has its length. */
static bp_status turn_to(bp_tensor_set *set, uint32_t index)
{
    const bp_tensor_part *part = &set->parts[index];
    bp_store *store = set->store;
    uint64_t bytes;
    if (set->current == index) {
        return BP_OK;
    }
    BP_TRY(bp_tensor_set_close(set));
    if (store->open_read(store, part->path, &set->file) != BP_OK) {
        return bp_storage_failed(set->error, store, "open", part->path);
    }
    set->current = index;
    if (store->file_size(store, set->file, &bytes) != BP_OK) {
        return bp_storage_failed(set->error, store, "size", part->path);
    }
    if (bytes != part->file_bytes) {
        return bp_error_numbers(set->error, BP_ERR_DATA, where,
                                "the file changed its length while it was read", part->path,
                                bp_size_signed(bytes), bp_size_signed(part->file_bytes));
    }
    return BP_OK;
}

bp_status bp_tensor_set_read(bp_tensor_set *set, uint32_t part, const bp_tensor_entry *entry,
                             uint64_t offset, void *to, size_t bytes)
{
    if (offset > entry->bytes || bytes > entry->bytes - offset) {
        return bp_error_limit(set->error, BP_ERR_USAGE, where, "the range is not inside the tensor",
                              entry->name, bp_size_signed(bp_size_add(offset, bytes)),
                              BP_LIMIT_MOST, bp_size_signed(entry->bytes));
    }
    BP_TRY(turn_to(set, part));
    uint64_t at = set->parts[part].data_at + entry->offset + offset;
    if (set->store->read_at(set->store, set->file, at, to, bytes) != BP_OK) {
        return bp_storage_failed(set->error, set->store, "read", set->parts[part].path);
    }
    return BP_OK;
}

bp_status bp_tensor_set_digest(bp_tensor_set *set, uint32_t part, const bp_tensor_entry *entry,
                               bp_staging work, uint64_t *digest)
{
    bp_digest running;
    bp_digest_begin(&running, 0);
    for (uint64_t offset = 0; offset < entry->bytes;) {
        uint64_t left = entry->bytes - offset;
        size_t piece = left < work.capacity ? (size_t)left : work.capacity;
        BP_TRY(bp_tensor_set_read(set, part, entry, offset, work.memory, piece));
        bp_digest_add(&running, work.memory, piece);
        offset += piece;
    }
    *digest = bp_digest_end(&running);
    return BP_OK;
}

const char *bp_tensor_set_metadata(const bp_tensor_set *set, uint32_t part, const char *key)
{
    const bp_tensor_part *p = &set->parts[part];
    return bp_pairs_find((bp_pairs){p->metadata, p->metadata_count}, key);
}

void *bp_room_take(bp_staging *room, uint64_t bytes)
{
    size_t skew = (size_t)(-(uintptr_t)room->memory % 8);
    uint64_t whole = bp_size_align(bytes, 8);
    if (room->capacity < skew || whole > room->capacity - skew) {
        return NULL;
    }
    char *at = (char *)room->memory + skew;
    room->memory = at + whole;
    room->capacity -= skew + (size_t)whole;
    return at;
}
