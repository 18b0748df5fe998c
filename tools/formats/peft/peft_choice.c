/* SPDX-License-Identifier: MIT */
/* Choosing modules as PEFT does. */
#include "tools/formats/peft/peft_choice.h"

#include <string.h>

#include "core/base/number.h"
#include "core/plan/adapter.h"
#include "layers/families/vit.h"
#include "tools/formats/family/family.h"
#include "tools/formats/peft/peft_names.h"
#include "tools/formats/unicode/regex.h"

#define KEY_BYTES 256

static const char *keep_word(bp_peft_choice *choice, const char *text, size_t length,
                             const char **word)
{
    if (length == 0 || memchr(text, '\0', length) != NULL) {
        return "a name is empty";
    }
    if (length >= KEY_BYTES - 16 || sizeof choice->words - choice->used <= length) {
        return "a name, or all names together, are too long";
    }
    memcpy(choice->words + choice->used, text, length);
    choice->words[choice->used + length] = '\0';
    *word = choice->words + choice->used;
    choice->used += length + 1;
    return NULL;
}

const char *bp_peft_add_name(bp_peft_choice *choice, bp_peft_list *list, const char *text,
                             size_t length)
{
    if (list->count == BP_PEFT_TARGETS_MAX) {
        return "there are more than 192 names";
    }
    const char *fault = keep_word(choice, text, length, &list->item[list->count]);
    list->count += fault == NULL ? 1 : 0;
    return fault;
}

const char *bp_peft_add_expression(bp_peft_choice *choice, bp_peft_list *list, const char *text,
                                   size_t length)
{
    bp_regex regex;
    const char *fault = bp_peft_add_name(choice, list, text, length);
    list->expression = true;
    return fault != NULL ? fault : bp_regex_make(&regex, list->item[list->count - 1]);
}

/* (.*\.)?(key) */
static const char *key_regex(const char *key, bp_regex *regex)
{
    static const char begin[] = "(.*\\.)?(";
    const size_t length = strlen(key); /* keep_word leaves room for what is around it */
    char whole[KEY_BYTES];
    memcpy(whole, begin, sizeof begin - 1);
    memcpy(whole + sizeof begin - 1, key, length);
    memcpy(whole + sizeof begin - 1 + length, ")", 2);
    return bp_regex_make(regex, whole);
}

const char *bp_peft_add_pattern(bp_peft_choice *choice, bp_peft_patterns *patterns,
                                const char *text, size_t length, double value)
{
    bp_regex regex;
    const uint32_t at = patterns->count;
    if (at == BP_PEFT_PATTERNS_MAX) {
        return "there are more than 32 patterns";
    }
    const char *fault = keep_word(choice, text, length, &patterns->key[at]);
    patterns->value[at] = value;
    patterns->count += fault == NULL ? 1 : 0;
    return fault != NULL ? fault : key_regex(patterns->key[at], &regex);
}

const char *bp_peft_add_layer(bp_peft_choice *choice, double number)
{
    if (choice->layer_count == BP_PEFT_LAYERS_MAX) {
        return "there are more than 256 layers";
    }
    int64_t whole;
    if (!bp_number_whole(number, 0, 1e6 - 1, &whole)) {
        return "the number of a layer is a whole one from 0 on";
    }
    choice->layers[choice->layer_count++] = (uint32_t)whole;
    return NULL;
}

const char *bp_peft_add_token(bp_peft_choice *choice, double number)
{
    if (choice->token_count == BP_TRAINED_ROWS_MAX) {
        return "there are more than 4096 tokens";
    }
    int64_t whole;
    if (!bp_number_whole(number, 0, 4294967294.0, &whole)) {
        return "the number of a token is a whole one from 0 on";
    }
    choice->tokens[choice->token_count++] = (uint32_t)whole;
    return NULL;
}

