/* SPDX-License-Identifier: MIT */
/* Generated text and the strings that end it. */
#include "tools/bedplate/session/text_stream.h"

#include <stdlib.h>
#include <string.h>

/* Each byte that is no UTF-8 becomes the three of U+FFFD. */
enum { PIECE = 3 * (BP_TOKENIZER_DECODED_MAX + 8) + 8 };

static const char where[] = "generate";

/* Whether cleaning leaves the text as it is. */
static bool is_utf8(const char *text)
{
    char clean[64];
    bp_utf8_cleaner cleaner = {.have = 0};
    const size_t length = strlen(text);
    bool same = true;
    for (size_t at = 0, put = 0, used = 0; same && at < length; at += used) {
        const size_t some = length - at < 16 ? length - at : 16;
        const size_t made = bp_utf8_clean(&cleaner, (const unsigned char *)text + at, some,
                                          (unsigned char *)clean, sizeof clean, &used);
        same = strncmp(clean, text + put, made) == 0;
        put += made;
    }
    return same && cleaner.have == 0;
}

bp_status text_stream_check(const path_list *stops, bp_error *error)
{
    for (uint32_t i = 0; i < stops->count; i++) {
        if (stops->item[i][0] == '\0' || !is_utf8(stops->item[i])) {
            return bp_error_set(error, BP_ERR_USAGE, where,
                                stops->item[i][0] == '\0' ? "a stop string is empty"
                                                          : "a stop string is not UTF-8",
                                "--stop");
        }
    }
    return BP_OK;
}

bp_status text_stream_begin(text_stream *r, const run_tokenizer *c, const path_list *stops,
                            bp_error *error)
{
    *r = (text_stream){.stops = stops};
    for (uint32_t i = 0; i < stops->count; i++) {
        const size_t length = strlen(stops->item[i]);
        r->longest = length > r->longest ? length : r->longest;
    }
    r->capacity = r->longest + PIECE;
    r->text = malloc(2 * r->capacity); /* behind it lies what is handed out */
    if (r->text == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "no memory for the stop strings", "--stop");
    }
    text_out_begin(&r->pieces, c);
    return BP_OK;
}

void text_stream_pass(text_stream *r, int32_t id)
{
    text_out_pass(&r->pieces, id);
}

/* Where the first stop string begins, and true. */
static bool text_stream_find(const text_stream *r, size_t *at)
{
    for (*at = 0; *at < r->held; ++*at) {
        for (uint32_t i = 0; i < r->stops->count; i++) {
            const size_t length = strlen(r->stops->item[i]);
            if (length <= r->held - *at && memcmp(r->text + *at, r->stops->item[i], length) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Where the first stop string that is not whole yet may begin; the end where none may. */
static size_t text_stream_begun(const text_stream *r)
{
    const size_t first = r->held < r->longest ? 0 : r->held - r->longest + 1;
    for (size_t at = r->longest > 0 ? first : r->held; at < r->held; at++) {
        for (uint32_t i = 0; i < r->stops->count; i++) {
            if (strncmp(r->stops->item[i], r->text + at, r->held - at) == 0) {
                return at;
            }
        }
    }
    return r->held;
}

static void text_stream_take(text_stream *r, const char *bytes, size_t length)
{
    size_t used = 0; /* all of them: there is room */
    r->held += bp_utf8_clean(&r->cleaner, (const unsigned char *)bytes, length,
                             (unsigned char *)r->text + r->held, r->capacity - r->held, &used);
}

/* Lets out what is in front of a stop string, else what none can begin in any more, or `all`. */
static const char *text_stream_let_out(text_stream *r, bool all, size_t *count)
{
    char *out = r->text + r->capacity;
    r->stopped = text_stream_find(r, count);
    if (!r->stopped) {
        *count = all ? r->held : text_stream_begun(r);
    }
    memcpy(out, r->text, *count);
    r->held -= *count;
    memmove(r->text, r->text + *count, r->held);
    return out;
}

const char *text_stream_next(text_stream *r, int32_t id, size_t *count)
{
    size_t length;
    const char *bytes = text_out_next(&r->pieces, id, &length);
    text_stream_take(r, bytes, length);
    return text_stream_let_out(r, false, count);
}

const char *text_stream_end(text_stream *r, size_t *count)
{
    size_t length;
    const char *bytes = text_out_end(&r->pieces, &length);
    *count = 0;
    if (r->stopped) {
        return r->text;
    }
    text_stream_take(r, bytes, length);
    r->held += bp_utf8_clean_end(&r->cleaner, (unsigned char *)r->text + r->held);
    return text_stream_let_out(r, true, count);
}

void text_stream_close(text_stream *r)
{
    free(r->text);
    r->text = NULL;
}
