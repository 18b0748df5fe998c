/* SPDX-License-Identifier: MIT */
/* Metrics by name: those of the loss, and those of predictions. */
#include "tools/bedplate/runs/metric.h"

#include <math.h>
#include <string.h>

#include "tools/bedplate/app/options.h"

#define NAMES_MAX 16
#define LOG_2     0.69314718055994531

static double itself(double loss)
{
    return loss;
}

static double bits_of(double loss)
{
    return loss / LOG_2;
}

/* Of all of these less is better. Only the first is one where a loss is per row. */
static const struct {
    const char *name;
    double (*of)(double loss);
} of_loss[] = {{"loss", itself}, {"perplexity", exp}, {"bits_per_token", bits_of}};

/* How many of them evaluations of the task have. */
static size_t losses_of(bp_task task)
{
    return task >= BP_TASK_CLASSES ? 1 : sizeof of_loss / sizeof of_loss[0];
}

static const char *without_prefix(const char *name)
{
    return strncmp(name, "eval_", 5) == 0 ? name + 5 : name;
}

bool metric_counts_tokens(const settings *set)
{
    return set->token_accuracy || (set->metric != NULL && strcmp(without_prefix(set->metric),
                                                                 predictions_token_accuracy) == 0);
}

/* All names of the task's metrics, those of the loss first. */
static uint32_t metric_names(bp_task task, uint32_t classes, const char *names[NAMES_MAX])
{
    uint32_t count = 0;
    const char *name;
    for (size_t i = 0; i < losses_of(task); i++) {
        names[count++] = of_loss[i].name;
    }
    for (uint32_t i = 0; (name = predictions_metric(NULL, task, i, NULL)) != NULL; i++) {
        names[count] = name;
        count += predictions_metric_says(task, name, classes) ? 1 : 0;
    }
    return count;
}

bp_status metric_choose(const settings *set, const bp_spec *spec, metric_choice *metric)
{
    const bp_task task = predictions_task(spec);
    const char *names[NAMES_MAX];
    const char *asked = without_prefix(set->metric);
    const uint32_t count = metric_names(task, spec->config.classes, names);
    uint32_t i = 0;
    while (i < count && strcmp(names[i], asked) != 0) {
        i++;
    }
    if (i == count) {
        options_unknown("value of --metric-for-best-model for this task", asked, names, count);
        return BP_ERR_USAGE;
    }
    const bool usual = i >= losses_of(task);
    const bool given = set->greater[0] != 'a';
    *metric = (metric_choice){
        .name = names[i],
        .rule = {.greater = given ? set->greater[0] == 't' : usual, .threshold = set->threshold}};
    return BP_OK;
}

double metric_value(const metric_choice *metric, double loss, const predictions *made, bp_task task)
{
    double value = loss;
    const char *name;
    for (size_t i = 0; i < losses_of(task); i++) {
        if (strcmp(of_loss[i].name, metric->name) == 0) {
            return of_loss[i].of(loss);
        }
    }
    for (uint32_t i = 0; (name = predictions_metric(made, task, i, &value)) != NULL; i++) {
        if (strcmp(name, metric->name) == 0) {
            return value;
        }
    }
    return value;
}
