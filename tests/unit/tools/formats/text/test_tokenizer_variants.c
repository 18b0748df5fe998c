/* SPDX-License-Identifier: MIT */
/* What the implemented settings of a tokenizer.json do to a text. Documents are written with ' for
 * ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixtures/formats/tokenizer_fixture.h"
#include "tools/formats/data/data_tokenise.h"
#include "tools/formats/unicode/unicode.h"

#define META   "\xe2\x96\x81"
#define MARK   256 /* META's id, and those of two more tokens */
#define A_MARK 257
#define ADDED  300

static void put_quoted(tokenizer_fixture *d, const char *name, const char *text)
{
    static char json[JSON_MAX];
    size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    fixture_put(d, name, json);
}

/* A tokenizer over characters: bytes 0 .. 255 as <0x00> .. <0xFF>, and more. */
static void put_characters(tokenizer_fixture *d, const char *settings, const char *more,
                           const char *merges)
{
    static char json[JSON_MAX];
    size_t at = (size_t)snprintf(
        json, sizeof json, "{%s'model':{'type':'BPE','byte_fallback':true,'vocab':{", settings);
    for (unsigned byte = 0; byte < 256; byte++) {
        at += (size_t)snprintf(json + at, sizeof json - at, "'<0x%02X>':%u,", byte, byte);
    }
    snprintf(json + at, sizeof json - at, "'" META "':256%s},'merges':[%s]}}", more, merges);
    put_quoted(d, "tokenizer.json", json);
}

static void opens(tokenizer_fixture *d)
{
    if (fixture_open(d) != BP_OK) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
    fixture_encoder(d, BP_ENCODER_WORD_MIN);
}

static void gives(tokenizer_fixture *d, const char *text, const uint32_t *ids, size_t count)
{
    fixture_encode(d, text, BP_ENCODE_PLAIN);
    if (d->count != count || memcmp(d->ids, ids, count * sizeof *ids) != 0) {
        for (size_t i = 0; i < d->count; i++) {
            print_message("%u ", d->ids[i]);
        }
        fail_msg("are the ids of \"%s\"", text);
    }
}

#define GIVES(d, text, ...)                                                                        \
    gives(d, text, (const uint32_t[]){__VA_ARGS__},                                                \
          sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void reads_as(tokenizer_fixture *d, const uint32_t *ids, size_t count, const char *wanted)
{
    char all[256] = "";
    size_t used = 0;
    bp_decoder decoder = {.begun = false};
    for (size_t i = 0; i < count; i++) {
        char text[BP_TOKENIZER_DECODED_MAX];
        size_t length;
        assert_int_equal(bp_decoder_next(&decoder, &d->tokenizer, ids[i], text, &length), BP_OK);
        assert_true(used + length < sizeof all);
        memcpy(all + used, text, length);
        used += length;
    }
    assert_string_equal(all, wanted);
}

#define READS_AS(d, wanted, ...)                                                                   \
    reads_as(d, (const uint32_t[]){__VA_ARGS__},                                                   \
             sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), wanted)

#define SPACES "'pre_tokenizer':{'type':'Metaspace','replacement':'" META "'"
#define TOKEN  "'added_tokens':[{'id':300,'content':'<s>','special':true}],"

/* verifies formats-29.15c2 */
static void metaspace_puts_a_mark_where_its_scheme_says(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        bool first, later; /* a mark before the text, and before what follows an added token */
    } cases[] = {
        {"},", true, true},
        {",'add_prefix_space':true},", true, true},
        {",'add_prefix_space':false},", false, false},
        {",'prepend_scheme':'always'},", true, true},
        {",'prepend_scheme':'never'},", false, false},
        {",'prepend_scheme':'first'},", true, false},
        {",'prepend_scheme':'first','add_prefix_space':true},", true, false},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char settings[256];
        snprintf(settings, sizeof settings, TOKEN SPACES "%s", cases[i].more);
        put_characters(&d, settings, "", "");
        opens(&d);
        if (cases[i].first && cases[i].later) {
            GIVES(&d, "a<s>b", MARK, 'a', ADDED, MARK, 'b');
        } else if (cases[i].first) {
            GIVES(&d, "a<s>b", MARK, 'a', ADDED, 'b');
        } else {
            GIVES(&d, "a<s>b", 'a', ADDED, 'b');
        }
        GIVES(&d, " a<s> b", MARK, 'a', ADDED, MARK, 'b'); /* a space is one already */
        GIVES(&d, META "a", MARK, 'a');
    }
    fixture_free(&d);
}

