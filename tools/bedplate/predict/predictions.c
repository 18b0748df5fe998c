/* SPDX-License-Identifier: MIT */
/* Predictions from kept logits. */
#include "tools/bedplate/predict/predictions.h"

#include <math.h>
#include <string.h>

#include "tools/bedplate/predict/predictions_answers.h"
#include "tools/bedplate/predict/predictions_vectors.h"
#include "tools/bedplate/predict/predictions_words.h"
#include "tools/bedplate/predict/predictions_data.h"

/* A bp_evaluated; user is the record. */
static bp_status predictions_take(void *user, const bp_runtime *runtime);

static const char where[] = "predictions";

bp_task predictions_task(const bp_spec *spec)
{
    return spec->preference.kind != BP_PREFERENCE_NONE ? PREDICTIONS_PAIRS : spec->config.task;
}

const char predictions_token_accuracy[] = "token_accuracy";

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
    if (path == NULL || predictions_are_made(spec)) {
        return BP_OK;
    }
    return bp_error_set(error, BP_ERR_USAGE, where,
                        "a language model predicts no labels; the option goes with --task "
                        "classification, multi-label-classification, regression, "
                        "token-classification and question-answering",
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
    } else {
        count_number(p, r);
    }
}

static void put_class(const predictions *p, bp_text *text, uint32_t class_number)
{
    if (class_number < p->names->count) {
        bp_text_json(text, p->names->text + p->names->start[class_number]);
    } else {
        bp_text_u64(text, class_number);
    }
}

void predictions_put_class(predictions *p, uint32_t class_number)
{
    put_class(p, &p->out.text, class_number);
}

static void put_classes(const predictions *p, bp_text *text, uint32_t bits)
{
    bool first = true;
    bp_text_char(text, '[');
    for (uint32_t c = 0; bits >> c != 0; c++) {
        if ((bits >> c & 1) != 0) {
            bp_text_string(text, first ? "" : ", ");
            put_class(p, text, c);
            first = false;
        }
        if (c == 31) {
            break;
        }
    }
    bp_text_char(text, ']');
}

