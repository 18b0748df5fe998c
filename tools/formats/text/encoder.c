/* SPDX-License-Identifier: MIT */
/* Text to ids, streaming: raw text -> added tokens -> normalised text -> words -> ids. */
#include <string.h>

#include "arena/arena.h"
#include "tools/formats/text/encoder_offsets.h"
#include "tools/formats/text/token_normal.h"
#include "tools/formats/text/token_split.h"
#include "tools/formats/text/token_table.h"
#include "tools/formats/text/token_word.h"
#include "core/run/feed.h"
#include "tools/formats/text/tokenizer_state.h"

/* text[at .. at + length - 1] became the ids of work. */
static void trace_word(bp_encoder *e, size_t at, size_t length);

/* The added token `next` is one. */
static void trace_added(bp_encoder *e);

/* Where ids go. */
typedef struct sink {
    uint32_t *ids;
    size_t room;
    size_t written;
} sink;

static bp_status encoder_parts(bp_encoder *e, uint32_t word_bytes, bp_arena *memory)
{
    void *part[8];
    const uint64_t rows[8] = {BP_WORD_CACHE,
                              word_bytes,
                              word_bytes,
                              word_bytes,
                              word_bytes,
                              word_bytes,
                              (uint64_t)word_bytes + BP_ENCODER_MARGIN,
                              BP_ENCODER_RAW};
    const size_t size[8] = {sizeof(bp_word_entry),
                            sizeof(uint32_t),
                            sizeof(uint32_t),
                            sizeof(uint32_t),
                            sizeof(uint32_t),
                            sizeof(uint32_t),
                            1,
                            1};
    for (int i = 0; i < 8; i++) {
        BP_TRY(bp_arena_rows(memory, rows[i], size[i], i == 0 ? 8 : size[i], &part[i]));
    }
    e->cache = part[0];
    e->work = (bp_word_work){
        .id = part[1], .next = part[2], .before = part[3], .rank = part[4], .tree = part[5]};
    e->text = part[6];
    e->raw = part[7];
    return BP_OK;
}

uint64_t bp_encoder_bytes(uint32_t word_bytes)
{
    bp_arena count;
    bp_encoder encoder;
    if (word_bytes < BP_ENCODER_WORD_MIN || word_bytes > BP_ENCODER_WORD_MAX) {
        return BP_SIZE_INVALID;
    }
    bp_arena_count(&count);
    const bp_status status = encoder_parts(&encoder, word_bytes, &count);
    (void)status; /* 400 MiB at most */
    return bp_size_align(count.used, 64);
}

bp_status bp_encoder_init(bp_encoder *e, const bp_tokenizer *tokenizer, uint32_t word_bytes,
                          void *memory)
{
    const uint64_t bytes = bp_encoder_bytes(word_bytes);
    bp_arena arena;
    if (bytes == BP_SIZE_INVALID) {
        return BP_ERR_USAGE;
    }
    memset(e, 0, sizeof *e);
    e->tokenizer = tokenizer;
    e->word_bytes = word_bytes;
    bp_arena_init(&arena, memory, (size_t)bytes);
    BP_TRY(encoder_parts(e, word_bytes, &arena));
    memset(e->cache, 0, BP_WORD_CACHE * sizeof *e->cache);
    const bp_token_rules *rules = &tokenizer->rules;
    const bool carries = rules->native && rules->kind == BP_TOKENIZER_UNIGRAM;
    e->work.carried = carries ? &e->carried : NULL;
    bp_encoder_begin(e, BP_ENCODE_PLAIN);
    return BP_OK;
}

/* The ids of a part of the template wait to be taken. */
static void queue_part(bp_encoder *e, const bp_template_part *part)
{
    memcpy(e->work.id, part->ids, part->count * sizeof *part->ids);
    e->out_at = 0;
    e->out_end = part->count;
}

void bp_encoder_begin(bp_encoder *e, unsigned flags)
{
    e->flags = flags;
    e->raw_at = e->raw_clear = e->raw_spaces = e->raw_end = 0;
    e->text_at = e->text_end = 0;
    e->out_at = e->out_end = 0;
    e->text_held = 0;
    e->carried = 0.0f;
    e->composing_count = 0;
    e->spelling = (bp_spelling){.fresh = false};
    e->cleaner = (bp_utf8_cleaner){.have = 0};
    e->next = (bp_added_found){.found = false};
    e->split = (bp_split){.at = 0};
    e->skip_spaces = e->ending = e->segment_end = e->overlong = false;
    e->document_start = e->segment_start = (flags & BP_ENCODE_GOES_ON) == 0;
    e->spelling.fresh = e->document_start;
    e->behind_word = e->behind_first = false;
    e->stage = 0;
    if ((flags & BP_ENCODE_TEMPLATE) != 0) {
        queue_part(e, &e->tokenizer->rules.single.before);
    }
}

