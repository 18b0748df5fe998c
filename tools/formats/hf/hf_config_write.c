/* SPDX-License-Identifier: MIT */
/* Writing config.json as transformers writes it: two spaces, one key a line, rows in their order.
 */
#include <string.h>

#include "layers/families/llama.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/hf/hf_rope.h"

/* Of a bp_layer_set: how many layers it lists, in words of 4 bytes. */
#define LISTED_AT (offsetof(bp_layer_set, listed) / sizeof(uint32_t))

/* id2label and label2id. */
static void put_classes(bp_json_writer *json, const bp_model_config *config,
                        const bp_class_names *names)
{
    static const char *const keys[] = {"id2label", "label2id"};
    for (uint32_t k = 0; k < 2; k++) {
        bp_json_put_open(json, keys[k], '{');
        for (uint32_t i = 0; i < config->classes; i++) {
            char number[32] = "LABEL_";
            bp_text text;
            bp_text_init(&text, NULL, NULL, number + 6, sizeof number - 6);
            bp_text_u64(&text, i);
            const bp_status fits = bp_text_flush(&text);
            (void)fits; /* 10 digits do */
            const char *name = names != NULL ? names->text + names->start[i] : number;
            if (k == 0) {
                bp_json_put_text(json, number + 6, name);
            } else {
                bp_json_put_u64(json, name, i);
            }
        }
        bp_json_put_close(json);
    }
}

/* BertModel of BertForMaskedLM, GPT2Model of GPT2LMHeadModel. */
static void put_base_class(bp_json_writer *json, const char *name)
{
    const char *end = strstr(name, "LMHead");
    end = end != NULL ? end : strstr(name, "For");
    end = end != NULL ? end : strstr(name, "Model"); /* T5EncoderModel is one itself */
    end = end != NULL ? end : name + strlen(name);
    bp_json_put_member(json, NULL);
    bp_text_char(json->text, '"');
    bp_text_bytes(json->text, name, (size_t)(end - name));
    bp_text_string(json->text, "Model\"");
}

static void put_class(bp_json_writer *json, const bp_row *row, const bp_model_config *config)
{
    const bp_family *family = config->family;
    const bp_task task = config->task;
    bp_json_put_lines(json, row->key, '[');
    if (family->vectors == family || family->pairs == family) {
        bp_json_put_text(json, NULL, family->language_class);
    } else if (task == BP_TASK_EMBEDDING) {
        put_base_class(json, family->language_class);
    } else {
        bp_json_put_text(json, NULL,
                         task == BP_TASK_CAUSAL_LM && family->whole_class != NULL
                             ? family->whole_class
                         : task < BP_TASK_CLASSES       ? family->language_class
                         : bp_task_scores_samples(task) ? family->judge_class
                         : task == BP_TASK_TOKENS       ? family->token_class
                                                        : family->answer_class);
    }
    bp_json_put_close(json);
}

/* What has to be so is written so. */
static void put_fixed(bp_json_writer *json, const bp_row *row)
{
    if (row->kind == BP_ROW_TEXT) {
        bp_json_put_bytes(json, row->key, row->words, strcspn(row->words, "|"));
    } else if (row->kind == BP_ROW_WORDS) {
        bp_json_put_open(json, row->key, '[');
        for (const char *at = row->words; *at != '\0'; at += at[0] == '|' ? 1 : 0) {
            const size_t length = strcspn(at, "|");
            bp_json_put_bytes(json, NULL, at, length);
            at += length;
        }
        bp_json_put_close(json);
    } else {
        bp_json_put_member(json, row->key);
        bp_row_words(json->text, row);
    }
}

static uint32_t count_at(const bp_model_config *config, const bp_row *row, uint32_t index)
{
    uint32_t value;
    memcpy(&value, (const char *)config + row->offset + index * sizeof value, sizeof value);
    return value;
}

