/* SPDX-License-Identifier: MIT */
/* Tokenizers to GGUF and back. That the keys are those of gguf-py, tests/cli/models/test_port.sh
 * sees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/disk_file.h"
#include "tools/formats/gguf/gguf_tokenizer.h"
#include "tools/formats/files/stream_file.h"
#include "tools/formats/text/token_table.h"

#define GOLDEN "tests/golden/"

enum { MEMORY = 1 << 22 };

typedef struct fixture {
    memory_store memory;
    bp_error error;
    bp_tokenizer tokenizer;
    bp_tokenizer again;
    bp_model_config config;
    char *room;
    char *room2;
    uint32_t order[8192];
    char text[BP_GGUF_TOKENIZER_TEXT];
    uint64_t scratch[BP_TOKENIZER_SCRATCH / 8];
    uint64_t tables[65536];
    bp_gguf_file file;
} fixture;

static fixture *fixture_new(void)
{
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    memory_store_init(&d->memory);
    assert_int_equal(d->memory.store.make_directory(&d->memory.store, "d"), BP_OK);
    assert_int_equal(d->memory.store.make_directory(&d->memory.store, "e"), BP_OK);
    d->room = malloc(MEMORY);
    d->room2 = malloc(MEMORY);
    assert_non_null(d->room);
    assert_non_null(d->room2);
    d->config = (bp_model_config){.vocabulary = 2048, .bos_token = -1, .eos_token = -1};
    return d;
}

static void fixture_free(fixture *d)
{
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->room);
    free(d->room2);
    free(d);
}

static void open_tokenizer(fixture *d, bp_tokenizer *t, const char *directory, char *room)
{
    bp_tokenizer_need need;
    bp_store *store = &d->memory.store;
    assert_int_equal(bp_tokenizer_measure(store, directory, d->scratch, &need, &d->error), BP_OK);
    assert_true(need.bytes <= MEMORY);
    assert_int_equal(bp_tokenizer_open(t, store, directory, &need, room, d->scratch, &d->error),
                     BP_OK);
    assert_true(bp_gguf_tokenizer_room(t) <= 8192);
}

static bp_status put(fixture *d)
{
    bp_gguf_writer w;
    bp_gguf_tokenizer g = {&d->tokenizer, &d->config, d->order, d->text, &d->error};
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "g", &d->error), BP_OK);
    bp_status status = bp_gguf_put_tokenizer(&g, &w);
    if (status != BP_OK) {
        bp_gguf_abandon(&w);
        return status;
    }
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    return bp_gguf_end(&w);
}

static void open_gguf(fixture *d)
{
    bp_staging room = {d->tables, sizeof d->tables};
    assert_int_equal(bp_gguf_open(&d->file, &d->memory.store, "g", &room, &d->error), BP_OK);
}

/* Reads the file "g" into the directory "e". */
static bp_status get(fixture *d)
{
    bp_stream_file stream;
    open_gguf(d);
    assert_int_equal(bp_stream_begin(&stream, &d->memory.store, "e/tokenizer.json", &d->error),
                     BP_OK);
    uint64_t *scratch = malloc((size_t)bp_gguf_tokenizer_scratch(&d->file));
    assert_non_null(scratch);
    bp_status status = bp_gguf_tokenizer_json(&d->file, scratch, bp_stream_add, &stream, &d->error);
    free(scratch);
    assert_int_equal(bp_stream_end(&stream, status), status);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    return status;
}

static void check_equal(const fixture *d)
{
    const bp_tokenizer *a = &d->tokenizer;
    const bp_tokenizer *b = &d->again;
    assert_int_equal(a->tokens, b->tokens);
    assert_int_equal(a->merge_count, b->merge_count);
    assert_int_equal(a->rules.split, b->rules.split);
    assert_int_equal(a->rules.compose, b->rules.compose);
    assert_int_equal(a->rules.ignore_merges, b->rules.ignore_merges);
    for (uint32_t id = 0; id < a->tokens; id++) {
        assert_int_equal(bp_token_exists(a, id), bp_token_exists(b, id));
        if (bp_token_exists(a, id)) {
            size_t lengths[2];
            const unsigned char *left = bp_token_text(a, id, &lengths[0]);
            const unsigned char *right = bp_token_text(b, id, &lengths[1]);
            assert_int_equal(lengths[0], lengths[1]);
            assert_memory_equal(left, right, lengths[0]);
            assert_int_equal(bp_tokenizer_is_special(a, id), bp_tokenizer_is_special(b, id));
        }
    }
    for (uint64_t slot = 0; slot <= a->merge_mask; slot++) {
        const bp_token_merge *merge = &a->merges[slot];
        if (merge->rank != BP_TOKEN_NONE) {
            const bp_token_merge *other = bp_token_merge_of(b, merge->left, merge->right);
            assert_non_null(other);
            assert_int_equal(other->rank, merge->rank);
            assert_int_equal(other->id, merge->id);
        }
    }
}