static void put_judgement(const predictions *p, bp_text *text, bp_task task, const row *r,
                          bool label)
{
    if (task == BP_TASK_CLASSES) {
        put_class(p, text, label ? (uint32_t)r->label : likeliest(r));
    } else if (task == BP_TASK_LABELS) {
        put_classes(p, text, label ? (uint32_t)r->label : likely(r));
    } else {
        bp_text_json_number(text, label ? number_of(r->label) : (double)r->logits[0], 9);
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
    bp_text *text = &p->out.text;
    json_begin(&p->out);
    json_count(&p->out, "index", index);
    bp_text_string(text, ", \"prediction\": ");
    put_judgement(p, text, task, r, false);
    if (task == BP_TASK_CLASSES) {
        json_real(&p->out, "score", score_of(r), 6);
    }
    if (r->labelled) {
        bp_text_string(text, ", \"label\": ");
        put_judgement(p, text, task, r, true);
    }
    bp_text_string(text, ", \"logits\": [");
    for (uint32_t c = 0; c < r->classes; c++) {
        bp_text_string(text, c > 0 ? ", " : "");
        bp_text_json_number(text, (double)r->logits[c], 9);
    }
    bp_text_char(text, ']');
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
    const uint32_t vocabulary = runtime->spec.config.vocabulary;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        const int32_t *labels = (const int32_t *)column->data + (size_t)i * column->elements;
        const float *logits =
            runtime->logits_host + (size_t)i * runtime->spec.sequence * vocabulary;
        for (uint32_t t = 0; t < runtime->spec.sequence; t++) {
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
    const bp_spec *spec = &runtime->spec;
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

static double accuracy_of(const predictions *p)
{
    return (double)p->right / (double)p->labelled;
}

static double accuracy_top_of(const predictions *p)
{
    return (double)p->near / (double)p->labelled;
}

/* 2 right / (predicted + labelled), the harmonic mean of precision and recall. */
static double f1_of(const class_counts *c)
{
    const uint64_t both = c->predicted + c->labelled;
    return both > 0 ? 2.0 * (double)c->right / (double)both : 0.0;
}

static double f1_macro(const predictions *p)
{
    double sum = 0.0;
    uint32_t occur = 0;
    for (uint32_t c = 0; c < PREDICTIONS_CLASSES; c++) {
        sum += f1_of(&p->counts[c]);
        occur += p->counts[c].predicted + p->counts[c].labelled > 0 ? 1 : 0;
    }
    return occur > 0 ? sum / (double)occur : 0.0;
}

/* Matthews' coefficient of many classes (Gorodkin, 2004), as GLUE's CoLA is judged: 0 where
 * predictions or labels are all of one class. */
static double matthews(const predictions *p)
{
    double rows = 0.0, right = 0.0, both = 0.0, found = 0.0, given = 0.0;
    for (uint32_t c = 0; c < PREDICTIONS_CLASSES; c++) {
        const class_counts *of = &p->counts[c];
        rows += (double)of->labelled;
        right += (double)of->right;
        both += (double)of->predicted * (double)of->labelled;
        found += (double)of->predicted * (double)of->predicted;
        given += (double)of->labelled * (double)of->labelled;
    }
    const double spread = (rows * rows - found) * (rows * rows - given);
    return spread > 0.0 ? (right * rows - both) / sqrt(spread) : 0.0;
}

static double f1_micro(const predictions *p)
{
    class_counts all = {.right = 0};
    for (uint32_t c = 0; c < PREDICTIONS_CLASSES; c++) {
        all.labelled += p->counts[c].labelled;
        all.predicted += p->counts[c].predicted;
        all.right += p->counts[c].right;
    }
    return f1_of(&all);
}

/* No number where one of the two does not vary. */
static double pearson_of(const predictions *p)
{
    return p->numbers.product / sqrt(p->numbers.square_found * p->numbers.square_given);
}

static double spearman_of(const predictions *p)
{
    return p->numbers.spearman;
}

void predictions_put_member(output *out, const char *prefix, const char *name, double value)
{
    char key[32];
    snprintf(key, sizeof key, "%s%s", prefix, name);
    json_real(out, key, value, 9);
}

static double entity_precision_of(const predictions *p)
{
    const entity_counts all = entities_all(&p->entities);
    return entity_precision(&all);
}

static double entity_recall_of(const predictions *p)
{
    const entity_counts all = entities_all(&p->entities);
    return entity_recall(&all);
}

static double entity_f1_of(const predictions *p)
{
    const entity_counts all = entities_all(&p->entities);
    return entity_f1(&all);
}

/* A number about predictions, and what a line of text calls it. */
typedef struct prediction_metric {
    bp_task task;
    const char *name;
    const char *words;
    double (*of)(const predictions *p);
} prediction_metric;

static const char top_name[] = "accuracy_top_5";

static const prediction_metric metrics[] = {
    {BP_TASK_CAUSAL_LM, predictions_token_accuracy, ", token accuracy ", accuracy_of},
    {BP_TASK_MASKED_LM, predictions_token_accuracy, ", token accuracy ", accuracy_of},
    {BP_TASK_CLASSES, "accuracy", ", accuracy ", accuracy_of},
    {BP_TASK_CLASSES, top_name, ", top-5 accuracy ", accuracy_top_of},
    {BP_TASK_CLASSES, "f1_macro", ", macro F1 ", f1_macro},
    {BP_TASK_CLASSES, "matthews_correlation", ", Matthews ", matthews},
    {BP_TASK_LABELS, "accuracy", ", accuracy ", accuracy_of},
    {BP_TASK_LABELS, "f1_micro", ", micro F1 ", f1_micro},
    {BP_TASK_REGRESSION, "pearson", ", Pearson ", pearson_of},
    {BP_TASK_REGRESSION, "spearman", ", Spearman ", spearman_of},
    {BP_TASK_TOKENS, "accuracy", ", accuracy ", accuracy_of},
    {BP_TASK_TOKENS, "precision", ", precision ", entity_precision_of},
    {BP_TASK_TOKENS, "recall", ", recall ", entity_recall_of},
    {BP_TASK_TOKENS, "f1", ", F1 ", entity_f1_of},
    {BP_TASK_ANSWERS, "exact_match", ", exact match ", predictions_exact_match},
    {BP_TASK_ANSWERS, "f1", ", F1 ", predictions_answer_f1},
    {BP_TASK_EMBEDDING, "spearman_cosine", ", Spearman ", predictions_spearman_cosine},
    {BP_TASK_EMBEDDING, "pearson_cosine", ", Pearson ", predictions_pearson_cosine},
    {BP_TASK_EMBEDDING, "recall_at_1", ", recall at 1 ", predictions_recall_1},
    {BP_TASK_EMBEDDING, "recall_at_3", ", at 3 ", predictions_recall_3},
    {BP_TASK_EMBEDDING, "recall_at_5", ", at 5 ", predictions_recall_5},
    {BP_TASK_EMBEDDING, "recall_at_10", ", at 10 ", predictions_recall_10},
    {BP_TASK_EMBEDDING, "mrr_at_10", ", MRR at 10 ", predictions_mrr_10},
};

static const prediction_metric *metric_at(bp_task task, uint32_t index)
{
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        if (metrics[i].task == task && index-- == 0) {
            return &metrics[i];
        }
    }
    return NULL;
}

bool predictions_metric_says(bp_task task, const char *name, uint32_t classes)
{
    return task != BP_TASK_CLASSES || classes > PREDICTIONS_TOP || strcmp(name, top_name) != 0;
}

/* Of vectors those that the data has no word about are left out. */
static bool metric_counts(const predictions *p, const prediction_metric *metric)
{
    return predictions_metric_says(metric->task, metric->name, p->classes) &&
           (metric->task != BP_TASK_EMBEDDING || !isnan(metric->of(p)));
}

const char *predictions_metric(const predictions *p, bp_task task, uint32_t index, double *value)
{
    const prediction_metric *metric = metric_at(task, index);
    if (task == PREDICTIONS_PAIRS) {
        if (preference_metrics_name(index) != NULL && p != NULL) {
            *value = preference_metrics_value(&p->told, index);
        }
        return preference_metrics_name(index);
    }
    if (metric != NULL && p != NULL) {
        *value = metric->of(p);
    }
    return metric != NULL ? metric->name : NULL;
}

void predictions_json(const predictions *p, bp_task task, const char *prefix, output *out)
{
    const prediction_metric *metric;
    preference_metrics_json(&p->told, prefix, out);
    for (uint32_t i = 0; p->labelled > 0 && (metric = metric_at(task, i)) != NULL; i++) {
        if (metric_counts(p, metric)) {
            predictions_put_member(out, prefix, metric->name, metric->of(p));
        }
    }
    if (p->labelled > 0 && task == BP_TASK_TOKENS) {
        char key[32];
        snprintf(key, sizeof key, "%sentities", prefix);
        entities_json(&p->entities, key, out);
    }
    if (p->labelled > 0 && task == BP_TASK_ANSWERS) {
        predictions_answers_json(p, prefix, out);
    }
}

void predictions_text(const predictions *p, bp_task task, bp_text *text)
{
    const prediction_metric *metric;
    preference_metrics_text(&p->told, text);
    for (uint32_t i = 0; p->labelled > 0 && (metric = metric_at(task, i)) != NULL; i++) {
        if (metric_counts(p, metric)) {
            bp_text_string(text, metric->words);
            bp_text_fixed(text, metric->of(p), 4);
        }
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
    }
    memory_give_back(&p->room);
    return status;
}
