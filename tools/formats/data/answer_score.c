/* SPDX-License-Identifier: MIT */
/* Comparing answers. */
#include "tools/formats/data/answer_score.h"

#include <string.h>

#include "tools/formats/unicode/unicode.h"

/* Python's string.punctuation. */
static bool is_punctuation(uint32_t c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

static bool is_word(uint32_t c)
{
    const bp_char_class class = bp_char_class_of(c);
    return class == BP_CHAR_LETTER || class == BP_CHAR_NUMBER;
}

/* Whether what lies from `start` to the end is an article. */
static bool is_article(const bp_plain_answer *p, size_t start)
{
    static const char *const articles[] = {"a", "an", "the"};
    const size_t length = p->bytes - start;
    bool is = false;
    for (size_t i = 0; i < 3; i++) {
        is = is ||
             (strlen(articles[i]) == length && memcmp(articles[i], p->text + start, length) == 0);
    }
    return is;
}

static void put_space(bp_plain_answer *p)
{
    if (p->bytes > 0 && p->text[p->bytes - 1] != ' ') {
        p->text[p->bytes++] = ' ';
        p->words++;
    }
}

/* Where a run of letters and numbers ends, which began at `start`: an article becomes a space. */
static void end_run(bp_plain_answer *p, size_t start)
{
    if (p->bytes > start && is_article(p, start)) {
        p->bytes = start;
        put_space(p);
    }
}

void bp_plain_answer_of(const char *text, size_t length, bp_plain_answer *plain)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t start = 0; /* of the run of letters and numbers */
    plain->bytes = 0;
    plain->words = 0;
    for (size_t at = 0, step; at < length && plain->bytes < BP_ANSWER_BYTES - 8; at += step) {
        const uint32_t c = bp_char_lower(bp_utf8_get(bytes + at, &step));
        const bool word = is_word(c);
        if (is_punctuation(c)) {
            continue; /* is gone before words are told apart */
        }
        if (!word) {
            end_run(plain, start);
        }
        if (bp_char_class_of(c) == BP_CHAR_SPACE) {
            put_space(plain);
        } else {
            plain->bytes += bp_utf8_put(c, (unsigned char *)plain->text + plain->bytes);
        }
        start = word ? start : plain->bytes;
    }
    end_run(plain, start);
    put_space(plain);
}

double bp_answer_exact(const bp_plain_answer *a, const bp_plain_answer *b)
{
    return a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0 ? 1.0 : 0.0;
}

/* Bytes of the word at `at`, its space included. */
static size_t word_at(const bp_plain_answer *p, size_t at)
{
    const char *space = memchr(p->text + at, ' ', p->bytes - at);
    return space != NULL ? (size_t)(space - (p->text + at)) + 1 : p->bytes - at;
}

/* How often a word stands in the first `end` bytes. */
static uint32_t count_word(const bp_plain_answer *p, size_t end, const char *word, size_t length)
{
    uint32_t count = 0;
    for (size_t at = 0, n; at < end; at += n) {
        n = word_at(p, at);
        count += n == length && memcmp(p->text + at, word, n) == 0 ? 1 : 0;
    }
    return count;
}

double bp_answer_f1(const bp_plain_answer *a, const bp_plain_answer *b)
{
    uint32_t common = 0;
    if (a->words == 0 || b->words == 0) {
        return a->words == b->words ? 1.0 : 0.0;
    }
    /* The n-th time a word stands in a it is common where b has it n times. */
    for (size_t at = 0, n; at < a->bytes; at += n) {
        n = word_at(a, at);
        const char *word = a->text + at;
        const uint32_t before = count_word(a, at, word, n);
        common += count_word(b, b->bytes, word, n) > before ? 1 : 0;
    }
    return 2.0 * common / ((double)a->words + (double)b->words);
}
