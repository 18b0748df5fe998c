/* SPDX-License-Identifier: MIT */
/* Characters, with utf8proc's tables. Nothing called here allocates. */
#include "tools/formats/unicode/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "tools/formats/unicode/unicode_ranges.h"

static bool unicode_has(const bp_unicode_ranges *ranges, uint32_t c)
{
    const uint32_t *rows = ranges->rows;
    size_t low = 0;
    size_t high = ranges->count;
    while (low < high) { /* the last range that begins at c or before it */
        size_t middle = low + (high - low) / 2;
        bool before = rows[middle] >> 11 <= c;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low > 0 && c - (rows[low - 1] >> 11) <= (rows[low - 1] & 0x7ff);
}

/* Whether c is in one of these, which are in order. */
static bool in_ranges(const uint32_t ranges[][2], size_t count, uint32_t c)
{
    size_t i = 0;
    while (i < count && c > ranges[i][1]) {
        i++;
    }
    return i < count && c >= ranges[i][0];
}

bp_char_class bp_char_class_of(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return BP_CHAR_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return BP_CHAR_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return BP_CHAR_SPACE;
    case UTF8PROC_CATEGORY_CN:
        return unicode_has(&bp_unicode_letters, c)   ? BP_CHAR_LETTER
               : unicode_has(&bp_unicode_numbers, c) ? BP_CHAR_NUMBER
                                                     : BP_CHAR_OTHER;
    default:
        return (c >= 0x09 && c <= 0x0d) || c == 0x85 ? BP_CHAR_SPACE : BP_CHAR_OTHER;
    }
}

bp_char_case bp_char_case_of(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
        return BP_CASE_UPPER;
    case UTF8PROC_CATEGORY_LL:
        return BP_CASE_LOWER;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return BP_CASE_BOTH;
    default:
        return bp_char_class_of(c) == BP_CHAR_LETTER ? BP_CASE_BOTH : BP_CASE_NONE;
    }
}

/* Marks and digits that Unicode 16 has and 15 has not. */
static bool is_newer_word(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0x897, 0x897},     {0x10d40, 0x10d49}, {0x10d69, 0x10d6d}, {0x10efc, 0x10efc},
        {0x113b8, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca},
        {0x113cc, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2}, {0x116d0, 0x116e3},
        {0x11bf0, 0x11bf9}, {0x11f5a, 0x11f5a}, {0x1611e, 0x16139}, {0x16d70, 0x16d79},
        {0x1ccf0, 0x1ccf9}, {0x1e5ee, 0x1e5ef}, {0x1e5f1, 0x1e5fa}};
    return in_ranges(ranges, sizeof ranges / sizeof ranges[0], c);
}

bool bp_char_is_word(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    case UTF8PROC_CATEGORY_SO:
        return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
               (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    default:
        return c == 0x200c || c == 0x200d || bp_char_class_of(c) == BP_CHAR_LETTER ||
               is_newer_word(c);
    }
}

bool bp_char_is_punctuation(uint32_t c)
{
    if (c < 0x80) {
        return (c > 0x20 && c < 0x30) || (c > 0x39 && c < 0x41) || (c > 0x5a && c < 0x61) ||
               (c > 0x7a && c < 0x7f);
    }
    return unicode_has(&bp_unicode_punctuation, c);
}

bool bp_char_is_control(uint32_t c)
{
    static const uint32_t formats[][2] = {
        {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},
        {0x70f, 0x70f},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x202a, 0x202e},
        {0x2060, 0x2064},   {0x2066, 0x206f},   {0xe000, 0xf8ff},   {0xfeff, 0xfeff},
        {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
        {0xe0001, 0xe0001}, {0xe0020, 0xe007f}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd}};
    if (c < 0xa0) {
        return (c < 0x20 || c >= 0x7f) && c != '\t' && c != '\n' && c != '\r';
    }
    return in_ranges(formats, sizeof formats / sizeof formats[0], c);
}

