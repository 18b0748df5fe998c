/* SPDX-License-Identifier: MIT */
/* Names in PEFT's files. */
#include "tools/formats/peft/peft_names.h"

#include <string.h>

#include "core/plan/adapter.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/tensor_match.h"
#include "tools/formats/peft/peft_choice.h"

#define PEFT_PREFIX "base_model.model."
#define OLDER       "vit.encoder.layer.#."
#define NEWER       "vit.layers.#."

/* Of a module that has another name: tensors of an adapter, of what is trained beside it, and the
 * bias of one that has an adapter. */
#define RENAMED(older, newer)                                                                      \
    {PEFT_PREFIX OLDER older ".*", PEFT_PREFIX NEWER newer ".*", BP_LAYOUT_PLAIN},                 \
        {OLDER older ".*", PEFT_PREFIX NEWER newer ".*", BP_LAYOUT_PLAIN},                         \
    {                                                                                              \
        OLDER older ".bias", PEFT_PREFIX NEWER newer ".base_layer.bias", BP_LAYOUT_PLAIN           \
    }

#define SAME_RULES 6
static const bp_tensor_rule peft_rules[] = {
    {PEFT_PREFIX "*.experts.lora_B.weight", PEFT_PREFIX "*.experts.lora_B.weight",
     BP_LAYOUT_EXPERTS},
    {PEFT_PREFIX "*.experts.base_layer.lora_B.weight",
     PEFT_PREFIX "*.experts.base_layer.lora_B.weight", BP_LAYOUT_EXPERTS},
    {PEFT_PREFIX "*.lora_embedding_A", PEFT_PREFIX "*.lora_embedding_A", BP_LAYOUT_TRANSPOSED},
    {PEFT_PREFIX "*", PEFT_PREFIX "*", BP_LAYOUT_PLAIN},
    {"*", PEFT_PREFIX "*", BP_LAYOUT_PLAIN},
    {"*.bias", PEFT_PREFIX "*.base_layer.bias", BP_LAYOUT_PLAIN},
    RENAMED("attention.attention.query", "attention.q_proj"),
    RENAMED("attention.attention.key", "attention.k_proj"),
    RENAMED("attention.attention.value", "attention.v_proj"),
    RENAMED("attention.output.dense", "attention.o_proj"),
    RENAMED("intermediate.dense", "mlp.fc1"),
    RENAMED("output.dense", "mlp.fc2"),
    {OLDER "*", PEFT_PREFIX NEWER "*", BP_LAYOUT_PLAIN}};
#define PEFT_RULES (sizeof peft_rules / sizeof peft_rules[0])

/* With trained biases PEFT writes those of a module that is saved whole three times over. */
static const char *const peft_spare[] = {"*.modules_to_save.bias", "*.original_module.bias",
                                         "*.base_layer.weight"}; /* of a table: the base's own */

const bp_tensor_naming bp_peft_naming = {
    .rules = peft_rules, .rule_count = PEFT_RULES, .ignored = peft_spare, .ignored_count = 3};
static const bp_tensor_naming peft_wrapped = {.rules = peft_rules + SAME_RULES - 1,
                                              .rule_count = 1};

bool bp_peft_newer(const char *older, char newer[BP_TENSOR_NAME_MAX])
{
    for (size_t i = SAME_RULES; i < PEFT_RULES; i++) {
        const char *from = peft_rules[i].ours;
        if (from[0] == PEFT_PREFIX[0] &&
            bp_name_rewrite(from, peft_rules[i].theirs, older, newer, BP_TENSOR_NAME_MAX)) {
            return true;
        }
    }
    return bp_name_rewrite(PEFT_PREFIX OLDER "*", PEFT_PREFIX NEWER "*", older, newer,
                           BP_TENSOR_NAME_MAX);
}

size_t bp_peft_newer_module(const char *older, size_t length, char newer[BP_TENSOR_NAME_MAX])
{
    const size_t prefix = sizeof PEFT_PREFIX - 1;
    char name[BP_TENSOR_NAME_MAX];
    if (prefix + length + 2 > sizeof name) {
        return 0;
    }
    memcpy(name, PEFT_PREFIX, prefix);
    memcpy(name + prefix, older, length);
    memcpy(name + prefix + length, ".", 2);
    if (!bp_peft_newer(name, newer)) {
        return 0;
    }
    const size_t found = strlen(newer) - prefix - 1;
    memmove(newer, newer + prefix, found);
    newer[found] = '\0';
    return found;
}

const char *bp_peft_stem(const bp_tensor_naming *family, size_t *length)
{
    *length = 0;
    for (size_t i = 0; i < family->rule_count; i++) {
        const bp_tensor_rule *rule = &family->rules[i];
        const size_t whole = strlen(rule->ours);
        if (strcmp(rule->theirs, "*") == 0 && whole > 2 && rule->ours[whole - 1] == '*') {
            *length = whole - 1;
            return rule->ours;
        }
    }
    return "";
}

