/* SPDX-License-Identifier: MIT */
/* The one table of what evaluations are judged by, and who asks it. */
#include "tools/bedplate/runs/metric.h"

#include <math.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/predict/predictions_answers.h"
#include "tools/bedplate/predict/predictions_vectors.h"

#define LOG_2 0.69314718055994531

/* What a number is computed from. */
typedef struct metric_source {
    double loss;
    const predictions *made;
    const preference_metrics *sums;
} metric_source;

static double metric_loss(const metric_source *m)
{
    return m->loss;
}

static double metric_perplexity(const metric_source *m)
{
    return exp(m->loss);
}

static double metric_bits(const metric_source *m)
{
    return m->loss / LOG_2;
}

static double metric_wer(const metric_source *m)
{
    const predictions *p = m->made;
    return p->words > 0 ? (double)p->word_errors / (double)p->words : (double)NAN;
}

static double metric_accuracy(const metric_source *m)
{
    const predictions *p = m->made;
    return (double)p->right / (double)p->labelled;
}

static double metric_accuracy_top(const metric_source *m)
{
    const predictions *p = m->made;
    return (double)p->near / (double)p->labelled;
}

/* 2 right / (predicted + labelled), the harmonic mean of precision and recall. */
static double metric_f1(const class_counts *c)
{
    const uint64_t both = c->predicted + c->labelled;
    return both > 0 ? 2.0 * (double)c->right / (double)both : 0.0;
}

static double metric_f1_macro(const metric_source *m)
{
    const predictions *p = m->made;
    double sum = 0.0;
    uint32_t occur = 0;
    for (uint32_t c = 0; c < PREDICTIONS_CLASSES; c++) {
        sum += metric_f1(&p->counts[c]);
        occur += p->counts[c].predicted + p->counts[c].labelled > 0 ? 1 : 0;
    }
    return occur > 0 ? sum / (double)occur : 0.0;
}

/* Matthews' coefficient of many classes (Gorodkin, 2004), as GLUE's CoLA is judged: 0 where
 * predictions or labels are all of one class. */