/* ---- Raw text ---- */

static void compact_raw(bp_encoder *e)
{
    size_t gone = e->raw_at;
    if (gone == 0) {
        return;
    }
    memmove(e->raw, e->raw + gone, e->raw_end - gone);
    if (e->tracing != NULL) {
        e->tracing->base += gone;
    }
    e->raw_end -= gone;
    e->raw_clear -= gone;
    e->raw_spaces = e->raw_spaces > gone ? e->raw_spaces - gone : 0;
    e->next.start -= e->next.found ? gone : 0;
    e->next.end -= e->next.found ? gone : 0;
    e->raw_at = 0;
}

/* Takes text as far as there is room; returns the bytes taken. */
static size_t take_raw(bp_encoder *e, const unsigned char *text, size_t count)
{
    compact_raw(e);
    size_t room = BP_ENCODER_RAW - e->raw_end;
    if (e->tokenizer->rules.kind == BP_TOKENIZER_BYTES) {
        count = count < room ? count : room;
        memcpy(e->raw + e->raw_end, text, count);
        e->raw_end += count;
        return count;
    }
    size_t used;
    e->raw_end += bp_utf8_clean(&e->cleaner, text, count, e->raw + e->raw_end, room, &used);
    return used;
}

static bool is_space(const unsigned char *text, size_t *step)
{
    return bp_char_class_of(bp_utf8_get(text, step)) == BP_CHAR_SPACE;
}

/* Spaces that the added token before strips from its right. */
static void skip_spaces(bp_encoder *e)
{
    size_t step;
    while (e->skip_spaces && e->raw_at < e->raw_end) {
        if (is_space(e->raw + e->raw_at, &step)) {
            e->raw_at += step;
            e->behind_word = e->behind_first = false;
        } else {
            e->skip_spaces = false;
        }
    }
    e->raw_clear = e->raw_clear > e->raw_at ? e->raw_clear : e->raw_at;
    e->raw_spaces = e->raw_spaces > e->raw_at ? e->raw_spaces : e->raw_at;
}

/* Whether the character that ends before `at`, after the first, is one of a word. */
static bool ends_word(const bp_encoder *e, size_t at)
{
    size_t step;
    do {
        at--;
    } while ((e->raw[at] & 0xc0) == 0x80);
    return bp_char_is_word(bp_utf8_get(e->raw + at, &step));
}

/* The same of the one at `at`; the end of the text is none. *more: it is not there yet. */
static bool begins_word(const bp_encoder *e, size_t at, bool *more)
{
    size_t step;
    *more = at == e->raw_end && !e->ending;
    return at < e->raw_end && bp_char_is_word(bp_utf8_get(e->raw + at, &step));
}

/* Whether one of the added tokens that are found before those in normalised text begins at `at`,
 * behind other text. */
static bool first_begins(const bp_encoder *e, size_t at, bool *more)
{
    const bp_token_added *match = bp_token_match(e->tokenizer, e->raw + at, e->raw_end - at, more);
    *more = *more && !e->ending;
    if (*more || match == NULL || (match->flags & BP_ADDED_LATER) != 0) {
        return false;
    }
    return (match->flags & BP_ADDED_WORD) == 0 ||
           (!ends_word(e, at) && !begins_word(e, at + match->length, more) && !*more);
}

/* Whether a match that must be a single word is one; other added tokens end the text in which those
 * of normalised text are found, whatever they are made of. *more: what follows decides, and is not
 * there yet. */
static bool is_single(const bp_encoder *e, const bp_token_added *match, bool *more)
{
    const size_t end = e->raw_clear + match->length;
    const bool later = (match->flags & BP_ADDED_LATER) != 0;
    const bool word = begins_word(e, end, more);
    const bool both = later && e->behind_first;
    if (*more || (e->behind_word && !both)) {
        return false;
    }
    return !word || (later && first_begins(e, end, more));
}

/* Of a stretch of text that ends at raw_clear; it has a byte at least. */
static void note_word(bp_encoder *e, size_t start)
{
    if (e->tokenizer->added_word) {
        e->behind_word =
            (e->raw[start] & 0xc0) != 0x80 ? ends_word(e, e->raw_clear) : e->behind_word;
        e->behind_first = false;
    }
}

