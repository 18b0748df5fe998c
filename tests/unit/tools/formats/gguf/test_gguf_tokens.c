/* SPDX-License-Identifier: MIT */
/* Tokens in GGUF, key by key: which tokenizers have words there, what each token is called, what
 * stands around a text, and what a file gives back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/gguf_fixture.h"

#define META "\xe2\x96\x81"
#define AROUND                                                                                     \
    "{'type':'TemplateProcessing','single':[%s{'Sequence':{'id':'A','type_id':0}}%s],'pair':["     \
    "{'Sequence':{'id':'A','type_id':0}},{'Sequence':{'id':'B','type_id':1}}],"                    \
    "'special_tokens':{'[CLS]':{'id':'[CLS]','ids':[1],'tokens':['[CLS]']},"                       \
    "'[SEP]':{'id':'[SEP]','ids':[2],'tokens':['[SEP]']}}},"
#define CLS "{'SpecialToken':{'id':'[CLS]','type_id':0}}"
#define SEP "{'SpecialToken':{'id':'[SEP]','type_id':0}}"

static char json[JSON_MAX];

/* Single quotes stand for double ones. */
static const char *quoted(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    return text;
}

static void open_text(tokenizer_fixture *d, const char *text)
{
    fixture_put(d, "tokenizer.json", text);
    if (fixture_open(d) != BP_OK) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
}

/* WordPiece: what cleans text, "##" or another, what stands around a text, and more pieces. */
typedef struct words {
    const char *clean, *ideographs, *accents, *lower, *mark, *before, *behind, *special;
    const char *wanted; /* NULL: it is written */
} words;

/* `end`: the token that ends a text. */
static void open_words_of(tokenizer_fixture *d, const words *w, const char *end)
{
    char around[1024] = "null,";
    if (w->before != NULL) {
        snprintf(around, sizeof around, AROUND, w->before, w->behind);
    }
    snprintf(json, sizeof json,
             "{'added_tokens':[{'id':1,'content':'%s','special':true},"
             "{'id':6,'content':'two words','special':false,'normalized':false}],"
             "'normalizer':{'type':'BertNormalizer','clean_text':%s,'handle_chinese_chars':%s,"
             "'strip_accents':%s,'lowercase':%s},'pre_tokenizer':{'type':'BertPreTokenizer'},"
             "'post_processor':%s'model':{'type':'WordPiece','unk_token':'[UNK]',"
             "'continuing_subword_prefix':'%s','max_input_chars_per_word':100,'vocab':{'[UNK]':0,"
             "'%s':1,'%s':2,'a':3,'%sbc':4,'#':5}}}",
             w->special, w->clean, w->ideographs, w->accents, w->lower, around, w->mark, w->special,
             end, w->mark);
    open_text(d, quoted(json));
}

static void open_words(tokenizer_fixture *d, const words *w)
{
    open_words_of(d, w, "[SEP]");
}

