/* SPDX-License-Identifier: MIT */
/* What the tokenizers library makes of text before a Unigram model, as it is streamed. */
#include "tools/formats/text/token_spelling.h"

#include <string.h>

#define META        0x2581u
#define CLUSTER_MAX 5 /* bytes of a cluster that the library looks up as a whole */

static void put(bp_encoder *e, uint32_t c)
{
    e->text_end += bp_utf8_put(c, e->text + e->text_end);
}

/* The mark before the first character of a segment, or of a word. */
static void put_mark(bp_encoder *e, uint32_t first)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    const bool wanted = rules->words || rules->prefix == BP_PREFIX_META ||
                        (rules->prefix == BP_PREFIX_META_FIRST && e->document_start);
    if (e->spelling.fresh && wanted && first != META) {
        put(e, META);
    }
    e->spelling.fresh = false;
}

/* A character as it goes into words; what may be stripped yet is held. */
static void put_character(bp_encoder *e, uint32_t c, bool space)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    const size_t before = e->text_end;
    c = rules->spaces && c == ' ' ? META : c;
    put_mark(e, c);
    put(e, c);
    e->text_held = space && rules->strip_right ? e->text_held + e->text_end - before : 0;
}

static void flush_spaces(bp_encoder *e)
{
    const uint32_t spaces = e->spelling.spaces;
    e->spelling.spaces = 0;
    if (spaces > 0) {
        const bool meta = spaces > 1 && e->tokenizer->rules.runs == BP_RUNS_META;
        put_character(e, meta ? META : ' ', true);
    }
}

/* One character behind the map. */
static void take_mapped(bp_encoder *e, uint32_t c)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    const bool space = bp_char_class_of(c) == BP_CHAR_SPACE;
    if (rules->words) {
        if (space) {
            e->spelling.fresh = true;
        } else {
            put_character(e, c, false);
        }
        return;
    }
    if (c == ' ' && rules->runs != BP_RUNS_STAY) {
        e->spelling.spaces += e->spelling.spaces < 2 ? 1 : 0;
        return;
    }
    flush_spaces(e);
    put_character(e, c, space);
}

static void take_text(bp_encoder *e, const unsigned char *text, size_t length)
{
    size_t step;
    for (size_t at = 0; at < length; at += step) {
        take_mapped(e, bp_utf8_get(text + at, &step));
    }
}

/* Whether the map has something for this text; then that is taken. */
static bool take_replaced(bp_encoder *e, const unsigned char *text, size_t length)
{
    size_t used, bytes;
    const char *found =
        bp_charsmap_find(&e->tokenizer->charsmap, text, length, false, &used, &bytes);
    if (found != NULL) {
        take_text(e, (const unsigned char *)found, bytes);
    }
    return found != NULL;
}

/* Characters of a cluster that is not looked up as a whole. */
static void take_apart(bp_encoder *e, const unsigned char *text, size_t length)
{
    size_t step;
    for (size_t at = 0; at < length; at += step) {
        (void)bp_utf8_get(text + at, &step);
        if (!take_replaced(e, text + at, step)) {
            take_text(e, text + at, step);
        }
    }
}

static void flush_cluster(bp_encoder *e)
{
    bp_spelling *s = &e->spelling;
    const uint32_t length = s->cluster_length;
    s->cluster_length = 0;
    if (length > 0 && !take_replaced(e, s->cluster, length)) {
        take_apart(e, s->cluster, length);
    }
}

void bp_spelling_begin(bp_encoder *e)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    e->spelling = (bp_spelling){.fresh = true};
    e->spelling.spaces = rules->native && rules->strip_right ? 1 : 0;
}

#define ENTRY_MAX 64 /* bytes of a map's entry that are looked up */

/* A character of SentencePiece's normalised text. U+2581 at the end is dropped, where spaces are.
 */
static void put_native(bp_encoder *e, uint32_t c)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    const size_t before = e->text_end;
    c = c == ' ' ? META : c;
    if (e->spelling.fresh && rules->prefix == BP_PREFIX_PREPEND) {
        put(e, META);
    }
    e->spelling.fresh = false;
    put(e, c);
    e->text_held = c == META && rules->strip_right ? e->text_held + e->text_end - before : 0;
}

bool bp_spelling_take_native(bp_encoder *e, size_t limit, bool final)
{
    const unsigned char *text = e->raw + e->raw_at;
    const size_t there = limit - e->raw_at;
    size_t used, bytes, step;
    const char *found = NULL;
    if (e->tokenizer->rules.charsmap) {
        if (there < ENTRY_MAX && !final) {
            return false;
        }
        found = bp_charsmap_find(&e->tokenizer->charsmap, text,
                                 there < ENTRY_MAX ? there : ENTRY_MAX, true, &used, &bytes);
    }
    if (found == NULL) {
        (void)bp_utf8_get(text, &used);
        found = (const char *)text;
        bytes = used;
    }
    size_t at = 0;
    while (e->spelling.spaces != 0 && at < bytes && found[at] == ' ') {
        at++;
    }
    if (at < bytes) {
        e->spelling.spaces = found[bytes - 1] == ' ' && e->tokenizer->rules.strip_right ? 1 : 0;
    }
    for (; at < bytes; at += step) {
        put_native(e, bp_utf8_get((const unsigned char *)found + at, &step));
    }
    e->raw_at += used;
    return true;
}

void bp_spelling_take(bp_encoder *e, uint32_t c)
{
    bp_spelling *s = &e->spelling;
    unsigned char text[4];
    const size_t bytes = bp_utf8_put(c, text);
    if (!e->tokenizer->rules.charsmap) {
        take_mapped(e, c);
        return;
    }
    const bool first = s->cluster_length == 0 && !s->long_cluster;
    if (first || bp_char_breaks(s->before, c, &s->state)) {
        flush_cluster(e);
        s->long_cluster = false;
    } else if (s->cluster_length + bytes > CLUSTER_MAX) {
        take_apart(e, s->cluster, s->cluster_length);
        s->cluster_length = 0;
        s->long_cluster = true;
    }
    s->before = c;
    if (s->long_cluster) {
        take_apart(e, text, bytes);
        return;
    }
    memcpy(s->cluster + s->cluster_length, text, bytes);
    s->cluster_length += (uint32_t)bytes;
}

void bp_spelling_end(bp_encoder *e)
{
    if (e->tokenizer->rules.native) {
        e->text_end -= e->text_held;
        e->text_held = 0;
        return;
    }
    flush_cluster(e);
    if (e->tokenizer->rules.strip_right) {
        e->text_end -= e->text_held;
        e->spelling.spaces = 0;
    }
    flush_spaces(e);
    e->text_held = 0;
}
