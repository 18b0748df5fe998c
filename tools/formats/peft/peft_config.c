/* SPDX-License-Identifier: MIT */
/* PEFT's adapter_config.json, read. */
#include "tools/formats/peft/peft_config.h"

#include <string.h>

#include "core/base/number.h"
#include "core/base/json.h"
#include "core/base/storage.h"
#include "core/plan/adapter.h"

#define READ_BYTES 4096
#define TEXT_BYTES 4096

static const char where[] = "adapter_config.json";

/* Keys whose value must be absent, null, false, empty, or the text given: what they ask for
 * otherwise is not implemented. */
static const struct {
    const char *key;
    const char *text;
} plain[] = {{"megatron_config", ""}, {"loftq_config", ""},        {"eva_config", ""},
             {"corda_config", ""},    {"layer_replication", ""},   {"lora_bias", ""},
             {"use_qalora", ""},      {"use_bdlora", ""},          {"arrow_config", ""},
             {"kasa_config", ""},     {"lora_ga_config", ""},      {"monteclora_config", ""},
             {"velora_config", ""},   {"ensure_weight_tying", ""}, {"alora_invocation_tokens", ""}};

/* Ways to begin that leave the base as it is. PiSSA, OLoRA, LoftQ, CorDA and LoRA-GA change it:
 * beside the plain base their adapters mean something else. */
static const char *const beginnings[] = {"gaussian", "orthogonal", "eva"};

typedef struct reading {
    bp_json json;
    bp_peft_config *config;
    bp_error error;
    bool lora;
} reading;

static bp_status peft_config_refuse(reading *r, const char *key, const char *text)
{
    return bp_error_set(&r->error, BP_ERR_DATA, where, text, key);
}

static bp_status copy_text(reading *r, const char *key, const bp_json_event *event, char *to,
                           size_t room)
{
    if (event->kind != BP_JSON_TEXT || event->length >= room) {
        return peft_config_refuse(r, key, "the value is not a text, or too long");
    }
    memcpy(to, event->text, event->length);
    to[event->length] = '\0';
    return BP_OK;
}

static bp_status peft_config_take_number(reading *r, const char *key, double least, double most,
                                         double *value)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    bool inside = event.kind == BP_JSON_NUMBER && event.real >= least && event.real <= most;
    *value = event.real;
    return inside ? BP_OK : peft_config_refuse(r, key, "the value is not a number in its range");
}

/* What a list said against a text; NULL: nothing. */
static bp_status peft_config_take(reading *r, const char *key, const char *fault)
{
    return fault == NULL ? BP_OK : peft_config_refuse(r, key, fault);
}

static bp_status add_name(reading *r, const char *key, bp_peft_list *list,
                          const bp_json_event *event)
{
    if (event->kind != BP_JSON_TEXT) {
        return peft_config_refuse(r, key, "the value is not a list of names");
    }
    return peft_config_take(r, key,
                            bp_peft_add_name(&r->config->choice, list, event->text, event->length));
}

/* A list of names, null, or one text: an expression, or where none is wanted a name. */
static bp_status take_names(reading *r, const char *key, bp_peft_list *list, bool expressions)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_TEXT) {
        const bool name = !expressions || strcmp(event.text, "all-linear") == 0;
        if (!name && list->count > 0) {
            return peft_config_refuse(r, key,
                                      "an expression stands alone: beside one no "
                                      "target_parameters are implemented");
        }
        return name ? add_name(r, key, list, &event)
                    : peft_config_take(r, key,
                                       bp_peft_add_expression(&r->config->choice, list, event.text,
                                                              event.length));
    }
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return peft_config_refuse(r, key, "the value is not a list of names");
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        BP_TRY(add_name(r, key, list, &event));
    }
}