/* verifies formats-7.5b71 */
static void words_that_readers_know_are_written(void **state)
{
    (void)state;
    static const char lowers[] = "readers of WordPiece lower-case", puts[] = "put [CLS] before";
    static const words cases[] = {
        {"true", "true", "null", "true", "##", CLS ",", "," SEP, "[CLS]", NULL},
        {"true", "true", "true", "true", "##", CLS ",", "," SEP, "[CLS]", NULL},
        {"false", "true", "null", "true", "##", CLS ",", "," SEP, "[CLS]", lowers},
        {"true", "false", "null", "true", "##", CLS ",", "," SEP, "[CLS]", lowers},
        {"true", "true", "false", "true", "##", CLS ",", "," SEP, "[CLS]", lowers},
        {"true", "true", "true", "false", "##", CLS ",", "," SEP, "[CLS]", lowers},
        {"true", "true", "null", "true", "@@", CLS ",", "," SEP, "[CLS]", "by \"##\" alone"},
        {"true", "true", "null", "true", "##", NULL, NULL, "[CLS]", puts},
        {"true", "true", "null", "true", "##", "", "," SEP, "[CLS]", puts},
        {"true", "true", "null", "true", "##", CLS ",", "", "[CLS]", puts},
        {"true", "true", "null", "true", "##", CLS "," CLS ",", "," SEP, "[CLS]", puts},
        {"true", "true", "null", "true", "##", SEP ",", "," SEP, "[CLS]", puts},
        {"true", "true", "null", "true", "##", CLS ",", "," CLS, "[CLS]", puts},
        {"true", "true", "null", "true", "##", NULL, NULL, "[cls]", puts},
    };
    const bp_model_config config = {.vocabulary = 8, .bos_token = -1, .eos_token = -1};
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_words(&d, &cases[i]);
        const char *why = bp_gguf_tokenizer_refusal(&d.tokenizer, &config);
        if ((why == NULL) != (cases[i].wanted == NULL) ||
            (why != NULL && strstr(why, cases[i].wanted) == NULL)) {
            fail_msg("%zu: %s", i, why == NULL ? "none" : why);
        }
        assert_int_equal(gguf_fixture_put(&d, &config), why == NULL ? BP_OK : BP_ERR_USAGE);
    }
    static const words bare = {"true", "true", "null", "true", "##", NULL, NULL, "[CLS]", puts};
    open_words_of(&d, &bare, "[sep]");
    assert_int_equal(d.tokenizer.special.cls, 1);
    const char *why = bp_gguf_tokenizer_refusal(&d.tokenizer, &config);
    assert_non_null(why);
    assert_non_null(strstr(why, puts));
    open_words(&d, &cases[0]);
    assert_int_equal(gguf_fixture_put(&d, &config), BP_OK);
    gguf_fixture_has(&d, 0, META "[UNK]", BP_GGUF_TOKEN_NORMAL); /* nobody added it */
    gguf_fixture_has(&d, 1, "[CLS]", BP_GGUF_TOKEN_CONTROL);
    gguf_fixture_has(&d, 3, META "a", BP_GGUF_TOKEN_NORMAL);
    gguf_fixture_has(&d, 4, "bc", BP_GGUF_TOKEN_NORMAL);
    gguf_fixture_has(&d, 5, META "#", BP_GGUF_TOKEN_NORMAL);
    gguf_fixture_has(&d, 6, "two words", BP_GGUF_TOKEN_USER);
    gguf_fixture_has(&d, 7, "[PAD7]", BP_GGUF_TOKEN_UNUSED);
    fixture_free(&d);
}

/* Bytes: what ends a text is a control token unless texts may hold it, and spaces stay. */
/* verifies formats-8.e397 */
static void bytes_are_called_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *settings, *more, *merges;
        uint32_t bos, eos;
        int32_t types[3]; /* of 'A', 'B' and the added "two words" */
    } cases[] = {
        {WHOLE, "", "", 65, 66, {BP_GGUF_TOKEN_NORMAL, BP_GGUF_TOKEN_NORMAL, 0}},
        {"\"added_tokens\":[{\"id\":257,\"content\":\"two "
         "words\",\"special\":false,\"normalized\":false}]," LEVEL,
         ",\"ab\":256",
         "\"a b\"",
         65,
         70,
         {BP_GGUF_TOKEN_CONTROL, BP_GGUF_TOKEN_NORMAL, BP_GGUF_TOKEN_USER}},
        {"\"added_tokens\":[{\"id\":257,\"content\":\"two "
         "words\",\"special\":false,\"normalized\":false}]," LEVEL,
         ",\"ab\":256",
         "\"a b\"",
         70,
         66,
         {BP_GGUF_TOKEN_NORMAL, BP_GGUF_TOKEN_CONTROL, BP_GGUF_TOKEN_USER}},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bp_model_config config = {
            .vocabulary = 258, .bos_token = cases[i].bos, .eos_token = cases[i].eos};
        open_text(&d, fixture_bpe(cases[i].settings, cases[i].more, cases[i].merges));
        assert_int_equal(gguf_fixture_put(&d, &config), BP_OK);
        gguf_fixture_has(&d, 65, "A", cases[i].types[0]);
        gguf_fixture_has(&d, 66, "B", cases[i].types[1]);
        if (cases[i].types[2] != 0) {
            gguf_fixture_has(&d, 257, "two words", cases[i].types[2]);
        }
    }
    fixture_free(&d);
}

