/* SPDX-License-Identifier: MIT */
/* bedplate train: steps inside the arena, with a log, evaluations, snapshots and an orderly end. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/file/storage.h"
#include "tools/bedplate/checkpoint.h"
#include "tools/bedplate/class_weights.h"
#include "tools/bedplate/data_set.h"
#include "tools/bedplate/lengths_choice.h"
#include "tools/bedplate/eval_cost.h"
#include "tools/bedplate/metric.h"
#include "tools/bedplate/options.h"
#include "tools/bedplate/output.h"
#include "tools/bedplate/predictions_data.h"
#include "tools/bedplate/process_memory.h"
#include "tools/bedplate/progress.h"
#include "tools/bedplate/release_cost.h"
#include "tools/bedplate/rate_choice.h"
#include "tools/bedplate/session.h"
#include "tools/bedplate/signals.h"
#include "tools/bedplate/train_report.h"
#include "tools/bedplate/verbs.h"

/* Why the loop ended. */
typedef enum ending {
    END_COMPLETE,
    END_EARLY, /* evaluations no longer get better */
    END_STOP_STEP,
    END_SIGNAL,
    END_NONFINITE
} ending;

typedef struct training {
    session s;
    data_set data;
    checkpoint points;
    bp_feed feed;
    bp_feed eval_feed;
    uint64_t total;      /* steps of the whole run */
    uint64_t eval_every; /* steps between evaluations, and snapshots; 0: only at the end */
    uint64_t save_every;
    char identity[96];
    progress bar;
    train_totals sum;
    device_memory memory;
    metric_choice metric;
    double eval_loss;
    predictions made;   /* by the last evaluation */
    uint64_t evaluated; /* step of the last evaluation; UINT64_MAX: none */
} training;

static bp_status init_feeds(training *t)
{
    session *s = &t->s;
    const bp_spec *spec = &s->spec;
    t->feed = data_set_feed(&t->data, s, t->data.train);
    t->feed.group = spec->batch * spec->accumulation;
    t->feed.shuffle = true;
    if (s->set->data_seed >= 0) {
        t->feed.seed = (uint64_t)s->set->data_seed;
    }
    BP_TRY(bp_feed_init(&t->feed, &s->error));
    if (t->data.eval == NULL) {
        return BP_OK;
    }
    t->eval_feed = data_set_feed(&t->data, s, t->data.eval);
    t->eval_feed.batch = bp_spec_eval_batch(spec);
    t->eval_feed.group = t->eval_feed.batch;
    return bp_feed_init(&t->eval_feed, &s->error);
}

/* With gradient release all micro-batches of a group go through one program. */
static bp_status choose_lengths(training *t)
{
    const bp_spec *spec = &t->s.spec;
    const bool whole = spec->gradient_release != BP_RELEASE_NONE;
    return lengths_fill(&t->s, &t->feed, whole ? t->feed.group : spec->batch);
}

/* What follows evaluations needs some. */
static bp_status check_evaluation(training *t)
{
    const settings *set = t->s.set;
    bp_error *error = &t->s.error;
    const bool never = strcmp(set->eval_strategy, "no") == 0;
    const bool asked = option_given(set, "eval-strategy") && !never;
    if (t->data.eval == NULL && (set->load_best || set->patience > 0 || asked)) {
        return bp_error_set(error, BP_ERR_USAGE, "train",
                            "the option needs --eval-data or --validation-split",
                            set->load_best      ? "--load-best-model-at-end"
                            : set->patience > 0 ? "--early-stopping-patience"
                                                : "--eval-strategy");
    }
    if (set->patience > 0 && (never || (set->eval_steps == 0 && set->eval_strategy[0] == 's'))) {
        return bp_error_set(error, BP_ERR_USAGE, "train",
                            "the option needs --eval-steps, or --eval-strategy epoch",
                            "--early-stopping-patience");
    }
    return metric_choose(set, t->s.spec.config.task, &t->metric);
}

