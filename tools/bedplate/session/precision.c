/* SPDX-License-Identifier: MIT */
/* Precision options, and rules for parameters by name. */
#include "tools/bedplate/session/precision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/planning/release_text.h"
#include "tools/bedplate/app/output.h"

static bp_status precision_wrong(const char *name, const char *text, const char *found,
                                 const char *right)
{
    output_print(stderr, "bedplate: --%s: %s: found \"%s\", expected %s\n", name, text, found,
                 right);
    return BP_ERR_USAGE;
}

static bp_status fill_types(const settings *set, bp_spec *spec)
{
    if (set->bf16 && set->fp16) {
        return precision_wrong("bf16", "there is one working type", "--bf16 --fp16", "one of them");
    }
    if ((set->bf16 || set->fp16) && set->fp32 && option_given(set, "fp32")) {
        return precision_wrong("fp32", "there is one working type", set->bf16 ? "--bf16" : "--fp16",
                               "one of them");
    }
    spec->working = set->bf16 ? BP_BF16 : set->fp16 ? BP_F16 : BP_F32;
    return BP_OK;
}

static bp_status fill_master(const settings *set, bp_spec *spec)
{
    static const struct {
        const char *name;
        bp_master form;
    } forms[] = {{"fp32", BP_MASTER_FP32},
                 {"split", BP_MASTER_SPLIT},
                 {"split8", BP_MASTER_SPLIT8},
                 {"none", BP_MASTER_STOCHASTIC}};
    const char *name = set->master;
    const bool fp8 = strcmp(set->weight_dtype, "fp8") == 0;
    spec->weights = fp8 ? BP_WEIGHT_FP8 : BP_WEIGHT_WORKING;
    if (fp8 && spec->working != BP_BF16) {
        return precision_wrong("weight-dtype", "weights in fp8 are read as bf16", "fp8",
                               "--bf16 with it, or no --weight-dtype");
    }
    if (spec->working == BP_F32) {
        bool itself = strcmp(name, "auto") == 0 || strcmp(name, "fp32") == 0;
        spec->master = BP_MASTER_WEIGHT;
        return itself ? BP_OK
                      : precision_wrong("master", "fp32 weights are their own master", name,
                                        "--bf16 with it, or no --master");
    }
    if (strcmp(name, "auto") == 0) {
        name = fp8 ? "split8" : spec->working == BP_BF16 ? "split" : "fp32";
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        spec->master = strcmp(name, forms[i].name) == 0 ? forms[i].form : spec->master;
    }
    if (spec->working == BP_F16 && spec->master != BP_MASTER_FP32) {
        return precision_wrong("master", "only bf16 weights can be completed or rounded that way",
                               name, "--master fp32 with --fp16, or --bf16");
    }
    return BP_OK;
}

static bp_status fill_gradient(const settings *set, bp_spec *spec)
{
    const char *name = set->gradient_dtype;
    if (strcmp(set->product_dtype, "fp8") != 0 && option_said(set, "product-fp8-from")) {
        return precision_wrong("product-fp8-from", "no products are in fp8", set->product_dtype,
                               "--product-dtype fp8 with it");
    }
    spec->tape = strcmp(set->tape_dtype, "fp8") == 0 ? BP_TAPE_FP8 : BP_TAPE_WORKING;
    spec->products = strcmp(set->product_dtype, "fp8") == 0 ? BP_PRODUCT_FP8 : BP_PRODUCT_WORKING;
    spec->products_from = (uint32_t)set->product_from;
    bool narrow = spec->master == BP_MASTER_SPLIT || spec->master == BP_MASTER_SPLIT8 ||
                  spec->master == BP_MASTER_STOCHASTIC;
    spec->gradient_int8 = strcmp(name, "int8") == 0;
    if (strcmp(name, "auto") == 0 || spec->gradient_int8) {
        spec->gradient = narrow ? BP_BF16 : BP_F32;
        return BP_OK;
    }
    spec->gradient = strcmp(name, "bf16") == 0 ? BP_BF16 : BP_F32;
    return BP_OK;
}

