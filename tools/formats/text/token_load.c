/* SPDX-License-Identifier: MIT */
/* The files of a tokenizer as bytes, lines and entries. */
#include "tools/formats/text/token_load.h"

#include <string.h>

#include "tools/formats/text/token_table.h"

static const char where[] = "tokenizer";

bp_status bp_load_open(bp_load *load, const char *path)
{
    bp_storage_reader *reader = &load->reader;
    bp_store *store = load->store;
    *reader = (bp_storage_reader){.store = store,
                                  .path = path,
                                  .buffer = load->scratch->read,
                                  .capacity = BP_LOAD_READ,
                                  .error = load->error};
    load->line_at = load->line_end = NULL;
    if (store->open_read(store, path, &reader->file) != BP_OK) {
        return bp_storage_failed(load->error, store, "open", path);
    }
    bp_status status = BP_OK;
    if (store->file_size(store, reader->file, &reader->end) != BP_OK) {
        status = bp_storage_failed(load->error, store, "size", path);
    } else if (reader->end > BP_TOKENIZER_FILE_MAX) {
        status = bp_error_numbers(load->error, BP_ERR_DATA, where, "the file is too long", "bytes",
                                  bp_size_signed(reader->end), BP_TOKENIZER_FILE_MAX);
    }
    if (status != BP_OK) {
        bp_load_close(load);
    }
    return status;
}

void bp_load_close(bp_load *load)
{
    /* Nothing was written: a failing close of a file that was read loses nothing. */
    (void)load->store->close(load->store, load->reader.file);
}

/* The next bytes; the counting pass takes their digest. */
static bp_status token_load_fill(void *user, const unsigned char **bytes, size_t *count)
{
    bp_load *load = user;
    BP_TRY(bp_storage_fill(&load->reader, bytes, count));
    if (load->pass == BP_LOAD_COUNT) {
        bp_digest_add(&load->digest, *bytes, *count);
    }
    return BP_OK;
}

bp_status bp_load_json_begin(bp_load *load)
{
    bp_json_source source = {token_load_fill, load, BP_TOKENIZER_FILE_MAX};
    /* Equal keys are found by those who use them: tokens in the table, settings in the tree. */
    bp_json_memory memory = {
        .text = load->scratch->text, .text_bytes = BP_LOAD_TEXT, .max_depth = BP_JSON_DEPTH_MAX};
    return bp_json_init(&load->json, &source, &memory, load->error);
}

/* Whether text is UTF-8: cleaning it changes nothing. */
static bool is_utf8(const unsigned char *text, size_t length)
{
    bp_utf8_cleaner cleaner = {.have = 0};
    unsigned char clean[256];
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        size_t had = cleaner.have;
        size_t count = length - at < 128 ? length - at : 128;
        size_t put = bp_utf8_clean(&cleaner, text + at, count, clean, sizeof clean, &used);
        if (put + cleaner.have != used + had || memcmp(clean, text + at - had, put) != 0) {
            return false;
        }
    }
    return cleaner.have == 0;
}

bool bp_load_is_utf8(const char *text, size_t length)
{
    return is_utf8((const unsigned char *)text, length);
}

bp_status bp_load_byte(bp_load *load, uint8_t *byte, bool *there)
{
    if (load->line_at == load->line_end) {
        size_t count;
        BP_TRY(token_load_fill(load, &load->line_at, &count));
        load->line_end = load->line_at + count;
    }
    *there = load->line_at < load->line_end;
    *byte = *there ? *load->line_at++ : 0;
    return BP_OK;
}

