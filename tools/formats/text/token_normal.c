/* SPDX-License-Identifier: MIT */
/* Normalisation as it is streamed: no step looks further than one character, NFC excepted. */
#include "tools/formats/text/token_normal.h"

#include <string.h>

#include "tools/formats/text/encoder_offsets.h"
#include "tools/formats/text/token_spelling.h"

#define META          0x2581u /* what Llama 2 writes for a space */
#define CHARACTER_MAX 64      /* bytes that one character may become */
#define COMPOSED_MAX  (4 * BP_COMPOSE_MAX)

static size_t room_of(const bp_encoder *e)
{
    return (size_t)e->word_bytes + BP_ENCODER_MARGIN - e->text_end;
}

static void token_normal_put(bp_encoder *e, uint32_t c)
{
    e->text_end += bp_utf8_put(c, e->text + e->text_end);
}

/* What a segment's text gets put before it. */
static void put_prefix(bp_encoder *e)
{
    const unsigned char *first = e->raw + e->raw_at;
    bool meta = e->raw_end - e->raw_at >= 3 && memcmp(first, "\xe2\x96\x81", 3) == 0;
    bool spaced = first[0] == ' ' || meta;
    switch (e->tokenizer->rules.prefix) {
    case BP_PREFIX_NEVER:
        break;
    case BP_PREFIX_SPACE:
        if (first[0] != ' ') {
            token_normal_put(e, ' ');
        }
        break;
    case BP_PREFIX_PREPEND:
        token_normal_put(e, META);
        break;
    case BP_PREFIX_META_FIRST:
        if (e->document_start && !spaced) {
            token_normal_put(e, META);
        }
        break;
    case BP_PREFIX_META:
        if (!spaced) {
            token_normal_put(e, META);
        }
        break;
    }
}

/* Text that stays as it is, whole characters of it. */
static void move_plain(bp_encoder *e, size_t limit)
{
    size_t room = room_of(e);
    size_t end = limit - e->raw_at <= room ? limit : e->raw_at + room;
    while (end > e->raw_at && end < limit && e->tokenizer->rules.kind != BP_TOKENIZER_BYTES &&
           (e->raw[end] & 0xc0) == 0x80) {
        end--;
    }
    memcpy(e->text + e->text_end, e->raw + e->raw_at, end - e->raw_at);
    e->text_end += end - e->raw_at;
    e->raw_at = end;
}

static void move_spaces(bp_encoder *e, size_t limit)
{
    while (e->raw_at < limit && room_of(e) >= CHARACTER_MAX) {
        if (e->raw[e->raw_at] == ' ') {
            token_normal_put(e, META);
            e->raw_at++;
        } else {
            do {
                e->text[e->text_end++] = e->raw[e->raw_at++];
            } while (e->raw_at < limit && (e->raw[e->raw_at] & 0xc0) == 0x80);
        }
    }
}

/* A character after cleaning: decomposed without its accents, lower case. */
static void put_folded(bp_encoder *e, uint32_t c)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    uint32_t parts[BP_CHAR_PARTS] = {c};
    size_t count = rules->accents ? bp_char_decompose_bert(c, parts) : 1;
    for (size_t i = 0; i < count; i++) {
        if (rules->accents && bp_char_is_mark(parts[i])) {
            continue;
        }
        if (!rules->lower) {
            token_normal_put(e, parts[i]);
        } else if (parts[i] == 0x130) { /* the only character whose lower case is two */
            token_normal_put(e, 'i');
            token_normal_put(e, 0x307);
        } else {
            token_normal_put(e, bp_char_lower(parts[i]));
        }
    }
}

static void put_bert(bp_encoder *e, uint32_t c)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    if (rules->clean) {
        if (c == 0 || c == BP_CHAR_REPLACEMENT || bp_char_is_control(c)) {
            return;
        }
        c = bp_char_class_of(c) == BP_CHAR_SPACE ? ' ' : c;
    }
    bool spaced = rules->ideographs && bp_char_is_ideograph(c);
    if (spaced) {
        token_normal_put(e, ' ');
    }
    put_folded(e, c);
    if (spaced) {
        token_normal_put(e, ' ');
    }
}

/* The same as move_bert, character by character, for those who ask where each comes from. */
static void move_traced(bp_encoder *e, size_t limit)
{
    while (e->raw_at < limit && room_of(e) >= CHARACTER_MAX) {
        const size_t before = e->text_end;
        size_t step;
        put_bert(e, bp_utf8_get(e->raw + e->raw_at, &step));
        bp_trace_character(e, before, step);
        e->raw_at += step;
    }
}

static void move_bert(bp_encoder *e, size_t limit)
{
    bool lower = e->tokenizer->rules.lower;
    while (e->raw_at < limit && room_of(e) >= CHARACTER_MAX) {
        unsigned char byte = e->raw[e->raw_at];
        if (byte >= ' ' && byte < 0x7f) {
            bool capital = lower && byte >= 'A' && byte <= 'Z';
            e->text[e->text_end++] = (unsigned char)(capital ? byte + 32 : byte);
            e->raw_at++;
            continue;
        }
        size_t step;
        put_bert(e, bp_utf8_get(e->raw + e->raw_at, &step));
        e->raw_at += step;
    }
}

