/* SPDX-License-Identifier: MIT */
/* PEFT's adapter_config.json, written. */
#include <string.h>

#include "arena/text.h"
#include "core/plan/adapter.h"
#include "layers/families/cnn.h"
#include "layers/families/vit.h"
#include "tools/formats/family/family.h"
#include "tools/formats/peft/peft_config.h"
#include "tools/formats/peft/peft_names.h"

#define PEFT_SAVED_MAX 64 /* modules beside the adapters that a file names */

static const char *const biases[BP_LORA_BIASES] = {
    [BP_LORA_BIAS_NONE] = "none", [BP_LORA_BIAS_ALL] = "all", [BP_LORA_BIAS_ADAPTED] = "lora_only"};

bp_lora_bias bp_peft_bias_of(const char *word)
{
    bp_lora_bias bias = BP_LORA_BIAS_NONE;
    while (bias < BP_LORA_BIASES && strcmp(biases[bias], word) != 0) {
        bias++;
    }
    return bias;
}

const char *bp_peft_bias_word(bp_lora_bias bias)
{
    return bias < BP_LORA_BIASES ? biases[bias] : "";
}

static void put_pair(bp_text *text, const char *key, const char *value, bool last)
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

static void put_names(bp_text *text, const char *key, const bp_peft_list *list)
{
    if (list->count == 0) {
        return;
    }
    bp_text_string(text, "  ");
    bp_text_json(text, key);
    bp_text_string(text, list->expression ? ": " : ": [");
    for (uint32_t i = 0; i < list->count; i++) {
        bp_text_string(text, i > 0 ? ", " : "");
        bp_text_json(text, list->item[i]);
    }
    bp_text_string(text, list->expression ? ",\n" : "],\n");
}

static void put_patterns(bp_text *text, const char *key, const bp_peft_patterns *patterns)
{
    if (patterns->count == 0) {
        return;
    }
    bp_text_string(text, "  ");
    bp_text_json(text, key);
    bp_text_string(text, ": {");
    for (uint32_t i = 0; i < patterns->count; i++) {
        bp_text_string(text, i > 0 ? ", " : "");
        bp_text_json(text, patterns->key[i]);
        bp_text_string(text, ": ");
        bp_text_general(text, patterns->value[i], 15);
    }
    bp_text_string(text, "},\n");
}

static void put_layers(bp_text *text, const bp_peft_choice *choice)
{
    for (uint32_t i = 0; i < choice->layer_count; i++) {
        bp_text_string(text, i > 0 ? ", " : "  \"layers_to_transform\": [");
        bp_text_general(text, choice->layers[i], 15);
    }
    bp_text_string(text, choice->layer_count > 0 ? "],\n" : "");
}

/* A list, which PEFT takes for the model's token embedding. */
static void put_tokens(bp_text *text, const bp_lora *lora)
{
    for (uint32_t i = 0; i < lora->token_count; i++) {
        bp_text_string(text, i > 0 ? ", " : "  \"trainable_token_indices\": [");
        bp_text_u64(text, lora->tokens[i]);
    }
    bp_text_string(text, lora->token_count > 0 ? "],\n" : "");
}

/* The last part of the name of a module that has an adapter; NULL: it has none. */
static const char *adapted_name(const bp_builder *builder, uint32_t index,
                                char newer[BP_TENSOR_NAME_MAX], size_t *length)
{
    const char *name = bp_build_name(builder, index);
    const size_t older = bp_adapter_module_length(name);
    const size_t renamed = bp_peft_newer_module(name, older, newer);
    size_t end = renamed > 0 ? renamed : older, begin = end;
    name = renamed > 0 ? newer : name;
    if (builder->parameters[index].adapter == BP_NO_PARAMETER) {
        return NULL;
    }
    while (begin > 0 && name[begin - 1] != '.') {
        begin--;
    }
    *length = end - begin;
    return name + begin;
}