/* Weights of experts join the targets; PEFT takes the end of a name, which may be one word. */
static bp_status take_parameters(reading *r, const char *key)
{
    static const char experts[] = "experts.";
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return peft_config_refuse(r, key, "the value is not a list of names");
    }
    for (;;) {
        char name[128];
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        const size_t more =
            event.kind == BP_JSON_TEXT && strchr(event.text, '.') == NULL ? sizeof experts - 1 : 0;
        memcpy(name, experts, sizeof experts);
        BP_TRY(copy_text(r, key, &event, name + more, sizeof name - more));
        if (!bp_adapter_names_experts(name, NULL)) {
            return peft_config_refuse(r, key,
                                      "parameters other than experts.gate_up_proj and "
                                      "experts.down_proj are not implemented");
        }
        if (r->config->choice.targets.expression) {
            return peft_config_refuse(r, key,
                                      "target_modules is an expression: beside one no "
                                      "target_parameters are implemented");
        }
        BP_TRY(peft_config_take(
            r, key,
            bp_peft_add_name(&r->config->choice, &r->config->choice.targets, name, strlen(name))));
    }
}

static bp_status add_layer(reading *r, const bp_json_event *event)
{
    const char *fault = event->kind != BP_JSON_NUMBER
                            ? "the value is not a list of numbers"
                            : bp_peft_add_layer(&r->config->choice, event->real);
    return peft_config_take(r, "layers_to_transform", fault);
}

/* The numbers of a list that is open. */
static bp_status take_token_list(reading *r)
{
    static const char key[] = "trainable_token_indices";
    bp_json_event event;
    for (;;) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (event.kind != BP_JSON_NUMBER) {
            return peft_config_refuse(r, key, "the value is not a list of numbers");
        }
        BP_TRY(peft_config_take(r, key, bp_peft_add_token(&r->config->choice, event.real)));
    }
}

/* A list of tokens, {"embed_tokens": such a list}, or null. */
static bp_status take_tokens(reading *r, const char *key)
{
    bp_json_event event;
    char name[256];
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind == BP_JSON_ARRAY_BEGIN) {
        return take_token_list(r);
    }
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return peft_config_refuse(r, key, "the value is not a list of numbers");
    }
    for (uint32_t count = 0;; count++) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
        if (event.length >= sizeof name) {
            return peft_config_refuse(r, key, "the name of a module is too long");
        }
        memcpy(name, event.text, event.length);
        name[event.length] = '\0';
        if (count > 0 || !bp_peft_is_table(name)) {
            return peft_config_refuse(r, key,
                                      "rows of another module than the token embedding are not "
                                      "implemented; a head that is tied to it has them by itself");
        }
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind != BP_JSON_ARRAY_BEGIN) {
            return peft_config_refuse(r, key, "the value is not a list of numbers");
        }
        BP_TRY(take_token_list(r));
    }
}

/* A number, a list of them, or null. */
static bp_status take_layers(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return add_layer(r, &event);
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        BP_TRY(add_layer(r, &event));
    }
}

/* {"key": number, ..} or null. */
static bp_status take_patterns(reading *r, const char *key, bp_peft_patterns *patterns, bool whole)
{
    bp_json_event event;
    char name[256];
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return peft_config_refuse(r, key, "the value is not an object of numbers");
    }
    for (;;) {
        double number = 0.0;
        int64_t rank;
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
        if (event.length >= sizeof name) {
            return peft_config_refuse(r, key, "a pattern is too long");
        }
        memcpy(name, event.text, event.length);
        name[event.length] = '\0';
        BP_TRY(peft_config_take_number(r, key, whole ? 1 : 1e-9, whole ? 4096 : 1e9, &number));
        if (whole && !bp_number_whole(number, 1, 4096, &rank)) {
            return peft_config_refuse(r, key, "the rank is not whole");
        }
        BP_TRY(peft_config_take(
            r, key, bp_peft_add_pattern(&r->config->choice, patterns, name, strlen(name), number)));
    }
}

static bp_status take_beginning(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    bool known =
        event.kind == BP_JSON_NULL || event.kind == BP_JSON_TRUE || event.kind == BP_JSON_FALSE;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0] && !known; i++) {
        known = event.kind == BP_JSON_TEXT && strcmp(event.text, beginnings[i]) == 0;
    }
    return known ? BP_OK
                 : peft_config_refuse(
                       r, "init_lora_weights",
                       "an initialisation that changes the base is not implemented (true, "
                       "false, \"gaussian\", \"orthogonal\" and \"eva\" are)");
}