/* verifies formats-7.5b71 */
static void byte_level_tokenizers_come_back_as_they_were(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {GOLDEN "tokenizers/llama3/tokenizer.json", "d/tokenizer.json"},
        {GOLDEN "tokenizers/qwen2/tokenizer.json", "d/tokenizer.json"},
        {GOLDEN "port/vocab.json", "d/vocab.json"},
    };
    for (size_t i = 0; i < 3; i++) {
        fixture *d = fixture_new();
        disk_file_put(&d->memory, files[i][0], files[i][1]);
        if (i == 2) {
            disk_file_put(&d->memory, GOLDEN "port/merges.txt", "d/merges.txt");
        }
        open_tokenizer(d, &d->tokenizer, "d", d->room);
        assert_null(bp_gguf_tokenizer_refusal(&d->tokenizer, &d->config));
        assert_int_equal(put(d), BP_OK);
        assert_int_equal(get(d), BP_OK);
        open_tokenizer(d, &d->again, "e", d->room2);
        check_equal(d);
        fixture_free(d);
    }
}

/* verifies formats-8.e397 */
static void scores_order_as_ranks_do(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    bp_gguf_items scores;
    bp_gguf_items types;
    disk_file_put(&d->memory, GOLDEN "tokenizers/llama2/tokenizer.json", "d/tokenizer.json");
    open_tokenizer(d, &d->tokenizer, "d", d->room);
    const bp_tokenizer *t = &d->tokenizer;
    assert_int_equal(put(d), BP_OK);
    open_gguf(d);
    assert_null(bp_gguf_tokenizer_foreign(&d->file));
    assert_int_equal(bp_gguf_items_begin(&scores, &d->file, "tokenizer.ggml.scores", BP_GGUF_F32),
                     BP_OK);
    assert_int_equal(
        bp_gguf_items_begin(&types, &d->file, "tokenizer.ggml.token_type", BP_GGUF_I32), BP_OK);
    float *all = calloc(t->tokens, sizeof *all);
    assert_non_null(all);
    size_t bytes = 0;
    for (uint32_t id = 0; id < t->tokens; id++) {
        int32_t bits;
        int32_t type;
        assert_int_equal(bp_gguf_items_i32(&scores, &bits), BP_OK);
        assert_int_equal(bp_gguf_items_i32(&types, &type), BP_OK);
        memcpy(&all[id], &bits, sizeof bits);
        bytes += type == BP_GGUF_TOKEN_BYTE ? 1 : 0;
    }
    assert_int_equal(bytes, 256);
    /* A merge of lower rank never makes a token of lower score. */
    for (uint64_t slot = 0; slot <= t->merge_mask; slot++) {
        const bp_token_merge *merge = &t->merges[slot];
        assert_true(merge->rank == BP_TOKEN_NONE || all[merge->id] >= -(float)merge->rank);
    }
    free(all);
    assert_int_equal(bp_gguf_close(&d->file), BP_OK);
    fixture_free(d);
}

/* The ranks of pairs may be others, since scores are of pieces; what is encoded is the same. */
/* verifies formats-7.5b71 */
static void pieces_come_back_by_their_scores(void **state)
{
    (void)state;
    static const char text[] =
        "the Übergrößenträger's 東京タワー   user@example.org\n\xf0\x9f\x98\x80 x";
    fixture *d = fixture_new();
    disk_file_put(&d->memory, GOLDEN "tokenizers/llama2/tokenizer.json", "d/tokenizer.json");
    open_tokenizer(d, &d->tokenizer, "d", d->room);
    d->config.vocabulary = d->tokenizer.tokens;
    assert_int_equal(put(d), BP_OK);
    assert_int_equal(get(d), BP_OK);
    open_tokenizer(d, &d->again, "e", d->room2);
    const bp_tokenizer *both[2] = {&d->tokenizer, &d->again};
    uint32_t ids[2][256];
    size_t count[2];
    for (int i = 0; i < 2; i++) {
        bp_encoder encoder;
        void *room = malloc((size_t)bp_encoder_bytes(4096));
        assert_non_null(room);
        assert_int_equal(bp_encoder_init(&encoder, both[i], 4096, room), BP_OK);
        bp_encoder_text(&encoder, text, sizeof text - 1, BP_ENCODE_PLAIN, ids[i], 256, &count[i]);
        free(room);
    }
    assert_int_equal(count[0], count[1]);
    assert_true(count[0] > 10 && count[0] <= 256);
    assert_memory_equal(ids[0], ids[1], count[0] * sizeof ids[0][0]);
    for (uint32_t id = 0; id < d->tokenizer.tokens; id++) {
        assert_int_equal(bp_tokenizer_is_special(both[0], id),
                         bp_tokenizer_is_special(both[1], id));
    }
    for (uint64_t slot = 0; slot <= d->tokenizer.merge_mask; slot++) {
        const bp_token_merge *merge = &d->tokenizer.merges[slot];
        if (merge->rank != BP_TOKEN_NONE && !bp_tokenizer_is_special(both[0], merge->id)) {
            const bp_token_merge *other = bp_token_merge_of(both[1], merge->left, merge->right);
            assert_non_null(other);
            assert_int_equal(other->id, merge->id);
        }
    }
    fixture_free(d);
}

