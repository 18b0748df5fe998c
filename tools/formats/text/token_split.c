/* SPDX-License-Identifier: MIT */
/* Hand-written state machines for the split patterns of tokenizer files.
 *
 * GPT-2:   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * Llama 3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *          ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * Qwen2:   as Llama 3 with \p{N} for \p{N}{1,3}
 * SmolLM:  text is cut before and after every \p{N}, and what is between is split as GPT-2 does
 *
 * tekken:  as Qwen2 with U*[W]+ and U+W* for \p{L}+, where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and
 * W is
 *          [\p{Ll}\p{Lm}\p{Lo}\p{M}], and [\r\n/]* for [\r\n]*
 * GPT-4o:  the same with contractions at the end of both, and \p{N}{1,3}
 * CLIP:    <\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+,
 *          and spaces are dropped
 *
 * \s+(?!\S) is a run of spaces less its last one when something else follows; \s*[\r\n]+ is a run
 * of spaces up to its last line end. */
#include "tools/formats/text/token_split.h"

#include <string.h>

const char *const bp_clip_names[BP_CLIP_NAMES] = {"<|startoftext|>", "<|endoftext|>"};

typedef enum split_state {
    STATE_START,
    STATE_LETTERS,
    STATE_NUMBERS,
    STATE_OTHERS,
    STATE_LINE_ENDS,
    STATE_SPACES
} split_state;

#define MORE SIZE_MAX /* what follows decides */

/* Classes of ASCII, where most text lies. */
#define O BP_CHAR_OTHER
#define L BP_CHAR_LETTER
#define N BP_CHAR_NUMBER
#define S BP_CHAR_SPACE
static const uint8_t ascii[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
};
#undef O
#undef L
#undef N
#undef S

static bp_char_class class_at(const unsigned char *text, size_t *length)
{
    if (text[0] < 0x80) {
        *length = 1;
        return (bp_char_class)ascii[text[0]];
    }
    return bp_char_class_of(bp_utf8_get(text, length));
}

/* Moves split->at past characters of a class; false when the text ends first. */
static bool token_split_run(bp_split *split, const unsigned char *text, size_t length,
                            bp_char_class wanted)
{
    size_t at = split->at;
    bool stopped = false;
    while (at < length && !stopped) {
        size_t bytes;
        stopped = class_at(text + at, &bytes) != wanted;
        at += stopped ? 0 : bytes;
    }
    split->at = at;
    return stopped;
}

static bool is_line_end(unsigned char byte)
{
    return byte == '\n' || byte == '\r';
}

/* A run of spaces, remembering its last space and its last line end. */
static bool run_spaces(bp_split *split, const unsigned char *text, size_t length)
{
    while (split->at < length) {
        size_t bytes;
        if (class_at(text + split->at, &bytes) != BP_CHAR_SPACE) {
            return true;
        }
        split->mark = split->at;
        split->at += bytes;
        if (is_line_end(text[split->mark])) {
            split->newline = split->at;
        }
    }
    return false;
}

static unsigned char folded(unsigned char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte + 32) : byte;
}

/* Bytes of the contraction at text[0] = "'"; 0 when it is none. `fold`: in any case, where U+017F
 * is an s too. */
static size_t contraction(const unsigned char *text, size_t length, bool final, bool fold)
{
    if (length < 2) {
        return final ? 0 : MORE;
    }
    unsigned char first = fold ? folded(text[1]) : text[1];
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return 2;
    }
    if (fold && length > 2 && text[1] == 0xc5 && text[2] == 0xbf) {
        return 3;
    }
    if (first != 'r' && first != 'v' && first != 'l') {
        return 0;
    }
    if (length < 3) {
        return final ? 0 : MORE;
    }
    unsigned char second = fold ? folded(text[2]) : text[2];
    return second == (first == 'l' ? 'l' : 'e') ? 3 : 0;
}

static bp_char_case case_at(const unsigned char *text, size_t *length)
{
    const uint32_t c = bp_utf8_get(text, length);
    return c < 0x80 ? ascii[c] != BP_CHAR_LETTER ? BP_CASE_NONE
                      : c < 'a'                  ? BP_CASE_UPPER
                                                 : BP_CASE_LOWER
                    : bp_char_case_of(c);
}