/* A number of steps, or the word of a strategy; 0: never. */
static uint64_t steps_between(const training *t, const char *strategy, uint64_t steps)
{
    return strcmp(strategy, "steps") == 0   ? steps
           : strcmp(strategy, "epoch") == 0 ? t->feed.steps_per_epoch
                                            : 0;
}

/* The run's length, the schedule that follows from it, and when it is evaluated and saved. */
static bp_status fill_schedule(training *t)
{
    const settings *set = t->s.set;
    double epochs = ceil(set->epochs * (double)t->feed.steps_per_epoch);
    t->total = set->max_steps >= 0 ? (uint64_t)set->max_steps : (uint64_t)epochs;
    t->eval_every = steps_between(t, set->eval_strategy, set->eval_steps);
    t->save_every = steps_between(t, set->save_strategy, set->save_steps);
    /* The first evaluation is the best so far; patience counts those after it, before the end. */
    const uint64_t judged = t->eval_every > 0 && t->total > 0 ? (t->total - 1) / t->eval_every : 0;
    if (set->patience > 0 && judged <= set->patience) {
        fprintf(stderr,
                "bedplate: --early-stopping-patience: the run cannot end early: it has %" PRIu64
                " evaluations before its last step, every %" PRIu64 " of %" PRIu64
                " steps, and would need %" PRIu64 "; --eval-steps makes them more frequent\n",
                judged, t->eval_every, t->total, set->patience + 1);
    }
    return rate_fill(set, t->total, &t->s.spec);
}

/* A technique that is to save bytes and does not is worth a word. */
static bp_status tell_release(training *t)
{
    session *s = &t->s;
    release_cost cost;
    char words[256];
    bp_text text;
    BP_TRY(release_cost_find(&s->spec, s->runtime.report.arena_bytes, &cost, &s->error));
    if (!cost.enlarges || s->set->quiet) {
        return BP_OK;
    }
    bp_text_init(&text, NULL, NULL, words, sizeof words);
    release_cost_put(&text, &cost);
    bp_text_char(&text, '\0');
    BP_TRY(bp_text_flush(&text));
    fprintf(stderr, "bedplate: --gradient-release enlarges this arena: %s\n", words);
    return BP_OK;
}

/* Everything up to the first step: nothing but a token file is written before all of it has
 * succeeded. */
static bp_status prepare(training *t, const settings *set)
{
    session *s = &t->s;
    BP_TRY(session_begin(s, set));
    BP_TRY(bp_spec_check(&s->spec, &s->error));
    BP_TRY(checkpoint_check_directory(s));
    BP_TRY(checkpoint_recall(&t->points, s));
    s->state_follows = t->points.found;
    BP_TRY(data_set_open(&t->data, s));
    BP_TRY(check_evaluation(t));
    BP_TRY(class_weights_fill(s, t->data.train));
    s->spec.evaluate = t->data.eval != NULL;
    BP_TRY(session_choose(s));
    BP_TRY(init_feeds(t));
    BP_TRY(choose_lengths(t));
    BP_TRY(data_set_identity(s, t->data.train, t->identity, sizeof t->identity));
    BP_TRY(fill_schedule(t));
    BP_TRY(session_start(s));
    BP_TRY(tell_release(t));
    uint64_t more;
    BP_TRY(eval_cost_find(&s->runtime.spec, s->runtime.report.arena_bytes, set->quiet, &more,
                          &s->error));
    const checkpoint_facts facts = {t->total, t->identity};
    BP_TRY(checkpoint_begin(&t->points, s, &facts));
    BP_TRY(checkpoint_start(&t->points));
    if (s->store->make_directory(s->store, set->output_dir) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "make directory", set->output_dir);
    }
    BP_TRY(checkpoint_copy_tokenizer(&t->points));
    BP_TRY(session_save_rates(s));
    t->points.snapshot.step = t->total;
    return bp_snapshot_check_space(&t->points.place, &t->points.snapshot);
}