/* Whether the targets name a module that was passed over (lora.usual): they would be refused. */
static bool names_too_much(const bp_builder *builder)
{
    const bp_lora *lora = &builder->spec->lora;
    bool found = false;
    for (uint32_t i = 0; i < builder->parameter_count && lora->usual && !found; i++) {
        const char *name = bp_build_name(builder, i);
        const size_t length = bp_adapter_module_length(name);
        for (uint32_t t = 0; t < lora->target_count && builder->parameters[i].depthwise; t++) {
            found = found || bp_adapter_ends_with(name, length, lora->targets[t]);
        }
    }
    return found;
}

/* The whole names of the modules that have adapters. */
static void put_whole_names(bp_text *text, const bp_builder *builder)
{
    const char *separator = "[";
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const char *name = bp_build_name(builder, i);
        if (builder->parameters[i].adapter != BP_NO_PARAMETER) {
            bp_text_string(text, separator);
            bp_text_json_bytes(text, name, bp_adapter_module_length(name));
            separator = ", ";
        }
    }
    bp_text_string(text, "],\n");
}

/* PEFT takes layers_to_transform beside a list of names only. False: nothing has an adapter. */
static bool put_adapted(bp_text *text, const bp_builder *builder)
{
    const char *separator = "[";
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        size_t length = 0, other_length = 0;
        char first[BP_TENSOR_NAME_MAX], second[BP_TENSOR_NAME_MAX];
        const char *name = adapted_name(builder, i, first, &length);
        bool known = name == NULL;
        for (uint32_t k = 0; k < i && !known; k++) {
            const char *other = adapted_name(builder, k, second, &other_length);
            known = other != NULL && other_length == length && memcmp(other, name, length) == 0;
        }
        if (!known) {
            bp_text_string(text, separator);
            bp_text_json_bytes(text, name, length);
            separator = ", ";
        }
    }
    const bool any = separator[0] == ',';
    bp_text_string(text, any ? "],\n" : "");
    return any;
}

static void put_targets(bp_text *text, const bp_builder *builder)
{
    const bp_lora *lora = &builder->spec->lora;
    const bp_peft_choice *choice = bp_peft_choice_of(lora);
    if (choice != NULL && choice->targets.expression) {
        put_names(text, "target_modules", &choice->targets);
        return;
    }
    bp_text_string(text, "  \"target_modules\": ");
    if (lora->target_count == 1 && strcmp(lora->targets[0], "all-linear") == 0) {
        if (choice == NULL || choice->layer_count == 0 || !put_adapted(text, builder)) {
            put_all_linear(text, builder->spec);
        }
        return;
    }
    if (names_too_much(builder)) {
        put_whole_names(text, builder);
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
    return bp_peft_is_table(module);
}

/* Where the part of a name begins that ends at `end`. */
static const char *part_begin(const char *name, const char *end)
{
    while (end > name && end[-1] != '.') {
        end--;
    }
    return end;
}

/* The last part of the name of parameter `index`'s module, with the part before a number, if it is
 * trained beside adapters. */
static bool saved_module(const bp_builder *builder, uint32_t index, const char **name,
                         size_t *length)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const char *full = bp_graph_name(builder->graph, parameter->weight);
    const char *end = strrchr(full, '.');
    /* A table that a head is tied to would no longer be tied: PEFT saves a copy. Without its name
     * the tensor of the file is the table itself. */
    const bp_model_config config = bp_family_adopt(builder->spec);
    bool tied = parameter->embedding && is_table_of(full) && !bp_family_untied(&config);
    if (parameter->base != BP_NO_PARAMETER || !parameter->trainable || end == NULL || tied ||
        bp_adapter_trains_bias(builder, full)) {
        return false;
    }
    const char *start = part_begin(full, end);
    /* "1" is the end of many modules' names: "classifier.1" */
    const bool number = (unsigned char)(*start - '0') < 10;
    start = start > full && number ? part_begin(full, start - 1) : start;
    *name = start;
    *length = (size_t)(end - start);
    return true;
}

