/* SPDX-License-Identifier: MIT */
/* The tokenizer "t5" of a GGUF file as a Unigram of tokenizer.json, in the form that transformers
 * gives to a model of SentencePiece. */
#include "tools/formats/gguf/gguf_unigram.h"

#include <math.h>
#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/text/token_charsmap.h"

static const char where[] = "gguf";
static const char map_key[] = "tokenizer.ggml.precompiled_charsmap";
static const char scores_key[] = "tokenizer.ggml.scores";
static const char types_key[] = "tokenizer.ggml.token_type";

static bool is_true(const bp_gguf_file *file, const char *name)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    return key != NULL && key->type == BP_GGUF_BOOL && key->bits != 0;
}

static bool merges_spaces(const bp_gguf_file *file)
{
    return is_true(file, "tokenizer.ggml.remove_extra_whitespaces");
}

static const bp_gguf_key *map_of(const bp_gguf_file *file)
{
    const bp_gguf_key *key = bp_gguf_find(file, map_key);
    const bool bytes = key != NULL && key->type == BP_GGUF_ARRAY && key->count > 0 &&
                       (key->item == BP_GGUF_U8 || key->item == BP_GGUF_I8);
    return bytes ? key : NULL;
}

/* Tokens up to the last that text becomes by its score: the list. What stands behind them are added
 * tokens, or nothing. *whole: none among them is unused. */
static bp_status list_of(const bp_gguf_file *file, uint64_t *count, bool *whole)
{
    bp_gguf_items types;
    int32_t type;
    uint64_t unused = 0;
    *count = 0;
    *whole = true;
    BP_TRY(bp_gguf_items_begin(&types, file, types_key, BP_GGUF_I32));
    for (uint64_t id = 0; id < types.key->count; id++) {
        BP_TRY(bp_gguf_items_i32(&types, &type));
        unused += type == BP_GGUF_TOKEN_UNUSED || type == BP_GGUF_TOKEN_BYTE ? 1 : 0;
        if (type == BP_GGUF_TOKEN_NORMAL || type == BP_GGUF_TOKEN_UNKNOWN) {
            *count = id + 1;
            *whole = unused == 0;
        }
    }
    return BP_OK;
}

const char *bp_gguf_unigram_foreign(const bp_gguf_file *file)
{
    bp_gguf_file quiet = *file;
    uint64_t count;
    bool whole;
    quiet.error = NULL;
    if (bp_gguf_find(file, scores_key) == NULL || list_of(&quiet, &count, &whole) != BP_OK) {
        return "its pieces have no scores or no types";
    }
    if (!whole) {
        return "unused pieces, and bytes for unknown text, are not implemented for Unigram";
    }
    if (merges_spaces(file) && map_of(file) == NULL) {
        return "Unigram that drops spaces is implemented with a character map alone";
    }
    return !merges_spaces(file) && is_true(file, "tokenizer.ggml.add_space_prefix")
               ? "Unigram with a space before a text is implemented where other spaces are dropped"
               : NULL;
}

uint64_t bp_gguf_unigram_bytes(const bp_gguf_file *file)
{
    const bp_gguf_key *map = map_of(file);
    return map != NULL ? map->count : 0;
}

/* The map, held to what readers ask of it, in base64 (RFC 4648). */
static bp_status put_map(const bp_gguf_file *file, const bp_gguf_key *key, unsigned char *memory,
                         bp_text *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t count = (size_t)key->count;
    bp_charsmap map;
    if (file->store->read_at(file->store, file->file, key->at, memory, count) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "read", file->path);
    }
    bp_status status = bp_charsmap_open(&map, memory, count, where, file->error);
    if (status != BP_OK) {
        bp_error_prefix(file->error, file->path);
        return status;
    }
    for (size_t i = 0; i < count; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (i + k < count ? memory[i + k] : 0u);
        }
        for (size_t k = 0; k < 4; k++) {
            bp_text_char(text, i + k <= count ? digits[bits >> (18 - 6 * k) & 63] : '=');
        }
    }
    return BP_OK;
}

/* Whether a piece has U+2581 behind its beginning, or none is U+2581 alone: then the text is one
 * word. */
static bool is_inner(const char *text, size_t length)
{
    return length > 1 && strstr(text + 1, "\xe2\x96\x81") != NULL;
}

static bp_status are_words(const bp_gguf_file *file, char *token, size_t room, bool *words)
{
    bp_gguf_items tokens, types;
    bool alone = false, inner = false;
    BP_TRY(bp_gguf_items_begin(&tokens, file, "tokenizer.ggml.tokens", BP_GGUF_STRING));
    BP_TRY(bp_gguf_items_begin(&types, file, types_key, BP_GGUF_I32));
    for (uint64_t id = 0; id < tokens.key->count; id++) { /* there are as many types: walk_begin */
        size_t length;
        int32_t type;
        BP_TRY(bp_gguf_items_string(&tokens, token, room, &length));
        BP_TRY(bp_gguf_items_i32(&types, &type));
        alone = alone || (type == BP_GGUF_TOKEN_NORMAL && strcmp(token, "\xe2\x96\x81") == 0);
        inner = inner || (type == BP_GGUF_TOKEN_NORMAL && is_inner(token, length));
    }
    *words = alone && !inner;
    return BP_OK;
}

