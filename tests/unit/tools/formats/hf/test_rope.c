/* SPDX-License-Identifier: MIT */
/* rope_scaling of config.json: every kind is written as it was read, and what does not fit is
 * refused by the name of its member. Documents are written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/hf/hf_rope.h"

static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
static bp_error error;

static bp_status read_rope(const char *type, const char *rope, bp_model_config *config)
{
    char json[2048];
    memory_store memory;
    int length =
        snprintf(json, sizeof json,
                 "{'model_type': '%s', 'max_position_embeddings': 64, 'hidden_size': 32, "
                 "'num_attention_heads': 2, 'num_key_value_heads': 1, '%s': %s}",
                 type, strcmp(type, "gemma3_text") == 0 ? "rope_parameters" : "rope_scaling", rope);
    assert_in_range(length, 1, sizeof json - 1);
    for (int i = 0; i < length; i++) {
        json[i] = (char)(json[i] == '\'' ? '"' : json[i]);
    }
    memory_store_init(&memory);
    memory_store_put(&memory, "c", json, (size_t)length);
    error = (bp_error){.code = BP_OK};
    bp_status status = bp_hf_config_read(&memory.store, "c", scratch, config, &error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

typedef struct rope_row {
    const char *type, *rope;
    bp_rope_kind kind;
    double factor, low, high;
    uint32_t original;
    double magnitude;
    bool even;
    uint32_t pairs;
} rope_row;

static const rope_row rows[] = {
    {"llama", "{'rope_type': 'linear', 'factor': 4.0}", BP_ROPE_LINEAR, 4, 0, 0, 64, 0, false, 0},
    {"llama", "{'type': 'dynamic', 'factor': 2.5, 'attention_factor': null}", BP_ROPE_DYNAMIC, 2.5,
     0, 0, 64, 0, false, 0},
    {"llama",
     "{'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 1, 'high_freq_factor': 4, "
     "'original_max_position_embeddings': 32}",
     BP_ROPE_LLAMA3, 8, 1, 4, 32, 0, false, 0},
    {"qwen2", "{'rope_type': 'yarn', 'factor': 2, 'original_max_position_embeddings': 32}",
     BP_ROPE_YARN, 2, 1, 32, 32, 0, false, 0},
    {"qwen2",
     "{'type': 'yarn', 'factor': 4, 'beta_fast': 16, 'beta_slow': 2, 'attention_factor': 1.25, "
     "'truncate': false}",
     BP_ROPE_YARN, 4, 2, 16, 64, 1.25, true, 0},
    /* (0.1 ln 40 + 1) / (0.2 ln 40 + 1) */
    {"qwen2", "{'type': 'yarn', 'factor': 40, 'mscale': 1, 'mscale_all_dim': 2, 'truncate': true}",
     BP_ROPE_YARN, 40, 1, 32, 64, 1.36888794541 / 1.73777589082, false, 0},
    {"qwen2", "{'type': 'yarn', 'factor': 1, 'mscale': 1, 'mscale_all_dim': 2}", BP_ROPE_YARN, 1, 1,
     32, 64, 1.0, false, 0},
    /* Of two scales one alone says nothing, and a factor of attention says it itself. */
    {"qwen2", "{'type': 'yarn', 'factor': 40, 'mscale': 1}", BP_ROPE_YARN, 40, 1, 32, 64, 0, false,
     0},
    {"qwen2",
     "{'type': 'yarn', 'factor': 40, 'mscale': 1, 'mscale_all_dim': 2, 'attention_factor': 1.5}",
     BP_ROPE_YARN, 40, 1, 32, 64, 1.5, false, 0},
    {"hunyuan_v1_dense", "{'rope_type': 'dynamic', 'factor': 1, 'alpha': 50}", BP_ROPE_DYNAMIC, 1,
     50, 0, 64, 0, false, 0},
    {"llama",
     "{'type': 'longrope', 'short_factor': [1, 1.5, 2, 2, 2, 2, 2, 2], 'long_factor': [1, 2, 3, 4, "
     "5, 6, 7, 8], 'original_max_position_embeddings': 16}",
     BP_ROPE_LONG, 4, 0, 0, 16, 0, false, 8},
    /* of Phi-3 the number beside the object, whose usual value is 4096 */
    {"phi3",
     "{'type': 'longrope', 'short_factor': [1, 1.5, 2, 2, 2, 2, 2, 2], 'long_factor': [1, 2, 3, 4, "
     "5, 6, 7, 8], 'original_max_position_embeddings': 16}",
     BP_ROPE_LONG, 64.0 / 4096, 0, 0, 4096, 0, false, 8},
};

static void holds(const rope_row *row, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_rope_scaling *s = &own.rope_scaling;
    assert_int_equal(s->kind, row->kind);
    assert_true(fabs(s->factor - row->factor) < 1e-9);
    assert_true(fabs(s->low - row->low) < 1e-9 && fabs(s->high - row->high) < 1e-9);
    assert_int_equal(s->original, row->original);
    assert_true(fabs(s->magnitude - row->magnitude) < 1e-9);
    assert_int_equal(s->even, row->even);
    assert_int_equal(own.rope_pairs, row->pairs);
    if (row->pairs > 0) {
        bp_llama_long factors;
        bp_family_config_get(config, &factors, sizeof factors);
        assert_true(factors.far[7] > 7.9f && factors.near[1] > 1.4f && factors.near[1] < 1.6f);
    }
}

