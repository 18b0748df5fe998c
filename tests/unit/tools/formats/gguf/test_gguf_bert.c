/* SPDX-License-Identifier: MIT */
/* Encoders in GGUF (vectors: tests/cli/models/test_gguf_vectors.sh): what a file says of its model,
 * keys that are wrong, and what is not written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "layers/families/bert.h"
#include "layers/families/neox.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_model.h"

enum { LAYERS, POSITIONS, WIDTH, INNER, HEADS, POOLING, COUNTS };
static const char *const keys[COUNTS] = {"bert.block_count",          "bert.context_length",
                                         "bert.embedding_length",     "bert.feed_forward_length",
                                         "bert.attention.head_count", "bert.pooling_type"};

/* What a file says; types 0: it has no table of types. */
typedef struct said {
    uint32_t count[COUNTS];
    uint64_t types;
    float epsilon;
    bool deep; /* the table of types has three dimensions */
} said;

static const said usual = {{2, 20, 8, 12, 2, 2}, 2, 1e-12f, false};

typedef struct fixture {
    memory_store memory;
    bp_model_config config;
    const bp_gguf_family *family;
    bp_error error;
} fixture;

static void put(fixture *d, const said *s)
{
    bp_gguf_writer w;
    const uint64_t words[] = {5, 8}, types[] = {s->types, 8}, deep[] = {1, s->types, 8};
    static const float zeros[4096 * 8]; /* many types at a time: the store keeps each write */
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "in", &d->error), BP_OK);
    bp_gguf_put_string(&w, "general.architecture", "bert", 4);
    for (size_t i = 0; i < COUNTS; i++) {
        bp_gguf_put_u32(&w, keys[i], s->count[i]);
    }
    bp_gguf_put_f32(&w, "bert.attention.layer_norm_epsilon", s->epsilon);
    bp_gguf_put_tensor(&w, "token_embd.weight", 2, words, BP_F32);
    if (s->types > 0) {
        bp_gguf_put_tensor(&w, "token_types.weight", s->deep ? 3 : 2, s->deep ? deep : types,
                           BP_F32);
    }
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_data_add(&w, zeros, sizeof(float[5 * 8])), BP_OK);
    assert_int_equal(bp_gguf_data_pad(&w), BP_OK);
    for (uint64_t i = 0; i < s->types; i += 4096) {
        const uint64_t left = s->types - i, some = left < 4096 ? left : 4096;
        assert_int_equal(bp_gguf_data_add(&w, zeros, some * sizeof(float[8])), BP_OK);
    }
    assert_int_equal(s->types > 0 ? bp_gguf_data_pad(&w) : BP_OK, BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
}

static bp_status describe(fixture *d, const said *s)
{
    static uint64_t scratch[1 << 15];
    bp_staging room = {scratch, sizeof scratch};
    bp_gguf_file file;
    d->error = (bp_error){.code = BP_OK};
    put(d, s);
    assert_int_equal(bp_gguf_open(&file, &d->memory.store, "in", &room, &d->error), BP_OK);
    const bp_status status = bp_gguf_describe(&file, &d->family, &d->config, &d->error);
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    return status;
}

/* verifies formats-8.e397 */
static void files_say_which_model_they_hold(void **state)
{
    (void)state;
    fixture d;
    memory_store_init(&d.memory);
    assert_int_equal(describe(&d, &usual), BP_OK);
    bp_bert_config own = bp_bert_config_of(&d.config);
    assert_string_equal(d.family->model_type, "bert");
    assert_true(own.types == 2 && own.stack.layers == 2 && own.kind == BP_BERT);
    assert_true(d.config.task == BP_TASK_EMBEDDING && d.config.classes == 8);
    assert_true(d.config.vocabulary == 5 && d.config.positions == 20);
    assert_int_equal(d.config.pooling, BP_POOLING_CLS);
    said other = usual;
    other.types = 0;
    other.count[POOLING] = 3;
    assert_int_equal(describe(&d, &other), BP_OK);
    own = bp_bert_config_of(&d.config);
    assert_string_equal(d.family->model_type, "distilbert");
    assert_true(own.types == 0 && own.kind == BP_DISTILBERT);
    assert_int_equal(d.config.pooling, BP_POOLING_LAST);
    other.count[POOLING] = 0; /* none of them */
    assert_int_equal(describe(&d, &other), BP_OK);
    assert_int_equal(d.config.pooling, BP_POOLING_MEAN);
    memory_store_free(&d.memory);
}

