/* SPDX-License-Identifier: MIT */
/* Files of sentence-transformers' directories: each value that is read, what is refused by file and
 * name, and files that end anywhere. Documents are written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixtures/store_memory.h"
#include "tools/formats/hf/embedder.h"
#include "tests/fixtures/store_faulty.h"

#define MODULES                                                                                    \
    "[{'idx': 0, 'name': '0', 'path': '', 'type': 'a.b.Transformer'}, {'path': '1_P', 'type': "    \
    "'a.b.Pooling'}, {'path': '2_N', 'type': 'a.b.Normalize'}]"

static uint64_t scratch[BP_EMBEDDER_SCRATCH / 8];
static memory_store memory;
static bp_error error;

typedef struct files {
    const char *modules, *pooling, *length, *prompts; /* NULL: not there */
    const char *name;                                 /* of the prompt */
} files;

static void put(const char *name, const char *text)
{
    static char json[8192];
    char path[128];
    if (text == NULL) {
        return;
    }
    const size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i < length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    snprintf(path, sizeof path, "m/%s", name);
    memory_store_put(&memory, path, json, length);
}

static void directories(void)
{
    memory_store_init(&memory);
    assert_int_equal(memory.store.make_directory(&memory.store, "m"), BP_OK);
    assert_int_equal(memory.store.make_directory(&memory.store, "m/1_P"), BP_OK);
}

static bp_status read_files(const files *f, bp_embedder *to)
{
    directories();
    put("modules.json", f->modules);
    put("1_P/config.json", f->pooling);
    put("sentence_bert_config.json", f->length);
    put("config_sentence_transformers.json", f->prompts);
    error = (bp_error){.code = BP_OK};
    bp_status status = bp_embedder_read(&memory.store, "m", f->name, scratch, to, &error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

static const struct {
    files files;
    bool present, normalize, excludes;
    bp_pooling pooling;
    uint32_t length;
    const char *prompt;
} rows[] = {
    {{NULL, NULL, NULL, NULL, NULL}, false, false, false, BP_POOLING_MEAN, 0, ""},
    {{MODULES, "{}", NULL, NULL, NULL}, true, true, false, BP_POOLING_MEAN, 0, ""},
    {{MODULES, "{'pooling_mode': 'cls'}", NULL, NULL, NULL},
     true,
     true,
     false,
     BP_POOLING_CLS,
     0,
     ""},
    {{MODULES, "{'pooling_mode': ['cls'], 'x': [{}]}", NULL, NULL, NULL},
     true,
     true,
     false,
     BP_POOLING_CLS,
     0,
     ""},
    {{MODULES, "{'pooling_mode_cls_token': true, 'pooling_mode_mean_tokens': false}", NULL, NULL,
      NULL},
     true,
     true,
     false,
     BP_POOLING_CLS,
     0,
     ""},
    {{MODULES, "{'include_prompt': false}", "{'max_seq_length': 128, 'do_lower_case': false}", NULL,
      NULL},
     true,
     true,
     true,
     BP_POOLING_MEAN,
     128,
     ""},
    {{MODULES, "{'include_prompt': true}", "{'max_seq_length': null, 'more': []}", NULL, NULL},
     true,
     true,
     false,
     BP_POOLING_MEAN,
     0,
     ""},
    {{MODULES, "{}", NULL, "{'prompts': {'q': 'query: ', 'd': 'x'}, 'default_prompt_name': 'q'}",
      NULL},
     true,
     true,
     false,
     BP_POOLING_MEAN,
     0,
     "query: "},
    {{MODULES, "{}", NULL, "{'prompts': {'q': 'query: '}, 'default_prompt_name': null}", NULL},
     true,
     true,
     false,
     BP_POOLING_MEAN,
     0,
     ""},
    {{MODULES, "{}", NULL, "{'prompts': {'q': 'query: ', 'd': 'x'}, 'default_prompt_name': 'q'}",
      "d"},
     true,
     true,
     false,
     BP_POOLING_MEAN,
     0,
     "x"},
    {{MODULES, "{}", NULL, "{'prompts': null, 'similarity_fn_name': 'cosine'}", NULL},
     true,
     true,
     false,
     BP_POOLING_MEAN,
     0,
     ""},
    {{NULL, NULL, NULL, "{'prompts': {'q': 'query: '}}", "q"},
     false,
     false,
     false,
     BP_POOLING_MEAN,
     0,
     "query: "},
};

/* verifies formats-58.1816 */
static void values_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_embedder to;
        if (read_files(&rows[i].files, &to) != BP_OK) {
            fail_msg("row %zu: %s: %s", i, error.name, error.text);
        }
        assert_true(to.present == rows[i].present && to.normalize == rows[i].normalize);
        assert_true(to.excludes == rows[i].excludes && to.pooling == rows[i].pooling);
        assert_int_equal(to.max_length, rows[i].length);
        assert_string_equal(to.prompt, rows[i].prompt);
    }
}