/* What is left of a match in normalised text where an added token that is found before these begins
 * inside it: a shorter one, or none. *more: text that is not there yet decides. */
static const bp_token_added *leave_first(const bp_encoder *e, const bp_token_added *match,
                                         bool *more)
{
    for (size_t k = 1; (match->flags & BP_ADDED_LATER) != 0 && k < match->length && !*more; k++) {
        if (first_begins(e, e->raw_clear + k, more)) {
            bool beyond;
            return bp_token_match(e->tokenizer, e->raw + e->raw_clear, k, &beyond);
        }
    }
    return match;
}

/* One step towards the next added token; false when more text must come first. */
static bool look_here(bp_encoder *e)
{
    const bp_tokenizer *t = e->tokenizer;
    const unsigned char *here = e->raw + e->raw_clear;
    size_t step = 1;
    if ((t->added_first[here[0] / 64] >> here[0] % 64 & 1) != 0) {
        bool more;
        const bp_token_added *match = bp_token_match(t, here, e->raw_end - e->raw_clear, &more);
        more = more && !e->ending;
        match = match == NULL || more ? match : leave_first(e, match, &more);
        if (more) {
            return false;
        }
        bool literal = (e->flags & BP_ENCODE_LITERAL) != 0, single = true;
        bool start = e->segment_start && e->raw_clear == e->raw_at;
        if (match != NULL && (match->flags & BP_ADDED_START) != 0 && !start) {
            match = NULL;
        }
        if (match != NULL && (match->flags & BP_ADDED_WORD) != 0 && !is_single(e, match, &more)) {
            if (more) {
                return false;
            }
            single = false;
        }
        if (match != NULL && single && (!literal || (match->flags & BP_ADDED_SPECIAL) == 0)) {
            bool left = (match->flags & BP_ADDED_LSTRIP) != 0;
            e->next = (bp_added_found){.found = true,
                                       .start = left ? e->raw_spaces : e->raw_clear,
                                       .end = e->raw_clear + match->length,
                                       .token = match};
            return true;
        }
        step = match != NULL ? match->length : step;
    }
    size_t bytes;
    bool space = t->added_lstrip && step == 1 && (here[0] & 0xc0) != 0x80 && is_space(here, &bytes);
    e->raw_clear += space ? bytes : step;
    note_word(e, e->raw_clear - (space ? bytes : step));
    e->raw_spaces = space ? e->raw_spaces : e->raw_clear;
    return true;
}

/* Looks for the next added token; returns the end of the text that lies before it for certain. */
static size_t clear_text(bp_encoder *e)
{
    skip_spaces(e);
    if (e->tokenizer->added_count == 0) {
        e->raw_clear = e->raw_end;
        return e->raw_end;
    }
    while (!e->next.found && e->raw_clear < e->raw_end && look_here(e)) {
    }
    if (e->next.found) {
        return e->next.start;
    }
    /* Spaces wait for an added token that strips them, unless they fill the room. */
    bool full = e->raw_at == 0 && e->raw_end > BP_ENCODER_RAW - 16;
    bool wait = e->tokenizer->added_lstrip && !full && !e->ending;
    return wait ? e->raw_spaces : e->raw_clear;
}

/* ---- Words ---- */

static void drain(bp_encoder *e, sink *to)
{
    size_t count = e->out_end - e->out_at;
    size_t room = to->room - to->written;
    count = count < room ? count : room;
    if (count > 0) {
        memcpy(to->ids + to->written, e->work.id + e->out_at, count * sizeof *to->ids);
        e->out_at += count;
        to->written += count;
    }
}

static uint64_t encoder_load(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    memcpy(&value, bytes, count);
    return value;
}

static bp_word_entry *entry_of(bp_encoder *e, const unsigned char *word, size_t length)
{
    uint64_t hash = length * 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at < length; at += 8) {
        size_t left = length - at;
        hash = (hash ^ encoder_load(word + at, left < 8 ? left : 8)) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
    }
    return &e->cache[hash % BP_WORD_CACHE];
}