static void put_composed(bp_encoder *e)
{
    size_t count = bp_char_compose(e->composing, e->composing_count);
    for (size_t i = 0; i < count; i++) {
        put_folded(e, e->composing[i]); /* no accents are stripped of composed text */
    }
    e->composing_count = 0;
}

static void move_composed(bp_encoder *e, size_t limit)
{
    while (e->raw_at < limit && room_of(e) >= COMPOSED_MAX + CHARACTER_MAX) {
        size_t step;
        uint32_t c = bp_utf8_get(e->raw + e->raw_at, &step);
        if (bp_char_begins(c) || e->composing_count + BP_CHAR_PARTS > BP_COMPOSE_MAX) {
            put_composed(e);
        }
        if (c < 0x80) {
            e->composing[e->composing_count++] = c;
        } else {
            e->composing_count += (uint32_t)bp_char_decompose(c, e->composing + e->composing_count);
        }
        e->raw_at += step;
    }
}

static void take_folded(bp_encoder *e, uint32_t c)
{
    if (!e->tokenizer->rules.lower) {
        bp_spelling_take(e, c);
    } else if (c == 0x130) { /* as in put_folded */
        bp_spelling_take(e, 'i');
        bp_spelling_take(e, 0x307);
    } else {
        bp_spelling_take(e, bp_char_lower(c));
    }
}

/* There is no map then: a character takes few bytes, and all of them less than one's room. */
static void take_composed(bp_encoder *e)
{
    const size_t count = bp_char_compose(e->composing, e->composing_count);
    for (size_t i = 0; i < count; i++) {
        take_folded(e, e->composing[i]);
    }
    e->composing_count = 0;
}

/* Normal forms are made in pieces that nothing outside them changes. */
static void take_normal(bp_encoder *e, uint32_t c)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    uint32_t parts[BP_CHAR_PARTS_MOST];
    if (!rules->compose && !rules->compatible) {
        take_folded(e, c);
        return;
    }
    const size_t count =
        rules->compatible ? bp_char_decompose_compatible(c, parts) : bp_char_decompose(c, parts);
    if (bp_char_begins(parts[0]) || e->composing_count + count > BP_COMPOSE_MAX) {
        take_composed(e);
    }
    memcpy(e->composing + e->composing_count, parts, count * sizeof *parts);
    e->composing_count += (uint32_t)count;
}

static void move_unigram(bp_encoder *e, size_t limit)
{
    if (e->tokenizer->rules.native) {
        /* At the end nothing waits for more text: the limit is where the text ends. */
        const bool final = e->next.found ? limit == e->next.start : e->ending;
        while (e->raw_at < limit && room_of(e) >= BP_SPELLING_ROOM &&
               bp_spelling_take_native(e, limit, final)) {
        }
        return;
    }
    while (e->raw_at < limit && room_of(e) >= BP_SPELLING_ROOM) {
        size_t step;
        take_normal(e, bp_utf8_get(e->raw + e->raw_at, &step));
        e->raw_at += step;
    }
}

bool bp_normal_move(bp_encoder *e, size_t limit)
{
    const bp_token_rules *rules = &e->tokenizer->rules;
    size_t raw = e->raw_at;
    if (e->text_at > 0) {
        if (e->tracing != NULL) {
            bp_trace_moved(e, e->text_at);
        }
        memmove(e->text, e->text + e->text_at, e->text_end - e->text_at);
        e->text_end -= e->text_at;
        e->text_at = 0;
    }
    if (raw == limit) {
        return false;
    }
    const bool unigram = rules->kind == BP_TOKENIZER_UNIGRAM || rules->native;
    if (unigram && room_of(e) < BP_SPELLING_ROOM) {
        e->text_held = 0; /* so much white space is no longer waited for */
    }
    if (e->segment_start) {
        if (unigram) {
            bp_spelling_begin(e);
        } else {
            put_prefix(e);
        }
        e->segment_start = false;
    }
    if (e->tracing != NULL) {
        move_traced(e, limit);
    } else if (unigram) {
        move_unigram(e, limit);
    } else if (rules->kind == BP_TOKENIZER_WORDPIECE) {
        move_bert(e, limit);
    } else if (rules->spaces) {
        move_spaces(e, limit);
    } else if (rules->compose) {
        move_composed(e, limit);
    } else {
        move_plain(e, limit);
    }
    return e->raw_at > raw;
}

void bp_normal_end(bp_encoder *e)
{
    if (e->tokenizer->rules.kind == BP_TOKENIZER_UNIGRAM || e->tokenizer->rules.native) {
        take_composed(e);
        bp_spelling_end(e);
    }
    put_composed(e);
}
