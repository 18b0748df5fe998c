/* SPDX-License-Identifier: MIT */
/* The names that Hugging Face files of each family use, old ones and bare ones among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/families/bert.h"
#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/family/parameters.h"

typedef struct fixture {
    memory_store memory;
    made_tensors made;
    bp_tensor_set set;
    bp_parameters parameters;
    bp_error error;
    unsigned faults[BP_TENSOR_FAULTS];
    uint64_t scratch[1 << 14];
    uint64_t work[512];
} fixture;

/* Of a Llama with `kv_heads`, or, with 0, of a BERT. */
static bp_model_config small(uint32_t kv_heads)
{
    const bp_transformer stack = {.width = 8,
                                  .layers = 2,
                                  .heads = 2,
                                  .inner = 16,
                                  .norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    const bp_model_config config = {
        .vocabulary = 11, .positions = 6, .classes = 3, .task = BP_TASK_CLASSES};
    return kv_heads == 0
               ? config_with(config, OWN(bp_bert_config, .stack = stack, .types = 2))
               : config_with(config, OWN(bp_llama_config, .stack = stack, .kv_heads = kv_heads));
}

static void note(void *user, const bp_tensor_finding *finding)
{
    fixture *d = user;
    d->faults[finding->fault]++;
}

static fixture *fixture_new(void)
{
    fixture *d = calloc(1, sizeof *d);
    assert_non_null(d);
    memory_store_init(&d->memory);
    return d;
}

static void fixture_free(fixture *d)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    made_free(&d->made);
    memory_store_free(&d->memory);
    free(d);
}

/* The part of a name behind `prefix`, with `old` for `new` at its end. */
static void rename_tensor(char *name, size_t room, const char *prefix, const char *new_end,
                          const char *old_end)
{
    char was[96];
    snprintf(was, sizeof was, "%s", name);
    const char *rest = strncmp(was, prefix, strlen(prefix)) == 0 ? was + strlen(prefix) : was;
    size_t length = strlen(rest);
    size_t end = strlen(new_end);
    bool ends = end > 0 && length >= end && strcmp(rest + length - end, new_end) == 0;
    snprintf(name, room, "%.*s%s", (int)(ends ? length - end : length), rest, ends ? old_end : "");
}

/* Lists the model's parameters and makes a tensor for each. */
static void add_model(fixture *d, const bp_model *model, const bp_model_config *config)
{
    bp_staging room = {d->scratch, sizeof d->scratch / 2};
    assert_int_equal(bp_parameters_list(model, config, &room, &d->parameters, &d->error), BP_OK);
    assert_int_equal(d->parameters.count, model->parameter_count(config));
    for (size_t i = 0; i < d->parameters.count; i++) {
        const bp_wanted *wanted = &d->parameters.list[i];
        made_add_values(&d->made, wanted->name, BP_F32, wanted->rank, wanted->shape, i);
    }
}

static bp_status match(fixture *d, const char *family, unsigned allow)
{
    assert_int_equal(bp_tensor_set_close(&d->set), BP_OK);
    memset(d->faults, 0, sizeof d->faults);
    d->error = (bp_error){.code = BP_OK};
    made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
    bp_staging room = {d->scratch + (1 << 13), sizeof d->scratch / 2};
    assert_int_equal(bp_hf_open(&d->set, &d->memory.store, "m", &room, &d->error), BP_OK);
    const bp_match m = {.set = &d->set,
                        .naming = &bp_family_find(family)->naming,
                        .wanted = d->parameters.list,
                        .count = d->parameters.count,
                        .heads = {2, 1, 0},
                        .allow = allow,
                        .work = {d->work, sizeof d->work},
                        .watch = note,
                        .user = d};
    return bp_tensor_match(&m);
}

static void check_found(fixture *d)
{
    for (size_t i = 0; i < d->parameters.count; i++) {
        float value;
        const bp_tensor_view *view = &d->parameters.list[i].view;
        assert_non_null(view->entry);
        bp_staging work = {d->work, sizeof d->work};
        assert_int_equal(bp_tensor_view_read(&d->set, view, 1, 1, BP_F32, &value, work), BP_OK);
        assert_true(value == made_value(i, 1));
    }
}