bool bp_peft_is_table(const char *module)
{
    static const char *const tables[] = {"wte", "embed_tokens", "word_embeddings", "embed_in",
                                         "tok_embeddings"};
    const char *dot = strrchr(module, '.');
    bool is = false;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        is = is || strcmp(dot == NULL ? module : dot + 1, tables[i]) == 0;
    }
    return is;
}

/* Names of modules, or null: they are not kept. */
static bp_status take_saved(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    const bool list = event.kind == BP_JSON_ARRAY_BEGIN;
    while (list && event.kind != BP_JSON_ARRAY_END) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind != BP_JSON_TEXT && event.kind != BP_JSON_ARRAY_END) {
            return peft_config_refuse(r, "modules_to_save", "the value is not a list of names");
        }
        r->config->saves_table |= event.kind == BP_JSON_TEXT && bp_peft_is_table(event.text);
    }
    return list || event.kind == BP_JSON_NULL
               ? BP_OK
               : peft_config_refuse(r, "modules_to_save", "the value is not a list of names");
}

/* A value that must say nothing special. */
static bp_status take_plain(reading *r, const char *key, const char *text)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    bool nothing = event.kind == BP_JSON_NULL || event.kind == BP_JSON_FALSE ||
                   (event.kind == BP_JSON_TEXT && strcmp(event.text, text) == 0);
    if (event.kind == BP_JSON_OBJECT_BEGIN || event.kind == BP_JSON_ARRAY_BEGIN) {
        BP_TRY(bp_json_next(&r->json, &event));
        nothing = event.kind == BP_JSON_OBJECT_END || event.kind == BP_JSON_ARRAY_END;
    }
    return nothing ? BP_OK
                   : peft_config_refuse(r, key, "what this value asks for is not implemented");
}

static bp_status take_bias(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    const bp_lora_bias bias =
        event.kind == BP_JSON_TEXT ? bp_peft_bias_of(event.text) : BP_LORA_BIASES;
    r->config->lora.bias = bias;
    return bias < BP_LORA_BIASES
               ? BP_OK
               : peft_config_refuse(r, "bias", "the value is not none, all or lora_only");
}

static bp_status take_base(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    return event.kind == BP_JSON_NULL ? BP_OK
                                      : copy_text(r, "base_model_name_or_path", &event,
                                                  r->config->base, sizeof r->config->base);
}

static bp_status peft_config_take_type(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    r->lora = event.kind == BP_JSON_TEXT && strcmp(event.text, "LORA") == 0;
    return r->lora ? BP_OK : peft_config_refuse(r, "peft_type", "only LORA is implemented");
}

static bp_status peft_config_take_flag(reading *r, const char *key, bool *flag)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    *flag = event.kind == BP_JSON_TRUE;
    bool is = *flag || event.kind == BP_JSON_FALSE || event.kind == BP_JSON_NULL;
    return is ? BP_OK : peft_config_refuse(r, key, "the value is not true or false");
}

static bp_status take_rank(reading *r)
{
    double number = 0.0;
    int64_t rank;
    BP_TRY(peft_config_take_number(r, "r", 1, 4096, &number));
    if (!bp_number_whole(number, 1, 4096, &rank)) {
        return peft_config_refuse(r, "r", "the rank is not whole");
    }
    r->config->lora.rank = (uint32_t)rank;
    return BP_OK;
}