/* The bytes of a name up to the number of its layer; 0: there is none. */
static size_t peft_layer(const char *name)
{
    const char *dot = strchr(name, '.');
    while (dot != NULL && (dot[1] < '0' || dot[1] > '9')) {
        dot = strchr(dot + 1, '.');
    }
    return dot != NULL ? (size_t)(dot - name) + 1 : 0;
}

bool bp_peft_in_layer(const char *name)
{
    return peft_layer(name) > 0;
}

static bp_status peft_set_stem(const bp_tensor_set *set, bp_tensor_entry *entry, const char *stem,
                               size_t length, bp_staging *room)
{
    const size_t prefix = sizeof PEFT_PREFIX - 1, bytes = strlen(entry->name) + 1;
    char *name = bp_room_take(room, bytes + length);
    if (name == NULL || bytes + length > BP_TENSOR_NAME_MAX) {
        return bp_error_set(set->error, BP_ERR_FIT, "peft", "there is no room for a tensor's name",
                            entry->name);
    }
    memcpy(name, entry->name, prefix);
    memcpy(name + prefix, stem, length);
    memcpy(name + prefix + length, entry->name + prefix, bytes - prefix);
    entry->name = name;
    return BP_OK;
}

bp_status bp_peft_complete(bp_tensor_set *set, const bp_tensor_naming *family, const char *layer,
                           bp_staging *room)
{
    const size_t prefix = sizeof PEFT_PREFIX - 1;
    size_t length;
    const char *stem = bp_peft_stem(family, &length);
    const size_t end = layer != NULL ? peft_layer(layer) : 0;
    bool bare = false;
    if (length == 0 || end <= length || strncmp(layer, stem, length) != 0) {
        return BP_OK;
    }
    for (uint32_t p = 0; p < set->part_count; p++) {
        for (size_t i = 0; i < set->parts[p].entry_count; i++) {
            const char *name = set->parts[p].entries[i].name;
            if (strncmp(name, PEFT_PREFIX, prefix) != 0 ||
                strncmp(name + prefix, stem, length) == 0) {
                return BP_OK;
            }
            bare = bare || strncmp(name + prefix, layer + length, end - length) == 0;
        }
    }
    /* All get it behind the same beginning, so that they stay sorted. */
    for (uint32_t p = 0; bare && p < set->part_count; p++) {
        for (size_t i = 0; i < set->parts[p].entry_count; i++) {
            BP_TRY(peft_set_stem(set, &set->parts[p].entries[i], stem, length, room));
        }
    }
    return BP_OK;
}

/* A model of vectors is wrapped without a head around it. */
static void peft_leave_stem(const bp_spec *spec, char theirs[BP_TENSOR_NAME_MAX])
{
    const bp_family *family = bp_family_adopt(spec).family;
    char *rest = theirs + sizeof PEFT_PREFIX - 1;
    size_t length = 0;
    if (family == NULL || spec->config.task != BP_TASK_EMBEDDING) {
        return;
    }
    const char *stem = bp_peft_stem(&family->naming, &length);
    if (length > 0 && strncmp(rest, stem, length) == 0) {
        memmove(rest, rest + length, strlen(rest + length) + 1);
    }
}

bool bp_peft_name(const bp_builder *builder, const char *ours, char theirs[BP_TENSOR_NAME_MAX])
{
    const bool wrapped =
        bp_adapter_trains_bias(builder, ours) && bp_adapter_wraps_bias(builder, ours);
    char older[BP_TENSOR_NAME_MAX];
    if (bp_tensor_name(wrapped ? &peft_wrapped : &bp_peft_naming, ours, older) == NULL) {
        return false;
    }
    if (bp_peft_is_older(builder) || !bp_peft_newer(older, theirs)) {
        memcpy(theirs, older, strlen(older) + 1);
    }
    peft_leave_stem(builder->spec, theirs);
    return true;
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

bp_status bp_peft_get_transposed(bp_runtime *runtime, uint32_t number, uint64_t first,
                                 float *values, size_t count)
{
    const bp_parameter *p = &runtime->plan->builder.parameters[number];
    const uint64_t rows = p->shape[0], rank = p->count / rows;
    const uint64_t most = rank < 1024 ? 1024 / rank : 1;
    float read[1024];
    for (size_t done = 0; done < count;) {
        const uint64_t k = (first + done) / rows, row = (first + done) % rows;
        uint64_t some = rows - row < count - done ? rows - row : count - done;
        some = some < most ? some : most;
        const bool one = rank >= 1024; /* then only the element itself */
        BP_TRY(bp_runtime_get_trained(runtime, number, row * rank + (one ? k : 0), read,
                                      one ? 1 : some * rank));
        for (uint64_t i = 0; i < some; i++) {
            values[done++] = read[one ? 0 : i * rank + k];
        }
    }
    return BP_OK;
}
