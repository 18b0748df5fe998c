/* SPDX-License-Identifier: MIT */
/* Edges of choosing modules as PEFT does, and of its adapter_config.json in both directions.
 * Documents are written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/bert.h"
#include "layers/families/cnn.h"
#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "layers/families/vit.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/family/family.h"
#include "tools/formats/peft/peft_config.h"
#include "tools/formats/peft/peft_names.h"

#define HEAD "{'peft_type':'LORA','r':4,'lora_alpha':8,"

static uint64_t scratch[BP_PEFT_CONFIG_SCRATCH / 8];
static bp_peft_config config;

static bp_status read_quoted(const char *text, bp_error *error)
{
    static char json[16384];
    memory_store memory;
    const size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i < length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    memory_store_init(&memory);
    memory_store_put(&memory, "adapter_config.json", json, length);
    const bp_status status =
        bp_peft_config_read(&memory.store, "adapter_config.json", scratch, &config, error);
    memory_store_free(&memory);
    return status;
}

/* The rank of a module, or 0. */
static uint32_t rank_of(const char *module)
{
    return config.lora.choose(&config.lora, module, strlen(module)).rank;
}

/* verifies formats-12.b2fa */
static void modules_at_the_edge_of_a_rule(void **state)
{
    (void)state;
    static const struct {
        const char *rules, *module;
        uint32_t rank;
    } rows[] = {
        {"'target_modules':'all-linear','layers_to_transform':[1]", "h.layers.1.fc", 4},
        {"'target_modules':'all-linear','layers_to_transform':[1]", "h.layers.2.fc", 0},
        {"'target_modules':['all-linear','fc'],'layers_to_transform':[1]", "h.layers.1.fd", 0},
        {"'target_modules':['fc'],'layers_to_transform':[1],'layers_pattern':'blocks'",
         "h.layers.1.fc", 0},
        {"'target_modules':['fc'],'layers_to_transform':[1],'layers_pattern':'layers'",
         "h.layers.1.fc", 4},
        {"'target_modules':['fc'],'layers_to_transform':[1]", "h.layers.-1.fc", 0},
        {"'target_modules':['fc'],'layers_to_transform':[1]", "h.layers.1a.fc", 0},
        {"'target_modules':['fc'],'layers_to_transform':[9]", "h.layers.1/.fc", 0},
        {"'target_modules':['fc'],'layers_to_transform':[1]", "h.layers.0000001.fc", 0},
        {"'target_modules':['fc'],'layers_to_transform':[1]", "h.layers.000001.fc", 4},
        {"'target_modules':['fc'],'layers_to_transform':[1]", "h.layers..fc", 0},
        /* A whole name needs no layer; one of the same length is no whole name. */
        {"'target_modules':['fd','fc'],'layers_to_transform':[1]", "fc", 4},
        {"'target_modules':['fc','fd'],'layers_to_transform':[1]", "fc", 4},
        {"'target_modules':['fd'],'alpha_pattern':{'fd':3}", "fd", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        bp_error error = {.code = BP_OK};
        snprintf(text, sizeof text, "%s%s}", HEAD, rows[i].rules);
        assert_int_equal(read_quoted(text, &error), BP_OK);
        if (rank_of(rows[i].module) != rows[i].rank) {
            fail_msg("%s: %s has rank %u", rows[i].rules, rows[i].module, rank_of(rows[i].module));
        }
    }
}

/* An expression that is none, in a choice that nobody checked, matches nothing. */
/* verifies formats-12.b2fa */
static void broken_expressions_choose_nothing(void **state)
{
    (void)state;
    static bp_peft_choice choice;
    bp_lora lora = {.rank = 4, .alpha = 8.0};
    choice = (bp_peft_choice){.targets = {.item = {"("}, .count = 1, .expression = true}};
    assert_null(bp_peft_choice_use(&choice, &lora));
    assert_int_equal(lora.choose(&lora, "a", 1).rank, 0);
    choice.targets = (bp_peft_list){.item = {"a"}, .count = 1};
    choice.ranks = (bp_peft_patterns){.key = {"("}, .value = {7.0}, .count = 1};
    assert_null(bp_peft_choice_use(&choice, &lora));
    assert_int_equal(lora.choose(&lora, "a", 1).rank, 4);
}

/* verifies formats-12.b2fa */
static void values_that_say_nothing_are_passed(void **state)
{
    (void)state;
    static const struct {
        const char *member, *text; /* NULL: it is taken */
    } rows[] = {
        {"'lora_bias':''", NULL},
        {"'layer_replication':[]", NULL},
        {"'use_dora':null", NULL},
        {"'lora_bias':'x'", "not implemented"},
        {"'layer_replication':[[0,1]]", "not implemented"},
        {"'loftq_config':{'loftq_bits':4}", "not implemented"},
        {"'lora_bias':1", "not implemented"},
        {"'layers_to_transform':[1e6]", "from 0 on"},
        {"'peft_type':5", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        bp_error error = {.code = BP_OK};
        snprintf(text, sizeof text, "{%s,'r':4,'target_modules':['a']%s}", rows[i].member,
                 i + 1 < sizeof rows / sizeof rows[0] ? ",'peft_type':'LORA'" : "");
        const bp_status status = read_quoted(text, &error);
        assert_int_equal(status, rows[i].text == NULL ? BP_OK : BP_ERR_DATA);
        assert_true(rows[i].text == NULL || strstr(error.text, rows[i].text) != NULL);
    }
}

/* 62 names of 200 bytes are more than all names together may have. */
static void names_have_a_bound_together(void **state)
{
    (void)state;
    static char text[16384];
    bp_error error = {.code = BP_OK};
    size_t used = (size_t)sprintf(text, HEAD "'target_modules':[");
    for (int i = 0; i < 62; i++) {
        used += (size_t)sprintf(text + used, "%s'%0200d'", i > 0 ? "," : "", i);
    }
    sprintf(text + used, "]}");
    assert_int_equal(read_quoted(text, &error), BP_ERR_DATA);
    assert_non_null(strstr(error.text, "all names together"));
}

/* An error may be of no interest, or there before: the first one stays. */
/* verifies error-1.c4b2 */
static void the_first_error_stays(void **state)
{
    (void)state;
    bp_error error = {.code = BP_ERR_FIT, .text = "before"};
    assert_int_equal(read_quoted("[]", NULL), BP_ERR_DATA);
    assert_int_equal(read_quoted("[]", &error), BP_ERR_DATA);
    assert_int_equal(error.code, BP_ERR_FIT);
    assert_string_equal(error.text, "before");
}

/* A model's parameters as an emitter has them: names one after the other. */
typedef struct emitted {
    char names[4096];
    bp_buffer buffers[1 + 80];
    bp_parameter parameters[80];
    bp_graph graph;
    bp_spec spec;
    bp_builder builder;
    uint32_t used;
    char json[BP_PEFT_CONFIG_TEXT];
} emitted;

static void emitted_begin(emitted *e, const bp_model *model, const bp_lora *lora)
{
    memset(e, 0, sizeof *e);
    e->spec =
        (bp_spec){.model = model, .config = {.task = BP_TASK_CAUSAL_LM}, .batch = 1, .lora = *lora};
    e->graph = (bp_graph){.names = e->names, .buffers = e->buffers, .used = {.buffers = 1}};
    bp_build_init(&e->builder, &e->graph, &e->spec, e->parameters, 80);
    e->builder.names = e->names;
}

static void emitted_add(emitted *e, const char *name, bp_parameter parameter)
{
    const uint32_t index = e->builder.parameter_count++;
    strcpy(e->names + e->used, name);
    e->buffers[1 + index].name = e->used;
    parameter.name = e->used;
    parameter.weight = 1 + index;
    e->parameters[index] = parameter;
    e->used += (uint32_t)strlen(name) + 1;
    e->graph.used.buffers++;
}

static const char *emitted_text(emitted *e)
{
    size_t length = 0;
    assert_int_equal(bp_peft_config_text(&e->builder, "b", e->json, sizeof e->json, &length),
                     BP_OK);
    return e->json;
}

static const bp_parameter adapted = {.adapter = 9, .base = BP_NO_PARAMETER};
static const bp_parameter plain = {.adapter = BP_NO_PARAMETER, .base = BP_NO_PARAMETER};
static const bp_parameter trained = {
    .adapter = BP_NO_PARAMETER, .base = BP_NO_PARAMETER, .trainable = true};

/* layers_to_transform goes with names: those of the modules that have adapters, each once. */
/* verifies formats-12.b2fa */
static void all_linear_of_some_layers_is_written_by_names(void **state)
{
    (void)state;
    static const char *const every[] = {"all-linear"};
    static bp_peft_choice choice;
    static emitted e;
    bp_lora lora = {.rank = 4, .alpha = 8.0};
    choice = (bp_peft_choice){
        .targets = {.item = {"all-linear"}, .count = 1}, .layers = {0}, .layer_count = 1};
    assert_null(bp_peft_choice_use(&choice, &lora));
    emitted_begin(&e, &bp_model_llama, &lora);
    emitted_add(&e, "h.0.norm.weight", plain);
    emitted_add(&e, "h.0.fc.weight", adapted);
    emitted_add(&e, "h.0.up.weight", adapted);
    emitted_add(&e, "h.1.fc.weight", adapted);
    emitted_add(&e, "proj.weight", adapted);
    assert_non_null(strstr(emitted_text(&e), "\"target_modules\": [\"fc\", \"up\", \"proj\"],\n"));
    /* Where none has one, and without layers, the family's word stands. */
    emitted_begin(&e, &bp_model_llama, &lora);
    emitted_add(&e, "h.0.fc.weight", plain);
    assert_non_null(strstr(emitted_text(&e), "\"target_modules\": \"all-linear\",\n"));
    choice.layer_count = 0;
    choice.alphas = (bp_peft_patterns){.key = {"fc"}, .value = {3.0}, .count = 1};
    assert_null(bp_peft_choice_use(&choice, &lora));
    emitted_begin(&e, &bp_model_llama, &lora);
    emitted_add(&e, "h.0.fc.weight", adapted);
    assert_non_null(strstr(emitted_text(&e), "\"target_modules\": \"all-linear\",\n"));
    /* A model without a family has no list of its own. */
    static const bp_model nobodys = {.name = "nobody's"};
    const bp_lora bare = {.rank = 4, .alpha = 8.0, .targets = every, .target_count = 1};
    emitted_begin(&e, &nobodys, &bare);
    assert_non_null(strstr(emitted_text(&e), "\"target_modules\": \"all-linear\",\n"));
}

/* Targets that nobody named and that name what has no adapter are written as the whole names of
 * what has one; others as they are. */
/* verifies formats-12.b2fa */
static void targets_that_name_too_much(void **state)
{
    (void)state;
    static const char *const targets[] = {"fc", "x"};
    static emitted e;
    bp_parameter alone = trained;
    alone.depthwise = true;
    for (int i = 0; i < 4; i++) { /* named or not; what has none is named or not */
        const bp_lora lora = {
            .rank = 4, .alpha = 8.0, .targets = targets, .target_count = 1, .usual = (i & 1) != 0};
        emitted_begin(&e, &bp_model_gpt2, &lora);
        emitted_add(&e, "h.0.fc.weight", adapted);
        emitted_add(&e, (i & 2) != 0 ? "h.1.fc.weight" : "h.1.other.weight", alone);
        emitted_add(&e, "h.2.fc.weight", adapted);
        assert_non_null(
            strstr(emitted_text(&e), i == 3 ? "\"target_modules\": [\"h.0.fc\", \"h.2.fc\"],\n"
                                            : "\"target_modules\": [\"fc\"],\n"));
    }
    /* The first of two does. */
    const bp_lora both = {
        .rank = 4, .alpha = 8.0, .targets = targets, .target_count = 2, .usual = true};
    emitted_begin(&e, &bp_model_gpt2, &both);
    emitted_add(&e, "h.0.fc.weight", adapted);
    emitted_add(&e, "h.1.fc.weight", alone);
    assert_non_null(strstr(emitted_text(&e), "\"target_modules\": [\"h.0.fc\"],\n"));
}

/* verifies formats-12.b2fa */
static void saved_modules_are_named_once(void **state)
{
    (void)state;
    static const char *const targets[] = {"fc"};
    static emitted e;
    char long_name[140];
    const bp_lora lora = {.rank = 4, .alpha = 8.0, .targets = targets, .target_count = 1};
    const bp_parameter table = {
        .adapter = BP_NO_PARAMETER, .base = BP_NO_PARAMETER, .trainable = true, .embedding = true};
    memset(long_name, 'n', sizeof long_name);
    strcpy(long_name + sizeof long_name - 8, ".weight");
    /* A table that a head is tied to is saved as the table itself; another table is a module. */
    emitted_begin(&e, &bp_model_gpt2, &lora);
    emitted_add(&e, "transformer.wte.weight", table);
    emitted_add(&e, "transformer.wpe.weight", table);
    emitted_add(&e, "transformer.ln.weight", trained);
    emitted_add(&e, "transformer.xx.weight", trained);
    emitted_add(&e, "transformer.ln.bias", trained);
    emitted_add(&e, "alone", table);
    emitted_add(&e, long_name, table);
    long_name[sizeof long_name - 8] = '\0';
    const char *text = emitted_text(&e);
    assert_non_null(strstr(text, "\"modules_to_save\": [\"wpe\", \"ln\", \"xx\", \"nnnn"));
    assert_null(strstr(text, "\"wte\""));
    assert_non_null(strstr(text, long_name));
    /* At most 64. */
    emitted_begin(&e, &bp_model_gpt2, &lora);
    for (int i = 0; i < 66; i++) {
        char name[32];
        snprintf(name, sizeof name, "m.part%02d.weight", i);
        emitted_add(&e, name, trained);
    }
    text = emitted_text(&e);
    assert_non_null(strstr(text, "\"part63\"],\n"));
    assert_null(strstr(text, "part64"));
}

/* A table beside a head of its own is a module like others; so are numbered ones, with the part
 * before, and no bias that the adapters' own setting trains. */
/* verifies formats-12.b2fa */
static void saved_modules_of_other_models(void **state)
{
    (void)state;
    static const char *const targets[] = {"fc"};
    static emitted e;
    const bp_parameter table = {
        .adapter = BP_NO_PARAMETER, .base = BP_NO_PARAMETER, .trainable = true, .embedding = true};
    bp_lora lora = {.rank = 4, .alpha = 8.0, .targets = targets, .target_count = 1};
    for (int untied = 0; untied < 2; untied++) {
        const bp_llama_config own = {.stack = {.untied = untied != 0}};
        emitted_begin(&e, &bp_model_llama, &lora);
        bp_family_config_set(&e.spec.config, &own, sizeof own);
        emitted_add(&e, "model.embed_tokens.weight", table);
        emitted_add(&e, "model.norm.weight", trained);
        assert_non_null(strstr(emitted_text(&e),
                               untied != 0 ? "\"modules_to_save\": [\"embed_tokens\", \"norm\"],\n"
                                           : "\"modules_to_save\": [\"norm\"],\n"));
    }
    static const struct {
        const bp_model *model;
        const char *type;
    } rows[] = {{&bp_model_cnn, "\"task_type\": null"},
                {&bp_model_vit, "\"task_type\": null"},
                {&bp_model_gpt2, "\"task_type\": \"CAUSAL_LM\""}};
    lora.bias = BP_LORA_BIAS_ALL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        emitted_begin(&e, rows[i].model, &lora);
        emitted_add(&e, "body.ln.bias", trained);
        emitted_add(&e, "classifier.1.weight", trained);
        emitted_add(&e, "2.weight", trained);
        const char *text = emitted_text(&e);
        assert_non_null(strstr(text, "\"modules_to_save\": [\"classifier.1\", \"2\"],\n"));
        assert_non_null(strstr(text, rows[i].type));
    }
}

/* ViT's modules have other names in transformers 5; names of other models have not. */
/* verifies formats-12.b2fa */
static void renamed_modules_have_two_names(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"vit.encoder.layer.0.attention.attention.query", "vit.layers.0.attention.q_proj"},
        {"vit.encoder.layer.3.attention.attention.key", "vit.layers.3.attention.k_proj"},
        {"vit.encoder.layer.11.attention.attention.value", "vit.layers.11.attention.v_proj"},
        {"vit.encoder.layer.0.attention.output.dense", "vit.layers.0.attention.o_proj"},
        {"vit.encoder.layer.0.intermediate.dense", "vit.layers.0.mlp.fc1"},
        {"vit.encoder.layer.0.output.dense", "vit.layers.0.mlp.fc2"},
        {"vit.encoder.layer.0.layernorm_before", "vit.layers.0.layernorm_before"},
        {"vit.layernorm", ""},
        {"bert.encoder.layer.0.attention.self.query", ""},
        {"vit.encoder.layer.x.output.dense", ""},
    };
    char newer[BP_TENSOR_NAME_MAX], long_name[BP_TENSOR_NAME_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t length = bp_peft_newer_module(rows[i][0], strlen(rows[i][0]), newer);
        assert_int_equal(length, strlen(rows[i][1]));
        assert_true(length == 0 || strcmp(newer, rows[i][1]) == 0);
    }
    memset(long_name, 'n', sizeof long_name);
    assert_int_equal(bp_peft_newer_module(long_name, sizeof long_name - 17, newer), 0);
    assert_int_equal(bp_peft_newer_module(long_name, sizeof long_name - 18, newer), 0);
    assert_true(
        bp_peft_newer("base_model.model.vit.encoder.layer.2.output.dense.lora_A.weight", newer));
    assert_string_equal(newer, "base_model.model.vit.layers.2.mlp.fc2.lora_A.weight");
    assert_false(bp_peft_newer("vit.encoder.layer.2.output.dense.lora_A.weight", newer));
}

