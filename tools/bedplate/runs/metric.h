/* SPDX-License-Identifier: MIT */
/* The numbers of an evaluation: one table of them, from which logs, JSON, TensorBoard, the metrics
 * file, events (so watch and report) and --metric-for-best-model are served. */
#ifndef BP_BEDPLATE_METRIC_H
#define BP_BEDPLATE_METRIC_H

#include "tools/bedplate/record/json_line.h"
#include "tools/bedplate/runs/best.h"
#include "tools/bedplate/predict/predictions.h"
#include "tools/bedplate/app/settings.h"

enum { METRICS_OF_TASK = 48 }; /* no task has more */

/* What an evaluation, or a step of a loss over pairs, found: its loss first. */
typedef struct metric_list {
    uint32_t count;
    struct {
        const char *name;  /* of members and curves: "f1_macro" */
        const char *words; /* in a line of text: "macro F1"; NULL: of the loss */
        double value;
    } of[METRICS_OF_TASK];
} metric_list;

/* Of an evaluation of that mean loss; the task is predictions_task(). What the data or the options
 * give no number for is left out, such as what is about labels where there are none. */
void metric_list_of(metric_list *list, bp_task task, double loss, const predictions *made);

/* Those of pairs alone, of training steps, or the balancing loss; else none. */
void metric_list_of_steps(metric_list *list, const preference_metrics *sums);

/* Members PREFIX"loss", PREFIX"accuracy", ..; and ", accuracy 0.9000, macro F1 0.8900" without the
 * loss. */
void metric_list_json(const metric_list *list, const char *prefix, output *out);
void metric_list_text(const metric_list *list, bp_text *text);

typedef struct metric_choice {
    const char *name; /* as evaluations print it, without "eval_" */
    best_rule rule;
} metric_choice;

/* Whether the run counts tokens that a language model guesses right: it asks for that, or finds the
 * best model by it. Evaluations then keep logits. */
bool metric_counts_tokens(const settings *set);

/* --metric-for-best-model. BP_ERR_USAGE, printed, where evaluations of the task have no such
 * number. */
bp_status metric_choose(const settings *set, const bp_spec *spec,
                        metric_choice *metric) BP_MUST_CHECK;

/* That, and whether a run whose options follow evaluations has any: held_out says whether there are
 * data for them. BP_ERR_USAGE. */
bp_status metric_check(const settings *set, const bp_spec *spec, bool held_out,
                       metric_choice *metric, bp_error *error) BP_MUST_CHECK;

/* Its value in an evaluation of that mean loss; NaN: it has none. */
double metric_value(const metric_choice *metric, double loss, const predictions *made,
                    bp_task task);

#endif
