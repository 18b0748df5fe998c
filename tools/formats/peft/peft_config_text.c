/* SPDX-License-Identifier: MIT */
/* PEFT's adapter_config.json, written. */
#include <string.h>

#include "arena/json_write.h"
#include "core/plan/adapter.h"
#include "layers/families/cnn.h"
#include "layers/families/vit.h"
#include "layers/families/whisper.h"
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

static void put_real(bp_json_writer *json, const char *key, double value)
{
    bp_json_put_real(json, key, value, 15);
}

/* All dense layers of the blocks, which is not what every family's "all-linear" says. */
static void put_all_linear(bp_json_writer *json, const bp_spec *spec)
{
    const bp_model_config config = bp_family_adopt(spec);
    const bp_family *family = config.family;
    const char *names = family == NULL                 ? NULL
                        : family->linear_names != NULL ? family->linear_names(&config)
                                                       : family->all_linear;
    bp_json_put_value(json, "target_modules", names != NULL ? names : "\"all-linear\"");
}

static void put_texts(bp_json_writer *json, const char *key, const char *const *item,
                      uint32_t count)
{
    bp_json_put_open(json, key, '[');
    for (uint32_t i = 0; i < count; i++) {
        bp_json_put_text(json, NULL, item[i]);
    }
    bp_json_put_close(json);
}

static void put_names(bp_json_writer *json, const char *key, const bp_peft_list *list)
{
    if (list->expression && list->count > 0) {
        bp_json_put_text(json, key, list->item[0]);
    } else if (list->count > 0) {
        put_texts(json, key, list->item, list->count);
    }
}

static void put_patterns(bp_json_writer *json, const char *key, const bp_peft_patterns *patterns)
{
    if (patterns->count == 0) {
        return;
    }
    bp_json_put_open(json, key, '{');
    for (uint32_t i = 0; i < patterns->count; i++) {
        put_real(json, patterns->key[i], patterns->value[i]);
    }
    bp_json_put_close(json);
}

static void put_layers(bp_json_writer *json, const bp_peft_choice *choice)
{
    if (choice->layer_count == 0) {
        return;
    }
    bp_json_put_open(json, "layers_to_transform", '[');
    for (uint32_t i = 0; i < choice->layer_count; i++) {
        put_real(json, NULL, choice->layers[i]);
    }
    bp_json_put_close(json);
}

/* A list, which PEFT takes for the model's token embedding. */
static void put_tokens(bp_json_writer *json, const bp_lora *lora)
{
    if (lora->token_count == 0) {
        return;
    }
    bp_json_put_open(json, "trainable_token_indices", '[');
    for (uint32_t i = 0; i < lora->token_count; i++) {
        bp_json_put_u64(json, NULL, lora->tokens[i]);
    }
    bp_json_put_close(json);
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
static void put_whole_names(bp_json_writer *json, const bp_builder *builder)
{
    bp_json_put_open(json, "target_modules", '[');
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const char *name = bp_build_name(builder, i);
        if (builder->parameters[i].adapter != BP_NO_PARAMETER) {
            bp_json_put_bytes(json, NULL, name, bp_adapter_module_length(name));
        }
    }
    bp_json_put_close(json);
}

/* PEFT takes layers_to_transform beside a list of names only. False: nothing has an adapter. */
static bool put_adapted(bp_json_writer *json, const bp_builder *builder)
{
    bool any = false;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        size_t length = 0, other_length = 0;
        char first[BP_TENSOR_NAME_MAX], second[BP_TENSOR_NAME_MAX];
        const char *name = adapted_name(builder, i, first, &length);
        bool known = name == NULL;
        for (uint32_t k = 0; k < i && !known; k++) {
            const char *other = adapted_name(builder, k, second, &other_length);
            known = other != NULL && other_length == length && memcmp(other, name, length) == 0;
        }
        if (!known && !any) {
            bp_json_put_open(json, "target_modules", '[');
            any = true;
        }
        if (!known) {
            bp_json_put_bytes(json, NULL, name, length);
        }
    }
    if (any) {
        bp_json_put_close(json);
    }
    return any;
}

/* Those of the targets that are, or are not, weights of experts. */
static void put_some(bp_json_writer *json, const char *key, const bp_lora *lora, bool experts)
{
    bp_json_put_open(json, key, '[');
    for (uint32_t t = 0; t < lora->target_count; t++) {
        if (bp_adapter_names_experts(lora->targets[t], NULL) == experts) {
            bp_json_put_text(json, NULL, lora->targets[t]);
        }
    }
    bp_json_put_close(json);
}

