/* SPDX-License-Identifier: MIT */
/* Models by name, and tasks. */
#include "layers/families/t5.h"
#include "layers/families/vit.h"
#include "layers/families/whisper.h"
#include "tools/bedplate/models/model_table.h"

#include <stdio.h>
#include <string.h>

#include "core/base/storage.h"
#include "device/host/storage/store_posix.h"
#include "tools/bedplate/models/gguf_folder.h"
#include "tools/bedplate/app/output.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_config.h"

bool model_config(const char *model, bp_model_config *config)
{
    static uint64_t scratch[BP_HF_CONFIG_SCRATCH / 8];
    static bp_store_posix posix;
    char path[BP_STORE_PATH_MAX];
    const bp_preset *preset = bp_preset_find(model);
    static gguf_folder gguf;
    const char *why;
    bool is = false;
    const bool opened = bp_store_posix_init(&posix, "") == BP_OK &&
                        gguf_folder_open(&gguf, &posix.store, model, &is, &why, NULL) == BP_OK &&
                        bp_storage_join(path, model, "config.json", NULL) == BP_OK;
    bp_store *store = is ? &gguf.store : &posix.store;
    const bool read = opened && bp_hf_config_read(store, path, scratch, config, NULL) == BP_OK &&
                      bp_hf_ranker_read(store, model, scratch, config, NULL) == BP_OK;
    gguf_folder_close(&gguf);
    if (read) {
        return true;
    }
    if (preset != NULL) {
        *config = bp_preset_config(preset);
    }
    return preset != NULL;
}

void model_print(const settings *set)
{
    bp_model_config config;
    output out;
    if (set->model == NULL || !model_config(set->model, &config)) {
        return;
    }
    output_begin(&out, stdout);
    bp_text_string(&out.text, "# model_type = ");
    bp_text_string(&out.text, config.family->model_type);
    for (size_t i = 0; i < config.family->row_count; i++) {
        char value[BP_ROW_VALUE_BYTES];
        if (bp_row_value(&config, i, value)) {
            bp_text_string(&out.text, "\n# ");
            bp_text_string(&out.text, config.family->rows[i].key);
            bp_text_string(&out.text, " = ");
            bp_text_string(&out.text, value);
        }
    }
    bp_text_char(&out.text, '\n');
    output_end(&out);
}

#define IMAGE_TEXT "image-text"

static const struct {
    const char *word;
    bp_task task;
    bp_preference_kind kind;
} tasks[] = {{"causal-lm", BP_TASK_CAUSAL_LM, BP_PREFERENCE_NONE},
             {"masked-lm", BP_TASK_MASKED_LM, BP_PREFERENCE_NONE},
             {"classification", BP_TASK_CLASSES, BP_PREFERENCE_NONE},
             {"multi-label-classification", BP_TASK_LABELS, BP_PREFERENCE_NONE},
             {"regression", BP_TASK_REGRESSION, BP_PREFERENCE_NONE},
             {"reranking", BP_TASK_RANKING, BP_PREFERENCE_NONE},
             {"token-classification", BP_TASK_TOKENS, BP_PREFERENCE_NONE},
             {"question-answering", BP_TASK_ANSWERS, BP_PREFERENCE_NONE},
             {"embedding", BP_TASK_EMBEDDING, BP_PREFERENCE_NONE},
             {IMAGE_TEXT, BP_TASK_EMBEDDING, BP_PREFERENCE_NONE},
             {"reconstruction", BP_TASK_RECONSTRUCTION, BP_PREFERENCE_NONE},
             {"dpo", BP_TASK_CAUSAL_LM, BP_PREFERENCE_SIGMOID},
             {"orpo", BP_TASK_CAUSAL_LM, BP_PREFERENCE_ORPO},
             {"simpo", BP_TASK_CAUSAL_LM, BP_PREFERENCE_SIMPO},
             {"kto", BP_TASK_CAUSAL_LM, BP_PREFERENCE_KTO},
             {"grpo", BP_TASK_CAUSAL_LM, BP_PREFERENCE_NONE}};

const char *model_task_word(uint32_t task)
{
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if ((uint32_t)tasks[i].task == task) {
            return tasks[i].word; /* the plain one comes first */
        }
    }
    return "unknown";
}

bp_preference_kind model_preference(const char *word)
{
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (strcmp(word, tasks[i].word) == 0) {
            return tasks[i].kind;
        }
    }
    return BP_PREFERENCE_NONE;
}

bool model_task_is_number(bp_task task)
{
    return task == BP_TASK_REGRESSION || task == BP_TASK_RANKING;
}