/* verifies formats-29.15c2 */
static void metaspace_may_split_or_not(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    put_characters(&d, SPACES "},", ",'a':301,'a" META "':257", "'a " META "'");
    opens(&d);
    GIVES(&d, "a a", MARK, 301, MARK, 301);
    put_characters(&d, SPACES ",'split':false},", ",'a':301,'a" META "':257", "'a " META "'");
    opens(&d);
    GIVES(&d, "a a", MARK, A_MARK, 301);
    fixture_free(&d);
}

/* Where a token of the fallback is part of a merge, what is around any character may merge. */
/* verifies formats-29.15c2 */
static void merges_of_fallback_tokens(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    put_characters(&d, SPACES ",'prepend_scheme':'never'},", ",'a':301,'<0xC3><0xA9>':302",
                   "'<0xC3> <0xA9>'");
    opens(&d);
    GIVES(&d, "a\xc3\xa9", 301, 302);
    put_characters(&d, SPACES ",'prepend_scheme':'never'},", ",'a':301,'a<0xC3>':302",
                   "'a <0xC3>'");
    opens(&d);
    GIVES(&d, "a\xc3\xa9", 302, 0xa9);
    put_characters(&d, SPACES "},", ",'a':301", "'a b'");
    fixture_refused(&d, "a merge names a token that the vocabulary lacks");
    put_characters(&d, SPACES "},", ",'a':301", "['a','b']");
    fixture_refused(&d, "a merge names a token that the vocabulary lacks");
    fixture_free(&d);
}

/* verifies formats-29.15c2 */
static void decoding_characters(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    put_characters(&d,
                   "'decoder':{'type':'Metaspace','replacement':'" META
                   "','prepend_scheme':'never'}," SPACES "},",
                   ",'<0xG0>':301,'<0x0G>':302,'<0x/0>':303,'<0x000':304,'<0xc3>':305", "");
    opens(&d);
    READS_AS(&d, "  a b", MARK, MARK, 'a', MARK, 'b');
    READS_AS(&d, "<0xG0><0x0G><0x/0><0x000", 301, 302, 303, 304); /* no bytes */
    READS_AS(&d, "\xc3\xa9", 0xc3, 0xa9);
    READS_AS(&d, "\xc3\xa9", 305, 0xa9);
    put_characters(&d, "'decoder':{'type':'Metaspace','replacement':'" META "'}," SPACES "},", "",
                   "");
    opens(&d);
    READS_AS(&d, "a b", MARK, 'a', MARK, 'b');
    put_characters(&d,
                   "'decoder':{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':"
                   "'" META "'},'content':' '},{'type':'ByteFallback'},{'type':'Fuse'},{'type':"
                   "'Strip','content':' ','start':1,'stop':0}]}," SPACES "},",
                   "", "");
    opens(&d);
    READS_AS(&d, " a b", MARK, MARK, 'a', MARK, 'b');
    fixture_free(&d);
}

