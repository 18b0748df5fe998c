/* SPDX-License-Identifier: MIT */
/* Adapters out, loaded by PEFT, the same logits. Each case trains adapters beside a committed base;
 * the file must be, byte for byte, the one in tests/golden/peft that PEFT was given, and the logits
 * those that PEFT computed with it in float64 (tools/golden/adapters.py). The file that PEFT writes
 * of the same adapters gives them too. With BP_ADAPTERS_OUT=DIR the files are written there instead
 * of compared. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixtures/plans/family_case.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/hf/hf_weights.h"
#include "tools/formats/peft/peft_config.h"

enum { STEPS = 6 };

static const char *const all[] = {"all-linear"};
static const char *const queries[] = {"query", "value"};
static const char *const tables[] = {"embed_tokens", "v_proj"};
static const char *const wte[] = {"wte"};
static const uint32_t row_tokens[] = {30, 31, 2, 52};
static const char *const parts[] = {"q_lin", "v_lin"};
static const char *const turned[] = {"c_attn", "mlp.c_proj"};

static const struct {
    const char *base; /* of families.py */
    const char *name;
    bp_lora lora;
} cases[] = {
    {"gpt2_lm_short", "gpt2", {.rank = 2, .alpha = 4.0, .targets = turned, .target_count = 2}},
    {"llama_grouped",
     "llama",
     {.rank = 3, .alpha = 2.0, .rank_stabilized = true, .targets = all, .target_count = 1}},
    {"qwen2_short", "qwen2", {.rank = 1, .alpha = 1.5, .targets = all, .target_count = 1}},
    {"bert_classes", "bert", {.rank = 2, .alpha = 3.0, .targets = queries, .target_count = 2}},
    {"gpt2_labels", "gpt2_labels", {.rank = 2, .alpha = 8.0, .targets = all, .target_count = 1}},
    {"llama_regression",
     "llama_regression",
     {.rank = 4, .alpha = 4.0, .targets = all, .target_count = 1}},
    {"bert_labels", "bert_all", {.rank = 3, .alpha = 3.0, .targets = all, .target_count = 1}},
    {"llama_grouped",
     "llama_dora",
     {.rank = 3, .alpha = 2.0, .magnitudes = true, .targets = all, .target_count = 1}},
    {"gpt2_lm_short",
     "gpt2_dora",
     {.rank = 2, .alpha = 4.0, .magnitudes = true, .targets = turned, .target_count = 2}},
    {"gpt2_lm_short",
     "gpt2_bias_all",
     {.rank = 2, .alpha = 4.0, .bias = BP_LORA_BIAS_ALL, .targets = turned, .target_count = 2}},
    {"gpt2_lm_short",
     "gpt2_bias_some",
     {.rank = 2, .alpha = 4.0, .bias = BP_LORA_BIAS_ADAPTED, .targets = turned, .target_count = 2}},
    {"llama_grouped",
     "llama_table",
     {.rank = 3, .alpha = 2.0, .targets = tables, .target_count = 2}},
    {"gpt2_lm_short", "gpt2_table", {.rank = 2, .alpha = 6.0, .targets = wte, .target_count = 1}},
    {"llama_grouped",
     "llama_rows",
     {.rank = 2,
      .alpha = 4.0,
      .targets = all,
      .target_count = 1,
      .tokens = row_tokens,
      .token_count = 4}},
    {"gpt2_lm_short",
     "gpt2_rows",
     {.rank = 2,
      .alpha = 4.0,
      .targets = turned,
      .target_count = 2,
      .tokens = row_tokens + 1,
      .token_count = 2}},
    {"families/gemma3_two_bases",
     "gemma3",
     {.rank = 2, .alpha = 3.0, .targets = all, .target_count = 1}},
    {"families/distilbert_classes",
     "distilbert",
     {.rank = 2, .alpha = 4.0, .targets = parts, .target_count = 2}},
    {"bert_classes",
     "bert_bias_all",
     {.rank = 2, .alpha = 3.0, .bias = BP_LORA_BIAS_ALL, .targets = queries, .target_count = 2}},
};
#define CASES (sizeof cases / sizeof cases[0])