static void encode_word(bp_encoder *e, const unsigned char *word, size_t length)
{
    bp_word_entry *entry = NULL;
    e->out_at = 0;
    if (length <= BP_WORD_CACHE_KEY && e->work.carried == NULL) {
        entry = entry_of(e, word, length);
        if (entry->length == length && memcmp(entry->word, word, length) == 0) {
            memcpy(e->work.id, entry->ids, sizeof entry->ids);
            e->out_end = entry->count;
            return;
        }
    }
    e->out_end = bp_token_word(e->tokenizer, word, length, &e->work);
    if (entry != NULL && e->out_end <= BP_WORD_CACHE_IDS) {
        entry->length = (uint8_t)length;
        entry->count = (uint8_t)e->out_end;
        memcpy(entry->word, word, length);
        memcpy(entry->ids, e->work.id, e->out_end * sizeof *entry->ids);
    }
}

/* WordPiece and CLIP: spaces are no words, and the rest of a word too long to be known to WordPiece
 * is dropped. */
static bool is_dropped(bp_encoder *e, const unsigned char *word, bool cut)
{
    const bp_split_rule split = e->tokenizer->rules.split;
    if (split != BP_SPLIT_BERT && split != BP_SPLIT_CLIP) {
        return false;
    }
    size_t step;
    uint32_t c = bp_utf8_get(word, &step);
    bool space = bp_char_class_of(c) == BP_CHAR_SPACE;
    if (split == BP_SPLIT_CLIP) {
        return space;
    }
    bool rest = e->overlong && !space && !bp_char_is_punctuation(c);
    e->overlong = cut && !space;
    return space || rest;
}

/* Encodes the next word of the normalised text; false when none is whole yet. */
static bool next_word(bp_encoder *e)
{
    const unsigned char *text = e->text + e->text_at;
    size_t there = e->text_end - e->text_held - e->text_at;
    size_t limit = there;
    if (there == 0) {
        return false;
    }
    if (there > e->word_bytes) {
        limit = e->word_bytes;
        while (e->tokenizer->rules.kind != BP_TOKENIZER_BYTES && (text[limit] & 0xc0) == 0x80) {
            limit--;
        }
    }
    bool final = e->segment_end && limit == there;
    bool cut = false;
    size_t end;
    if (!bp_split_next(e->tokenizer, &e->split, text, limit, final, &end)) {
        if (limit == there) {
            return false;
        }
        cut = true;
        end = limit;
    }
    e->split = (bp_split){.at = 0};
    e->text_at += end;
    if (!is_dropped(e, text, cut)) {
        e->cut += cut && e->tokenizer->rules.split != BP_SPLIT_BERT;
        encode_word(e, text, end);
        if (e->tracing != NULL) {
            trace_word(e, e->text_at - end, end);
        }
    }
    return true;
}

/* ---- The stream ---- */

/* The segment's last word is out: the added token behind it, and a new segment. */
static bool end_segment(bp_encoder *e)
{
    if (!e->next.found) {
        return false;
    }
    const bp_token_added *token = e->next.token;
    if (e->tracing != NULL) {
        trace_added(e);
    }
    e->work.id[0] = token->id;
    e->out_at = 0;
    e->out_end = 1;
    e->raw_at = e->raw_clear = e->raw_spaces = e->next.end;
    note_word(e, e->next.start);
    e->behind_first = (token->flags & BP_ADDED_LATER) == 0;
    e->next.found = false;
    e->skip_spaces = (token->flags & BP_ADDED_RSTRIP) != 0;
    e->segment_start = (token->flags & BP_ADDED_INNER) == 0;
    e->segment_end = false;
    e->overlong = false;
    e->document_start = false;
    return true;
}

/* Moves text on towards words; false when it takes more of it. */
static bool advance(bp_encoder *e)
{
    if (e->segment_end) {
        return end_segment(e);
    }
    size_t limit = clear_text(e);
    if (bp_normal_move(e, limit)) {
        return true;
    }
    if (e->raw_at == limit && (e->next.found || (e->ending && limit == e->raw_end))) {
        bp_normal_end(e);
        e->segment_end = true;
        return true;
    }
    return false;
}

/* Ids until the room is full or more text must come; true in the latter case. */
static bool pump(bp_encoder *e, sink *to)
{
    do {
        drain(e, to);
        if (e->out_at < e->out_end) {
            return false;
        }
    } while (next_word(e) || advance(e));
    return true;
}

void bp_encoder_feed(bp_encoder *e, const void *text, size_t count, uint32_t *ids, size_t room,
                     size_t *used, size_t *written)
{
    const unsigned char *bytes = text;
    sink to = {ids, room, 0};
    *used = 0;
    while (pump(e, &to) && *used < count) {
        *used += take_raw(e, bytes + *used, count - *used);
    }
    *written = to.written;
}