bp_status bp_load_line(bp_load *load, size_t *length, bool *there)
{
    char *line = load->scratch->text;
    *length = 0;
    *there = false;
    for (;;) {
        if (load->line_at == load->line_end) {
            size_t count;
            BP_TRY(token_load_fill(load, &load->line_at, &count));
            load->line_end = load->line_at + count;
            if (count == 0) {
                break;
            }
        }
        *there = true;
        unsigned char byte = *load->line_at++;
        if (byte == '\n') {
            break;
        }
        if (*length == BP_LOAD_TEXT - 1) {
            return bp_error_set(load->error, BP_ERR_DATA, where, "a line is too long", NULL);
        }
        line[(*length)++] = (char)byte;
    }
    if (*length > 0 && line[*length - 1] == '\r') {
        (*length)--;
    }
    line[*length] = '\0';
    return is_utf8((unsigned char *)line, *length)
               ? BP_OK
               : bp_error_set(load->error, BP_ERR_DATA, where, "a line is not UTF-8", NULL);
}

static bool token_load_is_byte_level(const bp_load *load)
{
    return load->tokenizer->rules.kind == BP_TOKENIZER_BYTE_BPE;
}

static bp_status count_token(bp_load *load, size_t length, int64_t id)
{
    if (id < 0 || id >= BP_TOKENIZER_TOKENS_MAX) {
        return bp_error_numbers(load->error, BP_ERR_DATA, where,
                                "the id of a token is out of range (found it, and the largest)",
                                "vocab", id, BP_TOKENIZER_TOKENS_MAX - 1);
    }
    load->need->text_bytes += length;
    load->need->tokens = id >= load->need->tokens ? (uint32_t)id + 1 : load->need->tokens;
    return BP_OK;
}

bp_status bp_load_token(bp_load *load, const char *text, size_t length, int64_t id)
{
    if (load->pass == BP_LOAD_COUNT) {
        load->need->entries++;
        return count_token(load, length, id);
    }
    const void *bytes = text;
    bool listed = true;
    if (token_load_is_byte_level(load)) {
        unsigned char *to = (unsigned char *)load->scratch->token;
        size_t count;
        listed = bp_token_bytes_of(text, length, to, &count);
        bytes = listed ? (const void *)to : text;
        length = listed ? count : length;
    }
    return bp_token_add(load->tokenizer, bytes, length, (uint32_t)id, listed, load->error);
}

bp_status bp_load_scored(bp_load *load, const char *text, size_t length, int64_t id, double score)
{
    BP_TRY(bp_load_token(load, text, length, id));
    if (load->pass == BP_LOAD_TOKENS && load->tokenizer->scores == NULL) {
        return bp_error_set(load->error, BP_ERR_DATA, where,
                            "a list with scores is the vocabulary of Unigram alone", "vocab");
    }
    if (load->pass == BP_LOAD_TOKENS) {
        bp_token_set_score(load->tokenizer, (uint32_t)id, score);
    }
    return BP_OK;
}

bp_status bp_load_map(void *user, const char *text, size_t length)
{
    bp_load *load = user;
    bp_tokenizer *t = load->tokenizer;
    bp_base64 ahead = load->base64;
    const size_t bytes = bp_base64_decode(&ahead, text, length, NULL);
    if (ahead.wrong) {
        return bp_error_set(load->error, BP_ERR_DATA, where, "the character map is not base64",
                            "precompiled_charsmap");
    }
    if (load->pass == BP_LOAD_COUNT) {
        load->need->map_bytes += (uint32_t)bytes;
        load->base64 = ahead;
        return BP_OK;
    }
    if (t->map_room - t->map_used < bytes) {
        return bp_error_set(load->error, BP_ERR_DATA, where, "the file changed while it was read",
                            "precompiled_charsmap");
    }
    (void)bp_base64_decode(&load->base64, text, length, t->map + t->map_used);
    t->map_used += (uint32_t)bytes;
    return BP_OK;
}

/* The two sides of a merge as they lie in the vocabulary, one behind the other in scratch->token.
 */