/* "dynamic", "none", or the scale itself. */
static bp_status fill_scaling(const settings *set, bp_spec *spec)
{
    const char *text = set->loss_scale;
    bool automatic = strcmp(text, "auto") == 0;
    bool none = strcmp(text, "none") == 0 || (automatic && spec->working != BP_F16);
    bool dynamic = strcmp(text, "dynamic") == 0 || (automatic && !none);
    spec->scaling = (bp_scaling){.kind = BP_SCALING_DYNAMIC,
                                 .initial = set->initial_scale,
                                 .growth = 2.0,
                                 .backoff = 0.5,
                                 .interval = (uint32_t)set->scale_window,
                                 .hysteresis = (uint32_t)set->scale_hysteresis,
                                 .floor = set->scale_floor};
    if (dynamic) {
        return BP_OK;
    }
    spec->scaling.kind = BP_SCALING_STATIC;
    if (none) {
        spec->scaling = (bp_scaling){.kind = BP_SCALING_OFF};
        return spec->working != BP_F16
                   ? BP_OK
                   : precision_wrong("loss-scale", "fp16 gradients underflow without loss scaling",
                                     text, "dynamic, a number, or --bf16");
    }
    char *end;
    spec->scaling.initial = strtod(text, &end);
    bool number = end != text && *end == '\0' && isfinite(spec->scaling.initial) &&
                  spec->scaling.initial > 0.0;
    return number ? BP_OK
                  : precision_wrong("loss-scale", "the value is no loss scale", text,
                                    "dynamic, none or a number such as 1024");
}

/* Room for one rule more; `text` is the one that there is none for. */
static bp_status rules_check_room(const precision_rules *rules, const char *text)
{
    return rules->count < PRECISION_RULES_MAX
               ? BP_OK
               : precision_wrong("param-override", "there are too many rules", text, "at most 256");
}

static bp_status add_rule(precision_rules *rules, const bp_parameter_rule *rule)
{
    BP_TRY(rules_check_room(rules, rule->glob));
    rules->rule[rules->count++] = *rule;
    return BP_OK;
}

static bool same(const char *name, const char *begin, size_t length)
{
    return strlen(name) == length && memcmp(name, begin, length) == 0;
}

/* One key=value of an override. */
static bool read_item(const char *item, size_t length, bp_parameter_rule *rule)
{
    const char *equals = memchr(item, '=', length);
    if (equals == NULL) {
        return false;
    }
    size_t name = (size_t)(equals - item);
    char *end;
    double value = strtod(equals + 1, &end);
    bool number = end == item + length && end != equals + 1 && isfinite(value) && value >= 0.0;
    if (same("lr", item, name) || same("learning_rate", item, name)) {
        rule->sets_rate = true;
        rule->learning_rate = value;
        return number;
    }
    if (same("weight_decay", item, name)) {
        rule->sets_decay = true;
        rule->weight_decay = value;
        return number;
    }
    if (same("optim_bits", item, name)) {
        rule->sets_bits = true;
        bool known = number && (value == 4.0 || value == 8.0 || value == 32.0);
        rule->optim_bits = known ? (uint32_t)value : 0;
        return known;
    }
    return false;
}

/* 'GLOB: lr=.., weight_decay=.., optim_bits=32' */
static bp_status read_override(const char *text, precision_rules *rules)
{
    static const char right[] = "'GLOB: lr=1e-4,weight_decay=0,optim_bits=32' (any of the three; "
                                "optim_bits 4, 8 or 32)";
    BP_TRY(rules_check_room(rules, text));
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (length == 0 || length >= sizeof rules->globs[0]) {
        return precision_wrong("param-override", "the value is not a pattern and what it sets",
                               text, right);
    }
    char *glob = rules->globs[rules->count];
    memcpy(glob, text, length);
    glob[length] = '\0';
    bp_parameter_rule rule = {.glob = glob, .kind = BP_RULE_OVERRIDE};
    for (const char *at = colon + 1; *at != '\0';) {
        at += strspn(at, " ,");
        size_t item = strcspn(at, " ,");
        if (item > 0 && !read_item(at, item, &rule)) {
            return precision_wrong("param-override", "a setting is not understood", at, right);
        }
        at += item;
    }
    if (!rule.sets_rate && !rule.sets_decay && !rule.sets_bits) {
        return precision_wrong("param-override", "the rule sets nothing", text, right);
    }
    return add_rule(rules, &rule);
}