static double metric_matthews(const metric_source *m)
{
    const predictions *p = m->made;
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

static double metric_f1_micro(const metric_source *m)
{
    const predictions *p = m->made;
    class_counts all = {.right = 0};
    for (uint32_t c = 0; c < PREDICTIONS_CLASSES; c++) {
        all.labelled += p->counts[c].labelled;
        all.predicted += p->counts[c].predicted;
        all.right += p->counts[c].right;
    }
    return metric_f1(&all);
}

/* No number where one of the two does not vary. */
static double metric_pearson(const metric_source *m)
{
    const predictions *p = m->made;
    return p->numbers.product / sqrt(p->numbers.square_found * p->numbers.square_given);
}

static double metric_spearman(const metric_source *m)
{
    const predictions *p = m->made;
    return p->numbers.spearman;
}

static double metric_entity_precision(const metric_source *m)
{
    const predictions *p = m->made;
    const entity_counts all = entities_all(&p->entities);
    return entity_precision(&all);
}

static double metric_entity_recall(const metric_source *m)
{
    const predictions *p = m->made;
    const entity_counts all = entities_all(&p->entities);
    return entity_recall(&all);
}

static double metric_entity_f1(const metric_source *m)
{
    const predictions *p = m->made;
    const entity_counts all = entities_all(&p->entities);
    return entity_f1(&all);
}

static double metric_exact_match(const metric_source *m)
{
    return predictions_exact_match(m->made);
}

static double metric_answer_f1(const metric_source *m)
{
    return predictions_answer_f1(m->made);
}

static double metric_spearman_cosine(const metric_source *m)
{
    return predictions_spearman_cosine(m->made);
}

static double metric_pearson_cosine(const metric_source *m)
{
    return predictions_pearson_cosine(m->made);
}

static double metric_recall_1(const metric_source *m)
{
    return predictions_recall_1(m->made);
}

static double metric_recall_3(const metric_source *m)
{
    return predictions_recall_3(m->made);
}

static double metric_recall_5(const metric_source *m)
{
    return predictions_recall_5(m->made);
}

static double metric_recall_10(const metric_source *m)
{
    return predictions_recall_10(m->made);
}

static double metric_mrr_10(const metric_source *m)
{
    return predictions_mrr_10(m->made);
}

/* Of images that search for their texts. */
static double metric_image_recall_1(const metric_source *m)
{
    return predictions_recall_back(m->made, 0);
}

static double metric_image_recall_5(const metric_source *m)
{
    return predictions_recall_back(m->made, 2);
}

static double metric_image_recall_10(const metric_source *m)
{
    return predictions_recall_back(m->made, 3);
}

static double metric_has_answer_exact(const metric_source *m)
{
    return predictions_answers_share(m->made, 0, true);
}

static double metric_has_answer_f1(const metric_source *m)
{
    return predictions_answers_share(m->made, 0, false);
}

static double metric_no_answer_exact(const metric_source *m)
{
    return predictions_answers_share(m->made, 1, true);
}

static double metric_no_answer_f1(const metric_source *m)
{
    return predictions_answers_share(m->made, 1, false);
}

static double metric_mean(const preference_metrics *sums, uint32_t number, uint32_t side)
{
    const double count = sums->of[BP_METRIC_COUNT + side];
    return count > 0.0 ? sums->of[number + side] / count : (double)NAN;
}

static double metric_reward_chosen(const metric_source *m)
{
    return metric_mean(m->sums, BP_METRIC_REWARD, 0);
}

static double metric_reward_rejected(const metric_source *m)
{
    return metric_mean(m->sums, BP_METRIC_REWARD, 1);
}

static double metric_margin(const metric_source *m)
{
    return metric_reward_chosen(m) - metric_reward_rejected(m);
}

static double metric_pair_accuracy(const metric_source *m)
{
    const preference_metrics *sums = m->sums;
    const bool pairs = sums->kind != BP_PREFERENCE_KTO;
    return pairs ? sums->of[BP_METRIC_RIGHT] / sums->of[BP_METRIC_COUNT] : (double)NAN;
}

static double metric_logp_chosen(const metric_source *m)
{
    return metric_mean(m->sums, BP_METRIC_LOGP, 0);
}

static double metric_logp_rejected(const metric_source *m)
{
    return metric_mean(m->sums, BP_METRIC_LOGP, 1);
}

static double metric_chosen_loss(const metric_source *m)
{
    const preference_metrics *sums = m->sums;
    return sums->chosen_losses ? sums->of[BP_METRIC_MORE] / sums->of[BP_METRIC_COUNT] : (double)NAN;
}

static double metric_divergence(const metric_source *m)
{
    const preference_metrics *sums = m->sums;
    const double rows = sums->of[BP_METRIC_COUNT] + sums->of[BP_METRIC_COUNT + 1];
    return sums->kind == BP_PREFERENCE_KTO ? sums->of[BP_METRIC_MORE] / rows : (double)NAN;
}

/* The mean of the steps'; an evaluation has none. */
static double metric_balance(const metric_source *m)
{
    const preference_metrics *sums = m->sums;
    return sums->balances && sums->steps > 0 ? sums->of[0] / (double)sums->steps : (double)NAN;
}

static double metric_average_precision(const metric_source *m)
{
    return m->made->ranks.average_precision;
}

static double metric_ranked(const metric_source *m, double sum)
{
    return sum / (double)m->made->ranks.queries;
}

static double metric_map(const metric_source *m)
{
    return metric_ranked(m, m->made->ranks.map);
}

static double metric_rank_mrr(const metric_source *m)
{
    return metric_ranked(m, m->made->ranks.mrr);
}

static double metric_ndcg(const metric_source *m)
{
    return metric_ranked(m, m->made->ranks.ndcg);
}

#define METRIC_TASK(task) (UINT32_C(1) << (uint32_t)(task))
#define METRIC_EVERY      UINT32_MAX
#define METRIC_LANGUAGE   (METRIC_TASK(BP_TASK_CAUSAL_LM) | METRIC_TASK(BP_TASK_MASKED_LM))
#define METRIC_PAIRS      METRIC_TASK(PREDICTIONS_PAIRS)

typedef enum metric_better { LESS, MORE } metric_better;

/* In the order in which they are written. NaN: an evaluation has no such number. */
static const struct metric_row {
    uint32_t tasks;
    const char *name;
    const char *words;
    double (*of)(const metric_source *m);
    metric_better better;
} rows[] = {
    {METRIC_EVERY, "loss", NULL, metric_loss, LESS},
    {METRIC_LANGUAGE, "perplexity", "perplexity", metric_perplexity, LESS},
    {METRIC_LANGUAGE, "bits_per_token", "bits per token", metric_bits, LESS},
    {METRIC_TASK(BP_TASK_CAUSAL_LM), "wer", "word error rate", metric_wer, LESS},
    {METRIC_LANGUAGE, "token_accuracy", "token accuracy", metric_accuracy, MORE},
    {METRIC_TASK(BP_TASK_CLASSES) | METRIC_TASK(BP_TASK_LABELS) | METRIC_TASK(BP_TASK_TOKENS) |
         METRIC_TASK(BP_TASK_RANKING),
     "accuracy", "accuracy", metric_accuracy, MORE},
    {METRIC_TASK(BP_TASK_CLASSES), "accuracy_top_5", "top-5 accuracy", metric_accuracy_top, MORE},
    {METRIC_TASK(BP_TASK_CLASSES), "f1_macro", "macro F1", metric_f1_macro, MORE},
    {METRIC_TASK(BP_TASK_CLASSES), "matthews_correlation", "Matthews", metric_matthews, MORE},
    {METRIC_TASK(BP_TASK_LABELS), "f1_micro", "micro F1", metric_f1_micro, MORE},
    {METRIC_TASK(BP_TASK_REGRESSION), "pearson", "Pearson", metric_pearson, MORE},
    {METRIC_TASK(BP_TASK_REGRESSION), "spearman", "Spearman", metric_spearman, MORE},
    {METRIC_TASK(BP_TASK_RANKING), "average_precision", "average precision",
     metric_average_precision, MORE},
    {METRIC_TASK(BP_TASK_RANKING), "map", "MAP", metric_map, MORE},
    {METRIC_TASK(BP_TASK_RANKING), "mrr_at_10", "MRR at 10", metric_rank_mrr, MORE},
    {METRIC_TASK(BP_TASK_RANKING), "ndcg_at_10", "nDCG at 10", metric_ndcg, MORE},
    {METRIC_TASK(BP_TASK_TOKENS), "precision", "precision", metric_entity_precision, MORE},
    {METRIC_TASK(BP_TASK_TOKENS), "recall", "recall", metric_entity_recall, MORE},
    {METRIC_TASK(BP_TASK_TOKENS), "f1", "F1", metric_entity_f1, MORE},
    {METRIC_TASK(BP_TASK_ANSWERS), "exact_match", "exact match", metric_exact_match, MORE},
    {METRIC_TASK(BP_TASK_ANSWERS), "f1", "F1", metric_answer_f1, MORE},
    {METRIC_TASK(BP_TASK_ANSWERS), "HasAns_exact", "HasAns exact match", metric_has_answer_exact,
     MORE},
    {METRIC_TASK(BP_TASK_ANSWERS), "HasAns_f1", "HasAns F1", metric_has_answer_f1, MORE},
    {METRIC_TASK(BP_TASK_ANSWERS), "NoAns_exact", "NoAns exact match", metric_no_answer_exact,
     MORE},
    {METRIC_TASK(BP_TASK_ANSWERS), "NoAns_f1", "NoAns F1", metric_no_answer_f1, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "spearman_cosine", "Spearman", metric_spearman_cosine, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "pearson_cosine", "Pearson", metric_pearson_cosine, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "recall_at_1", "recall at 1", metric_recall_1, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "recall_at_3", "at 3", metric_recall_3, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "recall_at_5", "at 5", metric_recall_5, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "recall_at_10", "at 10", metric_recall_10, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "mrr_at_10", "MRR at 10", metric_mrr_10, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "image_recall_at_1", "images find texts at 1",
     metric_image_recall_1, MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "image_recall_at_5", "images at 5", metric_image_recall_5,
     MORE},
    {METRIC_TASK(BP_TASK_EMBEDDING), "image_recall_at_10", "images at 10", metric_image_recall_10,
     MORE},
    {METRIC_PAIRS, "rewards/accuracies", "rewards/accuracies", metric_pair_accuracy, MORE},
    {METRIC_PAIRS, "rewards/margins", "rewards/margins", metric_margin, MORE},
    {METRIC_PAIRS, "rewards/chosen", "rewards/chosen", metric_reward_chosen, MORE},
    {METRIC_PAIRS, "rewards/rejected", "rewards/rejected", metric_reward_rejected, MORE},
    {METRIC_PAIRS, "logps/chosen", "logps/chosen", metric_logp_chosen, MORE},
    {METRIC_PAIRS, "logps/rejected", "logps/rejected", metric_logp_rejected, MORE},
    {METRIC_PAIRS, "nll_loss", "nll_loss", metric_chosen_loss, LESS},
    {METRIC_PAIRS, "kl", "kl", metric_divergence, LESS},
    {METRIC_PAIRS, "aux_loss", "aux_loss", metric_balance, LESS},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* The next row of the task from `from` on; ROWS: none. */
static uint32_t metric_next(bp_task task, uint32_t from)
{
    while (from < ROWS && (rows[from].tasks & METRIC_TASK(task)) == 0) {
        from++;
    }
    return from;
}

/* Among PREDICTIONS_TOP or fewer classes the label is always one of the likeliest. */
static bool metric_is_shown(uint32_t row, uint32_t classes)
{
    return rows[row].of != metric_accuracy_top || classes > PREDICTIONS_TOP;
}

/* NaN also where nothing was counted that the row is about: pairs, or labels. */
static double metric_of(const struct metric_row *row, const metric_source *source)
{
    const bool of_loss =
        row->of == metric_loss || row->of == metric_perplexity || row->of == metric_bits;
    const bool of_words = row->of == metric_wer;
    const preference_metrics *sums = source->sums;
    const bool counted = row->tasks == METRIC_PAIRS
                             ? sums->kind != BP_PREFERENCE_NONE || sums->balances
                             : of_loss || of_words || source->made->labelled > 0;
    return counted ? row->of(source) : (double)NAN;
}

static void metric_list_fill(metric_list *list, bp_task task, uint32_t from,
                             const metric_source *source)
{
    list->count = 0;
    for (uint32_t i = metric_next(task, from); i < ROWS; i = metric_next(task, i + 1)) {
        const struct metric_row *row = &rows[i];
        const double value = metric_of(row, source);
        const bool told = row->of == metric_loss || !isnan(value);
        const uint32_t classes = source->made != NULL ? source->made->classes : 0;
        if (told && metric_is_shown(i, classes) && list->count < METRICS_OF_TASK) {
            list->of[list->count].name = row->name;
            list->of[list->count].words = row->words;
            list->of[list->count++].value = value;
        }
    }
}

void metric_list_of(metric_list *list, bp_task task, double loss, const predictions *made)
{
    metric_list_fill(list, task, 0, &(metric_source){loss, made, &made->told});
}

void metric_list_of_steps(metric_list *list, const preference_metrics *sums)
{
    metric_list_fill(list, PREDICTIONS_PAIRS, 1, &(metric_source){(double)NAN, NULL, sums});
}

void metric_list_json(const metric_list *list, const char *prefix, output *out)
{
    char key[96];
    for (uint32_t i = 0; i < list->count; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, list->of[i].name);
        json_real(out, key, list->of[i].value, list->of[i].words == NULL ? 12 : 9);
    }
}

void metric_list_text(const metric_list *list, bp_text *text)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->of[i].words != NULL) {
            bp_text_string(text, ", ");
            bp_text_string(text, list->of[i].words);
            bp_text_char(text, ' ');
            bp_text_fixed(text, list->of[i].value, 4);
        }
    }
}