#define M(list)                                                                                    \
    {                                                                                              \
        list, "{}", NULL, NULL, NULL                                                               \
    }
#define P(json)                                                                                    \
    {                                                                                              \
        MODULES, json, NULL, NULL, NULL                                                            \
    }
#define L(json)                                                                                    \
    {                                                                                              \
        MODULES, "{}", json, NULL, NULL                                                            \
    }
#define C(json)                                                                                    \
    {                                                                                              \
        MODULES, "{}", NULL, json, NULL                                                            \
    }
#define TRANS "{'type': 'Transformer', 'path': ''}"

static const struct {
    files files;
    bp_status status;
    const char *said;
} refused[] = {
    {M("{}"), BP_ERR_DATA, "a list of modules"},
    {M("[3]"), BP_ERR_DATA, "a module is an object"},
    {M("[]"), BP_ERR_DATA, "there is no Pooling"},
    {M("[" TRANS "]"), BP_ERR_DATA, "there is no Pooling"},
    {M("[{'type': 'Transformer', 'path': '0_T'}]"), BP_ERR_DATA, "is in a subdirectory"},
    {M("[" TRANS ", {'type': 'x.Dense', 'path': '1'}]"), BP_ERR_DATA, "is not implemented"},
    {M("[" TRANS ", {'type': 'Pooling', 'path': '1'}, {'type': 'Dense', 'path': '..'}]"),
     BP_ERR_DATA, "outside of the directory"},
    {M("[" TRANS ", {'type': 'Pooling', 'path': '1'}, {'type': 'Normalize', 'path': '2'}, "
       "{'type': 'Dense', 'path': '3'}]"),
     BP_ERR_DATA, "is not implemented"},
    {M("[{'type': 'Pooling', 'path': '1'}]"), BP_ERR_DATA, "is not implemented"},
    {M("[" TRANS ", " TRANS "]"), BP_ERR_DATA, "is not implemented"},
    {M("[" TRANS ", {'type': 'Normalize', 'path': '1'}]"), BP_ERR_DATA, "is not implemented"},
    {M("[{'type': []}]"), BP_ERR_DATA, "a word is expected here"},
    {M("[{'type': {}}]"), BP_ERR_DATA, "a word is expected here"},
    {M("[" TRANS ", {'type': 'Pooling', 'path': '../x'}]"), BP_ERR_DATA,
     "outside of the directory"},
    {M("[" TRANS ", {'type': 'Pooling', 'path': '/x'}]"), BP_ERR_DATA, "outside of the directory"},
    {M("[" TRANS ", {'type': 'Pooling', 'path': 'none'}]"), BP_ERR_DATA, "the file is not there"},
    {P("[]"), BP_ERR_DATA, "must hold one JSON object"},
    {P("{'pooling_mode': 3}"), BP_ERR_DATA, "pooling_mode is a word or a list of words"},
    {P("{'pooling_mode': 'attention'}"), BP_ERR_DATA, ""},
    {P("{'pooling_mode': 'max'}"), BP_ERR_DATA, "this way of pooling is not implemented"},
    {P("{'pooling_mode': ['cls', 3]}"), BP_ERR_DATA, "pooling_mode is a word or a list of words"},
    {P("{'pooling_mode': ['cls', 'mean']}"), BP_ERR_DATA, "several ways of pooling"},
    {P("{'pooling_mode_cls_token': true, 'pooling_mode_mean_tokens': true}"), BP_ERR_DATA, ""},
    {L("{'do_lower_case': true}"), BP_ERR_DATA, "lower case"},
    {L("{'max_seq_length': 0}"), BP_ERR_DATA, "a whole number from 1 on"},
    {L("{'max_seq_length': true}"), BP_ERR_DATA, "a whole number from 1 on"},
    {L("{'max_seq_length': '5'}"), BP_ERR_DATA, "a whole number from 1 on"},
    {L("{'max_seq_length': 1.5}"), BP_ERR_DATA, "a whole number from 1 on"},
    {L("{'max_seq_length': 2147483648}"), BP_ERR_DATA, "a whole number from 1 on"},
    {C("{'prompts': {'q': 3}, 'default_prompt_name': 'q'}"), BP_ERR_DATA, "a prompt is a text"},
    {C("{'prompts': {'q': 'a\\u0000b'}, 'default_prompt_name': 'q'}"), BP_ERR_DATA,
     "a prompt is a text"},
    {C("{'prompts': {}, 'default_prompt_name': 'q'}"), BP_ERR_DATA, "no prompt of this name"},
    {C("{'default_prompt_name': {}}"), BP_ERR_DATA, "a word is expected here"},
    {{MODULES, "{}", NULL, "{'prompts': {}}", "q"}, BP_ERR_USAGE, "no prompt of this name"},
    {{MODULES, "{}", NULL, NULL, "q"}, BP_ERR_USAGE, "no prompt of this name"},
    {{MODULES, "{'include_prompt': false}", NULL, "{'prompts': {'q': 'x'}}", "q"},
     BP_ERR_DATA,
     "without the tokens of the prompt"},
};