static double epoch_of(const training *t, uint64_t step)
{
    return (double)step / (double)t->feed.steps_per_epoch;
}

static bp_status cmd_train_evaluate(training *t)
{
    session *s = &t->s;
    uint64_t targets;
    if (t->data.eval == NULL || t->evaluated == s->runtime.steps) {
        return BP_OK;
    }
    const bp_evaluated watch = predictions_are_made(&s->spec) ? predictions_take : NULL;
    BP_TRY(predictions_begin(&t->made, &s->names, NULL, &s->error));
    BP_TRY(predictions_data_begin(&t->made, s, t->eval_feed.source));
    BP_TRY(bp_runtime_evaluate_each(&s->runtime, &t->eval_feed, 0, watch, &t->made, &t->eval_loss,
                                    &targets));
    BP_TRY(predictions_data_end(&t->made, s, &t->data));
    t->evaluated = s->runtime.steps;
    const bp_task task = s->spec.config.task;
    const double value = metric_value(&t->metric, t->eval_loss, &t->made, task);
    bool best = best_judge(&t->points.best, &t->metric.rule, t->evaluated, value);
    if (s->set->json) {
        const train_evaluation all = {
            s->runtime.steps, epoch_of(t, s->runtime.steps), t->eval_loss, targets, &t->made, task};
        train_report_eval(&all);
    } else {
        progress_note(&t->bar, "eval loss", t->eval_loss);
    }
    /* The best model so far is on the medium before training goes on. */
    const bool kept = s->set->load_best || strcmp(s->set->save_strategy, "best") == 0;
    return best && kept ? checkpoint_save(&t->points) : BP_OK;
}

static void log_step(training *t, const bp_outcome *outcome)
{
    const settings *set = t->s.set;
    uint64_t step = outcome->step;
    progress_numbers now = train_totals_now(&t->sum, outcome);
    progress_step(&t->bar, &now);
    bool last = step == t->total || step == set->stop_at_step;
    bool first = step == 1 && set->logging_first;
    if (step % set->logging_steps != 0 && !last && !first) {
        return;
    }
    if (set->json) {
        train_report_step(&now, epoch_of(t, step), train_totals_mean(&t->sum),
                          t->s.runtime.report.arena_bytes);
    }
    progress_line(&t->bar, &now);
    train_totals_cut(&t->sum);
}

static bool due(uint64_t step, uint64_t every)
{
    return every != 0 && step % every == 0;
}

static bp_status after_step(training *t, uint64_t step)
{
    if (due(step, t->eval_every)) {
        BP_TRY(cmd_train_evaluate(t));
    }
    return due(step, t->save_every) ? checkpoint_save(&t->points) : BP_OK;
}

static bool out_of_patience(const training *t)
{
    uint64_t most = t->s.set->patience;
    return most > 0 && t->points.best.patience >= most;
}

static bp_status loop(training *t, ending *end)
{
    bp_runtime *runtime = &t->s.runtime;
    uint64_t stop = t->s.set->stop_at_step;
    bool stops = stop != 0 && stop < t->total;
    *end = stops ? END_STOP_STEP : END_COMPLETE;
    while (runtime->steps < (stops ? stop : t->total)) {
        if (out_of_patience(t)) {
            *end = END_EARLY;
            return BP_OK;
        }
        bp_outcome outcome;
        double began = clock_seconds();
        BP_TRY(bp_runtime_step(runtime, &t->feed, &outcome));
        train_totals_add(&t->sum, &outcome, clock_seconds() - began);
        device_memory_step(&t->memory, runtime);
        log_step(t, &outcome);
        if (outcome.nonfinite) {
            *end = END_NONFINITE;
            return BP_OK;
        }
        BP_TRY(after_step(t, runtime->steps));
        if (signals_caught() != 0) {
            *end = END_SIGNAL;
            return BP_OK;
        }
    }
    return BP_OK;
}

