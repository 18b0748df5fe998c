/* SPDX-License-Identifier: MIT */
/* Ids to text, and what an open tokenizer says about itself. */
#include <string.h>

#include "tools/formats/text/token_table.h"

static bool starts_with(const unsigned char *text, size_t length, const char *what)
{
    size_t bytes = strlen(what);
    return length >= bytes && memcmp(text, what, bytes) == 0;
}

static int hex_digit(unsigned char c)
{
    unsigned letter = (c | 0x20u) - 'a';
    return c >= '0' && c <= '9' ? c - '0' : letter < 6 ? (int)letter + 10 : -1;
}

/* The byte of a token that is spelt <0xA0> or <0xa0>; -1 for any other. */
static int fallback_byte(const unsigned char *text, size_t length)
{
    if (length != 6 || !starts_with(text, length, "<0x") || text[5] != '>') {
        return -1;
    }
    int high = hex_digit(text[3]);
    int low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static size_t decode_characters(const bp_tokenizer *t, bool first, const unsigned char *text,
                                size_t length, char *bytes)
{
    int byte = t->rules.kind == BP_TOKENIZER_UNIGRAM && !t->rules.fallback
                   ? -1
                   : fallback_byte(text, length);
    if (byte >= 0) {
        bytes[0] = (char)byte;
        return 1;
    }
    size_t put = 0;
    bool strip = first && t->rules.strip != BP_STRIP_NOTHING;
    for (size_t at = 0; at < length;) {
        bool space = t->rules.spaces && starts_with(text + at, length - at, "\xe2\x96\x81");
        char c = space ? ' ' : (char)text[at];
        at += space ? 3 : 1;
        if (strip && c == ' ') {
            strip = t->rules.strip == BP_STRIP_ALL;
            continue;
        }
        strip = strip && t->rules.strip == BP_STRIP_ALL;
        bytes[put++] = c;
    }
    return put;
}

/* Whether the space before this piece is cleaned up. */
static bool joins(const unsigned char *text, size_t length)
{
    static const char *const beginnings[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (starts_with(text, length, beginnings[i])) {
            return true;
        }
    }
    return false;
}

static size_t decode_piece(const bp_tokenizer *t, bool first, const unsigned char *text,
                           size_t length, char *bytes)
{
    size_t put = 0;
    size_t skip = 0;
    if (!first) {
        if (starts_with(text, length, t->rules.continuing)) {
            skip = strlen(t->rules.continuing);
        } else if (!t->rules.tidy || !joins(text, length)) {
            bytes[put++] = ' ';
        }
    }
    memcpy(bytes + put, text + skip, length - skip);
    return put + length - skip;
}

/* Bytes as they are, but for the mark of a word's end: a space before what follows it. */
static size_t decode_marked(bp_decoder *decoder, const bp_tokenizer *t, const unsigned char *text,
                            size_t length, char *bytes)
{
    const size_t mark = sizeof BP_TOKEN_END - 1;
    const bool ends =
        t->rules.ends && length >= mark && memcmp(text + length - mark, BP_TOKEN_END, mark) == 0;
    size_t put = 0;
    if (decoder->behind_word) {
        bytes[put++] = ' ';
    }
    decoder->behind_word = ends;
    length -= ends ? mark : 0;
    memcpy(bytes + put, text, length);
    return put + length;
}

bp_status bp_decoder_next(bp_decoder *decoder, const bp_tokenizer *t, uint32_t id, char *bytes,
                          size_t *length)
{
    *length = 0;
    if (!bp_token_exists(t, id)) {
        return BP_ERR_DATA;
    }
    size_t there;
    const unsigned char *text = bp_token_text(t, id, &there);
    bool first = !decoder->begun;
    decoder->begun = true;
    switch (t->rules.kind) {
    case BP_TOKENIZER_CHAR_BPE:
    case BP_TOKENIZER_UNIGRAM:
        *length = decode_characters(t, first, text, there, bytes);
        break;
    case BP_TOKENIZER_WORDPIECE:
        *length = decode_piece(t, first, text, there, bytes);
        break;
    default:
        *length = decode_marked(decoder, t, text, there, bytes);
    }
    return BP_OK;
}

bp_tokenizer_kind bp_tokenizer_kind_of(const bp_tokenizer *t)
{
    return t->rules.kind;
}

uint32_t bp_tokenizer_tokens(const bp_tokenizer *t)
{
    return t->tokens;
}

const bp_tokenizer_special *bp_tokenizer_special_of(const bp_tokenizer *t)
{
    return &t->special;
}

uint32_t bp_tokenizer_missing_bytes(const bp_tokenizer *t)
{
    return t->missing_bytes;
}

uint64_t bp_tokenizer_digest(const bp_tokenizer *t)
{
    return t->digest;
}

bool bp_tokenizer_is_special(const bp_tokenizer *t, uint32_t id)
{
    return bp_token_exists(t, id) && (t->lengths[id] & BP_TOKEN_SPECIAL) != 0;
}

bool bp_tokenizer_is_cut(const bp_tokenizer *t, uint32_t id)
{
    for (uint32_t i = 0; i < t->added_count; i++) {
        if (t->added[i].id == id && (t->added[i].flags & BP_ADDED_INNER) == 0) {
            return true;
        }
    }
    return false;
}

int64_t bp_tokenizer_find(const bp_tokenizer *t, const char *text, size_t length)
{
    unsigned char bytes[BP_TOKENIZER_DECODED_MAX];
    bool more;
    if (length == 0 || length >= sizeof bytes) {
        return -1;
    }
    const bp_token_added *added = bp_token_match(t, (const unsigned char *)text, length, &more);
    if (added != NULL && added->length == length) {
        return added->id;
    }
    bool level = t->rules.kind == BP_TOKENIZER_BYTES || t->rules.kind == BP_TOKENIZER_BYTE_BPE;
    size_t count = length;
    if (!level) {
        memcpy(bytes, text, length);
    } else if (!bp_token_bytes_of(text, length, bytes, &count)) {
        return -1;
    }
    uint32_t id = bp_token_find(t, bytes, count);
    return id == BP_TOKEN_NONE ? -1 : (int64_t)id;
}