/* verifies formats-58.1816 */
static void what_is_not_implemented_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bp_embedder to;
        const bp_status status = read_files(&refused[i].files, &to);
        if (status != refused[i].status || strstr(error.text, refused[i].said) == NULL) {
            fail_msg("row %zu: %d %s: %s", i, (int)status, error.name, error.text);
        }
    }
}

#define CHAIN                                                                                      \
    "[" TRANS ", {'type': 'Pooling', 'path': '1_P'}, {'type': 'x.Dense', 'path': 'd1'}, "          \
    "{'type': 'Dense', 'path': 'd2'}, {'type': 'Normalize', 'path': 'n'}]"

static bp_status read_chain(const char *first, const char *second, bp_embedder *to)
{
    directories();
    put("modules.json", CHAIN);
    put("1_P/config.json", "{}");
    assert_int_equal(memory.store.make_directory(&memory.store, "m/d1"), BP_OK);
    assert_int_equal(memory.store.make_directory(&memory.store, "m/d2"), BP_OK);
    put("d1/config.json", first);
    put("d2/config.json", second);
    error = (bp_error){.code = BP_OK};
    const bp_status status = bp_embedder_read(&memory.store, "m", NULL, scratch, to, &error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

#define SECOND "{'in_features': 24, 'out_features': 12}"

/* verifies formats-58.1816 */
static void dense_modules_are_read(void **state)
{
    (void)state;
    bp_embedder to;
    assert_int_equal(
        read_chain("{'in_features': 16, 'out_features': 24, 'bias': false, 'use_residual': false, "
                   "'activation_function': 'torch.nn.modules.linear.Identity', 'other': [1], "
                   "'module_input_name': 'sentence_embedding', 'module_output_name': null}",
                   SECOND, &to),
        BP_OK);
    assert_int_equal(to.dense_count, 2);
    assert_int_equal(to.dense_in, 16);
    assert_true(to.dense[0].width == 24 && !to.dense[0].bias && !to.dense[0].tanh);
    assert_true(to.dense[1].width == 12 && to.dense[1].bias && to.dense[1].tanh);
    assert_true(to.normalize && to.module_count == 4);
    assert_string_equal(to.path[1], "d1");
    assert_string_equal(to.path[3], "n");
}

/* verifies formats-58.1816 */
static void dense_modules_that_are_others_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *said;
    } cases[] = {
        {NULL, SECOND, "the file is not there"},
        {"{'in_features': 16}", SECOND, "needs in_features"},
        {"{'out_features': 24}", SECOND, "needs in_features"},
        {"{'in_features': 16, 'out_features': 23}", SECOND, "needs in_features"},
        {"{'in_features': 0, 'out_features': 24}", SECOND, "whole numbers from 1 on"},
        {"{'in_features': true, 'out_features': 24}", SECOND, "whole numbers from 1 on"},
        {"{'bias': 1}", SECOND, "whole numbers from 1 on"},
        {"{'use_residual': true}", SECOND, "with a residual"},
        {"{'activation_function': 'torch.nn.modules.activation.GELU'}", SECOND,
         "activation_function is not implemented"},
        {"{'activation_function': null}", SECOND, "activation_function is not implemented"},
        {"{'module_input_name': 'token_embeddings'}", SECOND, "other features"},
        {"{'module_input_name': null}", SECOND, "other features"},
        {"{'module_output_name': 'x'}", SECOND, "other features"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bp_embedder to;
        const bp_status status = read_chain(cases[i].first, cases[i].second, &to);
        if (status != BP_ERR_DATA || strstr(error.text, cases[i].said) == NULL) {
            fail_msg("row %zu: %d %s: %s", i, (int)status, error.name, error.text);
        }
    }
}

/* A tokenizer's file of any size says how long texts may be, and ends anywhere. */
/* verifies formats-58.1816 */
static void lengths_of_large_tokenizers_are_read(void **state)
{
    (void)state;
    enum { LARGE = 300000 };
    static char text[LARGE + 100];
    for (int cut = 0; cut < 2; cut++) {
        size_t at = (size_t)snprintf(text, sizeof text, "{\"added_tokens_decoder\": {\"\": 0");
        for (int i = 0; at < LARGE; i++) {
            at += (size_t)snprintf(text + at, sizeof text - at, ", \"%d\": {\"content\": \"\"}", i);
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "}, \"model_max_length\": 321}");
        directories();
        put("modules.json", MODULES);
        put("1_P/config.json", "{}");
        memory_store_put(&memory, "m/tokenizer_config.json", text, at - (size_t)cut);
        bp_embedder to;
        error = (bp_error){.code = BP_OK};
        const bp_status status = bp_embedder_read(&memory.store, "m", NULL, scratch, &to, &error);
        assert_int_equal(status, cut == 0 ? BP_OK : BP_ERR_DATA);
        assert_true(cut == 1 || to.max_length == 321);
        assert_true(cut == 0 || strstr(error.name, "m/tokenizer_config.json") != NULL);
        assert_int_equal(memory.open_files, 0);
        memory_store_free(&memory);
    }
}

/* Every file in turn ends anywhere, and every file in turn is too large. */
/* verifies formats-58.1816 */
static void files_may_end_anywhere(void **state)
{
    static const char *const whole[4] = {
        MODULES, "{'pooling_mode': ['cls'], 'include_prompt': true, 'x': 1}",
        "{'max_seq_length': 128, 'do_lower_case': false}",
        "{'prompts': {'q': 'query: ', 'd': 'x'}, 'default_prompt_name': 'q'}"};
    (void)state;
    for (int which = 0; which < 4; which++) {
        bp_embedder to;
        char part[512];
        const char *now[4] = {whole[0], whole[1], whole[2], whole[3]};
        now[which] = part;
        for (size_t cut = 0; cut < strlen(whole[which]); cut++) {
            snprintf(part, sizeof part, "%.*s", (int)cut, whole[which]);
            const files f = {now[0], now[1], now[2], now[3], NULL};
            assert_int_equal(read_files(&f, &to), BP_ERR_DATA);
            assert_non_null(strstr(error.name, "m/"));
        }
    }
}

/* verifies formats-58.1816 */
static void files_may_be_too_large(void **state)
{
    static char large[BP_EMBEDDER_SCRATCH + 1];
    bp_embedder to;
    (void)state;
    memset(large, ' ', sizeof large - 1);
    directories();
    memory_store_put(&memory, "m/modules.json", large, sizeof large - 1);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_embedder_read(&memory.store, "m", NULL, scratch, &to, &error), BP_ERR_DATA);
    assert_int_equal(error.code, BP_ERR_DATA);
    memory_store_free(&memory);
}