/* Pieces: tokens of bytes, user's tokens with spaces, the first of two merges of one token. */
static void open_pieces(tokenizer_fixture *d, const char *normalizer, const char *around)
{
    size_t at = (size_t)snprintf(
        json, sizeof json,
        "{'added_tokens':[{'id':300,'content':'a b','special':false,'normalized':false},"
        "{'id':301,'content':'b "
        "','special':false,'normalized':false},{'id':1,'content':'[CLS]','special':true},"
        "{'id':2,'content':'[SEP]','special':true}],'normalizer':%s,'post_processor':%s"
        "'pre_tokenizer':null,'model':{'type':'BPE','byte_fallback':true,'fuse_unk':true,"
        "'unk_token':'<unk>','vocab':{'<unk>':0,'[CLS]':1,'[SEP]':2",
        normalizer, around);
    for (unsigned byte = 0; byte < 256; byte++) {
        at += (size_t)snprintf(json + at, sizeof json - at, ",'<0x%02X>':%u", byte, byte + 3);
    }
    snprintf(
        json + at, sizeof json - at,
        ",'a':259,'b':260,'c':261,'ab':262,'bc':263,'abc':264,'<0x4}x':265,'" META
        "':266,'d':267,'cd':268,'bcd':269,'abcd':270},'merges':['a b','b c','ab c','a bc','c d',"
        "'b cd','a bcd','ab cd','abc d']}}");
    open_text(d, quoted(json));
}

#define PREPEND "{'type':'Prepend','prepend':'" META "'},"
#define REPLACE "{'type':'Replace','pattern':{'String':' '},'content':'" META "'}"

/* verifies formats-7.5b71 */
static void pieces_are_called_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *normalizer, *before, *behind;
        int64_t bos, eos;
        int begins, ends, spaced; /* as the file says; -1: it does not */
    } cases[] = {
        {"{'type':'Sequence','normalizers':[" PREPEND REPLACE "]}", CLS ",", "", 1, 2, -1, -1, -1},
        {"{'type':'Sequence','normalizers':[" PREPEND REPLACE "]}", "", "", 1, 2, 0, -1, -1},
        /* the text begins with it, whatever the configuration leaves out */
        {"{'type':'Sequence','normalizers':[" PREPEND REPLACE "]}", CLS ",", "", -1, 2, -1, -1, -1},
        {"{'type':'Sequence','normalizers':[" PREPEND REPLACE "]}", CLS ",", "", 0, 2, 0, -1, -1},
        {"{'type':'Sequence','normalizers':[" PREPEND REPLACE "]}", CLS ",", "," SEP, 1, 2, -1, 1,
         -1},
        {"{'type':'Sequence','normalizers':[" PREPEND REPLACE "]}", CLS ",", "," SEP, 1, -1, -1, -1,
         -1},
        {"{'type':'Sequence','normalizers':[" PREPEND REPLACE "]}", CLS ",", "," SEP, 1, 0, -1, -1,
         -1},
        {REPLACE, CLS ",", "," SEP, 1, 2, -1, 1, 0},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bp_model_config config = {
            .vocabulary = 302, .bos_token = cases[i].bos, .eos_token = cases[i].eos};
        char around[1024];
        snprintf(around, sizeof around, AROUND, cases[i].before, cases[i].behind);
        open_pieces(&d, cases[i].normalizer, around);
        assert_int_equal(gguf_fixture_put(&d, &config), BP_OK);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.add_bos_token"), cases[i].begins);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.add_eos_token"), cases[i].ends);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.add_space_prefix"), cases[i].spaced);
    }
    gguf_fixture_has(&d, 0, "<unk>", BP_GGUF_TOKEN_UNKNOWN);
    gguf_fixture_has(&d, 3 + 0x41, "<0x41>", BP_GGUF_TOKEN_BYTE);
    gguf_fixture_has(&d, 265, "<0x4}x", BP_GGUF_TOKEN_NORMAL);
    gguf_fixture_has(&d, 300, "a b", BP_GGUF_TOKEN_USER);
    gguf_fixture_has(&d, 301, "b ", BP_GGUF_TOKEN_USER);
    bp_gguf_file file;
    bp_gguf_items scores;
    float score = 1;
    gguf_fixture_open(&d, &file);
    assert_int_equal(bp_gguf_items_begin(&scores, &file, "tokenizer.ggml.scores", BP_GGUF_F32),
                     BP_OK);
    for (uint32_t id = 0; id <= 264; id++) {
        int32_t bits;
        assert_int_equal(bp_gguf_items_i32(&scores, &bits), BP_OK);
        memcpy(&score, &bits, sizeof score);
    }
    assert_true(score == -2.0f); /* "abc" is made by the third merge, and by the fourth */
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    fixture_free(&d);
}