bool bp_encoder_end(bp_encoder *e, uint32_t *ids, size_t room, size_t *written)
{
    sink to = {ids, room, 0};
    bool dry = pump(e, &to);
    if (dry && e->stage == 0) {
        compact_raw(e);
        e->raw_end += bp_utf8_clean_end(&e->cleaner, e->raw + e->raw_end);
        e->ending = true;
        e->stage = 1;
        dry = pump(e, &to);
    }
    if (dry && e->stage == 1) {
        e->stage = 2;
        if ((e->flags & BP_ENCODE_TEMPLATE) != 0) {
            queue_part(e, &e->tokenizer->rules.single.after);
            dry = pump(e, &to);
        }
    }
    *written = to.written;
    return !dry;
}

void bp_encoder_text(bp_encoder *e, const void *text, size_t length, unsigned flags, uint32_t *ids,
                     size_t room, size_t *count)
{
    const unsigned char *bytes = text;
    uint32_t over[64]; /* what does not fit is counted only */
    size_t at = 0;
    bool more = true;
    *count = 0;
    bp_encoder_begin(e, flags);
    while (more) {
        bool fits = *count < room;
        uint32_t *to = fits ? ids + *count : over;
        size_t left = fits ? room - *count : sizeof over / sizeof over[0];
        size_t used = 0;
        size_t written;
        if (at < length) {
            bp_encoder_feed(e, bytes + at, length - at, to, left, &used, &written);
            at += used;
        } else {
            more = bp_encoder_end(e, to, left, &written);
        }
        *count += written;
    }
}

/* Where tokens lie in their text: WordPiece's normaliser turns each character into
 * some, so every byte of normalised text remembers the character that it was made of. */

uint64_t bp_encoder_offsets_bytes(void)
{
    return 5 * (uint64_t)(BP_ENCODER_WORD_BYTES + BP_ENCODER_MARGIN);
}

void bp_trace_character(bp_encoder *e, size_t before, size_t bytes)
{
    bp_tracing *t = e->tracing;
    for (size_t i = before; i < e->text_end; i++) {
        t->from[i] = (uint32_t)(t->base + e->raw_at);
        t->bytes[i] = (uint8_t)bytes;
    }
}

void bp_trace_moved(bp_encoder *e, size_t gone)
{
    bp_tracing *t = e->tracing;
    memmove(t->from, t->from + gone, (e->text_end - gone) * sizeof *t->from);
    memmove(t->bytes, t->bytes + gone, e->text_end - gone);
}

static void put_offsets(bp_tracing *t, uint32_t start, uint32_t end)
{
    if (t->count < t->to->room) {
        t->to->starts[t->count] = start;
        t->to->ends[t->count] = end;
    }
    t->count++;
}

/* Bytes of normalised text that a piece stands for. */
static size_t piece_bytes(const bp_tokenizer *t, uint32_t id, bool first)
{
    const size_t bytes = t->lengths[id] & BP_TOKEN_LENGTH, mark = strlen(t->rules.continuing);
    return first || bytes < mark ? bytes : bytes - mark;
}

static void trace_word(bp_encoder *e, size_t at, size_t length)
{
    bp_tracing *t = e->tracing;
    const size_t end = at + length;
    const bool whole = e->out_end == 1; /* the word is a token, or unknown as a whole */
    for (size_t i = 0; i < e->out_end; i++) {
        size_t bytes = whole ? length : piece_bytes(e->tokenizer, e->work.id[i], i == 0);
        bytes = bytes < 1 ? 1 : bytes < end - at ? bytes : end - at;
        const size_t last = at + bytes - 1 < end ? at + bytes - 1 : end - 1;
        const size_t first = at < end ? at : end - 1;
        put_offsets(t, t->from[first], t->from[last] + t->bytes[last]);
        at += bytes;
    }
}

static void trace_added(bp_encoder *e)
{
    bp_tracing *t = e->tracing;
    put_offsets(t, (uint32_t)(t->base + e->next.start), (uint32_t)(t->base + e->next.end));
}

bp_status bp_encoder_offsets(bp_encoder *e, const void *text, size_t length,
                             const bp_encoder_trace *to, size_t *count)
{
    const size_t places = BP_ENCODER_WORD_BYTES + BP_ENCODER_MARGIN;
    bp_tracing tracing = {
        .to = to, .from = to->memory, .bytes = (uint8_t *)to->memory + 4 * places};
    if (e->tokenizer->rules.kind != BP_TOKENIZER_WORDPIECE ||
        e->word_bytes > BP_ENCODER_WORD_BYTES || length > UINT32_MAX) {
        return BP_ERR_USAGE;
    }
    e->tracing = &tracing;
    bp_encoder_text(e, text, length, BP_ENCODE_PLAIN, to->ids, to->room, count);
    e->tracing = NULL;
    return BP_OK;
}