/* Tokens that are looked for behind a normalizer: those whose spellings are known are. */
/* verifies formats-4.b9c7 */
static void tokens_of_normalised_text_that_are_not_implemented(void **state)
{
    (void)state;
#define PREPEND "{'type':'Prepend','prepend':'" META "'}"
#define REPLACE "{'type':'Replace','pattern':{'String':' '},'content':'" META "'}"
    static const struct {
        const char *token, *normalizer;
    } cases[] = {
        {"'content':'<s>','normalized':true", PREPEND},
        {"'content':'<s>','normalized':true", REPLACE},
        {"'content':'<s>','normalized':true,'lstrip':true",
         "{'type':'Sequence','normalizers':[" PREPEND "," REPLACE "]}"},
        {"'content':'<s>','normalized':true,'rstrip':true",
         "{'type':'Sequence','normalizers':[" PREPEND "," REPLACE "]}"},
        {"'content':'< s>','normalized':true",
         "{'type':'Sequence','normalizers':[" PREPEND "," REPLACE "]}"},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char settings[512];
        snprintf(settings, sizeof settings, "'added_tokens':[{'id':300,%s}],'normalizer':%s,",
                 cases[i].token, cases[i].normalizer);
        put_characters(&d, settings, "", "");
        fixture_refused(&d, "normalized true is not implemented behind this normalizer");
    }
    char settings[9000];
    snprintf(settings, sizeof settings, "'added_tokens':[{'id':300,'content':'%08192d'}],", 0);
    put_characters(&d, settings, "", "");
    fixture_refused(&d, "the text of an added token is empty or too long");
    put_characters(&d, "'added_tokens':null," SPACES "},", "", "");
    opens(&d);
    fixture_free(&d);
}

/* ---- Added tokens beside others ---- */

/* A text that comes byte by byte. */
static void gives_slowly(tokenizer_fixture *d, const char *text, const uint32_t *ids, size_t count)
{
    const size_t length = strlen(text);
    size_t used, written;
    bool more = true;
    d->count = 0;
    bp_encoder_begin(&d->encoder, BP_ENCODE_PLAIN);
    for (size_t at = 0; at < length; at += used) {
        bp_encoder_feed(&d->encoder, text + at, 1, d->ids + d->count, IDS - d->count, &used,
                        &written);
        d->count += written;
    }
    while (more) {
        more = bp_encoder_end(&d->encoder, d->ids + d->count, IDS - d->count, &written);
        d->count += written;
    }
    assert_int_equal(d->count, count);
    assert_memory_equal(d->ids, ids, count * sizeof *ids);
}

enum { TOK = 300, KEY, ANGLE, TOK_LESS, DASH_LESS, TWICE_LESS, THRICE, K_DASH, AB };

/* Tokens of normalised text are looked for between the others, and single words among both: what
 * stands beside them decides, also where it has not come yet. */
/* verifies formats-29.15c2 */
static void added_tokens_stand_beside_others(void **state)
{
    (void)state;
#define WORD_ ",\"single_word\":true"
#define LATE_ ",\"normalized\":true"
#define NOW_  ",\"normalized\":false"
    static const char settings[] =
        "\"added_tokens\":[{\"id\":300,\"content\":\"tok\"" WORD_ LATE_
        "},{\"id\":301,\"content\":\"k9\"" NOW_ "},{\"id\":302,\"content\":\"<x>\"" WORD_ NOW_
        "},{\"id\":303,\"content\":\"tok<\"" LATE_ "},{\"id\":304,\"content\":\"-<\"" LATE_
        "},{\"id\":305,\"content\":\"a<<\"" LATE_ "},{\"id\":306,\"content\":\"<<<x>\"" NOW_
        "},{\"id\":307,\"content\":\"k-\"" WORD_ LATE_ "},{\"id\":308,\"content\":\"ab\"" WORD_ NOW_
        "}]," LEVEL;
    static const struct {
        const char *text;
        uint32_t ids[6]; /* those that are not 0 */
    } rows[] = {
        {"k9tok", {KEY, TOK}},                 /* another token is no part of a word */
        {"9tok", {'9', 't', 'o', 'k'}},        /* a digit is */
        {"tokk9", {TOK, KEY}},                 /* nor is one that follows */
        {"tokk8", {'t', 'o', 'k', 'k', '8'}},  /* but its beginning alone */
        {"tok<x>", {TOK_LESS, 'x', '>'}},      /* <x> is no single word behind a letter */
        {"-<x>", {'-', ANGLE}},                /* here it is, and goes first */
        {"-<x>a", {DASH_LESS, 'x', '>', 'a'}}, /* and here it is not */
        {"-<x>.", {'-', ANGLE, '.'}},          /* what follows is no part of a word */
        {"k-ab", {K_DASH, AB}},                /* the word behind it is another token */
        {"k-abc", {'k', '-', 'a', 'b', 'c'}},  /* which it is not after all */
        {"a<<b", {TWICE_LESS, 'b'}},           /* the other one does not begin after all */
        {"a<<<x>", {'a', THRICE}},             /* it does */
    };
    tokenizer_fixture d;
    fixture_init(&d);
    fixture_put(&d, "tokenizer.json", fixture_bpe(settings, "", ""));
    opens(&d);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t count = 0;
        while (count < 6 && rows[i].ids[count] != 0) {
            count++;
        }
        gives(&d, rows[i].text, rows[i].ids, count);
        gives_slowly(&d, rows[i].text, rows[i].ids, count);
    }
    fixture_free(&d);
}