/* Words and prompts that are longer than any that is known. */
/* verifies formats-58.1816 */
static void texts_may_be_too_long(void **state)
{
    (void)state;
    static const struct {
        size_t length;
        const char *before, *behind, *said; /* of modules.json, or of the prompts */
        bool prompts;
    } cases[] = {
        {63, "[" TRANS ", {'path': '1', 'type': '", "'}]", "is not implemented", false},
        {64, "[" TRANS ", {'path': '1', 'type': '", "'}]", "is not implemented", false},
        {5000, "[" TRANS ", {'path': '1', 'type': '", "'}]", "a word is expected here", false},
        {2047, "{'prompts': {'q': '", "'}, 'default_prompt_name': 'q'}", NULL, true},
        {2048, "{'prompts': {'q': '", "'}, 'default_prompt_name': 'q'}", "a prompt is a text",
         true},
    };
    char long_name[70], text[8192];
    bp_embedder to;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t at = (size_t)snprintf(text, sizeof text, "%s", cases[i].before);
        memset(text + at, 'w', cases[i].length);
        snprintf(text + at + cases[i].length, sizeof text - at - cases[i].length, "%s",
                 cases[i].behind);
        const files f = {cases[i].prompts ? MODULES : text, "{}", NULL,
                         cases[i].prompts ? text : NULL, NULL};
        const bp_status status = read_files(&f, &to);
        assert_int_equal(status, cases[i].said == NULL ? BP_OK : BP_ERR_DATA);
        assert_true(cases[i].said == NULL || strstr(error.text, cases[i].said) != NULL);
    }
    memset(long_name, 'q', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const files f = {MODULES, "{}", NULL, "{'prompts': {'q': 'x'}}", long_name};
    assert_int_equal(read_files(&f, &to), BP_ERR_USAGE);
    assert_string_equal(error.name, long_name);
}

