/* SPDX-License-Identifier: MIT */
/* SentencePiece's models field by field: what each does to a text, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/fixtures/formats/tokenizer_fixture.h"

#define META "\xe2\x96\x81"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
enum { PIECES = 1, TRAINER, NORMALIZER };

/* A message of the protocol buffers. */
typedef struct message {
    unsigned char bytes[1024];
    size_t size;
} message;

static void put_number(message *m, uint64_t number)
{
    for (; number >= 0x80; number >>= 7) {
        m->bytes[m->size++] = (unsigned char)(number | 0x80);
    }
    m->bytes[m->size++] = (unsigned char)number;
}

static void put_field(message *m, unsigned field, uint64_t number)
{
    put_number(m, field << 3);
    put_number(m, number);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t size)
{
    assert_true(m->size + size + 8 < sizeof m->bytes);
    put_number(m, field << 3 | 2);
    put_number(m, size);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

/* A piece with the score -1, or -2 where it is `rare`. */
static void put_piece(message *m, const char *text, uint64_t type, bool rare)
{
    static const unsigned char scores[2][5] = {{0x15, 0, 0, 0x80, 0xbf}, {0x15, 0, 0, 0, 0xc0}};
    message piece = {.size = 0};
    put_bytes(&piece, 1, text, strlen(text));
    memcpy(piece.bytes + piece.size, scores[rare], 5);
    piece.size += 5;
    put_field(&piece, 3, type);
    put_bytes(m, PIECES, piece.bytes, piece.size);
}

/* <unk> and three pieces, ids 0 to 3. */
static void put_few(message *m)
{
    put_piece(m, "<unk>", UNKNOWN, false);
    put_piece(m, META "a", NORMAL, false);
    put_piece(m, "a", NORMAL, true);
    put_piece(m, META, NORMAL, true);
}

static void put_model(tokenizer_fixture *d, const char *name, const message *m)
{
    memory_store_put(&d->memory, name, m->bytes, m->size);
}

static bp_split_rule split; /* of the last model that was read */

static void has_ids(const message *m, const char *text, const uint32_t *ids, size_t count)
{
    tokenizer_fixture d;
    fixture_init(&d);
    put_model(&d, "tokenizer.model", m);
    if (fixture_open(&d) != BP_OK) {
        fail_msg("%s: %s", d.error.name, d.error.text);
    }
    split = d.tokenizer.rules.split;
    fixture_encoder(&d, 512);
    fixture_encode(&d, text, BP_ENCODE_PLAIN);
    assert_int_equal(d.count, count);
    assert_memory_equal(d.ids, ids, count * sizeof *ids);
    fixture_free(&d);
}

static void is_refused(const message *m, const char *name, const char *said)
{
    tokenizer_fixture d;
    fixture_init(&d);
    put_model(&d, name, m);
    fixture_refused(&d, said);
    fixture_free(&d);
}

/* The settings of normalizer_spec; a field of another kind is passed over. */
/* verifies formats-3.2920 */
static void settings_of_the_normalizer(void **state)
{
    (void)state;
    static const struct {
        unsigned field;
        uint64_t value;
        bool bytes; /* the field holds bytes instead */
        uint32_t ids[4];
        size_t count;
    } rows[] = {
        {3, 1, false, {1}, 1},    /* a space is put before the text */
        {3, 0, false, {2}, 1},    /* or not */
        {3, 0, true, {1}, 1},     /* said in another way it is nothing */
        {4, 1, false, {1}, 1},    /* spaces at the end are dropped */
        {4, 0, false, {1, 3}, 2}, /* or not */
        {4, 0, true, {1}, 1},     /* as above */
        {5, 1, false, {1}, 1},    /* spaces become U+2581, */
        {5, 0, true, {1}, 1},     /* as above */
        {9, 1, false, {1}, 1},    /* what is not known is passed over */
        {2, 0, true, {1}, 1},     /* an empty map of characters is none */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message m = {.size = 0}, settings = {.size = 0};
        put_few(&m);
        if (rows[i].bytes) {
            put_bytes(&settings, rows[i].field, "xyz", rows[i].field == 2 ? 0 : 3);
        } else {
            put_field(&settings, rows[i].field, rows[i].value);
        }
        put_bytes(&m, NORMALIZER, settings.bytes, settings.size);
        has_ids(&m, rows[i].field == 4 ? "a " : "a", rows[i].ids, rows[i].count);
    }
}

/* verifies formats-4.b9c7 */
static void settings_that_are_not_implemented(void **state)
{
    (void)state;
    static const struct {
        unsigned part, field;
        uint64_t value;
        const char *said; /* NULL: it is read */
    } rows[] = {
        {NORMALIZER, 5, 0, "escape_whitespaces: only true"},
        {TRAINER, 24, 1, "treat_whitespace_as_suffix: only false"},
        {TRAINER, 24, 0, NULL},
        {TRAINER, 3, 1, NULL},
        {TRAINER, 3, 0, "model_type: only the types"},
        {TRAINER, 3, 4, "model_type: only the types"},
        {TRAINER, 99, 7, NULL},
    };
    static const uint32_t ids[] = {1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message m = {.size = 0}, settings = {.size = 0};
        put_few(&m);
        put_field(&settings, rows[i].field, rows[i].value);
        put_bytes(&m, rows[i].part, settings.bytes, settings.size);
        if (rows[i].said != NULL) {
            is_refused(&m, "tokenizer.model", rows[i].said);
        } else {
            has_ids(&m, "a", ids, 1);
        }
    }
    /* Two maps: what is measured is the last one's. */
    message m = {.size = 0}, maps = {.size = 0};
    put_few(&m);
    put_bytes(&maps, 2, "\1\0\0\0\0\0\0\0abcd", 12);
    put_bytes(&maps, 2, "\1\0\0\0", 4);
    put_bytes(&m, NORMALIZER, maps.bytes, maps.size);
    is_refused(&m, "tokenizer.model", "map");
}

/* A piece with a space inside makes a text one word; runs of spaces alone do not. */
/* verifies formats-3.2920 */
static void pieces_with_spaces_inside(void **state)
{
    (void)state;
    static const uint32_t whole[] = {4}, runs[] = {1, 4};
    message m = {.size = 0};
    put_few(&m);
    put_piece(&m, META "a" META "a", NORMAL, false);
    has_ids(&m, "a a", whole, 1);
    assert_int_equal(split, BP_SPLIT_WHOLE);
    m.size = 0;
    put_few(&m);
    put_piece(&m, META META, NORMAL, false);
    put_bytes(&m, NORMALIZER, "\x20", 2); /* remove_extra_whitespaces is false */
    has_ids(&m, "a  ", runs, 2);
    /* That of a special token is none. */
    static const uint32_t words[] = {1, 1};
    m.size = 0;
    put_few(&m);
    put_piece(&m, "x" META "y", CONTROL, false);
    has_ids(&m, "a a", words, 2);
    assert_int_equal(split, BP_SPLIT_SPACES);
    /* One that is not used is never found. */
    static const uint32_t parts[] = {1, 2};
    m.size = 0;
    put_piece(&m, "<unk>", UNKNOWN, false);
    put_piece(&m, META "a", NORMAL, false);
    put_piece(&m, "a", NORMAL, true);
    put_piece(&m, META "aa", UNUSED, false);
    put_piece(&m, "b", NORMAL, false);
    has_ids(&m, "aa", parts, 2);
}

/* verifies formats-4.b9c7 */
static void pieces_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t type;
        const char *said;
    } rows[] = {
        {"b", 0, "a score that is a number and a known type"},
        {"b", 7, "a score that is a number and a known type"},
        {"<0x0>", BYTE, "not spelt as <0xFF>"},
        {"<0x000>", BYTE, "not spelt as <0xFF>"},
        {"[0x00]", BYTE, "not spelt as <0xFF>"},
        {"<0x00)", BYTE, "not spelt as <0xFF>"},
        {"<0x/0>", BYTE, "not spelt as <0xFF>"},
        {"<0x:0>", BYTE, "not spelt as <0xFF>"},
        {"<0x0G>", BYTE, "not spelt as <0xFF>"},
        {"<0x0a>", BYTE, "not spelt as <0xFF>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        message m = {.size = 0};
        put_few(&m);
        put_piece(&m, rows[i].text, rows[i].type, false);
        is_refused(&m, "tokenizer.model", rows[i].said);
    }
}