static const char *without_prefix(const char *name)
{
    return strncmp(name, "eval_", 5) == 0 ? name + 5 : name;
}

bool metric_counts_tokens(const settings *set)
{
    return set->token_accuracy ||
           (set->metric != NULL && strcmp(without_prefix(set->metric), "token_accuracy") == 0);
}

bp_status metric_choose(const settings *set, const bp_spec *spec, metric_choice *metric)
{
    const bp_task task = predictions_task(spec);
    const char *names[METRICS_OF_TASK];
    const char *asked = without_prefix(set->metric);
    uint32_t count = 0;
    for (uint32_t i = metric_next(task, 0); i < ROWS; i = metric_next(task, i + 1)) {
        if (!metric_is_shown(i, spec->config.classes) ||
            (rows[i].of == metric_wer && !model_hears(&spec->config))) {
            continue;
        }
        if (strcmp(rows[i].name, asked) == 0) {
            const bool given = set->greater[0] != 'a';
            *metric = (metric_choice){
                .name = rows[i].name,
                .rule = {.greater = given ? set->greater[0] == 't' : rows[i].better == MORE,
                         .threshold = set->threshold}};
            return BP_OK;
        }
        names[count++] = rows[i].name;
    }
    options_unknown("--metric-for-best-model", "metric of this task", asked, names, count);
    return BP_ERR_USAGE;
}

