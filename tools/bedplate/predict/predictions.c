/* SPDX-License-Identifier: MIT */
/* Predictions from kept logits. */
#include "tools/bedplate/predict/predictions.h"

#include <math.h>
#include <string.h>

#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/predict/predictions_answers.h"
#include "tools/bedplate/predict/predictions_vectors.h"
#include "tools/bedplate/predict/predictions_words.h"
#include "tools/bedplate/predict/predictions_data.h"
#include "tools/bedplate/predict/predictions_ranks.h"

/* A bp_evaluated; user is the record. */
static bp_status predictions_take(void *user, const bp_runtime *runtime);

static const char where[] = "predictions";

bp_task predictions_task(const bp_spec *spec)
{
    return spec->preference.kind != BP_PREFERENCE_NONE ? PREDICTIONS_PAIRS : spec->config.task;
}

static bool guesses_tokens(const bp_spec *spec)
{
    return spec->config.task < BP_TASK_CLASSES && spec->preference.kind == BP_PREFERENCE_NONE;
}

bp_evaluated predictions_watch(const bp_spec *spec)
{
    const bool tokens = guesses_tokens(spec) && spec->keep_logits;
    return tokens || predictions_are_made(spec) ? predictions_take : NULL;
}

bool predictions_are_made(const bp_spec *spec)
{
    return spec->config.task >= BP_TASK_CLASSES;
}

bp_status predictions_check(const bp_spec *spec, const char *path, bp_error *error)
{
    if (path != NULL && spec->config.task == BP_TASK_EMBEDDING) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "vectors are written by bedplate embed, and are no predictions",
                            "--predictions");
    }
    if (path == NULL || predictions_are_made(spec) || model_hears(&spec->config)) {
        return BP_OK;
    }
    return bp_error_set(error, BP_ERR_USAGE, where,
                        "a language model predicts no labels; the option goes with --task "
                        "classification, multi-label-classification, regression, "
                        "reranking, token-classification and question-answering",
                        "--predictions");
}

bp_status predictions_begin(predictions *p, const bp_class_names *names, const char *path,
                            bp_error *error)
{
    memset(p, 0, sizeof *p);
    p->names = names;
    entities_begin(&p->entities, names, PREDICTIONS_CLASSES);
    if (path == NULL) {
        return BP_OK;
    }
    p->file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (p->file == NULL) {
        return bp_error_set(error, BP_ERR_STORE, where, "the file cannot be made", path);
    }
    output_begin(&p->out, p->file);
    return BP_OK;
}

/* One row of logits and what it should have been. */
typedef struct row {
    const float *logits;
    uint32_t classes;
    bool labelled;
    int32_t label; /* a class, the bits of the classes, or those of a float */
} row;

static uint32_t likeliest(const row *r)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < r->classes; c++) {
        best = r->logits[c] > r->logits[best] ? c : best;
    }
    return best;
}