/* verifies formats-10.4a5c */
static void wrong_keys_are_named(void **state)
{
    (void)state;
    static const struct {
        uint32_t key, value;
        uint64_t types;
        float epsilon;
        const char *name;
    } rows[] = {{LAYERS, 0, 2, 1e-12f, "bert.block_count"},
                {POSITIONS, 0, 2, 1e-12f, "bert.context_length"},
                {WIDTH, 0, 2, 1e-12f, "bert.embedding_length"},
                {INNER, 0, 2, 1e-12f, "bert.feed_forward_length"},
                {HEADS, 0, 2, 1e-12f, "bert.attention.head_count"},
                {HEADS, 3, 2, 1e-12f, "bert.attention.head_count"},
                {POOLING, 7, 2, 1e-12f, "bert.pooling_type"},
                {POOLING, 1, 2, 1.0f, "bert.attention.layer_norm_epsilon"},
                {POOLING, 1, 2, -1.0f, "bert.attention.layer_norm_epsilon"},
                {POOLING, 1, 0, 1e-5f, "bert.attention.layer_norm_epsilon"},
                {POOLING, 1, 1 << 17, 1e-12f, "token_types.weight"}};
    fixture d;
    memory_store_init(&d.memory);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        said s = usual;
        s.count[rows[i].key] = rows[i].value;
        s.types = rows[i].types;
        s.epsilon = rows[i].epsilon;
        assert_int_equal(describe(&d, &s), BP_ERR_DATA);
        if (strstr(d.error.name, rows[i].name) == NULL) {
            fail_msg("%s is not %s", d.error.name, rows[i].name);
        }
    }
    said deep = usual;
    deep.deep = true;
    assert_int_equal(describe(&d, &deep), BP_ERR_DATA);
    assert_non_null(strstr(d.error.name, "token_types.weight"));
    memory_store_free(&d.memory);
}

/* A store that calls its files larger than they are. */
static uint64_t said_bytes;

static bp_status says_much(bp_store *store, bp_file file, uint64_t *bytes)
{
    (void)store;
    (void)file;
    *bytes = said_bytes;
    return BP_OK;
}

/* More words than a token's number can say are refused before anything is read of them. */
/* verifies formats-10.4a5c */
static void too_many_words_are_refused(void **state)
{
    (void)state;
    static uint64_t scratch[1 << 15];
    static unsigned char whole[1 << 20];
    for (uint64_t more = 0; more < 2; more++) {
        static const char name[] = "token_embd.weight";
        const uint64_t few[] = {5, 8}, words = (uint64_t)INT32_MAX + more;
        static const float zeros[5 * 8];
        fixture d;
        bp_gguf_writer w;
        bp_gguf_file file;
        bp_staging room = {scratch, sizeof scratch};
        size_t size, at = 0;
        memory_store_init(&d.memory);
        d.error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_gguf_begin(&w, &d.memory.store, "in", &d.error), BP_OK);
        bp_gguf_put_string(&w, "general.architecture", "bert", 4);
        bp_gguf_put_tensor(&w, name, 2, few, BP_F32);
        assert_int_equal(bp_gguf_data(&w), BP_OK);
        assert_int_equal(bp_gguf_data_add(&w, zeros, sizeof zeros), BP_OK);
        assert_int_equal(bp_gguf_data_pad(&w), BP_OK);
        assert_int_equal(bp_gguf_end(&w), BP_OK);
        unsigned char *bytes = memory_store_bytes(&d.memory, "in", &size);
        while (memcmp(bytes + at, name, strlen(name)) != 0) {
            at++;
            assert_true(at + strlen(name) < size);
        }
        /* Behind the name: the rank, the width, and how many words. */
        memcpy(bytes + at + strlen(name) + 4 + 8, &words, sizeof words);
        /* As much of the file as is read at a time; the rest is said to be there. */
        memset(whole, 0, sizeof whole);
        memcpy(whole, bytes, size);
        said_bytes = size - sizeof zeros + words * sizeof(float[8]);
        memory_store_put(&d.memory, "in", whole, sizeof whole);
        d.memory.store.file_size = says_much;
        if (bp_gguf_open(&file, &d.memory.store, "in", &room, &d.error) != BP_OK) {
            fail_msg("%s: %s", d.error.name, d.error.text);
        }
        assert_int_equal(bp_gguf_describe(&file, &d.family, &d.config, &d.error), BP_ERR_DATA);
        /* Of one word less it is the first key of the model that is missing. */
        assert_int_equal(strcmp(d.error.name, "token_embd.weight") == 0, more == 1);
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        memory_store_free(&d.memory);
    }
}