bp_status metric_check(const settings *set, const bp_spec *spec, bool held_out,
                       metric_choice *metric, bp_error *error)
{
    const bool never = strcmp(set->eval_strategy, "no") == 0;
    const bool asked = option_said(set, "eval-strategy") && !never;
    const bool best = strcmp(set->save_strategy, "best") == 0;
    if (!held_out && (set->load_best || set->keep_best || best || set->patience > 0 || asked)) {
        return bp_error_set(error, BP_ERR_USAGE, "train",
                            "the option needs --eval-data or --validation-split",
                            set->load_best      ? "--load-best-model-at-end"
                            : set->keep_best    ? "--keep-best"
                            : best              ? "--save-strategy best"
                            : set->patience > 0 ? "--early-stopping-patience"
                                                : "--eval-strategy");
    }
    if (set->patience > 0 && (never || (set->eval_steps <= 0.0 && set->eval_strategy[0] == 's'))) {
        return bp_error_set(error, BP_ERR_USAGE, "train",
                            "the option needs --eval-steps, or --eval-strategy epoch",
                            "--early-stopping-patience");
    }
    return metric_choose(set, spec, metric);
}

double metric_value(const metric_choice *metric, double loss, const predictions *made, bp_task task)
{
    const metric_source source = {loss, made, &made->told};
    for (uint32_t i = metric_next(task, 0); i < ROWS; i = metric_next(task, i + 1)) {
        if (strcmp(rows[i].name, metric->name) == 0) {
            return rows[i].of(&source);
        }
    }
    return loss;
}
