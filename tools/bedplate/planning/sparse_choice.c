/* SPDX-License-Identifier: MIT */
/* The choice of MCUNetV3 (Lin et al., arXiv 2206.15472) among whole tensors, with the bytes of
 * plans in the place of a model of them. */
#include "tools/bedplate/planning/sparse_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/number.h"
#include "layers/nodes/publish.h"
#include "tools/bedplate/session/dry_run.h"

static const char option_name[] = "--sparse-update-bytes";

typedef struct candidate {
    char name[BP_NAME_BYTES];
    double contribution;
    uint64_t parameters;
    uint32_t place; /* in the model */
    bool bias;
    bool given; /* by the file */
} candidate;

static candidate found[SPARSE_TENSORS_MAX];
static bp_parameter_rule rules[SPARSE_TENSORS_MAX + PRECISION_RULES_MAX + 1];

/* Overrides stay in any case; what freezes and trains has said which tensors are candidates. */
static uint32_t keep_overrides(const bp_spec *spec)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < spec->rule_count; i++) {
        if (spec->rules[i].kind == BP_RULE_OVERRIDE) {
            rules[count] = spec->rules[i];
            rules[count++].may_match_none = true;
        }
    }
    return count;
}

/* The tensors that the plan trains as it is. */
static bp_status find_candidates(session *s, sparse_choice *out)
{
    memory_block memory = {0};
    static bp_plan plan; /* large */
    BP_TRY(dry_run_take(&plan, &s->spec, 0, &memory, &s->error));
    bp_status status = bp_plan_make_counted(&plan, memory.address, memory.bytes);
    if (status != BP_OK) {
        s->error = plan.error;
    }
    for (uint32_t i = 0; i < plan.builder.parameter_count && status == BP_OK; i++) {
        const bp_parameter *parameter = &plan.builder.parameters[i];
        if (!parameter->trainable || parameter->statistic) {
            continue;
        }
        if (out->candidates == SPARSE_TENSORS_MAX) {
            status =
                bp_error_numbers(&s->error, BP_ERR_USAGE, "plan", "the model has too many tensors",
                                 option_name, plan.builder.parameter_count, SPARSE_TENSORS_MAX);
            break;
        }
        candidate *c = &found[out->candidates++];
        const char *name = bp_graph_name(plan.builder.graph, parameter->weight);
        *c = (candidate){.parameters = parameter->count, .place = i};
        bp_name_append(c->name, name);
        const size_t length = strlen(name);
        c->bias = length > 4 && strcmp(name + length - 4, "bias") == 0;
        c->contribution = c->bias ? 2.0 : 1.0;
    }
    memory_give_back(&memory);
    return status;
}

static bp_status contribution_wrong(session *s, unsigned line, const char *text, const char *at)
{
    char where[BP_STORE_PATH_MAX + 16];
    snprintf(where, sizeof where, "%s:%u", s->set->contributions, line);
    const bp_status status = bp_error_set(&s->error, BP_ERR_DATA, "contributions", text, where);
    bp_error_found(&s->error, at, strcspn(at, "\n"));
    return status;
}

/* "NAME NUMBER": the tensor's contribution. */
static bp_status contribution_read(session *s, sparse_choice *out, char *text, unsigned line)
{
    text += strspn(text, " \t");
    const size_t length = strcspn(text, " \t\r\n");
    char *second = text + length + strspn(text + length, " \t");
    const size_t digits = strcspn(second, " \t\r\n");
    bp_number number;
    if (length == 0 || text[0] == '#') {
        return BP_OK;
    }
    if (digits == 0 || bp_number_parse(second, digits, &number) != BP_OK || number.real < 0.0 ||
        second[digits + strspn(second + digits, " \t\r\n")] != '\0') {
        return contribution_wrong(s, line, "a line is a tensor's name and a number of at least 0",
                                  text);
    }
    for (uint32_t i = 0; i < out->candidates; i++) {
        candidate *c = &found[i];
        if (strlen(c->name) == length && memcmp(c->name, text, length) == 0) {
            if (c->given) {
                return contribution_wrong(s, line, "the tensor is there twice", text);
            }
            c->given = true;
            c->contribution = number.real;
            return BP_OK;
        }
    }
    return contribution_wrong(s, line, "the model trains no tensor of this name", text);
}

/* What the file leaves out contributes nothing, and is not tried. */
static bp_status read_contributions(session *s, sparse_choice *out)
{
    char text[BP_NAME_BYTES + 64];
    bp_status status = BP_OK;
    FILE *file = s->set->contributions != NULL ? fopen(s->set->contributions, "r") : NULL;
    if (s->set->contributions == NULL) {
        return BP_OK;
    }
    if (file == NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "contributions", "the file cannot be read",
                            s->set->contributions);
    }
    for (unsigned line = 1; status == BP_OK && fgets(text, sizeof text, file) != NULL; line++) {
        status = strlen(text) + 1 == sizeof text && strchr(text, '\n') == NULL
                     ? contribution_wrong(s, line, "the line is too long", text)
                     : contribution_read(s, out, text, line);
    }
    for (uint32_t i = 0; i < out->candidates; i++) {
        found[i].contribution = found[i].given ? found[i].contribution : 0.0;
    }
    if (status == BP_OK && ferror(file) != 0) {
        status = bp_error_set(&s->error, BP_ERR_USAGE, "contributions", "the file cannot be read",
                              s->set->contributions);
    }
    (void)fclose(file);
    return status;
}