static bool is_listed(const bp_builder *builder, uint32_t before, const char *name, size_t length)
{
    const char *other;
    size_t other_length;
    for (uint32_t i = 0; i < before; i++) {
        if (saved_module(builder, i, &other, &other_length) && other_length == length &&
            memcmp(other, name, length) == 0) {
            return true;
        }
    }
    return false;
}

static void put_saved(bp_text *text, const bp_builder *builder)
{
    uint32_t count = 0;
    bp_text_string(text, "  \"modules_to_save\": ");
    for (uint32_t i = 0; i < builder->parameter_count && count < PEFT_SAVED_MAX; i++) {
        const char *name;
        size_t length;
        if (saved_module(builder, i, &name, &length) && !is_listed(builder, i, name, length)) {
            bp_text_string(text, count++ > 0 ? ", " : "[");
            bp_text_json_bytes(text, name, length);
        }
    }
    bp_text_string(text, count > 0 ? "],\n" : "null,\n");
}

/* PEFT's tasks are of texts: with one of them it would hand input_ids to a model of images. */
static const char *task_type(const bp_spec *spec)
{
    const bp_task task = spec->config.task;
    return spec->model == &bp_model_cnn || spec->model == &bp_model_vit ? "null"
           : task == BP_TASK_CAUSAL_LM                                  ? "\"CAUSAL_LM\""
           : task == BP_TASK_MASKED_LM                                  ? "null"
           : task == BP_TASK_TOKENS                                     ? "\"TOKEN_CLS\""
           : task == BP_TASK_ANSWERS                                    ? "\"QUESTION_ANS\""
           : task == BP_TASK_EMBEDDING                                  ? "\"FEATURE_EXTRACTION\""
                                                                        : "\"SEQ_CLS\"";
}

bp_status bp_peft_config_text(const bp_builder *builder, const char *base, char *json, size_t room,
                              size_t *length)
{
    bp_text text;
    const bp_lora *lora = &builder->spec->lora;
    const bool turned = builder->spec->model->input_major;
    const bp_peft_choice *choice = bp_peft_choice_of(lora);
    bp_text_init(&text, NULL, NULL, json, room);
    bp_text_string(&text, "{\n");
    if (choice != NULL) {
        put_patterns(&text, "alpha_pattern", &choice->alphas);
    }
    bp_text_string(&text, "  \"base_model_name_or_path\": ");
    bp_text_json(&text, base);
    bp_text_string(&text, ",\n");
    bp_text_string(&text, "  \"bias\": ");
    bp_text_json(&text, bp_peft_bias_word(lora->bias));
    bp_text_string(&text, ",\n");
    if (choice != NULL) {
        put_names(&text, "exclude_modules", &choice->excluded);
    }
    put_pair(&text, "fan_in_fan_out", turned ? "true" : "false", false);
    put_pair(&text, "inference_mode", "true", false);
    put_pair(&text, "init_lora_weights", "true", false);
    if (choice != NULL) {
        put_names(&text, "layers_pattern", &choice->layer_names);
        put_layers(&text, choice);
    }
    put_real(&text, "lora_alpha", lora->alpha);
    put_real(&text, "lora_dropout", lora->dropout);
    put_saved(&text, builder);
    put_pair(&text, "peft_type", "\"LORA\"", false);
    put_real(&text, "r", (double)lora->rank);
    if (choice != NULL) {
        put_patterns(&text, "rank_pattern", &choice->ranks);
    }
    put_targets(&text, builder);
    put_pair(&text, "task_type", task_type(builder->spec), false);
    put_tokens(&text, lora);
    if (lora->magnitudes) {
        put_pair(&text, "use_dora", "true", false);
    }
    put_pair(&text, "use_rslora", lora->rank_stabilized ? "true" : "false", true);
    bp_text_string(&text, "}\n");
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}
