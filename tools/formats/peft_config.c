/* SPDX-License-Identifier: MIT */
/* PEFT's adapter_config.json. */
#include "tools/formats/peft_config.h"

#include <string.h>

#include "arena/text.h"
#include "core/file/json.h"
#include "core/file/storage.h"
#include "tools/formats/family.h"

#define READ_BYTES 4096
#define TEXT_BYTES 4096

static const char where[] = "adapter_config.json";

/* Keys whose value must be absent, null, false, empty, or the text given: what they ask for
 * otherwise is not implemented. */
static const struct {
    const char *key;
    const char *text;
} plain[] = {{"bias", "none"},
             {"use_dora", ""},
             {"rank_pattern", ""},
             {"alpha_pattern", ""},
             {"layers_to_transform", ""},
             {"layers_pattern", ""},
             {"megatron_config", ""},
             {"loftq_config", ""},
             {"eva_config", ""},
             {"corda_config", ""},
             {"trainable_token_indices", ""},
             {"exclude_modules", ""},
             {"layer_replication", ""},
             {"lora_bias", ""},
             {"target_parameters", ""},
             {"use_qalora", ""},
             {"use_bdlora", ""},
             {"arrow_config", ""},
             {"kasa_config", ""},
             {"lora_ga_config", ""},
             {"monteclora_config", ""},
             {"velora_config", ""},
             {"ensure_weight_tying", ""},
             {"alora_invocation_tokens", ""}};

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

static bp_status add_target(reading *r, const bp_json_event *event)
{
    bp_peft_config *config = r->config;
    uint32_t at = config->lora.target_count;
    if (at == BP_PEFT_TARGETS_MAX) {
        return peft_config_refuse(r, "target_modules", "there are more than 64 targets");
    }
    BP_TRY(copy_text(r, "target_modules", event, config->names[at], sizeof config->names[at]));
    config->target[at] = config->names[at];
    config->lora.target_count++;
    return BP_OK;
}