static void put_metaspace(bp_json_writer *json, const char *key, bool merged, bool words)
{
    bp_json_put_open(json, key, '{');
    bp_json_put_text(json, "type", "Metaspace");
    bp_json_put_text(json, "replacement", "\xe2\x96\x81");
    bp_json_put_text(json, "prepend_scheme", merged ? "always" : "never");
    bp_json_put_flag(json, "split", words);
    bp_json_put_close(json);
}

bp_status bp_gguf_unigram_rules(const bp_gguf_file *file, char *token, size_t room, void *memory,
                                bp_json_writer *json)
{
    const bp_gguf_key *map = map_of(file);
    const bool merged = merges_spaces(file);
    bool words;
    BP_TRY(are_words(file, token, room, &words));
    if (map != NULL) {
        bp_json_put_open(json, "normalizer", '{');
        bp_json_put_text(json, "type", "Sequence");
        bp_json_put_open(json, "normalizers", '[');
        bp_json_put_open(json, NULL, '{');
        bp_json_put_text(json, "type", "Precompiled");
        bp_json_put_member(json, "precompiled_charsmap");
        bp_text_char(json->text, '"');
        BP_TRY(put_map(file, map, memory, json->text));
        bp_text_char(json->text, '"');
        bp_json_put_close(json);
        if (merged) {
            bp_json_put_value(
                json, NULL, "{\"type\": \"Strip\", \"strip_left\": false, \"strip_right\": true}");
            bp_json_put_value(json, NULL,
                              "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, "
                              "\"content\": \"\xe2\x96\x81\"}");
        }
        bp_json_put_close(json);
        bp_json_put_close(json);
    } else {
        bp_json_put_value(json, "normalizer", "null");
    }
    put_metaspace(json, "pre_tokenizer", merged, words);
    put_metaspace(json, "decoder", merged, words);
    return BP_OK;
}

static bp_status put_piece(const bp_gguf_file *file, bp_gguf_items *scores, int32_t type,
                           bp_json_writer *json)
{
    int32_t bits;
    float score;
    BP_TRY(bp_gguf_items_i32(scores, &bits));
    memcpy(&score, &bits, sizeof score);
    if (!(fabsf(score) < 1e30f)) {
        return bp_gguf_refuse(file, "a score is not a finite number", scores_key);
    }
    /* What is unknown is scored by the ordinary pieces. */
    bp_json_put_real(json, NULL, type == BP_GGUF_TOKEN_NORMAL ? (double)score : 0.0, 17);
    return BP_OK;
}

bp_status bp_gguf_unigram_model(const bp_gguf_file *file, char *token, size_t room,
                                bp_json_writer *json)
{
    bp_gguf_items tokens, scores, types;
    uint64_t count;
    uint32_t unknown = 2; /* T5's, which readers take where nothing is said */
    bool whole;
    BP_TRY(list_of(file, &count, &whole));
    BP_TRY(bp_gguf_items_begin(&tokens, file, "tokenizer.ggml.tokens", BP_GGUF_STRING));
    BP_TRY(bp_gguf_items_begin(&scores, file, scores_key, BP_GGUF_F32));
    BP_TRY(bp_gguf_items_begin(&types, file, types_key, BP_GGUF_I32));
    if (tokens.key->count != scores.key->count) {
        return bp_gguf_refuse(file, "tokens and their scores differ in number", scores_key);
    }
    if (bp_gguf_find(file, "tokenizer.ggml.unknown_token_id") != NULL) {
        BP_TRY(
            bp_gguf_take_count(file, "tokenizer.ggml.unknown_token_id", 0, UINT32_MAX, &unknown));
    }
    if (unknown >= count) {
        return bp_gguf_refuse(file, "no piece has this number", "tokenizer.ggml.unknown_token_id");
    }
    bp_json_put_lines(json, "model", '{');
    bp_json_put_text(json, "type", "Unigram");
    bp_json_put_u64(json, "unk_id", unknown);
    bp_json_put_flag(json, "byte_fallback", false);
    bp_json_put_lines(json, "vocab", '[');
    for (uint64_t id = 0; id < count; id++) {
        size_t length;
        int32_t type;
        BP_TRY(bp_gguf_items_string(&tokens, token, room, &length));
        BP_TRY(bp_gguf_items_i32(&types, &type));
        bp_json_put_open(json, NULL, '[');
        bp_json_put_bytes(json, NULL, token, length);
        BP_TRY(put_piece(file, &scores, type, json));
        bp_json_put_close(json);
    }
    bp_json_put_close(json);
    bp_json_put_close(json);
    return BP_OK;
}
