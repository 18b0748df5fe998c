/* SPDX-License-Identifier: MIT */
/* Tokens and merges in open-addressed tables over the caller's memory. */
#include "tools/formats/text/token_table.h"

#include <string.h>

#include "arena/arena.h"

/* A table that is at most half full has short chains; a file made so that they are long is
 * refused instead of taking for ever. */
#define PROBES_MAX 2048

static const char where[] = "tokenizer";

/* A power of two that leaves half of the table empty. */
static uint64_t slots_for(uint64_t count)
{
    uint64_t slots = 16;
    while (slots < 2 * count) {
        slots *= 2;
    }
    return slots;
}

/* Bits for the beginnings of tokens, of which there are fewer than bytes. */
static uint64_t beginning_bits(const bp_tokenizer_need *need)
{
    return need->scored ? slots_for(4 * need->text_bytes) : 64;
}

static void token_table_take(bp_tokenizer *t, const bp_tokenizer_need *need, bp_arena *memory)
{
    t->merges = bp_arena_take(memory, slots_for(need->merges), sizeof *t->merges);
    t->bridges = bp_arena_take(memory, 256 * 256 / 64, sizeof *t->bridges);
    t->scores = need->scored ? bp_arena_take(memory, need->tokens, sizeof *t->scores) : NULL;
    t->beginnings = bp_arena_take(memory, (beginning_bits(need) + 63) / 64, sizeof *t->beginnings);
    t->starts = bp_arena_take(memory, need->tokens, sizeof *t->starts);
    t->slots =
        bp_arena_take(memory, slots_for((uint64_t)need->entries + need->added), sizeof *t->slots);
    t->added = bp_arena_take(memory, need->added, sizeof *t->added);
    t->lengths = bp_arena_take(memory, need->tokens, sizeof *t->lengths);
    t->text = bp_arena_take(memory, need->text_bytes, 1);
    t->map = bp_arena_take(memory, need->map_bytes, 1);
}

uint64_t bp_token_table_bytes(const bp_tokenizer_need *need)
{
    bp_arena count;
    bp_tokenizer tokenizer;
    bp_arena_count(&count);
    token_table_take(&tokenizer, need, &count);
    return bp_arena_counted(&count);
}

void bp_token_table_init(bp_tokenizer *t, const bp_tokenizer_need *need, void *memory)
{
    bp_arena arena;
    bp_arena_init(&arena, memory, (size_t)bp_token_table_bytes(need));
    token_table_take(t, need, &arena);
    t->tokens = need->tokens;
    t->beginning_mask = beginning_bits(need) - 1;
    memset(t->beginnings, 0, (size_t)((beginning_bits(need) + 63) / 64) * sizeof(uint64_t));
    t->map_room = need->map_bytes;
    t->text_room = need->text_bytes;
    t->added_room = need->added;
    t->merge_mask = (uint32_t)(slots_for(need->merges) - 1);
    t->slot_mask = (uint32_t)(slots_for((uint64_t)need->entries + need->added) - 1);
    memset(t->merges, 0xff, ((size_t)t->merge_mask + 1) * sizeof *t->merges);
    memset(t->slots, 0xff, ((size_t)t->slot_mask + 1) * sizeof *t->slots);
    memset(t->bridges, 0, 256 * 256 / 8);
    for (uint32_t id = 0; id < t->tokens; id++) {
        t->starts[id] = 0;
        t->lengths[id] = BP_TOKEN_ABSENT;
    }
}