/* The end of U*W+ from `at` on, or of U+ where nothing of W follows; 0 when there is neither, MORE.
 * U takes as much as it can, and gives back until W has something: its last letter of both. */
static size_t end_of_cases(const unsigned char *text, size_t at, size_t length, bool final,
                           bool *lower)
{
    size_t both = 0;
    const size_t begin = at;
    bp_char_case kind = BP_CASE_NONE;
    *lower = false;
    for (size_t step; at < length; at += step) {
        kind = case_at(text + at, &step);
        if (kind == BP_CASE_NONE || kind == BP_CASE_LOWER) {
            break;
        }
        both = kind == BP_CASE_BOTH ? at + step : both;
    }
    *lower = at < length && kind == BP_CASE_LOWER;
    if (*lower) {
        for (size_t step; at < length; at += step) {
            kind = case_at(text + at, &step);
            if (kind == BP_CASE_NONE || kind == BP_CASE_UPPER) {
                break;
            }
        }
    }
    if (at == length && !final) {
        return MORE;
    }
    if (!*lower && both > 0) {
        *lower = true;
        return both;
    }
    return at > begin ? at : 0;
}

/* The end of a word of letters, one other character before it among them; 0 for none, MORE. */
static size_t word_of_cases(const unsigned char *text, size_t length, bool final)
{
    size_t lead;
    const bp_char_class class = class_at(text, &lead);
    const bool leads = class != BP_CHAR_LETTER && class != BP_CHAR_NUMBER && !is_line_end(text[0]);
    bool lower;
    if (class == BP_CHAR_NUMBER || is_line_end(text[0])) {
        return 0;
    }
    const size_t end = end_of_cases(text, leads ? lead : 0, length, final, &lower);
    if (end == MORE || lower || !leads) {
        return end;
    }
    /* Letters of upper case alone are the second pattern's, before which the first takes a mark
     * that leads them for a word. */
    size_t step;
    return case_at(text, &step) == BP_CASE_BOTH ? lead : end;
}

static size_t start_cases(const bp_tokenizer *tokenizer, const unsigned char *text, size_t length,
                          bool final)
{
    size_t end = word_of_cases(text, length, final);
    if (end == 0 || end == MORE || tokenizer->rules.split == BP_SPLIT_TEKKEN) {
        return end;
    }
    if (end == length) {
        return final ? end : MORE;
    }
    const size_t more = text[end] == '\'' ? contraction(text + end, length - end, final, true) : 0;
    return more == MORE ? MORE : end + more;
}

static split_state run_of(bp_char_class class)
{
    static const split_state states[] = {STATE_OTHERS, STATE_LETTERS, STATE_NUMBERS, STATE_SPACES};
    return states[class];
}

/* Each start function returns the end of the word if the first characters tell it, MORE if they
 * do not suffice, or 0 after choosing the state that goes on at split->at. */
static size_t start_gpt2(bp_split *split, const unsigned char *text, size_t length, bool digits,
                         bool final)
{
    if (text[0] == '\'') {
        size_t end = contraction(text, length, final, false);
        if (end != 0) {
            return end;
        }
    }
    size_t bytes;
    bp_char_class class = class_at(text, &bytes);
    if (digits && class == BP_CHAR_NUMBER) {
        return bytes;
    }
    if (text[0] == ' ') {
        if (length == 1) {
            return final ? 1 : MORE;
        }
        bp_char_class next = class_at(text + 1, &bytes);
        if (digits && next == BP_CHAR_NUMBER) {
            return 1;
        }
        if (next != BP_CHAR_SPACE) {
            class = next;
            split->at = 1;
        }
    }
    split->state = run_of(class);
    return 0;
}

/* Bytes of a special token's name at text[0] = "<"; 0 when it is none. */
static size_t clip_name(const unsigned char *text, size_t length, bool final)
{
    for (size_t i = 0; i < BP_CLIP_NAMES; i++) {
        const size_t bytes = strlen(bp_clip_names[i]), there = length < bytes ? length : bytes;
        if (memcmp(text, bp_clip_names[i], there) == 0) {
            return there == bytes ? bytes : final ? 0 : MORE;
        }
    }
    return 0;
}