/* LoRA+ (Hayou et al., arXiv 2402.12354), of B and, as PEFT does it, of magnitudes and biases:
 * before other rules, which may say otherwise. A model may have no biases. */
static bp_status add_loraplus(const settings *set, precision_rules *rules)
{
    bp_parameter_rule rule = {.glob = "*.lora_[Bm]*",
                              .kind = BP_RULE_OVERRIDE,
                              .may_match_none = true,
                              .sets_rate = true,
                              .learning_rate = set->loraplus_lr_ratio * set->learning_rate};
    if (set->loraplus_lr_ratio == 1.0) {
        return BP_OK;
    }
    BP_TRY(add_rule(rules, &rule));
    rule.glob = "*bias*";
    return add_rule(rules, &rule);
}

/* 'GLOB' or 'GLOB:FIRST-LAST' */
static bp_status read_trainable(const char *text, precision_rules *rules)
{
    static const char right[] = "'GLOB:FIRST-LAST', such as '*.weight:0-15'";
    bp_parameter_rule rule = {.glob = text, .kind = BP_RULE_TRAIN};
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return add_rule(rules, &rule);
    }
    BP_TRY(rules_check_room(rules, text));
    const size_t length = (size_t)(colon - text), digits = strspn(colon + 1, "0123456789");
    const char *second = colon + 1 + digits + (colon[1 + digits] == '-' ? 1 : 0);
    const size_t more = strspn(second, "0123456789");
    const bool read = digits > 0 && digits < 19 && more > 0 && more < 19 && second[more] == '\0' &&
                      second[-1] == '-' && length > 0 && length < sizeof rules->globs[0];
    const uint64_t first = read ? strtoull(colon + 1, NULL, 10) : 1;
    const uint64_t last = read ? strtoull(second, NULL, 10) : 0;
    if (last < first) {
        return precision_wrong("trainable", "the value is not a pattern and its rows", text, right);
    }
    char *glob = rules->globs[rules->count];
    memcpy(glob, text, length);
    glob[length] = '\0';
    rule.glob = glob;
    rule.row_first = first;
    rule.row_count = last - first + 1;
    return add_rule(rules, &rule);
}

static bp_status fill_rules(const settings *set, precision_rules *rules)
{
    rules->count = 0;
    BP_TRY(add_loraplus(set, rules));
    for (uint32_t i = 0; i < set->freeze.count; i++) {
        BP_TRY(add_rule(rules,
                        &(bp_parameter_rule){.glob = set->freeze.item[i], .kind = BP_RULE_FREEZE}));
    }
    for (uint32_t i = 0; i < set->trainable.count; i++) {
        BP_TRY(read_trainable(set->trainable.item[i], rules));
    }
    for (uint32_t i = 0; i < set->overrides.count; i++) {
        BP_TRY(read_override(set->overrides.item[i], rules));
    }
    return BP_OK;
}

bp_status precision_fill(const settings *set, precision_rules *rules, bp_spec *spec)
{
    BP_TRY(fill_types(set, spec));
    bool learns = set->command != COMMAND_EVAL && set->command != COMMAND_EMBED &&
                  set->command != COMMAND_GENERATE && set->command != COMMAND_DISTILL &&
                  set->command != COMMAND_ROLLOUT;
    if (!learns) {
        return BP_OK;
    }
    BP_TRY(fill_master(set, spec));
    BP_TRY(fill_gradient(set, spec));
    BP_TRY(fill_scaling(set, spec));
    BP_TRY(fill_rules(set, rules));
    spec->gradient_release = release_find(set);
    spec->rules = rules->rule;
    spec->rule_count = rules->count;
    return BP_OK;
}