static bool merge_preferences(bp_load *load, const char *left, size_t *left_length,
                              const char *right, size_t *right_length)
{
    unsigned char *to = (unsigned char *)load->scratch->token;
    if (!token_load_is_byte_level(load)) {
        memmove(to, left, *left_length);
        memcpy(to + *left_length, right, *right_length);
        return true;
    }
    return bp_token_bytes_of(left, *left_length, to, left_length) &&
           bp_token_bytes_of(right, *right_length, to + *left_length, right_length);
}

/* Notes which last byte and which first byte a merge may join; see split_whole. */
static void add_bridge(bp_tokenizer *t, const unsigned char *text, size_t left, size_t whole)
{
    uint32_t last = text[left - 1];
    uint32_t first = text[left];
    if (t->rules.kind == BP_TOKENIZER_CHAR_BPE) {
        bool fallback = (left == 6 && memcmp(text, "<0x", 3) == 0) ||
                        (whole - left == 6 && memcmp(text + left, "<0x", 3) == 0);
        if (fallback) { /* bytes of unknown characters merge: any two neighbours may */
            memset(t->bridges, 0xff, 256 * 256 / 8);
        }
        if (left >= 3 && memcmp(text + left - 3, "\xe2\x96\x81", 3) == 0) {
            last = 0xff;
        }
        if (whole - left >= 3 && memcmp(text + left, "\xe2\x96\x81", 3) == 0) {
            first = 0xff;
        }
    }
    t->bridges[(last * 256 + first) / 64] |= (uint64_t)1 << first % 64;
}

bp_status bp_load_merge(bp_load *load, const char *left, size_t left_length, const char *right,
                        size_t right_length)
{
    bp_tokenizer *t = load->tokenizer;
    if (load->pass == BP_LOAD_COUNT) {
        load->need->merges++;
        return BP_OK;
    }
    int64_t number = load->rank;
    if (left_length == 0 || right_length == 0 || left_length >= BP_TOKENIZER_DECODED_MAX ||
        right_length >= BP_TOKENIZER_DECODED_MAX) {
        return bp_error_numbers(load->error, BP_ERR_DATA, where,
                                "a merge must be of two tokens (found its number)", "merges",
                                number, number);
    }
    const unsigned char *text = (const unsigned char *)load->scratch->token;
    bp_token_merge merge = {.rank = load->rank++, .left = BP_TOKEN_NONE};
    if (merge_preferences(load, left, &left_length, right, &right_length)) {
        merge.left = bp_token_find(t, text, left_length);
        merge.right = bp_token_find(t, text + left_length, right_length);
        merge.id = bp_token_find(t, text, left_length + right_length);
    }
    if (merge.left == BP_TOKEN_NONE || merge.right == BP_TOKEN_NONE || merge.id == BP_TOKEN_NONE) {
        return bp_error_numbers(load->error, BP_ERR_DATA, where,
                                "a merge names a token that the vocabulary lacks (found the "
                                "merge's number)",
                                "merges", number, number);
    }
    add_bridge(t, text, left_length, left_length + right_length);
    return bp_token_add_merge(t, &merge, load->error);
}

/* Whether a byte-level tokenizer would write other bytes for an added token than its text. */
static bool is_misspelt(bp_load *load, const char *text, size_t length)
{
    size_t count;
    unsigned char *bytes = (unsigned char *)load->scratch->token;
    /* A character that stands for another byte takes two, so the lengths tell. */
    return token_load_is_byte_level(load) && bp_token_bytes_of(text, length, bytes, &count) &&
           count != length;
}

/* Whether this token of the vocabulary is spelt as an added token is: then both are one, and have
 * one id. A byte-level vocabulary spells a token in the characters that stand for its bytes, an
 * added token is spelt as it is: four spaces there and four spaces here are two tokens. */
static bool is_spelt_alike(bp_load *load, const char *text, size_t length)
{
    size_t count;
    unsigned char *bytes = (unsigned char *)load->scratch->token;
    /* One that is_misspelt let pass is of characters that stand for themselves. */
    return !token_load_is_byte_level(load) || bp_token_bytes_of(text, length, bytes, &count);
}