/* Spaces wait for an added token that strips them, as many as there is room for. */
/* verifies formats-29.15c2 */
static void more_spaces_than_wait(void **state)
{
    (void)state;
    enum { MOST = 40000 };
    static char text[MOST + 3];
    static uint32_t ids[MOST + 8];
    static const size_t spaces[] = {3, 20000, MOST};
    tokenizer_fixture d;
    fixture_init(&d);
    put_characters(
        &d,
        "'added_tokens':[{'id':300,'content':'<s>','special':true,'lstrip':true}]," SPACES
        ",'prepend_scheme':'never'},",
        "", "");
    opens(&d);
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        size_t count;
        memset(text, ' ', spaces[i]);
        memcpy(text + spaces[i], "<s>", 3);
        bp_encoder_text(&d.encoder, text, spaces[i] + 3, BP_ENCODE_PLAIN, ids, MOST + 8, &count);
        assert_int_equal(ids[count - 1], ADDED);
        assert_in_range(count, i < 2 ? 1 : 2, i < 2 ? 1 : MOST);
        for (size_t k = 0; k + 1 < count; k++) {
            assert_int_equal(ids[k], MARK);
        }
    }
    fixture_free(&d);
}

/* What a template puts behind a text stays when it is cut: a separator, or an end of the text. */
/* verifies formats-29.15c2 */
static void a_template_may_end_with_the_end(void **state)
{
    (void)state;
    static const char settings[] =
        "\"added_tokens\":[{\"id\":300,\"content\":\"</s>\",\"special\":true}],"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":"
        "\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"</s>\",\"type_id\":0}}],"
        "\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\","
        "\"type_id\":0}}],\"special_tokens\":{\"</s>\":{\"id\":\"</s>\",\"ids\":[300],\"tokens\":"
        "[\"</s>\"]}}}," LEVEL;
    static const char *const configs[] = {"{\"eos_token\":\"</s>\"}", "{\"eos_token\":null}", "{}"};
    for (size_t i = 0; i < 3; i++) {
        tokenizer_fixture d;
        bool begins = true;
        uint32_t tail = 7;
        fixture_init(&d);
        fixture_put(&d, "tokenizer.json", fixture_bpe(settings, "", ""));
        fixture_put(&d, "tokenizer_config.json", configs[i]);
        opens(&d);
        bp_tokenise_template(&d.encoder, &begins, &tail);
        assert_false(begins);
        assert_int_equal(tail, i != 1 ? 1 : 0); /* no word of it: what is put there ends it */
        fixture_free(&d);
    }
}

/* ---- WordPiece ---- */

static void put_pieces(tokenizer_fixture *d, const char *settings, const char *model)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "{%s'pre_tokenizer':{'type':'BertPreTokenizer'},'model':{'type':'WordPiece',%s"
             "'vocab':{'[UNK]':0,'e':1,'\xc3\xa9':2,'E':3,'\xc3\x89':4,'ab':5,'\xe4\xb8\xad':6,"
             "'##\xe4\xb8\xad':7,'i\xcc\x87':8,'abc':9,',':10,'@@c':11,'##c':12,'<u>':13,"
             "'a\\u0001b':14,'i':15}}}",
             settings, model);
    put_quoted(d, "tokenizer.json", text);
    opens(d);
}

