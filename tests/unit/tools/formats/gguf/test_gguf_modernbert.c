/* SPDX-License-Identifier: MIT */
/* ModernBERT in GGUF (vectors: tests/cli/models/test_gguf_vectors.sh): which layers look at all,
 * keys that are wrong, and what is not written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "layers/families/modernbert.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_model.h"

/* What a file says; 0: nothing. */
typedef struct said {
    uint32_t layers, window, every;
    float base, near;
    uint32_t heads; /* 0: 2 */
} said;

typedef struct fixture {
    memory_store memory;
    bp_model_config config;
    const bp_gguf_family *family;
    bp_error error;
} fixture;

static bp_status describe(fixture *d, const said *s)
{
    static uint64_t scratch[1 << 13];
    static const float zeros[5 * 8];
    const uint64_t words[] = {5, 8};
    bp_staging room = {scratch, sizeof scratch};
    bp_gguf_file file;
    bp_gguf_writer w;
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_gguf_begin(&w, &d->memory.store, "in", &d->error), BP_OK);
    bp_gguf_put_string(&w, "general.architecture", "modern-bert", 11);
    bp_gguf_put_u32(&w, "modern-bert.block_count", s->layers);
    bp_gguf_put_u32(&w, "modern-bert.context_length", 20);
    bp_gguf_put_u32(&w, "modern-bert.embedding_length", 8);
    bp_gguf_put_u32(&w, "modern-bert.feed_forward_length", 12);
    bp_gguf_put_u32(&w, "modern-bert.attention.head_count", s->heads != 0 ? s->heads : 2);
    bp_gguf_put_f32(&w, "modern-bert.attention.layer_norm_epsilon", 1e-5f);
    if (s->window != 0) {
        bp_gguf_put_u32(&w, "modern-bert.attention.sliding_window", s->window - 1);
    }
    if (s->every != 0) {
        bp_gguf_put_u32(&w, "modern-bert.attention.sliding_window_pattern", s->every - 1);
    }
    if (s->base != 0.0f) {
        bp_gguf_put_f32(&w, "modern-bert.rope.freq_base", s->base);
    }
    if (s->near != 0.0f) {
        bp_gguf_put_f32(&w, "modern-bert.rope.freq_base_swa", s->near);
    }
    bp_gguf_put_tensor(&w, "token_embd.weight", 2, words, BP_F32);
    assert_int_equal(bp_gguf_data(&w), BP_OK);
    assert_int_equal(bp_gguf_data_add(&w, zeros, sizeof zeros), BP_OK);
    assert_int_equal(bp_gguf_data_pad(&w), BP_OK);
    assert_int_equal(bp_gguf_end(&w), BP_OK);
    assert_int_equal(bp_gguf_open(&file, &d->memory.store, "in", &room, &d->error), BP_OK);
    const bp_status status = bp_gguf_describe(&file, &d->family, &d->config, &d->error);
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    return status;
}

/* verifies formats-8.e397 */
static void files_say_which_layers_look_at_all(void **state)
{
    (void)state;
    static const struct {
        said file;
        uint64_t near;
        uint32_t window;
        double base, other;
    } rows[] = {
        {{5, 0, 0, 0.0f, 0.0f, 0}, 0x00, 128, 10000.0, 10000.0}, /* readers' bases */
        {{5, 7, 0, 2.0f, 3.0f, 0}, 0x16, 6, 2.0, 3.0},
        {{5, 7, 3, 2.0f, 3.0f, 0}, 0x0a, 6, 2.0, 3.0},
        {{5, 7, 2, 2.0f, 3.0f, 0}, 0x00, 6, 2.0, 3.0},
        {{5, 0, 3, 2.0f, 3.0f, 0}, 0x00, 128, 2.0, 3.0}, /* a pattern of no window */
    };
    fixture d;
    memory_store_init(&d.memory);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(describe(&d, &rows[i].file), BP_OK);
        const bp_modernbert_config own = bp_modernbert_config_of(&d.config);
        assert_string_equal(d.family->model_type, "modernbert");
        assert_true(d.config.task == BP_TASK_EMBEDDING && d.config.classes == 8);
        assert_true(own.llama.near.listed == 5 && own.llama.near.bits[0] == rows[i].near);
        assert_true(own.llama.rope_theta == rows[i].base && own.llama.near_theta == rows[i].other);
        assert_int_equal(own.llama.window, rows[i].window);
    }
    memory_store_free(&d.memory);
}