static double number_of(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Classes whose probability is above a half. */
static uint32_t likely(const row *r)
{
    uint32_t bits = 0;
    for (uint32_t c = 0; c < r->classes; c++) {
        bits |= r->logits[c] > 0.0f ? UINT32_C(1) << c : 0;
    }
    return bits;
}

/* How many classes come before the label. Of equal ones the first comes first, and a NaN never
 * behind, as for the likeliest: a label that is the prediction is among the first. */
static uint32_t rank_of(const row *r)
{
    const uint32_t label = (uint32_t)r->label;
    uint32_t rank = 0;
    for (uint32_t c = 0; c < r->classes; c++) {
        const bool before =
            c < label ? !(r->logits[label] > r->logits[c]) : r->logits[c] > r->logits[label];
        rank += before ? 1 : 0;
    }
    return rank;
}

static void count_class(predictions *p, const row *r)
{
    const uint32_t best = likeliest(r), label = (uint32_t)r->label;
    const bool right = best == label;
    p->counts[best].predicted++;
    p->counts[label].labelled++;
    p->counts[label].right += right ? 1 : 0;
    p->right += right ? 1 : 0;
    p->near += rank_of(r) < PREDICTIONS_TOP ? 1 : 0;
}

static void count_labels(predictions *p, const row *r)
{
    const uint32_t found = likely(r), label = (uint32_t)r->label;
    for (uint32_t c = 0; c < r->classes; c++) {
        p->counts[c].predicted += found >> c & 1;
        p->counts[c].labelled += label >> c & 1;
        p->counts[c].right += (found & label) >> c & 1;
    }
    p->right += found == label ? 1 : 0;
}

static void count_number(predictions *p, const row *r)
{
    number_sums *n = &p->numbers;
    const double found = (double)r->logits[0], given = number_of(r->label);
    const double rows = (double)p->labelled;
    if (p->labelled <= n->rows) {
        n->all[p->labelled - 1] = found;
        n->all[n->rows + p->labelled - 1] = given;
    }
    const double off_found = found - n->mean_found, off_given = given - n->mean_given;
    n->mean_found += off_found / rows;
    n->mean_given += off_given / rows;
    n->square_found += off_found * (found - n->mean_found);
    n->square_given += off_given * (given - n->mean_given);
    n->product += off_found * (given - n->mean_given);
}

static void count(predictions *p, bp_task task, const row *r)
{
    if (task == BP_TASK_RECONSTRUCTION) {
        return; /* the loss says how far off it is */
    }
    if (task == BP_TASK_CLASSES) {
        count_class(p, r);
    } else if (task == BP_TASK_LABELS) {
        count_labels(p, r);
    } else if (task == BP_TASK_RANKING) {
        predictions_ranks_take(p, (double)r->logits[0], number_of(r->label));
    } else {
        count_number(p, r);
    }
}

void predictions_put_class(predictions *p, const char *key, uint32_t class_number)
{
    if (class_number < p->names->count) {
        json_text(&p->out, key, p->names->text + p->names->start[class_number]);
    } else {
        json_count(&p->out, key, class_number);
    }
}

static void put_classes(predictions *p, const char *key, uint32_t bits)
{
    json_list(&p->out, key);
    for (uint32_t c = 0; c < 32; c++) {
        if ((bits >> c & 1) != 0) {
            predictions_put_class(p, NULL, c);
        }
    }
    json_list_end(&p->out);
}

static void put_judgement(predictions *p, const char *key, bp_task task, const row *r, bool label)
{
    if (task == BP_TASK_CLASSES) {
        predictions_put_class(p, key, label ? (uint32_t)r->label : likeliest(r));
    } else if (task == BP_TASK_LABELS) {
        put_classes(p, key, label ? (uint32_t)r->label : likely(r));
    } else {
        const bool chance = task == BP_TASK_RANKING && !p->raw_scores;
        const double found = (double)r->logits[0];
        json_real(&p->out, key,
                  label    ? number_of(r->label)
                  : chance ? 1.0 / (1.0 + exp(-found))
                           : found,
                  9);
    }
}

/* softmax of the likeliest */
static double score_of(const row *r)
{
    const double most = (double)r->logits[likeliest(r)];
    double sum = 0.0;
    for (uint32_t c = 0; c < r->classes; c++) {
        sum += exp((double)r->logits[c] - most);
    }
    return 1.0 / sum;
}

bp_status predictions_row(predictions *p, uint64_t *number)
{
    uint64_t left_out = 0;
    while (p->tokens != NULL && p->left < p->tokens->head.left_out) {
        BP_TRY(bp_tokens_left_out(p->tokens, p->left, &left_out));
        if (left_out != p->next) {
            break;
        }
        p->left++;
        p->next++;
    }
    *number = p->next++;
    return BP_OK;
}

static void predictions_put_row(predictions *p, bp_task task, const row *r, uint64_t index)
{
    json_begin(&p->out);
    json_count(&p->out, "index", index);
    put_judgement(p, "prediction", task, r, false);
    if (task == BP_TASK_CLASSES) {
        json_real(&p->out, "score", score_of(r), 6);
    }
    if (r->labelled) {
        put_judgement(p, "label", task, r, true);
    }
    json_list(&p->out, "logits");
    for (uint32_t c = 0; c < r->classes; c++) {
        json_real(&p->out, NULL, (double)r->logits[c], 9);
    }
    json_list_end(&p->out);
    json_end(&p->out);
}

/* How far a row is from what it was given back as: the mean of squares, by which a row that is not
 * like those learned stands out. */
static void put_error(predictions *p, const row *r, const float *given, uint64_t index)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < r->classes; c++) {
        const double off = (double)r->logits[c] - (double)given[c];
        sum += off * off;
    }
    json_begin(&p->out);
    json_count(&p->out, "index", index);
    json_real(&p->out, "error", sum / (double)r->classes, 9);
    json_end(&p->out);
}

/* Tokens that have a label, of a language model. */
static void count_tokens(predictions *p, const bp_runtime *runtime)
{
    const bp_column *column = bp_group_column(&runtime->group, BP_INPUT_LABELS);
    const uint32_t vocabulary = runtime->plan->spec.config.vocabulary;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        const int32_t *labels = (const int32_t *)column->data + (size_t)i * column->elements;
        const float *logits =
            runtime->logits_host + (size_t)i * runtime->plan->spec.sequence * vocabulary;
        for (uint32_t t = 0; t < runtime->plan->spec.sequence; t++) {
            const row r = {.logits = logits + (size_t)t * vocabulary, .classes = vocabulary};
            if (labels[t] >= 0) {
                p->labelled++;
                p->right += likeliest(&r) == (uint32_t)labels[t] ? 1 : 0;
            }
        }
    }
}