/* A file of GPT-NeoX that does not say how its blocks are joined has parallel ones. */
/* verifies formats-8.e397 */
static void blocks_of_neox_are_parallel_unless_said(void **state)
{
    (void)state;
    static uint64_t scratch[1 << 15];
    static const char *const counts[] = {
        "gptneox.block_count",          "gptneox.context_length",
        "gptneox.embedding_length",     "gptneox.feed_forward_length",
        "gptneox.attention.head_count", "gptneox.rope.dimension_count"};
    static const uint32_t values[] = {2, 20, 16, 24, 2, 4};
    for (int said_so = -1; said_so < 2; said_so++) {
        const uint64_t words[] = {5, 16};
        static const float zeros[5 * 16];
        fixture d;
        bp_gguf_writer w;
        bp_gguf_file file;
        bp_staging room = {scratch, sizeof scratch};
        memory_store_init(&d.memory);
        d.error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_gguf_begin(&w, &d.memory.store, "in", &d.error), BP_OK);
        bp_gguf_put_string(&w, "general.architecture", "gptneox", 7);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            bp_gguf_put_u32(&w, counts[i], values[i]);
        }
        bp_gguf_put_f32(&w, "gptneox.attention.layer_norm_epsilon", 1e-5f);
        bp_gguf_put_f32(&w, "gptneox.rope.freq_base", 10000.0f);
        if (said_so >= 0) {
            bp_gguf_put_bool(&w, "gptneox.use_parallel_residual", said_so > 0);
        }
        bp_gguf_put_tensor(&w, "token_embd.weight", 2, words, BP_F32);
        assert_int_equal(bp_gguf_data(&w), BP_OK);
        assert_int_equal(bp_gguf_data_add(&w, zeros, sizeof zeros), BP_OK);
        assert_int_equal(bp_gguf_data_pad(&w), BP_OK);
        assert_int_equal(bp_gguf_end(&w), BP_OK);
        assert_int_equal(bp_gguf_open(&file, &d.memory.store, "in", &room, &d.error), BP_OK);
        if (bp_gguf_describe(&file, &d.family, &d.config, &d.error) != BP_OK) {
            fail_msg("%s: %s", d.error.name, d.error.text);
        }
        assert_int_equal(bp_neox_config_of(&d.config).parallel, said_so != 0);
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        memory_store_free(&d.memory);
    }
}

/* verifies formats-50.b7a1 */
static void what_has_no_place_is_not_written(void **state)
{
    (void)state;
    static const struct {
        bp_task task;
        bp_pooling pooling;
        const char *name;
    } rows[] = {{BP_TASK_MASKED_LM, BP_POOLING_MEAN, "bert"},
                {BP_TASK_CLASSES, BP_POOLING_MEAN, "bert"},
                {BP_TASK_EMBEDDING, BP_POOLING_SQRT, "pooling_mode"},
                {BP_TASK_EMBEDDING, BP_POOLING_WEIGHTED, "pooling_mode"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_error error = {.code = BP_OK};
        bp_model_config config = bp_family_defaults(&bp_family_bert);
        config.task = rows[i].task;
        config.pooling = rows[i].pooling;
        assert_int_equal(bp_gguf_bert.exports(&config, &error), BP_ERR_USAGE);
        assert_string_equal(error.name, rows[i].name);
    }
}

static void is_refused(const bp_model_config *config, const char *name)
{
    bp_error found = {.code = BP_OK};
    assert_int_equal(config->family->gguf->exports(config, &found), BP_ERR_USAGE);
    assert_string_equal(found.name, name);
}

/* Readers compute GELU whatever the file's model has. */
/* verifies formats-50.b7a1 */
static void what_readers_take_for_gelu_is_not_written(void **state)
{
    (void)state;
    static const char *const encoders[][2] = {{"bert", "hidden_act"}, {"distilbert", "activation"}};
    for (size_t i = 0; i < sizeof encoders / sizeof encoders[0]; i++) {
        bp_error found = {.code = BP_OK};
        bp_model_config config = bp_family_defaults(bp_family_find(encoders[i][0]));
        config.task = BP_TASK_EMBEDDING;
        SET_FAMILY(&config, bp_transformer, activation, BP_HIDDEN_RELU);
        is_refused(&config, encoders[i][1]);
        SET_FAMILY(&config, bp_transformer, activation, BP_HIDDEN_GELU_TANH);
        assert_int_equal(config.family->gguf->exports(&config, &found), BP_OK);
    }
    bp_model_config neox = bp_family_defaults(bp_family_find("gpt_neox"));
    SET_FAMILY(&neox, bp_neox_config, activation, BP_HIDDEN_RELU);
    is_refused(&neox, "hidden_act");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_say_which_model_they_hold),
        cmocka_unit_test(wrong_keys_are_named),
        cmocka_unit_test(too_many_words_are_refused),
        cmocka_unit_test(blocks_of_neox_are_parallel_unless_said),
        cmocka_unit_test(what_has_no_place_is_not_written),
        cmocka_unit_test(what_readers_take_for_gelu_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
