/* SPDX-License-Identifier: MIT */
/* Names in PEFT's files. */
#include "tools/formats/peft_names.h"

#include "core/compile/adapter.h"
#include "tools/formats/hf_names.h"

#define PEFT_PREFIX "base_model.model."

static const bp_tensor_rule peft_rules[] = {
    {PEFT_PREFIX "*", PEFT_PREFIX "*", BP_FORM_PLAIN},
    {"*", PEFT_PREFIX "*", BP_FORM_PLAIN},
    {"*.bias", PEFT_PREFIX "*.base_layer.bias", BP_FORM_PLAIN}};

/* With trained biases PEFT writes those of a module that is saved whole three times over. */
static const char *const peft_spare[] = {"*.modules_to_save.bias", "*.original_module.bias"};

const bp_tensor_naming bp_peft_naming = {
    .rules = peft_rules, .rule_count = 3, .ignored = peft_spare, .ignored_count = 2};
static const bp_tensor_naming peft_wrapped = {.rules = peft_rules + 2, .rule_count = 1};

bool bp_peft_name(const bp_emit *emit, const char *ours, char theirs[BP_TENSOR_NAME_MAX])
{
    const bool wrapped = bp_adapter_trains_bias(emit, ours) && bp_adapter_wraps_bias(emit, ours);
    return bp_tensor_name(wrapped ? &peft_wrapped : &bp_peft_naming, ours, theirs) != NULL;
}

bool bp_peft_has(const bp_tensor_set *set, const char *ours, char theirs[BP_TENSOR_NAME_MAX])
{
    uint32_t part = 0;
    for (size_t i = 0; i < bp_peft_naming.rule_count; i++) {
        const bp_tensor_rule *rule = &peft_rules[i];
        if (bp_name_rewrite(rule->ours, rule->theirs, ours, theirs, BP_TENSOR_NAME_MAX) &&
            bp_tensor_set_find(set, theirs, &part) != NULL) {
            return true;
        }
    }
    return false;
}