static size_t start_clip(bp_split *split, const unsigned char *text, size_t length, bool final)
{
    const size_t end = text[0] == '\''  ? contraction(text, length, final, false)
                       : text[0] == '<' ? clip_name(text, length, final)
                                        : 0;
    if (end != 0) {
        return end;
    }
    size_t bytes;
    const bp_char_class class = class_at(text, &bytes);
    split->state = run_of(class);
    return class == BP_CHAR_NUMBER ? bytes : 0;
}

static size_t start_llama(bp_split *split, const unsigned char *text, size_t length, bool final)
{
    if (text[0] == '\'') {
        size_t end = contraction(text, length, final, true);
        if (end != 0) {
            return end;
        }
    }
    size_t bytes;
    size_t more;
    bp_char_class class = class_at(text, &bytes);
    /* One character of any other kind may lead letters, and a space others too. */
    bool leads = class != BP_CHAR_LETTER && class != BP_CHAR_NUMBER && !is_line_end(text[0]);
    if (leads && bytes == length && !final) {
        return MORE;
    }
    if (leads && bytes < length) {
        bp_char_class next = class_at(text + bytes, &more);
        if (next == BP_CHAR_LETTER || (text[0] == ' ' && next == BP_CHAR_OTHER)) {
            split->at = bytes;
            class = next;
        }
    }
    split->state = run_of(class);
    return 0;
}

static bool next_gpt2(bp_split *split, const unsigned char *text, size_t length)
{
    switch (split->state) {
    case STATE_LETTERS:
        return token_split_run(split, text, length, BP_CHAR_LETTER);
    case STATE_NUMBERS:
        return token_split_run(split, text, length, BP_CHAR_NUMBER);
    case STATE_OTHERS:
        return token_split_run(split, text, length, BP_CHAR_OTHER);
    default:
        return run_spaces(split, text, length);
    }
}

static bool next_llama(bp_split *split, const unsigned char *text, size_t length, uint32_t digits,
                       bool slashes)
{
    if (split->state == STATE_OTHERS) {
        if (!token_split_run(split, text, length, BP_CHAR_OTHER)) {
            return false;
        }
        split->state = STATE_LINE_ENDS;
    }
    if (split->state == STATE_LINE_ENDS) {
        while (split->at < length &&
               (is_line_end(text[split->at]) || (slashes && text[split->at] == '/'))) {
            split->at++;
        }
        return split->at < length;
    }
    if (split->state == STATE_NUMBERS) {
        size_t bytes;
        while (split->count < digits && split->at < length &&
               class_at(text + split->at, &bytes) == BP_CHAR_NUMBER) {
            split->at += bytes;
            split->count++;
        }
        return split->count == digits || split->at < length;
    }
    return split->state == STATE_LETTERS ? token_split_run(split, text, length, BP_CHAR_LETTER)
                                         : run_spaces(split, text, length);
}

/* A run of spaces is over: how much of it is a word. */
static size_t end_of_spaces(const bp_split *split, bool lines, bool something_follows)
{
    if (lines && split->newline > 0) {
        return split->newline;
    }
    return something_follows && split->mark > 0 ? split->mark : split->at;
}

static bool split_pattern(const bp_tokenizer *tokenizer, bp_split *split, const unsigned char *text,
                          size_t length, bool final, size_t *end)
{
    bp_split_rule rule = tokenizer->rules.split;
    bool digits = rule == BP_SPLIT_DIGITS;
    bool clip = rule == BP_SPLIT_CLIP;
    bool lines = rule != BP_SPLIT_GPT2 && !clip && !digits;
    bool cases = rule == BP_SPLIT_TEKKEN || rule == BP_SPLIT_GPT4O;
    bool single = rule == BP_SPLIT_QWEN2 || rule == BP_SPLIT_TEKKEN;
    if (split->state == STATE_START && cases) {
        *end = start_cases(tokenizer, text, length, final);
        if (*end != 0) {
            return *end != MORE;
        }
    }
    if (split->state == STATE_START) {
        *end = clip    ? start_clip(split, text, length, final)
               : lines ? start_llama(split, text, length, final)
                       : start_gpt2(split, text, length, digits, final);
        if (*end != 0) {
            return *end != MORE;
        }
    }
    bool stopped = lines ? next_llama(split, text, length, single ? 1 : 3, cases)
                         : next_gpt2(split, text, length);
    if (!stopped && !final) {
        return false;
    }
    size_t bytes;
    if (stopped && digits && class_at(text + split->at, &bytes) == BP_CHAR_NUMBER) {
        stopped = false; /* the text between digits ends here */
    }
    *end = split->state == STATE_SPACES ? end_of_spaces(split, lines, stopped) : split->at;
    return true;
}

