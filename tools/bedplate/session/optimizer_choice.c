/* SPDX-License-Identifier: MIT */
/* Optimizers by name, and --optim-args. */
#include "tools/bedplate/session/optimizer_choice.h"

#include <stdio.h>
#include <string.h>

#include "core/base/number.h"
#include "optim/rule.h"
#include "optim/rules.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"

/* What Hugging Face's TrainingArguments call the same rules. */
static const struct {
    const char *other;
    const bp_optimizer *optimizer;
} aliases[] = {
    {"adamw_torch", &bp_optimizer_adamw},
    {"adamw_torch_fused", &bp_optimizer_adamw},
    {"adamw_hf", &bp_optimizer_adamw},
    {"adamw_bnb_8bit", &bp_optimizer_adamw_8bit},
    {"adamw_torch_8bit", &bp_optimizer_adamw_8bit},
    {"adamw_torch_4bit", &bp_optimizer_adamw_4bit},
    {"lion_32bit", &bp_optimizer_lion},
    {"rmsprop_bnb", &bp_optimizer_rmsprop},
    {"rmsprop_bnb_32bit", &bp_optimizer_rmsprop},
    {"rmsprop_bnb_8bit", &bp_optimizer_rmsprop_8bit},
};

static bool optimizer_choice_same_name(const char *known, const char *name)
{
    return option_same_word(name, known, strlen(known));
}

const bp_optimizer *optimizer_find(const char *name)
{
    const bp_optimizer *optimizer;
    for (uint32_t i = 0; (optimizer = bp_rule_optimizer(i)) != NULL; i++) {
        if (optimizer_choice_same_name(optimizer->name, name)) {
            return optimizer;
        }
    }
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (optimizer_choice_same_name(aliases[i].other, name)) {
            return aliases[i].optimizer;
        }
    }
    return NULL;
}

static const bp_rule_argument *argument_of(const bp_optimizer *optimizer, const char *name,
                                           size_t length)
{
    const bp_rule *rule = optimizer->rule;
    for (uint32_t i = 0; i < rule->argument_count; i++) {
        const bp_rule_argument *argument = &rule->arguments[i];
        if (strlen(argument->name) == length && memcmp(argument->name, name, length) == 0) {
            return argument;
        }
    }
    return NULL;
}

static void optimizer_choice_resolve(const bp_optimizer *optimizer, const settings *set,
                                     const char *name, double own, double *value)
{
    if (argument_of(optimizer, name, strlen(name)) != NULL && !option_given(set, name)) {
        *value = own;
    }
}

bp_status optimizer_resolve(settings *set)
{
    const bp_optimizer *optimizer = optimizer_find(set->optimizer);
    if (optimizer == NULL) {
        static const char *const names[] = {
#define OPTIMIZER(kind, rule, optimizer, codec, defaults) #optimizer,
#include "core/ops/rules.def"
        };
        options_unknown("--optim", "value", set->optimizer, names, sizeof names / sizeof names[0]);
        return BP_ERR_USAGE;
    }
    set->optimizer = optimizer->name; /* as a record has it, whatever its capitals were */
    optimizer_choice_resolve(optimizer, set, "adam-beta1", optimizer->defaults->beta1, &set->beta1);
    optimizer_choice_resolve(optimizer, set, "adam-beta2", optimizer->defaults->beta2, &set->beta2);
    optimizer_choice_resolve(optimizer, set, "adam-epsilon", optimizer->defaults->epsilon,
                             &set->epsilon);
    return BP_OK;
}

static bp_status optimizer_choice_wrong(const char *text, const char *found, size_t length,
                                        const bp_optimizer *optimizer)
{
    const bp_rule *rule = optimizer->rule;
    output_print(stderr, "bedplate: --optim-args: %s: found \"%.*s\", expected KEY=VALUE,.. ", text,
                 (int)length, found);
    const char *before = "of ";
    for (uint32_t i = 0; i < rule->argument_count; i++) {
        if (!rule->arguments[i].option) {
            output_print(stderr, "%s%s", before, rule->arguments[i].name);
            before = ", ";
        }
    }
    output_print(stderr, "%s %s\n", before[0] == 'o' ? "of other rules, none for" : " for",
                 optimizer->name);
    return BP_ERR_USAGE;
}