/* A file of prompts that is there is not written over; where nobody can say it is written. */
/* verifies formats-58.1816 */
static void what_is_there_stays(void **state)
{
    (void)state;
    const bp_embedder from = {.pooling = BP_POOLING_MEAN, .normalize = true};
    static const char name[] = "w/config_sentence_transformers.json";
    for (int way = 0; way < 3; way++) {
        memory_store own;
        faulty_store faulty;
        bp_error said = {.code = BP_OK};
        size_t size;
        memory_store_init(&own);
        faulty_store_init(&faulty, &own.store);
        assert_int_equal(own.store.make_directory(&own.store, "w"), BP_OK);
        if (way > 0) {
            memory_store_put(&own, name, "mine", 4);
        }
        faulty_store_arm(&faulty, FAULT_EXISTS, way == 2 ? 1 : 0, false);
        assert_int_equal(bp_embedder_write(&faulty.store, "w", &from, 8, 16, &said), BP_OK);
        const unsigned char *bytes = memory_store_bytes(&own, name, &size);
        assert_non_null(bytes);
        assert_int_equal(size == 4 && memcmp(bytes, "mine", 4) == 0, way == 1);
        memory_store_free(&own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(dense_modules_are_read),
        cmocka_unit_test(dense_modules_that_are_others_are_refused),
        cmocka_unit_test(lengths_of_large_tokenizers_are_read),
        cmocka_unit_test(what_is_not_implemented_is_refused),
        cmocka_unit_test(files_may_end_anywhere),
        cmocka_unit_test(files_may_be_too_large),
        cmocka_unit_test(texts_may_be_too_long),
        cmocka_unit_test(what_is_there_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