bool bp_char_is_ideograph(uint32_t c)
{
    /* The ranges of the tokenizers library, whose 2b920 is BERT's 2b820. */
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

bool bp_char_is_mark(uint32_t c)
{
    return c >= 0x300 && unicode_has(&bp_unicode_marks, c);
}

bool bp_char_breaks(uint32_t before, uint32_t c, int32_t *state)
{
    utf8proc_int32_t own = *state;
    const bool breaks =
        utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &own);
    *state = own;
    return breaks;
}

static uint32_t lower_of(uint32_t c)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

uint32_t bp_char_lower(uint32_t c)
{
    /* Of Unicode 16 and 17. */
    if (c >= 0xa7cb && c <= 0xa7dc) {
        bool even = c == 0xa7cc || c == 0xa7ce || c == 0xa7d2 || c == 0xa7d4 || c == 0xa7da;
        return c == 0xa7cb ? 0x264 : c == 0xa7dc ? 0x19b : even ? c + 1 : lower_of(c);
    }
    if (c >= 0x10d50 && c <= 0x10d65) {
        return c + 0x20;
    }
    if (c >= 0x16ea0 && c <= 0x16eb8) {
        return c + 0x1b;
    }
    return c == 0x1c89 ? 0x1c8a : lower_of(c);
}

/* Whether c has a compatible decomposition that the tokenizers library's tables, which are older,
 * have not. */
static bool is_newer_compatible(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xab69, 0xab69},
        {0x10781, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
        {0x1e030, 0x1e06d}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};
    return in_ranges(ranges, sizeof ranges / sizeof ranges[0], c);
}