/* The task of the option, or the configuration's own. A configuration's problem_type says what
 * kind of classification its model was made for, unless another number of classes is asked. */
static bp_task task_of(const settings *set, const bp_model_config *config)
{
    bool one = model_task_is_number(config->task) && set->num_labels < 2;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (strcmp(set->task, tasks[i].word) == 0) {
            bool own = config->task == BP_TASK_LABELS || one;
            return tasks[i].task == BP_TASK_CLASSES && own ? config->task : tasks[i].task;
        }
    }
    return config->task;
}

bool model_makes_texts(const bp_model_config *config)
{
    return config->task == BP_TASK_CAUSAL_LM && config->family != NULL &&
           config->family->whole_class != NULL;
}

uint32_t model_start_token(const bp_model_config *config)
{
    return model_hears(config)         ? bp_whisper_config_of(config).start_token
           : model_makes_texts(config) ? bp_t5_config_of(config).start_token
                                       : 0;
}

bool model_hears(const bp_model_config *config)
{
    return model_makes_texts(config) && config->family->model == &bp_model_whisper;
}

uint32_t model_hears_positions(const bp_model_config *config)
{
    return model_hears(config) ? bp_whisper_config_of(config).source_positions : 0;
}

bool model_sees(const bp_model_config *config)
{
    return config->family != NULL && config->family->pairs == config->family;
}

uint32_t model_sees_tokens(const bp_model_config *config)
{
    const bp_vit_config own = bp_vit_config_of(config);
    return model_sees(config) ? bp_vit_tokens(&own) : 0;
}

/* Whether images and texts are one model here: asked for, or what the files hold and nothing else
 * is asked. A model of both is else one of its towers. True: it is. */
static bool model_pairs(const settings *set, bp_model_config *config)
{
    const bp_family *family = config->family;
    if (family == NULL || family->pairs == NULL) {
        return false;
    }
    const bool silent = strcmp(set->task, "auto") == 0 && set->num_labels == 0;
    if (strcmp(set->task, IMAGE_TEXT) == 0 || (silent && family->pairs == family)) {
        config->family = family->pairs;
        config->task = BP_TASK_EMBEDDING;
        config->family->resolve(config);
        return true;
    }
    if (family->pairs == family) {
        config->family = bp_family_find(family->model_type);
        config->task = config->family->task;
        config->classes = 0;
        config->vocabulary = 0;
        config->family->resolve(config);
    }
    return false;
}

bp_status model_task(const settings *set, bp_model_config *config, bp_error *error)
{
    if (model_pairs(set, config)) {
        return BP_OK;
    }
    if (strcmp(set->task, IMAGE_TEXT) == 0) {
        return bp_error_set(error, BP_ERR_USAGE, "model",
                            "this model does not compare images with texts: CLIP does", "--task");
    }
    config->task = task_of(set, config);
    if (config->task == BP_TASK_EMBEDDING && config->family->vectors != NULL) {
        config->family = config->family->vectors;
        config->family->resolve(config);
        return BP_OK;
    }
    if (config->task < BP_TASK_CLASSES) {
        config->classes = 0;
        return BP_OK;
    }
    const bp_family *family = config->family;
    const char *language = family->language_class; /* an encoder's check has words of its own */
    if (bp_task_scores_samples(config->task) && family->judge_class == NULL && language != NULL &&
        strstr(language, "ForCausalLM") != NULL) {
        const bp_status status =
            bp_error_set(error, BP_ERR_USAGE, "model",
                         "transformers has no class for this task and family", "--task");
        bp_error_found(error, family->model_type, strlen(family->model_type));
        return status;
    }
    if (config->task == BP_TASK_ANSWERS) {
        config->classes = 2; /* the first and the last token */
        return BP_OK;
    }
    if (config->task == BP_TASK_EMBEDDING) {
        config->classes = bp_family_count(config, BP_ROLE_WIDTH);
        return BP_OK;
    }
    if (config->task == BP_TASK_RECONSTRUCTION) {
        config->classes = config->positions; /* a row of as many numbers as it reads */
        return BP_OK;
    }
    const bool one = model_task_is_number(config->task);
    config->classes = set->num_labels != 0   ? (uint32_t)set->num_labels
                      : one                  ? 1
                      : config->classes != 0 ? config->classes
                                             : 2;
    const uint32_t most = config->task == BP_TASK_LABELS ? 32 : one ? 1 : 1024;
    if (config->classes > most) {
        return bp_error_limit(
            error, BP_ERR_USAGE, "model",
            "a task has fewer classes than that: regression and reranking 1, multi-label 32, "
            "classification 1024",
            "--num-labels", config->classes, BP_LIMIT_MOST, most);
    }
    return BP_OK;
}