static uint64_t mixed(uint64_t hash)
{
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

uint32_t bp_token_lookup(const bp_tokenizer *t, uint64_t hash, const void *text, size_t length)
{
    for (uint64_t slot = mixed(hash) & t->slot_mask;; slot = (slot + 1) & t->slot_mask) {
        uint32_t id = t->slots[slot];
        if (id == BP_TOKEN_NONE) {
            return BP_TOKEN_NONE;
        }
        size_t bytes;
        const unsigned char *known = bp_token_text(t, id, &bytes);
        if (bytes == length && memcmp(known, text, length) == 0) {
            return id;
        }
    }
}

static uint64_t hash_of(const unsigned char *text, size_t length)
{
    uint64_t hash = bp_token_hash_begin();
    for (size_t i = 0; i < length; i++) {
        hash = bp_token_hash_add(hash, text[i]);
    }
    return hash;
}

uint32_t bp_token_find(const bp_tokenizer *t, const void *text, size_t length)
{
    return bp_token_lookup(t, hash_of(text, length), text, length);
}

/* The tables have room for what was measured; a file that holds more of it now is another file. */
static bp_status refuse_changed(const char *name, bp_error *error)
{
    return bp_error_set(error, BP_ERR_DATA, where, "the file changed while it was read", name);
}

static bp_status list_token(bp_tokenizer *t, uint32_t id, bp_error *error)
{
    size_t length;
    if (t->listed > t->slot_mask / 2) {
        return refuse_changed("vocab", error);
    }
    const unsigned char *text = bp_token_text(t, id, &length);
    uint64_t slot = mixed(hash_of(text, length)) & t->slot_mask;
    for (uint32_t probes = 0; t->slots[slot] != BP_TOKEN_NONE; probes++) {
        size_t bytes;
        const unsigned char *known = bp_token_text(t, t->slots[slot], &bytes);
        if (bytes == length && memcmp(known, text, length) == 0) {
            return bp_error_limit(error, BP_ERR_DATA, where,
                                  "two tokens have the same text, the second with this id", "vocab",
                                  id, BP_LIMIT_NONE, t->slots[slot]);
        }
        if (probes == PROBES_MAX) {
            return bp_error_set(error, BP_ERR_DATA, where,
                                "the tokens were chosen to make looking them up slow", "vocab");
        }
        slot = (slot + 1) & t->slot_mask;
    }
    t->slots[slot] = id;
    t->listed++;
    return BP_OK;
}

bp_status bp_token_add(bp_tokenizer *t, const void *text, size_t length, uint32_t id, bool listed,
                       bp_error *error)
{
    if (length >= BP_TOKENIZER_DECODED_MAX) {
        return bp_error_limit(error, BP_ERR_DATA, where, "a token is too long", "vocab",
                              (int64_t)length, BP_LIMIT_MOST, BP_TOKENIZER_DECODED_MAX - 1);
    }
    if (id >= t->tokens || length > t->text_room - t->text_used) {
        return refuse_changed("vocab", error);
    }
    if ((t->lengths[id] & BP_TOKEN_ABSENT) == 0) {
        return bp_error_limit(error, BP_ERR_DATA, where, "two tokens have the same id", "vocab", id,
                              BP_LIMIT_NONE, id);
    }
    memcpy(t->text + t->text_used, text, length);
    t->starts[id] = (uint32_t)t->text_used;
    t->lengths[id] = (uint16_t)length;
    t->text_used += length;
    t->token_longest = length > t->token_longest ? (uint32_t)length : t->token_longest;
    return listed ? list_token(t, id, error) : BP_OK;
}

void bp_token_set_score(bp_tokenizer *t, uint32_t id, double score)
{
    size_t length;
    const unsigned char *text = bp_token_text(t, id, &length);
    uint64_t hash = bp_token_hash_begin();
    t->scores[id] = score;
    for (size_t i = 0; i < length; i++) {
        hash = bp_token_hash_add(hash, text[i]);
        if (i + 1 == length || (text[i + 1] & 0xc0) != 0x80) {
            const uint64_t bit = (hash ^ hash >> 29) & t->beginning_mask;
            t->beginnings[bit / 64] |= (uint64_t)1 << bit % 64;
        }
    }
}

static uint64_t pair_slot(const bp_tokenizer *t, uint32_t left, uint32_t right)
{
    return mixed(((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u) & t->merge_mask;
}

const bp_token_merge *bp_token_merge_of(const bp_tokenizer *t, uint32_t left, uint32_t right)
{
    for (uint64_t slot = pair_slot(t, left, right);; slot = (slot + 1) & t->merge_mask) {
        const bp_token_merge *merge = &t->merges[slot];
        if (merge->left == left && merge->right == right) {
            return merge;
        }
        if (merge->rank == BP_TOKEN_NONE) {
            return NULL;
        }
    }
}

bp_status bp_token_add_merge(bp_tokenizer *t, const bp_token_merge *merge, bp_error *error)
{
    uint64_t slot = pair_slot(t, merge->left, merge->right);
    for (uint32_t probes = 0; t->merges[slot].rank != BP_TOKEN_NONE; probes++) {
        if (t->merges[slot].left == merge->left && t->merges[slot].right == merge->right) {
            return bp_error_numbers(error, BP_ERR_DATA, where,
                                    "a pair is merged twice (found the second's rank and the "
                                    "first's)",
                                    "merges", merge->rank, t->merges[slot].rank);
        }
        if (probes == PROBES_MAX) {
            return bp_error_set(error, BP_ERR_DATA, where,
                                "the merges were chosen to make looking them up slow", "merges");
        }
        slot = (slot + 1) & t->merge_mask;
    }
    if (t->merge_count > t->merge_mask / 2) {
        return refuse_changed("merges", error);
    }
    t->merges[slot] = *merge;
    t->merge_count++;
    return BP_OK;
}

static int compare_added(const bp_tokenizer *t, const bp_token_added *a, const unsigned char *text,
                         size_t length)
{
    size_t common = a->length < length ? a->length : length;
    int order = memcmp(t->text + a->start, text, common);
    return order != 0 ? order : a->length < length ? -1 : a->length > length;
}

/* Puts an added token in its place of the order. */
static bp_status insert_added(bp_tokenizer *t, const bp_token_added *added, bp_error *error)
{
    const unsigned char *text = (const unsigned char *)t->text + added->start;
    uint32_t low = 0;
    uint32_t high = t->added_count;
    if (t->added_count == t->added_room) {
        return refuse_changed("added_tokens", error);
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_added(t, &t->added[middle], text, added->length);
        if (order == 0) {
            return bp_error_numbers(error, BP_ERR_DATA, where,
                                    "an added token is there twice (found its id)", "added_tokens",
                                    added->id, added->id);
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    memmove(&t->added[low + 1], &t->added[low], (t->added_count - low) * sizeof *t->added);
    t->added[low] = *added;
    t->added_count++;
    t->added_lstrip = t->added_lstrip || (added->flags & BP_ADDED_LSTRIP) != 0;
    t->added_word = t->added_word || (added->flags & BP_ADDED_WORD) != 0;
    t->added_first[text[0] / 64] |= (uint64_t)1 << text[0] % 64;
    return BP_OK;
}

bp_status bp_token_add_added(bp_tokenizer *t, uint32_t id, uint32_t flags, bp_error *error)
{
    size_t length;
    (void)bp_token_text(t, id, &length);
    const bp_token_added added = {t->starts[id], (uint32_t)length, id, flags};
    if ((flags & BP_ADDED_SPECIAL) != 0) {
        t->lengths[id] |= BP_TOKEN_SPECIAL;
    }
    return insert_added(t, &added, error);
}

bp_status bp_token_add_spelling(bp_tokenizer *t, const char *before, uint32_t id, uint32_t flags,
                                bp_error *error)
{
    size_t length;
    const unsigned char *text = bp_token_text(t, id, &length);
    size_t more = strlen(before);
    const bp_token_added added = {(uint32_t)t->text_used, (uint32_t)(more + length), id, flags};
    if (more + length > t->text_room - t->text_used) {
        return refuse_changed("added_tokens", error);
    }
    memcpy(t->text + t->text_used, before, more);
    memcpy(t->text + t->text_used + more, text, length);
    t->text_used += more + length;
    return insert_added(t, &added, error);
}

/* Byte k of the added tokens low .. high, which agree in the bytes before: narrows them to those
 * that have `byte` there. A token that ends before k has none and comes first. */
static uint32_t first_from(const bp_tokenizer *t, uint32_t low, uint32_t high, size_t k, int byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const bp_token_added *a = &t->added[middle];
        int there = a->length > k ? (unsigned char)t->text[a->start + k] : -1;
        low = there < byte ? middle + 1 : low;
        high = there < byte ? high : middle;
    }
    return low;
}

const bp_token_added *bp_token_match(const bp_tokenizer *t, const unsigned char *text,
                                     size_t length, bool *more)
{
    const bp_token_added *longest = NULL;
    uint32_t low = 0;
    uint32_t high = t->added_count;
    *more = false;
    for (size_t k = 0; low < high; k++) {
        if (t->added[low].length == k) {
            longest = &t->added[low++];
            if (low == high) {
                break;
            }
        }
        if (k == length) {
            *more = true;
            break;
        }
        high = first_from(t, low, high, k, text[k] + 1);
        low = first_from(t, low, high, k, text[k]);
    }
    return longest;
}

/* GPT-2's characters for bytes (openai/gpt-2, src/encoder.py): bytes that print stand for
 * themselves, the other 68 are U+0100 and up in order. */
static bool byte_of(uint32_t c, unsigned char *byte)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255)) {
        *byte = (unsigned char)c;
        return true;
    }
    if (c < 256 || c >= 256 + 68) {
        return false;
    }
    uint32_t k = c - 256; /* 0..32, 127..160, 173 */
    *byte = (unsigned char)(k < 33 ? k : k < 67 ? 127 + (k - 33) : 173);
    return true;
}

bool bp_token_bytes_of(const char *text, size_t length, unsigned char *to, size_t *bytes)
{
    size_t put = 0;
    for (size_t at = 0; at < length;) {
        size_t step;
        uint32_t c = bp_utf8_get((const unsigned char *)text + at, &step);
        if (!byte_of(c, &to[put])) {
            return false;
        }
        put++;
        at += step;
    }
    *bytes = put;
    return true;
}