bool bp_peft_is_expression(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr("*+?()[]{}|^$\\", text[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static bool list_has(const bp_peft_list *list, const char *module, size_t length)
{
    bp_regex regex;
    bool has = false;
    if (list->expression) {
        return bp_regex_make(&regex, list->item[0]) == NULL &&
               bp_regex_matches(&regex, module, length);
    }
    for (uint32_t i = 0; i < list->count && !has; i++) {
        has = bp_adapter_ends_with(module, length, list->item[i]);
    }
    return has;
}

/* Where a part of a name that begins at `at` ends: at its dot, or behind the name. */
static size_t part_end(const char *module, size_t length, size_t at)
{
    while (at < length && module[at] != '.') {
        at++;
    }
    return at;
}

static bool is_layer_name(const bp_peft_list *names, const char *part, size_t length)
{
    bool is = names->count == 0;
    for (uint32_t i = 0; i < names->count && !is; i++) {
        is = strlen(names->item[i]) == length && memcmp(names->item[i], part, length) == 0;
    }
    return is;
}

static bool is_digits(const char *text, size_t length, uint32_t *number)
{
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || length > 6) {
            return false;
        }
        *number = *number * 10 + (uint32_t)(text[i] - '0');
    }
    return length > 0;
}

/* The last number between dots behind a part of such a name, which is not the first part. */
static bool in_layers(const bp_peft_choice *choice, const char *module, size_t length)
{
    uint32_t layer = UINT32_MAX;
    size_t before = 0, before_length = 0;
    for (size_t at = 0, part = 0; at < length; part++) {
        const size_t end = part_end(module, length, at);
        uint32_t number;
        if (part >= 2 && end < length && is_digits(module + at, end - at, &number) &&
            is_layer_name(&choice->layer_names, module + before, before_length)) {
            layer = number;
        }
        before = at;
        before_length = end - at;
        at = end + 1;
    }
    bool in = false;
    for (uint32_t i = 0; i < choice->layer_count; i++) {
        in = in || choice->layers[i] == layer;
    }
    return in;
}

static double pattern_value(const bp_peft_patterns *patterns, const char *module, size_t length,
                            double otherwise)
{
    bp_regex regex;
    for (uint32_t i = 0; i < patterns->count; i++) {
        if (key_regex(patterns->key[i], &regex) == NULL &&
            bp_regex_matches(&regex, module, length)) {
            return patterns->value[i];
        }
    }
    return otherwise;
}

/* Weights of experts may stand beside it. */
static bool is_all(const bp_peft_list *targets)
{
    bool all = targets->count > 0 && !targets->expression;
    bool said = false;
    for (uint32_t i = 0; i < targets->count && all; i++) {
        const bool linear = strcmp(targets->item[i], "all-linear") == 0;
        said = said || linear;
        all = linear || bp_adapter_names_experts(targets->item[i], NULL);
    }
    return all && said;
}

/* PEFT asks for the layer of a module by a name's end only, not by all of a name. Layers go with
 * names, not with an expression (bp_peft_choice_use). */
static bool is_whole_name(const bp_peft_list *list, const char *module, size_t length)
{
    bool is = false;
    for (uint32_t i = 0; i < list->count; i++) {
        is = is || (strlen(list->item[i]) == length && memcmp(list->item[i], module, length) == 0);
    }
    return is;
}

static bp_lora_part choose_by(const bp_lora *lora, const char *module, size_t length)
{
    const bp_peft_choice *choice = lora->context;
    /* PEFT's target_parameters heed patterns, but neither layers nor what is excluded. */
    const bool experts = bp_adapter_names_experts(module, NULL);
    const bool targeted = is_all(&choice->targets) || list_has(&choice->targets, module, length);
    const bool other_layer = choice->layer_count > 0 &&
                             !is_whole_name(&choice->targets, module, length) &&
                             !in_layers(choice, module, length);
    if (!experts && (!targeted || other_layer || list_has(&choice->excluded, module, length))) {
        return (bp_lora_part){0, 0.0};
    }
    return (bp_lora_part){
        (uint32_t)pattern_value(&choice->ranks, module, length, (double)lora->rank),
        pattern_value(&choice->alphas, module, length, lora->alpha)};
}

/* By the newer of a module's names, or else by the older. */
static bp_lora_part peft_choose(const bp_lora *lora, const char *module, size_t length)
{
    char newer[BP_TENSOR_NAME_MAX];
    const size_t renamed = bp_peft_newer_module(module, length, newer);
    const bp_lora_part part =
        renamed > 0 ? choose_by(lora, newer, renamed) : (bp_lora_part){0, 0.0};
    return part.rank > 0 ? part : choose_by(lora, module, length);
}

void bp_peft_choice_rename(const bp_peft_choice *choice, const bp_model_config *config,
                           bp_lora *lora)
{
    if (config->family != NULL && config->family->model == &bp_model_vit) {
        lora->choose = peft_choose;
        lora->context = choice;
    }
}

bool bp_peft_is_older(const bp_builder *builder)
{
    const bp_lora *lora = &builder->spec->lora;
    const bp_peft_choice *choice = bp_peft_choice_of(lora);
    char newer[BP_TENSOR_NAME_MAX];
    for (uint32_t i = 0; choice != NULL && i < builder->parameter_count; i++) {
        const char *module = bp_build_name(builder, i);
        const size_t length = bp_adapter_module_length(module);
        const size_t renamed = builder->parameters[i].adapter == BP_NO_PARAMETER
                                   ? 0
                                   : bp_peft_newer_module(module, length, newer);
        if (renamed > 0) {
            return choose_by(lora, newer, renamed).rank == 0;
        }
    }
    return false;
}

const char *bp_peft_choice_use(const bp_peft_choice *choice, bp_lora *lora)
{
    lora->targets = choice->targets.item;
    lora->target_count = choice->targets.count;
    lora->tokens = choice->tokens;
    lora->token_count = choice->token_count;
    const bool plain = !choice->targets.expression && choice->excluded.count == 0 &&
                       choice->layer_count == 0 && choice->ranks.count == 0 &&
                       choice->alphas.count == 0;
    lora->choose = plain ? NULL : peft_choose;
    lora->context = plain ? NULL : choice;
    if (choice->layer_count > 0 && choice->targets.expression) {
        return "layers_to_transform needs names in target_modules, not an expression, "
               "which selects layers itself";
    }
    if (choice->layer_names.count > 0 && choice->layer_count == 0) {
        return "layers_pattern needs layers_to_transform";
    }
    return NULL;
}

const bp_peft_choice *bp_peft_choice_of(const bp_lora *lora)
{
    return lora->choose == peft_choose ? lora->context : NULL;
}