/* verifies formats-2.1f4a */
static void every_kind_is_written_as_it_was_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char written[1024];
        bp_model_config config, again;
        bp_text text;
        bp_json_writer json;
        if (read_rope(rows[i].type, rows[i].rope, &config) != BP_OK) {
            fail_msg("%s: %s: %s", rows[i].rope, error.name, error.text);
        }
        holds(&rows[i], &config);
        bp_text_init(&text, NULL, NULL, written, sizeof written);
        bp_json_put_begin(&json, &text, BP_JSON_SPACED);
        bp_hf_rope_put(&json, NULL, &config);
        bp_text_char(&text, '\0');
        assert_int_equal(bp_text_flush(&text), BP_OK);
        if (read_rope(rows[i].type, written, &again) != BP_OK) {
            fail_msg("%s: %s: %s", written, error.name, error.text);
        }
        holds(&rows[i], &again);
    }
}

/* Layers of two kinds: those that see all are scaled, the others have a base of their own. */
/* verifies formats-27.f2cc */
static void layers_of_two_kinds(void **state)
{
    bp_model_config config;
    (void)state;
    assert_int_equal(read_rope("gemma3_text",
                               "{'full_attention': {'rope_type': 'linear', 'factor': 8, "
                               "'rope_theta': 1000000.0}, 'sliding_attention': {'rope_type': "
                               "'default', 'rope_theta': 5000.0}}",
                               &config),
                     BP_OK);
    const bp_llama_config own = bp_llama_config_of(&config);
    assert_true(own.rope_theta == 1e6 && own.near_theta == 5000.0);
    assert_true(own.rope_scaling.kind == BP_ROPE_LINEAR && own.rope_scaling.factor == 8.0);
}

/* Sixteen numbers, of which a list has 64 at most. */
#define SIXTEEN "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "

/* verifies formats-1.08bd */
static void what_does_not_fit_is_named(void **state)
{
    static const struct {
        const char *type, *rope, *name, *text;
    } refused[] = {
        {"gemma3_text", "{'full_attention': 3}", "rope_parameters", ""},
        {"gemma3_text", "{'sliding_attention': {'rope_type': 'linear', 'factor': 2}}",
         "rope_parameters", "are not scaled"},
        {"gemma3_text", "{'full_attention': {'rope_type': 'linear'}}", "rope_parameters",
         "need factor"},
        {"phi3", "{'type': 'longrope', 'short_factor': 3}", "rope_scaling.short_factor", ""},
        {"phi3", "{'type': 'longrope', 'long_factor': ['1']}", "rope_scaling.long_factor", ""},
        {"phi3", "{'type': 'longrope', 'long_factor': [-1]}", "rope_scaling.long_factor", ""},
        {"phi3", "{'type': 'longrope', 'long_factor': [1e6]}", "rope_scaling.long_factor", ""},
        {"phi3", "{'type': 'longrope', 'long_factor': [1, 2], 'short_factor': [1]}", "rope_scaling",
         "lists of the same length"},
        {"phi3", "{'type': 'longrope', 'long_factor': [" SIXTEEN SIXTEEN SIXTEEN SIXTEEN "1]}",
         "rope_scaling.long_factor", ""},
        {"phi3", "{'type': 'longrope', 'long_factor': [" SIXTEEN SIXTEEN SIXTEEN "1]}",
         "rope_scaling", "lists of the same length"},
        {"phi3", "{'type': 'longrope'}", "rope_scaling", "lists of the same length"},
        {"llama", "{'type': 'dynamic'}", "rope_scaling", "need factor"},
        {"qwen2", "{'type': 'yarn', 'factor': -1}", "rope_scaling.factor", ""},
        {"qwen2", "{'type': 'yarn', 'beta_fast': '3'}", "rope_scaling.beta_fast", ""},
        {"qwen2", "{'type': 'yarn', 'mscale': 1e6}", "rope_scaling.mscale", ""},
        {"qwen2", "{'type': 'yarn', 'original_max_position_embeddings': 0.5}",
         "rope_scaling.original_max_position_embeddings", ""},
        {"llama", "{'partial_rotary_factor': 2}", "rope_scaling.partial_rotary_factor", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bp_model_config config;
        assert_int_equal(read_rope(refused[i].type, refused[i].rope, &config), BP_ERR_DATA);
        if (strcmp(error.name + strlen("c: "), refused[i].name) != 0 ||
            strstr(error.text, refused[i].text) == NULL) {
            fail_msg("%s: %s: %s", refused[i].rope, error.name, error.text);
        }
    }
}

/* A document that ends within, wherever. */
static void documents_may_end_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t cut = 1; cut < strlen(rows[i].rope); cut++) {
            char part[512];
            bp_model_config config;
            snprintf(part, sizeof part, "%.*s", (int)cut, rows[i].rope);
            assert_int_equal(read_rope(rows[i].type, part, &config), BP_ERR_DATA);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_written_as_it_was_read),
        cmocka_unit_test(layers_of_two_kinds),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(documents_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
