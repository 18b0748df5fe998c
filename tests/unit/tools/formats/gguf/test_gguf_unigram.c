/* SPDX-License-Identifier: MIT */
/* Unigram in GGUF: llama.cpp's ids (tools/golden/formats/unigram_gguf.py),
 * what its readers would get wrong, and what files say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/disk_file.h"
#include "tests/fixtures/formats/gguf_fixture.h"

#define GOLDEN "tests/golden/tokenizers/"
#define META   "\xe2\x96\x81"

enum { TEXT = 1 << 19, IDS_MOST = 512 };

static char text[TEXT], more[TEXT];

/* ---- llama.cpp's ids ---- */

/* A line of gguf_ids.txt: whether the imported file has the ids too, the tokenizer, a text in
 * hexadecimal, ids. */
typedef struct line {
    bool imported;
    char name[32];
    char text[2048];
    uint32_t ids[IDS_MOST];
    size_t count;
} line;

static int nibble(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static char *take_line(char *at, line *l)
{
    char *end = strchr(at, '\n');
    assert_non_null(end);
    *end = '\0';
    l->imported = *at == '=';
    char *space = strchr(at, ' ');
    snprintf(l->name, sizeof l->name, "%.*s", (int)(space - at - 1), at + 1);
    size_t bytes = 0;
    for (at = space + 1; *at != ' '; at += 2) {
        assert_true(bytes + 1 < sizeof l->text);
        l->text[bytes++] = (char)(nibble(at[0]) * 16 + nibble(at[1]));
    }
    l->text[bytes] = '\0';
    for (l->count = 0; *at == ' '; l->count++) {
        assert_true(l->count < IDS_MOST);
        l->ids[l->count] = (uint32_t)strtoul(at + 1, &at, 10);
    }
    return end + 1;
}

static void open_golden(tokenizer_fixture *d, const char *name, const char *const files[2])
{
    char path[128];
    FILE *there = NULL;
    fixture_init(d);
    for (size_t i = 0; i < 2 && there == NULL; i++) {
        snprintf(path, sizeof path, GOLDEN "%s/%s", name, files[i]);
        there = fopen(path, "rb");
        if (there != NULL) {
            disk_file_put(&d->memory, path, files[i]);
            fclose(there);
        }
    }
    assert_int_equal(fixture_open(d), BP_OK);
    fixture_encoder(d, 512);
}

static void has_ids(tokenizer_fixture *d, const line *l)
{
    fixture_encode(d, l->text, BP_ENCODE_TEMPLATE);
    if (d->count != l->count || memcmp(d->ids, l->ids, l->count * sizeof l->ids[0]) != 0) {
        fail_msg("%s: %s", l->name, l->text);
    }
}

/* The tokenizer that was written, and the one that comes out of the file, give a text the ids that
 * llama.cpp gives it by the file. */
/* verifies formats-8.e397 */
static void ids_are_those_of_llama_cpp(void **state)
{
    (void)state;
    static const char *const names[] = {"unigram", "unigram_strip", "spm_unigram", "xlmr_own",
                                        "spm_plain"};
    static const char *const files[][2] = {{"tokenizer.json", "tokenizer.model"},
                                           {"sentencepiece.bpe.model", "tokenizer.json"}};
    size_t size, checked[5] = {0};
    char *whole = (char *)disk_file_read(GOLDEN "gguf_ids.txt", &size);
    whole = realloc(whole, size + 1);
    assert_non_null(whole);
    whole[size] = '\0';
    for (size_t i = 0; i < 5; i++) {
        tokenizer_fixture d, back;
        line l;
        open_golden(&d, names[i], files[i == 3]);
        const bool encoder = i == 0 || i == 3;
        const bp_model_config config = {
            .vocabulary = d.tokenizer.tokens + 5, .bos_token = encoder ? -1 : 1, .eos_token = -1};
        assert_null(bp_gguf_tokenizer_refusal(&d.tokenizer, &config));
        assert_int_equal(gguf_fixture_put(&d, &config), BP_OK);
        assert_int_equal(gguf_fixture_json(&d, text, sizeof text), BP_OK);
        fixture_init(&back);
        fixture_put(&back, "tokenizer.json", text);
        assert_int_equal(fixture_open(&back), BP_OK);
        fixture_encoder(&back, 512);
        char *copy = malloc(size + 1);
        assert_non_null(copy);
        memcpy(copy, whole, size + 1);
        for (char *at = copy; *at != '\0';) {
            at = take_line(at, &l);
            if (strcmp(l.name, names[i]) != 0) {
                continue;
            }
            has_ids(&d, &l);
            if (l.imported) {
                has_ids(&back, &l);
            }
            checked[i]++;
        }
        assert_true(checked[i] >= 90);
        free(copy);
        fixture_free(&d);
        fixture_free(&back);
    }
    free(whole);
}

/* ---- What readers would get wrong ---- */

/* Single quotes stand for double ones. */
static const char *quoted(char *of)
{
    for (char *at = of; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    return of;
}

static void open_text(tokenizer_fixture *d, const char *of)
{
    fixture_put(d, "tokenizer.json", of);
    if (fixture_open(d) != BP_OK) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
}

/* The character map of a golden tokenizer, in base64. */
static const char *golden_map(void)
{
    static char map[1 << 18];
    static const char key[] = "\"precompiled_charsmap\":\"";
    size_t size;
    char *whole = (char *)disk_file_read(GOLDEN "unigram/tokenizer.json", &size);
    whole = realloc(whole, size + 1);
    whole[size] = '\0';
    const char *at = strstr(whole, key);
    assert_non_null(at);
    at += sizeof key - 1;
    const size_t length = (size_t)(strchr(at, '"') - at);
    assert_true(length < sizeof map);
    memcpy(map, at, length);
    map[length] = '\0';
    free(whole);
    return map;
}

/* A map in base64 that makes a text of a tab, and of nothing else; too long to be read at once. */
static const char *tab_map(char of)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char map[1 << 16];
    enum { UNITS = 8192, BYTES = 4 * UNITS + 6 };
    uint32_t units[1 + UNITS] = {4 * UNITS, 2u << 10};
    unsigned char bytes[BYTES + 2] = {0};
    units[1 + (2 ^ '\t')] = 4u << 10 | 1u << 8 | '\t';
    units[1 + (2 ^ '\t' ^ 4)] = 1u << 31;
    memcpy(bytes, units, sizeof units);
    bytes[BYTES - 2] = (unsigned char)of;
    for (size_t i = 0; i < BYTES; i += 3) {
        const uint32_t bits = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        for (size_t k = 0; k < 4; k++) {
            map[i / 3 * 4 + k] = i + k <= BYTES ? digits[bits >> (18 - 6 * k) & 63] : '=';
        }
    }
    return map;
}

#define MAP     "{'type':'Precompiled','precompiled_charsmap':'%s'}"
#define STRIP   "{'type':'Strip','strip_left':false,'strip_right':true}"
#define RUNS    "{'type':'Replace','pattern':{'Regex':' {2,}'},'content':'" META "'}"
#define ALL(of) "{'type':'Sequence','normalizers':[" of "]}"
#define META_OF(scheme, split)                                                                     \
    "{'type':'Metaspace','replacement':'" META "','prepend_scheme':'" scheme "','split':" split "}"
#define WORDS                                                                                      \
    "{'type':'Sequence','pretokenizers':[{'type':'WhitespaceSplit'}," META_OF("always", "true") "]}"
#define A     "{'Sequence':{'id':'A','type_id':0}}"
#define ENDS  A ",{'SpecialToken':{'id':'</s>','type_id':0}}"
#define BOTH  "{'SpecialToken':{'id':'<s>','type_id':0}}," ENDS
#define USUAL "['" META "',-2],['a',-3],['" META "a',-2.5]"

typedef struct unigram {
    const char *normalizer, *splits, *around, *fallback, *pieces;
    int64_t bos, eos;
    const char *wanted; /* NULL: it is written */
} unigram;

/* <unk>, <s>, </s> and `more_added` that is added, and the pieces of the case. */
static void open_added(tokenizer_fixture *d, const unigram *u, const char *more_added)
{
    char normalizer[1 << 18];
    const bool tabs = u->wanted != NULL && strstr(u->wanted, "no tabs") != NULL;
    const char *map = tabs ? tab_map(u->bos == 1 ? ' ' : 'b') : golden_map();
    snprintf(normalizer, sizeof normalizer, u->normalizer, map);
    const int length = snprintf(
        text, sizeof text,
        "{'added_tokens':[{'id':0,'content':'<unk>','special':true},"
        "{'id':1,'content':'<s>','special':true},{'id':2,'content':'</s>','special':true}%s],"
        "'normalizer':%s,'pre_tokenizer':%s,'post_processor':{'type':'TemplateProcessing',"
        "'single':[%s],'pair':[{'Sequence':{'id':'A','type_id':0}},{'Sequence':{'id':'B',"
        "'type_id':1}}],'special_tokens':{'<s>':{'id':'<s>','ids':[1],'tokens':['<s>']},"
        "'</s>':{'id':'</s>','ids':[2],'tokens':['</s>']}}},'model':{'type':'Unigram',"
        "'unk_id':0,'byte_fallback':%s,'vocab':[['<unk>',0],['<s>',0],['</s>',0],%s]}}",
        more_added, normalizer, u->splits, u->around, u->fallback, u->pieces);
    assert_true(length > 0 && (size_t)length < sizeof text);
    open_text(d, quoted(text));
}

static void open_unigram(tokenizer_fixture *d, const unigram *u)
{
    open_added(d, u, "");
}

/* verifies formats-50.b7a1 */
static void what_readers_would_get_wrong_is_named(void **state)
{
    (void)state;
    static const char always[] = META_OF("always", "true"), none[] = META_OF("never", "true");
    static const char all[] = ALL(MAP "," STRIP "," RUNS);
    static const unigram cases[] = {
        {all, always, BOTH, "false", USUAL, 1, 2, NULL},
        {all, always, BOTH, "false", USUAL, -1, -1, NULL},
        {all, always, BOTH, "false", USUAL, 1, -1, NULL},
        {all, always, A, "false", USUAL, 1, 2, NULL},
        {MAP, WORDS, BOTH, "false", USUAL, 1, 2, NULL},
        {all, META_OF("always", "false"), A, "false", "['a" META "b',-1]", 1, 2, NULL},
        {MAP, none, ENDS, "false", USUAL, 1, 2, NULL},
        {"null", none, ENDS, "false", USUAL, 1, 2, NULL},
        {all, always, A, "true", USUAL, 1, 2, NULL},
        {all, always, A, "true", USUAL ",['<0x41>',-9]", 1, 2, "byte_fallback"},
        {all, always, A, "false", USUAL ",['<0x41>',-9]", 1, 2, NULL},
        {"{'type':'NFC'}", none, A, "false", USUAL, 1, 2, "neither normal forms"},
        {"{'type':'NFKC'}", none, A, "false", USUAL, 1, 2, "neither normal forms"},
        {"{'type':'Lowercase'}", none, A, "false", USUAL, 1, 2, "nor lower case"},
        {all, none, A, "false", USUAL, 1, 2, "put one before a text"},
        {all, META_OF("first", "true"), A, "false", USUAL, 1, 2, "put one before a text"},
        {MAP, META_OF("first", "true"), A, "false", USUAL, 1, 2, "before every part of a text"},
        {"null", "null", A, "false", USUAL, 1, 2, "put U+2581 for a space"},
        {ALL(MAP "," STRIP), always, A, "false", USUAL, 1, 2, "or none"},
        {ALL(MAP "," RUNS), always, A, "false", USUAL, 1, 2, "or none"},
        {MAP, always, A, "false", USUAL, 1, 2, "that begins with one too"},
        {ALL(STRIP "," RUNS), always, A, "false", USUAL, 1, 2, "no tabs and line ends"},
        {"null", WORDS, A, "false", USUAL, 1, 2, "no tabs and line ends"},
        {MAP, WORDS, A, "false", USUAL, 1, 2, "no tabs and line ends"},
        {MAP, WORDS, A, "false", USUAL, -1, 2, "no tabs and line ends"}, /* a letter of a tab */
        {all, always, BOTH, "false", USUAL, 0, 2, "put bos_token_id"},
        {all, always, BOTH, "false", USUAL, 1, 0, "put bos_token_id"},
        {all, always, BOTH ",{'SpecialToken':{'id':'</s>','type_id':0}}", "false", USUAL, 1, 2,
         "put bos_token_id"},
        {all, always, "{'SpecialToken':{'id':'<s>','type_id':0}}," BOTH, "false", USUAL, 1, 2,
         "put bos_token_id"},
        {all, always, A, "false", USUAL ",['b" META "a',-1]", 1, 2, "reaches over a space"},
        {MAP, WORDS, A, "false", USUAL ",['b" META "a',-1]", 1, 2, "reaches over a space"},
        {all, always, A, "false", "['a',-1]", 1, 2, "without the piece U+2581"},
        {all, always, A, "false", "['" META "',1],['a',2]", 1, 2, "by its ordinary pieces alone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unigram *u = &cases[i];
        const bp_model_config config = {.vocabulary = 12, .bos_token = u->bos, .eos_token = u->eos};
        tokenizer_fixture d;
        fixture_init(&d);
        open_unigram(&d, u);
        const char *why = bp_gguf_tokenizer_refusal(&d.tokenizer, &config);
        if ((why == NULL) != (u->wanted == NULL) ||
            (why != NULL && strstr(why, u->wanted) == NULL)) {
            fail_msg("%zu: %s", i, why == NULL ? "none" : why);
        }
        assert_int_equal(gguf_fixture_put(&d, &config), why == NULL ? BP_OK : BP_ERR_USAGE);
        fixture_free(&d);
    }
}

/* An id without a token is nobody's unused piece. */
/* verifies formats-7.5b71 */
static void ids_without_a_token_are_no_pieces(void **state)
{
    (void)state;
    static const unigram of = {"null", META_OF("never", "true"), A, "false", USUAL, 1, 2, NULL};
    const bp_model_config config = {.vocabulary = 9, .bos_token = 1, .eos_token = 2};
    tokenizer_fixture d;
    fixture_init(&d);
    open_added(&d, &of, ",{'id':8,'content':'[x]','special':true}");
    assert_null(bp_gguf_tokenizer_refusal(&d.tokenizer, &config));
    assert_int_equal(gguf_fixture_put(&d, &config), BP_OK);
    gguf_fixture_has(&d, 5, META "a", BP_GGUF_TOKEN_NORMAL);
    gguf_fixture_has(&d, 6, "[PAD6]", BP_GGUF_TOKEN_UNUSED);
    gguf_fixture_has(&d, 7, "[PAD7]", BP_GGUF_TOKEN_UNUSED);
    gguf_fixture_has(&d, 8, "[x]", BP_GGUF_TOKEN_CONTROL);
    fixture_free(&d);
}

/* verifies formats-7.5b71 */
static void files_say_what_is_done_to_spaces(void **state)
{
    (void)state;
    static const struct {
        unigram of;
        int begins, ends, before, merged, bos, last;
    } rows[] = {
        {{ALL(MAP "," STRIP "," RUNS), META_OF("always", "true"), BOTH, "false", USUAL, -1, -1,
          NULL},
         1,
         1,
         1,
         1,
         1,
         1},
        {{"null", META_OF("never", "true"), ENDS, "false", USUAL, 1, 2, NULL}, 0, 1, 0, 0, 1, 1},
        {{"null", META_OF("never", "true"), A, "false", USUAL, -1, -1, NULL}, 0, 0, 0, 0, -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bp_model_config config = {
            .vocabulary = 8, .bos_token = rows[i].of.bos, .eos_token = rows[i].of.eos};
        tokenizer_fixture d;
        fixture_init(&d);
        open_unigram(&d, &rows[i].of);
        assert_int_equal(gguf_fixture_put(&d, &config), BP_OK);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.add_bos_token"), rows[i].begins);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.add_eos_token"), rows[i].ends);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.add_space_prefix"), rows[i].before);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.remove_extra_whitespaces"),
                         rows[i].merged);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.bos_token_id"), rows[i].bos);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.eos_token_id"), rows[i].last);
        assert_int_equal(gguf_fixture_says(&d, "tokenizer.ggml.unknown_token_id"), 0);
        gguf_fixture_has(&d, 0, "<unk>", BP_GGUF_TOKEN_UNKNOWN);
        gguf_fixture_has(&d, 1, "<s>", BP_GGUF_TOKEN_CONTROL);
        gguf_fixture_has(&d, 5, META "a", BP_GGUF_TOKEN_NORMAL);
        gguf_fixture_has(&d, 7, "[PAD7]", BP_GGUF_TOKEN_UNUSED);
        fixture_free(&d);
    }
}

