/* SPDX-License-Identifier: MIT */
/* Looking texts up in a darts-clone double array (github.com/s-yata/darts-clone). */
#include "tools/formats/text/token_charsmap.h"

#include <string.h>

#include "tools/formats/unicode/unicode.h"

static uint32_t unit_at(const bp_charsmap *map, uint32_t index)
{
    const unsigned char *at = map->units + 4 * (size_t)index;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 512u) >> 6);
}

/* Every replacement is UTF-8 and ends. */
static bool are_texts(const char *text, uint64_t bytes)
{
    bp_utf8_cleaner cleaner = {.have = 0};
    uint64_t length = 0;
    for (uint64_t at = 0; at < bytes; at++) {
        unsigned char clean[8];
        const unsigned char byte = (unsigned char)text[at];
        const uint8_t had = cleaner.have;
        size_t used;
        const size_t put = bp_utf8_clean(&cleaner, &byte, 1, clean, sizeof clean, &used);
        /* What is no UTF-8 comes out as U+FFFD, which is longer or another than what went in. */
        if (put > 0 && (put != (size_t)had + 1 || clean[put - 1] != byte)) {
            return false;
        }
        length = byte == 0 ? 0 : length + 1;
        if (length > BP_CHARSMAP_TEXT_MAX) {
            return false;
        }
    }
    return cleaner.have == 0 && length == 0;
}

bp_status bp_charsmap_open(bp_charsmap *map, const void *bytes, uint64_t size, const char *where,
                           bp_error *error)
{
    const unsigned char *at = bytes;
    *map = (bp_charsmap){.units = NULL};
    const bp_charsmap head = {.units = at};
    const uint64_t units = size >= 4 ? unit_at(&head, 0) : 0;
    if (size < 8 || units == 0 || units % 4 != 0 || units > size - 4) {
        return bp_error_set(error, BP_ERR_DATA, where, "the character map is cut off",
                            "precompiled_charsmap");
    }
    *map = (bp_charsmap){.units = at + 4,
                         .unit_count = (uint32_t)(units / 4),
                         .text_bytes = (uint32_t)(size - 4 - units),
                         .text = (const char *)at + 4 + units};
    if (!are_texts(map->text, size - 4 - units)) {
        return bp_error_set(
            error, BP_ERR_DATA, where,
            "what the character map makes of text is not UTF-8 of at most 128 bytes",
            "precompiled_charsmap");
    }
    return BP_OK;
}

/* The replacement at an offset; NULL where the offset is none of a text's. */
static const char *text_at(const bp_charsmap *map, uint32_t offset, size_t *length)
{
    if (offset >= map->text_bytes || ((unsigned char)map->text[offset] & 0xc0) == 0x80) {
        return NULL;
    }
    *length = strlen(map->text + offset);
    return map->text + offset;
}

const char *bp_charsmap_find(const bp_charsmap *map, const unsigned char *text, size_t length,
                             bool longest, size_t *used, size_t *replacement)
{
    const char *found = NULL;
    uint32_t node = offset_of(unit_at(map, 0));
    for (size_t at = 0; at < length && text[at] != 0; at++) {
        node ^= text[at];
        if (node >= map->unit_count) {
            break;
        }
        const uint32_t unit = unit_at(map, node);
        if ((unit & 0x800000ffu) != text[at]) {
            break;
        }
        node ^= offset_of(unit);
        if (node >= map->unit_count) {
            break;
        }
        if ((unit >> 8 & 1) != 0) {
            size_t bytes;
            const char *here = text_at(map, unit_at(map, node) & 0x7fffffffu, &bytes);
            if (here != NULL) {
                found = here;
                *replacement = bytes;
                *used = at + 1;
                if (!longest) {
                    break;
                }
            }
        }
    }
    return found;
}

static uint32_t base64_value(unsigned char c)
{
    return c >= 'A' && c <= 'Z'   ? c - (unsigned)'A'
           : c >= 'a' && c <= 'z' ? c - (unsigned)'a' + 26u
           : c >= '0' && c <= '9' ? c - (unsigned)'0' + 52u
           : c == '+'             ? 62u
           : c == '/'             ? 63u
                                  : 64u;
}

size_t bp_base64_decode(bp_base64 *state, const char *text, size_t length, unsigned char *to)
{
    size_t put = 0;
    for (size_t i = 0; i < length; i++) {
        const uint32_t value = base64_value((unsigned char)text[i]);
        if (text[i] == '=') {
            state->ended = true;
            continue;
        }
        state->wrong = state->wrong || value > 63 || state->ended;
        state->bits = state->bits << 6 | (value & 63u);
        state->count++;
        if (state->count % 4 != 1) {
            const uint32_t left = 2 * (state->count % 4 == 0 ? 0u : 4 - state->count % 4);
            /* 2, 3 and 4 characters hold 1, 2 and 3 bytes, with 4, 2 and 0 bits over. */
            if (to != NULL) {
                to[put] = (unsigned char)(state->bits >> left);
            }
            put++;
        }
    }
    return put;
}
