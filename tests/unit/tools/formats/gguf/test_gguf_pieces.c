/* SPDX-License-Identifier: MIT */
/* SentencePiece's own models in GGUF: what readers would take otherwise, and pieces of users. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixtures/formats/gguf_fixture.h"

#define META "\xe2\x96\x81"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

typedef struct model {
    unsigned char bytes[1 << 13];
    size_t at;
} model;

static void add_piece(model *m, const char *piece, unsigned char type)
{
    const size_t length = strlen(piece);
    const unsigned char head[] = {0x0a, (unsigned char)(length + 9), 0x0a, (unsigned char)length};
    const unsigned char tail[] = {0x15, 0, 0, 0x80, 0xbf, 0x18, type};
    assert_true(m->at + length + 11 <= sizeof m->bytes);
    memcpy(m->bytes + m->at, head, sizeof head);
    memcpy(m->bytes + m->at + sizeof head, piece, length);
    memcpy(m->bytes + m->at + sizeof head + length, tail, sizeof tail);
    m->at += sizeof head + length + sizeof tail;
}

/* trainer_spec's model_type and byte_fallback, normalizer_spec's prefix and spaces. */
static void add_settings(model *m, unsigned char kind, bool fallback, bool before, bool merged)
{
    const unsigned char of[] = {0x12, 5, 0x18, kind,   0x98, 2,     fallback,
                                0x1a, 4, 0x18, before, 0x20, merged};
    memcpy(m->bytes + m->at, of, sizeof of);
    m->at += sizeof of;
}

/* normalizer_spec's character map: one unit, no texts. */
static void add_map(model *m)
{
    static const unsigned char of[] = {0x1a, 11, 0x12, 9, 4, 0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(m->bytes + m->at, of, sizeof of);
    m->at += sizeof of;
}

/* verifies formats-50.b7a1 */
static void pieces_that_readers_would_take_otherwise_are_named(void **state)
{
    (void)state;
    static const struct {
        unsigned char kind, last; /* type of the last piece */
        bool fallback, before, merged;
        unsigned bytes; /* that are pieces */
        const char *wanted;
    } rows[] = {
        {1, NORMAL, false, true, true, 0, NULL},
        {1, NORMAL, false, true, false, 0, NULL},
        {1, NORMAL, false, false, false, 0, NULL},
        {1, NORMAL, true, true, true, 0, NULL},
        {1, NORMAL, false, false, true, 0, "put one before a text"},
        {1, NORMAL, true, true, true, 1, "byte_fallback"},
        {1, NORMAL, false, true, true, 1, "unused pieces"},
        {1, UNUSED, false, true, true, 0, "unused pieces"},
        {1, CONTROL, false, true, true, 0, NULL},
        {2, NORMAL, true, true, false, 256, NULL},
        {2, USER, true, false, false, 256, NULL},
        {2, USER, true, true, false, 256, "add_dummy_prefix"},
        {2, NORMAL, true, true, true, 256, "remove_extra_whitespaces"},
        {2, NORMAL, true, true, false, 255, "byte_fallback"},
        {2, NORMAL, false, true, false, 256, "byte_fallback"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bp_model_config config = {.vocabulary = 300, .bos_token = -1, .eos_token = -1};
        model m = {.at = 0};
        tokenizer_fixture d;
        add_piece(&m, "<unk>", UNKNOWN);
        add_piece(&m, "a", NORMAL);
        for (unsigned byte = 0; byte < rows[i].bytes; byte++) {
            char piece[16];
            snprintf(piece, sizeof piece, "<0x%02X>", byte);
            add_piece(&m, piece, BYTE);
        }
        add_piece(&m, "last", rows[i].last);
        add_settings(&m, rows[i].kind, rows[i].fallback, rows[i].before, rows[i].merged);
        fixture_init(&d);
        memory_store_put(&d.memory, "tokenizer.model", m.bytes, m.at);
        if (fixture_open(&d) != BP_OK) {
            fail_msg("%zu: %s: %s", i, d.error.name, d.error.text);
        }
        const char *why = bp_gguf_tokenizer_refusal(&d.tokenizer, &config);
        if ((why == NULL) != (rows[i].wanted == NULL) ||
            (why != NULL && strstr(why, rows[i].wanted) == NULL)) {
            fail_msg("%zu: %s", i, why == NULL ? "none" : why);
        }
        assert_int_equal(gguf_fixture_put(&d, &config), why == NULL ? BP_OK : BP_ERR_USAGE);
        if (why == NULL && rows[i].kind == 2) {
            const int32_t type = rows[i].last == USER ? BP_GGUF_TOKEN_USER : BP_GGUF_TOKEN_NORMAL;
            gguf_fixture_has(&d, 0, "<unk>", BP_GGUF_TOKEN_UNKNOWN);
            gguf_fixture_has(&d, 2, "<0x00>", BP_GGUF_TOKEN_BYTE);
            gguf_fixture_has(&d, 258, "last", type);
        }
        fixture_free(&d);
    }
}

/* SentencePiece's own BPE: its pieces, those of all bytes, and one of users. */
static void open_own(tokenizer_fixture *d, const char *user, bool map)
{
    model m = {.at = 0};
    add_piece(&m, "<unk>", UNKNOWN);
    add_piece(&m, "a", NORMAL);
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[16];
        snprintf(piece, sizeof piece, "<0x%02X>", byte);
        add_piece(&m, piece, BYTE);
    }
    add_piece(&m, user, USER);
    add_settings(&m, 2, true, false, false);
    if (map) {
        add_map(&m);
    }
    fixture_init(d);
    memory_store_put(&d->memory, "tokenizer.model", m.bytes, m.at);
    if (fixture_open(d) != BP_OK) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
}

/* Readers look for pieces of users before a space is U+2581. */
/* verifies formats-7.5b71 */
static void pieces_of_users_are_spelt_with_spaces(void **state)
{
    (void)state;
    const bp_model_config config = {.vocabulary = 259, .bos_token = -1, .eos_token = -1};
    static const char *const users[][2] = {
        {"b" META "c", "b c"}, {META META "b", "  b"}, {"bcde" META, "bcde "}};
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
        tokenizer_fixture d;
        open_own(&d, users[i][0], false);
        assert_int_equal(gguf_fixture_put(&d, &config), BP_OK);
        gguf_fixture_has(&d, 258, users[i][1], BP_GGUF_TOKEN_USER);
        fixture_free(&d);
    }
}

/* verifies formats-50.b7a1 */
static void a_character_map_of_pieces_is_named(void **state)
{
    (void)state;
    const bp_model_config config = {.vocabulary = 259, .bos_token = -1, .eos_token = -1};
    tokenizer_fixture d;
    open_own(&d, "bc", true);
    const char *why = bp_gguf_tokenizer_refusal(&d.tokenizer, &config);
    assert_non_null(why);
    assert_non_null(strstr(why, "precompiled_charsmap"));
    assert_int_equal(gguf_fixture_put(&d, &config), BP_ERR_USAGE);
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_that_readers_would_take_otherwise_are_named),
        cmocka_unit_test(pieces_of_users_are_spelt_with_spaces),
        cmocka_unit_test(a_character_map_of_pieces_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