/* Whether CLIP's normalizer leaves this text as it is. */
static bool is_lower_ascii(const char *text)
{
    bool lower = true;
    for (const char *c = text; *c != '\0'; c++) {
        lower = lower && *c > ' ' && *c < 0x7f && (*c < 'A' || *c > 'Z');
    }
    return lower;
}

/* A token that is looked for in normalised text, where a space is U+2581 and one stands before the
 * text: there it is itself with U+2581 before it. In the text as it came that is a space or U+2581
 * before the token, or the token at the beginning of a segment. */
static bp_status add_normalized(bp_load *load, const char *text, uint32_t id, uint32_t flags)
{
    const bp_token_rules *rules = &load->tokenizer->rules;
    if (rules->ends && is_lower_ascii(text)) {
        return bp_token_add_added(load->tokenizer, id, flags, load->error);
    }
    bool marked = rules->kind == BP_TOKENIZER_CHAR_BPE && rules->spaces;
    bool strips = (flags & (BP_ADDED_LSTRIP | BP_ADDED_RSTRIP | BP_ADDED_WORD)) != 0;
    if (!marked || rules->prefix != BP_PREFIX_PREPEND || strips || strchr(text, ' ') != NULL) {
        return bp_error_set(load->error, BP_ERR_DATA, where,
                            "an added token with normalized true is not implemented behind this "
                            "normalizer",
                            text);
    }
    uint32_t inner = flags | BP_ADDED_INNER;
    BP_TRY(bp_token_add_added(load->tokenizer, id, inner | BP_ADDED_START, load->error));
    BP_TRY(bp_token_add_spelling(load->tokenizer, " ", id, inner, load->error));
    return bp_token_add_spelling(load->tokenizer, "\xe2\x96\x81", id, inner, load->error);
}

bp_status bp_load_added(bp_load *load, const char *text, size_t length, int64_t id, uint32_t flags,
                        bool normalized)
{
    bp_tokenizer *t = load->tokenizer;
    if (length == 0 || length >= BP_TOKENIZER_DECODED_MAX) {
        return bp_error_numbers(load->error, BP_ERR_DATA, where,
                                "the text of an added token is empty or too long (found its bytes)",
                                "added_tokens", bp_size_signed(length),
                                BP_TOKENIZER_DECODED_MAX - 1);
    }
    flags |= normalized ? BP_ADDED_LATER : 0u;
    if (load->pass == BP_LOAD_COUNT) {
        /* It may need its text in two more spellings. */
        load->need->added += normalized ? 3 : 1;
        load->need->text_bytes += normalized ? 2 * length + 4 : 0;
        return count_token(load, length, id);
    }
    if (is_misspelt(load, text, length)) {
        return bp_error_set(load->error, BP_ERR_DATA, where,
                            "an added token is spelt in the characters that stand for bytes", text);
    }
    uint32_t known = bp_token_find(t, text, length);
    if (known != BP_TOKEN_NONE && known != id && is_spelt_alike(load, text, length)) {
        return bp_error_numbers(load->error, BP_ERR_DATA, where,
                                "an added token has another id in the vocabulary", text, id, known);
    }
    if (!bp_token_exists(t, (uint64_t)id)) {
        BP_TRY(bp_token_add(t, text, length, (uint32_t)id, false, load->error));
    }
    size_t bytes;
    const unsigned char *there = bp_token_text(t, (uint32_t)id, &bytes);
    if (bytes != length || memcmp(there, text, length) != 0) {
        return bp_error_numbers(load->error, BP_ERR_DATA, where,
                                "an added token has the id of another token (found it)", text, id,
                                id);
    }
    return normalized && !t->rules.plain ? add_normalized(load, text, (uint32_t)id, flags)
                                         : bp_token_add_added(t, (uint32_t)id, flags, load->error);
}