static bp_status take_targets(reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_TEXT) {
        return strcmp(event.text, "all-linear") == 0
                   ? add_target(r, &event)
                   : peft_config_refuse(
                         r, "target_modules",
                         "a regular expression is not implemented; a list of names is");
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return peft_config_refuse(r, "target_modules", "the value is not a list of names");
    }
    for (;;) {
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        BP_TRY(add_target(r, &event));
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

static bool is_table(const char *module)
{
    static const char *const tables[] = {"wte", "embed_tokens", "word_embeddings"};
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
        r->config->saves_table |= event.kind == BP_JSON_TEXT && is_table(event.text);
    }
    return list || event.kind == BP_JSON_NULL
               ? BP_OK
               : peft_config_refuse(r, "modules_to_save", "the value is not a list of names");
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

static bp_status peft_config_take_value(reading *r, const char *key)
{
    bp_lora *lora = &r->config->lora;
    double number = 0.0;
    if (strcmp(key, "peft_type") == 0) {
        return peft_config_take_type(r);
    }
    if (strcmp(key, "r") == 0) {
        BP_TRY(peft_config_take_number(r, "r", 1, 4096, &number));
        lora->rank = (uint32_t)number;
        return (double)lora->rank == number ? BP_OK
                                            : peft_config_refuse(r, "r", "the rank is not whole");
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
    if (strcmp(key, "target_modules") == 0) {
        return take_targets(r);
    }
    if (strcmp(key, "modules_to_save") == 0) {
        return take_saved(r);
    }
    if (strcmp(key, "init_lora_weights") == 0) {
        return take_beginning(r);
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
    if (!r->lora || r->config->lora.rank == 0 || r->config->lora.target_count == 0) {
        return peft_config_refuse(r, !r->lora ? "peft_type" : "r",
                                  "the configuration lacks peft_type, r or target_modules");
    }
    return BP_OK;
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
    config->lora.targets = config->target;
    if (store->exists(store, path, &there) != BP_OK || !there) {
        return bp_error_set(error, BP_ERR_DATA, where, "there is no adapter here", path);
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

static void peft_config_put_pair(bp_text *text, const char *key, const char *value, bool last)
{
    bp_text_string(text, "  ");
    bp_text_json(text, key);
    bp_text_string(text, ": ");
    bp_text_string(text, value);
    bp_text_string(text, last ? "\n" : ",\n");
}

static void put_real(bp_text *text, const char *key, double value)
{
    bp_text_string(text, "  ");
    bp_text_json(text, key);
    bp_text_string(text, ": ");
    bp_text_general(text, value, 15);
    bp_text_string(text, ",\n");
}

/* All dense layers of the blocks, which is not what every family's "all-linear" says. */
static void put_all_linear(bp_text *text, const bp_spec *spec)
{
    const bp_family *family = bp_family_adopt(spec).family;
    const bool listed = family != NULL && family->all_linear != NULL;
    bp_text_string(text, listed ? family->all_linear : "\"all-linear\"");
    bp_text_string(text, ",\n");
}

static void put_targets(bp_text *text, const bp_emit *emit)
{
    const bp_lora *lora = &emit->spec->lora;
    bp_text_string(text, "  \"target_modules\": ");
    if (lora->target_count == 1 && strcmp(lora->targets[0], "all-linear") == 0) {
        put_all_linear(text, emit->spec);
        return;
    }
    bp_text_string(text, "[");
    for (uint32_t t = 0; t < lora->target_count; t++) {
        bp_text_string(text, t > 0 ? ", " : "");
        bp_text_json(text, lora->targets[t]);
    }
    bp_text_string(text, "],\n");
}

/* The same of a parameter's name. */
static bool is_table_of(const char *name)
{
    char module[128];
    const char *end = strrchr(name, '.');
    size_t length = end == NULL ? 0 : (size_t)(end - name);
    if (length == 0 || length >= sizeof module) {
        return false;
    }
    memcpy(module, name, length);
    module[length] = '\0';
    return is_table(module);
}

/* The last part of the name of parameter `index`'s module, if it is trained beside adapters. */
static bool saved_module(const bp_emit *emit, uint32_t index, const char **name, size_t *length)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const char *full = bp_graph_name(emit->graph, parameter->weight);
    const char *end = strrchr(full, '.');
    /* A table that a head is tied to would no longer be tied: PEFT saves a copy. Without its name
     * the tensor of the file is the table itself. */
    const bp_model_config config = bp_family_adopt(emit->spec);
    bool tied = parameter->embedding && is_table_of(full) && !bp_family_untied(&config);
    if (parameter->base != BP_NO_PARAMETER || !parameter->trainable || end == NULL || tied) {
        return false;
    }
    const char *start = end;
    while (start > full && start[-1] != '.') {
        start--;
    }
    *name = start;
    *length = (size_t)(end - start);
    return true;
}

static bool is_listed(const bp_emit *emit, uint32_t before, const char *name, size_t length)
{
    const char *other;
    size_t other_length;
    for (uint32_t i = 0; i < before; i++) {
        if (saved_module(emit, i, &other, &other_length) && other_length == length &&
            memcmp(other, name, length) == 0) {
            return true;
        }
    }
    return false;
}

static void put_saved(bp_text *text, const bp_emit *emit)
{
    uint32_t count = 0;
    bp_text_string(text, "  \"modules_to_save\": ");
    for (uint32_t i = 0; i < emit->parameter_count && count < BP_PEFT_TARGETS_MAX; i++) {
        const char *name;
        size_t length;
        if (saved_module(emit, i, &name, &length) && !is_listed(emit, i, name, length)) {
            bp_text_string(text, count++ > 0 ? ", " : "[");
            bp_text_json_bytes(text, name, length);
        }
    }
    bp_text_string(text, count > 0 ? "],\n" : "null,\n");
}

static const char *task_type(bp_task task)
{
    return task == BP_TASK_CAUSAL_LM   ? "\"CAUSAL_LM\""
           : task == BP_TASK_MASKED_LM ? "null"
           : task == BP_TASK_TOKENS    ? "\"TOKEN_CLS\""
           : task == BP_TASK_ANSWERS   ? "\"QUESTION_ANS\""
                                       : "\"SEQ_CLS\"";
}

bp_status bp_peft_config_text(const bp_emit *emit, const char *base, char *json, size_t room,
                              size_t *length)
{
    bp_text text;
    const bp_lora *lora = &emit->spec->lora;
    const bool turned = emit->spec->model->input_major;
    bp_text_init(&text, NULL, NULL, json, room);
    bp_text_string(&text, "{\n  \"base_model_name_or_path\": ");
    bp_text_json(&text, base);
    bp_text_string(&text, ",\n");
    peft_config_put_pair(&text, "bias", "\"none\"", false);
    peft_config_put_pair(&text, "fan_in_fan_out", turned ? "true" : "false", false);
    peft_config_put_pair(&text, "inference_mode", "true", false);
    peft_config_put_pair(&text, "init_lora_weights", "true", false);
    put_real(&text, "lora_alpha", lora->alpha);
    put_real(&text, "lora_dropout", lora->dropout);
    put_saved(&text, emit);
    peft_config_put_pair(&text, "peft_type", "\"LORA\"", false);
    put_real(&text, "r", (double)lora->rank);
    put_targets(&text, emit);
    peft_config_put_pair(&text, "task_type", task_type(emit->spec->config.task), false);
    peft_config_put_pair(&text, "use_rslora", lora->rank_stabilized ? "true" : "false", true);
    bp_text_string(&text, "}\n");
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}