static bp_status predictions_take(void *user, const bp_runtime *runtime)
{
    predictions *p = user;
    const bp_spec *spec = &runtime->plan->spec;
    const bp_task task = spec->config.task;
    if (guesses_tokens(spec)) {
        count_tokens(p, runtime);
        return BP_OK;
    }
    if (task == BP_TASK_TOKENS) {
        return predictions_words_take(p, runtime);
    }
    if (task == BP_TASK_ANSWERS) {
        return predictions_answers_take(p, runtime);
    }
    if (task == BP_TASK_EMBEDDING) {
        return predictions_vectors_take(p, runtime);
    }
    const bp_column *column = bp_group_column(&runtime->group, BP_INPUT_LABELS);
    const bp_column *given = bp_group_column(&runtime->group, BP_INPUT_IDS);
    const int32_t *labels = column->data;
    p->classes = spec->config.classes;
    p->raw_scores = spec->config.raw_scores;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        const row r = {.logits = runtime->logits_host + (size_t)i * spec->config.classes,
                       .classes = spec->config.classes,
                       .labelled = !p->unlabelled,
                       .label = labels[(size_t)i * column->elements]};
        p->rows++;
        p->labelled += r.labelled ? 1 : 0;
        if (r.labelled) {
            count(p, task, &r);
        }
        uint64_t index = 0;
        BP_TRY(p->file != NULL ? predictions_row(p, &index) : BP_OK);
        if (p->file != NULL && task == BP_TASK_RECONSTRUCTION) {
            put_error(p, &r, (const float *)given->data + (size_t)i * given->elements, index);
        } else if (p->file != NULL) {
            predictions_put_row(p, task, &r, index);
        }
    }
    return BP_OK;
}

bp_status predictions_end(predictions *p, const char *path, bp_error *error)
{
    memory_give_back(&p->room);
    if (p->file == NULL) {
        return BP_OK;
    }
    output_end(&p->out);
    const bool failed = ferror(p->file) != 0;
    const bool closed = (p->file == stdout ? fflush(stdout) : fclose(p->file)) == 0;
    p->file = NULL;
    return failed || !closed
               ? bp_error_set(error, BP_ERR_STORE, where, "the file cannot be written", path)
               : BP_OK;
}

void predictions_json_more(const predictions *p, bp_task task, const char *prefix, output *out)
{
    if (p->labelled > 0 && task == BP_TASK_TOKENS) {
        char key[32];
        snprintf(key, sizeof key, "%sentities", prefix);
        entities_json(&p->entities, key, out);
    }
    if (p->labelled > 0 && task == BP_TASK_ANSWERS) {
        predictions_answers_json(p, prefix, out);
    }
}

/* Which data a source was made of. */

bp_status predictions_data_begin(predictions *p, session *s, bp_source *source)
{
    const bp_task task = s->spec.config.task;
    p->source = source;
    return task == BP_TASK_TOKENS       ? predictions_words_begin(p, &s->error)
           : task == BP_TASK_ANSWERS    ? predictions_answers_begin(p, s)
           : task == BP_TASK_EMBEDDING  ? predictions_vectors_begin(p, s)
           : task == BP_TASK_REGRESSION ? predictions_numbers_begin(p, s)
           : task == BP_TASK_RANKING    ? predictions_ranks_begin(p, s)
                                        : BP_OK;
}

bp_status predictions_data_rows(predictions *p, data_set *data)
{
    const uint64_t first = p->source == &data->held_part.source ? data->held_part.first_example : 0;
    data_files *files = p->source == data->held.source ? &data->held : &data->main;
    uint64_t index;
    p->tokens = files->tokens.open ? &files->tokens : NULL;
    p->next = p->left = 0;
    for (uint64_t i = 0; i < first; i++) {
        BP_TRY(predictions_row(p, &index));
    }
    return BP_OK;
}

bp_status predictions_data_end(predictions *p, session *s, data_set *data)
{
    const bp_task task = s->spec.config.task;
    const bool part = p->source == &data->held_part.source;
    const uint64_t first = part ? data->held_part.first_example : 0;
    data_files *files = p->source == data->held.source ? &data->held : &data->main;
    bp_status status = BP_OK;
    if (files->data.format != BP_DATA_TOKENS && task == BP_TASK_TOKENS) {
        status = predictions_words_write(p, s, files, first);
    } else if (files->data.format != BP_DATA_TOKENS && task == BP_TASK_ANSWERS) {
        status = predictions_answers_end(p, s, files, first);
    } else if (task == BP_TASK_EMBEDDING) {
        status = predictions_vectors_end(p);
    } else if (task == BP_TASK_REGRESSION) {
        predictions_numbers_end(p);
    } else if (task == BP_TASK_RANKING) {
        status = predictions_ranks_end(p);
    }
    memory_give_back(&p->room);
    return status;
}