size_t bp_char_decompose(uint32_t c, uint32_t parts[BP_CHAR_PARTS])
{
    utf8proc_int32_t found[BP_CHAR_PARTS];
    int boundary = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char(
        (utf8proc_int32_t)c, found, BP_CHAR_PARTS, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
    if (count < 1 || count > BP_CHAR_PARTS) {
        parts[0] = c;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        parts[i] = (uint32_t)found[i];
    }
    return (size_t)count;
}

size_t bp_char_decompose_compatible(uint32_t c, uint32_t *parts)
{
    utf8proc_int32_t found[BP_CHAR_PARTS_MOST];
    int boundary = 0;
    const utf8proc_ssize_t count =
        is_newer_compatible(c)
            ? 0
            : utf8proc_decompose_char((utf8proc_int32_t)c, found, BP_CHAR_PARTS_MOST,
                                      UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
                                      &boundary);
    if (count < 1 || count > BP_CHAR_PARTS_MOST) {
        parts[0] = c;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        parts[i] = (uint32_t)found[i];
    }
    return (size_t)count;
}

size_t bp_char_decompose_bert(uint32_t c, uint32_t parts[BP_CHAR_PARTS])
{
    bool known = c <= 0xffff || (c >= 0x1109a && c <= 0x1134c) || (c >= 0x114bb && c <= 0x115bb) ||
                 (c >= 0x1d15e && c <= 0x1d1c0) || (c >= 0x2f800 && c <= 0x2fa1d);
    parts[0] = c;
    return known ? bp_char_decompose(c, parts) : 1;
}

bool bp_char_begins(uint32_t c)
{
    if (c < 0x300) {
        return true;
    }
    /* Vowels and finals of Hangul join the syllable before them. */
    if ((c >= 0x1161 && c <= 0x1175) || (c >= 0x11a8 && c <= 0x11c2)) {
        return false;
    }
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
    if (property->combining_class != 0) {
        return false;
    }
    /* A mark of class 0 may still compose with what is before it, as Bengali's vowel signs do. */
    return property->category != UTF8PROC_CATEGORY_MC && property->category != UTF8PROC_CATEGORY_MN;
}

static uint32_t unicode_class_of(uint32_t c)
{
    return (uint32_t)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

/* Canonical order: marks by their class, those of one class as they came, never past a character
 * of class 0. */
static void order_marks(uint32_t *characters, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t c = characters[i];
        uint32_t class = unicode_class_of(c);
        size_t at = i;
        while (class > 0 && at > 0 && unicode_class_of(characters[at - 1]) > class) {
            characters[at] = characters[at - 1];
            at--;
        }
        characters[at] = c;
    }
}

size_t bp_char_compose(uint32_t *characters, size_t count)
{
    order_marks(characters, count);
    utf8proc_int32_t *signed_characters = (utf8proc_int32_t *)characters;
    utf8proc_ssize_t left = utf8proc_normalize_utf32(signed_characters, (utf8proc_ssize_t)count,
                                                     UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return left < 0 ? count : (size_t)left;
}

size_t bp_utf8_put(uint32_t c, unsigned char *to)
{
    if (c < 0x80) {
        to[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (unsigned char)(0xc0 | c >> 6);
        to[1] = (unsigned char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (unsigned char)(0xe0 | c >> 12);
        to[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (unsigned char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (unsigned char)(0xf0 | c >> 18);
    to[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (unsigned char)(0x80 | (c & 0x3f));
    return 4;
}

/* Bytes of the character that `lead` begins; 0 when it begins none. */
static uint8_t length_of(unsigned char lead)
{
    return lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

/* The Unicode Standard, table 3-7: only the second byte has more limits than 80..bf. */
static bool continues(const bp_utf8_cleaner *cleaner, unsigned char byte)
{
    unsigned char least = 0x80;
    unsigned char most = 0xbf;
    if (cleaner->have == 1) {
        switch (cleaner->part[0]) {
        case 0xe0:
            least = 0xa0;
            break;
        case 0xed:
            most = 0x9f;
            break;
        case 0xf0:
            least = 0x90;
            break;
        case 0xf4:
            most = 0x8f;
            break;
        default:
            break;
        }
    }
    return byte >= least && byte <= most;
}

/* Takes one byte at the beginning of a character; returns the bytes written. */
static size_t begin_character(bp_utf8_cleaner *cleaner, unsigned char byte, unsigned char *to)
{
    if (byte < 0x80) {
        to[0] = byte;
        return 1;
    }
    cleaner->want = length_of(byte);
    if (cleaner->want == 0) {
        return bp_utf8_put(BP_CHAR_REPLACEMENT, to);
    }
    cleaner->part[0] = byte;
    cleaner->have = 1;
    return 0;
}

static size_t clean_byte(bp_utf8_cleaner *cleaner, unsigned char byte, unsigned char *to)
{
    if (cleaner->have == 0) {
        return begin_character(cleaner, byte, to);
    }
    if (!continues(cleaner, byte)) {
        size_t put = bp_utf8_clean_end(cleaner, to);
        return put + begin_character(cleaner, byte, to + put);
    }
    cleaner->part[cleaner->have++] = byte;
    if (cleaner->have < cleaner->want) {
        return 0;
    }
    cleaner->have = 0;
    memcpy(to, cleaner->part, cleaner->want);
    return cleaner->want;
}

size_t bp_utf8_clean(bp_utf8_cleaner *cleaner, const unsigned char *from, size_t count,
                     unsigned char *to, size_t room, size_t *used)
{
    size_t put = 0;
    size_t at = 0;
    while (at < count && room - put >= 8) {
        uint64_t word;
        if (cleaner->have == 0 && count - at >= 8) {
            memcpy(&word, from + at, 8);
            if ((word & 0x8080808080808080u) == 0) {
                memcpy(to + put, &word, 8);
                at += 8;
                put += 8;
                continue;
            }
        }
        put += clean_byte(cleaner, from[at++], to + put);
    }
    *used = at;
    return put;
}

size_t bp_utf8_clean_end(bp_utf8_cleaner *cleaner, unsigned char *to)
{
    bool part = cleaner->have > 0;
    cleaner->have = 0;
    return part ? bp_utf8_put(BP_CHAR_REPLACEMENT, to) : 0;
}