/* verifies formats-4.b9c7 */
static void xlm_r_begins_with_three_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t type;
    } wrong[][3] = {
        {{"<unk>", NORMAL}, {"<s>", CONTROL}, {"</s>", CONTROL}},
        {{"<unk>", UNKNOWN}, {"<s>", NORMAL}, {"</s>", CONTROL}},
        {{"<unk>", UNKNOWN}, {"<sss>", CONTROL}, {"</s>", CONTROL}},
        {{"<unk>", UNKNOWN}, {"<s>", CONTROL}, {"<ss>", CONTROL}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        message m = {.size = 0};
        for (size_t k = 0; k < 3; k++) {
            put_piece(&m, wrong[i][k].text, wrong[i][k].type, false);
        }
        is_refused(&m, "sentencepiece.bpe.model", "XLM-R's begin with <unk>, <s> and </s>");
    }
}

/* Fields of the file that are no part of it, and numbers of other widths, are passed over. */
static void other_fields_are_passed_over(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1};
    static const unsigned char wide[] = {4 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8}, /* eight bytes */
        narrow[] = {1 << 3 | 5, 1, 2, 3, 4}, group[] = {4 << 3 | 3};
    message m = {.size = 0};
    put_few(&m);
    put_bytes(&m, 4, "self_test_data", 14);
    put_field(&m, 1, 5);
    memcpy(m.bytes + m.size, wide, sizeof wide);
    memcpy(m.bytes + m.size + sizeof wide, narrow, sizeof narrow);
    m.size += sizeof wide + sizeof narrow;
    has_ids(&m, "a", ids, 1);
    memcpy(m.bytes + m.size, group, sizeof group);
    m.size += sizeof group;
    is_refused(&m, "tokenizer.model", "no model of SentencePiece");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_of_the_normalizer),
        cmocka_unit_test(settings_that_are_not_implemented),
        cmocka_unit_test(pieces_with_spaces_inside),
        cmocka_unit_test(pieces_that_are_none),
        cmocka_unit_test(xlm_r_begins_with_three_names),
        cmocka_unit_test(other_fields_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