static int by_contribution(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->contribution != y->contribution) {
        return x->contribution > y->contribution ? -1 : 1;
    }
    return x->place > y->place ? -1 : x->place < y->place;
}

/* Tries a tensor beside those that were taken. */
static bp_status sparse_try(session *s, sparse_choice *out, const candidate *c, uint64_t *least)
{
    bp_spec spec = s->spec;
    uint64_t arena = 0;
    rules[out->rules + 1] = (bp_parameter_rule){.glob = c->name, .kind = BP_RULE_TRAIN};
    spec.rules = rules;
    spec.rule_count = out->rules + 2;
    BP_TRY(dry_run_arena(&spec, out->budget, &arena, &s->error));
    if (out->chosen == 0 && arena < *least) {
        *least = arena;
    }
    if (arena <= out->budget) {
        out->rules++;
        out->chosen++;
        out->arena_bytes = arena;
        out->parameters += c->parameters;
        out->contribution += c->contribution;
    }
    return BP_OK;
}

static bp_status refuse_others(session *s)
{
    const settings *set = s->set;
    const char *other = set->arena > 0              ? "--arena"
                        : set->max_batch            ? "--max-batch"
                        : s->spec.lora.rank > 0     ? "--lora-r"
                        : s->spec.optimizer == NULL ? "a command that trains"
                                                    : NULL;
    return other == NULL ? BP_OK
                         : bp_error_set(&s->error, BP_ERR_USAGE, "plan",
                                        "the option chooses tensors for one plan without adapters: "
                                        "leave the other one out",
                                        other);
}

bp_status sparse_choose(sparse_choice *out, session *s)
{
    uint64_t least = UINT64_MAX;
    *out = (sparse_choice){.made = s->set->sparse_update > 0, .budget = s->set->sparse_update};
    if (!out->made) {
        return s->set->contributions == NULL
                   ? BP_OK
                   : bp_error_set(&s->error, BP_ERR_USAGE, "plan",
                                  "the option needs --sparse-update-bytes", "--contributions");
    }
    BP_TRY(refuse_others(s));
    BP_TRY(find_candidates(s, out));
    BP_TRY(read_contributions(s, out));
    qsort(found, out->candidates, sizeof found[0], by_contribution);
    out->rules = keep_overrides(&s->spec);
    /* overrides, then the rule that freezes, then those that train */
    rules[out->rules] = (bp_parameter_rule){.glob = "*", .kind = BP_RULE_FREEZE};
    for (uint32_t i = 0; i < out->candidates && found[i].contribution > 0.0; i++) {
        BP_TRY(sparse_try(s, out, &found[i], &least));
    }
    if (out->chosen == 0 && least == UINT64_MAX) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "plan", "no tensor has a contribution above 0",
                            "--contributions");
    }
    if (out->chosen == 0) {
        return bp_error_limit(&s->error, BP_ERR_FIT, "plan", "no tensor can be trained in this",
                              option_name, bp_size_signed(out->budget), BP_LIMIT_LEAST,
                              bp_size_signed(least));
    }
    s->spec.rules = rules;
    s->spec.rule_count = out->rules + 1;
    return BP_OK;
}

void sparse_put(bp_text *text, const session *s, const sparse_choice *choice)
{
    if (!choice->made) {
        return;
    }
    bp_text_string(text, "sparse      ");
    bp_text_u64(text, choice->chosen);
    bp_text_string(text, " of ");
    bp_text_u64(text, choice->candidates);
    bp_text_string(text, " tensors are trained, ");
    bp_text_grouped(text, choice->parameters);
    bp_text_string(text, " parameters, in ");
    bp_text_grouped(text, choice->arena_bytes);
    bp_text_string(text, " of ");
    bp_text_grouped(text, choice->budget);
    bp_text_string(text, " bytes; for train: --freeze '*'");
    for (uint32_t i = 0; i < s->spec.rule_count; i++) {
        if (s->spec.rules[i].kind == BP_RULE_TRAIN) {
            bp_text_string(text, " --trainable ");
            bp_text_string(text, s->spec.rules[i].glob);
        }
    }
    bp_text_char(text, '\n');
}

void sparse_json(output *out, const session *s, const sparse_choice *choice)
{
    if (!choice->made) {
        return;
    }
    json_open(out, "sparse_update");
    json_count(out, "budget_bytes", choice->budget);
    json_count(out, "arena_bytes", choice->arena_bytes);
    json_count(out, "parameters", choice->parameters);
    json_count(out, "candidates", choice->candidates);
    json_real(out, "contribution", choice->contribution, 9);
    json_list(out, "trainable");
    for (uint32_t i = 0; i < s->spec.rule_count; i++) {
        if (s->spec.rules[i].kind == BP_RULE_TRAIN) {
            json_item(out);
            json_text(out, "name", s->spec.rules[i].glob);
            json_close(out);
        }
    }
    json_list_end(out);
    json_close(out);
}
