/* SPDX-License-Identifier: MIT */
/* From scores to ranks: pieces by their text in a hash table, by their score in a sorted list. */
#include "tools/formats/gguf/gguf_pieces.h"

#include <math.h>
#include <string.h>

#include "arena/arena.h"
#include "core/base/sort.h"

enum { CUT_MOST = 512, PROBES_MAX = 256 };

#define NONE UINT32_MAX

static const char where[] = "gguf";

typedef struct ranked {
    float score;
    uint32_t id;
} ranked;

typedef struct pieces {
    uint64_t count; /* tokens */
    uint64_t mask;  /* places of the table less one */
    uint32_t *place;
    uint32_t *start; /* of a token's bytes, and of those behind the last */
    ranked *order;
    uint32_t ordered;
    char *text;
    bp_error *error;
} pieces;

static uint64_t places_of(uint64_t count)
{
    uint64_t places = 16;
    while (places < 2 * count) {
        places *= 2;
    }
    return places;
}

static void pieces_take(pieces *p, const bp_gguf_key *tokens, bp_arena *memory)
{
    p->order = bp_arena_take(memory, tokens->count, sizeof *p->order);
    p->start = bp_arena_take(memory, tokens->count + 2, sizeof *p->start);
    p->place = bp_arena_take(memory, places_of(tokens->count), sizeof *p->place);
    p->text = bp_arena_take(memory, tokens->bytes, 1);
}

uint64_t bp_gguf_pieces_bytes(const bp_gguf_file *file)
{
    const bp_gguf_key *tokens = bp_gguf_find(file, "tokenizer.ggml.tokens");
    if (tokens == NULL || tokens->count > UINT32_MAX / 4 || tokens->bytes > UINT32_MAX) {
        return BP_SIZE_INVALID;
    }
    bp_arena count;
    pieces p;
    bp_arena_count(&count);
    pieces_take(&p, tokens, &count);
    return bp_arena_counted(&count);
}

/* FNV-1a (Fowler, Noll, Vo), a byte at a time. */
static uint32_t hash_on(uint32_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * 16777619u;
}

static uint32_t hash_of(const char *text, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) {
        hash = hash_on(hash, text[i]);
    }
    return hash;
}

/* The place of a text, or the empty one where it would be; NONE where the search is too long. */
static uint32_t *pieces_find(const pieces *p, uint32_t hash, const char *text, size_t length)
{
    for (uint64_t probe = 0; probe < PROBES_MAX; probe++) {
        uint32_t *place = &p->place[(hash + probe) & p->mask];
        if (*place == NONE || (p->start[*place + 1] - p->start[*place] == length &&
                               memcmp(p->text + p->start[*place], text, length) == 0)) {
            return place;
        }
    }
    return NULL;
}

static bool has_piece(const pieces *p, uint32_t hash, const char *text, size_t length)
{
    const uint32_t *place = pieces_find(p, hash, text, length);
    return place != NULL && *place != NONE;
}

static bp_status pieces_wrong(const pieces *p, const char *text, const char *key)
{
    return bp_error_set(p->error, BP_ERR_DATA, where, text, key);
}

/* Keeps token `id`, whose bytes are at the end of the text; it is no piece when nobody may look it
 * up. */
static bp_status keep_token(pieces *p, uint32_t id, int32_t type, float score)
{
    const char *text = p->text + p->start[id];
    const size_t length = p->start[id + 1] - p->start[id];
    if (type != BP_GGUF_TOKEN_NORMAL && type != BP_GGUF_TOKEN_USER) {
        return BP_OK;
    }
    if (!(score == score) || isinf(score)) {
        return pieces_wrong(p, "a score is not a finite number", "tokenizer.ggml.scores");
    }
    uint32_t *place = pieces_find(p, hash_of(text, length), text, length);
    if (place == NULL) {
        return pieces_wrong(p, "the tokens were chosen to make looking them up slow",
                            "tokenizer.ggml.tokens");
    }
    if (*place == NONE) {
        *place = id;
        p->order[p->ordered++] = (ranked){score, id};
    }
    return BP_OK;
}