/* verifies formats-50.b7a1 */
static void what_gguf_has_no_keys_for_is_refused(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    disk_file_put(&d->memory, GOLDEN "tokenizers/bert_uncased/tokenizer.json", "d/tokenizer.json");
    open_tokenizer(d, &d->tokenizer, "d", d->room);
    assert_non_null(bp_gguf_tokenizer_refusal(&d->tokenizer, &d->config));
    assert_int_equal(put(d), BP_ERR_USAGE);
    disk_file_put(&d->memory, GOLDEN "tokenizers/llama3/tokenizer.json", "d/tokenizer.json");
    open_tokenizer(d, &d->tokenizer, "d", d->room);
    d->config.vocabulary = d->tokenizer.tokens - 1;
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(put(d), BP_ERR_DATA);
    assert_int_equal(d->error.found, d->tokenizer.tokens);
    d->config.vocabulary++;
    assert_int_equal(put(d), BP_OK);
    fixture_free(d);
}

/* A file whose tokenizer keys are of the case. */
static void put_case(fixture *d, const char *model, const char *pre, uint64_t tokens,
                     uint64_t types, size_t length)
{
    bp_gguf_writer w;
    char *token = calloc(1, length + 1);
    assert_non_null(token);
    memset(token, 'x', length);
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "g", NULL), BP_OK);
    bp_gguf_put_string(&w, "tokenizer.ggml.model", model, strlen(model));
    bp_gguf_put_string(&w, "tokenizer.ggml.pre", pre, strlen(pre));
    if (tokens > 0) {
        bp_gguf_put_array(&w, "tokenizer.ggml.tokens", BP_GGUF_STRING, tokens);
        for (uint64_t i = 0; i < tokens; i++) {
            bp_gguf_item_string(&w, token, length);
        }
    }
    bp_gguf_put_array(&w, "tokenizer.ggml.token_type", BP_GGUF_I32, types);
    for (uint64_t i = 0; i < types; i++) {
        bp_gguf_item_i32(&w, 1);
    }
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
    free(token);
}

/* verifies formats-10.4a5c */
static void wrong_keys_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *pre;
        uint64_t tokens, types;
        size_t length;
        bp_status status;
    } cases[] = {
        {"gpt2", "gpt-2", 1, 1, 3, BP_OK},          {"llama", "gpt-2", 1, 1, 3, BP_ERR_DATA},
        {"gpt2", "deepseek", 1, 1, 3, BP_ERR_DATA}, {"gpt2", "gpt-2", 0, 1, 3, BP_ERR_DATA},
        {"gpt2", "gpt-2", 2, 1, 3, BP_ERR_DATA},    {"gpt2", "gpt-2", 1, 2, 3, BP_ERR_DATA},
        {"gpt2", "gpt-2", 1, 1, 9000, BP_ERR_DATA},
    };
    fixture *d = fixture_new();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        d->error = (bp_error){.code = BP_OK};
        put_case(d, cases[i].model, cases[i].pre, cases[i].tokens, cases[i].types, cases[i].length);
        assert_int_equal(get(d), cases[i].status);
    }
    fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_tokenizers_come_back_as_they_were),
        cmocka_unit_test(scores_order_as_ranks_do),
        cmocka_unit_test(pieces_come_back_by_their_scores),
        cmocka_unit_test(what_gguf_has_no_keys_for_is_refused),
        cmocka_unit_test(wrong_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