/* U+2581 is counted as a byte of its own, which UTF-8 does not use: its bytes are those of too many
 * other characters. */
static bool is_meta(const unsigned char *text)
{
    return text[0] == 0xe2 && text[1] == 0x96 && text[2] == 0x81;
}

static bool split_whole(const bp_tokenizer *tokenizer, bp_split *split, const unsigned char *text,
                        size_t length, bool final, size_t *end)
{
    bool bytes = tokenizer->rules.kind != BP_TOKENIZER_CHAR_BPE;
    if (tokenizer->rules.kind == BP_TOKENIZER_UNIGRAM || tokenizer->rules.native) {
        *end = length;
        return final;
    }
    if (tokenizer->merge_count == 0) {
        *end = length;
        return true;
    }
    while (split->at < length) {
        size_t step = 1;
        unsigned char first = text[split->at];
        unsigned char last = first;
        if (!bytes && first >= 0x80) {
            (void)bp_utf8_get(text + split->at, &step);
            last = text[split->at + step - 1];
            if (step == 3 && is_meta(text + split->at)) {
                first = last = 0xff;
            }
        }
        size_t bit = split->mark * 256 + first;
        if (split->at > 0 && (tokenizer->bridges[bit / 64] >> bit % 64 & 1) == 0) {
            *end = split->at;
            return true;
        }
        split->mark = last;
        split->at += step;
    }
    *end = length;
    return final;
}

/* `runs`: U+2581 behind U+2581 stays with it. */
static bool split_meta(bp_split *split, const unsigned char *text, size_t length, bool final,
                       bool runs, size_t *end)
{
    while (split->at < length) {
        size_t step;
        (void)bp_utf8_get(text + split->at, &step);
        const bool meta = step == 3 && is_meta(text + split->at);
        if (split->at > 0 && meta && (!runs || split->mark == 0)) {
            *end = split->at;
            return true;
        }
        split->mark = meta ? 1 : 0;
        split->at += step;
    }
    *end = length;
    return final;
}

/* 0: part of a word; 1: a space; 2: punctuation. */
static uint32_t bert_class(const unsigned char *text, size_t *length)
{
    uint32_t c = bp_utf8_get(text, length);
    if (c < 0x80 ? ascii[c] == BP_CHAR_SPACE : bp_char_class_of(c) == BP_CHAR_SPACE) {
        return 1;
    }
    return bp_char_is_punctuation(c) ? 2 : 0;
}

/* A word, one character of punctuation, or a run of spaces. */
static bool split_bert(bp_split *split, const unsigned char *text, size_t length, bool final,
                       size_t *end)
{
    size_t step;
    uint32_t first = bert_class(text, &step);
    if (first == 2) {
        *end = step;
        return true;
    }
    while (split->at < length) {
        if (bert_class(text + split->at, &step) != first) {
            *end = split->at;
            return true;
        }
        split->at += step;
    }
    *end = length;
    return final;
}

bool bp_split_next(const bp_tokenizer *tokenizer, bp_split *split, const unsigned char *text,
                   size_t length, bool final, size_t *end)
{
    switch (tokenizer->rules.split) {
    case BP_SPLIT_WHOLE:
        return split_whole(tokenizer, split, text, length, final, end);
    case BP_SPLIT_META:
        return split_meta(split, text, length, final, false, end);
    case BP_SPLIT_SPACES:
        return split_meta(split, text, length, final, true, end);
    case BP_SPLIT_BERT:
        return split_bert(split, text, length, final, end);
    default:
        return split_pattern(tokenizer, split, text, length, final, end);
    }
}