/* ---- Files ---- */

/* A file of "<pad>", "</s>", "<unk>", U+2581, one more piece of some type, "b" and a token that
 * nothing is; -1: it does not say. */
typedef struct given {
    int map, merged, before, add_bos, add_eos, bos, unknown;
    int32_t type; /* of the fifth */
    const char *fifth;
    float score; /* its */
    uint64_t scores, types;
    const char *wanted, *absent; /* of the text; what is refused where absent is NULL */
} given;

static void put_truth(bp_gguf_writer *w, const char *key, int value)
{
    if (value == 2) { /* a number, which says nothing */
        bp_gguf_put_u32(w, key, 1);
    } else if (value >= 0) {
        bp_gguf_put_bool(w, key, value != 0);
    }
}

/* 0: none; 1: of bytes; 2: of signed ones; 3: of other numbers; 4: which says that it has more than
 * there is; 5: of none; 6: no array. 769 bytes, so that the last ones are padded: four of how long
 * the units are, one unit, texts. */
static void put_map(bp_gguf_writer *w, int map)
{
    const uint8_t head[8] = {4, map == 4 ? 0xff : 0};
    const uint64_t count = map == 5 ? 0 : map == 3 ? 1 : 769;
    if (map == 6) {
        bp_gguf_put_u32(w, "tokenizer.ggml.precompiled_charsmap", 769);
        return;
    }
    if (map > 0) {
        bp_gguf_put_array(w, "tokenizer.ggml.precompiled_charsmap",
                          map == 2   ? BP_GGUF_I8
                          : map == 3 ? BP_GGUF_I32
                                     : BP_GGUF_U8,
                          count);
    }
    for (uint64_t k = 0; map > 0 && k < (map == 3 ? 4 : count); k++) {
        bp_gguf_item_u8(w, k < 8 ? head[k] : k % 64 == 63 || k == 768 ? 0 : 'a');
    }
}

