/* SPDX-License-Identifier: MIT */
/* Reading and writing checkpoint policies. */
#include "tools/bedplate/session/policy.h"

#include <string.h>

#include "core/plan/schedule.h"

/* Names of what a stage can compute again. Models have one of gelu and swiglu. */
static const struct {
    const char *name;
    uint32_t bit;
} parts[] = {
    {"norm", BP_RECOMPUTE_NORM},
    {"gelu", BP_RECOMPUTE_ACTIVATION},
    {"attention", BP_RECOMPUTE_ATTENTION},
    {"swiglu", BP_RECOMPUTE_ACTIVATION},
};
#define PARTS       (sizeof parts / sizeof parts[0])
#define PARTS_SHOWN 3 /* swiglu is read as gelu */

static bool same_word(const char *word, const char *text, size_t length)
{
    if (strlen(word) != length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char c = text[i] == '_' ? '-' : text[i];
        if (c != word[i]) {
            return false;
        }
    }
    return true;
}

/* A number of at most 9 digits that ends at `end` or at a comma; NULL if there is none. */
static const char *read_number(const char *text, uint32_t *number)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9) {
        return NULL;
    }
    *number = 0;
    for (size_t i = 0; i < digits; i++) {
        *number = *number * 10 + (uint32_t)(text[i] - '0');
    }
    text += digits;
    return *text == '\0' || *text == ',' ? text : NULL;
}

static const char *read_every(const char *text, policy_text *out)
{
    uint32_t every = 0;
    const char *end = read_number(text, &every);
    if (end == NULL || *end != '\0' || every == 0) {
        return "every:K with K of at least 1";
    }
    out->policy = (bp_policy){.kind = BP_POLICY_EVERY, .every = every};
    return NULL;
}

static const char *read_list(const char *text, policy_text *out)
{
    uint32_t count = 0;
    while (count < POLICY_LIST_MAX) {
        text = read_number(text, &out->list[count]);
        if (text == NULL) {
            break;
        }
        count++;
        if (*text == '\0') {
            out->policy =
                (bp_policy){.kind = BP_POLICY_LIST, .list = out->list, .list_count = count};
            return NULL;
        }
        text++;
    }
    return "list: and numbers of stages, such as list:3,6,9";
}

static const char *read_selective(const char *text, policy_text *out)
{
    uint32_t bits = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        size_t i = 0;
        while (i < PARTS && !same_word(parts[i].name, text, length)) {
            i++;
        }
        if (i == PARTS) {
            return "selective: and some of norm, gelu, swiglu, attention, such as "
                   "selective:norm,gelu";
        }
        bits |= parts[i].bit;
        text += length;
        if (*text == '\0') {
            break;
        }
        text++;
    }
    out->policy = (bp_policy){.kind = BP_POLICY_SELECTIVE, .recompute = bits};
    return NULL;
}

const char *policy_read(const char *text, policy_text *out)
{
    static const bp_policy_kind plain[] = {BP_POLICY_NONE, BP_POLICY_FULL, BP_POLICY_MEMORY_POOR,
                                           BP_POLICY_SQRT};
    size_t length = strlen(text);
    out->automatic = same_word("auto", text, length);
    out->policy = (bp_policy){.kind = BP_POLICY_NONE};
    if (out->automatic) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (same_word(bp_policy_name(plain[i]), text, length)) {
            out->policy.kind = plain[i];
            return NULL;
        }
    }
    if (strncmp(text, "every:", 6) == 0) {
        return read_every(text + 6, out);
    }
    if (strncmp(text, "list:", 5) == 0) {
        return read_list(text + 5, out);
    }
    if (strncmp(text, "selective:", 10) == 0) {
        return read_selective(text + 10, out);
    }
    return POLICY_WORDS;
}

void policy_put_recompute(bp_text *text, uint32_t bits, const char *separator)
{
    const char *before = "";
    for (size_t i = 0; i < PARTS_SHOWN; i++) {
        if ((bits & parts[i].bit) != 0) {
            bp_text_string(text, before);
            bp_text_string(text, parts[i].name);
            before = separator;
        }
    }
}

void policy_put(bp_text *text, const bp_policy *policy)
{
    bp_text_string(text, bp_policy_name(policy->kind));
    if (policy->kind == BP_POLICY_EVERY) {
        bp_text_char(text, ':');
        bp_text_u64(text, policy->every);
    } else if (policy->kind == BP_POLICY_SELECTIVE) {
        bp_text_char(text, ':');
        policy_put_recompute(text, policy->recompute, ",");
    } else if (policy->kind == BP_POLICY_LIST) {
        for (uint32_t i = 0; i < policy->list_count; i++) {
            bp_text_char(text, i == 0 ? ':' : ',');
            bp_text_u64(text, policy->list[i]);
        }
    }
}
