/* SPDX-License-Identifier: MIT */
/* Which adapters a run has. */
#include "tools/bedplate/session/adapter_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/ops/quantised.h"
#include "tools/bedplate/app/options.h"
#include "tools/formats/family/family.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/quantised_choice.h"

static bp_status adapter_choice_wrong(const char *name, const char *text, const char *found,
                                      const char *right)
{
    output_print(stderr, "bedplate: --%s: %s: found \"%s\", expected %s\n", name, text, found,
                 right);
    return BP_ERR_USAGE;
}

/* What an option's list says against one of its items. */
static bp_status adapter_choice_item(const char *name, const char *fault, const char *text,
                                     const char *right)
{
    return fault == NULL ? BP_OK : adapter_choice_wrong(name, fault, text, right);
}

/* The next item of a list between commas, without spaces around it; false behind the last. */
static bool next_item(const char **at, const char **item, size_t *length)
{
    if (*at == NULL) {
        return false;
    }
    const char *comma = strchr(*at, ',');
    *item = *at + strspn(*at, " ");
    const char *end = comma != NULL ? comma : *at + strlen(*at);
    while (end > *item && end[-1] == ' ') {
        end--;
    }
    *length = end > *item ? (size_t)(end - *item) : 0;
    *at = comma != NULL ? comma + 1 : NULL;
    return true;
}

/* Names, or where they may be one an expression. */
static bp_status read_names(adapter_choice *choice, const char *name, bp_peft_list *list,
                            const char *text, bool expressions)
{
    bp_peft_choice *c = &choice->config.choice;
    const char *at = text, *item, *right = "such as q_proj,v_proj";
    size_t length;
    if (text == NULL) {
        return BP_OK;
    }
    if (expressions && bp_peft_is_expression(text, strlen(text))) {
        return adapter_choice_item(name, bp_peft_add_expression(c, list, text, strlen(text)), text,
                                   "an expression as Python's re.fullmatch reads it");
    }
    while (next_item(&at, &item, &length)) {
        BP_TRY(adapter_choice_item(name, bp_peft_add_name(c, list, item, length), text, right));
    }
    return BP_OK;
}

static bp_status read_layers(adapter_choice *choice, const char *text)
{
    const char *at = text, *item;
    size_t length;
    while (next_item(&at, &item, &length)) {
        char *end;
        const double number = strtod(item, &end);
        const char *fault = end != item + length || length == 0
                                ? "the value is not a list of numbers"
                                : bp_peft_add_layer(&choice->config.choice, number);
        BP_TRY(adapter_choice_item("layers-to-transform", fault, text, "such as 0,1,5"));
    }
    return BP_OK;
}

/* Numbers, or the first and the last of some: 5,32000-32003. */
static bp_status read_tokens(adapter_choice *choice, const char *text)
{
    const char *at = text, *item;
    size_t length;
    while (next_item(&at, &item, &length)) {
        char *end = NULL;
        const double first = length > 0 ? strtod(item, &end) : -1.0;
        const bool range = length > 0 && end > item && *end == '-';
        const double last = range ? strtod(end + 1, &end) : first;
        const char *fault = length == 0 || end != item + length || !(last >= first)
                                ? "the value is not a list of numbers"
                                : NULL;
        for (double token = first; fault == NULL && token <= last; token += 1.0) {
            fault = bp_peft_add_token(&choice->config.choice, token);
        }
        BP_TRY(
            adapter_choice_item("trainable-token-indices", fault, text, "such as 5,32000-32003"));
    }
    return BP_OK;
}

/* KEY=NUMBER,.. */
static bp_status read_patterns(adapter_choice *choice, const char *name, bp_peft_patterns *patterns,
                               const char *text, bool whole)
{
    const char *at = text, *item;
    size_t length;
    while (next_item(&at, &item, &length)) {
        size_t key = length;
        while (key > 0 && item[key - 1] != '=') {
            key--;
        }
        char *end = NULL;
        const double value = key > 0 ? strtod(item + key, &end) : 0.0;
        const bool good = key > 1 && end == item + length && value >= (whole ? 1 : 1e-9) &&
                          value <= (whole ? 4096 : 1e9) &&
                          (!whole || (double)(uint32_t)value == value);
        const char *fault =
            !good ? "the value is not a list of patterns and numbers"
                  : bp_peft_add_pattern(&choice->config.choice, patterns, item, key - 1, value);
        BP_TRY(adapter_choice_item(name, fault, text,
                                   whole ? "such as q_proj=4,down_proj=32"
                                         : "such as q_proj=8,down_proj=64"));
    }
    return BP_OK;
}

