/* SPDX-License-Identifier: MIT */
/* The set of open keys of the JSON reader.
 *
 * One hash table with linear probing serves all objects that are open. Containers close in the
 * reverse order of their opening, so keys leave in the reverse order of their coming, and emptying
 * the slots in that order restores the table as it was before them. */
#include "core/base/json_private.h"

#include "core/base/digest.h"

/* A key needs a slot in a table that is at most half full, and a place on the stack. */
enum { PAIR_BYTES = 2 * sizeof(uint64_t) + sizeof(uint32_t), LEAST_KEYS = 8 };

uint64_t bp_json_keys_bytes(uint64_t keys)
{
    uint64_t rounded = LEAST_KEYS;
    while (rounded < keys) {
        rounded = bp_size_mul(rounded, 2);
    }
    return bp_size_mul(rounded, PAIR_BYTES);
}

bp_status bp_json_add_key(bp_json *json)
{
    if (json->slot_count == 0) {
        return BP_OK;
    }
    if (json->stack_used == json->slot_count / 2) {
        json->status = bp_error_limit(
            json->error, BP_ERR_FIT, "json", "more keys are open than the key set has room for",
            json->text, (int64_t)json->stack_used + 1, BP_LIMIT_MOST, (int64_t)json->stack_used);
        return json->status;
    }
    uint64_t seed = json->key_seed[json->depth - 1];
    uint64_t hash = bp_digest_of(json->text, json->text_used, seed);
    hash += hash == 0 ? 1 : 0;
    uint32_t mask = json->slot_count - 1;
    uint32_t slot = (uint32_t)hash & mask;
    while (json->slots[slot] != 0) {
        if (json->slots[slot] == hash) {
            return bp_json_refuse(json, "an object has the same key twice");
        }
        slot = (slot + 1) & mask;
    }
    json->slots[slot] = hash;
    json->stack[json->stack_used++] = slot;
    return BP_OK;
}

void bp_json_drop_keys(bp_json *json)
{
    while (json->stack_used > json->key_mark[json->depth - 1]) {
        json->slots[json->stack[--json->stack_used]] = 0;
    }
}