/* verifies formats-10.4a5c */
static void wrong_keys_are_named(void **state)
{
    (void)state;
    static const struct {
        said file;
        const char *name;
    } rows[] = {{{0, 0, 0, 0.0f, 0.0f, 0}, "modern-bert.block_count"},
                {{129, 0, 0, 0.0f, 0.0f, 0}, "modern-bert.block_count"},
                {{5, 0, 0, 0.0f, 0.0f, 8}, "modern-bert.attention.head_count"},
                {{5, 1, 0, 0.0f, 0.0f, 0}, "modern-bert.attention.sliding_window"},
                {{5, 2, 0, 0.0f, 0.0f, 0}, "modern-bert.attention.sliding_window"},
                {{5, 7, 1, 0.0f, 0.0f, 0}, "modern-bert.attention.sliding_window_pattern"},
                {{5, 7, 0, -1.0f, 0.0f, 0}, "modern-bert.rope.freq_base"},
                {{5, 7, 0, 1e12f, 0.0f, 0}, "modern-bert.rope.freq_base"},
                {{5, 7, 0, 2.0f, -1.0f, 0}, "modern-bert.rope.freq_base_swa"}};
    fixture d;
    memory_store_init(&d.memory);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(describe(&d, &rows[i].file), BP_ERR_DATA);
        if (strncmp(d.error.name, "in", 2) != 0 || strstr(d.error.name, rows[i].name) == NULL) {
            fail_msg("%s is not %s", d.error.name, rows[i].name);
        }
    }
    memory_store_free(&d.memory);
}

/* verifies formats-50.b7a1 */
static void what_readers_have_no_keys_for_is_not_written(void **state)
{
    (void)state;
    static const struct {
        bp_task task;
        uint64_t near;
        double factor;
        const char *name; /* "": it is written */
    } rows[] = {{BP_TASK_EMBEDDING, 0x16, 0.0, ""},
                {BP_TASK_EMBEDDING, 0x00, 0.0, ""},
                {BP_TASK_EMBEDDING, 0x1e, 0.0, ""},
                {BP_TASK_MASKED_LM, 0x16, 0.0, "modernbert"},
                {BP_TASK_EMBEDDING, 0x01, 0.0, "layer_types"},
                {BP_TASK_EMBEDDING, 0x1f, 0.0, "layer_types"},
                {BP_TASK_EMBEDDING, 0x06, 0.0, "layer_types"},
                {BP_TASK_EMBEDDING, 0x16, 2.0, "rope_scaling"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_error error = {.code = BP_OK};
        bp_model_config config = bp_family_defaults(&bp_family_modernbert);
        bp_modernbert_config own = bp_modernbert_config_of(&config);
        own.llama.stack.layers = 5;
        own.llama.near = (bp_layer_set){{rows[i].near, 0}, 5};
        own.llama.rope_scaling.factor = rows[i].factor;
        bp_family_config_set(&config, &own, sizeof own);
        config.task = rows[i].task;
        const bool good = rows[i].name[0] == '\0';
        assert_int_equal(config.family->gguf->exports(&config, &error),
                         good ? BP_OK : BP_ERR_USAGE);
        assert_true(good || strstr(error.name, rows[i].name) != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_say_which_layers_look_at_all),
        cmocka_unit_test(wrong_keys_are_named),
        cmocka_unit_test(what_readers_have_no_keys_for_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