static void put_targets(bp_json_writer *json, const bp_builder *builder)
{
    const bp_lora *lora = &builder->spec->lora;
    const bp_peft_choice *choice = bp_peft_choice_of(lora);
    uint32_t experts = 0, all = 0;
    for (uint32_t t = 0; t < lora->target_count; t++) {
        experts += bp_adapter_names_experts(lora->targets[t], NULL) ? 1 : 0;
        all += strcmp(lora->targets[t], "all-linear") == 0 ? 1 : 0;
    }
    if (experts > 0) {
        if (all > 0) {
            put_all_linear(json, builder->spec);
        } else {
            put_some(json, "target_modules", lora, false);
        }
        put_some(json, "target_parameters", lora, true);
        return;
    }
    if (choice != NULL && choice->targets.expression) {
        put_names(json, "target_modules", &choice->targets);
    } else if (lora->target_count == 1 && strcmp(lora->targets[0], "all-linear") == 0) {
        if (choice == NULL || choice->layer_count == 0 || !put_adapted(json, builder)) {
            put_all_linear(json, builder->spec);
        }
    } else if (names_too_much(builder)) {
        put_whole_names(json, builder);
    } else {
        put_texts(json, "target_modules", lora->targets, lora->target_count);
    }
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

static void put_saved(bp_json_writer *json, const bp_builder *builder)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < builder->parameter_count && count < PEFT_SAVED_MAX; i++) {
        const char *name;
        size_t length;
        if (saved_module(builder, i, &name, &length) && !is_listed(builder, i, name, length)) {
            if (count++ == 0) {
                bp_json_put_open(json, "modules_to_save", '[');
            }
            bp_json_put_bytes(json, NULL, name, length);
        }
    }
    if (count > 0) {
        bp_json_put_close(json);
    } else {
        bp_json_put_value(json, "modules_to_save", "null");
    }
}

/* PEFT's tasks are of texts: with one of them it would hand input_ids to a model of images. */
static const char *task_type(const bp_spec *spec)
{
    const bp_task task = spec->config.task;
    const bool others = spec->model == &bp_model_cnn || spec->model == &bp_model_vit ||
                        spec->model == &bp_model_whisper; /* PEFT's own classes read texts */
    return others                                          ? "null"
           : task == BP_TASK_CAUSAL_LM && spec->source > 0 ? "\"SEQ_2_SEQ_LM\""
           : task == BP_TASK_CAUSAL_LM                     ? "\"CAUSAL_LM\""
           : task == BP_TASK_MASKED_LM                     ? "null"
           : task == BP_TASK_TOKENS                        ? "\"TOKEN_CLS\""
           : task == BP_TASK_ANSWERS                       ? "\"QUESTION_ANS\""
           : task == BP_TASK_EMBEDDING                     ? "\"FEATURE_EXTRACTION\""
                                                           : "\"SEQ_CLS\"";
}

static void put_members(bp_json_writer *json, const bp_builder *builder, const char *base)
{
    const bp_lora *lora = &builder->spec->lora;
    const bp_peft_choice *choice = bp_peft_choice_of(lora);
    if (choice != NULL) {
        put_patterns(json, "alpha_pattern", &choice->alphas);
    }
    bp_json_put_text(json, "base_model_name_or_path", base);
    bp_json_put_text(json, "bias", bp_peft_bias_word(lora->bias));
    if (choice != NULL) {
        put_names(json, "exclude_modules", &choice->excluded);
    }
    bp_json_put_flag(json, "fan_in_fan_out", builder->spec->model->input_major);
    bp_json_put_flag(json, "inference_mode", true);
    bp_json_put_flag(json, "init_lora_weights", true);
    if (choice != NULL) {
        put_names(json, "layers_pattern", &choice->layer_names);
        put_layers(json, choice);
    }
    put_real(json, "lora_alpha", lora->alpha);
    put_real(json, "lora_dropout", lora->dropout);
    put_saved(json, builder);
    bp_json_put_text(json, "peft_type", "LORA");
    put_real(json, "r", (double)lora->rank);
    if (choice != NULL) {
        put_patterns(json, "rank_pattern", &choice->ranks);
    }
    put_targets(json, builder);
    bp_json_put_value(json, "task_type", task_type(builder->spec));
    put_tokens(json, lora);
    if (lora->magnitudes) {
        bp_json_put_flag(json, "use_dora", true);
    }
    bp_json_put_flag(json, "use_rslora", lora->rank_stabilized);
}

bp_status bp_peft_config_text(const bp_builder *builder, const char *base, char *text, size_t room,
                              size_t *length)
{
    bp_text out;
    bp_json_writer json;
    bp_text_init(&out, NULL, NULL, text, room);
    bp_json_put_begin(&json, &out, BP_JSON_SPACED);
    bp_json_put_lines(&json, NULL, '{');
    put_members(&json, builder, base);
    bp_json_put_close(&json);
    bp_text_char(&out, '\n');
    *length = (size_t)out.written;
    return bp_text_flush(&out);
}