/* A file with tokens 0 "<s>", 1 "</s>", 2 "a", 3 "\u00e4", 4 "b", 5 "x y" of some types, and with
 * scores where it is of pieces; -1: it does not say. */
typedef struct given {
    const char *model, *pre;
    int bos, eos, add_bos, add_eos;
    const char *wanted, *absent;
} given;

static void put_given(tokenizer_fixture *d, const given *g, const char *last, int32_t type)
{
    const char *const texts[] = {"<s>", "</s>", "a", "\xc3\xa4", META "b", last};
    const int32_t types[] = {BP_GGUF_TOKEN_CONTROL, BP_GGUF_TOKEN_CONTROL, BP_GGUF_TOKEN_NORMAL,
                             BP_GGUF_TOKEN_USER,    BP_GGUF_TOKEN_NORMAL,  type};
    bp_gguf_writer w;
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "g", NULL), BP_OK);
    bp_gguf_put_string(&w, "tokenizer.ggml.model", g->model, strlen(g->model));
    bp_gguf_put_string(&w, "tokenizer.ggml.pre", g->pre, strlen(g->pre));
    bp_gguf_put_array(&w, "tokenizer.ggml.tokens", BP_GGUF_STRING, 6);
    for (size_t i = 0; i < 6; i++) {
        bp_gguf_item_string(&w, texts[i], strlen(texts[i]));
    }
    bp_gguf_put_array(&w, g->bos == 7 ? "other" : "tokenizer.ggml.token_type", BP_GGUF_I32, 6);
    for (size_t i = 0; i < 6; i++) {
        bp_gguf_item_i32(&w, types[i]);
    }
    if (strcmp(g->model, "llama") == 0) {
        bp_gguf_put_array(&w, "tokenizer.ggml.scores", BP_GGUF_F32, 6);
        for (size_t i = 0; i < 6; i++) {
            bp_gguf_item_f32(&w, -(float)i);
        }
    }
    if (g->bos >= 0) {
        bp_gguf_put_u32(&w, "tokenizer.ggml.bos_token_id", (uint32_t)g->bos);
    }
    if (g->eos >= 0) {
        bp_gguf_put_u32(&w, "tokenizer.ggml.eos_token_id", (uint32_t)g->eos);
    }
    if (g->add_bos == 2) { /* a number, which says nothing */
        bp_gguf_put_u32(&w, "tokenizer.ggml.add_bos_token", 0);
    } else if (g->add_bos >= 0) {
        bp_gguf_put_bool(&w, "tokenizer.ggml.add_bos_token", g->add_bos != 0);
    }
    if (g->add_eos >= 0) {
        bp_gguf_put_bool(&w, "tokenizer.ggml.add_eos_token", g->add_eos != 0);
    }
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
}