static void put_given(tokenizer_fixture *d, const given *g)
{
    const char *const texts[] = {"<pad>", "</s>", "<unk>", META, g->fifth, "b", "[PAD6]"};
    const int32_t types[] = {BP_GGUF_TOKEN_CONTROL,
                             BP_GGUF_TOKEN_CONTROL,
                             BP_GGUF_TOKEN_UNKNOWN,
                             g->unknown == 3 ? BP_GGUF_TOKEN_UNKNOWN : BP_GGUF_TOKEN_NORMAL,
                             g->type,
                             BP_GGUF_TOKEN_NORMAL,
                             BP_GGUF_TOKEN_UNUSED,
                             BP_GGUF_TOKEN_UNUSED};
    bp_gguf_writer w;
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "g", NULL), BP_OK);
    bp_gguf_put_string(&w, "tokenizer.ggml.model", "t5", 2);
    bp_gguf_put_array(&w, "tokenizer.ggml.tokens", BP_GGUF_STRING, 7);
    for (size_t i = 0; i < 7; i++) {
        bp_gguf_item_string(&w, texts[i], strlen(texts[i]));
    }
    if (g->types > 0) {
        bp_gguf_put_array(&w, "tokenizer.ggml.token_type", BP_GGUF_I32, g->types);
        for (size_t i = 0; i < g->types; i++) {
            bp_gguf_item_i32(&w, types[i]);
        }
    }
    if (g->scores > 0) {
        bp_gguf_put_array(&w, "tokenizer.ggml.scores", BP_GGUF_F32, g->scores);
        for (size_t i = 0; i < g->scores; i++) {
            bp_gguf_item_f32(&w, i == 4 ? g->score : -(float)i - 0.1f);
        }
    }
    put_map(&w, g->map);
    put_truth(&w, "tokenizer.ggml.remove_extra_whitespaces", g->merged);
    put_truth(&w, "tokenizer.ggml.add_space_prefix", g->before);
    put_truth(&w, "tokenizer.ggml.add_bos_token", g->add_bos);
    put_truth(&w, "tokenizer.ggml.add_eos_token", g->add_eos);
    if (g->bos >= 0) {
        bp_gguf_put_u32(&w, "tokenizer.ggml.bos_token_id", (uint32_t)g->bos);
    }
    bp_gguf_put_u32(&w, "tokenizer.ggml.eos_token_id", 1);
    if (g->unknown >= 0) {
        bp_gguf_put_u32(&w, "tokenizer.ggml.unknown_token_id", (uint32_t)g->unknown);
    }
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
}