static void cmd_train_report(training *t, ending end)
{
    session *s = &t->s;
    const bp_device *device = s->spec.device;
    device_memory_read(&t->memory, &s->runtime);
    const train_summary summary = {
        .steps = s->runtime.steps,
        .skipped = s->runtime.skipped,
        .digest = t->points.digest,
        .arena_bytes = s->runtime.report.arena_bytes,
        .host_bytes = session_host_bytes(s),
        .peak_resident = process_peak(),
        .device_bytes = device->bytes_in_use(s->runtime.device),
        .memory = t->memory,
        .evaluated = t->evaluated != UINT64_MAX,
        .eval_loss = t->eval_loss,
        .made = &t->made,
        .task = s->spec.config.task,
        .best_step = s->set->load_best || s->set->patience > 0 ? t->points.best.step : 0,
        .best_value = t->points.best.value,
        .metric = t->metric.name,
        .continued = t->points.found ? NULL : s->set->continue_from,
        .continued_step = t->points.began,
        .runtime = &s->runtime,
        .early = end == END_EARLY,
        .output_dir = s->set->output_dir,
    };
    train_report_end(&t->sum, &summary, s->set->json);
}

/* Saves, exports a finished model, and says how it went. */
static bp_status cmd_train_finish(training *t, ending end, int *code)
{
    bool finished = end == END_COMPLETE || end == END_EARLY;
    if (finished) {
        BP_TRY(cmd_train_evaluate(t));
    }
    progress_end(&t->bar);
    BP_TRY(checkpoint_save(&t->points));
    if (finished && t->s.set->load_best) {
        BP_TRY(checkpoint_load_best(&t->points));
    }
    if (finished) {
        BP_TRY(checkpoint_export(&t->points));
    }
    cmd_train_report(t, end);
    if (end == END_SIGNAL) {
        *code = 128 + signals_caught();
        fprintf(stderr, "bedplate: stopped by a signal; step %" PRIu64 " is saved\n",
                t->s.runtime.steps);
    } else if (end == END_NONFINITE) {
        *code = bp_status_exit_code(BP_ERR_NONFINITE);
        fprintf(stderr,
                "bedplate: the loss or the gradient norm of step %" PRIu64
                " is not finite; the weights are those before it, and the state is saved\n",
                t->s.runtime.steps);
    }
    return BP_OK;
}

/* Data that cannot be read, or holds what it must not, is found before a step changes anything: the
 * hours until then are saved. */
static bp_status give_up(training *t, bp_status status)
{
    bool whole = (status == BP_ERR_DATA || status == BP_ERR_STORE) && !t->points.failed;
    const bp_error first = t->s.error;
    if (whole && t->points.saved != t->s.runtime.steps && checkpoint_save(&t->points) == BP_OK) {
        fprintf(stderr, "bedplate: step %" PRIu64 " is saved\n", t->s.runtime.steps);
    }
    t->s.error = first;
    return status;
}

static bp_status train(training *t, const settings *set, int *code)
{
    BP_TRY(prepare(t, set));
    signals_watch();
    session *s = &t->s;
    if (s->choice.made) {
        train_report_choice(&s->choice, set->json);
    }
    if (!set->json) {
        train_report_begin(&s->runtime, session_host_bytes(s), t->total, t->feed.steps_per_epoch);
    }
    progress_begin(&t->bar, s->runtime.steps, t->total, set->quiet);
    train_totals_begin(&t->sum, set->began);
    ending end;
    bp_status status = loop(t, &end);
    if (status != BP_OK) {
        progress_end(&t->bar);
        return give_up(t, status);
    }
    return cmd_train_finish(t, end, code);
}

int cmd_train(const settings *set)
{
    static training t; /* large, and it must not move */
    int code = 0;
    t.evaluated = UINT64_MAX;
    bp_status status = train(&t, set, &code);
    if (status != BP_OK) {
        code = session_report(&t.s, status);
    }
    checkpoint_end(&t.points);
    data_set_close(&t.data);
    session_end(&t.s);
    return code;
}