/* verifies formats-29.15c2 */
static void folding_letters(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        uint32_t id; /* of an E with an acute accent */
    } cases[] = {
        {"", 1},
        {"'lowercase':true,'strip_accents':null", 1},
        {"'lowercase':true,'strip_accents':true", 1},
        {"'lowercase':true,'strip_accents':false", 2},
        {"'lowercase':false,'strip_accents':true", 3},
        {"'lowercase':false,'strip_accents':false", 4},
        {"'lowercase':false,'strip_accents':null", 4},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "'normalizer':{'type':'BertNormalizer'%s%s},",
                 i > 0 ? "," : "", cases[i].settings);
        put_pieces(&d, settings, "");
        GIVES(&d, "\xc3\x89", cases[i].id);
        GIVES(&d, "E\xcc\x81", i < 3 ? 1 : i == 4 ? 3 : 0); /* the accent by itself */
    }
    /* The one letter whose lower case is two characters. */
    put_pieces(&d, "'normalizer':{'type':'BertNormalizer','strip_accents':false},", "");
    GIVES(&d, "\xc4\xb0", 8);
    put_pieces(&d, "'normalizer':{'type':'BertNormalizer'},", "");
    GIVES(&d, "\xc4\xb0", 15);
    fixture_free(&d);
}

/* verifies formats-29.15c2 */
static void cleaning_and_ideographs(void **state)
{
    (void)state;
    static const char two[] = "\xe4\xb8\xad\xe4\xb8\xad";
    tokenizer_fixture d;
    fixture_init(&d);
    put_pieces(&d, "'normalizer':{'type':'BertNormalizer'},", "");
    GIVES(&d, "a\001b", 5);
    GIVES(&d, two, 6, 6);
    put_pieces(&d, "'normalizer':{'type':'BertNormalizer','clean_text':false},", "");
    GIVES(&d, "a\001b", 14);
    put_pieces(&d, "'normalizer':{'type':'BertNormalizer','handle_chinese_chars':false},", "");
    GIVES(&d, two, 6, 7);
    fixture_free(&d);
    /* Each range of ideographs, and what is beside it. */
    static const uint32_t ranges[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                         {0x20000, 0x2a6df}, {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf},
                                         {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        assert_true(bp_char_is_ideograph(ranges[i][0]) && bp_char_is_ideograph(ranges[i][1]));
        assert_false(bp_char_is_ideograph(ranges[i][0] - 1));
        assert_false(bp_char_is_ideograph(ranges[i][1] + 1));
    }
}

/* verifies formats-29.15c2 */
static void word_pieces(void **state)
{
    (void)state;
    tokenizer_fixture d;
    fixture_init(&d);
    put_pieces(&d, "", "");
    GIVES(&d, "abc abcc", 9, 9, 12);
    READS_AS(&d, "abc , e", 5, 12, 10, 1);
    put_pieces(&d, "'decoder':{'type':'WordPiece','prefix':'##','cleanup':true},", "");
    READS_AS(&d, "ab, e", 5, 10, 1);
    put_pieces(&d, "'decoder':{'type':'WordPiece','prefix':'##','cleanup':false},", "");
    READS_AS(&d, "ab , e", 5, 10, 1);
    put_pieces(&d, "", "'max_input_chars_per_word':2,");
    GIVES(&d, "abc ab", 0, 5);
    put_pieces(&d, "", "'continuing_subword_prefix':'@@','unk_token':'<u>',");
    GIVES(&d, "abcc x", 9, 11, 13);
    /* Texts that are no token's. */
    static char text[BP_TOKENIZER_DECODED_MAX];
    memset(text, 'a', sizeof text);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, text, 0), -1);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, text, sizeof text), -1);
    assert_int_equal(bp_tokenizer_find(&d.tokenizer, "ab", 2), 5);
    assert_false(bp_tokenizer_is_special(&d.tokenizer, 999));
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metaspace_puts_a_mark_where_its_scheme_says),
        cmocka_unit_test(metaspace_may_split_or_not),
        cmocka_unit_test(merges_of_fallback_tokens),
        cmocka_unit_test(decoding_characters),
        cmocka_unit_test(tokens_of_normalised_text_that_are_not_implemented),
        cmocka_unit_test(added_tokens_stand_beside_others),
        cmocka_unit_test(more_spaces_than_wait),
        cmocka_unit_test(a_template_may_end_with_the_end),
        cmocka_unit_test(folding_letters),
        cmocka_unit_test(cleaning_and_ideographs),
        cmocka_unit_test(word_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