/* verifies formats-10.4a5c */
static void files_are_read_as_they_are_meant(void **state)
{
    (void)state;
    static const char end[] =
        "\"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
        "{\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": 0}}], \"pair\": [{"
        "\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"SpecialToken\": "
        "{\"id\": \"</s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", "
        "\"type_id\": 1}}, {\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": "
        "1}}]";
    static const char none[] = "\"post_processor\": null", list[] = "[\"b\", -5.0999999046325684]";
    static const char whole[] = "\"split\": false", words[] = "\"split\": true";
    static const given cases[] = {
        {0, 0, 0, -1, -1, -1, -1, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, end, "[PAD6]"},
        {0, -1, -1, 0, 0, 0, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, none, "[PAD6]"},
        {0, 0, 0, 1, 0, 0, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7,
         "\"single\": [{\"SpecialToken\": {\"id\": \"<pad>\"", none},
        {0, 0, 0, 1, 1, 0, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, list, none},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, META "a", -4, 7, 7, words, whole},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a" META, -4, 7, 7, whole, words},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_USER, "a" META, -4, 7, 7, "[\"a" META "\", 0]",
         whole},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_USER, "a b", -4, 7, 7,
         "\"content\": \"a b\", \"single_word\": false", "Precompiled"},
        {1, 1, 1, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "\"BAAAAAAAAABhYWFh",
         "\"never\""},
        {2, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "YWEAAA==\"}]}",
         "\"always\""},
        {0, 0, 0, -1, -1, -1, 5, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "\"unk_id\": 5", none},
        {0, 0, 0, -1, -1, -1, 3, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, whole, words},
        {0, 2, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "\"never\"", "\"always\""},
        {0, 0, 0, -1, -1, -1, 6, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "no piece has this", NULL},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", 1e31f, 7, 7, "not a finite", NULL},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 6, 7, "scores differ", NULL},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 6, "types differ", NULL},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 0, 7, "no scores", NULL},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 0, "no types", NULL},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_UNUSED, "a", -4, 7, 7, "unused pieces", NULL},
        {0, 0, 0, -1, -1, -1, 2, BP_GGUF_TOKEN_BYTE, "a", -4, 7, 7, "unused pieces", NULL},
        {0, 1, 1, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "character map alone", NULL},
        {3, 1, 1, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "character map alone", NULL},
        {1, 0, 1, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "other spaces are", NULL},
        {4, 1, 1, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "map is cut off", NULL},
        {5, 1, 1, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "character map alone", NULL},
        {6, 1, 1, -1, -1, -1, 2, BP_GGUF_TOKEN_NORMAL, "a", -4, 7, 7, "character map alone", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const given *g = &cases[i];
        tokenizer_fixture d;
        fixture_init(&d);
        put_given(&d, g);
        d.error = (bp_error){.code = BP_OK};
        const bp_status status = gguf_fixture_json(&d, more, sizeof more);
        const char *said = status == BP_OK ? more : d.error.text;
        if (status != (g->absent != NULL ? BP_OK : BP_ERR_DATA) ||
            strstr(said, g->wanted) == NULL ||
            (g->absent != NULL && strstr(said, g->absent) != NULL)) {
            fail_msg("%zu: %s", i, said);
        }
        fixture_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_llama_cpp),
        cmocka_unit_test(what_readers_would_get_wrong_is_named),
        cmocka_unit_test(ids_without_a_token_are_no_pieces),
        cmocka_unit_test(files_say_what_is_done_to_spaces),
        cmocka_unit_test(files_are_read_as_they_are_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