/* One text or a pair between the template's tokens, truncated to a room. */

/* Writes at most `most` ids of a text. */
static void put_text(bp_encoder *e, const void *text, size_t length, unsigned flags, uint8_t type,
                     size_t most, uint32_t *ids, uint8_t *types, size_t *count)
{
    size_t whole;
    bp_encoder_text(e, text, length, flags & ~(unsigned)BP_ENCODE_TEMPLATE, ids + *count, most,
                    &whole);
    size_t put = whole < most ? whole : most;
    if (types != NULL) {
        memset(types + *count, type, put);
    }
    *count += put;
}

static void put_part(const bp_template_part *part, uint32_t *ids, uint8_t *types, size_t *count)
{
    memcpy(ids + *count, part->ids, part->count * sizeof *ids);
    if (types != NULL) {
        memcpy(types + *count, part->types, part->count);
    }
    *count += part->count;
}

bp_status bp_encoder_pair(bp_encoder *e, const void *a, size_t a_length, const void *b,
                          size_t b_length, unsigned flags, uint32_t *ids, uint8_t *types,
                          size_t room, size_t *count, size_t *whole)
{
    static const bp_template bare = {.type_b = 1};
    const bp_token_rules *rules = &e->tokenizer->rules;
    bool add = (flags & BP_ENCODE_TEMPLATE) != 0;
    unsigned plain = flags & ~(unsigned)BP_ENCODE_TEMPLATE;
    const bp_template *form = !add ? &bare : b != NULL ? &rules->pair : &rules->single;
    size_t own = (size_t)form->before.count + form->between.count + form->after.count;
    size_t a_ids;
    size_t b_ids = 0;
    *count = 0;
    if (own > room) {
        return BP_ERR_USAGE;
    }
    bp_encoder_text(e, a, a_length, plain, NULL, 0, &a_ids);
    if (b != NULL) {
        bp_encoder_text(e, b, b_length, plain, NULL, 0, &b_ids);
    }
    if (whole != NULL) {
        *whole = own + a_ids + b_ids;
    }
    if (own + a_ids + b_ids > room) {
        if (b == NULL) {
            a_ids = room - own;
        } else {
            uint64_t left_a = a_ids, left_b = b_ids;
            bp_feed_cut_pair(room - own, &left_a, &left_b);
            a_ids = (size_t)left_a;
            b_ids = (size_t)left_b;
        }
    }
    put_part(&form->before, ids, types, count);
    put_text(e, a, a_length, flags, form->type_a, a_ids, ids, types, count);
    put_part(&form->between, ids, types, count);
    if (b != NULL) {
        put_text(e, b, b_length, flags, form->type_b, b_ids, ids, types, count);
    }
    put_part(&form->after, ids, types, count);
    return BP_OK;
}

static uint32_t ids_at(const bp_template *form, bp_pair_position place, const uint32_t **ids)
{
    const bp_template_part *part = place == BP_PAIR_BEFORE    ? &form->before
                                   : place == BP_PAIR_BETWEEN ? &form->between
                                                              : &form->after;
    *ids = part->ids;
    return part->count;
}

uint32_t bp_encoder_pair_ids(const bp_encoder *e, bp_pair_position place, const uint32_t **ids)
{
    return ids_at(&e->tokenizer->rules.pair, place, ids);
}

uint32_t bp_encoder_single_ids(const bp_encoder *e, bp_pair_position place, const uint32_t **ids)
{
    return ids_at(&e->tokenizer->rules.single, place, ids);
}

static bool all_have(const bp_template_part *part, uint8_t type)
{
    for (uint32_t i = 0; i < part->count; i++) {
        if (part->types[i] != type) {
            return false;
        }
    }
    return true;
}

bp_pair_types bp_encoder_pair_types(const bp_encoder *e)
{
    const bp_template *form = &e->tokenizer->rules.pair;
    const bool first =
        form->type_a == 0 && all_have(&form->before, 0) && all_have(&form->between, 0);
    const bool second = form->type_b <= 1 && all_have(&form->after, form->type_b);
    return !first || !second ? BP_PAIR_OTHER : form->type_b == 1 ? BP_PAIR_APART : BP_PAIR_ALIKE;
}