/* verifies formats-25.6dee */
static void bert_of_the_hub_becomes_a_classifier(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    const bp_model_config config = small(0);
    add_model(d, &bp_model_bert, &config);
    assert_int_equal(match(d, "bert", 0), BP_OK);
    check_found(d);
    for (size_t i = 0; i < d->made.count; i++) { /* as bert-base-uncased has them */
        char *name = d->made.list[i].name;
        rename_tensor(name, 96, "", "LayerNorm.weight", "LayerNorm.gamma");
        rename_tensor(name, 96, "", "LayerNorm.bias", "LayerNorm.beta");
    }
    made_add(&d->made, "bert.embeddings.position_ids", BP_I64, 2, (uint64_t[]){1, 6});
    made_add(&d->made, "cls.predictions.bias", BP_F32, 1, (uint64_t[]){11});
    made_add(&d->made, "cls.predictions.decoder.weight", BP_F32, 2, (uint64_t[]){11, 8});
    made_add(&d->made, "cls.seq_relationship.weight", BP_F32, 2, (uint64_t[]){2, 8});
    assert_int_equal(match(d, "bert", 0), BP_OK);
    check_found(d);
    /* Without its own head, which then is fresh. */
    for (size_t i = 0; i < d->parameters.count; i++) {
        if (strcmp(d->parameters.list[i].name, "classifier.weight") == 0) {
            snprintf(d->made.list[i].name, 96, "cls.other");
        }
    }
    assert_int_equal(match(d, "bert", 0), BP_ERR_DATA);
    assert_int_equal(d->faults[BP_TENSOR_MISSING], 1);
    assert_string_equal(d->error.name, "m: classifier.weight");
    assert_int_equal(match(d, "bert", BP_ALLOW_MISSING), BP_OK);
    assert_int_equal(match(d, "bert", BP_ALLOW_NEW_HEAD), BP_OK);
    /* That a head is new excuses nothing else. */
    for (size_t i = 0; i < d->parameters.count; i++) {
        if (strcmp(d->parameters.list[i].name, "bert.embeddings.LayerNorm.bias") == 0) {
            snprintf(d->made.list[i].name, 96, "cls.more");
        }
    }
    assert_int_equal(match(d, "bert", BP_ALLOW_NEW_HEAD), BP_ERR_DATA);
    assert_string_equal(d->error.name, "m: bert.embeddings.LayerNorm.bias");
    fixture_free(d);
}

/* verifies formats-25.6dee */
static void a_bare_encoder_becomes_a_masked_model(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    bp_model_config config = small(0);
    config.task = BP_TASK_MASKED_LM;
    add_model(d, &bp_model_bert, &config);
    for (size_t i = 0; i < d->made.count; i++) {
        char *name = d->made.list[i].name;
        rename_tensor(name, 96, "bert.", i % 2 == 0 ? "LayerNorm.weight" : "none",
                      "LayerNorm.gamma");
    }
    made_add(&d->made, "embeddings.position_ids", BP_I64, 2, (uint64_t[]){1, 6});
    made_add(&d->made, "pooler.dense.weight", BP_F32, 2, (uint64_t[]){8, 8});
    made_tensor *tied = made_add_values(&d->made, "cls.predictions.decoder.weight", BP_F32, 2,
                                        (uint64_t[]){11, 8}, 0);
    assert_int_equal(match(d, "bert", 0), BP_OK);
    check_found(d);
    tied->bytes[4] ^= 1;
    assert_int_equal(match(d, "bert", 0), BP_ERR_DATA);
    assert_int_equal(d->faults[BP_TENSOR_UNTIED], 1);
    fixture_free(d);
}

/* verifies formats-25.6dee */
static void llama_tied_untied_and_bare(void **state)
{
    (void)state;
    bp_model_config config = small(1);
    config.task = BP_TASK_CAUSAL_LM;
    for (int untied = 0; untied < 2; untied++) {
        fixture *d = fixture_new();
        SET_FAMILY(&config, bp_transformer, untied, untied != 0);
        add_model(d, &bp_model_llama, &config);
        made_add(&d->made, "model.layers.0.self_attn.rotary_emb.inv_freq", BP_F32, 1,
                 (uint64_t[]){2});
        if (!bp_transformer_of(&config).untied) {
            made_add_values(&d->made, "lm_head.weight", BP_F32, 2, (uint64_t[]){11, 8}, 0);
        }
        assert_int_equal(match(d, "llama", 0), BP_OK);
        check_found(d);
        for (size_t i = 0; i < d->made.count; i++) {
            rename_tensor(d->made.list[i].name, 96, "model.", "", "");
        }
        assert_int_equal(match(d, "llama", 0), BP_OK);
        check_found(d);
        snprintf(d->made.list[1].name, 96, "layers.9.other.weight");
        assert_int_equal(match(d, "llama", 0), BP_ERR_DATA);
        assert_int_equal(d->faults[BP_TENSOR_UNEXPECTED], 1);
        assert_int_equal(d->faults[BP_TENSOR_MISSING], 1);
        fixture_free(d);
    }
}

/* verifies formats-25.6dee */
static void a_classifier_has_no_use_for_a_language_head(void **state)
{
    (void)state;
    fixture *d = fixture_new();
    bp_model_config config = small(1);
    add_model(d, &bp_model_llama, &config);
    made_add(&d->made, "lm_head.weight", BP_F32, 2, (uint64_t[]){11, 8});
    assert_int_equal(match(d, "llama", 0), BP_OK);
    check_found(d);
    fixture_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bert_of_the_hub_becomes_a_classifier),
        cmocka_unit_test(a_bare_encoder_becomes_a_masked_model),
        cmocka_unit_test(llama_tied_untied_and_bare),
        cmocka_unit_test(a_classifier_has_no_use_for_a_language_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