/* What a target is called decides how the file calls modules. */
/* verifies formats-12.b2fa */
static void targets_say_which_names_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        bool older;
    } rows[] = {{"q_proj", false}, {"query", true}, {"all-linear", false}};
    static bp_peft_choice choice;
    static emitted e;
    char theirs[BP_TENSOR_NAME_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_lora lora = {.rank = 4, .alpha = 8.0};
        choice = (bp_peft_choice){.targets = {.item = {rows[i].target}, .count = 1}};
        assert_null(bp_peft_choice_use(&choice, &lora));
        const bp_model_config none = {.family = NULL};
        const bp_model_config llama = {.family = bp_family_find("llama")};
        const bp_model_config vit = {.family = bp_family_find("vit")};
        bp_peft_choice_rename(&choice, &none, &lora);
        bp_peft_choice_rename(&choice, &llama, &lora);
        assert_null(lora.choose);
        bp_peft_choice_rename(&choice, &vit, &lora);
        assert_non_null(lora.choose);
        emitted_begin(&e, &bp_model_vit, &lora);
        emitted_add(&e, "vit.layernorm.weight", plain);
        emitted_add(&e, "vit.encoder.layer.0.attention.attention.query.weight", adapted);
        assert_int_equal(bp_peft_is_older(&e.builder), rows[i].older);
        e.builder.parameter_count = 1; /* the norm alone, which has one name */
        assert_false(bp_peft_is_older(&e.builder));
        e.builder.parameter_count = 2;
        assert_true(bp_peft_name(
            &e.builder,
            "base_model.model.vit.encoder.layer.0.attention.attention.query.lora_A.weight",
            theirs));
        assert_string_equal(
            theirs,
            rows[i].older
                ? "base_model.model.vit.encoder.layer.0.attention.attention.query.lora_A.weight"
                : "base_model.model.vit.layers.0.attention.q_proj.lora_A.weight");
        assert_true(bp_peft_name(&e.builder, "classifier.weight", theirs));
        assert_string_equal(theirs, "base_model.model.classifier.weight");
    }
    emitted_begin(&e, &bp_model_vit, &(const bp_lora){.rank = 4});
    emitted_add(&e, "vit.encoder.layer.0.attention.attention.query.weight", adapted);
    assert_false(bp_peft_is_older(&e.builder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_at_the_edge_of_a_rule),
        cmocka_unit_test(broken_expressions_choose_nothing),
        cmocka_unit_test(values_that_say_nothing_are_passed),
        cmocka_unit_test(names_have_a_bound_together),
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(all_linear_of_some_layers_is_written_by_names),
        cmocka_unit_test(targets_that_name_too_much),
        cmocka_unit_test(saved_modules_are_named_once),
        cmocka_unit_test(saved_modules_of_other_models),
        cmocka_unit_test(renamed_modules_have_two_names),
        cmocka_unit_test(targets_say_which_names_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
