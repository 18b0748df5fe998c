/* SPDX-License-Identifier: MIT */
/* Writing config.json as transformers writes it: two spaces, one key a line, rows in their order.
 */
#include <string.h>

#include "layers/families/llama.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/hf/hf_rope.h"

/* Of a bp_layer_set: how many layers it lists, in words of 4 bytes. */
#define LISTED_AT (offsetof(bp_layer_set, listed) / sizeof(uint32_t))

static void hf_config_write_put_key(bp_text *text, const char *key)
{
    bp_text_string(text, "  ");
    bp_text_json(text, key);
    bp_text_string(text, ": ");
}

static void put_word(bp_text *text, const char *key, const char *word)
{
    hf_config_write_put_key(text, key);
    bp_text_string(text, word);
    bp_text_string(text, ",\n");
}

static void put_label(bp_text *text, const bp_class_names *names, uint32_t number)
{
    if (names != NULL) {
        bp_text_json(text, names->text + names->start[number]);
        return;
    }
    bp_text_string(text, "\"LABEL_");
    bp_text_u64(text, number);
    bp_text_string(text, "\"");
}

static void put_number_key(bp_text *text, uint32_t number)
{
    bp_text_string(text, "\"");
    bp_text_u64(text, number);
    bp_text_string(text, "\"");
}

/* id2label and label2id. */
static void put_classes(bp_text *text, const bp_model_config *config, const bp_class_names *names)
{
    hf_config_write_put_key(text, "id2label");
    for (uint32_t i = 0; i < config->classes; i++) {
        bp_text_string(text, i == 0 ? "{" : ", ");
        put_number_key(text, i);
        bp_text_string(text, ": ");
        put_label(text, names, i);
    }
    bp_text_string(text, "},\n");
    hf_config_write_put_key(text, "label2id");
    for (uint32_t i = 0; i < config->classes; i++) {
        bp_text_string(text, i == 0 ? "{" : ", ");
        put_label(text, names, i);
        bp_text_string(text, ": ");
        bp_text_u64(text, i);
    }
    bp_text_string(text, "},\n");
}

static void put_problem(bp_text *text, const bp_row *row, bp_task task)
{
    static const char *const problems[] = {[BP_TASK_CLASSES] = "\"single_label_classification\"",
                                           [BP_TASK_LABELS] = "\"multi_label_classification\"",
                                           [BP_TASK_REGRESSION] = "\"regression\"",
                                           [BP_TASK_RECONSTRUCTION] = "\"reconstruction\""};
    put_word(text, row->key, problems[task]);
}

/* BertModel of BertForMaskedLM, GPT2Model of GPT2LMHeadModel. */
static void put_base_class(bp_text *text, const char *name)
{
    const char *end = strstr(name, "LMHead");
    end = end != NULL ? end : strstr(name, "For");
    end = end != NULL ? end : name + strlen(name);
    bp_text_char(text, '"');
    for (; name != end; name++) {
        bp_text_char(text, *name);
    }
    bp_text_string(text, "Model\"");
}

static void put_class(bp_text *text, const bp_row *row, const bp_model_config *config)
{
    const bp_family *family = config->family;
    hf_config_write_put_key(text, row->key);
    bp_text_string(text, "[\n    ");
    const bp_task task = config->task;
    if (task == BP_TASK_EMBEDDING) {
        put_base_class(text, family->language_class);
        bp_text_string(text, "\n  ],\n");
        return;
    }
    bp_text_json(text, task < BP_TASK_CLASSES         ? family->language_class
                       : bp_task_scores_samples(task) ? family->judge_class
                       : task == BP_TASK_TOKENS       ? family->token_class
                                                      : family->answer_class);
    bp_text_string(text, "\n  ],\n");
}

/* What has to be so is written so. */
static void put_fixed(bp_text *text, const bp_row *row)
{
    hf_config_write_put_key(text, row->key);
    if (row->kind == BP_ROW_TEXT) {
        const char *end = strchr(row->words, '|');
        bp_text_json_bytes(text, row->words,
                           end != NULL ? (size_t)(end - row->words) : strlen(row->words));
    } else {
        bp_row_words(text, row);
    }
    bp_text_string(text, ",\n");
}

static uint32_t count_at(const bp_model_config *config, const bp_row *row, uint32_t index)
{
    uint32_t value;
    memcpy(&value, (const char *)config + row->offset + index * sizeof value, sizeof value);
    return value;
}

static bool flag_at(const bp_model_config *config, const bp_row *row)
{
    bool value;
    memcpy(&value, (const char *)config + row->offset, sizeof value);
    return value;
}