typedef struct fixture {
    family_case base;
    model_fixture r;
    memory_store store;
    bp_error error;
    void *scratch;
} fixture;

static void open_fixture(fixture *d, size_t index)
{
    memset(d, 0, sizeof *d);
    family_open(&d->base, cases[index].base);
    d->base.spec.lora = cases[index].lora;
    d->base.spec.evaluate = true;
    d->base.spec.keep_logits = true;
    family_model_fixture(&d->base, &d->r);
    reference_base_weights(&d->base.file, &d->r);
    memory_store_init(&d->store);
    d->scratch = malloc((size_t)bp_hf_scratch(&d->r.runtime));
    assert_non_null(d->scratch);
}

static void close_fixture(fixture *d)
{
    free(d->scratch);
    memory_store_free(&d->store);
    model_fixture_close(&d->r);
    family_close(&d->base);
}

static bp_hf_location place_of(fixture *d)
{
    return (bp_hf_location){.store = &d->store.store,
                            .path = "a",
                            .scratch = {d->scratch, (size_t)bp_hf_scratch(&d->r.runtime)},
                            .error = &d->error};
}

static void compare_logits(fixture *d, const char *name)
{
    golden file;
    char path[128];
    snprintf(path, sizeof path, "tests/golden/peft/%s/logits.safetensors", name);
    golden_open(&file, path);
    bp_feed *feed = &d->r.feed;
    feed->group = d->base.spec.batch;
    assert_int_equal(bp_feed_init(feed, &d->r.error), BP_OK);
    (void)reference_kept_logits(&file, &d->r, d->base.lengths);
    golden_close(&file);
}

/* A file of tests/golden/peft, in new memory. */
static void *read_file(const char *name, const char *file, size_t *bytes)
{
    char path[128];
    snprintf(path, sizeof path, "tests/golden/peft/%s/%s", name, file);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        fail_msg("cannot open %s", path);
        return NULL;
    }
    assert_int_equal(fseek(stream, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(stream);
    rewind(stream);
    void *data = malloc(*bytes);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, stream), *bytes);
    fclose(stream);
    return data;
}

static void resolve(const char *name, const char *file, const void *bytes, size_t count)
{
    const char *out = getenv("BP_ADAPTERS_OUT");
    if (out != NULL) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s/%s", out, name, file);
        FILE *stream = fopen(path, "wb");
        assert_non_null(stream);
        assert_int_equal(fwrite(bytes, 1, count, stream), count);
        assert_int_equal(fclose(stream), 0);
        return;
    }
    size_t wanted_count = 0;
    void *wanted = read_file(name, file, &wanted_count);
    if (wanted_count != count || memcmp(wanted, bytes, count) != 0) {
        fail_msg("%s/%s is not the file that PEFT was given", name, file);
    }
    free(wanted);
}

/* The adapters after some steps, in PEFT's form. */
static void train(fixture *d, const char *name)
{
    static char json[BP_PEFT_CONFIG_TEXT];
    size_t length = 0;
    for (int step = 0; step < STEPS; step++) {
        (void)model_fixture_step(&d->r);
    }
    const bp_hf_location place = place_of(d);
    const bp_hf_scheme form = {.dtype = BP_F32};
    assert_int_equal(bp_hf_adapters_save(&d->r.runtime, &place, &form), BP_OK);
    size_t bytes = 0;
    const unsigned char *file = memory_store_bytes(&d->store, "a", &bytes);
    assert_non_null(file);
    resolve(name, "adapter_model.safetensors", file, bytes);
    assert_int_equal(bp_peft_config_text(&d->r.plan.builder, "base", json, sizeof json, &length),
                     BP_OK);
    resolve(name, "adapter_config.json", json, length);
}