static bp_status peft_config_take_value(reading *r, const char *key)
{
    bp_lora *lora = &r->config->lora;
    bp_peft_choice *choice = &r->config->choice;
    if (strcmp(key, "peft_type") == 0) {
        return peft_config_take_type(r);
    }
    if (strcmp(key, "r") == 0) {
        return take_rank(r);
    }
    if (strcmp(key, "lora_alpha") == 0) {
        return peft_config_take_number(r, "lora_alpha", 1e-9, 1e9, &lora->alpha);
    }
    if (strcmp(key, "lora_dropout") == 0) {
        return peft_config_take_number(r, "lora_dropout", 0.0, 0.999, &lora->dropout);
    }
    if (strcmp(key, "use_rslora") == 0) {
        return peft_config_take_flag(r, "use_rslora", &lora->rank_stabilized);
    }
    if (strcmp(key, "use_dora") == 0) {
        return peft_config_take_flag(r, "use_dora", &lora->magnitudes);
    }
    if (strcmp(key, "target_modules") == 0) {
        return take_names(r, key, &choice->targets, true);
    }
    if (strcmp(key, "target_parameters") == 0) {
        return take_parameters(r, key);
    }
    if (strcmp(key, "exclude_modules") == 0) {
        return take_names(r, key, &choice->excluded, true);
    }
    if (strcmp(key, "layers_pattern") == 0) {
        return take_names(r, key, &choice->layer_names, false);
    }
    if (strcmp(key, "layers_to_transform") == 0) {
        return take_layers(r);
    }
    if (strcmp(key, "trainable_token_indices") == 0) {
        return take_tokens(r, "trainable_token_indices");
    }
    if (strcmp(key, "rank_pattern") == 0 || strcmp(key, "alpha_pattern") == 0) {
        return take_patterns(r, key, key[0] == 'r' ? &choice->ranks : &choice->alphas,
                             key[0] == 'r');
    }
    if (strcmp(key, "modules_to_save") == 0) {
        return take_saved(r);
    }
    if (strcmp(key, "init_lora_weights") == 0) {
        return take_beginning(r);
    }
    if (strcmp(key, "bias") == 0) {
        return take_bias(r);
    }
    if (strcmp(key, "base_model_name_or_path") == 0) {
        return take_base(r);
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(key, plain[i].key) == 0) {
            return take_plain(r, plain[i].key, plain[i].text);
        }
    }
    return bp_json_skip(&r->json);
}

static bp_status read_all(reading *r)
{
    bp_json_event event;
    char key[64];
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&r->json, "the file is not an object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        size_t length = event.length < sizeof key - 1 ? event.length : sizeof key - 1;
        memcpy(key, event.text, length);
        key[length] = '\0';
        BP_TRY(peft_config_take_value(r, key));
    }
    if (!r->lora || r->config->lora.rank == 0 || r->config->choice.targets.count == 0) {
        return peft_config_refuse(r, !r->lora ? "peft_type" : "r",
                                  "the configuration lacks peft_type, r or target_modules");
    }
    return peft_config_take(r, "target_modules",
                            bp_peft_choice_use(&r->config->choice, &r->config->lora));
}

static bp_status peft_config_read_file(reading *r, bp_store *store, bp_file file, const char *path,
                                       unsigned char *scratch)
{
    uint64_t size = 0;
    if (store->file_size(store, file, &size) != BP_OK) {
        return bp_storage_failed(&r->error, store, "size", path);
    }
    bp_storage_reader reader = {.store = store,
                                .file = file,
                                .path = path,
                                .end = size,
                                .buffer = scratch,
                                .capacity = READ_BYTES,
                                .error = &r->error};
    const bp_json_source source = {bp_storage_fill, &reader, 1 << 20};
    const bp_json_memory memory = {.text = (char *)scratch + READ_BYTES,
                                   .text_bytes = TEXT_BYTES,
                                   .keys = scratch + READ_BYTES + TEXT_BYTES,
                                   .keys_bytes = BP_PEFT_CONFIG_SCRATCH - READ_BYTES - TEXT_BYTES,
                                   .max_depth = 16};
    BP_TRY(bp_json_init(&r->json, &source, &memory, &r->error));
    return read_all(r);
}

bp_status bp_peft_config_read(bp_store *store, const char *path, void *scratch,
                              bp_peft_config *config, bp_error *error)
{
    reading r = {.config = config};
    bp_file file;
    bool there = false;
    *config = (bp_peft_config){.lora = {.alpha = 8.0}};
    if (store->exists(store, path, &there) != BP_OK || !there) {
        const bp_status status =
            bp_error_set(error, BP_ERR_DATA, where, "there is no adapter here", path);
        bp_error_right(error, "a directory of adapters; --lora-r R trains new ones");
        return status;
    }
    if (store->open_read(store, path, &file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = peft_config_read_file(&r, store, file, path, scratch);
    /* Nothing was written: a failing close of a file that was read loses nothing. */
    (void)store->close(store, file);
    if (status != BP_OK) {
        bp_error_prefix(&r.error, path);
        if (error != NULL && error->code == BP_OK) {
            *error = r.error;
        }
    }
    return status;
}