/* Whether a list of widths is written, and not one width and a number of layers. */
static bool lists_sizes(const bp_model_config *config)
{
    const uint32_t layers = bp_family_count(config, BP_ROLE_LAYERS);
    bool listed = false;
    for (size_t i = 0; i < config->family->row_count; i++) {
        const bp_row *row = &config->family->rows[i];
        if (row->kind == BP_ROW_SIZES) {
            listed = layers == 0;
            for (uint32_t k = 0; k < layers && k < (uint32_t)row->otherwise; k++) {
                listed = listed || count_at(config, row, k) != 0;
            }
        }
    }
    return listed;
}

static bool skips(const bp_model_config *config, const bp_row *row, bool listed)
{
    const bool judges = bp_task_scores_samples(config->task);
    const bool zero = row->kind == BP_ROW_COUNT_NULL && count_at(config, row, 0) == 0;
    const bool sparse = (row->flags & BP_ROW_SPARSE) != 0;
    switch (row->kind) {
    case BP_ROW_LABELS:
        return config->task == BP_TASK_RECONSTRUCTION ||
               (!judges && config->task != BP_TASK_TOKENS);
    case BP_ROW_PROBLEM:
        return !judges;
    case BP_ROW_LAYERS:
        return count_at(config, row, LISTED_AT) == 0;
    case BP_ROW_SIZES:
        return !listed;
    case BP_ROW_COUNT:
        if (sparse && count_at(config, row, 0) == (uint32_t)row->otherwise) {
            return true;
        }
        break;
    case BP_ROW_FLAG:
        if (sparse && !flag_at(config, row)) {
            return true;
        }
        break;
    default:
        break;
    }
    return (row->flags & (BP_ROW_READ | BP_ROW_INSIDE)) != 0 ||
           (listed && (row->role == BP_ROLE_WIDTH || row->role == BP_ROLE_LAYERS)) ||
           (zero && sparse);
}

static void put_stored(bp_text *text, const bp_model_config *config, const bp_row *row)
{
    const bool real = row->kind == BP_ROW_REAL_NULL && (row->flags & BP_ROW_SPARSE) != 0;
    const bool zero = (row->kind == BP_ROW_COUNT_NULL && count_at(config, row, 0) == 0) ||
                      (real && count_at(config, row, 0) == 0 && count_at(config, row, 1) == 0);
    hf_config_write_put_key(text, row->key);
    if (zero && (row->flags & BP_ROW_RESOLVED) == 0) {
        bp_text_string(text, "null");
    } else {
        bp_row_put(text, config, row);
    }
    bp_text_string(text, ",\n");
}

static void hf_config_write_put_row(bp_text *text, const bp_model_config *config, const bp_row *row,
                                    const bp_class_names *names)
{
    switch (row->kind) {
    case BP_ROW_TYPE:
        hf_config_write_put_key(text, row->key);
        bp_text_json(text, config->family->model_type);
        bp_text_string(text, ",\n");
        break;
    case BP_ROW_CLASSES:
        put_class(text, row, config);
        break;
    case BP_ROW_LABELS:
        put_classes(text, config, names);
        break;
    case BP_ROW_PROBLEM:
        put_problem(text, row, config->task);
        break;
    case BP_ROW_ROPE:
        hf_config_write_put_key(text, row->key);
        bp_hf_rope_put(text, config);
        bp_text_string(text, ",\n");
        break;
    default:
        if (BP_ROW_STORED(row->kind)) {
            put_stored(text, config, row);
        } else {
            put_fixed(text, row);
        }
        break;
    }
}

bp_status bp_hf_config_text(const bp_model_config *config, const bp_class_names *names, char *json,
                            size_t *length)
{
    const bp_family *family = config->family;
    const bool listed = lists_sizes(config);
    const bool named = names != NULL && names->count == config->classes;
    bp_text text;
    bp_text_init(&text, NULL, NULL, json, BP_HF_CONFIG_TEXT);
    bp_text_string(&text, "{\n");
    for (size_t i = 0; i < family->row_count; i++) {
        const bp_row *row = &family->rows[i];
        const bool again = i > 0 && strcmp(row[-1].key, row->key) == 0;
        if (!again && !skips(config, row, listed)) {
            hf_config_write_put_row(&text, config, row, named ? names : NULL);
        }
    }
    hf_config_write_put_key(&text, "torch_dtype");
    bp_text_string(&text, "\"float32\"\n}\n");
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}
