/* SPDX-License-Identifier: MIT */
/* The text of a generated sequence as it comes: always well-formed UTF-8, cut between characters,
 * and ending in front of the first stop string, of which nothing is ever handed out. */
#ifndef BP_BEDPLATE_TEXT_STREAM_H
#define BP_BEDPLATE_TEXT_STREAM_H

#include "tools/bedplate/models/text_out.h"
#include "tools/formats/unicode/unicode.h"

/* Must not move once begun. */
typedef struct text_stream {
    text_out pieces;
    bp_utf8_cleaner cleaner;
    const path_list *stops;
    size_t longest;  /* bytes of the longest stop string */
    char *text;      /* what a stop string may still begin in, then what has come; owned */
    size_t held;     /* bytes at text that were not handed out */
    size_t capacity; /* bytes at text */
    bool stopped;    /* a stop string has come */
} text_stream;

/* BP_ERR_USAGE: a stop string is empty or no UTF-8. */
bp_status text_stream_check(const path_list *stops, bp_error *error) BP_MUST_CHECK;

/* Begins a text for an open run_tokenizer and stop strings that were checked; takes memory from the
 * heap. BP_ERR_FIT. */
bp_status text_stream_begin(text_stream *r, const run_tokenizer *c, const path_list *stops,
                            bp_error *error) BP_MUST_CHECK;

/* Goes past an id of the prompt: what follows may depend on it. */
void text_stream_pass(text_stream *r, int32_t id);

/* The text that an id lets out; it lies in `r` until the next call. When a stop string has come,
 * r->stopped is set and what is let out is all that was in front of it. */
const char *text_stream_next(text_stream *r, int32_t id, size_t *count);

/* What is still held back at the end; nothing behind a stop string. */
const char *text_stream_end(text_stream *r, size_t *count);

/* Gives the memory back. Safe on a record that is all zero. */
void text_stream_close(text_stream *r);

#endif