static bp_status pieces_read(pieces *p, const bp_gguf_file *file)
{
    static const char types_key[] = "tokenizer.ggml.token_type";
    bp_gguf_items tokens, scores, types;
    const bool typed = bp_gguf_find(file, types_key) != NULL;
    BP_TRY(bp_gguf_items_begin(&tokens, file, "tokenizer.ggml.tokens", BP_GGUF_STRING));
    BP_TRY(bp_gguf_items_begin(&scores, file, "tokenizer.ggml.scores", BP_GGUF_F32));
    BP_TRY(typed ? bp_gguf_items_begin(&types, file, types_key, BP_GGUF_I32) : BP_OK);
    if (scores.key->count != p->count || (typed && types.key->count != p->count)) {
        return bp_error_numbers(p->error, BP_ERR_DATA, where,
                                "tokens and their scores differ in number", "tokenizer.ggml.scores",
                                bp_size_signed(scores.key->count), bp_size_signed(p->count));
    }
    for (uint32_t id = 0; id < p->count; id++) {
        size_t length;
        int32_t bits, type = BP_GGUF_TOKEN_NORMAL;
        float score;
        BP_TRY(bp_gguf_items_string(&tokens, p->text + p->start[id],
                                    tokens.key->bytes + 1 - p->start[id], &length));
        BP_TRY(bp_gguf_items_i32(&scores, &bits));
        BP_TRY(typed ? bp_gguf_items_i32(&types, &type) : BP_OK);
        memcpy(&score, &bits, sizeof score);
        p->start[id + 1] = p->start[id] + (uint32_t)length;
        BP_TRY(keep_token(p, id, type, score));
    }
    return BP_OK;
}

static int better(const void *a, const void *b)
{
    const ranked *left = a;
    const ranked *right = b;
    if (left->score != right->score) {
        return left->score > right->score ? -1 : 1;
    }
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Every cut of a piece into two others, the longest left part first. */
static void put_cuts(const pieces *p, uint32_t id, bp_json_writer *json)
{
    const char *piece = p->text + p->start[id];
    const size_t length = p->start[id + 1] - p->start[id];
    uint32_t hash[CUT_MOST + 1] = {2166136261u};
    if (length > CUT_MOST) {
        return;
    }
    for (size_t i = 0; i < length; i++) {
        hash[i + 1] = hash_on(hash[i], piece[i]);
    }
    for (size_t cut = length; cut-- > 1;) {
        const bool between = (piece[cut] & 0xc0) != 0x80; /* characters, not bytes of one */
        if (between && has_piece(p, hash[cut], piece, cut) &&
            has_piece(p, hash_of(piece + cut, length - cut), piece + cut, length - cut)) {
            bp_json_put_open(json, NULL, '[');
            bp_json_put_bytes(json, NULL, piece, cut);
            bp_json_put_bytes(json, NULL, piece + cut, length - cut);
            bp_json_put_close(json);
        }
    }
}

bp_status bp_gguf_put_pieces(const bp_gguf_file *file, void *memory, bp_json_writer *json,
                             bp_error *error)
{
    const bp_gguf_key *tokens = bp_gguf_find(file, "tokenizer.ggml.tokens");
    pieces p = {.count = tokens != NULL ? tokens->count : 0, .error = error};
    const uint64_t bytes = bp_gguf_pieces_bytes(file);
    if (bytes == BP_SIZE_INVALID) { /* so it is of none */
        return pieces_wrong(&p, "the tokens are missing or too many", "tokenizer.ggml.tokens");
    }
    bp_arena arena;
    bp_arena_init(&arena, memory, (size_t)bytes);
    pieces_take(&p, tokens, &arena);
    p.mask = places_of(p.count) - 1;
    p.start[0] = 0;
    memset(p.place, 0xff, (p.mask + 1) * sizeof *p.place);
    BP_TRY(pieces_read(&p, file));
    bp_heap_sort(p.order, p.ordered, sizeof *p.order, better);
    bp_json_put_lines(json, "merges", '[');
    for (uint32_t i = 0; i < p.ordered; i++) {
        put_cuts(&p, p.order[i].id, json);
    }
    bp_json_put_close(json);
    return json->text->status;
}
