/* SPDX-License-Identifier: MIT */
/* The choice of MCUNetV3 (Lin et al., arXiv 2206.15472) among tensors, or rows of them, with the
 * bytes of plans in the place of a model of them. */
#include "tools/bedplate/planning/sparse_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/number.h"
#include "layers/nodes/publish.h"
#include "tools/bedplate/planning/sparse_measured.h"
#include "tools/bedplate/session/dry_run.h"

static const char option_name[] = "--sparse-update-bytes";

typedef struct candidate {
    char name[BP_NAME_BYTES];
    double contribution;
    double order; /* it is tried before those of less: the contribution, a measured one by size */
    double *measured; /* of each row; NULL: not measured */
    uint64_t rows;    /* of the first dimension */
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
        *c = (candidate){.parameters = parameter->count, .place = i, .rows = parameter->shape[0]};
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

/* Of a checkpoint: the second moments of all candidates. */
static bp_status measure_contributions(session *s, const sparse_choice *out)
{
    sparse_measured from;
    bp_status status = sparse_measured_open(&from, s->store, s->set->contributions, &s->error);
    for (uint32_t i = 0; i < out->candidates && status == BP_OK; i++) {
        candidate *c = &found[i];
        c->measured = malloc((size_t)c->rows * sizeof(double));
        if (c->measured == NULL) {
            status = bp_error_set(&s->error, BP_ERR_FIT, "contributions", "the memory is not there",
                                  c->name);
            break;
        }
        status = sparse_measured_rows(&from, c->name, c->rows, c->parameters / c->rows, c->measured,
                                      &s->error);
        c->contribution = 0.0;
        for (uint64_t row = 0; row < c->rows && status == BP_OK; row++) {
            c->contribution += c->measured[row];
        }
    }
    sparse_measured_close(&from);
    return status;
}

static bool names_folder(const char *path)
{
    struct stat about;
    return path != NULL && stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* What the file leaves out contributes nothing, and is not tried. */
static bp_status read_contributions(session *s, sparse_choice *out)
{
    if (names_folder(s->set->contributions)) {
        return measure_contributions(s, out);
    }
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
    if (x->order != y->order) {
        return x->order > y->order ? -1 : 1;
    }
    return x->place > y->place ? -1 : x->place < y->place;
}

/* Tries `count` rows of a tensor from `first` on, beside what was taken; 0: the whole of it. */
static bp_status sparse_try_rows(session *s, sparse_choice *out, const candidate *c, uint64_t first,
                                 uint64_t count, bool *taken)
{
    bp_spec spec = s->spec;
    uint64_t arena = 0;
    rules[out->rules + 1] = (bp_parameter_rule){
        .glob = c->name, .kind = BP_RULE_TRAIN, .row_first = first, .row_count = count};
    spec.rules = rules;
    spec.rule_count = out->rules + 2;
    BP_TRY(dry_run_arena(&spec, out->budget, &arena, &s->error));
    if (out->chosen == 0 && arena < out->least) {
        out->least = arena;
    }
    *taken = arena <= out->budget;
    if (*taken) {
        const double all = (double)c->rows, some = count > 0 ? (double)count : all;
        double share = c->measured == NULL ? c->contribution * some / all : 0.0;
        for (uint64_t i = 0; c->measured != NULL && i < (uint64_t)some; i++) {
            share += c->measured[first + i];
        }
        out->rules++;
        out->chosen++;
        out->arena_bytes = arena;
        out->parameters += c->parameters / c->rows * (uint64_t)some;
        out->contribution += share;
    }
    return BP_OK;
}

/* Tries a tensor, and where it does not fit as a whole, and that is asked for, a half, a quarter
 * and an eighth of its rows: those that lie together and contribute most, without a measure the
 * first. A tensor whose rows are not trained by themselves is left out. */
static bp_status sparse_try(session *s, sparse_choice *out, const candidate *c)
{
    bool taken = false;
    BP_TRY(sparse_try_rows(s, out, c, 0, 0, &taken));
    for (uint64_t part = 2; part <= 8 && s->set->sparse_rows && !c->bias && !taken; part *= 2) {
        const uint64_t count = c->rows / part;
        const uint64_t first =
            c->measured != NULL ? sparse_measured_window(c->measured, c->rows, count) : 0;
        const bp_status status =
            count > 0 ? sparse_try_rows(s, out, c, first, count, &taken) : BP_OK;
        if (status == BP_ERR_USAGE) {
            return BP_OK;
        }
        BP_TRY(status);
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

static void forget_measured(const sparse_choice *out)
{
    for (uint32_t i = 0; i < out->candidates; i++) {
        free(found[i].measured);
        found[i].measured = NULL;
    }
}

/* A measured contribution counts by the parameters that it takes, as a knapsack is filled. */
static bp_status choose_within(session *s, sparse_choice *out)
{
    BP_TRY(find_candidates(s, out));
    BP_TRY(read_contributions(s, out));
    for (uint32_t i = 0; i < out->candidates; i++) {
        candidate *c = &found[i];
        c->order = c->measured != NULL ? c->contribution / (double)c->parameters : c->contribution;
    }
    qsort(found, out->candidates, sizeof found[0], by_contribution);
    out->rules = keep_overrides(&s->spec);
    /* overrides, then the rule that freezes, then those that train */
    rules[out->rules] = (bp_parameter_rule){.glob = "*", .kind = BP_RULE_FREEZE};
    for (uint32_t i = 0; i < out->candidates && found[i].contribution > 0.0; i++) {
        BP_TRY(sparse_try(s, out, &found[i]));
    }
    return BP_OK;
}

bp_status sparse_choose(sparse_choice *out, session *s)
{
    *out = (sparse_choice){
        .made = s->set->sparse_update > 0, .budget = s->set->sparse_update, .least = UINT64_MAX};
    if (!out->made) {
        const char *other = s->set->contributions != NULL ? "--contributions"
                            : s->set->sparse_rows         ? "--sparse-update-rows"
                                                          : NULL;
        return other == NULL ? BP_OK
                             : bp_error_set(&s->error, BP_ERR_USAGE, "plan",
                                            "the option needs --sparse-update-bytes", other);
    }
    BP_TRY(refuse_others(s));
    const bp_status status = choose_within(s, out);
    forget_measured(out);
    BP_TRY(status);
    if (out->chosen == 0 && out->least == UINT64_MAX) {
        return bp_error_set(&s->error, BP_ERR_USAGE, "plan", "no tensor has a contribution above 0",
                            "--contributions");
    }
    if (out->chosen == 0) {
        return bp_error_limit(&s->error, BP_ERR_FIT, "plan", "no tensor can be trained in this",
                              option_name, bp_size_signed(out->budget), BP_LIMIT_LEAST,
                              bp_size_signed(out->least));
    }
    s->spec.rules = rules;
    s->spec.rule_count = out->rules + 1;
    return BP_OK;
}

static void sparse_put_rows(bp_text *text, const bp_parameter_rule *rule)
{
    if (rule->row_count > 0) {
        bp_text_char(text, ':');
        bp_text_u64(text, rule->row_first);
        bp_text_char(text, '-');
        bp_text_u64(text, rule->row_first + rule->row_count - 1);
    }
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
            sparse_put_rows(text, &s->spec.rules[i]);
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
            if (s->spec.rules[i].row_count > 0) {
                json_count(out, "first_row", s->spec.rules[i].row_first);
                json_count(out, "rows", s->spec.rules[i].row_count);
            }
            json_close(out);
        }
    }
    json_list_end(out);
    json_close(out);
}