static bp_status read_choice(const settings *set, adapter_choice *choice, const char *usual)
{
    bp_peft_choice *c = &choice->config.choice;
    const char *targets = set->target_modules != NULL ? set->target_modules : usual;
    c->used = 0;
    c->layer_count = 0;
    c->token_count = 0;
    c->targets = c->excluded = c->layer_names = (bp_peft_list){.count = 0};
    c->ranks = c->alphas = (bp_peft_patterns){.count = 0};
    BP_TRY(read_names(choice, "target-modules", &c->targets,
                      targets != NULL ? targets : "all-linear", true));
    BP_TRY(read_names(choice, "exclude-modules", &c->excluded, set->exclude_modules, true));
    BP_TRY(read_names(choice, "layers-pattern", &c->layer_names, set->layers_pattern, false));
    BP_TRY(read_layers(choice, set->layers_to_transform));
    BP_TRY(read_tokens(choice, set->trainable_token_indices));
    BP_TRY(read_patterns(choice, "rank-pattern", &c->ranks, set->rank_pattern, true));
    BP_TRY(read_patterns(choice, "alpha-pattern", &c->alphas, set->alpha_pattern, false));
    const bool layers = set->layers_to_transform != NULL;
    return adapter_choice_item(layers ? "layers-to-transform" : "layers-pattern",
                               bp_peft_choice_use(c, &choice->config.lora),
                               layers ? set->layers_to_transform : set->layers_pattern,
                               "one without the other, or both as PEFT takes them");
}

bp_status adapter_check(const char *path, const bp_peft_config *config,
                        const bp_model_config *model, bp_error *error)
{
    bool head = model->task == BP_TASK_CAUSAL_LM || model->task == BP_TASK_MASKED_LM;
    if (!head || bp_family_untied(model) || !config->saves_table) {
        return BP_OK;
    }
    bp_status status = bp_error_set(error, BP_ERR_DATA, "adapter",
                                    "a copy of the table that this model's head is tied to is not "
                                    "implemented",
                                    "modules_to_save");
    bp_error_prefix(error, path);
    return status;
}

bp_status adapter_blame(const settings *set, bp_status status, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    bool target = status == BP_ERR_USAGE && error->code == status && error->where != NULL &&
                  strcmp(error->where, "lora") == 0;
    if (set->adapter == NULL || !target) {
        return status;
    }
    BP_TRY(bp_storage_join(path, set->adapter, "adapter_config.json", NULL));
    bp_error_prefix(error, path);
    error->code = BP_ERR_DATA;
    return BP_ERR_DATA;
}

static bp_status read_directory(const settings *set, bp_store *store, adapter_choice *choice,
                                const bp_model_config *config, bp_error *error)
{
    static uint64_t scratch[BP_PEFT_CONFIG_SCRATCH / 8];
    static const char *const fixed[] = {
        "lora-r",        "lora-alpha",          "target-modules", "use-rslora",
        "use-dora",      "exclude-modules",     "layers-pattern", "rank-pattern",
        "alpha-pattern", "layers-to-transform", "lora-bias",      "trainable-token-indices"};
    char path[BP_STORE_PATH_MAX];
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (option_said(set, fixed[i])) {
            return adapter_choice_wrong(fixed[i], "the adapter's file gives it", set->adapter,
                                        "--adapter without it");
        }
    }
    BP_TRY(bp_storage_join(path, set->adapter, "adapter_config.json", error));
    BP_TRY(bp_peft_config_read(store, path, scratch, &choice->config, error));
    BP_TRY(adapter_check(path, &choice->config, config, error));
    if (option_given(set, "lora-dropout")) {
        choice->config.lora.dropout = set->lora_dropout;
    }
    return BP_OK;
}

bp_status adapter_fill(const settings *set, bp_store *store, adapter_choice *choice, bp_spec *spec,
                       bp_error *error)
{
    if (set->adapter != NULL) {
        BP_TRY(read_directory(set, store, choice, &spec->config, error));
        bp_peft_choice_rename(&choice->config.choice, &spec->config, &choice->config.lora);
        spec->lora = choice->config.lora;
        return adapter_blame(set, bp_rows_check(spec, error), error);
    }
    if (set->lora_r == 0) {
        static const char *const needs[] = {"lora-alpha",
                                            "lora-dropout",
                                            "target-modules",
                                            "use-rslora",
                                            "use-dora",
                                            "exclude-modules",
                                            "layers-pattern",
                                            "rank-pattern",
                                            "alpha-pattern",
                                            "layers-to-transform",
                                            "loraplus-lr-ratio",
                                            "lora-bias",
                                            "trainable-token-indices"};
        for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
            if (option_said(set, needs[i])) {
                return adapter_choice_wrong(needs[i], "there is no adapter", "no --lora-r",
                                            "--lora-r 8 with it");
            }
        }
        return BP_OK;
    }
    BP_TRY(read_choice(set, choice, spec->config.family->adapter_targets));
    bp_peft_choice_rename(&choice->config.choice, &spec->config, &choice->config.lora);
    choice->config.lora.usual = set->target_modules == NULL;
    choice->config.lora.rank = (uint32_t)set->lora_r;
    choice->config.lora.alpha = set->lora_alpha;
    choice->config.lora.dropout = set->lora_dropout;
    choice->config.lora.rank_stabilized = set->use_rslora;
    choice->config.lora.magnitudes = set->use_dora;
    choice->config.lora.bias = bp_peft_bias_of(set->lora_bias);
    spec->lora = choice->config.lora;
    return BP_OK;
}