/* verifies formats-12.b2fa */
static void test_trained_adapters(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        fixture d;
        open_fixture(&d, i);
        train(&d, cases[i].name);
        if (getenv("BP_ADAPTERS_OUT") == NULL) {
            compare_logits(&d, cases[i].name);
        }
        close_fixture(&d);
    }
}

/* Into a fresh run: our file, and the one that PEFT wrote of it. */
/* verifies formats-12.b2fa */
static void test_loaded_adapters(void **state)
{
    (void)state;
    static const char *const files[] = {"adapter_model.safetensors", "saved_by_peft.safetensors"};
    for (size_t i = 0; i < 2 * CASES && getenv("BP_ADAPTERS_OUT") == NULL; i++) {
        fixture d;
        size_t bytes = 0;
        open_fixture(&d, i / 2);
        void *data = read_file(cases[i / 2].name, files[i % 2], &bytes);
        memory_store_put(&d.store, "a", data, bytes);
        const bp_hf_location place = place_of(&d);
        assert_int_equal(bp_hf_adapters_load(&d.r.runtime, &place), BP_OK);
        compare_logits(&d, cases[i / 2].name);
        free(data);
        close_fixture(&d);
    }
}

static void open_with(fixture *d, size_t index, const bp_parameter_rule *rule)
{
    size_t bytes = 0;
    memset(d, 0, sizeof *d);
    family_open(&d->base, cases[index].base);
    d->base.spec.lora = cases[index].lora;
    d->base.spec.rules = rule;
    d->base.spec.rule_count = 1;
    family_model_fixture(&d->base, &d->r);
    memory_store_init(&d->store);
    d->scratch = malloc((size_t)bp_hf_scratch(&d->r.runtime));
    assert_non_null(d->scratch);
    void *data = read_file(cases[index].name, "adapter_model.safetensors", &bytes);
    memory_store_put(&d->store, "a", data, bytes);
    free(data);
}

/* A run that trains would lose what it does not train; little memory is said, whatever is done. */
/* verifies formats-26.24e5 */
static void test_refusals(void **state)
{
    (void)state;
    enum { BERT = 3 };
    static const bp_parameter_rule frozen = {.glob = "classifier.*", .kind = BP_RULE_FREEZE};
    static const bp_parameter_rule trained = {.glob = "*LayerNorm*", .kind = BP_RULE_TRAIN};
    fixture d;
    open_with(&d, BERT, &frozen);
    bp_hf_location place = place_of(&d);
    assert_int_equal(bp_hf_adapters_load(&d.r.runtime, &place), BP_ERR_USAGE);
    assert_non_null(strstr(d.error.name, "classifier.weight"));
    close_fixture(&d);
    /* Parameters that the file lacks stay as they are; they are saved with the rest. */
    open_with(&d, BERT, &trained);
    place = place_of(&d);
    assert_int_equal(bp_hf_adapters_load(&d.r.runtime, &place), BP_OK);
    const bp_hf_scheme form = {.dtype = BP_F32};
    bp_status status = BP_ERR_FIT;
    for (size_t bytes = 64; bytes < 40000 && status == BP_ERR_FIT; bytes += 248) {
        d.error = (bp_error){.code = BP_OK};
        place.scratch.capacity = bytes;
        status = bp_hf_adapters_save(&d.r.runtime, &place, &form);
        assert_int_equal(status, d.error.code);
    }
    assert_int_equal(status, BP_OK);
    for (size_t bytes = 8; bytes < 4096; bytes += 64) {
        d.error = (bp_error){.code = BP_OK};
        place.scratch.capacity = bytes;
        assert_int_equal(bp_hf_adapters_load(&d.r.runtime, &place), BP_ERR_FIT);
    }
    close_fixture(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trained_adapters),
        cmocka_unit_test(test_loaded_adapters),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