static int64_t token_at(const bp_model_config *config, const bp_row *row)
{
    int64_t value;
    memcpy(&value, (const char *)config + row->offset, sizeof value);
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
    case BP_ROW_TOKEN: /* -1 is no null there */
        if (sparse && token_at(config, row) < 0) {
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

static void put_stored(bp_json_writer *json, const bp_model_config *config, const bp_row *row)
{
    const bool real = row->kind == BP_ROW_REAL_NULL && (row->flags & BP_ROW_SPARSE) != 0;
    const bool zero = (row->kind == BP_ROW_COUNT_NULL && count_at(config, row, 0) == 0) ||
                      (real && count_at(config, row, 0) == 0 && count_at(config, row, 1) == 0);
    if (zero && (row->flags & BP_ROW_RESOLVED) == 0) {
        bp_json_put_value(json, row->key, "null");
    } else {
        bp_row_put(json, row->key, config, row);
    }
}

static void hf_config_write_put_row(bp_json_writer *json, const bp_model_config *config,
                                    const bp_row *row, const bp_class_names *names)
{
    static const char *const problems[] = {[BP_TASK_CLASSES] = "single_label_classification",
                                           [BP_TASK_LABELS] = "multi_label_classification",
                                           [BP_TASK_REGRESSION] = "regression",
                                           [BP_TASK_RECONSTRUCTION] = "reconstruction",
                                           [BP_TASK_RANKING] = "multi_label_classification"};
    switch (row->kind) {
    case BP_ROW_TYPE:
        bp_json_put_text(json, row->key, config->family->model_type);
        break;
    case BP_ROW_CLASSES:
        put_class(json, row, config);
        break;
    case BP_ROW_LABELS:
        put_classes(json, config, names);
        break;
    case BP_ROW_PROBLEM:
        bp_json_put_text(json, row->key, problems[config->task]);
        break;
    case BP_ROW_ROPE:
        bp_hf_rope_put(json, row->key, config);
        break;
    case BP_ROW_THETA:
        bp_json_put_open(json, row->key, '{');
        bp_row_put(json, "rope_theta", config, row + 1); /* whose row comes next */
        bp_json_put_text(json, "rope_type", "default");
        bp_json_put_close(json);
        break;
    default:
        if (BP_ROW_STORED(row->kind)) {
            put_stored(json, config, row);
        } else {
            put_fixed(json, row);
        }
        break;
    }
}

/* As sentence-transformers 4 and later find a cross-encoder's scores. */
static void put_ranker(bp_json_writer *json, const bp_model_config *config)
{
    bp_json_put_open(json, "sentence_transformers", '{');
    bp_json_put_text(json, "activation_fn",
                     config->raw_scores ? "torch.nn.modules.linear.Identity"
                                        : "torch.nn.modules.activation.Sigmoid");
    bp_json_put_text(json, "version", "4.0.1");
    bp_json_put_close(json);
}

/* Of "vision_config.hidden_size" what stands before the dot; 0: there is none. */
static size_t hf_config_object_of(const char *key)
{
    const char *dot = strchr(key, '.');
    return dot != NULL ? (size_t)(dot - key) : 0;
}

/* Closes the object that `open` is in, and opens that of the next key where it is another. */
static void hf_config_put_object(bp_json_writer *json, const char **open, const char *key)
{
    const size_t now = hf_config_object_of(*open), next = hf_config_object_of(key);
    if (now == next && strncmp(*open, key, now) == 0) {
        return;
    }
    if (now > 0) {
        bp_json_put_close(json);
    }
    if (next > 0) {
        bp_json_put_key(json, key, next);
        bp_json_put_lines(json, NULL, '{');
    }
    *open = key;
}

bp_status bp_hf_config_text(const bp_model_config *config, const bp_class_names *names, char *text,
                            size_t *length)
{
    const bp_family *family = config->family;
    const bool listed = lists_sizes(config);
    const bool named = names != NULL && names->count == config->classes;
    bp_text out;
    bp_json_writer json;
    const char *open = ""; /* a key of the object that is being written */
    bp_text_init(&out, NULL, NULL, text, BP_HF_CONFIG_TEXT);
    bp_json_put_begin(&json, &out, BP_JSON_SPACED);
    bp_json_put_lines(&json, NULL, '{');
    for (size_t i = 0; i < family->row_count; i++) {
        const bp_row *row = &family->rows[i];
        const bool again = i > 0 && strcmp(row[-1].key, row->key) == 0;
        if (!again && !skips(config, row, listed)) {
            const size_t object = hf_config_object_of(row->key);
            bp_row inside = *row;
            inside.key = row->key + (object > 0 ? object + 1 : 0);
            hf_config_put_object(&json, &open, row->key);
            hf_config_write_put_row(&json, config, object > 0 ? &inside : row,
                                    named ? names : NULL);
        }
    }
    hf_config_put_object(&json, &open, "");
    if (config->task == BP_TASK_RANKING) {
        put_ranker(&json, config);
    }
    bp_json_put_text(&json, "torch_dtype", "float32");
    bp_json_put_close(&json);
    bp_text_char(&out, '\n');
    *length = (size_t)out.written;
    return bp_text_flush(&out);
}