const bp_metadata_group *adapter_note_base(adapter_note *note, const bp_spec *spec)
{
    const bp_quantised form = spec->quantised;
    const bool eight = form == BP_QUANTISED_INT8;
    if ((!eight && !bp_quantised_four(form)) ||
        (quantised_mixes(spec) && spec->experts != spec->quantised)) {
        return NULL;
    }
    snprintf(note->block, sizeof note->block, "%u", (unsigned)bp_quantised_block(form));
    const bool fp4 = bp_quantised_kind(form) >= BP_QUANTISED_FP4;
    note->pairs[0] = (bp_pair){eight ? "load-in-8bit" : "load-in-4bit", "true"};
    note->pairs[1] = (bp_pair){"bnb-4bit-quant-type", fp4 ? "fp4" : "nf4"};
    note->pairs[2] =
        (bp_pair){"bnb-4bit-use-double-quant", bp_quantised_nests(form) ? "true" : "false"};
    note->pairs[3] = (bp_pair){"bnb-4bit-blocksize", note->block};
    note->group = (bp_metadata_group){"bedplate.base.", {note->pairs, eight ? 1 : 4}};
    return &note->group;
}

/* The form of 4 bits that options in a text of JSON have; NONE where there is no such one. */
static bp_quantised recorded_four(const char *head)
{
    static const char size[] = "bnb-4bit-blocksize\":\"";
    const char *block = strstr(head, size);
    return quantised_four(strstr(head, "bnb-4bit-quant-type\":\"fp4\"") != NULL,
                          strstr(head, "bnb-4bit-use-double-quant\":\"false\"") == NULL,
                          block != NULL ? strtoull(block + sizeof size - 1, NULL, 10)
                                        : BP_NF4_BLOCK);
}

/* What the options at the beginning of a file of the adapter's directory ask for, from byte `skip`
 * to the end of its first line. */
static bp_quantised adapter_form_in(const char *directory, const char *name, size_t skip)
{
    static char head[16384];
    char path[BP_STORE_PATH_MAX];
    if (bp_storage_join(path, directory, name, NULL) != BP_OK) {
        return BP_QUANTISED_NONE;
    }
    FILE *file = fopen(path, "r");
    const size_t length = file != NULL ? fread(head, 1, sizeof head - 1, file) : 0;
    const char *text = length > skip ? head + skip : "";
    head[length] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    head[skip + strcspn(text, "\n")] = '\0';
    return strstr(text, "load-in-4bit\":\"true\"") != NULL   ? recorded_four(text)
           : strstr(text, "load-in-8bit\":\"true\"") != NULL ? BP_QUANTISED_INT8
                                                             : BP_QUANTISED_NONE;
}

/* The adapter's own metadata, which begin a header of JSON behind its length; else those of older
 * programs have a record beside them, whose options stand at its beginning. */
static bp_quantised adapter_base_form(const char *directory)
{
    const bp_quantised noted =
        adapter_form_in(directory, "adapter_model.safetensors", sizeof(uint64_t));
    return noted != BP_QUANTISED_NONE ? noted : adapter_form_in(directory, "record.jsonl", 0);
}

bool adapter_has_note(const char *directory)
{
    return adapter_form_in(directory, "adapter_model.safetensors", sizeof(uint64_t)) !=
           BP_QUANTISED_NONE;
}

/* export writes no quantised experts, so the base of a mixture is quantised while it is read. A
 * record does not have that a file's blocks stayed, as gpt-oss' do beside these options. */
void adapter_say_base(const settings *set, const bp_spec *spec)
{
    char words[128];
    const bp_quantised form = adapter_base_form(set->adapter);
    const int bits = form == BP_QUANTISED_INT8 ? 8 : 4;
    const bool floats = spec->quantised == BP_QUANTISED_NONE;
    const bool mixes = quantised_mixes(spec) && spec->config.experts == BP_QUANTISED_NONE;
    if (form == BP_QUANTISED_NONE || !(floats || (mixes && spec->experts != form))) {
        return;
    }
    if (!mixes) {
        output_print(stderr,
                     "bedplate: %s: the adapter was trained on a base quantised to %d bits; on "
                     "float weights "
                     "its loss differs (export --load-in-%dbit writes such a base)\n",
                     set->adapter, bits, bits);
        return;
    }
    output_print(
        stderr,
        "bedplate: %s: the adapter was trained on a base and experts quantised to %d bits; "
        "on %s its loss differs (eval --model %s %s reads such a base%s)\n",
        set->adapter, bits, floats ? "float weights" : "experts in another form", set->model,
        quantised_options(form, words),
        strcmp(spec->config.family->model_type, "gpt_oss") == 0
            ? ", unless its experts were in blocks of MXFP4"
            : "");
}