static bool read_flag(const char *text, size_t length, bool *value)
{
    *value = (length == 4 && memcmp(text, "true", 4) == 0) || (length == 1 && *text == '1');
    return *value || (length == 5 && memcmp(text, "false", 5) == 0) ||
           (length == 1 && *text == '0');
}

/* A key that has an option: transformers' adam_beta1 as much as torch's eps. */
static bool optimizer_choice_elsewhere(const char *text, size_t length, size_t key)
{
    char name[32];
    const option *which = NULL;
    if (key < sizeof name) {
        memcpy(name, text, key);
        name[key] = '\0';
        which = options_meaning(name, COMMAND_TRAIN);
    }
    const bool betas = key == 5 && memcmp(text, "betas", key) == 0;
    if (!betas && which == NULL) {
        return false;
    }
    output_print(stderr,
                 "bedplate: --optim-args: the key has an option of its own: found \"%.*s\", "
                 "expected --%s\n",
                 (int)length, text, betas ? "adam-beta1 and --adam-beta2" : which->name);
    return true;
}

/* One KEY=VALUE of `length` bytes. */
static bp_status take_argument(const char *text, size_t length, const bp_optimizer *optimizer,
                               bp_optimizer_options *options)
{
    const char *equals = memchr(text, '=', length);
    if (equals == NULL) {
        return optimizer_choice_wrong("a key without a value", text, length, optimizer);
    }
    const bp_rule_argument *argument = argument_of(optimizer, text, (size_t)(equals - text));
    if ((argument == NULL || argument->option) &&
        optimizer_choice_elsewhere(text, length, (size_t)(equals - text))) {
        return BP_ERR_USAGE;
    }
    if (argument == NULL || argument->option) {
        return optimizer_choice_wrong("not a key of this rule", text, length, optimizer);
    }
    const char *value = equals + 1;
    size_t size = length - (size_t)(value - text);
    char *to = (char *)options + argument->offset;
    bp_number number;
    if (argument->range == BP_RULE_FLAG) {
        bool flag;
        if (!read_flag(value, size, &flag)) {
            return optimizer_choice_wrong("neither true nor false", text, length, optimizer);
        }
        memcpy(to, &flag, sizeof flag);
        return BP_OK;
    }
    if (bp_number_parse(value, size, &number) != BP_OK) {
        return optimizer_choice_wrong("not a number", text, length, optimizer);
    }
    memcpy(to, &number.real, sizeof number.real);
    return BP_OK;
}

bp_status optimizer_fill(const settings *set, bp_spec *spec)
{
    const bp_optimizer *optimizer = optimizer_find(set->optimizer);
    bp_optimizer_options *options = &spec->optimizer_options;
    if (optimizer == NULL) {
        return BP_ERR_USAGE; /* optimizer_resolve lets none through */
    }
    spec->optimizer = optimizer;
    *options = *optimizer->defaults;
    options->learning_rate = set->learning_rate;
    options->beta1 = set->beta1;
    options->beta2 = set->beta2;
    options->epsilon = set->epsilon;
    options->weight_decay = set->weight_decay;
    options->decay_all = set->decay_all;
    options->max_grad_norm = set->max_grad_norm;
    options->percentile = (uint32_t)set->percentile;
    const char *at = set->optim_args != NULL ? set->optim_args : "";
    while (*at != '\0') {
        size_t length = strcspn(at, ",");
        BP_TRY(take_argument(at, length, optimizer, options));
        at += length;
        at += *at == ',' ? 1 : 0;
    }
    return BP_OK;
}