/* verifies formats-7.5b71 */
static void files_say_what_stands_around_a_text(void **state)
{
    (void)state;
    static const char none[] = "\"post_processor\": null";
    static const char begins[] = "\"single\": [{\"SpecialToken\": {\"id\": \"<s>\"";
    static const char ends[] = "{\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": 0}}]";
    static const char twice[] = "\"</s>\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"</s>\"";
    static const given cases[] = {
        {"gpt2", "gpt-2", 0, 1, -1, -1, none, "Digits"},
        {"gpt2", "smollm", 0, 1, -1, -1, "\"Digits\", \"individual_digits\": true", begins},
        {"gpt2", "qwen2", 0, 1, 1, -1, begins, ends},
        {"gpt2", "llama-bpe", 0, 1, -1, -1, begins, ends},
        {"gpt2", "llama-bpe", 0, 1, 2, -1, begins, ends},
        {"gpt2", "llama-bpe", 0, 1, -1, 1, ends, none},
        {"gpt2", "llama-bpe", 0, 1, 0, 1, ends, none},
        {"gpt2", "llama-bpe", 0, -1, -1, 1, begins, ends},
        {"gpt2", "llama-bpe", 9, 1, -1, 1, ends, none},
        {"gpt2", "roberta-bpe", 0, 1, -1, -1, twice, none},
        {"gpt2", "roberta-bpe", 0, 1, -1, 0, begins, ends},
        {"gpt2", "gpt-2", 0, 1, -1, -1, "\"<s>\": 0", "\"\xc3\xa4\": 3"},
        {"llama", "default", 0, 1, -1, -1, "\"\xc3\xa4\": 3", ends},
        {"llama", "default", 0, 1, -1, 1, ends, none},
        {"llama", "default", 7, 1, -1, -1, "\"</s>\": 1",
         "\"special\": true"}, /* no types either */
        {"bert", "default", 0, 1, -1, -1, "\"b\": 4", twice},
        {"bert", "default", 0, 1, -1, -1, "\"##a\": 2", none},
        {"bert", "default", 0, 1, -1, -1, "\"x y\": 5", "\"##x y\""},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_gguf_file file;
        put_given(&d, &cases[i], "x y", BP_GGUF_TOKEN_USER);
        gguf_fixture_open(&d, &file);
        assert_null(bp_gguf_tokenizer_foreign(&file));
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        assert_int_equal(gguf_fixture_json(&d, json, sizeof json), BP_OK);
        if (strstr(json, cases[i].wanted) == NULL || strstr(json, cases[i].absent) != NULL) {
            fail_msg("%zu: %s", i, json);
        }
    }
    fixture_free(&d);
}

/* verifies formats-7.5b71 */
static void tokens_are_spelt_as_they_are_meant(void **state)
{
    (void)state;
    static const given bytes = {"gpt2", "gpt-2", 0, 1, -1, -1, NULL, NULL},
                       pieces = {"bert", "default", 0, 1, -1, -1, NULL, NULL};
    static const struct {
        const given *of;
        const char *last;
        int32_t type;
        const char *wanted, *absent;
    } cases[] = {
        /* In the characters that stand for bytes there is no 127: it is added alone. */
        {&bytes, "x\x7fy", BP_GGUF_TOKEN_USER, "\"content\": \"x\x7fy\"", "\"x\x7fy\": 5"},
        {&bytes, "x~y", BP_GGUF_TOKEN_USER, "\"x~y\": 5", "\"##"},
        {&pieces, "bcd", BP_GGUF_TOKEN_NORMAL, "\"##bcd\": 5", "\"bcd\""},
        {&pieces, META "c", BP_GGUF_TOKEN_NORMAL, "\"c\": 5", "\"##c\""},
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_given(&d, cases[i].of, cases[i].last, cases[i].type);
        assert_int_equal(gguf_fixture_json(&d, json, sizeof json), BP_OK);
        if (strstr(json, cases[i].wanted) == NULL || strstr(json, cases[i].absent) != NULL) {
            fail_msg("%zu: %s", i, json);
        }
    }
    fixture_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_readers_know_are_written),
        cmocka_unit_test(bytes_are_called_what_they_are),
        cmocka_unit_test(pieces_are_called_what_they_are),
        cmocka_unit_test(files_say_what_stands_around_a_text),
        cmocka_unit_test(tokens_are_spelt_as_they_are_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
